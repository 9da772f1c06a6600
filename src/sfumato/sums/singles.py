"""Exact products at the rate of single precision.

Single precision holds whole numbers up to 2**24. Rows are cut to multiples of ``2**-SINGLE_BITS``,
and what they are multiplied by is brought to a grid so coarse that no partial sum of a product
passes 2**24 steps: whatever the order of additions, none is rounded. Where memory is short, such
rows wait on disk.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.core.memory import fits_in_memory

SINGLE_BITS = 12  # rows are multiples of 2**-SINGLE_BITS
MANTISSA = 24  # bits of a number in single precision
PART = 256  # rows whose products are added in single precision, parts in double precision
MAX_DIGIT = 2.0**11  # steps of slopes that are multiplied as they are; ...
BASE = 2.0**8  # ... larger ones are written with two digits of this base
# OpenBLAS makes products of so few multiplications as they lie in memory, without a copy of the
# rows: with few scores that takes half of the time.
SMALL_PRODUCT, MIN_TOGETHER = 10**6, 8
MAX_WEIGHT = 2.0**100  # weights, so that scores do not overflow in single precision
FEW = 0.25  # share of columns that are multiplied in double precision beside the others
ROUNDING_MARGIN = 2.0**-20  # more than lengths are off by that are computed in doubles, ...
SINGLE_MARGIN = 2.0**-10  # ... and in single precision

Doubles = NDArray[np.float64]
Singles = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Float32Rows:
    """Rows of the unit ball, multiples of ``2**-SINGLE_BITS``, in single precision.

    rows: (n, width).
    longest (width,): Of each column, the largest Euclidean length in a part of `PART` rows, or a
        bound on it.
    """

    rows: Singles = field(repr=False)
    longest: Doubles = field(repr=False)

    @classmethod
    def of(cls, rows: Doubles) -> Self:
        """Hold rows that are cut to the grid."""
        squares = np.add.reduceat(rows * rows, range(0, len(rows), PART)) if len(rows) else rows[:0]
        longest = np.sqrt(squares.max(axis=0, initial=0.0)) * (1 + ROUNDING_MARGIN)
        return cls(rows.astype(np.float32), longest)

    def __getitem__(self, part: slice) -> Self:
        """Return some of the rows."""
        return self.of(self.doubles()[part])

    def doubles(self) -> Doubles:
        """Return the rows in double precision."""
        return self.rows.astype(np.float64)

    def person_products(self, size: int) -> Singles:
        """``a_i.a_j`` of the rows of each person, exactly; kept for the next call."""
        kept: dict[int, Singles] = self.__dict__.setdefault("_products", {})
        if size not in kept:
            apart = self.rows.reshape(-1, size, self.rows.shape[1])
            kept[size] = apart @ np.swapaxes(apart, 1, 2)
        return kept[size]

    def scores(self, weights: ScoreWeights) -> Doubles:
        """``rows @ weights.T``, exactly.

        A partial sum is at most ``|row| |w|`` by Cauchy and Schwarz, hence 2**24 steps.
        """
        n_rows, width = self.rows.shape
        n_scores = weights.columns.shape[1]
        together = max(MIN_TOGETHER, SMALL_PRODUCT // max(1, width * n_scores))
        whole = n_rows // together * together
        found = np.empty((n_rows, n_scores), dtype=np.float32)
        found[:whole] = np.matmul(
            self.rows[:whole].reshape(-1, together, width), weights.columns
        ).reshape(whole, n_scores)
        found[whole:] = self.rows[whole:] @ weights.columns
        return found.astype(np.float64, order="F")

    def gathered(self, slopes: Doubles, bits: int) -> Doubles:
        """``slopes.T @ rows``, exactly.

        Slopes of more than 2**11 steps are written with two digits. In a part, a partial sum of
        the products of digits and a column is at most the length of the digits of one score times
        that of the column. Columns for which that passes 2**24 steps are multiplied in double
        precision.
        """
        counts = slopes.T * 2.0**bits  # whole numbers, in two digits if they are large
        if np.abs(counts).max(initial=0.0) <= MAX_DIGIT:
            return np.asarray(self._gathered(counts) * 2.0**-bits)
        upper = np.rint(counts * (1 / BASE))
        found = BASE * self._gathered(upper)
        found += self._gathered(counts - BASE * upper)
        return np.asarray(found * 2.0**-bits)

    def _gathered(self, counts: Doubles) -> Doubles:
        digits, in_part = counts.astype(np.float32, order="C"), 0.0
        if digits.size:  # the largest length of the numbers of one score in a part, or a bit more
            squares = np.add.reduceat(digits * digits, range(0, counts.shape[1], PART), axis=1)
            in_part = math.sqrt(float(squares.max())) * (1 + SINGLE_MARGIN)
        steps = self.longest * (2.0**SINGLE_BITS * in_part)
        (long,) = np.nonzero(steps > 2.0**MANTISSA)
        if len(long) > FEW * len(steps):
            return np.asarray(counts @ self.doubles())
        found = self._added(digits)
        if len(long):
            found[:, long] = counts @ self.rows[:, long].astype(np.float64)
        return found

    def _added(self, factors: Singles) -> Doubles:
        """``factors @ rows``: parts in single precision, their sum in double precision."""
        n_rows, width = self.rows.shape
        n_parts = n_rows // PART
        whole = n_parts * PART
        apart = factors[:, :whole].reshape(len(factors), n_parts, PART).transpose(1, 0, 2)
        left, right = np.ascontiguousarray(apart), self.rows[:whole].reshape(n_parts, PART, width)
        found = np.asarray(factors[:, whole:] @ self.rows[whole:], dtype=np.float64)
        n_products = max(1, -(-len(factors) * PART * width // SMALL_PRODUCT))
        together = max(1, -(-width // n_products))
        for start in range(0, width, together):
            columns = slice(start, start + together)
            products = np.matmul(left, right[:, :, columns])
            found[:, columns] += products.sum(axis=0, dtype=np.float64)
        return found


class ScoreWeights:
    """Public weights, rounded to a power of two that makes scores of single precision exact.

    With weights of length ``2**e`` at most it is ``2**(e + SINGLE_BITS - 24)``.

    weights (n_scores, width): Weights; what is no number counts as 0, beyond 2**100 as that.
    rounded (n_scores, width): The weights on the grid.
    """

    def __init__(self, weights: Doubles) -> None:
        weights = np.clip(np.nan_to_num(weights), -MAX_WEIGHT, MAX_WEIGHT)
        exponent = math.frexp(np.linalg.norm(weights, axis=1).max(initial=0.0))[1]
        while True:
            step = 2.0 ** (exponent + SINGLE_BITS - MANTISSA)
            self.rounded: Doubles = np.rint(weights / step) * step
            longest = np.linalg.norm(self.rounded, axis=1).max(initial=0.0)
            if longest <= 2.0**exponent * (1 - ROUNDING_MARGIN):
                break
            exponent += 1  # rounding has made them longer

    @cached_property
    def columns(self) -> Singles:
        """The weights of each score as a column, in single precision."""
        return np.ascontiguousarray(self.rounded.T, dtype=np.float32)


class RowsOnDisk:
    """Blocks of rows in single precision, in a file that has no name in any folder.

    The system frees it when the last block is let go, also after a crash: no row survives a fit.
    It lies in the folder for temporary files (``TMPDIR``), which must hold 4 bytes per number.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._n_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:  # blocks stay readable: each has mapped its part
            self._file.close()

    def held(self, rows: Any) -> Any:
        """Return rows as they are, or in the file where memory is short."""
        numbers = rows.rows if isinstance(rows, Float32Rows) else rows
        if not isinstance(numbers, np.ndarray):  # on a device
            return rows
        self._n_bytes += numbers.nbytes
        if not numbers.size or fits_in_memory(self._n_bytes):
            return rows
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        start = self._file.seek(0, 2)
        self._file.write(np.ascontiguousarray(numbers).data)
        self._file.flush()
        mapped = np.memmap(self._file, np.float32, "r", start, numbers.shape)
        return replace(rows, rows=mapped) if isinstance(rows, Float32Rows) else mapped
