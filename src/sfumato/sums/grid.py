"""The grid on which sums are exact.

Rows that enter a sum are multiples of ``2**-ROW_BITS``, so that a product of two of their numbers
is a multiple of `QUANTUM`. Doubles add BLOCK_ROWS such products without rounding, and whole
numbers of 64 bits add the blocks, two of them per number of a sum over very many records: the sum
is the exact real sum, in whatever order and wherever it was taken, and its sensitivity is the one
of the proof.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array, is_foreign_array, like, namespace_of, to_numpy
from sfumato.exceptions import InvalidInputError

ROW_BITS = 18  # rows that enter a sum are multiples of 2**-ROW_BITS
FINE_BITS = 26  # rows on their way there: a product of two such numbers below 1 fits a double
QUANTUM = 2.0 ** (-2 * ROW_BITS)  # every term of a sum is a multiple of it
BLOCK_ROWS = 2**16  # so many terms fit a double: 16 + 1 + 36 bits
MAX_ROWS_SECRET_N = (
    2**26
)  # where their number is secret: noise pays for the rounding of so large sums
MAX_ROWS = 2**40  # where it is public
WINDOW_ROWS = 2**25  # so many fit 64 bits with their sign and a rest below 2**CARRY_BITS
CARRY_BITS = 32
CACHED = 2**15  # numbers of a sum that are added together, so that they stay in the cache


def truncate_to_grid(values: Array, bits: int) -> Array:
    """Cut towards zero to multiples of ``2**-bits``; no number grows."""
    steps = values * 2.0**bits
    if is_foreign_array(values):
        return namespace_of(values).trunc(steps) * 2.0**-bits
    np.trunc(steps, out=steps)  # in place: one pass through memory
    steps *= 2.0**-bits
    return steps


def nearest(values: Array, bits: int) -> Array:
    """Round to the nearest multiples of ``2**-bits``; a number grows by half a step at most."""
    steps = values * 2.0**bits
    if is_foreign_array(values):
        return namespace_of(values).round(steps) * 2.0**-bits
    np.rint(steps, out=steps)
    steps *= 2.0**-bits
    return steps


def are_inside(rows: Array, width: int) -> Array:
    """Return for each row whether its first `width` numbers are finite and of length 1 at most.

    Lengths of multiples of ``2**-FINE_BITS`` are exact, and so is the answer. Of finer rows it is
    the same among any others, and right once they are cut to ``2**-ROW_BITS``.
    """
    first = rows[:, :width]
    if is_foreign_array(rows):  # in one pass; the root of 1 + 2**-36 is more than 1
        return namespace_of(rows).linalg.vector_norm(first, axis=1) <= 1
    return np.einsum("ij,ij->i", first, first) <= 1


@np.errstate(all="ignore")  # a warning would tell of a row
def cut_inside(rows: Array, bits: int, width: int) -> Array:
    """Cut rows to multiples of ``2**-bits``; those outside the unit ball become zero."""
    on_grid = truncate_to_grid(rows, bits)
    inside = are_inside(on_grid, width)
    xp = namespace_of(on_grid)
    if xp.all(inside):
        return on_grid
    return xp.where(inside[:, None], on_grid, xp.zeros_like(on_grid))


def double_rounding(size: int, largest: float) -> float:
    """Norm by which exact sums of two neighbours can move apart as they become doubles."""
    spacing = 2.0 ** (math.frexp(largest)[1] - 53)
    return math.sqrt(size) * spacing if spacing > QUANTUM else 0.0


class SecretSum:
    """An exact sum that nobody may see: it adds up, and only a release turns it into numbers.

    shape: Of the statistic.

    Notes
    -----
    It prints nothing of what it holds and refuses to be pickled, copied or saved. Between the
    processes of one engine it travels as a `SecretMessage`, as the rows do from which it comes.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.n_rows = 0
        self._in_window = 0  # rows since the last carry
        self._units: Array = np.zeros(shape, dtype=np.int64)
        self._carried: Array = None  # in units of 2**CARRY_BITS of them

    def add(self, partial: Array, n_rows: int) -> None:
        """Add the exact sum of the terms of a block of at most `BLOCK_ROWS` records.

        All sums of blocks are of one array library, and so is the sum then. What is no sum of terms
        below 2 is never cast: terms were looked at where they were formed.
        """
        if n_rows > BLOCK_ROWS or self.n_rows + n_rows > MAX_ROWS:
            raise InvalidInputError(
                f"A sum is exact over at most {MAX_ROWS} records, {BLOCK_ROWS} in a block."
            )
        xp = namespace_of(partial)
        if self._units.size and not xp.max(xp.abs(partial)) <= 2 * n_rows:  # nor for NaN
            raise InvalidInputError("A block is no sum of terms below 2.")
        self.n_rows += n_rows
        if self._in_window + n_rows > WINDOW_ROWS:
            self._carry()
        self._in_window += n_rows
        if is_foreign_array(partial):  # the sum stays on its device
            terms = xp.astype(partial * (1 / QUANTUM), xp.int64)
            self._units = like(partial, self._units) + terms
            return
        units, terms = self._units.reshape(-1), partial.reshape(-1)
        for start in range(0, len(units), CACHED):
            part = slice(start, start + CACHED)
            units[part] += (terms[part] * (1 / QUANTUM)).astype(np.int64)

    def merge(self, other: SecretSum) -> Self:
        """Add a sum that was taken elsewhere."""
        if self._units.shape != other._units.shape:
            raise InvalidInputError("Sums of different statistics cannot be added.")
        if self.n_rows + other.n_rows > MAX_ROWS:
            raise InvalidInputError(f"More than {MAX_ROWS} records cannot be summed exactly.")
        self.n_rows += other.n_rows
        if other._carried is None and self._in_window + other._in_window <= WINDOW_ROWS:
            self._units += other._units
            self._in_window += other._in_window
            return self
        carried = self._carry()
        carried += other._carry()
        self._units += other._units  # both below 2**CARRY_BITS
        self._carry()
        return self

    def _carry(self) -> Array:
        """Leave a rest below ``2**CARRY_BITS``, so that a window of records fits once more."""
        if self._carried is None:
            self._carried = namespace_of(self._units).zeros_like(self._units)
        self._carried += self._units >> CARRY_BITS  # towards minus infinity
        self._units &= 2**CARRY_BITS - 1
        self._in_window = 0
        return self._carried

    def integers(self) -> NDArray[Any]:
        """Return the sum in units of `QUANTUM`: of 64 bits, or Python's where that is too few."""
        if self._carried is None:
            return to_numpy(self._units)
        return np.asarray(self._carried.astype(object) * 2**CARRY_BITS + self._units)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, SecretSum):
            return NotImplemented
        return bool(
            self.n_rows == other.n_rows and np.array_equal(self.integers(), other.integers())
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> NoReturn:
        raise InvalidInputError(
            "A secret sum cannot be pickled, copied or saved: only a release turns it into numbers."
        )

    def __repr__(self) -> str:
        return f"SecretSum(shape={self._units.shape})"


def revealed(total: SecretSum) -> Array:
    """Return the sum as the nearest doubles, for a mechanism that adds noise to it."""
    xp = namespace_of(total._units)
    units = xp.astype(total._units, xp.float64)
    if total._carried is None:
        return units * QUANTUM
    # The high part is exact, and so are units: their sum is rounded once.
    return (xp.astype(total._carried, xp.float64) * 2.0**CARRY_BITS + units) * QUANTUM
