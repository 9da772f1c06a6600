"""From noisy moments to Gaussians of the classes. Post-processing: no row is read here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.storage.forms import numbers, refuse
from sfumato.tables.bounds import Bounds

__all__ = [
    "CentredGaussians",
    "ClassGaussians",
    "gaussians_from_moments",
    "stored_covariances",
    "stored_gaussians",
]

Array = NDArray[np.float64]

# Chosen once on public image sets (MNIST, Fashion-MNIST, digits) and fixed since; MNIST test rows
# were among those looked at, so accuracies reported on them are slightly optimistic.
SHRINKAGE_WEIGHT = 0.5
FLOOR_WEIGHT = 0.25
ROUND_FROM, ROUND_AT = 4.0, 16.0
SMALLEST_EIGENVALUE = 1e-9  # of the average one, so that a covariance can be inverted


@dataclass(frozen=True)
class ClassGaussians:
    """Weights (n_classes,), means (n_classes, k) and covariances (n_classes, k, k)."""

    counts: Array
    means: Array
    covariances: Array

    def log_densities(self, Z: Array) -> Array:
        """``log N(z; mean_c, covariance_c)`` for each row and class."""
        columns = [
            _log_density(Z, mean, covariance)
            for mean, covariance in zip(self.means, self.covariances, strict=True)
        ]
        return np.column_stack(columns)


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

    def in_units_of(self, bounds: Bounds) -> CentredGaussians:
        """Give the Gaussians of the unit ball in the units of rows with these bounds."""
        centre, radius = bounds.ball(len(self.centre))
        return replace(self, centre=centre + radius * self.centre, radius=radius * self.radius)

    def to_coordinates(self, rows: Array) -> Array:
        """Give u of rows, clipped to the unit ball as the rows of the sums were."""
        coordinates = (rows - self.centre) @ self.basis / self.radius
        return np.asarray(Bounds(norm=1.0).clip(coordinates))

    def sample(self, number: int, n_rows: int, generator: np.random.RandomState) -> Array:
        """Draw coordinates u from one Gaussian; costs no budget."""
        covariance = self.gaussians.covariances[number]
        eigenvalues, axes = np.linalg.eigh(covariance)
        normal = generator.standard_normal((n_rows, len(covariance)))
        spread = normal * np.sqrt(np.maximum(eigenvalues, 0.0))
        return np.asarray(self.gaussians.means[number] + spread @ axes.T)

    def given(self, places: NDArray[np.intp], values: Array, spread: float) -> CentredGaussians:
        """Give the Gaussians of rows that have `values` at some places, up to a small spread.

        Counts become the chances of each Gaussian to have made such a row.
        """
        across = self.radius * self.basis[places]
        logs, means, covariances = [], [], []
        for count, mean, covariance in zip(*vars(self.gaussians).values(), strict=True):
            joint = across @ covariance
            seen = joint @ across.T + spread**2 * np.eye(len(places))
            off = values - self.centre[places] - across @ mean
            gain = np.linalg.solve(seen, joint)
            logs.append(math.log(count) + _log_density(off[None], np.zeros(len(off)), seen)[0])
            means.append(mean + off @ gain)
            covariances.append(covariance - joint.T @ gain)
        chances = np.exp(np.array(logs) - max(logs))
        found = ClassGaussians(chances, np.array(means), np.array(covariances))
        return replace(self, gaussians=found)

    def to_rows(self, coordinates: Array) -> Array:
        """Give the rows that have these coordinates and nothing outside U."""
        return np.asarray(self.centre + self.radius * (coordinates @ self.basis.T))

    def to_record(self) -> dict[str, Any]:
        """Give the numbers by their names, as they are stored."""
        named = {name: getattr(self, name) for name in ("centre", "basis", "radius", "classes")}
        return {**named, **vars(self.gaussians)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Give the Gaussians of what is stored."""
        gaussians = ClassGaussians(record["counts"], record["means"], record["covariances"])
        named = {name: record[name] for name in ("centre", "basis", "radius", "classes")}
        return cls(gaussians=gaussians, **named)


def gaussians_from_moments(
    moments: Array, noise: float, *, n_rows: int | None = None
) -> ClassGaussians:
    """Turn ``S_c + noise`` into counts, means and positive definite covariances.

    Parameters
    ----------
    moments : ndarray of shape (n_classes, k + 1, k + 1)
        Noisy ``S_c = sum [z; 1][z; 1]ᵀ`` over rows of the unit ball.
    noise : float
        Standard deviation s of the noise on a diagonal entry (s/√2 off the diagonal): public.
    n_rows : int, optional
        The public number of rows: what the counts lack of it is shared among them.

    Notes
    -----
    With ``t = s / n_c`` the noise of a class covariance C has squared Frobenius norm
    ``t² k (k + 1) / 2`` on average and spectral radius about ``r = t √(2k)``. W is the covariance
    pooled over classes, v its average eigenvalue. The public rule:

    - shrink C towards W by half the share of ``||C - W||²`` that is noise;
    - raise eigenvalues to a quarter of r;
    - where noise drowns the signal, make the Gaussian round: eigenvalues move to v on a log
      scale, from not at all at ``r = 4 v`` to entirely at ``r = 16 v``.
    """
    counts = moments[:, -1, -1]
    if n_rows is not None:
        counts = counts + (n_rows - counts.sum()) / len(counts)
    counts = np.maximum(counts, 1.0)
    means = _into_unit_ball(moments[:, :-1, -1] / counts[:, None])
    second = moments[:, :-1, :-1] / counts[:, None, None]
    raw = second - means[:, :, None] * means[:, None, :]
    pooled = np.average(raw, axis=0, weights=counts)
    pooled_noise = noise * math.sqrt(len(counts)) / counts.sum()
    average = max(float(np.trace(pooled)) / len(pooled), 0.1 * pooled_noise, 1e-12)
    covariances = [
        _repair(covariance, pooled, average, noise / count)
        for covariance, count in zip(raw, counts, strict=True)
    ]
    return ClassGaussians(counts, means, np.array(covariances))


def _repair(covariance: Array, pooled: Array, average: float, noise: float) -> Array:
    order = len(covariance)
    radius = noise * math.sqrt(2 * order)
    share = _noise_share(covariance - pooled, noise)
    eigenvalues, axes = np.linalg.eigh((1 - share) * covariance + share * pooled)
    floor = max(FLOOR_WEIGHT * radius * max(1 - share, 0.3), SMALLEST_EIGENVALUE * average)
    roundness = _ramp(radius / average)
    eigenvalues = np.maximum(eigenvalues, floor) ** (1 - roundness) * average**roundness
    return np.asarray((axes * eigenvalues) @ axes.T)


def _noise_share(difference: Array, noise: float) -> float:
    """Half the share of ``||difference||²`` that noise explains."""
    order = len(difference)
    energy = float(np.sum(difference**2))
    noise_energy = noise**2 * order * (order + 1) / 2
    return min(1.0, SHRINKAGE_WEIGHT * noise_energy / energy) if energy > 0 else 0.0


def _ramp(ratio: float) -> float:
    """0 up to ROUND_FROM, 1 from ROUND_AT on, straight in the logarithm between."""
    if ratio <= ROUND_FROM:
        return 0.0
    return min(1.0, math.log(ratio / ROUND_FROM) / math.log(ROUND_AT / ROUND_FROM))


def _into_unit_ball(means: Array) -> Array:
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return np.asarray(means / np.maximum(lengths, 1.0))


def _log_density(Z: Array, mean: Array, covariance: Array) -> Array:
    eigenvalues, axes = np.linalg.eigh(covariance)
    whitened = ((Z - mean) @ axes) / np.sqrt(eigenvalues)
    constant = len(mean) * math.log(2 * math.pi) + float(np.log(eigenvalues).sum())
    return np.asarray(-0.5 * (np.einsum("ij,ij->i", whitened, whitened) + constant))


def stored_covariances(value: Any, place: str, sizes: dict[str, int]) -> None:
    """Ask a stored model for g positive definite covariances of order k."""
    numbers("g", "k", "k")(value, place, sizes)
    least = np.linalg.eigvalsh(value)[:, 0] if value.size else np.ones(1)
    if not (np.array_equal(value, np.swapaxes(value, -1, -2)) or _nearly_symmetric(value)):
        raise refuse(place, "symmetric matrices")
    if not (least > 0).all():
        raise refuse(place, "positive definite matrices")


def _nearly_symmetric(value: Array) -> bool:
    return bool(np.allclose(value, np.swapaxes(value, -1, -2), rtol=1e-6))


def stored_gaussians() -> dict[str, Any]:
    """Give what a stored model must hold for its Gaussians."""
    return {
        "counts": numbers("g", above=0.0),
        "means": numbers("g", "k"),
        "covariances": stored_covariances,
    }
