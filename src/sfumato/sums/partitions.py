"""Records in parts, wherever they lie: a pass maps a task over the parts and merges their sums.

An engine is a `Partitions`: it says how many parts there are and applies a task to each of them,
on the machines where they lie. It may do so in any order, twice, or again after a failure: every
part enters a sum once, sums are exact, and noise and ledger stay in the process that merges.
"""

from __future__ import annotations

import json
import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np

from sfumato.exceptions import EngineError, InvalidInputError, SfumatoError, UnsupportedModeError
from sfumato.ledger.receipt import Receipt
from sfumato.privacy.guarantee import Relation
from sfumato.sums.grid import CARRY_BITS, MAX_ROWS, QUANTUM, WINDOW_ROWS, SecretSum
from sfumato.sums.maps import RowMap
from sfumato.sums.persons import PersonSum, PersonUnit, id_cells
from sfumato.sums.records import ArrayRecords, BatchRecords, Block, Records
from sfumato.sums.statistics import CountTables, Statistic

Task = Callable[[int, Iterable[Any]], Any]  # of the number of a part and its batches
Reader = Callable[[Any], tuple[Any, ...]]  # of a batch: rows, codes, and IDs where they count
START = b"sfumato partial sum 2\n"
MAX_HEADER_BYTES = 2**16
CARRIED_BITS = 46  # more than the records of any sum can carry
SECRET_NUMBER = Relation.ADD_OR_REMOVE_ONE  # a part knows of no public number
ALIKE = "all workers of the engine compute exp and log of a number alike"
NOTHING_DRAWN = (
    "No noise was drawn for the charge of this fit: call fit again on the same estimator, and it "
    "draws on that charge."
)
DRAWN = "The fit was charged and has drawn noise: another fit is another charge."


@contextmanager
def report_failures(engine: str) -> Iterator[None]:
    """Raise an `EngineError` for whatever an engine raises, whose message may hold a cell."""
    try:
        yield
    except EngineError:
        raise
    except SfumatoError as error:
        raise EngineError(f"A part of the records was not added up by {engine}: {error}") from None
    except Exception as error:
        raise EngineError(
            f"A part of the records was not added up: {engine} gave up with "
            f"{type(error).__name__}. Its own log says more."
        ) from None


class Partitions(ABC):
    """A table in parts, and an engine that applies a task to each of them.

    Attributes
    ----------
    n_parts : int
        Number of parts; the same in every pass.
    columns : sequence of str or int
        Names of the columns, or their number where they have no names: public facts.
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
    n_parts: Any
    columns: Any

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
    """Parts of which a list is kept: of what they are read from, made of, or held as."""

    def __init__(self, parts: Sequence[Any], columns: Sequence[str] | int) -> None:
        self._parts, self.columns = list(parts), columns
        self.n_parts = len(self._parts)


class _MadeOnEachPass(Partitions):
    def __init__(self, parts: Partitions, first: Task) -> None:
        self._parts, self._first = parts, first
        self.n_parts, self.columns = parts.n_parts, parts.columns

    def map(self, task: Task) -> Iterator[Any]:
        return self._parts.map(partial(_both, self._first, task))


def _both(first: Task, second: Task, number: int, batches: Iterable[Any]) -> Any:
    return second(number, first(number, batches))


# What is done where the rows lie ------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """What is done with the batches of a part where they lie; everything in it is public."""

    read: Reader | None  # None where batches are blocks that were kept
    steps: tuple[RowMap, ...]
    width: int  # of the rows as they are read
    person: PersonUnit | None
    in_ball: int = 0  # first numbers of kept rows, which lie in the unit ball

    def records(self, batches: Iterable[Any]) -> Records:
        found: Records
        if self.read is None or self.person is None:
            blocks: Iterator[Any] = iter(batches)
            if self.read is not None:
                blocks = map(self.read, filter(_n_rows, batches))
            found = BatchRecords(
                lambda: blocks, width=self.width, relation=SECRET_NUMBER, person=self.person
            )
            found._in_ball = self.in_ball
        else:  # all rows of the part in memory, those of a person side by side
            parts = [self.read(batch) for batch in batches if _n_rows(batch)]
            whole = np.concatenate([np.empty((0, self.width)), *(each[0] for each in parts)])
            codes = np.concatenate([np.empty(0, dtype=np.intp), *(each[1] for each in parts)])
            ids = np.empty(len(whole), dtype=object)
            ids[:] = [cell for each in parts for cell in id_cells(each[2])]
            found = ArrayRecords.of_persons(
                whole, codes, groups=ids, unit=self.person, relation=SECRET_NUMBER
            )
        for step in self.steps:
            found = found.mapped(step)
        return found

    def add_up(
        self, statistic: Statistic, task: str, number: int, batches: Iterable[Any]
    ) -> SecretMessage:
        """Add up a statistic over one part; `task` is the public name of the pass."""
        return seal_sum(self.records(batches)._sum(statistic), task=task, part=number)

    def keep_rows(self, in_singles: bool, number: int, batches: Iterable[Any]) -> Iterator[Block]:  # noqa: ARG002
        """Map one part, block by block, to the grid on which rows are kept."""
        for rows, codes, size in self.records(batches)._on_grid(in_singles):
            yield rows, codes.astype(np.int32), size


def _n_rows(batch: Any) -> int:
    return len(batch[0] if isinstance(batch, tuple) else batch)


def _places(batch: Any) -> tuple[Any, ...]:
    """Return a record per row of a batch, of which nothing is known."""
    n_rows = _n_rows(batch)
    return np.zeros((n_rows, 1)), np.zeros(n_rows, dtype=np.intp)


# Secret sums on their way -------------------------------------------------------------------------


class SecretMessage(bytes):
    """Bytes that hold the exact sum over one part: as secret as rows, never shown or stored.

    Which pass and which part it belongs to, its shape, and whole numbers of 64 bits, two for each
    number of a sum over more records than fit one of them. The process that opens it checks it
    against the public statistic first.
    """

    def __repr__(self) -> str:
        return f"SecretMessage({len(self)} bytes)"

    __str__ = __repr__


def seal_sum(total: SecretSum | PersonSum, *, task: str, part: int) -> SecretMessage:
    """Write down the sum over one part."""
    sums = total._by_size if isinstance(total, PersonSum) else {1: total}
    header = {
        "task": task,
        "part": part,
        "of_persons": isinstance(total, PersonSum),
        "shape": list(total._shape if isinstance(total, PersonSum) else total._units.shape),
        "sizes": [[size, sums[size].n_rows] for size in sorted(sums)],
    }
    bodies = []
    for size in sorted(sums):  # in one way whatever the order in which it was taken
        each, parts = sums[size], []
        if sums[size].n_rows > WINDOW_ROWS:
            parts = [each._carry()]  # which leaves a rest in the units
        bodies += [numbers.astype("<i8").tobytes() for numbers in (each._units, *parts)]
    return SecretMessage(b"".join([START, json.dumps(header).encode(), b"\n", *bodies]))


def open_sum(
    message: Any, statistic: Statistic, *, task: str, n_parts: int
) -> tuple[int, SecretSum | PersonSum]:
    """Read a message and check it against what was asked for."""
    no_sum = EngineError("A worker sent something that is not a partial sum.")
    try:
        text = bytes(message)
        end = text.index(b"\n", len(START), len(START) + MAX_HEADER_BYTES)
        header, body = json.loads(text[len(START) : end]), text[end + 1 :]
        part, shape = int(header["part"]), tuple(map(int, header["shape"]))
        sizes = [(int(size), int(n_rows)) for size, n_rows in header["sizes"]]
        of_persons = bool(header["of_persons"])
    except (ValueError, KeyError, TypeError):
        raise no_sum from None
    if not text.startswith(START):
        raise no_sum
    if header.get("task") != task or not 0 <= part < n_parts:
        raise EngineError("A worker answered a task that it was not given.")
    n_arrays = sum(1 + (n_rows > WINDOW_ROWS) for _, n_rows in sizes)
    if shape != statistic.shape or len(body) != 8 * math.prod(shape) * n_arrays:
        raise EngineError(
            f"A worker has sent a sum of shape {shape}; {type(statistic).__name__} has shape "
            f"{statistic.shape}."
        )
    numbers = iter(np.frombuffer(body, dtype="<i8").reshape(n_arrays, *shape))
    total = PersonSum(shape)
    for size, n_rows in sizes:
        each = SecretSum(shape)
        each._units += next(numbers)
        each.n_rows = each._in_window = n_rows
        if n_rows > WINDOW_ROWS:
            each._carried, each._in_window = next(numbers).astype(np.int64), 0
            is_rest = each._units.min(initial=0) >= 0 and each._units.max(initial=0) < 2**CARRY_BITS
            if not is_rest or np.abs(each._carried).max(initial=0) > 2**CARRIED_BITS:
                raise no_sum
        units, most = each.integers(), n_rows * math.ceil(statistic.max_term / QUANTUM)
        is_possible = 0 <= n_rows <= MAX_ROWS and size >= 1 and n_rows % size == 0
        if not is_possible or (units.size and max(-int(units.min()), int(units.max())) > most):
            raise EngineError("A worker sent a sum that this many records cannot have.")
        total._of(size).merge(each)
    return part, total if of_persons else total.added()


# Where noise is drawn -----------------------------------------------------------------------------


class PartitionedRecords(Records):
    """Records in parts, each of which is added up where it lies.

    `partitions` says where they lie; where persons are the unit, all rows of a person are in one
    part. `read` is the public map of a batch to rows, codes and, where persons are the unit, their
    IDs, each record on its own; it can be pickled.
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
        self.is_remote = partitions.is_remote
        self._part = _Part(read, (), width, person)
        number = None
        if Relation(relation) is Relation.REPLACE_ONE:  # all is read, so that damage is found
            counting = copy(self)
            if person is None:
                counting._part = _Part(_places, (), 1, None)  # and nothing encoded
            else:
                counting.person = PersonUnit(person.rows, "average")
                counting._part = replace(self._part, person=counting.person)
            total = counting._merged(CountTables((1,), ((0,),)))
            number = total.n_persons if isinstance(total, PersonSum) else total.n_rows
        super().__init__(width, relation, number, person)

    def release(
        self, statistic: Statistic, mechanism: Any, receipt: Receipt, *, on_device: bool = False
    ) -> Any:
        """Add up a statistic and release it with the noise that `receipt` has paid for."""
        if self.is_remote:
            receipt.only_if(ALIKE)
        try:
            return super().release(statistic, mechanism, receipt, on_device=on_device)
        except EngineError as error:
            said = NOTHING_DRAWN if receipt.is_untouched else DRAWN
            raise EngineError(f"{error} {said}", receipt=receipt) from None

    def mapped(self, row_map: RowMap) -> Records:
        """Return the records seen through a public map, computed where they lie."""
        seen = copy(self)
        seen._part = replace(self._part, steps=(*self._part.steps, row_map))
        seen.width = row_map.width
        return seen

    def cache(self, *, in_singles: bool = False) -> Records:
        """Return the records with their maps computed once and kept where they lie."""
        last = self._part.steps[-1] if self._part.steps else None
        inside = self.width - int(getattr(last, "has_target", False))
        kept = copy(self)
        kept._partitions = self._partitions.cache(partial(self._part.keep_rows, in_singles))
        opened = (last,) if last is not None and getattr(last, "makes_codes", False) else ()
        kept._part = _Part(None, opened, self.width, self.person, inside)
        return kept

    def _sum(self, statistic: Statistic, **_: Any) -> SecretSum | PersonSum:
        total = self._merged(statistic)
        if not isinstance(total, PersonSum):
            try:
                self._check_complete(total)
            except InvalidInputError as error:
                raise EngineError(str(error)) from None
        elif self.public_persons not in (None, total.n_persons):
            raise EngineError("The number of persons changed while they were read.")
        return total

    def _merged(self, statistic: Statistic) -> SecretSum | PersonSum:
        """Add every part once, whatever the engine does twice."""
        partitions, averages = self._partitions, self.person is not None and self.person.averages
        name = secrets.token_hex(16)
        task = partial(self._part.add_up, statistic, name)
        total = PersonSum(statistic.shape) if averages else SecretSum(statistic.shape)
        added: dict[int, bytes] = {}
        for message in partitions.map(task):
            number, found = open_sum(message, statistic, task=name, n_parts=partitions.n_parts)
            content = blake2b(message).digest()
            if added.get(number, content) != content or type(found) is not type(total):
                raise EngineError(f"Part {number} was added up to two sums: its rows have changed.")
            if number in added:
                continue  # a task that was run twice
            added[number] = content
            total.merge(found)  # type: ignore[arg-type] # [E1] every part once
        if len(added) != partitions.n_parts:  # [E2] never a sum over some of the parts
            raise EngineError(
                f"{partitions.n_parts - len(added)} of {partitions.n_parts} parts of the records "
                "were not added up."
            )
        return total

    def _blocks(self) -> Iterator[Block]:
        raise InvalidInputError(
            "Rows in parts are added up where they lie; they are not read here."
        )
