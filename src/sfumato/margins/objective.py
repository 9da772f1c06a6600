"""The objective of a linear classifier: a sum of losses over rows, and its certified minimiser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import SfumatoError
from sfumato.margins.losses import Loss
from sfumato.margins.solvers import newton

__all__ = ["LinearObjective", "certified"]

Array = NDArray[np.float64]

BLOCK = 4096  # rows summed at a time: what rounding may change grows with it, not with all rows
UNIT_ROUNDOFF = 2.0**-53
PRECISION = 1e-6  # gradient norm that is aimed at where nothing asks for a smaller one


@dataclass(frozen=True)
class LinearObjective:
    """``sum_i loss(W a_i; y_i)`` as a function of the weights W.

    Parameters
    ----------
    loss : Loss
    rows : ndarray of shape (n, m)
        Secret rows a, of length 1 at most.
    targets : ndarray of shape (n, n_scores)
        Their classes, as `Loss.targets` gives them.
    """

    loss: Loss
    rows: Array
    targets: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the weights."""
        return self.loss.n_scores, self.rows.shape[1]

    def value(self, weights: Array) -> float:
        """Sum of the losses."""
        return float(self.loss.values(self.rows @ weights.T, self.targets).sum())

    def gradient(self, weights: Array) -> Array:
        """Gradient of the sum, added up block by block."""
        total = np.zeros(self.shape)
        for start in range(0, len(self.rows), BLOCK):
            part = slice(start, start + BLOCK)
            slopes = self.loss.slopes(self.rows[part] @ weights.T, self.targets[part])
            total += slopes.T @ self.rows[part]
        return total

    def gradient_error(self, weights: Array) -> float:
        """Bound on what rounding may change in the norm of `gradient`.

        A score of m products is off by ``m u ||W||`` at most and moves the slopes of its row by
        that times the curvature bound; slopes themselves by a few units more; a sum of b terms by
        ``b u`` times the sum of their sizes.
        """
        n_rows, m = self.rows.shape
        per_score = (m + 2) * float(np.linalg.norm(weights)) * self.loss.largest_curvature
        in_sums = min(n_rows, BLOCK) + n_rows / BLOCK + 2
        per_row = per_score + (in_sums + 16 * self.loss.n_scores) * self.loss.slope_bound
        return float(1.01 * UNIT_ROUNDOFF * n_rows * per_row)

    def minimise(self, linear: Array, strong_convexity: float, tolerance: float) -> Array:
        """Minimise ``sum loss + <linear, W> + strong_convexity/2 ||W||²``."""
        return newton(self.loss, self.rows, self.targets, linear, strong_convexity, tolerance)


def certified(objective: Any, strong_convexity: float, tolerance: float) -> Array:
    """Give the minimiser without a linear term, its gradient norm checked, rounding included."""
    linear = np.zeros(objective.shape)
    goal = min(tolerance / 2, PRECISION)
    weights: Array = objective.minimise(linear, strong_convexity, goal)
    gradient = objective.gradient(weights) + strong_convexity * weights
    reached = float(np.linalg.norm(gradient)) + objective.gradient_error(weights)
    if not reached <= tolerance:
        raise SfumatoError(
            "The minimiser could not be found to the accuracy that the proof needs, so nothing is "
            "released. Use a larger 'regularization' or another solver."
        )
    return weights
