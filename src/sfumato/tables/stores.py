"""Tables inside other files: sheets of Excel, tables of DuckDB.

A name behind a colon picks one: ``hospital.duckdb:patients``, ``ward.xlsx:Sheet1``; a file that
holds a single one needs no name. Cells of a sheet have types of their own, whatever their
neighbours are, so each becomes a text, and `columns.read_as` makes it what was declared.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.tables.columns import arrow, text_of, texts

STORES = {".xlsx": "sheet", ".xls": "sheet", ".ods": "sheet", ".duckdb": "duckdb"}
NAMED = re.compile(rf"(?P<file>.+({'|'.join(map(re.escape, STORES))})):(?P<name>[^/\\]+)", re.I)
BATCH_ROWS = 65536


def place_of(path: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """Return the file, and the name of the table inside it if there is one behind a colon."""
    found = NAMED.fullmatch(str(path))
    return (Path(path), None) if found is None else (Path(found["file"]), found["name"])


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


def read_sheet(path: str | os.PathLike[str]) -> Any:
    """Return a sheet as a table of texts: its first row names the columns."""
    file, name = place_of(path)
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
            f"The file '{file}' cannot be read as a workbook: it is damaged, or has a different "
            "format from what its name says."
        ) from None
    header = [text_of(cell) or "" for cell in rows[0]] if rows else []
    # What the header does not name is no column, wherever a record has cells.
    named = [place for place, name in enumerate(header) if name]
    columns = [texts([text_of(row[place]) or None for row in rows[1:]]) for place in named]  # [Z8]
    return arrow().Table.from_arrays(columns, [header[place] for place in named])


# A view reads nothing but its own file: no other file, no address, no extension.
CLOSED = {"enable_external_access": "false", "autoload_known_extensions": "false"}


class DuckDBTable:
    """A table or view of a DuckDB database, which is opened for reading only."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.file, name = place_of(path)
        self.duckdb = _import("duckdb", "duckdb", "duckdb")
        asked = (
            "SELECT table_name FROM information_schema.tables "
            "WHERE table_schema = 'main' ORDER BY table_name"
        )
        offered = [name for batch in self.query(asked) for name in batch["table_name"].to_pylist()]
        self.name = _choose(self.file, name, offered, "table")

    def select(self, *names: str) -> Iterator[Any]:
        """Yield tables of these columns, or of all; the first one has no rows."""
        columns, table = (
            ", ".join('"' + each.replace('"', '""') + '"' for each in group)
            for group in (names, [self.name])
        )
        return self.query(f"SELECT {columns or '*'} FROM {table}")  # noqa: S608 - names

    def query(self, statement: str) -> Iterator[Any]:
        """Yield what a statement returns, in tables of Arrow."""
        try:
            with self.duckdb.connect(str(self.file), read_only=True, config=CLOSED) as database:
                reader = database.sql(statement).to_arrow_reader(BATCH_ROWS)
                yield arrow().Table.from_batches([], schema=reader.schema)
                yield from (arrow().Table.from_batches([batch]) for batch in reader)
        except self.duckdb.Error:
            raise InvalidInputError(
                f"The file '{self.file}' cannot be read by DuckDB: it is damaged, in use, or "
                "written by a newer version."
            ) from None
