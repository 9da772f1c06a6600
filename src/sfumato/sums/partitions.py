"""Records in parts, wherever they lie: a pass maps a task over the parts and merges their sums.

An engine is a `Partitions`: it says how many parts there are and applies a task to each of them,
on the machines where they lie. It may do so in any order, twice, or again after a failure: every
part enters a sum once, sums are exact, and noise and ledger stay in the process that merges.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import EngineError, InvalidInputError, UnsupportedModeError
from sfumato.ledger.receipt import Receipt
from sfumato.privacy.guarantee import Relation
from sfumato.sums.batches import BatchRecords
from sfumato.sums.counts import CountTables
from sfumato.sums.grid import ROW_BITS, SecretSum, cut_inside
from sfumato.sums.identities import id_cells
from sfumato.sums.maps import RowMap, numbers_beside
from sfumato.sums.messages import SecretMessage, opened, sealed
from sfumato.sums.persons import PersonSum, PersonUnit
from sfumato.sums.records import ArrayRecords, Block, Records
from sfumato.sums.singles import SINGLE_BITS, Float32Rows
from sfumato.sums.statistics import Statistic

Task = Callable[[int, Iterable[Any]], Any]  # of the number of a part and its batches
Reader = Callable[[Any], tuple[Any, ...]]  # of a batch: rows, codes, and IDs where they count
NO_CODES = np.empty(0, dtype=np.intp)


class Partitions(ABC):
    """A table in parts, and an engine that applies a task to each of them.

    Attributes
    ----------
    is_remote : bool
        Whether a pass costs more than the reading: many passes are warned of.
    library : str
        Whose tables the batches are: "pandas", "polars" or "pyarrow".
    schema : pyarrow.Schema or None
        Types that columns are stored with, where they are known before a row is read.
    """

    is_elsewhere: ClassVar[bool] = True  # no table in memory: see `is_out_of_core`
    is_remote: ClassVar[bool] = True
    library: str = "pyarrow"
    schema: Any = None
    progress: Callable[[int, int], None] | None = None  # is told parts done, and all parts

    @property
    @abstractmethod
    def n_parts(self) -> int:
        """Number of parts; the same in every pass."""

    @property
    @abstractmethod
    def columns(self) -> Sequence[str] | int:
        """Names of the columns, or their number where they have no names: public facts."""

    @abstractmethod
    def map(self, task: Task) -> Iterator[Any]:
        """Return ``task(number, batches)`` for every part, in any order."""

    def declared(self, types: Mapping[str, str], text: Any = None) -> Partitions:  # noqa: ARG002
        """Return the same parts with no more than these columns, read as their public types."""
        return self

    def undeclared(self) -> Partitions:
        """Return the same parts with the types that they are stored with."""
        return self

    def _require(self, names: Iterable[str]) -> None:
        """Refuse a table that lacks a column."""
        known = [] if isinstance(self.columns, int) else self.columns
        missing = [name for name in names if name not in known]
        if missing:
            raise InvalidInputError(f"The table has no column {missing[0]!r}.")

    def by_person(self, ids_of: Callable[[Any], Any]) -> Partitions:  # noqa: ARG002
        """Return parts that hold all rows of a person; an engine that cannot do so refuses."""
        raise UnsupportedModeError(
            f"{type(self).__name__} cannot bring the rows of a person together, so unit 'person' "
            "is not offered here. Nothing was charged. Read a table from files, or give an array."
        )

    def cache(self, task: Task) -> Partitions:
        """Return the parts as `task` makes them, cached; by default made on each pass."""
        return _MadeOnEachPass(self, task)


class ListedParts(Partitions):
    """Parts of which a list is kept: of what they are read from, made of, or held as.

    Parameters
    ----------
    parts : sequence
        What stands for each part.
    columns : sequence of str or int
        Names of the columns, or their number where they have none.
    """

    def __init__(self, parts: Sequence[Any], columns: Sequence[str] | int) -> None:
        self._parts, self._columns = list(parts), columns

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self._parts)

    @property
    def columns(self) -> Sequence[str] | int:
        """Names of the columns, or their number."""
        return self._columns

    def _reporting_as(self, other: Partitions) -> Self:
        """Report the progress of passes as another table does."""
        self.progress = other.progress
        return self


class _MadeOnEachPass(Partitions):
    def __init__(self, parts: Partitions, first: Task) -> None:
        self._parts, self._first = parts, first
        self.progress = parts.progress

    @property
    def n_parts(self) -> int:
        return self._parts.n_parts

    @property
    def columns(self) -> Sequence[str] | int:
        return self._parts.columns

    def map(self, task: Task) -> Iterator[Any]:
        return self._parts.map(_Both(self._first, task))


@dataclass(frozen=True)
class _Both:
    first: Task
    second: Task

    def __call__(self, number: int, batches: Iterable[Any]) -> Any:
        return self.second(number, self.first(number, batches))


# What is done where the rows lie --------------------------------------------------------------


@dataclass(frozen=True)
class KeptBlock:
    """A block of mapped rows on a grid of single precision.

    codes: Their classes.
    size: Rows of each of their persons.
    longest: See `Float32Rows`; None on the grid of sums.
    """

    rows: NDArray[np.float32]
    codes: NDArray[np.int32]
    size: int
    longest: NDArray[np.float64] | None = None

    def block(self) -> Block:
        """Return the block as a pass reads it."""
        rows = self.rows if self.longest is None else Float32Rows(self.rows, self.longest)
        return rows, self.codes.astype(np.intp), self.size


@dataclass(frozen=True)
class _Part:
    """How the batches of a part become records; everything in it is public."""

    read: Reader | None  # None where batches are kept blocks
    steps: tuple[RowMap, ...]
    width: int  # of the rows as they are read
    person: PersonUnit | None
    in_ball: int = 0  # first numbers of kept rows, which lie in the unit ball

    def records(self, batches: Iterable[Any]) -> Records:
        found: Records
        if self.read is None:
            found = _BlockRecords(batches, self.width, self.person)
            found._in_ball = self.in_ball
        elif self.person is None:
            rows = map(self.read, filter(_has_rows, batches))
            found = BatchRecords(lambda: rows, width=self.width, relation=SECRET_NUMBER)
        else:
            found = self._persons(batches, self.read, self.person)
        for step in self.steps:
            found = found.mapped(step)
        return found

    def _persons(self, batches: Iterable[Any], read: Reader, person: PersonUnit) -> Records:
        """All rows of the part in memory, those of a person side by side."""
        parts = [read(batch) for batch in batches if _has_rows(batch)]
        rows = np.concatenate([np.empty((0, self.width)), *(each[0] for each in parts)])
        codes = np.concatenate([NO_CODES, *(each[1] for each in parts)])
        ids = np.empty(len(rows), dtype=object)
        ids[:] = [cell for each in parts for cell in id_cells(each[2])]
        return ArrayRecords.of_persons(rows, codes, groups=ids, unit=person, relation=SECRET_NUMBER)


SECRET_NUMBER = Relation.ADD_OR_REMOVE_ONE  # a part knows of no public number


@dataclass(frozen=True)
class PartSum:
    """The task of a pass: add up a statistic over one part.

    part: How batches become records.
    statistic: What is added up.
    name: The public name of the pass.
    """

    part: _Part
    statistic: Statistic
    name: str

    def __call__(self, number: int, batches: Iterable[Any]) -> SecretMessage:
        """Add up one part."""
        total = self.part.records(batches)._sum(self.statistic)
        return sealed(total, task=self.name, part=number)


@dataclass(frozen=True)
class RowsKept:
    """The task that keeps mapped rows where they lie.

    part: How batches become records.
    in_singles: Whether they are kept as `Float32Rows`, on a coarser grid.
    in_ball: First numbers of a row that are zero where they do not lie in the unit ball.
    """

    part: _Part
    in_singles: bool
    in_ball: int

    def __call__(self, number: int, batches: Iterable[Any]) -> Iterator[KeptBlock]:  # noqa: ARG002
        """Map one part, block by block."""
        bits = SINGLE_BITS if self.in_singles else ROW_BITS
        for rows, codes, sizes in self.part.records(batches)._blocks():
            size = cast("int", sizes)  # of all persons of the block: they are gathered
            on_grid = cut_inside(rows, bits, self.in_ball)
            longest = Float32Rows.of(on_grid).longest if self.in_singles else None
            yield KeptBlock(on_grid.astype(np.float32), codes.astype(np.int32), size, longest)


class _BlockRecords(Records):
    def __init__(self, blocks: Iterable[KeptBlock], width: int, person: PersonUnit | None) -> None:
        super().__init__(width, SECRET_NUMBER, None, person)
        self._kept = blocks

    @property
    def is_grouped_by_person(self) -> bool:
        return True  # as they were when they were kept

    def _blocks(self) -> Iterator[Block]:
        return (each.block() for each in self._kept)


def _places(batch: Any) -> tuple[Any, ...]:
    """Return a record per row of a batch, of which nothing is known."""
    n_rows = len(batch[0] if isinstance(batch, tuple) else batch)
    return np.zeros((n_rows, 1)), np.zeros(n_rows, dtype=np.intp)


def _has_rows(batch: Any) -> bool:
    return len(batch[0] if isinstance(batch, tuple) else batch) > 0


# Where noise is drawn -------------------------------------------------------------------------


class PartitionedRecords(Records):
    """Records in parts, each of which is added up where it lies.

    Parameters
    ----------
    partitions : Partitions
        Where they lie; where persons are the unit, all rows of a person in one part.
    read : callable
        The public map of a batch to rows, codes and, where persons are the unit, their IDs. It
        treats each record by itself and can be pickled.
    width : int
        Numbers of a row.
    relation : {"replace_one", "add_or_remove_one"}
        The neighbours. With "replace_one" the number of records or persons is counted at once.
    person : PersonUnit, optional
        How many rows a person has and how they are added up.
    """

    def __init__(
        self,
        partitions: Partitions,
        read: Reader,
        *,
        width: int,
        relation: str | Relation,
        person: PersonUnit | None = None,
    ) -> None:
        self._partitions, self.width, self.person = partitions, width, person
        self._part = _Part(read, (), width, person)
        number = None
        if Relation(relation) is Relation.REPLACE_ONE:
            number = self._counted()
        super().__init__(width, relation, number, person)

    @property
    def is_remote(self) -> bool:
        """Whether a pass costs more than the reading."""
        return self._partitions.is_remote

    @property
    def is_grouped_by_person(self) -> bool:
        """Rows of a person lie side by side in their part."""
        return True

    def release(
        self, statistic: Statistic, mechanism: Any, receipt: Receipt
    ) -> NDArray[np.float64]:
        """Add up a statistic and release it with the noise that `receipt` has paid for."""
        if self.is_remote:
            receipt.only_if(ALIKE)
        try:
            return super().release(statistic, mechanism, receipt)
        except EngineError as error:
            said = NOTHING_DRAWN if receipt.is_untouched else DRAWN
            raise EngineError(f"{error} {said}", receipt=receipt) from None

    def mapped(self, row_map: RowMap) -> Records:
        """Return the records seen through a public map, computed where they lie."""
        return self._with(
            self._partitions, replace(self._part, steps=(*self._part.steps, row_map)), row_map.width
        )

    def cache(self) -> Records:
        """Return the records with their maps computed once and kept where they lie."""
        return self._kept_as(in_singles=False)

    def cache_float32(self) -> Records:
        """Do the same on the grid of `Float32Rows`."""
        return self._kept_as(in_singles=True)

    def _kept_as(self, *, in_singles: bool) -> Records:
        beside = numbers_beside(self._part.steps[-1]) if self._part.steps else 0
        inside = self.width - beside
        kept = self._partitions.cache(RowsKept(self._part, in_singles, inside))
        part = _Part(None, (), self.width, self.person, inside)
        return self._with(kept, part, self.width)

    def _with(self, partitions: Partitions, part: _Part, width: int) -> Self:
        other = copy(self)
        other._partitions, other._part, other.width = partitions, part, width
        return other

    def _sum(self, statistic: Statistic) -> SecretSum | PersonSum:
        total = self._merged(statistic)
        if isinstance(total, PersonSum):
            if self.public_persons not in (None, total.n_persons):
                raise EngineError("The number of persons changed while they were read.")
        else:
            self._check_complete(total)
        return total

    def _merged(self, statistic: Statistic) -> SecretSum | PersonSum:
        """Add every part once, whatever the engine does twice."""
        partitions, averages = self._partitions, self.person is not None and self.person.averages
        task = PartSum(self._part, statistic, secrets.token_hex(16))
        total = PersonSum(statistic.shape) if averages else SecretSum(statistic.shape)
        added: dict[int, bytes] = {}
        for message in partitions.map(task):
            number, partial = opened(message, statistic, task=task.name, n_parts=partitions.n_parts)
            content = blake2b(message).digest()
            if added.get(number, content) != content or type(partial) is not type(total):
                raise EngineError(f"Part {number} was added up to two sums: its rows have changed.")
            if number in added:
                continue  # a task that was run twice
            added[number] = content
            total.merge(partial)  # type: ignore[arg-type] # [E1] every part once
            if partitions.progress is not None:
                partitions.progress(len(added), partitions.n_parts)
        if len(added) != partitions.n_parts:  # [E2] never a sum over some of the parts
            raise EngineError(
                f"{partitions.n_parts - len(added)} of {partitions.n_parts} parts of the records "
                "were not added up."
            )
        return total

    def _counted(self) -> int:
        """Count records, or persons, where their number is public."""
        person = self._part.person
        if person is None:  # all is read, so that damage is found, and nothing encoded
            counting = self._with(self._partitions, _Part(_places, (), 1, None), 1)
            return counting._merged(NUMBER).n_rows
        voting = self._with(self._partitions, self._part, self.width)
        voting.person = PersonUnit(person.rows, "average")
        voting._part = replace(self._part, person=voting.person)
        total = voting._merged(NUMBER)
        return total.n_persons if isinstance(total, PersonSum) else total.n_rows

    def _check_complete(self, total: SecretSum) -> None:
        try:
            super()._check_complete(total)
        except InvalidInputError as error:
            raise EngineError(str(error)) from None

    def _blocks(self) -> Iterator[Block]:
        raise InvalidInputError(
            "Rows in parts are added up where they lie; they are not read here."
        )


NUMBER = CountTables((1,), ((0,),))  # of records, whatever they hold
ALIKE = "all workers of the engine compute exp and log of a number alike"
NOTHING_DRAWN = (
    "No noise was drawn for the charge of this fit: call fit again on the same estimator, and it "
    "draws on that charge."
)
DRAWN = "The fit was charged and has drawn noise: another fit is another charge."
