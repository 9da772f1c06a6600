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
from sfumato.kernels.arrays import Array, is_foreign, like, namespace_of, to_numpy
from sfumato.moments.statistics import UnitRows

__all__ = [
    "MOST_MINIMISED",
    "MOST_ROWS",
    "ROW_BITS",
    "RowMap",
    "cut",
    "exact_product",
    "sum_rounding",
    "unit_rows",
]

ROW_BITS = 18  # rows that enter sums are multiples of 2**-ROW_BITS
FINE_BITS = 26  # rows before a projection, and the projection
MOST_ROWS = 2**26
# Where the number of rows is secret, minimisers are offered for so many: the bound on rounding that
# is paid for grows with this number, and at 2**22 it costs about 1 % more noise.
MOST_MINIMISED = 2**22
SUMMED = 2**16  # rows a block: 16 bits, 1 for factors up to 2, and 2 * 18 of a product
HAIR = 2.0**-40


def cut(values: Array, bits: int) -> Array:
    """Cut towards zero to multiples of ``2**-bits``."""
    return namespace_of(values).trunc(values * 2.0**bits) * 2.0**-bits


def unit_rows(bounds: Bounds, X: Array) -> Array:
    """Clip rows to their bounds and bring them into the unit ball, on the fine grid."""
    if X.shape[0] > MOST_ROWS:
        raise InvalidInputError(f"More than {MOST_ROWS} rows cannot be summed exactly.")
    if is_foreign(X):
        return _foreign_unit_rows(bounds, X)
    units = UnitRows(bounds, X.shape[1], FINE_BITS)
    rows = np.empty(X.shape)
    for part, block in units.blocks(X):
        rows[part] = block
    return rows


def _foreign_unit_rows(bounds: Bounds, X: Array) -> Array:
    """`UnitRows.rows` in the words of the array API, for rows on an accelerator."""
    xp = namespace_of(X)
    rows = xp.astype(X, xp.float64)
    if rows.dtype != xp.float64:
        raise InvalidInputError(
            "Rows must be held in doubles, and this array library gave "
            f"{rows.dtype} instead of float64; enable its 64-bit types or pass NumPy arrays."
        )
    centre, radius = bounds.ball(X.shape[1])
    whole = xp.all(xp.isfinite(rows), axis=1, keepdims=True)
    rows = xp.where(whole, rows, like(X, centre)[None, :])
    box = bounds.box(X.shape[1])
    if box is not None:
        low, high = (like(X, corner)[None, :] for corner in box)
        rows = xp.where(rows < low, low, xp.where(rows > high, high, rows))
    if bounds.norm is not None:
        rows = _into_ball(rows, float(bounds.norm))
    return cut(_into_ball((rows - like(X, centre)[None, :]) / radius, 1.0), FINE_BITS)


def _into_ball(rows: Array, norm: float) -> Array:
    xp = namespace_of(rows)
    hair = max(HAIR, rows.shape[1] * 2.0**-51)
    largest = xp.max(xp.abs(rows), axis=1, keepdims=True)
    scale = xp.where(largest > 0, largest, xp.ones_like(largest))
    shrunk = rows / scale  # squares of numbers beyond 1e154 would overflow
    lengths = scale * xp.sqrt(_row_sums(shrunk * shrunk))
    limit = norm * (1 - 2 * hair) * xp.ones_like(lengths)
    return rows * (limit / xp.where(lengths > limit, lengths, limit))


def _row_sums(values: Array) -> Array:
    """Sum of each row, halves added to halves.

    A library's own sum may add in another order for another number of rows; sums number by number
    are the same for a row alone and among others.
    """
    xp = namespace_of(values)
    while values.shape[1] > 1:
        half = values.shape[1] // 2
        rest = values[:, 2 * half :]
        values = xp.concat([values[:, :half] + values[:, half : 2 * half], rest], axis=1)
    return values


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
        """All products and sums fit a double: at most 52 bits below 1 (`moments.project`)."""
        assert self.projection is not None  # noqa: S101 - for the type checker
        columns = like(rows, np.ascontiguousarray(cut(self.projection, FINE_BITS)))
        projected = cut(rows @ columns, FINE_BITS)
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
    unit = 2.0 ** (2 * ROW_BITS)
    total: Any = np.zeros((left.shape[1], right.shape[1]), dtype=np.int64)
    for start in range(0, left.shape[0], SUMMED):
        part = slice(start, min(start + SUMMED, left.shape[0]))
        block = xp.matrix_transpose(left[part, :]) @ right[part, :]
        total += (to_numpy(block) * unit).astype(np.int64)
    return np.asarray(total / unit)


def sum_rounding(size: int, largest: float) -> float:
    """Norm by which two neighbours' exact sums of `size` numbers move apart as they become doubles.

    Parameters
    ----------
    size : int
    largest : float
        Public bound on the numbers; up to ``2**17`` all multiples of ``2**-36`` are doubles.
    """
    spacing = 2.0 ** (math.frexp(largest)[1] - 53)
    return math.sqrt(size) * spacing if spacing > 2.0 ** (-2 * ROW_BITS) else 0.0
