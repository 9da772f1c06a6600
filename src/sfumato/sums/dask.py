"""Tables of Dask: parts on the workers of a cluster, or computed by Dask on this machine.

With a `distributed.Client` every part is one task. Dask runs it again where a worker is lost, and
each part enters a sum once. Rows that are kept for many passes are results of tasks that stay on
the workers, in their memory or spilled by Dask.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import dask
import numpy as np

from sfumato.core.memory import WORKING_SET
from sfumato.exceptions import EngineError, InvalidInputError
from sfumato.sums.partitions import ListedParts, Partitions, Task, report_failures
from sfumato.sums.persons import LONG, partition_of
from sfumato.sums.table_parts import BATCH_ROWS, FileParts

RETRIES = 3  # of a task that raises; a lost worker is Dask's own matter
PERSON = "sfumato person"  # name of a column while rows are moved
TRIM_THRESHOLD = "MALLOC_TRIM_THRESHOLD_"
TRIM, MAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc


class DelayedParts(ListedParts):
    """Parts that Dask computes when they are needed.

    parts (sequence of Delayed, Future or callable): Each a batch, a list of batches, or what gives
        batches where it is called.
    columns (sequence of str or int): Names of the columns, or their number where they have none.
    """

    library = "pandas"

    def map(self, task: Task) -> Iterator[Any]:
        """Apply a task to every part, where Dask puts it."""
        client = _client()
        calls = [dask.delayed(_applied, pure=False)(task, *each) for each in enumerate(self._parts)]
        if client is None:
            with report_failures("Dask"):
                yield from dask.compute(*calls)
            return
        from distributed import as_completed

        with report_failures("Dask"):
            for future in as_completed(client.compute(calls, retries=RETRIES)):
                if client.status != "running" or future.status in ("cancelled", "lost"):
                    raise EngineError("The connection to the Dask scheduler was lost.")
                yield future.result()

    def cache(self, task: Task) -> Partitions:
        """Keep what a task makes of each part on the workers."""
        client = _client()
        if client is None:
            return super().cache(task)
        keep = dask.delayed(_applied, pure=False)
        calls = [keep(task, *each, listed=True) for each in enumerate(self._parts)]
        return DelayedParts(client.compute(calls, retries=RETRIES), self.columns)


class FrameParts(DelayedParts):
    """The partitions of a Dask DataFrame; of one that only reads files, these without frames.

    frame (dask.dataframe.DataFrame): The table.
    """

    def __init__(self, frame: Any, parts: Any = None) -> None:
        names, self._frame = list(map(str, frame.columns)), frame
        self._files = _files_of(frame) if parts is None else None
        if self._files is not None:
            parts = [partial(file.batches, names) for file in self._files._files]
        with report_failures("Dask"):  # which looks at cells already as it plans
            super().__init__(frame.to_delayed() if parts is None else parts, names)

    def declared(self, types: Mapping[str, str], text: Any = None) -> Partitions:
        """Read no more than these columns."""
        self._require(types)
        parts = None if self._files is None else self._files.declared(types, text)._parts
        return FrameParts(self._frame[list(types)], parts)

    def by_person(self, ids_of: Callable[[Any], Any]) -> Partitions:
        """Let Dask move rows to partitions by a hash of their IDs."""
        n_parts = self._frame.npartitions
        meta = self._frame._meta.assign(**{PERSON: np.empty(0, dtype=np.int64)})
        marked = self._frame.map_partitions(_with_person, ids_of, n_parts, meta=meta)
        moved = marked.shuffle(on=PERSON, npartitions=n_parts, shuffle_method="tasks")
        return FrameParts(moved.drop(columns=PERSON))


def _files_of(frame: Any) -> FileParts | None:
    """Return the files of a frame that is nothing but these local files of Parquet."""
    read: Any = getattr(frame, "expr", None)
    if type(read).__name__ != "ReadParquetFSSpec" or read.operand("engine") != "pyarrow":
        return None
    listed = read._dataset_info  # what Dask found: not all that lies in a folder
    changed = (*map(read.operand, ("filters", "index", "_partitions")), listed["valid_paths"])
    if changed == (None,) * 4 and type(listed["fs"]).__name__ == "LocalFileSystem":
        with suppress(InvalidInputError):
            files = FileParts(listed["ds"].files)
            are_there = {*map(str, frame.columns)} <= set(files.columns)
            return files if are_there and files.n_parts >= frame.npartitions else None
    return None


def _applied(task: Task, number: int, part: Any, *, listed: bool = False) -> Any:
    _reuse_memory()
    batches = part if isinstance(part, list) else _in_batches(part)
    found = task(number, batches)
    return list(found) if listed else found


def _reuse_memory() -> None:
    """Let freed memory be used again, `WORKING_SET` of it at most.

    Dask tells glibc by this name to return memory to the system at once. Reading and adding up take
    and free the same megabytes again and again: mapping them anew is up to half of a pass.
    """
    if os.environ.get(TRIM_THRESHOLD, "").isdigit():
        with suppress(OSError, AttributeError):  # another C library
            for option, n_bytes in ((TRIM, WORKING_SET), (MAP, 2**25)):
                ctypes.CDLL(None).mallopt(option, n_bytes)


def _in_batches(part: Any) -> Iterator[Any]:
    """Cut a partition into batches that stay near the processor, or read those of a file."""
    if callable(part):
        yield from part()
        return
    for start in range(0, max(len(part), 1), BATCH_ROWS):
        yield _as_beside_missing(part[start : start + BATCH_ROWS])


def _as_beside_missing(frame: Any) -> Any:
    """Return a frame, long whole numbers as the doubles that one missing cell makes of its part.

    Else a record without an ID would decide which of the others have one.
    """
    kinds = getattr(frame, "dtypes", {}).items()
    whole = [n for n, kind in kinds if isinstance(kind, np.dtype) and kind.kind in "iu"]
    long = [
        n for n in whole if len(frame) and max(-int(frame[n].min()), int(frame[n].max())) >= LONG
    ]
    return frame.astype(dict.fromkeys(long, np.float64)) if long else frame


def _with_person(frame: Any, ids_of: Callable[[Any], Any], n_parts: int) -> Any:
    numbers = partition_of(ids_of(frame), n_parts) if len(frame) else np.empty(0, dtype=np.int64)
    return frame.assign(**{PERSON: numbers.astype(np.int64)})


def _client() -> Any:
    """Return the client of this process, if there is one."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None
