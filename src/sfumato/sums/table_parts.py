"""Tables on this machine that need not fit into its memory: files and queries."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from glob import glob
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from sfumato.core.memory import free_memory
from sfumato.exceptions import InvalidInputError
from sfumato.sums.failures import reported
from sfumato.sums.identities import partition_of
from sfumato.sums.partitions import KeptBlock, ListedParts, Partitions, Task
from sfumato.tables.cells import library_of
from sfumato.tables.columns import arrow, as_column
from sfumato.tables.files import TableFile

BATCH_ROWS = 65536
KEPT_SHARE = 0.25  # of the free memory, that rows may take before they are written to disk
PERSON_BYTES = 2**26  # of the rows of a part whose persons are brought together
GLOB = set("*?[")


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
        """Keep rows in memory while it lasts, the others in a file that nobody else can open."""
        kept = LocalParts([], self._columns)
        kept.progress = self.progress
        limit = KEPT_SHARE * free_memory()
        for number, part in enumerate(self._parts):
            blocks = KeptBlocks(limit)
            for block in task(number, part()):
                blocks.append(block)
            limit -= blocks.n_bytes_in_memory
            kept._parts.append(blocks.__iter__)
        return kept

    def by_person(self, ids_of: Callable[[Any], Any]) -> Partitions:
        """Write the rows to files by a hash of their IDs, which nobody else can open."""
        n_bytes = sum(_n_bytes(batch) for part in self._parts for batch in part())
        buckets = [_Bucket() for _ in range(1 + int(n_bytes / self._person_bytes()))]
        for part in self._parts:
            for batch in part():
                numbers = partition_of(ids_of(batch), len(buckets))
                for number in np.unique(numbers):
                    buckets[number].append(_taken(batch, np.flatnonzero(numbers == number)))
        return LocalParts([bucket.batches for bucket in buckets], self._columns)._reporting_as(self)

    @staticmethod
    def _person_bytes() -> float:
        return min(PERSON_BYTES, max(free_memory() / 32, 2**20))


class FileParts(LocalParts):
    """Files of one table, a part each.

    Parameters
    ----------
    files : sequence of path-like
        The files: CSV, Parquet, Feather or JSON lines, text also compressed by gzip.
    """

    def __init__(self, files: Sequence[str | os.PathLike[str]]) -> None:
        # Types that are guessed from cells could make one record an error.
        self._files = [TableFile(path, guess=False) for path in files]
        first = self._files[0]
        for other in self._files[1:]:
            if first.format == other.format == "jsonl":  # names are told by records there
                continue
            if sorted(other.schema.names) != sorted(first.schema.names):
                raise InvalidInputError(
                    f"The files of a table must have the same columns: '{other.path}' has others "
                    f"than '{first.path}'."
                )
        self._names: list[str] = list(first.schema.names)
        super().__init__([self._reader(file) for file in self._files], self._names)

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> LocalParts:
        """Open a file, the files of a folder, or those that a glob names."""
        folder = Path(path)
        return FolderParts(folder) if folder.is_dir() else cls(files_named(path))

    def declared(self, types: Mapping[str, str], text: Any = None) -> Partitions:
        """Read no more than these columns, as their types."""
        read = [file.declared(types, text) for file in self._files]
        for file in read:
            file.require_readable(list(types))
        return LocalParts(
            [self._reader(file, list(types)) for file in read], list(types)
        )._reporting_as(self)

    def undeclared(self) -> Partitions:
        """Refuse text before anything of its lines is known: JSON has names in its records."""
        for file in self._files:
            _refuse_guessed_types(file)
        return self

    @staticmethod
    def _reader(file: TableFile, names: list[str] | None = None) -> Callable[[], Iterable[Any]]:
        def batches() -> Iterable[Any]:
            if names is None:
                _refuse_guessed_types(file)
            return file.batches(names)

        return batches


def files_named(path: str | os.PathLike[str]) -> list[str]:
    """List the files that a path or a glob names; none at all are an error."""
    text = os.fspath(path)
    found = sorted(glob(text, recursive=True)) if GLOB & set(text) else [text]  # noqa: PTH207
    files = [name for name in found if Path(name).is_file()] or found
    if not files:
        raise InvalidInputError(f"There is no file '{text}'.")
    return files


class FolderParts(LocalParts):
    """The files of a folder and of the folders in it, whose names may hold cells."""

    def __init__(self, folder: Path) -> None:
        files = sorted(
            path
            for path in folder.rglob("*")
            if path.is_file() and not path.name.startswith((".", "_"))
        )
        if not files:
            raise InvalidInputError(f"There is no file in the folder '{folder}'.")
        self._files = FileParts(files)
        self._cells = [_cells_of_folders(path.relative_to(folder)) for path in files]
        if any(set(cells) != set(self._cells[0]) for cells in self._cells):
            raise InvalidInputError(f"The folders in '{folder}' are named after different columns.")
        self._names = [*self._files._names, *self._cells[0]]
        super().__init__(self._readers(self._files._parts, self._names), self._names)

    def declared(self, types: Mapping[str, str], text: Any = None) -> Partitions:
        """Read no more than these columns, as their types."""
        inside = {n: kind for n, kind in types.items() if n not in self._cells[0]}
        files: Any = self._files.declared(inside, text)
        names = [*inside, *(name for name in self._cells[0] if name in types)]
        return LocalParts(self._readers(files._parts, names), names)._reporting_as(self)

    def undeclared(self) -> Partitions:
        """Refuse text, whose types would be guessed."""
        self._files.undeclared()
        return self

    def _readers(
        self, parts: Sequence[Callable[[], Iterable[Any]]], names: Sequence[str]
    ) -> list[Callable[[], Iterable[Any]]]:
        pairs = zip(parts, self._cells, strict=True)
        return [_WithCells(part, cells, names) for part, cells in pairs]


class _WithCells:
    """The batches of a file, with the cells that the names of its folders hold."""

    def __init__(
        self, part: Callable[[], Iterable[Any]], cells: Mapping[str, str], names: Sequence[str]
    ) -> None:
        self._part, self._cells, self._names = part, cells, list(names)

    def __call__(self) -> Iterator[Any]:
        for batch in self._part():
            for name, cell in self._cells.items():
                column = arrow().array([cell] * len(batch), "string")
                batch = batch.append_column(name, column)
            yield batch.select(self._names)


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
        is_lazy = library_of(self._query) == "polars"
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in types)
        fewer = self._query.select(list(types)) if is_lazy else self._query.project(quoted)
        return QueryParts(fewer)._reporting_as(self)

    @cached_property
    def schema(self) -> Any:
        """Types of the columns, which the query tells without its rows."""
        with reported("Polars" if self.library == "polars" else "DuckDB"):
            if self.library == "polars":
                return _arrow_of(self._query.collect_schema().to_frame()).schema
            return self._query.limit(0).to_arrow_table().schema

    def _batches(self) -> Iterator[Any]:
        """Compute the rows; an error of the query may quote a cell, and is reported without."""
        with reported("Polars" if self.library == "polars" else "DuckDB"):
            yield from self._computed()

    def _computed(self) -> Iterator[Any]:
        table = arrow().Table
        if self.library == "polars":
            for frame in self._query.collect_batches(chunk_size=BATCH_ROWS, maintain_order=False):
                batches = _arrow_of(frame).to_batches(BATCH_ROWS)
                yield from (table.from_batches([batch]) for batch in batches)
            return
        for batch in self._query.to_arrow_reader(BATCH_ROWS):
            yield table.from_batches([batch])


def _arrow_of(frame: Any) -> Any:
    """Return a frame of polars as a table of Arrow, also of types that Arrow lacks."""
    return arrow().table({name: as_column(frame[name]) for name in frame.columns})


# Rows that are written aside ------------------------------------------------------------------


class KeptBlocks:
    """Blocks of rows in memory and, where they are many, in a file without a name.

    max_bytes: Bytes that may stay in memory.
    """

    def __init__(self, max_bytes: float) -> None:
        self._most, self.n_bytes_in_memory = max_bytes, 0
        self._blocks: list[KeptBlock] = []
        self._written: list[tuple[int, int, int, Any]] = []  # rows, width, size, longest
        self._file: BinaryIO | None = None

    def append(self, block: KeptBlock) -> None:
        """Keep one block more."""
        n_bytes = block.rows.nbytes + block.codes.nbytes
        if self._file is None and self.n_bytes_in_memory + n_bytes <= self._most:
            self._blocks.append(block)
            self.n_bytes_in_memory += n_bytes
            return
        self._file = self._file or _nameless_file(self)
        self._file.write(np.ascontiguousarray(block.rows).data)
        self._file.write(np.ascontiguousarray(block.codes).data)
        self._written.append((*block.rows.shape, block.size, block.longest))

    def __iter__(self) -> Iterator[KeptBlock]:
        yield from self._blocks
        if self._file is None:
            return
        self._file.seek(0)
        for n_rows, width, size, longest in self._written:
            rows = np.empty((n_rows, width), dtype=np.float32)
            codes = np.empty(n_rows, dtype=np.int32)
            for into in (rows, codes):
                _read_into(self._file, into)
            yield KeptBlock(rows, codes, size, longest)


class _Bucket:
    """Batches of a table in a file without a name; those that are not of Arrow in memory."""

    def __init__(self) -> None:
        self._file = _nameless_file(self)
        self._writer: Any = None
        self._frames: list[Any] = []

    def append(self, batch: Any) -> None:
        if library_of(batch) != "pyarrow":  # in a frame of pandas each cell may be of its own type
            self._frames.append(batch)
            return
        if self._writer is None:
            self._writer = arrow("ipc").new_stream(self._file, batch.schema)
        self._writer.write_table(batch)

    def batches(self) -> Iterator[Any]:
        yield from self._frames
        if self._writer is None:
            return
        self._writer.close()
        self._file.seek(0)
        for batch in arrow("ipc").open_stream(self._file):
            yield arrow().Table.from_batches([batch])


def _nameless_file(owner: object) -> BinaryIO:
    """Open a file that has no name, so that nobody else can read it and it ends with its owner."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with its owner
    weakref.finalize(owner, file.close)
    return file


def _read_into(file: BinaryIO, array: Any) -> None:
    view = memoryview(array).cast("B")
    while len(view):
        n_read = file.readinto(view)  # type: ignore[attr-defined]
        if not n_read:
            raise InvalidInputError("Rows kept in a temporary file cannot be read back.")
        view = view[n_read:]


def _n_bytes(batch: Any) -> int:
    return int(batch.nbytes) if hasattr(batch, "nbytes") else 0


def _taken(batch: Any, places: Any) -> Any:
    return batch.take(places) if hasattr(batch, "take") else batch[places]  # of polars


def _cells_of_folders(path: Path) -> dict[str, str]:
    named = [folder.partition("=") for folder in path.parts[:-1] if "=" in folder]
    return {name: cell for name, _, cell in named}


def _refuse_guessed_types(file: TableFile) -> None:
    if file.format in ("csv", "jsonl"):
        raise InvalidInputError(
            f"The types of the columns of '{file.path}' would be guessed from its cells: give "
            "bounds=TableBounds(...), which declares them."
        )
