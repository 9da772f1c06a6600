"""The grid on which sums are exact, in doubles and at the rate of single precision.

Rows that enter a sum are multiples of ``2**-ROW_BITS``, so that a product of two of their numbers
is a multiple of `QUANTUM`. Doubles add BLOCK_ROWS such products without rounding, and whole
numbers of 64 bits add the blocks, two of them per number of a sum over very many records: the sum
is the exact real sum, in whatever order and wherever it was taken, and its sensitivity is the one
of the proof.

Single precision holds whole numbers up to 2**24. Rows are cut to multiples of ``2**-SINGLE_BITS``,
and what they are multiplied by is brought to a grid so coarse that no partial sum of a product
passes 2**24 steps: whatever the order of additions, none is rounded. Where memory is short, such
rows wait on disk.
"""

from __future__ import annotations

import math
import tempfile
import weakref
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import IO, Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array, is_foreign_array, like, namespace_of, to_numpy
from sfumato.core.memory import fits_in_memory
from sfumato.exceptions import InvalidInputError

ROW_BITS = 18  # rows that enter a sum are multiples of 2**-ROW_BITS
FINE_BITS = 26  # rows on their way there: a product of two such numbers below 1 fits a double
QUANTUM = 2.0 ** (-2 * ROW_BITS)  # every term of a sum is a multiple of it
BLOCK_ROWS = 2**16  # that many terms fit a double: 16 + 1 + 36 bits
# Where their number is secret: noise pays for the rounding of so large sums.
MAX_ROWS_SECRET_N = 2**26
MAX_ROWS = 2**40  # where it is public
WINDOW_ROWS = 2**25  # that many fit 64 bits with their sign and a rest below 2**CARRY_BITS
CARRY_BITS = 32
CACHED = 2**15  # numbers of a sum that are added together, so that they stay in the cache

SINGLE_BITS = 12  # rows are multiples of 2**-SINGLE_BITS
MANTISSA = 24  # bits of a number in single precision
PART = 64  # rows whose products are added in single precision at most, parts in double precision
MAX_DIGIT = 2.0**11  # steps of slopes that are multiplied as they are; ...
BASE = 2.0**8  # ... larger ones are written with two digits of this base
MAX_WEIGHT = 2.0**100  # weights, so that scores do not overflow in single precision
LENGTH_MARGIN = 2.0**-20  # more than lengths are off by that are computed in doubles, ...
SINGLE_MARGIN = 2.0**-10  # ... and in single precision

MANY_SCORES = 5  # whose sums are one product; fewer are quicker one by one

SMALL_BYTES = 2**20  # of rows for which memory is not asked

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]


def truncate_to_grid(values: Array, bits: int) -> Array:
    """Cut towards zero to multiples of ``2**-bits``; no number grows."""
    steps = values * 2.0**bits
    if is_foreign_array(values):
        return namespace_of(values).trunc(steps) * 2.0**-bits
    np.trunc(steps, out=steps)  # in place: one pass through memory
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
    """An exact sum that stays secret: it adds up, and only a release turns it into numbers.

    shape: Of the statistic.

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
        xp = np if isinstance(partial, np.ndarray) else namespace_of(partial)
        most = 2 * n_rows
        if self._units.size and not -most <= xp.min(partial) <= xp.max(partial) <= most:  # nor NaN
            raise InvalidInputError("A block is no sum of terms below 2.")
        self.n_rows += n_rows
        if self._in_window + n_rows > WINDOW_ROWS:
            self._carry()
        self._in_window += n_rows
        if is_foreign_array(partial):  # the sum stays on its device
            terms = xp.astype(partial * (1 / QUANTUM), xp.int64)
            self._units = like(partial, self._units) + terms
            return
        if partial.dtype == np.int64:  # counts, in whose place the first sum stays
            partial <<= 2 * ROW_BITS
            self._units = partial if self.n_rows == n_rows else self._units + partial
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
        units *= QUANTUM  # in place: new pages of memory cost more than the product
        return units
    # The high part is exact, and so are units: their sum is rounded once.
    return (xp.astype(total._carried, xp.float64) * 2.0**CARRY_BITS + units) * QUANTUM


# Single precision ---------------------------------------------------------------------------------


class HeldRows:
    """Rows of which a gradient needs exact scores and their sum with slopes alone, and targets."""

    scores: Any  # of `ScoreWeights`: rows @ weights.T
    gathered: Any  # of slopes and their bits: slopes.T @ rows
    targets: Any  # NaN where there is none
    second_moment: Any  # of rows in codes: rows.T @ rows


@dataclass(frozen=True, eq=False)
class Float32Rows(HeldRows):
    """Rows of the unit ball, multiples of ``2**-SINGLE_BITS``, multiplied in single precision.

    panels (n_parts, width, PART): In these steps, parts of `PART` rows, the last one with rows of
        zeros at its end; in a part one column after the other. In 16 bits memory is read faster.
    longest (width,): Of each column, the largest Euclidean length in a part, or a bound on it, over
        the steps in the largest power of two that divides all of its numbers.
    beside (n_rows, 1 or 0): Targets, where there are any.
    """

    panels: Singles | NDArray[np.int16] = field(repr=False)
    longest: Doubles = field(repr=False)
    beside: Singles = field(repr=False)

    @classmethod
    def of(cls, rows: Doubles | Singles, beside: Singles | None = None) -> Self:
        """Hold rows that are cut to the grid."""
        n_rows, width = rows.shape
        filled = np.zeros((-(-n_rows // PART) * PART, width), dtype=np.float32)
        filled[:n_rows] = rows
        parts = filled.reshape(-1, PART, width)
        squares = np.einsum("pij,pij->pj", parts, parts)
        longest = np.sqrt(squares.max(axis=0, initial=0.0)) * (1 + SINGLE_MARGIN)
        panels = np.multiply(np.swapaxes(parts, 1, 2), 2.0**SINGLE_BITS, order="C")
        bits = np.bitwise_or.reduce(panels.astype(np.int16), axis=(0, 2)).astype(np.int32)
        longest /= np.maximum(bits & -bits, 1)
        beside = np.empty((n_rows, 0), np.float32) if beside is None else beside
        return cls(panels, longest.astype(np.float64), beside)

    def __getitem__(self, part: slice) -> Self:
        """Return some of the rows."""
        return self.of(self.doubles()[part], self.beside[part])

    def packed(self) -> Self:
        """Return the same rows in 16 bits a number."""
        return replace(self, panels=self.panels.astype(np.int16))

    def opened(self) -> Self:
        """Return the same rows, ready for several products."""
        if self.panels.dtype == np.float32:
            return self
        self.__dict__.setdefault("_products", {})
        found = replace(self, panels=self._singles)
        found.__dict__["_products"] = self.__dict__["_products"]
        return found

    @property
    def _singles(self) -> Singles:
        return self.panels.astype(np.float32, copy=False)

    def doubles(self) -> Doubles:
        """Return the rows in double precision."""
        width = self.panels.shape[1]
        rows = np.swapaxes(self.panels, 1, 2).astype(np.float64, order="C")
        rows *= 2.0**-SINGLE_BITS
        return rows.reshape(len(rows) * PART, width)[: len(self.beside)]

    def targets(self) -> Singles:
        """Return the targets, NaN where there is none."""
        return self.beside

    def person_products(self, size: int) -> Singles:
        """``a_i.a_j`` of the rows of each person, exactly; kept for the next call."""
        kept: dict[int, Singles] = self.__dict__.setdefault("_products", {})
        if size not in kept:
            apart = self.doubles().reshape(-1, size, self.panels.shape[1])
            kept[size] = (apart @ np.swapaxes(apart, 1, 2)).astype(np.float32)
        return kept[size]

    def scores(self, weights: ScoreWeights) -> Doubles | Singles:
        """``rows @ weights.T``, exactly; one score in single precision.

        A partial sum is at most ``|row| |w|`` by Cauchy and Schwarz, hence 2**24 steps.
        """
        n_scores = weights.singles.shape[0]
        found: Singles = np.matmul(weights.singles, self._singles)
        if n_scores == 1:
            return found.reshape(len(found) * PART, 1)[: len(self.beside)]
        by_score = np.swapaxes(found, 0, 1).astype(np.float64, order="C")
        return by_score.reshape(n_scores, len(found) * PART)[:, : len(self.beside)].T

    def gathered(self, slopes: Doubles, bits: int) -> Doubles:
        """``slopes.T @ rows``, exactly.

        Slopes of more than 2**11 steps are written with two digits. In a part, a partial sum of the
        products of digits and a column is at most the length of the digits of one score times that
        of the column. Columns for which that may pass 2**24 steps are multiplied in doubles.
        """
        n_parts, _, part = self.panels.shape
        counts = np.zeros((slopes.shape[1], n_parts * part), dtype=slopes.dtype)
        np.multiply(slopes.T, 2.0**bits, out=counts[:, : len(self.beside)])
        found = self._gathered(counts.reshape(len(counts), n_parts, part), self._singles)
        return found * 2.0 ** -(bits + SINGLE_BITS)

    def _gathered(self, counts: Doubles | Singles, panels: Singles) -> Doubles:
        largest = max(float(counts.max(initial=0.0)), -float(counts.min(initial=0.0)))
        if largest > MAX_DIGIT:
            upper = np.rint(counts * (1 / BASE))
            lower = counts - BASE * upper
            return BASE * self._gathered(upper, panels) + self._gathered(lower, panels)
        digits = counts.astype(np.float32, copy=False)
        limit = 2.0 ** (MANTISSA - SINGLE_BITS)
        (long,) = np.nonzero(self.longest * (math.sqrt(PART) * largest) > limit)
        if len(long) > len(counts):  # a bound on the length of digits says too little
            squares = np.einsum("spi,spi->sp", digits, digits)
            in_part = math.sqrt(float(squares.max(initial=0.0))) * (1 + SINGLE_MARGIN)
            (long,) = np.nonzero(self.longest * in_part > limit)
        n_parts, width, _ = panels.shape
        found = np.empty((len(counts), width))
        together = 1 if len(counts) < MANY_SCORES else len(counts)
        for score in range(0, len(counts), together):
            some = slice(score, score + together)
            left = np.ascontiguousarray(np.swapaxes(digits[some], 0, 1))
            products = np.matmul(left, np.swapaxes(panels, 1, 2))
            sums = np.ones(n_parts) @ products.reshape(n_parts, together * width)
            found[some] = sums.reshape(together, width)
        if len(long):
            columns = np.swapaxes(panels[:, long], 0, 1).astype(np.float64, order="C")
            flat = (each.reshape(len(each), counts[0].size) for each in (counts, columns))
            found[:, long] = next(flat) @ next(flat).T
        return found


class ScoreWeights:
    """Public weights, rounded to a power of two that makes scores of single precision exact.

    With weights of length ``2**e`` at most it is ``2**(e + SINGLE_BITS - 24)``.

    weights (n_scores, width): Weights; NaN counts as 0, beyond 2**100 as that.
    rounded (n_scores, width): The weights on the grid.
    by_code: What held rows make of them, once for all blocks of a pass.
    """

    by_code: list[Doubles] | None = None

    def __init__(self, weights: Doubles) -> None:
        weights = np.clip(np.nan_to_num(weights), -MAX_WEIGHT, MAX_WEIGHT)
        exponent = math.frexp(np.linalg.norm(weights, axis=1).max(initial=0.0))[1]
        while True:
            step = 2.0 ** (exponent + SINGLE_BITS - MANTISSA)
            self.rounded: Doubles = np.rint(weights / step) * step
            longest = np.linalg.norm(self.rounded, axis=1).max(initial=0.0)
            if longest <= 2.0**exponent * (1 - LENGTH_MARGIN):
                break
            exponent += 1  # rounding has made them longer

    @cached_property
    def singles(self) -> Singles:
        """The weights in single precision, for rows in their steps."""
        return (self.rounded * 2.0**-SINGLE_BITS).astype(np.float32)


class RowsOnDisk:
    """Blocks of rows, in a file that has no name in any folder.

    The system frees it when the last block is let go, also after a crash: no row survives a fit.
    It lies in the folder for temporary files (``TMPDIR``), which must hold 4 bytes per number, or
    2 per code and number of 12 bits.
    """

    _file: IO[bytes] | None = None
    _n_bytes = 0

    def held(self, rows: Any) -> Any:
        """Return rows as they are, or in the file where memory is short."""
        numbers = rows.panels if isinstance(rows, Float32Rows) else rows
        if not isinstance(numbers, np.ndarray):  # on a device
            return rows
        self._n_bytes += numbers.nbytes
        if not numbers.size or self._n_bytes <= SMALL_BYTES or fits_in_memory(self._n_bytes):
            return rows
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - each block has mapped its part
            weakref.finalize(self, self._file.close)
        start = self._file.seek(0, 2)
        self._file.write(numbers.tobytes("A"))
        self._file.flush()
        order: Any = "C" if numbers.flags.c_contiguous else "F"
        mapped = np.memmap(self._file, numbers.dtype, "r", start, numbers.shape, order)
        return replace(rows, panels=mapped) if isinstance(rows, Float32Rows) else mapped
