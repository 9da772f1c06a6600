"""Whitening of rows on their way to a linear classifier, by a released second moment."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import (
    Array,
    is_foreign_array,
    like,
    namespace_of,
    to_numpy,
)
from sfumato.models.gaussians import top_eigenvectors
from sfumato.sums.maps import LinearRows

# Added to the eigenvalues before whitening, as a share of the largest eigenvalue that noise alone
# would have. Chosen on held-out training rows of two image sets among 0.03, 0.1 and 0.3.
FLOOR = 0.2
MIN_FLOOR = 1e-6  # of the largest eigenvalue, where there is no noise
# Chosen on held-out training rows of Adult, bank marketing and diamonds at three budgets.
CONSTANT = 0.25  # weight of the constant beside rows of length 1
RADIUS = 1.0  # of the root mean square length of whitened rows: longer ones are scaled back
MIN_RADIUS = 2.0**-20


def whitening_projection(moment: Array, n_components: int, noise: float) -> Array:
    """``U (E + floor)^(-1/2)``, scaled so that its largest singular value is 1."""
    values, vectors = _eigenvectors(moment, n_components)
    values = np.maximum(values, 0.0)
    floor = FLOOR * noise * math.sqrt(2 * moment.shape[0]) + MIN_FLOOR * (values[0] or 1.0)
    scales = 1 / np.sqrt(values + floor)
    return vectors * like(vectors, scales / scales.max() * (1 - 2.0**-30))


def whitened_rows(
    moment: NDArray[np.float64], noise: float, n_rows: float, default_square: float
) -> tuple[LinearRows, float]:
    """Return the map to whitened rows with a constant, divided by their typical length."""
    projection = whitening_projection(moment, len(moment), noise)
    spectrum = _whitened_spectrum(moment, projection, noise, n_rows, default_square)
    radius = max(RADIUS * math.sqrt(float(spectrum.sum())), MIN_RADIUS)
    rows = LinearRows(len(moment), True, projection, constant=CONSTANT, radius=radius)
    return rows, _max_moment(float(spectrum.max()) / radius**2)


def _whitened_spectrum(
    moment: NDArray[np.float64],
    projection: NDArray[np.float64],
    noise: float,
    n_rows: float,
    default_square: float,
) -> NDArray[np.float64]:
    """Mean squares of whitened rows along the axes of the projection.

    Eigenvalues of the moment that noise alone could have are not believed: these axes share what is
    left of the known sum of all, the mean squared length of a row.
    """
    squares = np.sum(projection**2, axis=0)
    values = np.sum(projection * (moment @ projection), axis=0) / squares
    is_seen = values > noise * math.sqrt(2 * len(moment))
    left = max(default_square * n_rows - float(values[is_seen].sum()), 0.0)
    values = np.where(is_seen, values, left / max(1, int(np.count_nonzero(~is_seen))))
    return np.asarray(values * squares / n_rows)


def _max_moment(largest: float) -> float:
    """Largest eigenvalue of the mean of ``a aᵀ`` over the rows of the descent, constant and all."""
    return (min(largest, 1.0) + CONSTANT**2) / (1 + CONSTANT**2)


def _eigenvectors(moment: Array, n_components: int) -> tuple[NDArray[np.float64], Array]:
    """Return the largest eigenvalues, and their eigenvectors in the library of the moment."""
    if not is_foreign_array(moment):
        return top_eigenvectors(moment, n_components)
    xp = namespace_of(moment)
    values, vectors = (xp.flip(part, axis=-1) for part in xp.linalg.eigh(moment))
    return to_numpy(values[:n_components]), vectors[:, :n_components]
