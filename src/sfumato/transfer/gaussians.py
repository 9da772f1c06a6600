"""The source as one Gaussian per class: from noisy sums, or from noisy rows. No raw row is read."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.models.gaussians import (
    CentredGaussians,
    ClassGaussians,
    gaussians_from_moments,
    top_eigenvectors,
)
from sfumato.sums.maps import exact_projection, row_sums

__all__ = [
    "SourceGaussians",
    "codes_alone",
    "coordinates_of",
    "from_noisy_rows",
    "from_released",
    "log_joint",
]

Array = NDArray[np.float64]
SourceGaussians = dict[str, Array]  # centre, basis, radius, counts, means, covariances


def from_released(released: CentredGaussians) -> SourceGaussians:
    """Keep what the record engine released, one Gaussian per class."""
    return {
        "centre": released.centre,
        "basis": released.basis,
        "radius": np.array(released.radius),
        "counts": released.gaussians.counts,
        "means": released.gaussians.means,
        "covariances": released.gaussians.covariances,
    }


def from_noisy_rows(
    rows: Array, codes: NDArray[np.intp], n_classes: int, n_components: int, noise_variance: Array
) -> SourceGaussians:
    """Give Gaussians of rows whose entries carry independent noise of a known variance a column.

    Directions are the principal ones that stand out of the noise, and those of the class means.
    The noise adds its own covariance to that of the rows, which is taken off again, and leaves
    sampling noise of about its variance times ``√(2 n)`` on a sum over n rows, to
    which the rows add their own. What that drowns is shrunk by `gaussians_from_moments`.
    """
    centre = rows.mean(axis=0)
    away = rows - centre
    basis = _directions(away, codes, n_classes, n_components, noise_variance)
    coordinates = away @ basis
    n_rows, order = coordinates.shape
    spread = float(np.einsum("ij,ij->", coordinates, coordinates)) / n_rows
    scaled = (basis.T * noise_variance) @ basis
    radius = math.sqrt(max(spread - float(np.trace(scaled)), 1e-9 * spread, 1e-300))
    coordinates /= radius
    scaled /= radius**2
    moments = np.zeros((n_classes, order + 1, order + 1))
    for code in range(n_classes):
        mine = coordinates[codes == code]
        members = np.column_stack([mine, np.ones(len(mine))])
        moments[code] = members.T @ members
        moments[code, :-1, :-1] -= scaled * len(mine)
    # Sampling has noise of its own: rows of a spread of about 1 / order along each direction.
    noise = (float(np.trace(scaled)) + 1) / order * math.sqrt(2 * n_rows / n_classes)
    gaussians = gaussians_from_moments(moments, noise)
    return from_released(CentredGaussians(centre, basis, radius, gaussians, np.arange(n_classes)))


def _directions(
    away: Array, codes: NDArray[np.intp], n_classes: int, n_components: int, noise_variance: Array
) -> Array:
    """Principal directions above the edge of the noise's spectrum, and the class means."""
    n_rows, n_features = away.shape
    without_noise = away.T @ away / n_rows - np.diag(noise_variance)
    values, principal = top_eigenvectors(without_noise, n_components)
    edge = float(noise_variance.max()) * ((1 + math.sqrt(n_features / n_rows)) ** 2 - 1)
    counts = np.maximum(np.bincount(codes, minlength=n_classes), 1)
    means = np.array([away[codes == code].sum(axis=0) for code in range(n_classes)])
    both = np.column_stack([principal[:, values > edge], (means / counts[:, None]).T])
    left, sizes, _ = np.linalg.svd(both, full_matrices=False)
    return np.asarray(left[:, sizes > 1e-9 * max(float(sizes[0]), 1e-300)])


def coordinates_of(source: SourceGaussians, rows: Array) -> Array:
    """Give ``Uᵀ(x - centre) / radius``."""
    return np.asarray((rows - source["centre"]) @ source["basis"] / float(source["radius"]))


def log_joint(source: SourceGaussians, coordinates: Array) -> Array:
    """``log(n_c / n) + log N(u; mean_c, covariance_c)`` for each row and class."""
    gaussians = ClassGaussians(source["counts"], source["means"], source["covariances"])
    shares = source["counts"] / source["counts"].sum()
    return np.asarray(gaussians.log_densities(coordinates) + np.log(shares))


def codes_alone(
    sources: Sequence[SourceGaussians], rows: Array, reaches: Sequence[float]
) -> NDArray[np.intp]:
    """Give the most probable class of each row by all sources, by that row alone.

    A plain matrix product rounds a row in another way among other rows, so that one record more
    could change the code of a row on the border of two classes. Here products are exact, and all
    else is done number by number.

    sources: Released Gaussians.
    rows (n_rows, n_features): Rows in the units of the sources.
    reaches: Public bounds on their distance from the centre of each source.
    Returns (n_rows,): Codes.
    """
    pairs = zip(sources, reaches, strict=True)
    scores = functools.reduce(np.add, (_scores_alone(each, rows, reach) for each, reach in pairs))
    return np.asarray(scores.argmax(axis=1))


def _scores_alone(source: SourceGaussians, rows: Array, reach: float) -> Array:
    """Log-scores of the classes, number by number."""
    radius = float(source["radius"])
    points = _turned(rows - source["centre"], source["basis"], reach) / radius
    shares = source["counts"] / source["counts"].sum()
    scores = []
    for share, mean, covariance in zip(shares, source["means"], source["covariances"], strict=True):
        variances, axes = np.linalg.eigh(covariance)
        away = _turned(points - mean, axes, 2 * reach / radius + float(np.linalg.norm(mean)))
        whitened = away / np.sqrt(variances)
        constant = math.log(share) - float(np.log(variances).sum()) / 2
        scores.append(constant - row_sums(whitened * whitened)[:, 0] / 2)
    return np.column_stack(scores)


def _turned(rows: Array, basis: Array, reach: float) -> Array:
    """``rows @ basis`` for rows of at most this length, cut to 26 bits of it, exactly."""
    unit = 2.0 ** math.ceil(math.log2(reach))
    return np.asarray(exact_projection(rows / unit, basis) * unit)
