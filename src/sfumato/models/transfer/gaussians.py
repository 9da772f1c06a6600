"""The source as one Gaussian per class, from noisy sums. No raw row is read."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.models.gaussians import CentredGaussians, ClassGaussians
from sfumato.sums.maps import exact_projection, row_sums

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


def coordinates_of(source: SourceGaussians, rows: Array) -> Array:
    """Return ``Uᵀ(x - centre) / radius``."""
    return np.asarray((rows - source["centre"]) @ source["basis"] / float(source["radius"]))


def log_joint(source: SourceGaussians, coordinates: Array) -> Array:
    """``log(n_c / n) + log N(u; mean_c, covariance_c)`` for each row and class."""
    gaussians = ClassGaussians(source["counts"], source["means"], source["covariances"])
    shares = source["counts"] / source["counts"].sum()
    return np.asarray(gaussians.log_densities(coordinates) + np.log(shares))


def codes_alone(
    sources: Sequence[SourceGaussians], rows: Array, reaches: Sequence[float]
) -> NDArray[np.intp]:
    """Return the most probable class of each row by all sources, by that row alone.

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
