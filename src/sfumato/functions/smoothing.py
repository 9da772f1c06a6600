"""Smoothing of single curves in the space of a kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from sfumato.kernels import Kernel

__all__ = ["smoothing_weights"]

Array = NDArray[np.float64]


def smoothing_weights(
    kernel: Kernel, points: Array, values: Array, seen: NDArray[np.bool_], smoothing: float
) -> Array:
    """Weights a_i of ``f_i = sum_j a_ij K(., t_j)``, the smoothing of curve i.

    ``f_i = argmin_f (1/m_i) sum_seen (f(t_j) - y_ij)² + λ ||f||²`` has ``(K + λ m_i I) a_i = y_i``
    on the m_i points at which it was seen, and no weight elsewhere.

    Parameters
    ----------
    kernel : Kernel
    points : ndarray of shape (n_points, 1)
    values : ndarray of shape (n_curves, n_points)
    seen : ndarray of bool, of the same shape
    smoothing : float
        λ.

    Returns
    -------
    ndarray of shape (n_curves, n_points)
    """
    gram = kernel(points, points)
    weights = np.zeros_like(values)
    patterns, members = np.unique(seen, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        if not pattern.any():
            continue
        curves = np.flatnonzero(members.ravel() == number)
        block = gram[np.ix_(pattern, pattern)]
        block[np.diag_indices_from(block)] += smoothing * pattern.sum()
        solved = cho_solve(cho_factor(block), values[np.ix_(curves, pattern)].T)
        weights[np.ix_(curves, pattern)] = solved.T
    return weights
