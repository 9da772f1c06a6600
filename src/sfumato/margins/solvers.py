"""Newton's method for linear scores: exact steps in few dimensions, conjugate gradients in many.

Minimises ``F(W) = sum_i loss(W a_i; y_i) + <B, W> + (lam/2) ||W||²``, which is strongly convex, so
that a small gradient is a certificate: ``||W - W*|| <= ||grad F(W)|| / lam``.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sfumato.margins.losses import Loss

__all__ = ["newton"]

Array = NDArray[np.float64]

MOST_STEPS = 200
BLOCK = 4096  # rows whose share of a Hessian is added at once
LARGEST_DENSE = 400  # unknowns that are solved for at once by a Cholesky factor
SHORTEST_STEP = 2.0**-30
ROUNDING = 2.0**-44
SUFFICIENT = 1e-4  # Armijo: the share of the promised decrease that must come


def _blocks(n_rows: int) -> list[slice]:
    return [slice(start, start + BLOCK) for start in range(0, n_rows, BLOCK)]


def newton(
    loss: Loss,
    rows: Array,
    targets: Array,
    linear: Array,
    strong_convexity: float,
    tolerance: float,
) -> Array:
    """Minimise F from zero to a gradient norm of `tolerance`, or as near as doubles allow.

    Parameters
    ----------
    loss : Loss
    rows : ndarray of shape (n, m)
    targets : ndarray of shape (n, n_scores)
    linear : ndarray of shape (n_scores, m)
        B.
    strong_convexity : float
        lam.
    tolerance : float
        Gradient norm to stop at.
    """
    if loss.couples_scores or loss.n_scores == 1:
        return _one_problem(_Problem(loss, rows, targets, linear, strong_convexity), tolerance)
    single = replace(loss, n_classes=2)  # a sum of losses of one score each: one after the other
    share = tolerance / math.sqrt(loss.n_scores)
    parts = [
        _one_problem(_Problem(single, rows, y[:, None], b[None, :], strong_convexity), share)
        for y, b in zip(targets.T, linear, strict=True)
    ]
    return np.concatenate(parts)


def _one_problem(problem: _Problem, tolerance: float) -> Array:
    weights = np.zeros_like(problem.linear)
    scores = problem.rows @ weights.T
    value, gradient = problem.value(weights, scores), problem.gradient(weights, scores)
    for _ in range(MOST_STEPS):
        if float(np.linalg.norm(gradient)) <= tolerance:
            break
        try:
            direction = problem.direction(scores, gradient)
        except (LinAlgError, ValueError):  # the Hessian is singular, or not finite, in doubles
            break
        moved = problem.rows @ direction.T
        slope = float(np.vdot(gradient, direction))
        length = 1.0
        while length > SHORTEST_STEP:
            new, new_scores = weights + length * direction, scores + length * moved
            new_value = problem.value(new, new_scores)
            # Near the minimum values differ by their rounding only; there full steps are right.
            if new_value <= value + SUFFICIENT * length * slope + ROUNDING * abs(value):
                break
            length /= 2
        weights, scores, value = new, new_scores, new_value
        gradient = problem.gradient(weights, scores)
    return weights


class _Problem:
    """F with its derivatives at scores that are known."""

    def __init__(
        self, loss: Loss, rows: Array, targets: Array, linear: Array, strong_convexity: float
    ) -> None:
        self.loss, self.rows, self.targets = loss, rows, targets
        self.linear, self.lam = linear, strong_convexity

    def value(self, weights: Array, scores: Array) -> float:
        total = float(self.loss.values(scores, self.targets).sum())
        return total + float(np.vdot(self.linear + self.lam / 2 * weights, weights))

    def gradient(self, weights: Array, scores: Array) -> Array:
        slopes = self.loss.slopes(scores, self.targets)
        return np.asarray(slopes.T @ self.rows + self.linear + self.lam * weights)

    def direction(self, scores: Array, gradient: Array) -> Array:
        """``-H⁻¹ gradient``, exactly or by conjugate gradients."""
        curvatures = self.loss.curvatures(scores, self.targets)
        unknowns = gradient.size if self.loss.couples_scores else gradient.shape[1]
        if unknowns > LARGEST_DENSE:
            return self._by_conjugate_gradients(curvatures, gradient)
        if self.loss.couples_scores:
            return self._jointly(curvatures, gradient)
        return self._score_by_score(curvatures, gradient)

    def _score_by_score(self, curvatures: Array, gradient: Array) -> Array:
        direction = np.empty_like(gradient)
        for k, column in enumerate(curvatures.T):
            hessian = np.zeros((gradient.shape[1], gradient.shape[1]))
            for part in _blocks(len(self.rows)):
                (curved,) = np.nonzero(column[part])
                active = self.rows[part][curved]
                hessian += active.T @ (column[part][curved, None] * active)
            direction[k] = -self._solved(hessian, gradient[k])
        return direction

    def _jointly(self, shares: Array, gradient: Array) -> Array:
        """``diag(p) - p pᵀ`` for each row: blocks of ``sum a aᵀ (p_c [c = d] - p_c p_d)``."""
        n_scores, m = gradient.shape
        diagonal = np.zeros((n_scores * m, m))
        flat = np.zeros((n_scores * m, n_scores * m))
        for part in _blocks(len(self.rows)):
            rows = self.rows[part]
            weighted = (shares[part, :, None] * rows[:, None, :]).reshape(len(rows), -1)
            diagonal += weighted.T @ rows
            flat -= weighted.T @ weighted
        for c, block in enumerate(diagonal.reshape(n_scores, m, m)):
            place = slice(c * m, (c + 1) * m)
            flat[place, place] += block
        return -self._solved(flat, gradient.ravel()).reshape(gradient.shape)

    def _solved(self, hessian: Array, right: Array) -> Array:
        hessian[np.diag_indices_from(hessian)] += self.lam
        return np.asarray(cho_solve(cho_factor(hessian, lower=True), right))

    def _by_conjugate_gradients(self, curvatures: Array, gradient: Array) -> Array:
        """Solve to a residual that shrinks with the gradient, so that steps become exact."""
        start = float(np.linalg.norm(gradient))
        wanted = start * min(0.1, np.sqrt(start / len(self.rows)))
        direction, residual = np.zeros_like(gradient), -gradient
        search, square = residual, start**2
        for _ in range(gradient.size):
            image = self._hessian_times(curvatures, search)
            step = square / float(np.vdot(search, image))
            direction = direction + step * search
            residual = residual - step * image
            previous, square = square, float(np.vdot(residual, residual))
            if np.sqrt(square) <= wanted:
                break
            search = residual + square / previous * search
        return direction

    def _hessian_times(self, curvatures: Array, direction: Array) -> Array:
        moved = curvatures * (self.rows @ direction.T)
        if self.loss.couples_scores:
            moved -= curvatures * moved.sum(axis=1, keepdims=True)
        return moved.T @ self.rows + self.lam * direction
