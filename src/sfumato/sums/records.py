"""Records: where rows live. They can do one thing, add up a statistic behind `release`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.arrays import Array, by_columns, is_foreign_array, like, namespace_of, to_numpy
from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Receipt
from sfumato.privacy.guarantee import Relation
from sfumato.sums.grid import (
    BLOCK_ROWS,
    MAX_ROWS,
    MAX_ROWS_SECRET_N,
    PART,
    ROW_BITS,
    SINGLE_BITS,
    Float32Rows,
    HeldRows,
    RowsOnDisk,
    SecretSum,
    are_inside,
    cut_inside,
    revealed,
)
from sfumato.sums.maps import RowMap
from sfumato.sums.persons import (
    MAX_PERSONS,
    KeptPersons,
    PersonSum,
    PersonUnit,
    Sizes,
    by_size,
    select_person_rows,
)
from sfumato.sums.statistics import Codes, SecondMoment, Statistic

CACHED_ROWS = 2**14  # most rows that are mapped and added together, ...
CACHED_NUMBERS = 2**19  # ... and most of their numbers, so that they stay in the cache
HELD_ROWS = 2**15  # of a block that is kept, or more
FAST_NUMBERS = 3 * 2**21  # that are kept in 32 bits, as they are multiplied; others in 16 bits
# Rows, classes, and how many rows their persons have: all of them, or each row's where they differ.
Block = tuple[Array, Codes, int | Sizes]


class Records(ABC):
    """Rows with the numbers of their classes, of which only noisy sums can be had.

    Parameters
    ----------
    width : int
        Numbers of a row.
    relation : {"replace_one", "add_or_remove_one"}
        The neighbours; under "replace_one" the number of records is public.
    public_rows : int or None
        The number of records where it is public; of persons, where they are the unit.
    person : PersonUnit, optional
        How many rows a person has and how they are added up, where persons are the unit.

    Attributes
    ----------
    public_rows : int or None
        What the terms of a sum add up to where that is public: the number of records, or of
        persons where each has one vote.
    is_grouped_by_person : bool
        Whether rows of a person lie side by side, so that they can be bounded together.
    """

    # Whether exact sums are in one place, so that a mechanism can choose or cut by them.
    has_exact_sums: ClassVar[bool] = True
    is_grouped_by_person: bool = True
    _in_ball = 0  # first numbers of a row that are known to lie in the unit ball: see `RowMap`
    _beside = 0  # last numbers of a row that are no part of a point of the ball
    _coded: RowMap | None = None  # the last map, where it makes codes
    _count: int | None = None  # of records, public or not, where it is known before they are read

    def __init__(
        self,
        width: int,
        relation: str | Relation,
        public_rows: int | None,
        person: PersonUnit | None = None,
    ) -> None:
        self.width = width
        self.relation = Relation(relation)
        self.person = person
        is_public = self.relation is Relation.REPLACE_ONE
        if is_public and public_rows is None:
            raise InvalidInputError("Relation 'replace_one' makes the number of records public.")
        if is_public and public_rows == 0:
            raise InvalidInputError("There are no records to learn from: the table has no rows.")
        most = MAX_ROWS if is_public else MAX_ROWS_SECRET_N  # public caps
        most = most if person is None else min(most, MAX_PERSONS)
        if public_rows is not None and public_rows > most:
            raise _too_many(most, is_public=is_public)
        self.public_persons = public_rows if is_public and person is not None else None
        counts_rows = person is None or person.averages
        self.public_rows = public_rows if is_public and counts_rows else None

    @property
    def max_rows(self) -> int:
        """The public number of records, or the public bound on it."""
        if self.person is not None and self.public_persons is not None:
            return min(MAX_ROWS, self.person.rows * self.public_persons)
        return MAX_ROWS_SECRET_N if self.public_rows is None else self.public_rows

    def sensitivity(self, statistic: Statistic, norm: int | str = 2) -> float:
        """How far one record, or one person, can move the sum of `statistic` over these records.

        Parameters
        ----------
        statistic : Statistic
            What is added up.
        norm : {1, 2, "part"}, default=2
            See `Statistic.sensitivity`.

        Returns
        -------
        float
            The sensitivity.
        """
        if self.person is not None:
            return self.person.sensitivity(statistic, self.relation, self.max_rows, norm)
        return statistic.sensitivity(self.relation, self.max_rows, norm)

    def release(
        self, statistic: Statistic, mechanism: Any, receipt: Receipt, *, on_device: bool = False
    ) -> Any:
        """Add up a statistic and release it with the noise that `receipt` has paid for.

        Parameters
        ----------
        statistic : Statistic
            What is added up.
        mechanism : Mechanism
            Whose noise is added; it must be made for the sensitivity of the statistic.
        receipt : Receipt
            Proof of the charge.
        on_device : bool, default=False
            Leave the sum of a symmetric statistic on the device of the rows, where persons are not
            the unit.

        Returns
        -------
        ndarray, or array of the library of the rows
            The noisy sum.
        """
        needed = self.sensitivity(statistic, mechanism.norm)
        if not mechanism.sensitivity >= needed:  # nor for NaN
            raise InvalidInputError(
                f"The mechanism is made for sensitivity {mechanism.sensitivity:g}; "
                f"{type(statistic).__name__} has {needed:g}."
            )
        exact = self._sum(statistic, on_device=on_device)
        if self.relation is not Relation.REPLACE_ONE and exact.n_rows > self.max_rows:
            raise _too_many(self.max_rows, is_public=False)
        total = exact.averaged() if isinstance(exact, PersonSum) else revealed(exact)
        draw = mechanism.release_symmetric if statistic.is_symmetric else mechanism.release
        return draw(total, ledger=receipt)

    def variance_of(self, mechanism: Any) -> float:
        """Variance of the noise that `mechanism` leaves on a released number of these records.

        Parameters
        ----------
        mechanism : Mechanism
            The mechanism of a release.

        Returns
        -------
        float
            Its own variance; more where several parties add noise.
        """
        return float(mechanism.variance())

    def mapped(self, row_map: RowMap) -> Records:
        """Return the records seen through a public map, computed block by block on each pass.

        Parameters
        ----------
        row_map : RowMap
            A map of blocks of rows.

        Returns
        -------
        Records
            The same records, mapped.
        """

        def mapped_blocks() -> Iterator[Block]:
            for rows, codes, size in self._blocks():
                with np.errstate(all="ignore"):
                    made = row_map(rows)
                yield made, codes, size

        seen = self._as_blocks(mapped_blocks, row_map.width)
        seen._count, seen._beside = self._count, int(getattr(row_map, "has_target", False))
        seen._in_ball = row_map.width if getattr(row_map, "ends_in_ball", False) else 0
        seen._coded = row_map if getattr(row_map, "makes_codes", False) else None
        return seen

    def _as_blocks(self, read: Callable[[], Iterator[Block]], width: int) -> BatchRecords:
        number = self.public_rows if self.person is None else self.public_persons
        promise: dict[str, Any] = {"relation": self.relation, "person": self.person}
        made = BatchRecords(read, width=width, n_rows=number, **promise)
        made.is_grouped_by_person = self.is_grouped_by_person
        return made

    def cache(self, *, in_singles: bool = False) -> Records:
        """Return the records with their maps computed once and kept, on the grid of sums.

        Numbers of the unit ball on that grid have 19 bits at most, so single precision holds them;
        rows outside the ball, which a target by `BesideTarget` is no part of, become zero. Where
        memory is short, rows are kept on disk; where that is full, maps are computed on each pass.
        Numbers are the same.

        Parameters
        ----------
        in_singles : bool, default=False
            Cut rows to the coarser grid of `Float32Rows`, multiples of ``2**-SINGLE_BITS``.

        Returns
        -------
        Records
            The same records, their rows on the grid.
        """
        blocks: list[Block] = []
        read: Callable[[], Iterator[Block]] = lambda: iter(blocks)  # noqa: E731
        disk = RowsOnDisk()
        for rows, codes, size in self._on_grid(in_singles):
            try:
                blocks.append((disk.held(rows), codes, size))
            except OSError:  # it is full
                read = partial(self._on_grid, in_singles)
                break
        kept = self._as_blocks(read, self.width)
        kept._in_ball, kept._beside = self.width - self._beside, self._beside
        kept._count = self._count
        return kept.mapped(self._coded) if self._coded else kept

    def _on_grid(self, in_singles: bool) -> Iterator[Block]:
        """Yield blocks of rows as they are kept; all persons of a block have as many rows.

        Few long blocks make less work of a pass than many short ones.
        """
        width, bits = self.width - self._beside, SINGLE_BITS if in_singles else ROW_BITS
        waiting: list[tuple[Array, Codes]] = []
        n_held = 0

        def together(size: Any = 1) -> Block:
            rows: Any = np.concatenate([each for each, _ in waiting])
            codes = np.concatenate([each for _, each in waiting])
            waiting.clear()
            nonlocal n_held
            n_held += rows.size
            if in_singles:
                rows = Float32Rows.of(rows[:, :width], rows[:, width:].copy())
                rows = rows if n_held <= FAST_NUMBERS else rows.packed()
            return rows, codes, size

        for block in self._blocks():
            for rows, codes, size in (
                [block] if self.person is None else by_size(*block, self.person)
            ):
                if self._coded:
                    if sum(len(c) for _, c in waiting) + len(codes) > BLOCK_ROWS:
                        yield together()
                    waiting.append((rows.codes, codes))
                    continue
                on_grid = cut_inside(rows, bits, width)
                if not is_foreign_array(on_grid):
                    if self.person is not None:  # [J3] others' terms are computed as without it
                        on_grid[codes < 0] = 0.0
                    waiting.append((on_grid.astype(np.float32), codes))
                    if self.person is not None or sum(len(c) for _, c in waiting) >= HELD_ROWS:
                        yield together(size)
                elif in_singles and self.person is None:  # classes go along, not on each pass
                    yield by_columns(on_grid), like(on_grid, codes), size
                else:
                    yield on_grid, codes, size
        if waiting:
            yield together()

    def _sum(self, statistic: Statistic, *, on_device: bool = False) -> SecretSum | PersonSum:
        if self.person is not None:
            return self._sum_over_persons(statistic, self.person)
        total = SecretSum(statistic.shape)
        pending, n_pending = np.zeros(statistic.shape), 0
        for rows, codes, _ in self._blocks():
            if n_pending + codes.shape[0] > BLOCK_ROWS:
                total.add(pending, n_pending)
                n_pending = 0
            partial = self._added(statistic, rows, codes, on_device=on_device)
            pending = pending + partial if n_pending else partial
            n_pending += codes.shape[0]
        total.add(pending, n_pending)
        self._check_complete(total)
        return total

    def _sum_over_persons(self, statistic: Statistic, unit: PersonUnit) -> SecretSum | PersonSum:
        """Add up persons: blocks hold whole numbers of persons, or rows that need no others."""
        is_joined = statistic._joined_sensitivity(self.relation, unit) is not None
        if is_joined and not self.is_grouped_by_person:
            raise InvalidInputError("The rows of a person must be adjacent to be bounded together.")
        total = PersonSum(statistic.shape)
        for rows, codes, sizes in self._blocks():
            for part, numbers, size in by_size(_readable(rows, statistic), codes, sizes, unit):
                together = size if is_joined else None
                partial = self._added(statistic, part, numbers, size=together)
                total.add(partial, len(numbers), size if unit.averages else 1)
        if not unit.averages:
            return total.added()
        if self.public_persons is not None and total.n_persons != self.public_persons:
            raise InvalidInputError("The number of persons changed while they were read.")
        return total

    @np.errstate(all="ignore")  # a warning would tell of a record
    def _added(
        self,
        statistic: Statistic,
        rows: Any,
        codes: Codes,
        *,
        on_device: bool = False,
        size: int | None = None,
    ) -> Array:
        """Add up a block; a term that is not finite, or longer than declared, is zero."""
        rows = _readable(rows, statistic)
        unknown = (codes if isinstance(codes, np.ndarray) else to_numpy(codes)) < 0
        if unknown.any():  # [J3] a class that nobody has declared
            if size is None:
                rows, codes = rows[~unknown], codes[~unknown]
            else:  # among the others of a person: a row of zeros, with one of their classes
                if not isinstance(rows, Float32Rows):  # which are kept so
                    rows = np.where(unknown[:, None], 0.0, rows)
                others = np.repeat(codes.reshape(-1, size).max(axis=1), size)
                codes = np.where(unknown, np.maximum(others, 0), codes)
        if statistic.in_ball > self._in_ball:
            inside = are_inside(rows, statistic.in_ball)
            if not namespace_of(inside).all(inside):  # [J1] each row on its own
                if size is None:
                    rows, codes = rows[inside], codes[to_numpy(inside)]
                else:  # they stay side by side: joint terms of a row of zeros are zero
                    rows = cut_inside(rows, ROW_BITS, statistic.in_ball)
        one = size or 1

        def add_up(rows: Any, codes: Codes) -> Array:
            """Add up rows; where the sum is not finite, their halves, and nothing for `one`."""
            try:
                if size is None:
                    total = statistic.add_up(rows, codes)
                else:
                    total = statistic._add_up_persons(rows, codes, size)
            except (IndexError, ValueError):
                n_classes = getattr(getattr(statistic, "loss", statistic), "n_classes", 0)
                unknown = (codes < 0) | (codes >= n_classes)
                if not n_classes or not np.any(unknown):  # for no fault of a record
                    raise
                if size is None:  # [J3] a class that was not declared
                    return add_up(rows[~unknown], codes[~unknown])
                blank = np.where(unknown[:, None], 0.0, _readable(rows, SecondMoment(self.width)))
                return add_up(blank, np.where(unknown, 0, codes))
            n_rows = codes.shape[0]
            if not (on_device or isinstance(total, np.ndarray)):
                total = to_numpy(total)
            xp = np if isinstance(total, np.ndarray) else namespace_of(total)
            if math.isfinite(xp.sum(total)):  # as always; one pass over the sum
                return total
            if n_rows <= one:  # [J2] each term on its own
                return xp.zeros_like(total)
            middle = n_rows // one // 2 * one
            return add_up(rows[:middle], codes[:middle]) + add_up(rows[middle:], codes[middle:])

        return add_up(rows, codes)

    def _check_complete(self, total: SecretSum) -> None:
        """Refuse a sum over fewer or more records than are declared, before noise is drawn."""
        if self.public_rows is not None and total.n_rows != self.public_rows:
            raise InvalidInputError(
                f"The number of records changed while they were read: {self.public_rows} were "
                f"declared, {total.n_rows} were found."
            )

    @abstractmethod
    def _blocks(self) -> Iterator[Block]:
        """Start a pass over the rows: blocks of at most `BLOCK_ROWS` rows and their codes.

        Where persons are gathered, all of a block have as many rows as it says, and rows of one
        person lie side by side in one block. Else the size is said of each row, and rows of size 0
        are part of no sum: see `by_size`.
        """


class ArrayRecords(Records):
    """Records in an array.

    Parameters
    ----------
    rows : array of shape (n, width)
        Rows, of NumPy or of another array library.
    codes : ndarray of shape (n,), optional
        Number of each record's class; by default all are of class 0.
    relation : {"replace_one", "add_or_remove_one"}
        Which data sets count as neighbours.
    persons : KeptPersons, optional
        Which rows belong together, where persons are the unit; see `of_persons`.
    """

    def __init__(
        self,
        rows: Array,
        codes: Codes | None = None,
        *,
        relation: str | Relation,
        persons: KeptPersons | None = None,
    ) -> None:
        number = int(rows.shape[0]) if persons is None else persons.n_persons
        super().__init__(
            int(rows.shape[1]), relation, number, None if persons is None else persons.unit
        )
        self._rows, self._persons = rows, persons
        self._codes = np.zeros(rows.shape[0], dtype=np.intp) if codes is None else codes
        self._count = int(rows.shape[0])
        if persons is not None:  # grouped, blocks hold the kept rows of each one after the other
            self.is_grouped_by_person = persons.runs is not None
            self._count = persons.n_kept if self.is_grouped_by_person else self._count

    @classmethod
    def of_persons(
        cls,
        rows: Array,
        codes: Codes | None = None,
        *,
        groups: Any,
        unit: PersonUnit,
        relation: str | Relation,
        group_by_person: bool = True,
    ) -> Self:
        """Return the records of persons: the rows of each ID, at most as many as `unit` allows.

        Parameters
        ----------
        rows : ndarray of shape (n, width)
            Rows.
        codes : ndarray of shape (n,), optional
            Number of each record's class.
        groups : array-like of shape (n,)
            IDs of persons; rows without one are dropped.
        unit : PersonUnit
            How many rows a person has, and how they are added up.
        relation : {"replace_one", "add_or_remove_one"}
            The neighbours, which differ in one person.
        group_by_person : bool, default=True
            Whether rows of a person must be bounded together; without it adding up is quicker.

        Returns
        -------
        ArrayRecords
            The records.
        """
        numbers = np.zeros(len(rows), dtype=np.intp) if codes is None else codes
        persons = select_person_rows(rows, numbers, groups, unit, group=group_by_person)
        is_public = Relation(relation) is Relation.REPLACE_ONE
        most = MAX_ROWS if is_public else MAX_ROWS_SECRET_N
        if persons.n_kept > most:
            raise InvalidInputError(f"At most {most} rows of persons are accepted.")
        return cls(rows, numbers, relation=relation, persons=persons)

    def in_memory(self) -> tuple[Array, Codes]:
        """Return rows and class codes, for a release that is not a sum over rows.

        Returns
        -------
        rows : array of shape (n, width)
            The rows.
        codes : ndarray of shape (n,)
            Number of each record's class.
        """
        return self._rows, self._codes

    def _blocks(self) -> Iterator[Block]:
        # An accelerator wants few large products, a processor rows that stay in its cache.
        step = BLOCK_ROWS if is_foreign_array(self._rows) else cached_rows(self.width)
        persons = self._persons
        if persons is not None and persons.runs is None:
            for first in range(0, len(self._codes), step):
                part = slice(first, first + step)
                yield self._rows[part], self._codes[part], persons.sizes[part]
            return
        runs: Any = ((1, self._count or 0),) if persons is None else persons.runs
        places, start = None if persons is None else persons.places, 0
        for size, n_persons in runs:
            end = start + size * n_persons
            whole = max(step // size, 1) * size
            for first in range(start, end, whole):
                run: Any = slice(first, min(first + whole, end))
                run = run if places is None else places[run]
                yield self._rows[run, :], self._codes[run], size
            start = end


class BatchRecords(Records):
    """Records that are read again on every pass, from a file larger than memory, say.

    read: Starts a pass over the same records and gives batches of rows and codes; of persons also
        how many rows each has, see `by_size`.
    n_rows: The number of records, or of persons, needed where it is public; a pass that finds
        another is refused.
    """

    def __init__(
        self,
        read: Callable[[], Iterator[tuple[Any, ...]]],
        *,
        width: int,
        relation: str | Relation,
        n_rows: int | None = None,
        person: PersonUnit | None = None,
    ) -> None:
        self._read = read
        super().__init__(width, relation, n_rows, person)

    def _blocks(self) -> Iterator[Block]:
        step = cached_rows(self.width)
        for rows, codes, *size in self._read():
            if size:  # as large as it may be
                yield rows, codes, size[0]
                continue
            for start in range(0, len(rows), step):
                part = slice(start, start + step)
                yield rows[part], codes[part], 1


class RemoteRecords(Records):
    """Records whose exact sums exist in no one place, such as those of several parties."""

    has_exact_sums: ClassVar[bool] = False
    is_elsewhere: ClassVar[bool] = True  # no table in memory: see `is_out_of_core`

    @property
    @abstractmethod
    def columns(self) -> Sequence[str] | int:
        """Names of the columns of tables, or the number of columns of arrays."""

    @abstractmethod
    def read_by(self, reader: Any, width: int) -> Records:
        """Return the records as those who hold them read them, `width` numbers a row."""


def _too_many(most: int, *, is_public: bool) -> InvalidInputError:
    more = "" if is_public else ", since their number is secret; more under 'replace_one'"
    return InvalidInputError(f"At most {most} records can be added up{more}.")


def cached_rows(width: int) -> int:
    """Rows of a block: as many as stay in the cache, in whole parts of `Float32Rows`."""
    parts = max(1, CACHED_NUMBERS // (PART * max(width, 1)))
    return min(CACHED_ROWS, PART * parts)


def _readable(rows: Array, statistic: Statistic) -> Array:
    """Return rows in double precision, unless the statistic can read those in single precision."""
    if isinstance(rows, Float32Rows):
        return rows.opened() if statistic.takes_singles else rows.doubles()
    if is_foreign_array(rows) or isinstance(rows, HeldRows):
        return rows
    # Numbers of a row side by side, for sums over them are made in the order of memory.
    is_by_rows = rows.strides[-1] == rows.itemsize
    return rows.astype(np.float64, order="K" if is_by_rows else "C", copy=False)
