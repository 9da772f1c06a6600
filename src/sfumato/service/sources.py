"""Where rows come from: a file or a folder of the data folder, or a table of a named database.

A database is named in a file on the server (``--databases``), never over HTTP, so nobody can make
the service talk to an address of her choice. Rows of folders and databases are gathered in memory
that has no name and ends with the worker; they are never written to a disk.
"""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.service.settings import Settings
from sfumato.tables.columns import arrow, read_as, text_of
from sfumato.tables.files import TableFile
from sfumato.tables.schema import TableBounds
from sfumato.tables.stores import place_of
from sfumato.tables.text import TextFormat

DATABASE = re.compile(r"database:(?P<name>[A-Za-z0-9_-]{1,64})/(?P<table>[\w.]{1,130})")
BATCH_ROWS = 10_000
# PostgreSQL's own numbers of types; cells of all others are read as text.
TYPES = {
    16: "bool",
    **dict.fromkeys((20, 21, 23), "int64"),
    **dict.fromkeys((700, 701, 1700), "double"),
    1082: "date32[day]",
    **dict.fromkeys((1114, 1184), "timestamp[s]"),
}
WITH_ZONE = 1184
PLAIN, ZONED = "{}::text", "({} AT TIME ZONE 'UTC')::text"


def checked_source(settings: Settings, source: str) -> str:
    """Return the one spelling of a source, or refuse it; nothing is opened."""
    if source.startswith("database:"):
        if DATABASE.fullmatch(source) is None:
            raise InvalidInputError("A table of a database is written database:NAME/TABLE.")
        return source
    file, table = place_of(source)
    path = settings.table(str(file)).relative_to(Path(settings.data).resolve())
    return str(path) if table is None else f"{path}:{table}"


def files_behind(settings: Settings, source: str) -> Path | None:
    """Return the file or folder that holds the rows of this source alone, or None."""
    if DATABASE.fullmatch(source) or place_of(source)[1] is not None:
        return None
    return settings.table(source)


def hold_same_rows(settings: Settings, first: str, second: str) -> bool:
    """Return whether two sources have rows in common, as far as their names tell."""
    if first == second:
        return True
    databases = [DATABASE.fullmatch(each) for each in (first, second)]
    if any(databases):
        return all(databases) and _are_one_table(*databases)
    (one, table), (other, other_table) = place_of(first), place_of(second)
    one, other = settings.table(str(one)), settings.table(str(other))
    if one == other:  # two tables of one file, or a table and the whole file
        return table is None or other_table is None
    return one in other.parents or other in one.parents


def _are_one_table(first: Any, second: Any) -> bool:
    """Return whether two names are of one table, where one may leave its schema out."""
    parts = [each["table"].split(".") for each in (first, second)]
    shorter = min(map(len, parts))
    same = parts[0][-shorter:] == parts[1][-shorter:]
    return bool(first["name"] == second["name"] and same)


@contextmanager
def opened_source(
    settings: Settings, source: str, bounds: TableBounds | None = None
) -> Iterator[TableFile]:
    """Open the rows of a source, for a worker."""
    found = DATABASE.fullmatch(source)
    if found is not None:
        with _gathered(_of_database(settings, found["name"], found["table"], bounds)) as table:
            yield table
        return
    file, name = place_of(source)
    path = settings.table(str(file))
    if path.is_dir():
        with _gathered(_of_folder(settings, path, bounds)) as table:
            yield table
        return
    place = path if name is None else Path(f"{path}:{name}")
    # Declared from the start: types that are guessed first could make one record an error.
    yield TableFile.sniffed(place) if bounds is None else _declared(place, bounds)


def _declared(path: Path, bounds: TableBounds) -> TableFile:
    return TableFile(path, bounds.types(), bounds.text)


@contextmanager
def _gathered(tables: Iterator[tuple[TextFormat, Any]]) -> Iterator[TableFile]:
    """Hold tables as one Parquet file in memory."""
    place = os.memfd_create("rows")
    with os.fdopen(place, "wb") as file, tempfile.TemporaryDirectory() as folder:
        text, writer = TextFormat(), None
        for how, table in tables:
            text = how
            if writer is None:
                writer = arrow("parquet").ParquetWriter(file, table.schema)
            writer.write_table(table)
        if writer is None:
            raise InvalidInputError("The source contains no table.")
        writer.close()
        file.flush()
        link = Path(folder) / "rows.parquet"
        link.symlink_to(f"/proc/{os.getpid()}/fd/{place}")
        yield TableFile(link, text=text)


def _of_folder(
    settings: Settings, folder: Path, bounds: TableBounds | None
) -> Iterator[tuple[TextFormat, Any]]:
    """Read the files of a folder, which have the same columns; links out of it are refused."""
    root = Path(settings.data).resolve()
    names = sorted(p for p in folder.rglob("*") if p.is_file() and p.name[0] not in "._")
    if any(root not in path.resolve().parents for path in names):
        raise InvalidInputError("A file of the folder is outside the data folder.")
    if bounds is None:
        yield from _proposed(names)
        return
    for path in names:
        for batch in _declared(path, bounds).batches(list(bounds.types())):
            yield bounds.text or TextFormat(), batch


def _proposed(names: Sequence[Path]) -> Iterator[tuple[TextFormat, Any]]:
    files = [TableFile.sniffed(path) for path in names]
    if any(sorted(one.columns) != sorted(files[0].columns) for one in files):
        raise InvalidInputError("The files of a folder must have the same columns.")
    tables = [one.read(list(files[0].columns), may_be_empty=True) for one in files]
    yield files[0].text, arrow().concat_tables(tables, promote_options="permissive")


def _of_database(
    settings: Settings, name: str, table: str, bounds: TableBounds | None
) -> Iterator[tuple[TextFormat, Any]]:
    """Read a table or view of PostgreSQL, in one read-only transaction."""
    import psycopg
    from psycopg import sql

    addresses = _addresses(settings.databases)
    if name not in addresses:
        raise InvalidInputError(f"The file of databases names no {name!r}.")
    whole = sql.Identifier(*table.split("."))
    with psycopg.connect(addresses[name], connect_timeout=20) as connection:
        connection.read_only = True
        first = connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(whole))
        found = {one.name: one.type_code for one in first.description or ()}
        cells = sql.SQL(", ").join(
            sql.SQL(ZONED if kind == WITH_ZONE else PLAIN).format(sql.Identifier(each))
            for each, kind in found.items()
        )
        with connection.cursor(name="sfumato") as cursor:
            cursor.itersize = BATCH_ROWS
            cursor.execute(sql.SQL("SELECT {} FROM {}").format(cells, whole))
            yield TextFormat(), _texts(found, [], bounds)
            while rows := cursor.fetchmany(BATCH_ROWS):
                yield TextFormat(), _texts(found, rows, bounds)


def _texts(found: Mapping[str, int], rows: Sequence[Any], bounds: TableBounds | None) -> Any:
    """Return rows as columns of texts, or for a proposal as the types of the database."""
    columns = zip(*rows, strict=True) if rows else [()] * len(found)
    table = arrow().table(
        {
            name: arrow().array([text_of(cell) for cell in cells], "string")
            for name, cells in zip(found, columns, strict=True)
        }
    )
    if bounds is not None:
        return table
    typed = {name: read_as(table[name], TYPES.get(kind, "string")) for name, kind in found.items()}
    return arrow().table(typed)


def _addresses(path: str | None) -> Mapping[str, str]:
    """Read names and addresses of databases; the file belongs to the workers."""
    if path is None:
        return {}
    return {name: str(url) for name, url in tomllib.loads(Path(path).read_text()).items()}
