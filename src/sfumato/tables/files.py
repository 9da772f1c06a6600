"""Tables on disk: CSV, Parquet, Feather (Arrow), JSON lines, and tables inside other files."""

from __future__ import annotations

import contextlib
import io
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError
from sfumato.tables import checksums
from sfumato.tables.columns import arrow, is_text, read_as, type_of
from sfumato.tables.lines import (
    OTHER_FORMATS,
    common_numbers,
    count_lines,
    csv_batches,
    csv_header,
    json_batches,
    json_names,
    odd_line,
    opened,
)
from sfumato.tables.notes import metadata_beside, note_of
from sfumato.tables.stores import STORES, Store, opened_store, place_of
from sfumato.tables.text import DELIMITERS, PLAIN_TEXT, TextFormat, encoding_of, sniffed

FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
PACKED = (".gz", ".zst")
MAX_COLUMNS = 5000  # moments are matrices of this order: 200 MB
BATCH_ROWS = 65536
BATCH_BYTES = 2**24
WHOLE_BYTES = 2**28  # a text file up to this size is read as a whole, its types from all rows
MAX_HEADER_BYTES = 2**22
SAMPLE_BYTES = 2**22  # from which the format of a text file is guessed
# Raised besides Arrow's own errors.
OF_DAMAGED_FILES = (EOFError, zlib.error, ValueError, KeyError, OverflowError, TypeError)
BYTES_OF = {"string": "binary", "large_string": "large_binary", "string_view": "binary_view"}
DATES = ("date", "timestamp", "string")
METADATA = b"sfumato"  # key under which a written table carries its guarantee


def is_packed(path: str | os.PathLike[str]) -> bool:
    """Return whether the name says that a file is packed."""
    return Path(path).suffix in PACKED


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the format that the suffix names."""
    file, _ = place_of(path)
    suffix = (file.with_suffix("") if is_packed(file) else file).suffix.lower()
    if suffix in STORES and not is_packed(file):
        return "store"
    if suffix not in FORMATS or (is_packed(file) and FORMATS[suffix] not in ("csv", "jsonl")):
        if file.is_dir():
            raise InvalidInputError(f"'{path}' is a folder, not a table. Name a file in it.")
        known = ", ".join([*FORMATS, *STORES])
        raise InvalidInputError(
            f"'{path}' must end in one of {known}; text may be compressed as .gz or .zst. Got "
            f"'{suffix}' instead."
        )
    return FORMATS[suffix]


class TableFile:
    """A table on disk: its columns and types, and its rows, batch by batch.

    Parameters
    ----------
    path : path-like
        The file; its suffix names the format. A table inside a workbook or a database is named
        behind a colon, ``hospital.duckdb:patients``.
    types : mapping of str to str, optional
        Declared types of columns, by their Arrow names. Every cell of such a column is read as
        its type, by itself: one that is not is missing. Stored dates and times stay as they are
        where a date, a time or a text is declared. Without declared types, those of a text file
        are read off its cells.
    text : TextFormat, optional
        How a CSV is written; by default with commas (tabs for ``.tsv``), points and UTF-8.
    guess : bool, default=True
        Whether types that are not declared are read off the cells of a text file. Otherwise its
        cells are texts, and opening it reads its header alone.

    Notes
    -----
    With declared types no cell and no line makes reading fail, changes how another one is read, or
    changes the number of rows (see `sfumato.tables.lines`); a file that is damaged as a whole, or
    whose header lacks a column, is an error. Errors of Arrow quote cells; here they are reported
    without them.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        types: Mapping[str, str] | None = None,
        text: TextFormat | None = None,
        *,
        guess: bool = True,
    ) -> None:
        self.path = Path(path)
        self.format = format_of(path)
        self.types = dict(types or {})
        self.guess = guess
        tabs = ".tsv" in self.path.suffixes
        self.text = text or (TextFormat(delimiter="\t") if tabs else PLAIN_TEXT)
        for declared in self.types.values():
            type_of(declared)
        file, _ = place_of(path)
        if not file.is_file():
            raise InvalidInputError(f"There is no file '{file}'.")
        if file.stat().st_size == 0 and not self._has_no_header:
            raise InvalidInputError(f"The file '{file}' is empty.")
        self._refuse_odd_header()
        self.schema = self._checked_schema()

    @property
    def columns(self) -> dict[str, str]:
        """Names of the columns, with the names of their types."""
        return {field.name: plain_type(field.type) for field in self.schema}

    def declared(self, types: Mapping[str, str], text: TextFormat | None = None) -> TableFile:
        """Return this table with declared types and, where it is given, a declared format."""
        text = text or self.text
        if (self.types, self.text) == (dict(types), text):
            return self
        return TableFile(self.path, types, text)

    @classmethod
    def sniffed(cls, path: str | os.PathLike[str], **known: Any) -> TableFile:
        """Open a table as its lines suggest, but for what is known; for the eyes of its owner."""
        place = Path(path)
        if format_of(path) != "csv" or not place.is_file():
            return cls(path)
        try:
            with opened(place) as file:
                known = {"encoding": known.get("encoding") or encoding_of(file)} | known
            with opened(place) as file:
                sample = file.read(SAMPLE_BYTES)
        except (OSError, EOFError, zlib.error, InvalidInputError) as error:
            raise InvalidInputError(f"The file '{path}' cannot be read: {error}.") from None
        whole = sample[: sample.rfind(b"\n") + 1] if len(sample) == SAMPLE_BYTES else sample
        return cls(path, text=sniffed(whole, **known) if whole.strip() else None)

    def count_rows(self) -> int:
        """Return the number of rows; formats of text are read for it."""
        with self._reported():
            if self.format == "parquet":
                return int(self._parquet().metadata.num_rows)
            if self.format == "store":
                return self._store.count_rows()
            if self._is_read_by_lines:
                return count_lines(self.path, header=self.format == "csv")
            return sum(len(batch) for batch in self._arrow_batches([]))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the rows in tables of at most some ten thousand rows, read one at a time."""
        names = self.schema.names if columns is None else list(columns)
        self.require_readable(names)  # a fact about types, before any cell is read
        with self._reported():
            for batch in self._arrow_batches(names):
                if len(batch):
                    yield self._typed(batch.select(names))

    def read(self, columns: Sequence[str] | None = None, *, may_be_empty: bool = False) -> Any:
        """Return all rows as one table; no rows at all are an error, unless they may be."""
        tables = list(self.batches(columns))
        if tables:
            return arrow().concat_tables(tables)
        if may_be_empty:
            names = self.schema.names if columns is None else columns
            return self._no_rows(names)
        raise InvalidInputError(f"The table '{self.path}' has no rows.")

    def require_readable(self, columns: Sequence[str]) -> None:
        """Refuse a table that lacks a column, or stores it as what cannot be read as declared."""
        self.require(columns)
        if not self._is_read_by_lines:
            self._no_rows(columns)

    def _no_rows(self, names: Sequence[str]) -> Any:
        nothing = {name: arrow().nulls(0, self.schema.field(name).type) for name in names}
        return self._typed(arrow().table(nothing))

    def metadata(self) -> dict[str, Any] | None:
        """Return what `write_table` stored along with the rows, if it did."""
        stored = (self.schema.metadata or {}).get(METADATA)
        if stored is None:
            return None
        with self._reported():
            found: dict[str, Any] = json.loads(stored)
        return found

    # How each format is read ------------------------------------------------------------------

    @property
    def _is_read_by_lines(self) -> bool:
        return (bool(self.types) or not self.guess) and self.format in ("csv", "jsonl")

    @property
    def _has_no_header(self) -> bool:
        # Names in JSON lines are told by records, so that none of them may be an error.
        return self._is_read_by_lines and self.format == "jsonl"

    def _checked_schema(self) -> Any:
        with self._reported():
            schema = self._read_schema()
            names = schema.names if len(schema) <= MAX_COLUMNS else []
        if not len(schema) and not self._has_no_header:
            raise InvalidInputError(f"The table '{self.path}' has no columns.")
        if len(schema) > MAX_COLUMNS:
            raise InvalidInputError(_too_wide(self.path, len(schema)))
        if len(set(names)) != len(schema):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInputError(
                f"The table '{self.path}' has two columns named {twice!r}. Rename one of them."
            )
        return schema

    def _read_schema(self) -> Any:
        if self._is_read_by_lines:
            names = (
                dict.fromkeys([*self.types, *json_names(self.path, MAX_COLUMNS - len(self.types))])
                if self._has_no_header
                else csv_header(self.path, MAX_HEADER_BYTES, self.text)
            )
            declared = [(name, type_of(self.types.get(name, "string"))) for name in names]
            return arrow().schema(declared)
        if self.format == "parquet":
            file = self._parquet()
            self._refuse_other_bytes(file.metadata.metadata)
            return file.schema_arrow
        if self.format == "feather":
            with arrow().OSFile(str(self.path)) as source:  # a map of a file cut short would crash
                schema = arrow("ipc").open_file(source).schema
            self._refuse_other_bytes(schema.metadata)
            return schema
        if self.format == "store":
            return self._store.schema(declared=bool(self.types) or not self.guess)
        if self._is_small:
            self._whole = self._read_text()
            return self._whole.schema
        return self._open_text().schema

    @cached_property
    def _store(self) -> Store:
        return opened_store(self.path)

    def _parquet(self) -> Any:
        # One group of rows at a time: read ahead, the whole file would gather in memory.
        return arrow("parquet").ParquetFile(
            self.path, pre_buffer=False, page_checksum_verification=True
        )

    def _refuse_other_bytes(self, metadata: Mapping[bytes, bytes] | None) -> None:
        if not all(checksums.holds(self.path, each) for each in checksums.found_in(metadata)):
            raise InvalidInputError(
                f"The file '{self.path}' is damaged: its checksum does not match."
            )

    def _arrow_batches(self, names: list[str]) -> Iterator[Any]:
        table = arrow().Table
        if self._is_read_by_lines:
            types = {name: self.types.get(name, "string") for name in names}
            yield from (
                csv_batches(self.path, self.schema.names, types, self.text)
                if self.format == "csv"
                else json_batches(self.path, types)
            )
        elif self.format == "parquet":
            file = self._parquet()
            for group in range(file.num_row_groups):
                batches = file.iter_batches(
                    BATCH_ROWS, row_groups=[group], columns=names, use_threads=False
                )
                yield from map(_checked, batches)
        elif self.format == "feather":
            with arrow().OSFile(str(self.path)) as source:
                reader = arrow("ipc").open_file(source)
                for number in range(reader.num_record_batches):
                    yield _checked(reader.get_batch(number).select(names))
        elif self.format == "store":
            yield from self._store.batches(names)
        elif self._is_small:
            yield from (table.from_batches([batch]) for batch in self._whole.to_batches(BATCH_ROWS))
        else:
            yield from (table.from_batches([batch]) for batch in self._open_text())

    # Text whose types are not declared: Arrow finds them.

    @property
    def _is_small(self) -> bool:
        return self.format == "jsonl" or self.path.stat().st_size <= WHOLE_BYTES

    def _read_text(self) -> Any:
        if self.format == "jsonl":
            return arrow("json").read_json(self.path)
        found = arrow("csv").read_csv(self.path, **self._reading())
        if len(found) < count_lines(self.path, header=True, blank=False):
            raise InvalidInputError(
                f"The file '{self.path}' has line breaks inside quoted cells, or a quote that is "
                "not closed. Each line is read as one record: close the quote, remove the line "
                "breaks, or save the table as Parquet."
            )
        return _with_groups(found, self.text)

    def _open_text(self) -> Any:
        return arrow("csv").open_csv(self.path, **self._reading(block_size=BATCH_BYTES))

    def _reading(self, **options: Any) -> dict[str, Any]:
        csv, text = arrow("csv"), self.text
        usual = csv.ConvertOptions().null_values
        return {
            "read_options": csv.ReadOptions(encoding=text.encoding, **options),
            "parse_options": csv.ParseOptions(delimiter=text.delimiter, quote_char=text.quote),
            "convert_options": csv.ConvertOptions(
                strings_can_be_null=True,
                decimal_point=text.decimal,
                null_values=[*usual, *text.missing],
            ),
        }

    def _refuse_odd_header(self) -> None:
        """Look at the first line of a text file: Arrow takes long for very many columns."""
        if self.format == "csv":
            with self._reported(), opened(self.path) as file:
                line = file.readline(MAX_HEADER_BYTES)
            if line.startswith(OTHER_FORMATS):
                raise InvalidInputError(
                    f"The file '{self.path}' is of another format than its name says."
                )
            if b"\r" in line.rstrip(b"\r\n"):  # then all of the file may be this line
                raise InvalidInputError(
                    f"The first line of '{self.path}' has carriage returns inside it. Save the "
                    "table with lines that end in a line feed, as Unix or Windows writes them."
                )
            n_columns = line.count(self.text.delimiter.encode()) + 1
            if n_columns > MAX_COLUMNS:
                raise InvalidInputError(_too_wide(self.path, n_columns))

    # Checks and messages ----------------------------------------------------------------------

    def require(self, names: Sequence[str]) -> None:
        """Raise unless the table has all these columns."""
        for name in names:
            if name not in self.schema.names:
                raise InvalidInputError(
                    f"The table '{self.path}' has no column {name!r}. It has: "
                    f"{_listed(self.schema.names)}.{self._other_header()}"
                )

    def _other_header(self) -> str:
        """Return a hint where what should be names of columns looks like something else."""
        names = self.schema.names
        if self.format == "csv" and len(names) == 1:
            others = [d for d in DELIMITERS if d != self.text.delimiter and d in names[0]]
            if others:
                return (
                    f" It is read with the delimiter {self.text.delimiter!r}; '--read "
                    f"delimiter={others[0]}' reads it with another one."
                )
        if len(names) > 1 and not any(name.replace(".", "").isdigit() for name in names):
            return ""
        return " The first line of a table must contain the names of its columns."

    def _typed(self, table: Any) -> Any:
        for index, field in enumerate(table.schema):
            usual = plain_type(self.schema.field(field.name).type)
            declared = self.types.get(field.name, usual)
            # Of whatever type, as long as nobody wants another: but a text may be none, and dates
            # of any kind are left to `part_of`, for one cell can make times of all days.
            is_date = declared.startswith(DATES) and str(field.type).startswith(DATES[:-1])
            if (declared != str(field.type) and not is_date) or is_text(field.type):
                place = f"The column {field.name!r} of '{self.path}'"
                column = read_as(table.column(index), declared, place)
                table = table.set_column(index, field.name, column)
        return table

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Report errors of Arrow without the cells that they quote."""
        try:
            yield
        except InvalidInputError:
            raise
        except (arrow().ArrowException, OSError, *OF_DAMAGED_FILES) as error:
            raise InvalidInputError(self._told_error(error)) from None

    def _told_error(self, error: Exception) -> str:
        start = f"The file '{self.path}' cannot be read as {self.format}"
        if isinstance(error, OSError) and error.errno is not None:
            return f"{start}: {error.strerror}."
        if isinstance(error, MemoryError):
            return f"{start}: it is damaged, or needs more memory than there is."
        message = str(error)
        line = (
            odd_line(self.path, self.format, self.text) if self.format in ("csv", "jsonl") else ""
        )
        if "Expected" in message and "columns" in message:
            return f"{start}: not all lines have as many fields as the first.{line}"
        if "changed from" in message:
            return f"{start}: a column contains values of several types.{line}"
        return f"{start}: it is damaged, or has a different format from what its name says.{line}"


def _with_groups(table: Any, text: TextFormat) -> Any:
    """Read columns of numbers with groups of digits, which Arrow takes for texts."""
    for place, field in enumerate(table.schema if text.thousands else ()):
        if str(field.type) == "string":
            with contextlib.suppress(arrow().ArrowException):
                numbers = common_numbers(table.column(place), text).cast("double")
                table = table.set_column(place, field.name, numbers)
    return table


def _checked(batch: Any) -> Any:
    """Return a batch whose buffers hold what their types need, or raise: the file is damaged."""
    for column in batch.columns:
        _check_buffers(column)
    return arrow().Table.from_batches([batch])


def _check_buffers(column: Any) -> None:
    """Look at places and lengths alone: what stands in a cell is a matter of that cell."""
    pa, types, kind = arrow(), arrow("types"), column.type
    if isinstance(kind, pa.BaseExtensionType):
        _check_buffers(column.storage)
    elif types.is_dictionary(kind):
        _check_buffers(column.dictionary)
        pa.DictionaryArray.from_arrays(column.indices, pa.nulls(len(column.dictionary)))
    elif types.is_run_end_encoded(kind):
        _check_buffers(column.values)
        pa.RunEndEncodedArray.from_arrays(column.run_ends, pa.nulls(len(column.values)))
    elif str(kind) in BYTES_OF:
        column.view(getattr(pa, BYTES_OF[str(kind)])()).validate(full=True)
    else:
        column.validate(full=types.is_nested(kind) or is_text(kind))


def _too_wide(path: Path, n_columns: int) -> str:
    return (
        f"The table '{path}' has {n_columns} columns or more; at most {MAX_COLUMNS} can be used. "
        "Keep the columns that matter."
    )


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def plain_type(declared: Any) -> str:
    """Name a type of Arrow by the plain type that its values are read as."""
    types = arrow("types")
    if types.is_dictionary(declared):
        return plain_type(declared.value_type)
    if types.is_decimal(declared):
        return "double"
    if (
        types.is_large_string(declared)
        or types.is_string(declared)
        or types.is_string_view(declared)
    ):
        return "string"
    return str(declared)


# Writing --------------------------------------------------------------------------------------


def write_table(
    table: Any, path: str | os.PathLike[str], metadata: Mapping[str, Any] | None = None
) -> Path | None:
    """Write a table, aside and renamed, in the format that the suffix names."""
    kind = format_of(path)
    if Path(path).suffix.lower() not in FORMATS:
        raise InvalidInputError(f"'{path}' cannot be written; choose .csv or .parquet.")
    own = {
        key: v for key, v in (table.schema.metadata or {}).items() if key not in checksums.BLANKS
    }
    table = table.replace_schema_metadata(own)
    if metadata is not None and kind in ("parquet", "feather"):
        stored = {METADATA: json.dumps(metadata).encode()}
        table = table.replace_schema_metadata({**own, **stored})
    if metadata is None or kind in ("parquet", "feather"):
        with atomic_write(path) as file:
            _writer(path, kind)(table, file)
        return None
    beside = metadata_beside(path)
    with atomic_write(beside) as note:  # renamed only after the table
        note.write(note_of(metadata))
        with atomic_write(path) as file:
            _writer(path, kind)(table, file)
    return beside


def _writer(path: str | os.PathLike[str], kind: str) -> Callable[[Any, BinaryIO], None]:
    return _write_tabs if Path(path).suffix.lower() == ".tsv" else _WRITERS[kind]


def _write_tabs(table: Any, file: BinaryIO) -> None:
    arrow("csv").write_csv(table, file, arrow("csv").WriteOptions(delimiter="\t"))


def _write_lines(table: Any, file: BinaryIO) -> None:
    for row in table.to_pylist():
        file.write((json.dumps(row, ensure_ascii=False, default=str) + "\n").encode())


def _write_parquet(table: Any, file: BinaryIO) -> None:
    content = io.BytesIO()
    with arrow("parquet").ParquetWriter(content, table.schema, write_page_checksum=True) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(checksums.BLANKS)
    file.write(checksums.with_checksum(content.getvalue()))


def _write_feather(table: Any, file: BinaryIO) -> None:
    metadata = {**(table.schema.metadata or {}), **checksums.BLANKS}
    content = io.BytesIO()
    arrow("feather").write_feather(table.replace_schema_metadata(metadata), content)
    file.write(checksums.with_checksum(content.getvalue()))


_WRITERS: dict[str, Callable[[Any, BinaryIO], None]] = {
    "csv": lambda table, file: arrow("csv").write_csv(table, file),
    "parquet": _write_parquet,
    "feather": _write_feather,
    "jsonl": _write_lines,
}
