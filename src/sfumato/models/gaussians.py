"""Gaussians of the classes from a few noisy sums.

Rows are first brought into the unit ball by their public bounds. Then

1. ``sum [z; |z|²; 1]`` gives a private mean and the spread of the rows around it;
2. ``sum (z - mean)(z - mean)ᵀ``, rows clipped at that spread, gives private directions U;
3. ``sum_{y=c} [u; w][u; w]ᵀ`` with ``u = Uᵀ(z - mean)``, clipped at the spread along U, gives one
   Gaussian per class;
4. where the budget allows, each class is cut into 2 or 4 parts at the mean and along the first
   axes of its Gaussian of step 3, and the sum of step 3 is taken again, part by part.

Centring and clipping at the released spread, and a weight w < 1 on the constant, make the
statistics of steps 3 and 4 several times larger against their noise than moments about the origin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.constraints import numbers, refuse
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.models.budget import Budget, Release
from sfumato.models.linear import top_eigenvectors
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Relation
from sfumato.sums.maps import Centred, Projected
from sfumato.sums.records import Records
from sfumato.sums.statistics import ClassMoments, MeanAndSquares, Parts, SecondMoment
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]

# Chosen once on public image sets (MNIST, Fashion-MNIST, digits) and fixed since; MNIST test rows
# were among those looked at, so accuracies reported on them are slightly optimistic.
SHRINKAGE_WEIGHT = 0.5
FLOOR_WEIGHT = 0.25
ROUND_FROM, ROUND_AT = 4.0, 16.0
MIN_EIGENVALUE = 1e-9  # of the average one, so that a covariance can be inverted

# Chosen once on held-out training rows of a public image set, and fixed since.
MEAN_SHARE, PCA_SHARE = 0.02, 0.25  # of mu²; the class moments get the rest,
SKETCH_SHARE = 0.15  # less this for the first look at classes that are cut into parts
CLIP = 0.9  # of the root mean square length of the rows along U
CONSTANT = 0.5  # w; a power of two, so that scaling by it is exact
MIN_SPREAD = 1e-4  # of the squared radius of the bounds
TOLERABLE_NOISE = 0.5  # spectral radius of the noise on a covariance, by its average eigenvalue


@dataclass(frozen=True)
class ClassGaussians:
    """Weights (n_classes,), means (n_classes, k) and covariances (n_classes, k, k)."""

    counts: Array
    means: Array
    covariances: Array

    def log_densities(self, Z: Array) -> Array:
        """``log N(z; mean_c, covariance_c)`` for each row and class."""
        columns = []
        for mean, covariance in zip(self.means, self.covariances, strict=True):
            eigenvalues, axes = np.linalg.eigh(covariance)
            whitened = ((Z - mean) @ axes) / np.sqrt(eigenvalues)
            constant = len(mean) * math.log(2 * math.pi) + float(np.log(eigenvalues).sum())
            columns.append(-0.5 * (np.einsum("ij,ij->i", whitened, whitened) + constant))
        return np.column_stack(columns)


@dataclass(frozen=True)
class CentredGaussians(ClassGaussians):
    """Released: Gaussians of ``u = Uᵀ(x - centre) / radius``; no row is held."""

    centre: Array  # the private mean
    basis: Array  # U, orthonormal columns
    radius: float  # length of a row that has |u| = 1
    classes: NDArray[np.intp]  # code of the class of each Gaussian

    def in_units_of(self, bounds: Bounds) -> CentredGaussians:
        """Return the Gaussians of the unit ball in the units of rows with these bounds."""
        centre, radius = bounds.ball(len(self.centre))
        return replace(self, centre=centre + radius * self.centre, radius=radius * self.radius)

    def to_coordinates(self, rows: Array) -> Array:
        """Return u of rows, clipped to the unit ball as the rows of the sums were."""
        coordinates = (rows - self.centre) @ self.basis / self.radius
        return np.asarray(Bounds(norm=1.0).clip(coordinates))

    def sample(self, number: int, n_rows: int, generator: np.random.RandomState) -> Array:
        """Draw coordinates u from one Gaussian; costs no budget."""
        covariance = self.covariances[number]
        eigenvalues, axes = np.linalg.eigh(covariance)
        normal = generator.standard_normal((n_rows, len(covariance)))
        spread = normal * np.sqrt(np.maximum(eigenvalues, 0.0))
        return np.asarray(self.means[number] + spread @ axes.T)

    def to_rows(self, coordinates: Array) -> Array:
        """Return the rows that have these coordinates and nothing outside U."""
        return np.asarray(self.centre + self.radius * (coordinates @ self.basis.T))


# Releases ---------------------------------------------------------------------------------------


class ClassGaussianSums:
    """The releases of the four steps: declared when this is made, drawn by `draw`.

    n_components: Private directions; with all features none are released.
    n_parts: Gaussians per class, 1, 2 or 4; None: `default_n_gaussians` where the number of rows
        is public, else 1.
    """

    def __init__(
        self,
        budget: Budget,
        records: Records,
        *,
        n_classes: int,
        n_components: int,
        n_parts: int | None = None,
    ) -> None:
        width = records.width
        if n_parts is None and records.public_rows is not None:
            n_parts = default_n_gaussians(
                epsilon=budget.epsilon,
                delta=budget.delta,
                n_rows=records.public_rows,
                n_classes=n_classes,
                n_components=n_components,
                noise=math.sqrt(records.variance_of(GaussianMechanism(1.0, 1.0))),
            )
        n_parts = n_parts or 1 if n_components >= 2 else 1  # a cut needs another axis
        self.budget, self.records = budget, records
        self.n_classes, self.n_components, self.n_parts = n_classes, n_components, n_parts
        # Parts of classes are groups of one and the same joint statistic.
        moments = ClassMoments(n_classes * n_parts, n_components, CONSTANT)
        pca, sketch = PCA_SHARE * (n_components < width), SKETCH_SHARE * (n_parts > 1)
        self.mean = budget.gaussian(MeanAndSquares(width), MEAN_SHARE)
        self.axes = budget.gaussian(SecondMoment(width), pca) if pca else None
        self.sketch = budget.gaussian(moments, sketch) if sketch else None
        self.moments = budget.gaussian(moments, 1 - sum((MEAN_SHARE, pca, sketch)))

    def draw(self) -> CentredGaussians:
        """Return the Gaussians of the unit ball; rows are read once for each release."""
        records = self.records
        noisy = self.budget.draw(self.mean, records)  # [R1] first release
        n_rows = float(records.public_rows or max(noisy[-1], 1.0))
        mean, square = noisy[:-2] / n_rows, min(max(float(noisy[-2]) / n_rows, 0.0), 1.0)
        noise = records.variance_of(self.mean.mechanism) / n_rows**2
        # The noise adds to the length of the mean what it has itself; take that away again.
        length = float(mean @ mean)
        mean = mean * max(0.0, 1 - len(mean) * noise / length) if length > 0 else mean
        mean = Bounds(norm=1.0).clip(mean[None, :])[0]
        floor = max(MIN_SPREAD, 2 * math.sqrt(noise))
        spread = min(max(square - float(mean @ mean), floor), 1.0)
        basis, share = np.eye(records.width), 1.0
        if self.axes is not None:  # [R2] principal directions of centred rows
            centred = records.mapped(Centred(mean, math.sqrt(spread)))
            values, basis = top_eigenvectors(
                self.budget.draw(self.axes, centred), self.n_components
            )
            share = float(np.maximum(values, 0).sum()) / n_rows
        radius = CLIP * math.sqrt(min(max(share * spread, MIN_SPREAD), spread))
        projected = records.mapped(Projected(mean, basis, radius))
        parts, numbers = None, np.arange(self.n_classes)
        if self.sketch is not None:  # [R3] each class is cut along the first axes of its Gaussian
            found = self._draw_moments(self.sketch, projected)
            n_axes = self.n_parts.bit_length() - 1
            axes = np.linalg.eigh(found.covariances)[1][:, :, : -n_axes - 1 : -1]
            parts, numbers = Parts(found.means, axes), np.repeat(numbers, self.n_parts)
        gaussians = self._draw_moments(self.moments, projected, parts)  # [R4] last release
        return CentredGaussians(
            **vars(gaussians), centre=mean, basis=basis, radius=radius, classes=numbers
        )

    def _draw_moments(
        self, release: Release, rows: Records, parts: Parts | None = None
    ) -> ClassGaussians:
        statistic = ClassMoments(self.n_classes, rows.width, CONSTANT, parts)
        noisy = statistic.unweighted(self.budget.draw(release, rows, statistic))
        n_rows = self.records.public_rows
        return gaussians_from_moments(noisy, self.budget.noise(release), n_rows=n_rows)


def default_n_gaussians(
    *,
    epsilon: float,
    delta: float,
    n_rows: int,
    n_classes: int,
    n_components: int,
    noise: float = 1.0,
) -> int:
    """Return the number of Gaussians per class, 1, 2 or 4, from public numbers alone.

    A covariance of k coordinates over n rows carries noise of spectral radius ``√(2k) s / n`` and
    has an average eigenvalue of about ``1/k``. Take as many parts of equal size as keep the first
    below half of the second. `noise` is by how much more noise several parties add.
    """
    mu = mu_from_budget(epsilon, delta) * math.sqrt(1 - MEAN_SHARE - PCA_SHARE - SKETCH_SHARE)
    mu /= noise
    for parts in (4, 2):
        rows = n_rows / (n_classes * parts)
        moved = ClassMoments(1, n_components, CONSTANT).term_sensitivity(Relation.REPLACE_ONE)
        radius = math.sqrt(2 * n_components) * moved / mu / rows
        if n_components * radius <= TOLERABLE_NOISE:
            # Each cut needs an axis, and a part more rows than coordinates.
            return parts if rows > n_components >= 2 else 1
    return 1


# Post-processing: no row is read from here on ---------------------------------------------------


def gaussians_from_moments(
    moments: Array, noise: float, *, n_rows: int | None = None
) -> ClassGaussians:
    """Turn ``S_c + noise`` into counts, means and positive definite covariances.

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
    means = moments[:, :-1, -1] / counts[:, None]
    means = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1.0)
    second = moments[:, :-1, :-1] / counts[:, None, None]
    raw = second - means[:, :, None] * means[:, None, :]
    pooled = np.average(raw, axis=0, weights=counts)
    pooled_noise = noise * math.sqrt(len(counts)) / counts.sum()
    average = max(float(np.trace(pooled)) / len(pooled), 0.1 * pooled_noise, 1e-12)
    order, covariances = len(pooled), []
    for covariance, count in zip(raw, counts, strict=True):
        radius = noise / count * math.sqrt(2 * order)
        energy = float(np.sum((covariance - pooled) ** 2))
        noise_energy = (noise / count) ** 2 * order * (order + 1) / 2
        share = min(1.0, SHRINKAGE_WEIGHT * noise_energy / energy) if energy > 0 else 0.0
        eigenvalues, axes = np.linalg.eigh((1 - share) * covariance + share * pooled)
        floor = max(FLOOR_WEIGHT * radius * max(1 - share, 0.3), MIN_EIGENVALUE * average)
        ratio = max(radius / average, ROUND_FROM)
        roundness = min(1.0, math.log(ratio / ROUND_FROM) / math.log(ROUND_AT / ROUND_FROM))
        eigenvalues = np.maximum(eigenvalues, floor) ** (1 - roundness) * average**roundness
        covariances.append((axes * eigenvalues) @ axes.T)
    return ClassGaussians(counts, means, np.array(covariances))


def stored_covariances(value: Any, place: str, sizes: dict[str, int]) -> None:
    """Ask a stored model for g positive definite covariances of order k."""
    numbers("g", "k", "k")(value, place, sizes)
    least = np.linalg.eigvalsh(value)[:, 0] if value.size else np.ones(1)
    if not np.allclose(value, np.swapaxes(value, -1, -2), rtol=1e-6):
        raise refuse(place, "symmetric matrices")
    if not (least > 0).all():
        raise refuse(place, "positive definite matrices")


def stored_gaussians() -> dict[str, Any]:
    """Return what a stored model must hold for its Gaussians."""
    return {
        "counts": numbers("g", above=0.0),
        "means": numbers("g", "k"),
        "covariances": stored_covariances,
    }
