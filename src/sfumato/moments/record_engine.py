"""The record engine: Gaussians of the classes from a few noisy sums, and rows drawn from them.

Rows are first brought into the unit ball by their public bounds. Then

1. ``sum [z; |z|²; 1]`` gives a private mean and the spread of the rows around it;
2. ``sum (z - mean)(z - mean)ᵀ``, rows clipped at that spread, gives private directions U;
3. ``sum_{y=c} [u; w][u; w]ᵀ`` with ``u = Uᵀ(z - mean)``, clipped at the spread along U, gives one
   Gaussian a class;
4. where the budget allows, each class is cut into 2 or 4 parts at the mean and along the first
   axes of its Gaussian of step 3, and the sum of step 3 is taken again, part by part.

Centring and clipping at the released spread, and a weight w < 1 on the constant, make the
statistics of steps 3 and 4 several times larger against their noise than moments about the origin.

Where rows are so many that noise does not matter, and reading them is what costs, step 3 alone may
be taken, of all features about the origin (`single`): one release, one pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.gaussian import mu_from_budget
from sfumato.accounting.receipt import Chargeable
from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Relation
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.moments.gaussians import CentredGaussians, ClassGaussians, gaussians_from_moments
from sfumato.moments.pca import top_eigenvectors
from sfumato.moments.sensitivity import (
    class_moments_sensitivity,
    mean_sensitivity,
    second_moment_sensitivity,
)
from sfumato.moments.statistics import (
    MappedRows,
    UnitRows,
    mean_and_squares,
    moments_of_groups,
    project,
    require_number,
    second_moment,
)

__all__ = [
    "PARTS",
    "RecordReleases",
    "check_parts",
    "is_one_release_enough",
    "usual_parts",
]

Array = NDArray[np.float64]
Cut = Callable[[Array, NDArray[np.intp]], NDArray[np.intp]]  # rows and classes to parts

# Chosen once on held-out training rows of a public image set, and fixed since.
MEAN_SHARE, PCA_SHARE = 0.02, 0.25  # of mu²; the class moments get the rest,
SKETCH_SHARE = 0.15  # less this for the first look at classes that are cut into parts
CLIP = 0.9  # of the root mean square length of the rows along U
CONSTANT = 0.5  # w; a power of two, so that scaling by it is exact
SMALLEST_SPREAD = 1e-4  # of the squared radius of the bounds
PARTS = (4, 2)
NEGLIGIBLE_NOISE = 0.01  # likewise: rows may fill a tenth of their bounds before it shows
TOLERABLE_NOISE = 0.5  # spectral radius of the noise on a covariance, by its average eigenvalue


def check_parts(gaussians_per_class: object) -> None:
    """Check the parameter of the estimators."""
    if gaussians_per_class not in (None, 1, *PARTS):
        raise InvalidInputError(
            f"'gaussians_per_class' must be 1, 2, 4 or None. Got {gaussians_per_class!r} instead."
        )


def usual_parts(
    *, epsilon: float, delta: float, n_rows: int, n_classes: int, n_components: int
) -> int:
    """Choose the number of Gaussians a class, 1, 2 or 4, from public numbers alone.

    A covariance of k coordinates over n rows carries noise of spectral radius
    ``√(2k) s / n`` and has an average eigenvalue of about ``1/k``. Take as many parts of equal
    size as keep the first below half of the second.
    """
    mu = mu_from_budget(epsilon, delta) * math.sqrt(1 - MEAN_SHARE - PCA_SHARE - SKETCH_SHARE)
    for parts in PARTS:
        rows = n_rows / (n_classes * parts)
        if _noise_of_covariance(n_components, rows, mu) <= TOLERABLE_NOISE:
            # Each cut needs an axis, and a part more rows than coordinates.
            return parts if rows > n_components >= 2 else 1
    return 1


def is_one_release_enough(
    *, epsilon: float, delta: float, n_rows: int, n_classes: int, n_features: int
) -> bool:
    """Tell, from public numbers alone, whether moments of all features carry negligible noise."""
    mu = mu_from_budget(epsilon, delta)
    return _noise_of_covariance(n_features, n_rows / n_classes, mu) <= NEGLIGIBLE_NOISE


def _noise_of_covariance(order: int, n_rows: float, mu: float) -> float:
    """Spectral radius of the noise on a covariance, by its average eigenvalue of about 1/order."""
    noise = class_moments_sensitivity(Relation.REPLACE_ONE, constant=CONSTANT) / mu
    return order * math.sqrt(2 * order) * noise / n_rows


@dataclass(frozen=True)
class RecordReleases:
    """The mechanisms of the engine, in the order of the draws.

    `components` is None where all features are kept, `sketch` where a class has one Gaussian, and
    `mean` where one release is all there is.
    """

    mean: GaussianMechanism | None
    components: GaussianMechanism | None
    sketch: GaussianMechanism | None
    moments: GaussianMechanism
    n_components: int
    n_parts: int
    relation: str

    @classmethod
    def plan(
        cls,
        *,
        epsilon: float,
        delta: float,
        relation: str,
        shape: tuple[int, int],
        n_classes: int,
        n_components: int,
        gaussians_per_class: int | None = None,
        single: bool = False,
    ) -> RecordReleases:
        """Choose the Gaussians a class, and divide ``mu²`` between the releases.

        Parameters
        ----------
        epsilon, delta : float
        relation : {"replace_one", "add_or_remove_one"}
        shape : (int, int)
            Of the rows; their number is read only where it is public.
        n_classes : int
        n_components : int
            Private directions, at most as many as features; with all of them none are released.
        gaussians_per_class : int, optional
            By default `usual_parts` where the number of rows is public, and 1 else.
        single : bool, default=False
            Spend everything on one release; a class has one Gaussian then.
        """
        require_number(shape[0])
        mu = mu_from_budget(epsilon, delta)
        moments = class_moments_sensitivity(relation, constant=CONSTANT)
        if single:
            last = _mechanism(moments, mu, 1.0).for_size(n_classes * (shape[1] + 1) ** 2)
            return cls(None, None, None, last, n_components, 1, relation)
        parts = gaussians_per_class or 1
        if gaussians_per_class is None and Relation(relation) is Relation.REPLACE_ONE:
            parts = usual_parts(
                epsilon=epsilon,
                delta=delta,
                n_rows=shape[0],
                n_classes=n_classes,
                n_components=n_components,
            )
        parts = parts if n_components > 1 else 1  # a cut needs an axis beside another
        shares = MEAN_SHARE, PCA_SHARE * (n_components < shape[1]), SKETCH_SHARE * (parts > 1)
        planned = cls(
            _mechanism(mean_sensitivity(relation), mu, shares[0]),
            _mechanism(second_moment_sensitivity(relation), mu, shares[1]) if shares[1] else None,
            _mechanism(moments, mu, shares[2]) if shares[2] else None,
            _mechanism(moments, mu, 1 - sum(shares)),
            n_components,
            parts,
            relation,
        )
        largest = max(shape[1] ** 2, n_classes * parts * (n_components + 1) ** 2)
        for mechanism in planned.all():  # what cannot be drawn is refused before the charge
            mechanism.for_size(largest)
        return planned

    def all(self) -> tuple[GaussianMechanism, ...]:
        """List those in use."""
        listed = (self.mean, self.components, self.sketch, self.moments)
        return tuple(mechanism for mechanism in listed if mechanism is not None)

    def run(
        self,
        rows: Array,
        codes: NDArray[np.intp],
        n_classes: int,
        *,
        bounds: Bounds,
        ledger: Chargeable,
    ) -> CentredGaussians:
        """Draw the releases on a receipt and give what follows from them.

        Rows and codes are read in ascending slices only, once for each release.
        """
        units = UnitRows.for_sums(bounds, (rows.shape[0], rows.shape[1]), self.relation)
        if self.mean is None:
            return self._run_once(units, rows, codes, n_classes, ledger)
        mean, spread, n_rows = self._mean(self.mean, units, rows, ledger)  # [R1] first release
        centred = MappedRows(rows, lambda part: units.rows(part) - mean, rows.shape[1])
        basis, along = self._basis(centred, math.sqrt(spread), n_rows, ledger)  # [R2] second
        radius = CLIP * math.sqrt(min(max(along, SMALLEST_SPREAD), spread))
        projected = MappedRows(
            rows, lambda part: 2 * project((units.rows(part) - mean) / 2, basis), basis.shape[1]
        )
        inner = UnitRows.for_sums(Bounds(norm=radius), projected.shape, self.relation)
        numbers = np.arange(n_classes)
        cut: Cut = _whole
        if self.sketch is not None:
            blocks = ((block, codes[part]) for part, block in inner.blocks(projected))
            sketch = _gaussians(self.sketch, blocks, n_classes, basis.shape[1], ledger)  # [R3]
            cut, numbers = _cut_along(sketch, self.n_parts), np.repeat(numbers, self.n_parts)
        blocks = ((block, cut(block, codes[part])) for part, block in inner.blocks(projected))
        gaussians = _gaussians(  # [R4] last release
            self.moments, blocks, len(numbers), basis.shape[1], ledger
        )
        middle, scale = bounds.ball(rows.shape[1])
        return CentredGaussians(middle + scale * mean, basis, scale * radius, gaussians, numbers)

    def _run_once(
        self,
        units: UnitRows,
        rows: Array,
        codes: NDArray[np.intp],
        n_classes: int,
        ledger: Chargeable,
    ) -> CentredGaussians:
        """Release the class moments of all features about the origin; centre and U follow."""
        blocks = ((block, codes[part]) for part, block in units.blocks(rows))
        whole = _gaussians(self.moments, blocks, n_classes, rows.shape[1], ledger)  # [R5] only one
        mean = np.average(whole.means, axis=0, weights=whole.counts)
        apart = whole.means - mean
        spread = whole.covariances + apart[:, :, None] * apart[:, None, :]
        basis = top_eigenvectors(
            np.average(spread, axis=0, weights=whole.counts), self.n_components
        )[1]
        # Two rows of the unit ball lie at most 2 apart, so that nothing is clipped at this radius.
        along = ClassGaussians(
            whole.counts, apart @ basis / 2, basis.T @ whole.covariances @ basis / 4
        )
        middle, scale = units.bounds.ball(rows.shape[1])
        centre = middle + scale * mean
        return CentredGaussians(centre, basis, 2 * scale, along, np.arange(n_classes))

    def _mean(
        self, mechanism: GaussianMechanism, units: UnitRows, rows: Array, ledger: Chargeable
    ) -> tuple[Array, float, float]:
        """Give the mean, the mean squared distance to it and the number of rows, all private."""
        noisy = mechanism.release(mean_and_squares(units, rows), ledger=ledger)
        n_rows = max(float(noisy[-1]), 1.0)
        mean, square = noisy[:-2] / n_rows, min(max(float(noisy[-2]) / n_rows, 0.0), 1.0)
        noise = mechanism.variance() / n_rows**2
        # The noise adds to the length of the mean what it has itself; take that away again.
        length = float(mean @ mean)
        mean = mean * max(0.0, 1 - len(mean) * noise / length) if length > 0 else mean
        mean = Bounds(norm=1.0).clip(mean[None, :])[0]
        floor = max(SMALLEST_SPREAD, 2 * math.sqrt(noise))
        return mean, min(max(square - float(mean @ mean), floor), 1.0), n_rows

    def _basis(
        self, rows: MappedRows, radius: float, n_rows: float, ledger: Chargeable
    ) -> tuple[Array, float]:
        """Give U and the mean squared length of the rows along it, at most `radius` squared."""
        if self.components is None:
            return np.eye(rows.shape[1]), radius**2
        units = UnitRows.for_sums(Bounds(norm=radius), rows.shape, self.relation)
        noisy = self.components.release_symmetric(second_moment(units, rows), ledger=ledger)
        eigenvalues, basis = top_eigenvectors(noisy, self.n_components)
        return basis, float(np.maximum(eigenvalues, 0).sum()) / n_rows * radius**2


def _gaussians(
    mechanism: GaussianMechanism,
    blocks: Iterable[tuple[Array, NDArray[np.intp]]],
    n_groups: int,
    n_features: int,
    ledger: Chargeable,
) -> ClassGaussians:
    column = np.append(np.ones(n_features), CONSTANT)
    weights = np.outer(column, column)
    exact = moments_of_groups(blocks, n_groups, n_features) * weights
    noisy = mechanism.release_symmetric(exact, ledger=ledger) / weights
    return gaussians_from_moments(noisy, math.sqrt(mechanism.variance()))


def _whole(block: Array, codes: NDArray[np.intp]) -> NDArray[np.intp]:  # noqa: ARG001 - a Cut
    return codes


def _cut_along(sketch: ClassGaussians, n_parts: int) -> Cut:
    """Cut each class at its released mean along its first released axes; each row by itself."""
    n_axes = n_parts.bit_length() - 1
    axes = np.linalg.eigh(sketch.covariances)[1][:, :, : -n_axes - 1 : -1]

    def cut(block: Array, codes: NDArray[np.intp]) -> NDArray[np.intp]:
        along = np.einsum("ij,ijk->ik", block - sketch.means[codes], axes[codes])
        return np.asarray(codes * n_parts + (along > 0) @ (1 << np.arange(n_axes)))

    return cut


def _mechanism(sensitivity: float, mu: float, share: float) -> GaussianMechanism:
    return GaussianMechanism.from_mu(sensitivity=sensitivity, mu=mu * math.sqrt(share))
