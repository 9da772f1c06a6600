"""Tables inside other files: sheets of Excel, tables of SQLite and DuckDB.

A name behind a colon picks one: ``hospital.duckdb:patients``, ``ward.xlsx:Sheet1``; a file that
holds a single one needs no name. Cells of SQLite and Excel have types of their own, whatever their
neighbours are, so each becomes a text, and `columns.read_as` makes it what was declared.
"""

from __future__ import annotations

import importlib
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.tables.columns import arrow, text_of, texts, type_of

STORES = (".xlsx", ".xls", ".ods", ".sqlite", ".sqlite3", ".db", ".duckdb")
NAMED = re.compile(rf"(?P<file>.+({'|'.join(map(re.escape, STORES))})):(?P<name>[^/\\]+)", re.I)
BATCH_ROWS = 65536
TYPES = (
    ("int64", {int}),
    ("double", {int, float}),
    ("bool", {bool}),
    ("timestamp[s]", {date, datetime}),
)


def place_of(path: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """Return the file, and the name of the table inside it if there is one behind a colon."""
    found = NAMED.fullmatch(str(path))
    return (Path(path), None) if found is None else (Path(found["file"]), found["name"])


def open_store(path: str | os.PathLike[str]) -> SheetOfExcel | TableOfSQLite | TableOfDuckDB:
    """Open the table inside a file."""
    file, name = place_of(path)
    if file.suffix.lower() in (".xlsx", ".xls", ".ods"):
        return SheetOfExcel(file, name)
    with file.open("rb") as begun:  # what a file is, is said by its first bytes
        start = begun.read(16)
    return TableOfDuckDB(file, name) if start[8:12] == b"DUCK" else TableOfSQLite(file, name)


def schema_of(names: Sequence[str], rows: Iterable[Sequence[Any]] = ()) -> Any:
    """Return names and types; those of cells, where they are to be seen, else texts."""
    kinds: list[set[type]] = [set() for _ in names]
    for row in rows:
        for kind, cell in zip(kinds, row, strict=True):
            if cell is not None and cell not in ("", b""):
                is_whole = isinstance(cell, float) and cell.is_integer()
                kind.add(int if is_whole else type(cell))
    found = [next((name for name, k in TYPES if kind and kind <= k), "string") for kind in kinds]
    return arrow().schema(list(zip(names, map(type_of, found), strict=True)))


def _batches(rows: Iterable[Sequence[Any]], names: Sequence[str]) -> Iterator[Any]:
    """Yield tables of texts: each cell alone, an empty one is missing."""
    rest = iter(rows)
    while batch := list(islice(rest, BATCH_ROWS)):
        columns = {}
        for name, cells in zip(names, zip(*batch, strict=True), strict=True):
            each = [None if cell in ("", b"") else text_of(cell) for cell in cells]  # [Z8]
            columns[name] = texts(each)
        yield arrow().table(columns)


def _choose(file: Path, name: str | None, offered: Sequence[str], kind: str) -> str:
    if name is None and len(offered) == 1:
        return offered[0]
    if name in offered:
        return str(name)
    listed = ", ".join(map(repr, offered[:12])) or "none"
    if name is None:
        raise InvalidInputError(
            f"'{file}' holds {len(offered)} {kind}s: {listed}. Name one after a colon: "
            f"'{file}:{offered[0] if offered else 'NAME'}'."
        )
    raise InvalidInputError(f"'{file}' has no {kind} {name!r}. It has: {listed}.")


def _import(module: str, package: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InvalidInputError(
            f"This file needs the package {package}: pip install 'sfumato[{extra}]'."
        ) from None


def _quoted(*names: str) -> str:
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)


class SheetOfExcel:
    """A sheet of a workbook: its first row names the columns, its last row has a filled cell."""

    def __init__(self, file: Path, name: str | None) -> None:
        calamine = _import("python_calamine", "python-calamine", "excel")
        rows: list[list[Any]] = []
        try:
            book = calamine.CalamineWorkbook.from_path(str(file))
            sheet = book.get_sheet_by_name(_choose(file, name, book.sheet_names, "sheet"))
            given = iter(sheet.iter_rows() if sheet.end is not None else ())
            while True:
                try:
                    rows.append([""] * sheet.start[1] + next(given))
                except StopIteration:
                    break
                except (KeyboardInterrupt, MemoryError):
                    raise
                except BaseException:  # a panic of calamine, at a span of 10**9 years: no cells
                    rows.append([""] * (sheet.end[1] + 1))
        except calamine.CalamineError:
            raise InvalidInputError(
                f"The file '{file}' cannot be read as a workbook: it is damaged, or has a "
                "different format from what its name says."
            ) from None
        # What the header does not name is no column, wherever a record has cells.
        names = [str(text_of(cell) or "") for cell in rows[0]] if rows else []
        self.places = [place for place, name in enumerate(names) if name]
        self.names = [names[place] for place in self.places]
        self.rows = rows[1:]

    def schema(self, *, declared: bool) -> Any:
        """Return names and types."""
        rows = () if declared else ([row[place] for place in self.places] for row in self.rows)
        return schema_of(self.names, rows)

    def count_rows(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield the rows in tables of texts."""
        places = [self.places[self.names.index(name)] for name in names]
        yield from _batches(([row[place] for place in places] for row in self.rows), names)


class TableOfSQLite:
    """A table or view of a SQLite database, which is opened for reading only."""

    def __init__(self, file: Path, name: str | None) -> None:
        self.file = file
        asked = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name"
        offered = [row[0].decode() for row in self._read(asked)]
        self.name = _choose(
            file, name, [each for each in offered if each[:7] != "sqlite_"], "table"
        )
        asked = "SELECT name FROM pragma_table_info(?)"
        self.names = [row[0].decode() for row in self._read(asked, self.name)]

    def schema(self, *, declared: bool) -> Any:
        """Return names and types."""
        asked = f"SELECT {_quoted(*self.names)} FROM {_quoted(self.name)}"  # noqa: S608 - names
        return schema_of(self.names, () if declared else self._read(asked))

    def count_rows(self) -> int:
        """Return the number of rows."""
        ((found,),) = self._read(f"SELECT count(*) FROM {_quoted(self.name)}")  # noqa: S608 - a name
        return int(found)

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield the rows in tables of texts."""
        asked = f"SELECT {_quoted(*names)} FROM {_quoted(self.name)}"  # noqa: S608 - names
        yield from _batches(self._read(asked), names)

    def _read(self, statement: str, *values: str) -> Iterator[Any]:
        try:
            uri = f"{self.file.absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True)) as database:
                database.text_factory = bytes  # one text that is not UTF-8 would stop all
                yield from database.execute(statement, values)
        except sqlite3.Error:
            raise InvalidInputError(
                f"The file '{self.file}' cannot be read as SQLite or DuckDB: it is damaged, in "
                "use, or has a different format from what its name says."
            ) from None


class TableOfDuckDB:
    """A table or view of a DuckDB database, which is opened for reading only."""

    def __init__(self, file: Path, name: str | None) -> None:
        self.file, self.duckdb = file, _import("duckdb", "duckdb", "duckdb")
        asked = (
            "SELECT table_name FROM information_schema.tables "
            "WHERE table_schema = 'main' ORDER BY table_name"
        )
        offered = [name for batch in self._read(asked) for name in batch["table_name"].to_pylist()]
        self.name = _choose(file, name, offered, "table")

    def schema(self, *, declared: bool) -> Any:  # noqa: ARG002 - columns have types here
        """Return names and types."""
        return next(self._read(f"SELECT * FROM {_quoted(self.name)} LIMIT 0")).schema  # noqa: S608

    def count_rows(self) -> int:
        """Return the number of rows."""
        asked = f"SELECT count(*) AS found FROM {_quoted(self.name)}"  # noqa: S608 - a name
        return sum(int(n) for batch in self._read(asked) for n in batch["found"].to_pylist())

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Yield the rows in tables of Arrow."""
        yield from self._read(f"SELECT {_quoted(*names)} FROM {_quoted(self.name)}")  # noqa: S608

    def _read(self, statement: str) -> Iterator[Any]:
        try:
            with self.duckdb.connect(str(self.file), read_only=True) as database:
                reader = database.sql(statement).to_arrow_reader(BATCH_ROWS)
                yield arrow().Table.from_batches([], schema=reader.schema)
                yield from (arrow().Table.from_batches([batch]) for batch in reader)
        except self.duckdb.Error:
            raise InvalidInputError(
                f"The file '{self.file}' cannot be read by DuckDB: it is damaged, in use, or "
                "written by a newer version."
            ) from None
