"""The objective of a linear classifier: a sum of losses over rows, and what rounding does to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.minimiser import farthest_minimiser, rounding_met
from sfumato.models.objectives.newton import blocks, in_doubles, newton
from sfumato.sums.losses import Loss

Array = NDArray[np.float64]

BLOCK = 256  # rows of one product; blocks are added in pairs, pairs of pairs, and so on
UNIT_ROUNDOFF = 2.0**-53


def gradient_rounding(loss: Loss, n_rows: int, n_columns: int, norm: float) -> float:
    """Bound on what rounding may change in `LinearObjective.gradient` at weights of this norm.

    A score of m products, added up in about √m groups of √m, is off by ``(2√m + 4) u ||W||`` at
    most and moves the slopes of its row by that times the curvature bound; slopes themselves by a
    few units more; a sum over n rows by as many units as additions that a term goes through.

    n_rows, n_columns: Shape of the rows, which have length 1 at most.
    norm: Norm of the weights.
    """
    per_score = (2 * _group(n_columns) + 4) * norm * loss.max_curvature
    levels = math.ceil(math.log2(max(1.0, n_rows / BLOCK)))
    in_sums = min(n_rows, BLOCK) + levels + 2
    per_row = per_score + (in_sums + 16 * loss.n_scores) * loss.slope_bound
    return 1.01 * UNIT_ROUNDOFF * n_rows * per_row


def max_rounding(
    loss: Loss, n_rows: int, n_columns: int, linear: float, strong_convexity: float
) -> float:
    """Bound on that rounding for all data of `n_rows` at most: from public numbers alone.

    linear: Largest norm of a linear term that is added to the objective.
    """
    return rounding_met(
        lambda norm: gradient_rounding(loss, n_rows, n_columns, norm),
        n_rows * loss.slope_bound,
        n_rows * loss.value_at_zero,
        linear,
        strong_convexity,
    )


def max_minimiser(loss: Loss, n_rows: int, linear: float, strong_convexity: float) -> float:
    """Bound on the norm of the minimiser for all data of `n_rows` at most.

    linear, strong_convexity: See `max_rounding`.
    """
    slopes, at_zero = n_rows * loss.slope_bound, n_rows * loss.value_at_zero
    return farthest_minimiser(slopes, at_zero, linear, strong_convexity)


def _group(n_columns: int) -> int:
    return math.isqrt(max(0, n_columns - 1)) + 1


@dataclass(frozen=True)
class LinearObjective:
    """``sum_i loss(W a_i; y_i)`` as a function of the weights W.

    rows (n, m): Secret rows a, of length 1 at most; read in blocks, which become doubles.
    targets (n, n_scores): Their classes, as `Loss.targets` gives them, in any type.
    """

    loss: Loss
    rows: Any
    targets: NDArray[Any]

    @classmethod
    def of(cls, loss: Loss, rows: Any, codes: NDArray[np.intp]) -> Self:
        """Return the objective of rows with the codes of their classes."""
        targets = np.empty((len(rows), loss.n_scores), dtype=np.int8)
        for part in blocks(len(rows)):
            targets[part] = loss.targets(codes[part], np.empty(0))
        return cls(loss, rows, targets)

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
            float(self.loss.values(rows @ weights.T, targets).sum())
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
        rows = self.rows[start:stop].astype(np.float64, copy=False)
        targets, width = self.targets[start:stop].astype(np.float64), _group(rows.shape[1])
        scores = np.zeros((len(rows), len(weights)))
        for column in range(0, rows.shape[1], width):
            part = slice(column, column + width)
            scores += rows[:, part] @ weights[:, part].T
        return np.asarray(self.loss.slopes(scores, targets).T @ rows)

    def gradient_error(self, weights: Array) -> float:
        """Bound on what rounding may change in the norm of `gradient`."""
        n_rows, n_columns = self.rows.shape
        return gradient_rounding(self.loss, n_rows, n_columns, float(np.linalg.norm(weights)))

    def radius(self, linear: float, strong_convexity: float) -> float:
        """Bound on the norm of the minimiser for linear terms of this norm."""
        return max_minimiser(self.loss, len(self.rows), linear, strong_convexity)

    def minimise(self, linear: Array, strong_convexity: float, tolerance: float) -> Array:
        """Minimise ``sum loss + <linear, W> + strong_convexity/2 ||W||²``."""
        return newton(self.loss, self.rows, self.targets, linear, strong_convexity, tolerance)
