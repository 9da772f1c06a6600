"""Sections 2.1, 3.2, 3.4, 4 and 5 of the paper for a function of your own.

Bound how far one record moves it (`sobolev_norm`, `expansion_norm`, or a printed sensitivity), then
release it: `release_vector` at points, `choose_function` from a list.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms import ExponentialMechanism, GaussianMechanism
from sfumato.models.features import Kernel
from sfumato.papers.functions.spaces import MarkovLine

Array = NDArray[np.float64]
SMALLEST = 2.0**-40  # share of the largest pivot of M below which rounding errors would show


def release_vector(
    value: ArrayLike,
    covariance: ArrayLike,
    mechanism: GaussianMechanism,
    *,
    ledger: Chargeable | None = None,
) -> Array:
    """Return ``v + s Z``, ``Z ~ N(0, M)`` for a general M (Proposition 3; section 5, batch).

    Parameters
    ----------
    value : array-like of shape (n,)
        The vector v, such as a function at n public points.
    covariance : array-like of shape (n, n)
        The matrix M, positive definite and public: the Gram matrix of a kernel (Proposition 7),
        or any other.
    mechanism : GaussianMechanism
        Its sensitivity bounds ``||M^(-1/2) (v - v')||`` over neighbours; its noise is s.
    ledger : DatasetBudget or Receipt, optional
        Who pays.

    Returns
    -------
    ndarray of shape (n,)
        The release.

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : ``L⁻¹ v`` with independent noise, ``M = L Lᵀ``; all else is post-processing.
    Sensitivity : ``||L⁻¹ (v - v')||`` is the printed Mahalanobis norm, the caller's word.
    Guarantee : that of the mechanism.
    Assumptions and numerics : noise is float-safe on the whitened vector; an M that has lost rank
        is refused, since rounding errors of v would be magnified.
    """
    given, matrix = np.asarray(value, np.float64), np.asarray(covariance, np.float64)
    if matrix.shape != given.shape * 2 or not np.allclose(matrix, matrix.T):
        raise InvalidInputError(
            "'covariance' must be symmetric, with a row and a column for each value."
        )
    try:
        factor = cholesky(matrix, lower=True)
    except (LinAlgError, ValueError):
        factor = np.zeros((1, 1))
    if factor.diagonal().min() <= math.sqrt(SMALLEST) * factor.diagonal().max():
        raise InvalidInputError(
            "'covariance' has no full rank in doubles: ask at fewer points, or add to its diagonal."
        )
    white = solve_triangular(factor, given, lower=True, check_finite=False)
    return np.asarray(factor @ mechanism.release(white, ledger=ledger))


def choose_function(
    distances: ArrayLike, *, sensitivity: float, epsilon: float, ledger: Chargeable | None = None
) -> int:
    """Return the place of one of m public functions, ``P(i) ∝ exp(-epsilon d_i / (2 s))`` (3.2).

    Parameters
    ----------
    distances : array-like of shape (m,)
        ``d(g_i, f)`` of each candidate to the secret function, by any distance.
    sensitivity : float
        Largest ``d(f, f')`` over neighbours: by the triangle inequality no distance moves
        further.
    epsilon : float
        The budget; pure, unlike that of the other releases of the paper.
    ledger : DatasetBudget or Receipt, optional
        Who pays.

    Returns
    -------
    int
        Which function was chosen.

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : a place in a public list.
    Sensitivity : the caller's word.
    Guarantee : epsilon, without delta.
    Assumptions and numerics : exact sampling, see `sfumato.mechanisms.ExponentialMechanism`.
    """
    mechanism = ExponentialMechanism(sensitivity, epsilon)
    return mechanism.release(-np.asarray(distances, np.float64), ledger=ledger)


def sobolev_norm(
    function: Callable[[Array], Array], rate: float, n_features: int = 1, n_knots: int = 1025
) -> float:
    """Return the norm (9), in d dimensions (10), of a function on the unit cube.

    Parameters
    ----------
    function : callable
        Takes rows of [0, 1]^d and returns a number for each; such as ``f_D - f_D'``.
    rate : float
        Rate gamma of the kernel ``exp(-gamma ||x - y||_1)``.
    n_features : int, default=1
        Dimension d.
    n_knots : int, default=1025
        Points along each axis.

    Returns
    -------
    float
        The norm of the smoothest function of the space with these values at the points: exactly
        what a release at them needs; it grows to (9) and (10) with their number.
    """
    axis = np.linspace(0.0, 1.0, n_knots)
    grid = np.stack(np.meshgrid(*[axis] * n_features, indexing="ij"), axis=-1)
    values = np.asarray(function(grid.reshape(-1, n_features)), np.float64)
    values = values.reshape((n_knots,) * n_features)
    line = MarkovLine(axis, rate)
    for place in range(n_features):
        values = np.moveaxis(line.whiten(np.moveaxis(values, place, 0)), 0, place)
    return float(np.linalg.norm(values))


def expansion_norm(points: ArrayLike, weights: ArrayLike, kernel: Kernel) -> float:
    """Return ``||sum_i w_i K(., x_i)||`` in the space of a kernel, of which each is one (3.4).

    Parameters
    ----------
    points : array-like of shape (n, n_features)
        Points x.
    weights : array-like of shape (n,)
        Weights w.
    kernel : Kernel
        Such as `sfumato.models.features.GaussianKernel`.

    Returns
    -------
    float
        ``sqrt(wᵀ K w)``.
    """
    rows, w = np.asarray(points, np.float64), np.asarray(weights, np.float64)
    return math.sqrt(max(0.0, float(w @ kernel(rows, rows) @ w)))


def rule_of_thumb(ranges: ArrayLike, n_rows: int) -> Array:
    """Return ``h_j = (4 / ((d + 1) n))^(1 / (d + 4)) IQR_j / 1.34`` (4.1.2).

    Parameters
    ----------
    ranges : array-like of shape (n_features,)
        Interquartile range of each feature: a release, such as two of `release_quantiles`.
    n_rows : int
        Public number of rows.

    Returns
    -------
    ndarray of shape (n_features,)
        Bandwidths, as private as the ranges.
    """
    found = np.atleast_1d(np.asarray(ranges, np.float64))
    share = (4 / ((found.size + 1) * n_rows)) ** (1 / (found.size + 4))
    return np.asarray(share * found / 1.34)


def density_sensitivity(n_rows: int, bandwidth: float, n_features: int = 1) -> float:
    """Return ``√2 / (n (2 pi h²)^(d/2))``, printed in 4.1; tight for rows far apart.

    Parameters
    ----------
    n_rows, n_features : int
        Numbers n and d.
    bandwidth : float
        Bandwidth h; of a matrix H (4.1.1) ``det(H)^(1 / (2 d))``.

    Returns
    -------
    float
        In the norm of the Gaussian kernel.
    """
    return float(math.sqrt(2) / (n_rows * (2 * math.pi * bandwidth**2) ** (n_features / 2)))


def sobolev_density_sensitivity(n_rows: int, bandwidth: float, n_features: int = 1) -> float:
    """Return ``2 / ((2 pi)^(d/4) n h^d)``, printed in 4.2; `spaces.sobolev_sensitivity` is less.

    Parameters
    ----------
    n_rows, n_features : int
        Numbers n and d.
    bandwidth : float
        Bandwidth h; the rate of the exponential kernel is ``1 / h``.

    Returns
    -------
    float
        In the norm (10).
    """
    return float(2 / ((2 * math.pi) ** (n_features / 4) * n_rows * bandwidth**n_features))


def machine_sensitivity(n_rows: int, regularization: float, lipschitz: float = 1.0) -> float:
    """Return ``M / (lambda n)``, printed in 4.3 for M-admissible losses and ``K(x, x) = 1``.

    Parameters
    ----------
    n_rows : int
        Number n.
    regularization, lipschitz : float
        Factor lambda of the squared norm in (11), and the Lipschitz constant M of the loss.

    Returns
    -------
    float
        In the norm of the kernel.
    """
    return lipschitz / (regularization * n_rows)
