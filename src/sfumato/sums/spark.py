"""Tables of Spark: each partition is added up by `mapInArrow`, and sums come back as bytes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.exceptions import EngineError
from sfumato.sums.grid import Float32Rows
from sfumato.sums.partitions import Partitions, Task, report_failures
from sfumato.sums.persons import partition_of
from sfumato.sums.records import Block

SCHEMA = "number int, message binary"
PERSON = "sfumato_person"  # name of a column while rows are moved
Opening = Callable[[Iterable[Any]], Iterator[Any]]  # of what Spark gives, to batches


class SparkParts(Partitions):
    """The partitions of a Spark DataFrame.

    frame (pyspark.sql.DataFrame): The table; it must give the same rows in the same partitions on
        every pass.
    """

    def __init__(self, frame: Any, opening: Opening | None = None) -> None:
        self._frame, self._opening = frame, opening or _as_tables
        self.columns = list(map(str, frame.columns))
        self._numbers: frozenset[int] | None = None

    @property
    def n_parts(self) -> int:
        """Number of parts, as found in a first pass: Spark may join partitions as it runs."""
        if self._numbers is None:
            with report_failures("Spark"):
                number = partial(_apply, _no_sum, _as_tables)
                found = self._frame.mapInArrow(number, SCHEMA).collect()
            self._numbers = frozenset(int(row[0]) for row in found)
            if self._numbers != frozenset(range(len(self._numbers))):
                raise EngineError("Spark does not number the partitions of this table from 0.")
        return len(self._numbers)

    def map(self, task: Task) -> Iterator[Any]:
        """Apply a task to every partition, where Spark puts it."""
        with report_failures("Spark"):
            rows = self._frame.mapInArrow(partial(_apply, task, self._opening), SCHEMA).collect()
        for row in rows:
            yield bytes(row[1])

    def declared(self, types: Mapping[str, str], text: Any = None) -> Partitions:  # noqa: ARG002
        """Read no more than these columns."""
        self._require(types)
        fewer = self._frame.select(*(f"`{name}`" for name in types))
        return SparkParts(fewer)

    def cache(self, task: Task) -> Partitions:
        """Keep what a task makes of each partition, in memory and on the disks of the workers."""
        packing = partial(_pack_blocks, task, self._opening)
        packed = self._frame.mapInArrow(packing, SCHEMA).persist()
        kept = SparkParts(packed, _as_blocks)
        weakref.finalize(kept, _forget, packed)
        return kept

    def by_person(self, ids_of: Callable[[Any], Any]) -> Partitions:
        """Let Spark move rows to partitions by a hash of their IDs."""
        fields = ", ".join(
            f"`{field.name}` {field.dataType.simpleString()}" for field in self._frame.schema.fields
        )
        marking = partial(_mark_persons, ids_of, self.n_parts)
        moved = (
            self._frame.mapInArrow(marking, f"{fields}, `{PERSON}` bigint")
            .repartition(self.n_parts, PERSON)
            .drop(PERSON)
        )
        return SparkParts(moved)


def _forget(frame: Any) -> None:
    try:
        frame.unpersist()
    except Exception:  # the cluster has gone, and the rows with it
        return


def _apply(task: Task, opening: Opening, batches: Iterable[Any]) -> Iterator[Any]:
    """Run a task on a partition, and give what it answers as one row."""
    number = _partition_number()
    yield _row(number, bytes(task(number, opening(batches))))


def _pack_blocks(task: Task, opening: Opening, batches: Iterable[Any]) -> Iterator[Any]:
    """Run a task on a partition, and give each block as Arrow tensors in one row."""
    number = _partition_number()
    for rows, codes, size in task(number, opening(batches)):
        sink = pa.BufferOutputStream()
        is_coarse = isinstance(rows, Float32Rows)
        none = np.empty(0)
        parts = (rows.panels, rows.longest, rows.beside) if is_coarse else (rows, none, none)
        for array in (np.array([size]), codes, *parts):
            pa.ipc.write_tensor(pa.Tensor.from_numpy(np.ascontiguousarray(array)), sink)
        yield _row(number, bytes(sink.getvalue()))


def _as_blocks(batches: Iterable[Any]) -> Iterator[Block]:
    """Read what `_pack_blocks` wrote."""
    for batch in batches:
        for message in batch.column(1):
            source = pa.BufferReader(message.as_py())
            size, codes, rows, *more = (pa.ipc.read_tensor(source).to_numpy() for _ in range(5))
            yield Float32Rows(rows, *more) if len(more[0]) else rows, codes, int(size[0])


def _mark_persons(
    ids_of: Callable[[Any], Any], n_parts: int, batches: Iterable[Any]
) -> Iterator[Any]:
    for batch in batches:
        numbers = partition_of(ids_of(pa.Table.from_batches([batch])), n_parts)
        columns = [*batch.columns, pa.array(numbers, "int64")]
        yield pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, PERSON])


def _partition_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return int(context.partitionId())


def _no_sum(number: int, batches: Iterable[Any]) -> bytes:  # noqa: ARG001
    for _ in batches:
        pass
    return b""


def _row(number: int, message: bytes) -> Any:
    return pa.RecordBatch.from_arrays(
        [pa.array([number], "int32"), pa.array([message], "binary")], names=["number", "message"]
    )


def _as_tables(batches: Iterable[Any]) -> Iterator[Any]:
    return (pa.Table.from_batches([batch]) for batch in batches)
