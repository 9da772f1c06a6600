"""Tables of Spark: each partition is added up by `mapInArrow`, and sums come back as bytes."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.exceptions import EngineError
from sfumato.sums.partitions import KeptBlock, Partitions, Task, report_failures
from sfumato.sums.persons import partition_of

SCHEMA = "number int, message binary"
PERSON = "sfumato_person"  # name of a column while rows are moved


class SparkParts(Partitions):
    """The partitions of a Spark DataFrame.

    frame (pyspark.sql.DataFrame): The table; it must give the same rows in the same partitions on
        every pass.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._numbers: frozenset[int] | None = None

    @property
    def n_parts(self) -> int:
        """Number of parts, as found in a first pass: Spark may join partitions as it runs."""
        if self._numbers is None:
            with report_failures("Spark"):
                found = self._frame.mapInArrow(_Applied(_no_sum, _as_tables), SCHEMA).collect()
            self._numbers = frozenset(int(row[0]) for row in found)
            if self._numbers != frozenset(range(len(self._numbers))):
                raise EngineError("Spark does not number the partitions of this table from 0.")
        return len(self._numbers)

    @property
    def columns(self) -> Sequence[str] | int:
        """Names of the columns."""
        return list(map(str, self._frame.columns))

    def map(self, task: Task) -> Iterator[Any]:
        """Apply a task to every partition, where Spark puts it."""
        with report_failures("Spark"):
            rows = self._frame.mapInArrow(_Applied(task, self._opening), SCHEMA).collect()
        for row in rows:
            yield bytes(row[1])

    @property
    def _opening(self) -> Callable[[Iterable[Any]], Iterator[Any]]:
        return _as_tables

    def declared(self, types: Mapping[str, str], text: Any = None) -> Partitions:  # noqa: ARG002
        """Read no more than these columns."""
        self._require(types)
        declared = SparkParts(self._frame.select(*(f"`{name}`" for name in types)))
        declared.progress = self.progress
        return declared

    def cache(self, task: Task) -> Partitions:
        """Keep what a task makes of each partition, in memory and on the disks of the workers."""
        packed = self._frame.mapInArrow(_Packed(task, self._opening), SCHEMA).persist()
        kept = _KeptParts(packed)
        kept.progress = self.progress
        return kept

    def by_person(self, ids_of: Callable[[Any], Any]) -> Partitions:
        """Let Spark move rows to partitions by a hash of their IDs."""
        fields = ", ".join(
            f"`{field.name}` {field.dataType.simpleString()}" for field in self._frame.schema.fields
        )
        moved = (
            self._frame.mapInArrow(_Marked(ids_of, self.n_parts), f"{fields}, `{PERSON}` bigint")
            .repartition(self.n_parts, PERSON)
            .drop(PERSON)
        )
        gathered = SparkParts(moved)
        gathered.progress = self.progress
        return gathered


class _KeptParts(SparkParts):
    def __init__(self, frame: Any) -> None:
        super().__init__(frame)
        weakref.finalize(self, _forget, frame)

    @property
    def _opening(self) -> Callable[[Iterable[Any]], Iterator[Any]]:
        return _as_blocks


def _forget(frame: Any) -> None:
    try:
        frame.unpersist()
    except Exception:  # the cluster has gone, and the rows with it
        return


class _Applied:
    """What Spark runs on a partition."""

    def __init__(self, task: Task, opening: Callable[[Iterable[Any]], Iterator[Any]]) -> None:
        self._task, self._opening = task, opening

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        number = _partition_number()
        yield _row(number, bytes(self._task(number, self._opening(batches))))


class _Packed(_Applied):
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        number = _partition_number()
        for block in self._task(number, self._opening(batches)):
            yield _row(number, _packed(block))


class _Marked:
    def __init__(self, ids_of: Callable[[Any], Any], n_parts: int) -> None:
        self._ids_of, self._n_parts = ids_of, n_parts

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            numbers = partition_of(self._ids_of(pa.Table.from_batches([batch])), self._n_parts)
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


def _as_blocks(batches: Iterable[Any]) -> Iterator[KeptBlock]:
    for batch in batches:
        for message in batch.column(1):
            yield _unpacked(message.as_py())


def _packed(block: KeptBlock) -> bytes:
    """Write a block as Arrow tensors: rows, codes, and what is known of columns."""
    sink = pa.BufferOutputStream()
    longest = np.empty(0) if block.longest is None else block.longest
    for array in (np.array([block.size]), block.rows, block.codes, longest):
        pa.ipc.write_tensor(pa.Tensor.from_numpy(np.ascontiguousarray(array)), sink)
    return bytes(sink.getvalue())


def _unpacked(message: bytes) -> KeptBlock:
    source = pa.BufferReader(message)
    size, rows, codes, longest = (pa.ipc.read_tensor(source).to_numpy() for _ in range(4))
    return KeptBlock(rows, codes, int(size[0]), longest if len(longest) else None)
