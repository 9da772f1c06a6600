"""The sum of Huber losses that a machine minimises, with bounds on its rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.objective import farthest_minimiser
from sfumato.papers.feddpdr import losses
from sfumato.papers.feddpdr.newton import in_doubles, newton
from sfumato.sums.gradients import HuberLoss

Array = NDArray[np.float64]

BLOCK = 256  # rows of one product; blocks are added in pairs, pairs of pairs, and so on
UNIT_ROUNDOFF = 2.0**-53


def _group(n_columns: int) -> int:
    return math.isqrt(max(0, n_columns - 1)) + 1


@dataclass(frozen=True)
class LinearObjective:
    """``sum_i loss(W a_i; y_i)`` as a function of the weights W, for rows a of length 1 at most."""

    loss: HuberLoss
    rows: Array
    targets: Array  # as `losses.targets_of` gives them

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the weights."""
        return self.loss.n_scores, self.rows.shape[1]

    @property
    def smoothness(self) -> float:
        """Lipschitz constant of the gradient."""
        return len(self.rows) * self.loss.max_curvature

    def value(self, weights: Array) -> float:
        """Sum of the losses."""
        return math.fsum(
            float(losses.values(self.loss, rows @ weights.T, targets).sum())
            for rows, targets in in_doubles(self.rows, self.targets)
        )

    def gradient(self, weights: Array) -> Array:
        """Gradient of the sum, added up in pairs of blocks."""
        return self._gradient_of(weights, 0, len(self.rows))

    def _gradient_of(self, weights: Array, start: int, stop: int) -> Array:
        if stop - start > BLOCK:
            middle = start + BLOCK * ((stop - start + 2 * BLOCK - 1) // (2 * BLOCK))
            first = self._gradient_of(weights, start, middle)
            return first + self._gradient_of(weights, middle, stop)
        rows, targets = self.rows[start:stop], self.targets[start:stop]
        width = _group(rows.shape[1])
        scores = np.zeros((len(rows), len(weights)))
        for column in range(0, rows.shape[1], width):
            part = slice(column, column + width)
            scores += rows[:, part] @ weights[:, part].T
        return np.asarray(losses.slopes(self.loss, scores, targets).T @ rows)

    def gradient_error(self, weights: Array) -> float:
        """Bound on what rounding may change in the norm of `gradient`.

        A score of m products, added up in about √m groups of √m, is off by ``(2√m + 4) u ||W||`` at
        most and moves the slopes of its row by that times the curvature bound; slopes themselves by
        a few units more; a sum over n rows by as many units as additions that a term goes through.
        """
        n_rows, n_columns = self.rows.shape
        norm = float(np.linalg.norm(weights))
        per_score = (2 * _group(n_columns) + 4) * norm * self.loss.max_curvature
        levels = math.ceil(math.log2(max(1.0, n_rows / BLOCK)))
        in_sums = min(n_rows, BLOCK) + levels + 2
        per_row = per_score + (in_sums + 16 * self.loss.n_scores) * self.loss.slope_bound
        return float(1.01 * UNIT_ROUNDOFF * n_rows * per_row)

    def radius(self, linear: float, strong_convexity: float) -> float:
        """Bound on the norm of the minimiser for linear terms of this norm."""
        at_zero = self.value(np.zeros(self.shape))
        slopes = len(self.rows) * self.loss.slope_bound
        return farthest_minimiser(slopes, at_zero, linear, strong_convexity)

    def minimise(self, linear: Array, strong_convexity: float, tolerance: float) -> Array:
        """Minimise ``sum loss + <linear, W> + strong_convexity/2 ||W||²``."""
        return newton(self.loss, self.rows, self.targets, linear, strong_convexity, tolerance)
