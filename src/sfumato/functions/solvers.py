"""Regularised minimisers with a certificate of how near they are.

For ``P(w) = (1/n) sum_i loss(w.phi_i, y_i) + λ |w|²`` and any slopes s_i that the loss admits, let
``w_s = -(1 / 2 λ n) sum_i s_i phi_i``. Then

``P(w) - min P <= λ |w - w_s|² + (1/n) sum_i (loss(t_i) + conjugate(s_i) - s_i t_i)``

with ``t_i = w.phi_i``: the duality gap. Both terms are sums of squares or of non-negative numbers,
so the gap is computed without cancellation. P is 2λ-strongly convex, hence
``|w - argmin P| <= sqrt(gap / λ)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh, lstsq
from scipy.optimize import minimize

from sfumato.exceptions import InvalidInputError
from sfumato.functions.losses import Loss

__all__ = ["Minimiser", "VectorLoss", "duality_gap", "minimise", "minimise_jointly"]

Array = NDArray[np.float64]

MOST_STEPS = 5000
FIRST_WIDTH = 0.5  # smoothing of a loss with kinks, a tenth of it at every later stage
DISCARDED = 1e-14  # share of the largest variance below which a direction of the rows is left out


@dataclass(frozen=True)
class Minimiser:
    """A point and what its objective exceeds the minimum by, at most."""

    coefficients: Array
    gap: float


class VectorLoss(Protocol):
    """A smooth loss of several scores a row."""

    @property
    def lipschitz(self) -> float:
        """Bound of the gradient's length."""

    def value_and_slope(self, scores: Array, codes: NDArray[np.intp]) -> tuple[Array, Array]:
        """Loss and gradient of each row."""


def duality_gap(
    features: Array, y: Array, loss: Loss, regularization: float, w: Array, width: float, n: int
) -> float:
    """Certified excess of the objective at w, with the slopes of the smoothed loss as dual."""
    scores = features @ w
    slopes = loss.slope(scores, y, width)
    if not loss.smooth:
        slopes = _balanced(features, y, loss, regularization, w, scores, slopes, width, n)
    apart = w + features.T @ slopes / (2 * regularization * n)
    return float(regularization * (apart @ apart) + loss.slack(scores, y, slopes).sum() / n)


def _balanced(
    features: Array,
    y: Array,
    loss: Loss,
    regularization: float,
    w: Array,
    scores: Array,
    slopes: Array,
    width: float,
    n: int,
) -> Array:
    """Change the slopes at kinks, within what the loss admits, so that ``w_s`` comes nearer to w.

    At a kink a slope computed from scores carries their rounding divided by the width; any other
    admitted slope certifies as well.
    """
    at_kink = loss.curvature(scores, y, width) > 0
    if not 0 < at_kink.sum() <= features.shape[1]:  # near the minimum there are no more
        return slopes
    missing = -2 * regularization * n * w - features.T @ slopes
    change = lstsq(features[at_kink].T, missing)[0]
    low, high = loss.admitted(scores[at_kink], y[at_kink])
    balanced = slopes.copy()
    balanced[at_kink] = np.clip(slopes[at_kink] + change, low, high)
    return balanced


def minimise(
    features: Array,
    y: Array,
    loss: Loss,
    *,
    regularization: float,
    tolerance: float,
    n_rows: int | None = None,
) -> Minimiser:
    """Minimise ``(1/n) sum loss + λ |w|²`` to a certified duality gap of `tolerance`.

    Newton's method with an exact line search. A loss with kinks is smoothed, less and less, until
    the certificate of the loss itself holds: smoothing of width w costs at most ``w/2``.

    Parameters
    ----------
    features : ndarray of shape (n, m)
    y : ndarray of shape (n,)
        Labels -1 and 1, or targets.
    loss : Loss
    regularization : float
        λ.
    tolerance : float
        The gap to reach; a public number.
    n_rows : int, optional
        The divisor n, where it is not the number of rows.

    Raises
    ------
    InvalidInputError
        The tolerance is finer than doubles allow.
    """
    n = len(y) if n_rows is None else n_rows
    basis = _directions(features)
    reduced = features @ basis
    w, width = np.zeros(basis.shape[1]), FIRST_WIDTH
    for step in range(MOST_STEPS):
        w, moved = _newton_step(reduced, y, loss, regularization, w, width, n)
        full = basis @ w
        gap = duality_gap(features, y, loss, regularization, full, width, n)
        if gap <= tolerance:
            return Minimiser(full, gap)
        if not loss.smooth and (moved <= max(tolerance, 0.1 * width) or step % 20 == 19):
            width = max(width / 10, tolerance)
    raise InvalidInputError(
        "The minimiser was not reached to its tolerance; raise 'regularization' or 'tolerance'."
    )


def _directions(features: Array) -> Array:
    """Orthonormal directions in which the rows vary at all.

    The rest is left out of the search only: the certificate is computed with all features.
    """
    n, m = features.shape
    if m <= n:
        values, vectors = eigh(features.T @ features)
        return np.asarray(vectors[:, values > DISCARDED * values[-1]])
    values, vectors = eigh(features @ features.T)
    kept = values > DISCARDED * values[-1]
    basis, _ = np.linalg.qr(features.T @ vectors[:, kept])
    return np.asarray(basis)


def _newton_step(
    features: Array, y: Array, loss: Loss, regularization: float, w: Array, width: float, n: int
) -> tuple[Array, float]:
    """One step along Newton's direction, and how much of the objective is left to gain there."""
    scores = features @ w
    gradient = features.T @ loss.slope(scores, y, width) / n + 2 * regularization * w
    weights = loss.curvature(scores, y, width)
    active = weights > 0
    bent = features[active] * np.sqrt(weights[active] / n)[:, None]
    direction = -_solve_ridge(bent, 2 * regularization, gradient)
    along = features @ direction

    def derivative(step: float) -> float:
        slopes = loss.slope(scores + step * along, y, width)
        ridge = 2 * regularization * (direction @ (w + step * direction))
        return float(slopes @ along / n + ridge)

    return w + _root(derivative) * direction, float(-gradient @ direction)


def _solve_ridge(B: Array, ridge: float, right: Array) -> Array:
    """``(BᵀB + ridge I)⁻¹ right``, by the smaller of the two Gram matrices."""
    wide = B.shape[0] < B.shape[1]
    gram = B @ B.T if wide else B.T @ B
    gram[np.diag_indices_from(gram)] += ridge
    if not wide:
        return np.asarray(cho_solve(cho_factor(gram), right))
    if not len(gram):
        return right / ridge
    return np.asarray((right - B.T @ cho_solve(cho_factor(gram), B @ right)) / ridge)


def _root(derivative: Callable[[float], float]) -> float:
    """Zero of an increasing function that is negative at 0, near 1 if possible; to 1e-3."""
    low, high = 0.0, 1.0
    while derivative(high) < 0 and high < 2.0**20:
        low, high = high, 2 * high
    if low == 0.0 and abs(derivative(1.0)) <= 1e-3 * abs(derivative(0.0)):
        return 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if derivative(middle) < 0 else (low, middle)
        if high - low <= 1e-3 * high:
            break
    return (low + high) / 2


def minimise_jointly(
    features: Array,
    codes: NDArray[np.intp],
    n_classes: int,
    loss: VectorLoss,
    *,
    regularization: float,
    tolerance: float,
    n_rows: int | None = None,
) -> Minimiser:
    """Minimise a smooth loss of all class scores together; coefficients are one column a class.

    The gap of a smooth loss is ``|grad P|² / 4λ``: the slopes at w itself leave no slack.
    """
    n = len(codes) if n_rows is None else n_rows
    basis = _directions(features)
    reduced = features @ basis
    shape = (basis.shape[1], n_classes)

    def objective(flat: Array) -> tuple[float, Array]:
        W = flat.reshape(shape)
        values, slopes = loss.value_and_slope(reduced @ W, codes)
        gradient = reduced.T @ slopes / n + 2 * regularization * W
        return float(values.sum() / n + regularization * np.sum(W**2)), gradient.ravel()

    flat = np.zeros(shape[0] * shape[1])
    for _ in range(20):  # a restart forgets a curvature that rounding has spoilt
        options = {"maxiter": 5000, "maxfun": 10000, "gtol": 1e-14, "ftol": 1e-18, "maxcor": 30}
        flat = minimize(objective, flat, jac=True, method="L-BFGS-B", options=options).x
        W = basis @ flat.reshape(shape)
        slopes = loss.value_and_slope(features @ W, codes)[1]
        gradient = features.T @ slopes / n + 2 * regularization * W
        gap = float(np.sum(gradient**2)) / (4 * regularization)
        if gap <= tolerance:
            return Minimiser(W, gap)
    raise InvalidInputError(
        "The minimiser was not reached to its tolerance; raise 'regularization' or 'tolerance'."
    )
