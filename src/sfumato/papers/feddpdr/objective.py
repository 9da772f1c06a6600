"""The sum of rounded hinges that a machine minimises, with bounds on its rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sfumato.mechanisms.objective import farthest_minimiser
from sfumato.models.solvers import FeatureRows, HuberHingeLoss, Objective

Array = NDArray[np.float64]

BLOCK = 256  # rows of one product; blocks are added in pairs, pairs of pairs, and so on
UNIT_ROUNDOFF = 2.0**-53
MAX_STEPS = 200
MIN_STEP = 2.0**-30
ROUNDING = 2.0**-44
SUFFICIENT = 1e-4  # Armijo: the share of the promised decrease that must come


def _group(n_columns: int) -> int:
    return math.isqrt(max(0, n_columns - 1)) + 1


@dataclass(frozen=True)
class LinearObjective:
    """``sum_i loss(w.a_i; y_i)`` as a function of the weights w, for rows a of length 1 at most."""

    loss: HuberHingeLoss
    rows: Array
    signs: Array  # 1 for rows of the class, -1 for others

    @property
    def shape(self) -> tuple[int]:
        """Shape of the weights."""
        return (self.rows.shape[1],)

    @property
    def smoothness(self) -> float:
        """Lipschitz constant of the gradient."""
        return len(self.rows) * self.loss.smoothness

    def gradient(self, weights: Array) -> Array:
        """Gradient of the sum, added up in pairs of blocks."""
        return self._gradient_of(weights, 0, len(self.rows))

    def _gradient_of(self, weights: Array, start: int, stop: int) -> Array:
        if stop - start > BLOCK:
            middle = start + BLOCK * ((stop - start + 2 * BLOCK - 1) // (2 * BLOCK))
            first = self._gradient_of(weights, start, middle)
            return first + self._gradient_of(weights, middle, stop)
        rows = self.rows[start:stop]
        width = _group(rows.shape[1])
        scores = np.zeros(len(rows))
        for column in range(0, rows.shape[1], width):
            part = slice(column, column + width)
            scores += rows[:, part] @ weights[part]
        return np.asarray(self.loss.value_and_slope(scores, self.signs[start:stop])[1] @ rows)

    def gradient_error(self, weights: Array) -> float:
        """Bound on what rounding may change in the norm of `gradient`.

        A score of m products, added up in about √m groups of √m, is off by ``(2√m + 4) u |w|`` at
        most and moves the slope of its row by that times the curvature bound; the slope itself by
        a few units more; a sum over n rows by as many units as additions that a term goes through.
        """
        n_rows, n_columns = self.rows.shape
        norm = float(np.linalg.norm(weights))
        per_score = (2 * _group(n_columns) + 4) * norm * self.loss.smoothness
        levels = math.ceil(math.log2(max(1.0, n_rows / BLOCK)))
        in_sums = min(n_rows, BLOCK) + levels + 2
        return float(1.01 * UNIT_ROUNDOFF * n_rows * (per_score + in_sums + 16))

    def radius(self, linear: float, strong_convexity: float) -> float:
        """Bound on the norm of the minimiser for linear terms of this norm."""
        scores = np.zeros(len(self.rows))
        at_zero = float(self.loss.value_and_slope(scores, self.signs)[0].sum())
        return farthest_minimiser(len(self.rows), at_zero, linear, strong_convexity)

    def minimise(self, linear: Array, strong_convexity: float, tolerance: float) -> Array:
        """Minimise ``sum loss + <b, w> + Λ/2 |w|²`` by Newton's method, from zero.

        Goes to a gradient norm of `tolerance`, or as near as doubles allow.
        """
        features = FeatureRows(self.rows)
        level = Objective(features, self.signs, self.loss, strong_convexity / 2, n_rows=1)

        def value_and_gradient(weights: Array) -> tuple[float, Array]:
            value, gradient = level.value_and_gradient(weights)
            return value + float(linear @ weights), gradient + linear

        weights = np.zeros(self.shape)
        value, gradient = value_and_gradient(weights)
        for _ in range(MAX_STEPS):
            if float(np.linalg.norm(gradient)) <= tolerance:
                break
            try:
                direction = -cho_solve(cho_factor(level.hessian(weights), lower=True), gradient)
            except (LinAlgError, ValueError):  # the Hessian is singular, or not finite, in doubles
                break
            slope, length = float(gradient @ direction), 1.0
            while length > MIN_STEP:
                new = weights + length * direction
                new_value, gradient = value_and_gradient(new)
                # Near the minimum values differ by their rounding only; full steps are right there.
                if new_value <= value + SUFFICIENT * length * slope + ROUNDING * abs(value):
                    break
                length /= 2
            weights, value = new, new_value
        return weights
