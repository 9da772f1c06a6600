"""Rows as codes: ten of 16 bits in place of a hundred numbers, most of which are zero.

A row is ``a = [t Pᵀz; c]``. z has a few numbers for each column of a table, whole steps of 1/32
that a code of the column stands for; P is public, t shortens the row to length 1, c is constant. So
a score is a sum of what codes add to it, looked up, and a sum over rows is a count of codes.

Everything is exact, in whatever order it is added. Slopes have 2**19 steps at most and t 2**14, so
counts of 2**16 rows weighted by both are below 2**53, and then whole numbers of 64 bits. Their
product with P may pass these, and comes back: the sum of terms of at most 1 is below 2**63 of its
steps. Sums of products of two numbers of z over 2**14 rows are 2**24 steps at most, exact in single
precision.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array
from sfumato.sums.grid import PART, ROW_BITS, HeldRows, ScoreWeights, truncate_to_grid
from sfumato.sums.maps import FARTHEST

STEPS, TARGETS = 32, 256  # of 1, in z and in targets
NO_TARGET = 2**16 - 1
CACHED_DENSE = 2**19  # numbers of z that are written out together

Column = tuple[slice, NDArray[np.int64]]  # its numbers in z, and their steps for each of its codes


@dataclass(frozen=True, eq=False)
class CodedRows(HeldRows):
    """Rows by their codes.

    codes (n_rows, k): Of the target, where there is one, of columns, and t, where `white` has it.
    code: What says what they stand for: `tables`, `width` and `units` of z.
    white: P, t and c; None where rows are z.
    """

    codes: NDArray[np.uint16] = field(repr=False)
    code: Any
    white: Any = None

    def __getitem__(self, part: Any) -> Self:
        return replace(self, codes=self.codes[part])

    def _shared(self) -> Iterator[tuple[NDArray[np.uint16], list[Column]]]:
        return zip(self.codes.T[int(self.code.keeps_target) :], self.code.tables, strict=False)

    def columns(self) -> Iterator[tuple[slice, NDArray[np.int64], NDArray[np.uint16]]]:
        """Yield the place of each column in z, its table, and its own codes."""
        for shared, columns in self._shared():
            for part, table in columns[:0:-1]:
                rest = shared // len(table)
                yield part, table, shared - rest * len(table)
                shared = rest
            yield (*columns[0], shared)

    def numbers(self, orders: Array, starts: list[int]) -> Array:
        """Return the sum of the orders of the numbers of each column, weighted by them."""
        orders = truncate_to_grid(np.clip(orders, -1.0, 1.0), ROW_BITS) / STEPS
        found = np.empty((len(self.codes), len(starts)), order="F")
        for part, table, codes in self.columns():
            if part.start in starts:
                (table @ orders[part]).take(codes, out=found[:, starts.index(part.start)])
        return found

    def dense(self, dtype: Any) -> Iterator[tuple[slice, Array]]:
        """Yield z in steps, of as many rows as stay in the cache."""
        step = max(PART, min(CACHED_DENSE // self.code.width, 2**14))
        for start in range(0, len(self.codes), step):
            rows = self[start : start + step]
            z = np.empty((len(rows.codes), self.code.width), dtype)
            for part, table, codes in rows.columns():
                z[:, part] = table.astype(dtype).take(codes, axis=0)
            yield slice(start, start + step), z

    def second_moment(self) -> Array:
        """Return ``sum z zᵀ``."""
        total = np.zeros((self.code.width, self.code.width))
        for _, z in self.dense(np.float32):
            total += z.T @ z
        units = self.code.units / STEPS
        return total * units[:, None] * units

    def counted(self, factors: Array) -> NDArray[np.int64]:
        """Return ``factors @ z`` in steps, of whole factors."""
        total = np.empty(self.code.width, dtype=np.int64)
        for codes, columns in self._shared():
            sizes = [len(table) for _, table in columns]
            counts = np.bincount(codes, factors, math.prod(sizes)).astype(np.int64).reshape(sizes)
            for i, (part, table) in enumerate(columns):
                total[part] = counts.sum(axis=(*range(i), *range(i + 1, len(sizes)))) @ table
        return total

    def by_code(self, weights: Array) -> list[Array]:
        """Return what each code adds to ``z @ weights``."""
        found = []
        for columns in self.code.tables:
            total = np.zeros((1, weights.shape[1]))
            for part, table in columns:
                each = table @ (weights[part] / STEPS)
                total = (total[:, None] + each).reshape(-1, weights.shape[1])
            found.append(total)
        return found

    def looked_up(self, by_code: list[Array]) -> Array:
        """Return the sum of what the codes of each row add, in one order for all rows."""
        found = np.zeros((len(self.codes), by_code[0].shape[1]))
        for (codes, _), table in zip(self._shared(), by_code, strict=True):
            found += table.take(codes, axis=0)
        return found

    def targets(self) -> Array:
        """Return standardised targets, NaN where there is none."""
        target = self.codes[:, :1] * (1 / TARGETS) - FARTHEST
        return np.where(self.codes[:, :1] == NO_TARGET, np.nan, target)

    def scores(self, weights: ScoreWeights) -> Array:
        """``rows @ weights.T``."""
        white, rounded = self.white, weights.rounded
        if weights.by_code is None:
            weights.by_code = self.by_code(white.projection @ rounded[:, :-1].T / white.steps)
        found = self.looked_up(weights.by_code) * self.codes[:, -1:]
        return found + white.height * rounded[:, -1]

    def gathered(self, slopes: Array, bits: int) -> Array:
        """``slopes.T @ rows``."""
        total = np.array(
            [self.counted(each) for each in slopes.T * (2.0**bits * self.codes[:, -1])]
        )
        white = self.white
        first = (total @ white.whole_projection) * (2.0 ** -(bits + white.bits) / STEPS)
        return np.column_stack([first, white.height * slopes.sum(axis=0, dtype=np.float64)])
