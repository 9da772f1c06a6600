"""Tables that are not in memory: files, queries, and what else `fit` is given."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from glob import glob
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.memory import fits_in_memory, free_memory
from sfumato.exceptions import InvalidInputError
from sfumato.sums.grid import RowsOnDisk
from sfumato.sums.partitions import ListedParts, Partitions, Task, report_failures
from sfumato.sums.persons import partition_of
from sfumato.tables.cells import library_of
from sfumato.tables.columns import arrow, as_column
from sfumato.tables.files import TableFile

BATCH_ROWS = 65536
PERSON_BYTES = 2**26  # of the rows of a part whose persons are brought together
GLOB = set("*?[")


def partitions_of(X: Any, y: Any = None, groups: Any = None) -> tuple[Partitions, Any, Any]:
    """Open a table that is not in memory, by its kind, without importing any other engine.

    X (path, DuckDB relation, Polars LazyFrame, Dask or Spark DataFrame, Partitions): The
        table. A path may name a file, a folder of files, or be a glob.
    y, groups (str or None): Names of the columns of the target and of IDs.
    Returns parts: The table in parts.
    Returns y, groups: The names of columns that are left to be found.
    """
    library = library_of(X)
    if library == "dask" and hasattr(X, "chunks"):
        raise InvalidInputError(
            "Dask arrays are not accepted: give a Dask DataFrame, whose columns have names."
        )
    for name, column in (("y", y), ("groups", groups)):
        if column is not None and not isinstance(column, str):
            raise InvalidInputError(
                f"'{name}' must name a column of the table, since its rows are not in memory. "
                f"Got {type(column).__name__} instead."
            )
    if isinstance(X, Partitions):
        return X, y, groups
    if isinstance(X, str | os.PathLike):
        return FileParts.of(X), y, groups
    if library == "dask":
        from sfumato.sums.dask import FrameParts  # here, because it needs Dask

        return FrameParts(X), y, groups
    if library == "pyspark":
        from sfumato.sums.spark import SparkParts

        return SparkParts(X), y, groups
    return QueryParts(X), y, groups


def all_missing_record(columns: Sequence[str] | int, schema: Any = None) -> Any:
    """Return one made-up record of which nothing is known: what is public can be read off it."""
    if isinstance(columns, int):
        return np.full((1, columns), np.nan), np.full(1, np.nan), np.full(1, np.nan)
    types = ["null" if schema is None else schema.field(name).type for name in columns]
    missing = [arrow().nulls(1, kind) for kind in types]
    return arrow().table(dict(zip(columns, missing, strict=True)))


class LocalParts(ListedParts):
    """Parts that are read in this process, one after the other.

    Parameters
    ----------
    parts : sequence of callable
        Each starts a pass over one part and gives its batches, the same on every pass.
    columns : sequence of str or int
        Names of the columns, or their number where they have none.
    """

    is_remote: ClassVar[bool] = False

    def map(self, task: Task) -> Iterator[Any]:
        """Apply a task to one part after the other."""
        for number, part in enumerate(self._parts):
            yield task(number, part())

    def cache(self, task: Task) -> Partitions:
        """Keep rows in memory while it lasts, the others in a file that no other user can open."""
        kept: list[Any] = []
        disk = RowsOnDisk()
        try:
            for number, part in enumerate(self._parts):
                blocks = [(disk.held(rows), *rest) for rows, *rest in task(number, part())]
                kept.append(blocks.__iter__)
        except OSError:  # it is full
            return super().cache(task)
        return LocalParts(kept, self.columns)

    def by_person(self, ids_of: Callable[[Any], Any]) -> Partitions:
        """Write the rows to files by a hash of their IDs, which no other user can open."""
        batches = (batch for part in self._parts for batch in part())
        n_bytes = sum(int(getattr(batch, "nbytes", 0)) for batch in batches)
        largest = min(PERSON_BYTES, max(free_memory() / 32, 2**20))
        n_buckets = 1 + int(n_bytes / largest)
        buckets = [_Bucket(n_buckets) for _ in range(n_buckets)]
        for part in self._parts:
            for batch in part():
                numbers = partition_of(ids_of(batch), len(buckets))
                for number in np.unique(numbers):
                    places = np.flatnonzero(numbers == number)
                    some = batch.take(places) if hasattr(batch, "take") else batch[places]
                    buckets[number].append(some)
        return LocalParts([bucket.batches for bucket in buckets], self.columns)


class FileParts(LocalParts):
    """Files of one table, a part each: CSV, also compressed by gzip, or Parquet."""

    def __init__(self, files: Sequence[str | os.PathLike[str]]) -> None:
        # Types that are guessed from cells could make one record an error.
        self._files = [TableFile(path, guess=False) for path in files]
        first = self._files[0]
        for other in self._files[1:]:
            names, formats = sorted(other.schema.names), {first.format, other.format}
            if names != sorted(first.schema.names) or len(formats) > 1:  # or one is the other again
                raise InvalidInputError(
                    "The files of a table must have the same columns and format: "
                    f"'{other.path}' differs from '{first.path}'."
                )
        super().__init__([partial(_read, file) for file in self._files], list(first.schema.names))

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Self:
        """Open a file, the files of a folder and of the folders in it, or those of a glob."""
        text = os.fspath(path)
        found: list[Any] = sorted(glob(text, recursive=True)) if GLOB & set(text) else [text]  # noqa: PTH207
        if Path(text).is_dir():
            inside = sorted(f.relative_to(text) for f in Path(text).rglob("*") if f.is_file())
            found = [text / each for each in inside if {p[0] for p in each.parts}.isdisjoint("._")]
        # Each once, by whatever names: a record must not count twice.
        files = [*{Path(n).resolve(): n for n in found if Path(n).is_file()}.values()] or found
        if not files:
            raise InvalidInputError(f"There is no file in '{text}'.")
        return cls(files)

    def declared(self, types: Mapping[str, str], text: Any = None) -> LocalParts:
        """Read no more than these columns, as their types; a text is parsed once."""
        names = list(types)
        read = [file.declared(types, text) for file in self._files]
        for file in read:
            file.require_readable(names)
        return LocalParts([_pass_over(file, names, len(read)) for file in read], names)

    def undeclared(self) -> Partitions:
        """Refuse text before anything of its lines is known."""
        for file in self._files:
            _read(file)
        return self


def _read(file: TableFile) -> Iterable[Any]:
    if file.format == "csv":
        raise InvalidInputError(
            f"The types of the columns of '{file.path}' would be guessed from its cells: give "
            "bounds=TableBounds(...), which declares them."
        )
    return file.batches()


def _pass_over(file: TableFile, names: list[str], n_files: int) -> Callable[[], Iterator[Any]]:
    """Return what starts a pass; the first over one of `n_files` texts keeps its cells."""
    if file.format == "parquet":
        return partial(file.batches, names)
    kept: list[_Bucket] = []

    def batches() -> Iterator[Any]:
        if kept:
            yield from kept[0].batches()
            return
        found: _Bucket | None = _Bucket(n_files)
        for batch in file.batches(names):
            try:
                if found is not None:
                    found.append(batch)
            except OSError:  # the disk is full: the text is parsed on each pass
                found = None
            yield batch
        kept.extend([] if found is None else [found])

    return batches


class QueryParts(LocalParts):
    """What a DuckDB relation or a Polars LazyFrame gives, computed anew on every pass.

    Parameters
    ----------
    query : DuckDBPyRelation or LazyFrame
        The query; it must give the same rows on every pass, in any order.
    """

    def __init__(self, query: Any) -> None:
        self._query = query
        names = query.columns if library_of(query) != "polars" else query.collect_schema().names()
        self.library = "polars" if library_of(query) == "polars" else "pyarrow"
        super().__init__([self._batches], list(map(str, names)))

    def declared(self, types: Mapping[str, str], text: Any = None) -> Partitions:  # noqa: ARG002
        """Ask for no more than these columns."""
        self._require(types)
        is_lazy = self.library == "polars"
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in types)
        fewer = self._query.select(list(types)) if is_lazy else self._query.project(quoted)
        return QueryParts(fewer)

    @cached_property
    def schema(self) -> Any:
        """Types of the columns, which the query tells without its rows."""
        with report_failures("Polars" if self.library == "polars" else "DuckDB"):
            if self.library == "polars":
                return _arrow_of(self._query.collect_schema().to_frame()).schema
            return self._query.limit(0).to_arrow_table().schema

    def _batches(self) -> Iterator[Any]:
        """Compute the rows; an error of the query may quote a cell, and is reported without."""
        table = arrow().Table
        with report_failures("Polars" if self.library == "polars" else "DuckDB"):
            if self.library == "pyarrow":
                for batch in self._query.to_arrow_reader(BATCH_ROWS):
                    yield table.from_batches([batch])
                return
            for frame in self._query.collect_batches(chunk_size=BATCH_ROWS, maintain_order=False):
                for batch in _arrow_of(frame).to_batches(BATCH_ROWS):
                    yield table.from_batches([batch])


def _arrow_of(frame: Any) -> Any:
    """Return a frame of polars as a table of Arrow, also of types that Arrow lacks."""
    return arrow().table({name: as_column(frame[name]) for name in frame.columns})


class _Bucket:
    """Batches of a table: in memory or, where so many buckets would not fit, in a nameless file."""

    def __init__(self, n_buckets: int) -> None:
        self._n_buckets, self._n_bytes = n_buckets, 0
        self._file: Any = None
        self._writer: Any = None
        self._batches: list[Any] = []

    def append(self, batch: Any) -> None:
        is_arrow = library_of(batch) == "pyarrow"  # in one of pandas each cell is of its own type
        self._n_bytes += batch.nbytes if is_arrow else 0
        in_memory = self._writer is None and fits_in_memory(self._n_buckets * self._n_bytes)
        if in_memory or not is_arrow:
            self._batches.append(batch)
            return
        if self._writer is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with its owner
            weakref.finalize(self, self._file.close)
            self._writer = arrow("ipc").new_stream(self._file, batch.schema)
        self._writer.write_table(batch)

    def batches(self) -> Iterator[Any]:
        yield from self._batches
        if self._writer is None:
            return
        self._writer.close()
        self._file.seek(0)
        for batch in arrow("ipc").open_stream(self._file):
            yield arrow().Table.from_batches([batch])
