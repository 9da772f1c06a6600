"""Newton's method for linear scores: exact steps in few dimensions, conjugate gradients in many.

Minimises ``F(W) = sum_i loss(W a_i; y_i) + <B, W> + (lam/2) ||W||²``, which is strongly convex, so
that a small gradient is a certificate: ``||W - W*|| <= ||grad F(W)|| / lam``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sfumato.sums.losses import Loss

Array = NDArray[np.float64]


MAX_STEPS = 200
BLOCK = 4096  # rows whose share of a Hessian is added at once
MAX_DENSE = 400  # unknowns that are solved for at once by a Cholesky factor
MIN_STEP = 2.0**-30
ROUNDING = 2.0**-44
SUFFICIENT = 1e-4  # Armijo: the share of the promised decrease that must come


def blocks(n_rows: int) -> list[slice]:
    """Return the places of blocks of rows."""
    return [slice(start, min(start + BLOCK, n_rows)) for start in range(0, n_rows, BLOCK)]


def in_doubles(rows: Any, targets: NDArray[Any]) -> Iterator[tuple[Array, Array]]:
    """Yield blocks of rows with their targets; nothing else is as long as the rows."""
    for part in blocks(len(rows)):
        yield rows[part].astype(np.float64, copy=False), targets[part].astype(np.float64)


def newton(
    loss: Loss,
    rows: Any,
    targets: NDArray[Any],
    linear: Array,
    strong_convexity: float,
    tolerance: float,
) -> Array:
    """Minimise F from zero to a gradient norm of `tolerance`, or as near as doubles allow.

    rows (n, m): Read in blocks, which become doubles.
    targets: (n, n_scores).
    linear (n_scores, m): B.
    strong_convexity: lam.
    tolerance: Gradient norm to stop at.
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
    value, gradient = problem.value_and_gradient(weights)
    for _ in range(MAX_STEPS):
        if float(np.linalg.norm(gradient)) <= tolerance:
            break
        try:
            direction = problem.direction(weights, gradient)
        except (LinAlgError, ValueError):  # the Hessian is singular, or not finite, in doubles
            break
        slope = float(np.vdot(gradient, direction))
        length = 1.0
        while length > MIN_STEP:
            new = weights + length * direction
            new_value, gradient = problem.value_and_gradient(new)
            # Near the minimum values differ by their rounding only; there full steps are right.
            if new_value <= value + SUFFICIENT * length * slope + ROUNDING * abs(value):
                break
            length /= 2
        weights, value = new, new_value
    return weights


class _Problem:
    """F with its derivatives, each from one pass over blocks of rows."""

    def __init__(
        self, loss: Loss, rows: Any, targets: NDArray[Any], linear: Array, strong_convexity: float
    ) -> None:
        self.loss, self.rows, self.targets = loss, rows, targets
        self.linear, self.lam = linear, strong_convexity

    def value_and_gradient(self, weights: Array) -> tuple[float, Array]:
        value = float(np.vdot(self.linear + self.lam / 2 * weights, weights))
        gradient = self.linear + self.lam * weights
        for rows, targets in in_doubles(self.rows, self.targets):
            scores = rows @ weights.T
            value += float(self.loss.values(scores, targets).sum())
            gradient = gradient + self.loss.slopes(scores, targets).T @ rows
        return value, np.asarray(gradient)

    def direction(self, weights: Array, gradient: Array) -> Array:
        """``-H⁻¹ gradient``, exactly or by conjugate gradients."""
        unknowns = gradient.size if self.loss.couples_scores else gradient.shape[1]
        if unknowns > MAX_DENSE:
            return self._by_conjugate_gradients(weights, gradient)
        if self.loss.couples_scores:
            return self._jointly(weights, gradient)
        return self._score_by_score(weights, gradient)

    def _curved(self, weights: Array) -> Iterator[tuple[Array, Array]]:
        for rows, targets in in_doubles(self.rows, self.targets):
            yield rows, self.loss.curvatures(rows @ weights.T, targets)

    def _score_by_score(self, weights: Array, gradient: Array) -> Array:
        hessians = np.zeros((*gradient.shape, gradient.shape[1]))
        for rows, curvatures in self._curved(weights):
            for hessian, column in zip(hessians, curvatures.T, strict=True):
                (curved,) = np.nonzero(column)
                active = rows[curved]
                hessian += active.T @ (column[curved, None] * active)
        pairs = zip(hessians, gradient, strict=True)
        return np.stack([-self._solved(hessian, right) for hessian, right in pairs])

    def _jointly(self, weights: Array, gradient: Array) -> Array:
        """``diag(p) - p pᵀ`` for each row: blocks of ``sum a aᵀ (p_c [c = d] - p_c p_d)``."""
        n_scores, m = gradient.shape
        diagonal = np.zeros((n_scores * m, m))
        flat = np.zeros((n_scores * m, n_scores * m))
        for rows, shares in self._curved(weights):
            weighted = (shares[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)
            diagonal += weighted.T @ rows
            flat -= weighted.T @ weighted
        for c, block in enumerate(diagonal.reshape(n_scores, m, m)):
            place = slice(c * m, (c + 1) * m)
            flat[place, place] += block
        return -self._solved(flat, gradient.ravel()).reshape(gradient.shape)

    def _solved(self, hessian: Array, right: Array) -> Array:
        hessian[np.diag_indices_from(hessian)] += self.lam
        return np.asarray(cho_solve(cho_factor(hessian, lower=True), right))

    def _by_conjugate_gradients(self, weights: Array, gradient: Array) -> Array:
        """Solve to a residual that shrinks with the gradient, so that steps become exact."""
        start = float(np.linalg.norm(gradient))
        wanted = start * min(0.1, np.sqrt(start / len(self.rows)))
        direction, residual = np.zeros_like(gradient), -gradient
        search, square = residual, start**2
        for _ in range(gradient.size):
            image = self._hessian_times(weights, search)
            step = square / float(np.vdot(search, image))
            direction = direction + step * search
            residual = residual - step * image
            previous, square = square, float(np.vdot(residual, residual))
            if np.sqrt(square) <= wanted:
                break
            search = residual + square / previous * search
        return direction

    def _hessian_times(self, weights: Array, direction: Array) -> Array:
        product = self.lam * direction
        for rows, curvatures in self._curved(weights):
            moved = curvatures * (rows @ direction.T)
            if self.loss.couples_scores:
                moved -= curvatures * moved.sum(axis=1, keepdims=True)
            product = product + moved.T @ rows
        return product
