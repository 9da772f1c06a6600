"""Tables on disk, read and written through Arrow: CSV, Parquet, Feather (Arrow), JSON lines."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from sfumato.atomic_file import written_aside
from sfumato.exceptions import InvalidInputError

__all__ = ["MOST_COLUMNS", "TableFile", "arrow", "format_of", "write_table"]

FORMATS = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
MOST_COLUMNS = 5000  # moments are matrices of this order: 200 MB
BATCH_ROWS = 65536
BATCH_BYTES = 2**24
WHOLE_BYTES = 2**28  # a text file up to this size is read as a whole, its types from all rows
LONGEST_HEADER = 2**22
METADATA = b"sfumato"  # key under which a written table carries its guarantee


def arrow(module: str = "") -> Any:
    """Import pyarrow, or one of its modules, when a file is touched."""
    try:
        return importlib.import_module(f"pyarrow.{module}" if module else "pyarrow")
    except ImportError:
        raise InvalidInputError(
            "Reading and writing tables needs pyarrow: pip install pyarrow."
        ) from None


def format_of(path: str | os.PathLike[str]) -> str:
    """Give the format that the suffix names."""
    suffix = Path(path).suffix.lower()
    if suffix not in FORMATS:
        known = ", ".join(FORMATS)
        raise InvalidInputError(f"'{path}' must end in one of {known}. Got '{suffix}' instead.")
    return FORMATS[suffix]


class TableFile:
    """A table on disk: its columns and types, and its rows, batch by batch.

    Parameters
    ----------
    path : path-like
        The file; its suffix names the format.
    types : mapping of str to str, optional
        Types of columns, by their Arrow names, that are known beforehand. They are binding for
        formats of text; columns of other formats are cast to them.

    Notes
    -----
    Errors of Arrow quote cells; here they are told without them.
    """

    def __init__(
        self, path: str | os.PathLike[str], types: Mapping[str, str] | None = None
    ) -> None:
        self.path = Path(path)
        self.format = format_of(path)
        self.types = dict(types or {})
        if not self.path.is_file():
            raise InvalidInputError(f"There is no file '{self.path}'.")
        if self.path.stat().st_size == 0:
            raise InvalidInputError(f"The file '{self.path}' is empty.")
        self._refuse_wide_text()
        self.schema = self._checked_schema()

    @property
    def columns(self) -> dict[str, str]:
        """Names of the columns, with the names of their types."""
        return {field.name: plain_type(field.type) for field in self.schema}

    def count_rows(self) -> int:
        """Give the number of rows; formats of text are read for it."""
        with self._told():
            if self.format == "parquet":
                return int(arrow("parquet").ParquetFile(self.path).metadata.num_rows)
            return sum(len(batch) for batch in self._arrow_batches(self.schema.names[:1]))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Give the rows in tables of at most some ten thousand rows, read one at a time."""
        names = self.schema.names if columns is None else list(columns)
        self.require(names)
        with self._told():
            for batch in self._arrow_batches(names):
                if len(batch):
                    yield self._typed(batch.select(names))

    def read(self, columns: Sequence[str] | None = None) -> Any:
        """Give all rows as one table."""
        tables = list(self.batches(columns))
        if not tables:
            raise InvalidInputError(f"The table '{self.path}' has no rows.")
        return arrow().concat_tables(tables)

    def metadata(self) -> dict[str, Any] | None:
        """Give what `write_table` stored along with the rows, if it did."""
        stored = (self.schema.metadata or {}).get(METADATA)
        if stored is None:
            return None
        found: dict[str, Any] = json.loads(stored)
        return found

    # How each format is read ------------------------------------------------------------------

    def _checked_schema(self) -> Any:
        with self._told():
            schema = self._read_schema()
            names = schema.names if len(schema) <= MOST_COLUMNS else []
        if not len(schema):
            raise InvalidInputError(f"The table '{self.path}' has no columns.")
        if len(schema) > MOST_COLUMNS:
            raise InvalidInputError(_too_wide(self.path, len(schema)))
        if len(set(names)) != len(schema):
            raise InvalidInputError(f"The table '{self.path}' has two columns of one name.")
        return schema

    def _read_schema(self) -> Any:
        if self.format == "parquet":
            return arrow("parquet").read_schema(self.path)
        if self.format == "feather":
            with arrow().memory_map(str(self.path)) as source:
                return arrow("ipc").open_file(source).schema
        if self._is_small:
            self._whole = self._read_text()
            return self._whole.schema
        return self._open_text().schema

    def _arrow_batches(self, names: list[str]) -> Iterator[Any]:
        table = arrow().Table
        if self.format == "parquet":
            # One group of rows at a time: read ahead, the whole file would gather in memory.
            file = arrow("parquet").ParquetFile(self.path, pre_buffer=False)
            for group in range(file.num_row_groups):
                batches = file.iter_batches(
                    BATCH_ROWS, row_groups=[group], columns=names, use_threads=False
                )
                yield from (table.from_batches([batch]) for batch in batches)
        elif self.format == "feather":
            with arrow().memory_map(str(self.path)) as source:
                reader = arrow("ipc").open_file(source)
                for number in range(reader.num_record_batches):
                    yield table.from_batches([reader.get_batch(number)])
        elif self._is_small:
            yield from (table.from_batches([batch]) for batch in self._whole.to_batches(BATCH_ROWS))
        else:
            yield from (table.from_batches([batch]) for batch in self._open_text())

    @property
    def _is_small(self) -> bool:
        return self.format == "jsonl" or self.path.stat().st_size <= WHOLE_BYTES

    def _read_text(self) -> Any:
        if self.format == "jsonl":
            options = arrow("json").ParseOptions(explicit_schema=self._known_schema())
            return arrow("json").read_json(self.path, parse_options=options)
        return arrow("csv").read_csv(self.path, convert_options=self._conversion())

    def _open_text(self) -> Any:
        csv = arrow("csv")
        reading = csv.ReadOptions(block_size=BATCH_BYTES)
        return csv.open_csv(self.path, read_options=reading, convert_options=self._conversion())

    def _conversion(self) -> Any:
        types = {name: type_of(told) for name, told in self.types.items()}
        return arrow("csv").ConvertOptions(column_types=types, strings_can_be_null=True)

    def _known_schema(self) -> Any:
        if not self.types:
            return None
        return arrow().schema([(name, type_of(told)) for name, told in self.types.items()])

    def _refuse_wide_text(self) -> None:
        """Count the columns of a text file in its first line: Arrow takes long for very many."""
        if self.format == "csv":
            with self.path.open("rb") as file:
                n_columns = file.readline(LONGEST_HEADER).count(b",") + 1
            if n_columns > MOST_COLUMNS:
                raise InvalidInputError(_too_wide(self.path, n_columns))

    # Checks and messages ----------------------------------------------------------------------

    def require(self, names: Sequence[str]) -> None:
        """Raise unless the table has all these columns."""
        for name in names:
            if name not in self.schema.names:
                raise InvalidInputError(
                    f"The table '{self.path}' has no column {name!r}. It has: "
                    f"{_listed(self.schema.names)}."
                )

    def _typed(self, table: Any) -> Any:
        for index, field in enumerate(table.schema):
            told = self.types.get(field.name, plain_type(field.type))
            if told == str(field.type):  # of whatever type, as long as nobody wants another
                continue
            wanted = type_of(told)
            try:
                column = table.column(index).cast(wanted)
            except arrow().ArrowException:
                raise InvalidInputError(
                    f"The column {field.name!r} of '{self.path}' is of type {field.type} and "
                    f"cannot be read as {wanted}."
                ) from None
            table = table.set_column(index, field.name, column)
        return table

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tell errors of Arrow without the cells that they quote."""
        try:
            yield
        except InvalidInputError:
            raise
        except (arrow().ArrowException, UnicodeDecodeError) as error:
            raise InvalidInputError(self._told_error(str(error))) from None

    def _told_error(self, message: str) -> str:
        start = f"The file '{self.path}' cannot be read as {self.format}"
        place = re.search(r"CSV column #(\d+)", message)
        if place is not None:
            return (
                f"{start}: column {place[1]} (counted from 0) holds values that are not of its "
                "type. Correct them, or give the column another 'type' in the bounds file."
            )
        if "Expected" in message and "columns" in message:
            return f"{start}: not all lines have as many fields as the first."
        if "changed from" in message:
            return f"{start}: a column holds values of several types."
        return f"{start}: it is damaged, or of another format than its name says."


def _too_wide(path: Path, n_columns: int) -> str:
    return (
        f"The table '{path}' has {n_columns} columns or more; at most {MOST_COLUMNS} can be used. "
        "Keep the columns that matter."
    )


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def plain_type(told: Any) -> str:
    """Name a type of Arrow by the plain type that its values are read as."""
    types = arrow("types")
    if types.is_dictionary(told):
        return plain_type(told.value_type)
    if types.is_decimal(told):
        return "double"
    if types.is_large_string(told) or types.is_string(told) or types.is_string_view(told):
        return "string"
    return str(told)


def type_of(name: str) -> Any:
    """Give the type of Arrow that has this name."""
    for unit in ("s", "ms", "us", "ns"):
        if name.startswith(f"timestamp[{unit}"):
            return arrow().timestamp(unit, tz=_zone(name))
    try:
        return arrow().type_for_alias(name)
    except ValueError:
        raise InvalidInputError(
            f"'{name}' is no type of a column that can be read; use 'double', 'int64', 'bool', "
            "'string', or leave the column out."
        ) from None


def _zone(name: str) -> str | None:
    found = re.search(r"tz=([^\]]+)", name)
    return found[1] if found else None


# Writing --------------------------------------------------------------------------------------


def write_table(
    table: Any, path: str | os.PathLike[str], metadata: Mapping[str, Any] | None = None
) -> Path | None:
    """Write a table, aside and renamed, in the format that the suffix names.

    Parameters
    ----------
    table : pyarrow.Table
        The rows.
    path : path-like
        The file to write.
    metadata : mapping, optional
        Plain JSON values that travel with the rows: inside of Parquet and Feather, in a file of
        its own beside the others.

    Returns
    -------
    Path or None
        The file beside, if one was written.
    """
    kind = format_of(path)
    if metadata is not None and kind in ("parquet", "feather"):
        stored = {METADATA: json.dumps(metadata).encode()}
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **stored})
    if metadata is None or kind in ("parquet", "feather"):
        with written_aside(path) as file:
            _WRITERS[kind](table, file)
        return None
    beside = metadata_beside(path)
    with written_aside(beside) as note:  # renamed only after the table
        note.write((json.dumps(metadata, indent=2) + "\n").encode())
        with written_aside(path) as file:
            _WRITERS[kind](table, file)
    return beside


def metadata_beside(path: str | os.PathLike[str]) -> Path:
    """Name the file that carries the guarantee of a table of text."""
    return Path(path).with_name(Path(path).name + ".guarantee.json")


def _write_lines(table: Any, file: BinaryIO) -> None:
    for row in table.to_pylist():
        file.write((json.dumps(row, ensure_ascii=False, default=str) + "\n").encode())


_WRITERS = {
    "csv": lambda table, file: arrow("csv").write_csv(table, file),
    "parquet": lambda table, file: arrow("parquet").write_table(table, file),
    "feather": lambda table, file: arrow("feather").write_feather(table, file),
    "jsonl": _write_lines,
}
