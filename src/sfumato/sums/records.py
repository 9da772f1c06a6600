"""Records: where rows live. They can do one thing, add up a statistic behind `release`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.receipt import Receipt
from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Relation
from sfumato.kernels.arrays import Array, is_foreign, namespace_of, to_numpy
from sfumato.sums.grid import BLOCK_ROWS, MOST_ROWS, ROW_BITS, SecretSum, cut, revealed
from sfumato.sums.maps import RowMap
from sfumato.sums.statistics import Codes, Statistic

__all__ = ["ArrayRecords", "BatchRecords", "Records", "rows_in_memory"]

CACHED_ROWS = 4096  # rows that are mapped and added together, so that they stay in the cache
Block = tuple[Array, Codes]


class Records(ABC):
    """Rows with the numbers of their classes, of which only noisy sums can be had.

    Parameters
    ----------
    width : int
        Numbers of a row.
    relation : {"replace_one", "add_or_remove_one"}
        The neighbours; under "replace_one" the number of records is public.
    public_rows : int or None
        The number of records where it is public.
    """

    def __init__(self, width: int, relation: str | Relation, public_rows: int | None) -> None:
        self.width = width
        self.relation = Relation(relation)
        is_public = self.relation is Relation.REPLACE_ONE
        if is_public and public_rows is None:
            raise InvalidInputError("Relation 'replace_one' makes the number of records public.")
        if is_public and public_rows == 0:
            raise InvalidInputError("There are no records to learn from: the table has no rows.")
        if public_rows is not None and public_rows > MOST_ROWS:  # a public cap, secret or not
            raise InvalidInputError(f"More than {MOST_ROWS} records cannot be summed exactly.")
        self.public_rows = public_rows if is_public else None

    @property
    def most_rows(self) -> int:
        """The public number of records, or the public bound on it."""
        return MOST_ROWS if self.public_rows is None else self.public_rows

    def sensitivity(self, statistic: Statistic) -> float:
        """How far one record can move the sum of `statistic` over these records.

        Parameters
        ----------
        statistic : Statistic
            What is added up.

        Returns
        -------
        float
            The sensitivity, in the Euclidean norm.
        """
        return statistic.sensitivity(self.relation, self.most_rows)

    def release(
        self, statistic: Statistic, mechanism: Any, receipt: Receipt
    ) -> NDArray[np.float64]:
        """Add up a statistic and release it with the noise that `receipt` has paid for.

        Parameters
        ----------
        statistic : Statistic
            What is added up.
        mechanism : Mechanism
            Whose noise is added; it must be made for the sensitivity of the statistic.
        receipt : Receipt
            Proof of the charge.

        Returns
        -------
        ndarray
            The noisy sum.
        """
        if mechanism.sensitivity < self.sensitivity(statistic):
            raise InvalidInputError(
                f"The mechanism is made for sensitivity {mechanism.sensitivity:g}; "
                f"{type(statistic).__name__} has {self.sensitivity(statistic):g}."
            )
        total = revealed(self._sum(statistic))
        draw = mechanism.release_symmetric if statistic.is_symmetric else mechanism.release
        released: NDArray[np.float64] = draw(total, ledger=receipt)
        return released

    def mapped(self, row_map: RowMap) -> Records:
        """Give the records seen through a public map, computed block by block on each pass.

        Parameters
        ----------
        row_map : RowMap
            A map of blocks of rows.

        Returns
        -------
        Records
            The same records, mapped.
        """
        return _MappedRecords(self, row_map)

    def kept(self, dtype: type[np.floating[Any]] = np.float32) -> ArrayRecords:
        """Give the records with their maps computed once and kept, on the grid of sums.

        Numbers of the unit ball on that grid have 19 bits at most, so single precision holds them.

        Parameters
        ----------
        dtype : type, default=np.float32
            Double precision for those who would convert them anyway.

        Returns
        -------
        ArrayRecords
            The same records, in memory.
        """
        parts: list[Array] = []
        numbers = [np.empty(0, dtype=np.intp)]
        whole, filled = np.empty((self._count or 0, self.width), dtype=dtype), 0
        for block, codes in self._blocks():
            on_grid = cut(block, ROW_BITS)
            if is_foreign(on_grid) or self._count is None:
                parts.append(on_grid if is_foreign(on_grid) else on_grid.astype(dtype))
            else:  # in its place at once: half of the memory
                whole[filled : filled + len(on_grid)] = on_grid
                filled += len(on_grid)
            numbers.append(codes)
        rows = namespace_of(parts[0]).concat(parts) if parts else whole
        return ArrayRecords(rows, np.concatenate(numbers), relation=self.relation)

    @property
    def _count(self) -> int | None:
        """The number of records, public or not, where it is known before they are read."""
        return None

    def _sum(self, statistic: Statistic) -> SecretSum:
        total = SecretSum(statistic.shape)
        pending, n_pending = np.zeros(statistic.shape), 0
        for rows, codes in self._blocks():
            if n_pending + len(codes) > BLOCK_ROWS:
                total.add(pending, n_pending)
                pending, n_pending = np.zeros(statistic.shape), 0
            doubles = rows if is_foreign(rows) else rows.astype(np.float64, copy=False)
            pending = pending + to_numpy(statistic.add_up(doubles, codes))
            n_pending += len(codes)
        total.add(pending, n_pending)
        self._check_complete(total)
        return total

    def _check_complete(self, total: SecretSum) -> None:
        """Refuse a sum over fewer or more records than are declared, before noise is drawn."""
        if self.public_rows is not None and total.n_rows != self.public_rows:
            raise InvalidInputError(
                f"The number of records changed while they were read: {self.public_rows} were "
                f"declared, {total.n_rows} were found."
            )

    @abstractmethod
    def _blocks(self) -> Iterator[Block]:
        """Start a pass over the rows: blocks of at most `BLOCK_ROWS` rows and their codes."""


class ArrayRecords(Records):
    """Records in an array.

    Parameters
    ----------
    rows : array of shape (n, width)
        Rows, of NumPy or of another array library.
    codes : ndarray of shape (n,), optional
        Number of each record's class; by default all are of class 0.
    relation : {"replace_one", "add_or_remove_one"}
        The neighbours.
    """

    def __init__(
        self, rows: Array, codes: Codes | None = None, *, relation: str | Relation
    ) -> None:
        super().__init__(int(rows.shape[1]), relation, int(rows.shape[0]))
        self._rows = rows
        self._codes = np.zeros(rows.shape[0], dtype=np.intp) if codes is None else codes

    @property
    def _count(self) -> int | None:
        return int(self._rows.shape[0])

    def _blocks(self) -> Iterator[Block]:
        # An accelerator wants few large products, a processor rows that stay in its cache.
        step = BLOCK_ROWS if is_foreign(self._rows) else CACHED_ROWS
        for start in range(0, self._rows.shape[0], step):
            part = slice(start, min(start + step, self._rows.shape[0]))
            yield self._rows[part, :], self._codes[part]


def rows_in_memory(records: ArrayRecords) -> tuple[Array, Codes]:
    """Give rows and codes themselves, for an objective: it is no sum, and its mechanism sees it."""
    rows = records._rows
    return rows if is_foreign(rows) else rows.astype(np.float64, copy=False), records._codes


class BatchRecords(Records):
    """Records that are read again on every pass, from a file larger than memory, say.

    Parameters
    ----------
    read : callable
        Starts a pass over the same records and gives batches of rows and codes.
    width : int
        Numbers of a row.
    relation : {"replace_one", "add_or_remove_one"}
        The neighbours.
    n_rows : int, optional
        The number of records, needed where it is public; a pass that finds another is refused.
    """

    def __init__(
        self,
        read: Callable[[], Iterator[Block]],
        *,
        width: int,
        relation: str | Relation,
        n_rows: int | None = None,
    ) -> None:
        super().__init__(width, relation, n_rows)
        self._read = read

    def _blocks(self) -> Iterator[Block]:
        for rows, codes in self._read():
            for start in range(0, len(rows), CACHED_ROWS):
                yield rows[start : start + CACHED_ROWS], codes[start : start + CACHED_ROWS]


class _MappedRecords(Records):
    def __init__(self, records: Records, row_map: RowMap) -> None:
        super().__init__(row_map.width, records.relation, records.public_rows)
        self._records, self._map = records, row_map

    @property
    def _count(self) -> int | None:
        return self._records._count

    def _blocks(self) -> Iterator[Block]:
        for rows, codes in self._records._blocks():
            yield self._map(rows), codes
