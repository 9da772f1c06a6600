"""Tables on disk: CSV, Parquet, and sheets of workbooks."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError
from sfumato.tables.columns import arrow, is_text, read_as, text_of, texts, type_of
from sfumato.tables.text import (
    PLAIN_TEXT,
    TextFormat,
    csv_batches,
    csv_header,
    distinct,
    guess_types,
    read_records,
    sniff_text,
)

FORMATS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}
SHEETS = (".xlsx", ".xls", ".ods")
COMPRESSED = (".gz", ".zst")
MAX_COLUMNS = 5000  # moments are matrices of this order: 200 MB
BATCH_ROWS = 65536
# Raised besides Arrow's own errors.
OF_DAMAGED_FILES = (EOFError, zlib.error, ValueError, KeyError, OverflowError, TypeError)
METADATA = b"sfumato"  # key under which a written table carries its guarantee
NOTE_CHECKSUM = "sha256 of the rest"


def format_of(path: str | os.PathLike[str]) -> str:
    file = Path(path)
    is_compressed = file.suffix in COMPRESSED
    suffix = (file.with_suffix("") if is_compressed else file).suffix.lower()
    if suffix in SHEETS and not is_compressed:
        return "sheet"
    if suffix not in FORMATS or (is_compressed and FORMATS[suffix] != "csv"):
        known = ", ".join([*FORMATS, *SHEETS])
        raise InvalidInputError(
            f"'{path}' must end in one of {known}; text may be compressed as .gz or .zst. Got "
            f"'{suffix}' instead."
        )
    return FORMATS[suffix]


class TableFile:
    """A table on disk: its columns and types, and its rows, batch by batch.

    With declared types no cell and no line makes reading fail, changes how another one is read, or
    changes the number of rows; errors of Arrow, which quote cells, are reported without them. Types
    that are not declared are read off the cells of a text, unless `guess` is False.
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
        tabs = ".tsv" in self.path.suffixes
        self.text = text or (TextFormat(delimiter="\t") if tabs else PLAIN_TEXT)
        for declared in self.types.values():
            type_of(declared)
        if not self.path.is_file():
            raise InvalidInputError(f"There is no file '{path}'.")
        if self.path.stat().st_size == 0:
            raise InvalidInputError(f"The file '{path}' is empty.")
        with self._reported():
            self.schema = self._read_schema(declared=bool(self.types) or not guess)
        if not len(self.schema):
            raise InvalidInputError(f"The table '{self.path}' has no columns.")
        self._check_names(self.schema.names)

    @property
    def columns(self) -> dict[str, str]:
        return {field.name: plain_type(field.type) for field in self.schema}

    def declared(self, types: Mapping[str, str], text: TextFormat | None = None) -> TableFile:
        return TableFile(self.path, types, text or self.text)

    @classmethod
    def sniffed(cls, path: str | os.PathLike[str], **known: Any) -> TableFile:
        """Open a table as its lines suggest, but for what is known; for the eyes of its owner."""
        if format_of(path) != "csv" or not Path(path).is_file():
            return cls(path)
        try:
            text = sniff_text(Path(path), **known)
        except (OSError, EOFError, zlib.error) as error:
            raise InvalidInputError(f"The file '{path}' cannot be read: {error}.") from None
        return cls(path, text=text)

    @cached_property
    def n_rows(self) -> int:
        with self._reported():
            if self.format == "csv":
                return sum(len(ends) for _, ends in read_records(self.path, self.text))
            if self.format == "parquet":
                return int(self._parquet().metadata.num_rows)
            return sum(len(batch) for batch in self._batches(self.schema.names[:1]))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the rows in tables of at most some ten thousand rows, read one at a time."""
        names = self.schema.names if columns is None else list(columns)
        self.require_readable(names)  # a fact about types, before any cell is read
        with self._reported():
            for batch in self._batches(names):
                if len(batch):
                    yield self._typed(batch.select(names))

    def read(self, columns: Sequence[str] | None = None, *, may_be_empty: bool = False) -> Any:
        """Return all rows as one table; no rows at all are an error, unless they may be."""
        tables = list(self.batches(columns))
        if tables:
            return arrow().concat_tables(tables)
        if may_be_empty:
            return self._no_rows(self.schema.names if columns is None else columns)
        raise InvalidInputError(f"The table '{self.path}' has no rows.")

    def require_readable(self, columns: Sequence[str]) -> None:
        """Refuse a table that lacks a column, or stores it as what cannot be read as declared."""
        self.require(columns)
        self._no_rows(columns)

    def require(self, names: Sequence[str]) -> None:
        known = self.schema.names
        if missing := [name for name in names if name not in known]:
            shown = ", ".join(map(repr, known[:12])) + ", ..." * (len(known) > 12)
            hint = " The first line must name them, separated by the declared delimiter."
            raise InvalidInputError(
                f"The table '{self.path}' has no column {missing[0]!r}. It has: {shown}."
                f"{hint if self.format == 'csv' else ''}"
            )

    def metadata(self) -> dict[str, Any] | None:
        stored = (self.schema.metadata or {}).get(METADATA)
        return None if stored is None else parse_note(stored, self.path)

    def _check_names(self, names: Sequence[str]) -> None:
        if len(names) > MAX_COLUMNS:
            raise InvalidInputError(
                f"The table '{self.path}' has {len(names)} columns or more; at most {MAX_COLUMNS} "
                "can be used. Keep the columns that matter."
            )
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInputError(
                f"The table '{self.path}' has two columns named {twice!r}. Rename one of them."
            )

    def _read_schema(self, *, declared: bool) -> Any:
        if self.format == "parquet":
            return self._parquet().schema_arrow
        if self.format == "sheet":
            names = self._sheet.column_names
            types = self.types if declared else guess_types([self._sheet], names, PLAIN_TEXT)
            return arrow().schema([(name, type_of(types.get(name, "string"))) for name in names])
        names = distinct(csv_header(self.path, self.text)[: MAX_COLUMNS + 1])
        self._check_names(names)
        types = self.types
        if not declared:
            types = dict.fromkeys(names, "string")
            tables = csv_batches(self.path, names, types, self.text, strict=True)
            types = guess_types(tables, names, self.text)
        return arrow().schema([(name, type_of(types.get(name, "string"))) for name in names])

    def _parquet(self, coded: Sequence[str] = ()) -> Any:
        # One group of rows at a time: read ahead, the whole file would gather in memory.
        return arrow("parquet").ParquetFile(
            self.path,
            pre_buffer=False,
            page_checksum_verification=True,
            read_dictionary=list(coded) or None,
        )

    @cached_property
    def _sheet(self) -> Any:
        return read_sheet(self.path)

    def _batches(self, names: list[str]) -> Iterator[Any]:
        types = {name: plain_type(self.schema.field(name).type) for name in names}
        if self.format == "csv":
            yield from csv_batches(self.path, self.schema.names, types, self.text)
        elif self.format == "sheet":
            yield self._sheet
        else:
            # Codes of texts are kept: their cast would fail at a text that is not UTF-8.
            coded = filter(lambda each: arrow("types").is_dictionary(each.type), self.schema)
            file = self._parquet([f.name for f in coded if plain_type(f.type) == "string"])
            options: dict[str, Any] = {"columns": names, "use_threads": False}
            for group in range(file.num_row_groups):
                for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], **options):
                    yield arrow().Table.from_batches([batch])

    def _no_rows(self, names: Sequence[str]) -> Any:
        nothing = {name: arrow().nulls(0, self.schema.field(name).type) for name in names}
        return self._typed(arrow().table(nothing))

    def _typed(self, table: Any) -> Any:
        for index, field in enumerate(table.schema):
            declared = self.types.get(field.name, plain_type(self.schema.field(field.name).type))
            # Of whatever type, unless another is declared: but a text may be none, and dates
            # of any kind are left to `part_of`, for one cell can make times of all days.
            times = ("date", "timestamp")
            is_date = declared.startswith((*times, "string")) and str(field.type).startswith(times)
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
            told = "it is damaged, or has a different format from what its name says"
            if isinstance(error, MemoryError):
                told = "it is damaged, or needs more memory than there is"
            elif isinstance(error, OSError) and error.errno is not None:
                told = str(error.strerror)
            raise InvalidInputError(
                f"The file '{self.path}' cannot be read as {self.format}: {told}."
            ) from None


def read_sheet(file: Path) -> Any:
    """Return the sheet of a workbook as a table of texts: its first row names the columns."""
    try:
        calamine: Any = importlib.import_module("python_calamine")
    except ImportError:
        raise InvalidInputError(
            "This file needs the package python-calamine: pip install 'sfumato[excel]'."
        ) from None
    rows: list[list[Any]] = []
    try:
        book = calamine.CalamineWorkbook.from_path(str(file))
        if len(book.sheet_names) != 1:
            raise InvalidInputError(
                f"'{file}' holds {len(book.sheet_names)} sheets: save the one with the table as a "
                "workbook of its own, or as CSV."
            )
        sheet = book.get_sheet_by_index(0)
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
    return arrow().Table.from_arrays(columns, distinct([header[place] for place in named]))


def plain_type(declared: Any) -> str:
    """Return the name of the plain type that values of a type of Arrow are read as."""
    types = arrow("types")
    if types.is_dictionary(declared):
        return plain_type(declared.value_type)
    if types.is_decimal(declared):
        return "double"
    is_text = types.is_large_string(declared) or types.is_string_view(declared)
    return "string" if is_text else str(declared)


def write_table(
    table: Any, path: str | os.PathLike[str], metadata: Mapping[str, Any] | None = None
) -> Path | None:
    """Write a table, aside and renamed; metadata inside a Parquet file or in a note beside it."""
    if Path(path).suffix.lower() not in FORMATS:
        raise InvalidInputError(f"'{path}' cannot be written; choose .csv or .parquet.")
    own = {key: v for key, v in (table.schema.metadata or {}).items() if key != METADATA}
    if format_of(path) == "parquet":
        own |= {} if metadata is None else {METADATA: note_of(metadata)}
        with atomic_write(path) as file:
            table = table.replace_schema_metadata(own)
            arrow("parquet").write_table(table, file, write_page_checksum=True)
        return None
    delimiter = "\t" if Path(path).suffix.lower() == ".tsv" else ","
    options = arrow("csv").WriteOptions(delimiter=delimiter)
    beside = None if metadata is None else metadata_beside(path)
    with ExitStack() as stack:
        if beside is not None and metadata is not None:  # renamed only after the table
            stack.enter_context(atomic_write(beside)).write(note_of(metadata))
        arrow("csv").write_csv(table, stack.enter_context(atomic_write(path)), options)
    return beside


def metadata_beside(path: str | os.PathLike[str]) -> Path:
    """Return the file that carries the guarantee of a table of text."""
    return Path(path).with_name(Path(path).name + ".guarantee.json")


def note_of(metadata: Mapping[str, Any]) -> bytes:
    plain = {name: value for name, value in metadata.items() if name != NOTE_CHECKSUM}
    checksum = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    return (json.dumps({**plain, NOTE_CHECKSUM: checksum}, indent=2) + "\n").encode()


def parse_note(note: bytes, path: Path) -> dict[str, Any]:
    """Return what a note says; one that was changed would promise something else."""
    try:
        found: Any = json.loads(note)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidInputError(f"'{path}' contains no note of a guarantee, or is damaged.")
    if json.loads(note_of(found)) != found:
        raise InvalidInputError(f"The file '{path}' is damaged: its checksum does not match.")
    found.pop(NOTE_CHECKSUM)
    return dict(found)
