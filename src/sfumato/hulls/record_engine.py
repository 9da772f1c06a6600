"""The record engine: one Gaussian a class from three noisy sums, and rows drawn from it.

Rows are first brought into the unit ball by their public bounds. Then

1. ``sum [z; |z|²; 1]`` gives a private mean and the spread of the rows around it;
2. ``sum (z - mean)(z - mean)ᵀ``, rows clipped at that spread, gives private directions U;
3. ``sum_{y=c} [u; w][u; w]ᵀ`` with ``u = Uᵀ(z - mean)``, clipped at the spread along U, gives one
   Gaussian a class.

Centring and clipping at the released spread, and a weight w < 1 on the constant, make the
statistics of step 3 several times larger against their noise than moments about the origin.
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
from sfumato.moments.statistics import UnitRows, class_moments, second_moment

__all__ = [
    "CentredGaussians",
    "ThreeReleases",
    "mean_sensitivity",
    "weighted_moments_sensitivity",
]

Array = NDArray[np.float64]

# Chosen once on held-out training rows of a public image set, and fixed since.
MEAN_SHARE, PCA_SHARE = 0.02, 0.25  # of mu²; the class moments get the rest
CLIP = 0.9  # of the root mean square length of the rows along U
CONSTANT = 0.5  # w; a power of two, so that scaling by it is exact
SMALLEST_SPREAD = 1e-4  # of the squared radius of the bounds


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


@dataclass(frozen=True)
class CentredGaussians:
    """Released: class Gaussians of ``u = Uᵀ(x - centre) / radius``; no row is held.

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
    """

    centre: Array
    basis: Array
    radius: float
    gaussians: ClassGaussians

    def sample(self, code: int, n_rows: int, generator: np.random.RandomState) -> Array:
        """Draw coordinates u of rows of one class; costs no budget."""
        covariance = self.gaussians.covariances[code]
        eigenvalues, axes = np.linalg.eigh(covariance)
        normal = generator.standard_normal((n_rows, len(covariance)))
        spread = normal * np.sqrt(np.maximum(eigenvalues, 0.0))
        return np.asarray(self.gaussians.means[code] + spread @ axes.T)

    def to_rows(self, coordinates: Array) -> Array:
        """Give the rows that have these coordinates and nothing outside U."""
        return np.asarray(self.centre + self.radius * (coordinates @ self.basis.T))


@dataclass(frozen=True)
class ThreeReleases:
    """The mechanisms of the engine; `components` is None where all features are kept."""

    mean: GaussianMechanism
    components: GaussianMechanism | None
    moments: GaussianMechanism

    @classmethod
    def calibrate(
        cls, *, epsilon: float, delta: float, relation: str, with_components: bool
    ) -> ThreeReleases:
        """Divide ``mu²`` between the releases."""
        mu = mu_from_budget(epsilon, delta)
        shares = MEAN_SHARE, PCA_SHARE * with_components
        return cls(
            _mechanism(mean_sensitivity(relation), mu, shares[0]),
            _mechanism(second_moment_sensitivity(relation), mu, shares[1]) if shares[1] else None,
            _mechanism(weighted_moments_sensitivity(relation), mu, 1 - sum(shares)),
        )

    def all(self) -> tuple[GaussianMechanism, ...]:
        """List them in the order of the draws."""
        return tuple(m for m in (self.mean, self.components, self.moments) if m is not None)

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
        """Draw the three releases on a receipt and give what follows from them."""
        scale = _Scale(bounds, rows, relation)
        mean, spread, n_rows = self._mean(scale, ledger)  # [R1] first release
        centred = scale.mapped(lambda z: z - mean, rows.shape[1])
        basis, along = self._basis(  # [R2] second release
            centred, math.sqrt(spread), n_components, n_rows, relation, ledger
        )
        radius = CLIP * math.sqrt(min(max(along, SMALLEST_SPREAD), spread))
        projected = scale.mapped(lambda z: (z - mean) @ basis, basis.shape[1])
        gaussians = self._gaussians(  # [R3] third release
            projected, codes, n_classes, radius, relation, ledger
        )
        return CentredGaussians(
            scale.centre + scale.radius * mean, basis, scale.radius * radius, gaussians
        )

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
        return mean, min(max(square - float(mean @ mean), floor), 4.0), n_rows

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
            second_moment(units, rows),  # type: ignore[arg-type] - read by slices only
            ledger=ledger,
        )
        eigenvalues, basis = top_eigenvectors(noisy, n_components)
        return basis, float(np.maximum(eigenvalues, 0).sum()) / n_rows * radius**2

    def _gaussians(
        self,
        rows: _MappedRows,
        codes: NDArray[np.intp],
        n_classes: int,
        radius: float,
        relation: str,
        ledger: Chargeable,
    ) -> ClassGaussians:
        units = UnitRows.for_sums(Bounds(norm=radius), rows.shape, relation)
        exact = class_moments(units, rows, codes, n_classes)  # type: ignore[arg-type]
        weights = np.ones(rows.shape[1] + 1)
        weights[-1] = CONSTANT
        weights = np.outer(weights, weights)
        noisy = self.moments.release_symmetric(exact * weights, ledger=ledger) / weights
        return gaussians_from_moments(noisy, math.sqrt(self.moments.variance()))


class _MappedRows:
    """Rows seen through a row-wise map, computed block by block, so that no copy is kept."""

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
