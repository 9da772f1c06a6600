"""Rows on their way to a linear classifier: bounded, projected, and exact whatever their place.

Every step looks at one row at a time and every result is a multiple of a public power of two, so
that a row gives the same numbers alone, among others, and on any machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.kernels.arrays import Array, is_foreign, namespace_of, to_numpy
from sfumato.sums.grid import FINE_BITS, MOST_ROWS, QUANTUM, ROW_BITS, cut
from sfumato.sums.maps import HAIR, IntoUnitBall, exact_projection

__all__ = [
    "MOST_MINIMISED",
    "RowMap",
    "exact_product",
    "unit_rows",
]

# Where the number of rows is secret, minimisers are offered for so many: the bound on rounding that
# is paid for grows with this number, and at 2**22 it costs about 1 % more noise.
MOST_MINIMISED = 2**22
SUMMED = 2**16  # rows a block: 16 bits, 1 for factors up to 2, and 2 * 18 of a product
MAPPED = 4096  # rows that are brought into the ball together, so that they stay in the cache


def unit_rows(bounds: Bounds, X: Array) -> Array:
    """Clip rows to their bounds and bring them into the unit ball, on the fine grid."""
    if X.shape[0] > MOST_ROWS:
        raise InvalidInputError(f"More than {MOST_ROWS} rows cannot be summed exactly.")
    into_ball = IntoUnitBall(bounds, int(X.shape[1]))
    if is_foreign(X):
        return into_ball(X)
    rows = np.empty(X.shape)
    for start in range(0, len(X), MAPPED):
        rows[start : start + MAPPED] = into_ball(X[start : start + MAPPED])
    return rows


@dataclass(frozen=True)
class RowMap:
    """``x -> a``: into the unit ball, projected, scaled to length 1, a constant appended.

    Parameters
    ----------
    bounds : Bounds
        Public bounds of the rows.
    intercept : bool
        Append a constant: ``a = [z; 1] / √2``.
    projection : ndarray of shape (n_features, k), optional
        Public matrix with columns of length 1 at most and no singular value above 1.
    unit_length : bool
        Scale projected rows to length 1.
    """

    bounds: Bounds
    intercept: bool
    projection: NDArray[np.float64] | None = None
    unit_length: bool = False

    def __call__(self, X: Array) -> Array:
        """Map raw rows."""
        return self.finish(unit_rows(self.bounds, X))

    def finish(self, rows: Array) -> Array:
        """Map rows that `unit_rows` has brought into the unit ball."""
        if self.projection is not None:
            rows = self._projected(rows)
        if self.intercept:
            xp = namespace_of(rows)
            ones = xp.ones_like(rows[:, :1])
            rows = xp.concat([rows, ones], axis=1) * ((1 - HAIR) * math.sqrt(0.5))
        return cut(rows, ROW_BITS)

    def _projected(self, rows: Array) -> Array:
        """Project exactly, and scale into the unit ball or to length 1."""
        assert self.projection is not None  # noqa: S101 - for the type checker
        projected = cut(exact_projection(rows, self.projection), FINE_BITS)
        xp = namespace_of(rows)
        squares = xp.sum(projected * projected, axis=1, keepdims=True)  # exact, 52 bits below 2
        shortest = 2.0 ** (-2 * FINE_BITS) if self.unit_length else 1.0
        limit = shortest * xp.ones_like(squares)
        return projected * ((1 - HAIR) / xp.sqrt(xp.where(squares > limit, squares, limit)))


def exact_product(left: Array, right: Array) -> NDArray[np.float64]:
    """``leftᵀ right`` over rows on the grid of ROW_BITS, exactly, as a host array.

    Entries of a row of `left` are below 2 and those of `right` at most 1. Blocks of rows are exact
    in doubles; blocks are added as whole numbers.
    """
    xp = namespace_of(left)
    total: Any = np.zeros((left.shape[1], right.shape[1]), dtype=np.int64)
    for start in range(0, left.shape[0], SUMMED):
        part = slice(start, min(start + SUMMED, left.shape[0]))
        block = xp.matrix_transpose(left[part, :]) @ right[part, :]
        total += (to_numpy(block) / QUANTUM).astype(np.int64)
    return np.asarray(total * QUANTUM)
