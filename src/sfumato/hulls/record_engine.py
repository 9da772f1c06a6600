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
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.gaussian import mu_from_budget
from sfumato.accounting.receipt import Chargeable
from sfumato.bounds import Bounds
from sfumato.guarantee import Relation
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.moments.gaussians import ClassGaussians, gaussians_from_moments
from sfumato.moments.pca import top_eigenvectors
from sfumato.moments.sensitivity import second_moment_sensitivity
from sfumato.moments.statistics import UnitRows, class_moments, project, second_moment

__all__ = [
    "CentredGaussians",
    "RecordReleases",
    "mean_sensitivity",
    "usual_parts",
    "weighted_moments_sensitivity",
]

Array = NDArray[np.float64]

# Chosen once on held-out training rows of a public image set, and fixed since.
MEAN_SHARE, PCA_SHARE = 0.02, 0.25  # of mu²; the class moments get the rest,
SKETCH_SHARE = 0.15  # less this for the first look at classes that are cut into parts
CLIP = 0.9  # of the root mean square length of the rows along U
CONSTANT = 0.5  # w; a power of two, so that scaling by it is exact
SMALLEST_SPREAD = 1e-4  # of the squared radius of the bounds
PARTS = (4, 2)
TOLERABLE_NOISE = 0.5  # spectral radius of the noise on a covariance, by its average eigenvalue


def mean_sensitivity(relation: str | Relation) -> float:
    """L2 sensitivity of ``sum [z; |z|²; 1]`` over rows of the unit ball.

    Adding a row moves it by ``sqrt(|z|² + |z|⁴ + 1) <= √3``. Replacing z by v, with lengths a
    and b, moves it by at most ``sqrt((a + b)² (1 + (a - b)²)) <= 2``.
    """
    return 2.0 if Relation(relation) is Relation.REPLACE_ONE else math.sqrt(3)


def weighted_moments_sensitivity(relation: str | Relation) -> float:
    """Joint Frobenius sensitivity of ``S_c = sum [u; w][u; w]ᵀ``, ``|u| <= 1``, over classes.

    ``|[u; w]|² <= 1 + w²``, so it is ``1 + w²`` times that of ``sum u uᵀ``, change of label
    included.
    """
    return (1 + CONSTANT**2) * second_moment_sensitivity(relation)


def usual_parts(
    *, epsilon: float, delta: float, n_rows: int, n_classes: int, n_components: int
) -> int:
    """Choose the number of Gaussians a class, 1, 2 or 4, from public numbers alone.

    A covariance of k coordinates over n rows carries noise of spectral radius
    ``√(2k) s / n`` and has an average eigenvalue of about ``1/k``. Take as many parts of equal
    size as keep the first below half of the second.
    """
    mu = mu_from_budget(epsilon, delta) * math.sqrt(1 - MEAN_SHARE - PCA_SHARE - SKETCH_SHARE)
    noise = weighted_moments_sensitivity(Relation.REPLACE_ONE) / mu
    for parts in PARTS:
        rows = n_rows / (n_classes * parts)
        if n_components * math.sqrt(2 * n_components) * noise / rows <= TOLERABLE_NOISE:
            # Each cut needs an axis, and a part more rows than coordinates.
            return parts if rows > n_components >= 2 else 1
    return 1


@dataclass(frozen=True)
class CentredGaussians:
    """Released: Gaussians of ``u = Uᵀ(x - centre) / radius``; no row is held.

    Parameters
    ----------
    centre : ndarray of shape (n_features,)
        The private mean.
    basis : ndarray of shape (n_features, k)
        U, orthonormal columns.
    radius : float
        Length of a row that has ``|u| = 1``.
    gaussians : ClassGaussians
        Counts, means and covariances of u.
    classes : ndarray of shape (n_gaussians,)
        Code of the class of each Gaussian.
    """

    centre: Array
    basis: Array
    radius: float
    gaussians: ClassGaussians
    classes: NDArray[np.intp]

    def sample(self, number: int, n_rows: int, generator: np.random.RandomState) -> Array:
        """Draw coordinates u from one Gaussian; costs no budget."""
        covariance = self.gaussians.covariances[number]
        eigenvalues, axes = np.linalg.eigh(covariance)
        normal = generator.standard_normal((n_rows, len(covariance)))
        spread = normal * np.sqrt(np.maximum(eigenvalues, 0.0))
        return np.asarray(self.gaussians.means[number] + spread @ axes.T)

    def to_rows(self, coordinates: Array) -> Array:
        """Give the rows that have these coordinates and nothing outside U."""
        return np.asarray(self.centre + self.radius * (coordinates @ self.basis.T))


@dataclass(frozen=True)
class RecordReleases:
    """The mechanisms of the engine, in the order of the draws.

    `components` is None where all features are kept, `sketch` where a class has one Gaussian.
    """

    mean: GaussianMechanism
    components: GaussianMechanism | None
    sketch: GaussianMechanism | None
    moments: GaussianMechanism
    n_parts: int

    @classmethod
    def calibrate(
        cls, *, epsilon: float, delta: float, relation: str, with_components: bool, n_parts: int
    ) -> RecordReleases:
        """Divide ``mu²`` between the releases."""
        mu = mu_from_budget(epsilon, delta)
        shares = MEAN_SHARE, PCA_SHARE * with_components, SKETCH_SHARE * (n_parts > 1)
        moments = weighted_moments_sensitivity(relation)
        return cls(
            _mechanism(mean_sensitivity(relation), mu, shares[0]),
            _mechanism(second_moment_sensitivity(relation), mu, shares[1]) if shares[1] else None,
            _mechanism(moments, mu, shares[2]) if shares[2] else None,
            _mechanism(moments, mu, 1 - sum(shares)),
            n_parts,
        )

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
        n_components: int,
        relation: str,
        ledger: Chargeable,
    ) -> CentredGaussians:
        """Draw the releases on a receipt and give what follows from them."""
        scale = _Scale(bounds, rows, relation)
        mean, spread, n_rows = self._mean(scale, ledger)  # [R1] first release
        centred = scale.mapped(lambda z: z - mean, rows.shape[1])
        basis, along = self._basis(  # [R2] second release
            centred, math.sqrt(spread), n_components, n_rows, relation, ledger
        )
        radius = CLIP * math.sqrt(min(max(along, SMALLEST_SPREAD), spread))
        projected = scale.mapped(lambda z: 2 * project((z - mean) / 2, basis), basis.shape[1])
        units = UnitRows.for_sums(Bounds(norm=radius), projected.shape, relation)
        classes = np.arange(n_classes)
        if self.sketch is not None:
            sketch = _gaussians(  # [R3] third release
                self.sketch, units, projected, codes, n_classes, ledger
            )
            codes = _part_codes(sketch, units, projected, codes, self.n_parts)
            classes = np.repeat(classes, self.n_parts)
        gaussians = _gaussians(  # [R4] last release
            self.moments, units, projected, codes, len(classes), ledger
        )
        centre = scale.centre + scale.radius * mean
        return CentredGaussians(centre, basis, scale.radius * radius, gaussians, classes)

    def _mean(self, scale: _Scale, ledger: Chargeable) -> tuple[Array, float, float]:
        """Give the mean, the mean squared distance to it and the number of rows, all private."""
        noisy = self.mean.release(scale.sums(), ledger=ledger)
        n_rows = max(float(noisy[-1]), 1.0)
        mean, square = noisy[:-2] / n_rows, min(max(float(noisy[-2]) / n_rows, 0.0), 1.0)
        noise = self.mean.variance() / n_rows**2
        # The noise adds to the length of the mean what it has itself; take that away again.
        length = float(mean @ mean)
        mean = mean * max(0.0, 1 - len(mean) * noise / length) if length > 0 else mean
        mean = Bounds(norm=1.0).clip(mean[None, :])[0]
        floor = max(SMALLEST_SPREAD, 2 * math.sqrt(noise))
        return mean, min(max(square - float(mean @ mean), floor), 1.0), n_rows

    def _basis(
        self,
        rows: _MappedRows,
        radius: float,
        n_components: int,
        n_rows: float,
        relation: str,
        ledger: Chargeable,
    ) -> tuple[Array, float]:
        """Give U and the mean squared length of the rows along it, at most `radius` squared."""
        if self.components is None:
            return np.eye(rows.shape[1]), radius**2
        units = UnitRows.for_sums(Bounds(norm=radius), rows.shape, relation)
        noisy = self.components.release_symmetric(
            second_moment(units, rows),  # type: ignore[arg-type]
            ledger=ledger,
        )
        eigenvalues, basis = top_eigenvectors(noisy, n_components)
        return basis, float(np.maximum(eigenvalues, 0).sum()) / n_rows * radius**2


def _gaussians(
    mechanism: GaussianMechanism,
    units: UnitRows,
    rows: _MappedRows,
    codes: NDArray[np.intp],
    n_classes: int,
    ledger: Chargeable,
) -> ClassGaussians:
    exact = class_moments(units, rows, codes, n_classes)  # type: ignore[arg-type]
    column = np.append(np.ones(rows.shape[1]), CONSTANT)
    weights = np.outer(column, column)
    noisy = mechanism.release_symmetric(exact * weights, ledger=ledger) / weights
    return gaussians_from_moments(noisy, math.sqrt(mechanism.variance()))


def _part_codes(
    sketch: ClassGaussians,
    units: UnitRows,
    rows: _MappedRows,
    codes: NDArray[np.intp],
    n_parts: int,
) -> NDArray[np.intp]:
    """Cut each class at its released mean along its first released axes; each row by itself."""
    n_axes = n_parts.bit_length() - 1
    axes = np.linalg.eigh(sketch.covariances)[1][:, :, : -n_axes - 1 : -1]
    found = codes * n_parts
    for part, block in units.blocks(rows):  # type: ignore[arg-type]
        mine = codes[part]
        along = np.einsum("ij,ijk->ik", block - sketch.means[mine], axes[mine])
        found[part] += (along > 0) @ (1 << np.arange(n_axes))
    return np.asarray(found)


class _MappedRows:
    """Rows seen through a row-wise map, computed block by block, so that no copy is kept.

    Stands in for an array where only its shape and slices of it are read, as in `UnitRows`.
    """

    def __init__(self, rows: Array, function: Callable[[Array], Array], width: int) -> None:
        self._rows, self._function = rows, function
        self.shape = (rows.shape[0], width)

    def __getitem__(self, part: slice) -> Array:
        return self._function(self._rows[part])


class _Scale:
    """Rows on their way into the unit ball of their public bounds."""

    def __init__(self, bounds: Bounds, rows: Array, relation: str) -> None:
        self.units = UnitRows.for_sums(bounds, (rows.shape[0], rows.shape[1]), relation)
        self.rows = rows
        self.centre, self.radius = bounds.ball(rows.shape[1])

    def mapped(self, function: Callable[[Array], Array], width: int) -> _MappedRows:
        return _MappedRows(self.rows, lambda part: function(self.units.rows(part)), width)

    def sums(self) -> Array:
        """``sum [z; |z|²; 1]``, exactly."""
        total = np.zeros(self.rows.shape[1] + 2)
        for block in self._blocks():
            squares = float(np.einsum("ij,ij->", block, block))
            total += np.concatenate([block.sum(axis=0), [squares, len(block)]])
        return total

    def _blocks(self) -> Iterator[Any]:
        for _, block in self.units.blocks(self.rows):
            yield block


def _mechanism(sensitivity: float, mu: float, share: float) -> GaussianMechanism:
    return GaussianMechanism.from_mu(sensitivity=sensitivity, mu=mu * math.sqrt(share))
