"""Ellipsoids as matrices: ``[x; 1]ᵀ Φ [x; 1] = (x - μ)ᵀ Ψ (x - μ) + θ``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["centroids", "ellipsoid_matrices", "offsets", "precisions"]

Array = NDArray[np.float64]


def ellipsoid_matrices(centres: Array, inverse_covariances: Array, heights: Array) -> Array:
    """Φ of each ellipsoid, equation (2) of Pathak and Raj."""
    order = centres.shape[1]
    matrices = np.empty((len(centres), order + 1, order + 1))
    sides = np.einsum("kij,kj->ki", inverse_covariances, centres)
    matrices[:, :-1, :-1] = inverse_covariances
    matrices[:, :-1, -1] = matrices[:, -1, :-1] = -sides
    matrices[:, -1, -1] = np.einsum("ki,ki->k", centres, sides) + heights
    return matrices


def precisions(matrices: Array) -> Array:
    """Ψ, the inverse covariance of each ellipsoid."""
    return np.asarray(matrices[:, :-1, :-1])


def centroids(matrices: Array) -> Array:
    """μ, the centre of each ellipsoid; the one nearest to zero where an axis is infinite."""
    inverses = np.linalg.pinv(matrices[:, :-1, :-1], hermitian=True)
    return np.asarray(-np.einsum("kij,kj->ki", inverses, matrices[:, :-1, -1]))


def offsets(matrices: Array) -> Array:
    """θ, the score at the centre; not negative for positive semidefinite Φ."""
    reach = np.einsum("ki,ki->k", matrices[:, :-1, -1], centroids(matrices))
    return np.asarray(matrices[:, -1, -1] + reach)
