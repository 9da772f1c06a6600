"""CSV files, one line per record, read so that no line changes another.

How a CSV is written is declared in the file of bounds, or sniffed by `describe`; a fit never looks
at the rows to find it out. After the header each line is one record, blank ones included; one that
cannot be read (a quote that is not closed, a field too many, too long) misses all cells. Cells come
as texts or bytes; `columns.read_as` makes them what was declared.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from sfumato.core.constraints import Form, check_parameters, list_of, one_of, refuse
from sfumato.exceptions import InvalidInputError
from sfumato.tables.columns import arrow, arrow_kind, read_as, type_of

BLOCK_BYTES = 2**24
MAX_LINE_LENGTH = 2**26
SAMPLE_BYTES = 2**22  # from which the format of a text file is guessed
DELIMITERS = (",", ";", "\t", "|")
# Words that many programs and people write for what is missing.
MARKERS = (
    *("NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "nan", "NaN", "-", "--", "?", "."),
    *("k.A.", "k. A.", "keine Angabe", "unknown", "missing"),
)
# First bytes of files that are not text in an encoding which we read, and what to do with them.
NOT_TEXT = {
    codecs.BOM_UTF16_LE: "it is written in UTF-16; save it as UTF-8",
    codecs.BOM_UTF16_BE: "it is written in UTF-16; save it as UTF-8",
    b"\x1f\x8b": "it is compressed with gzip; add .gz to its name",
    b"PK\x03\x04": "it is a workbook or another ZIP archive; name a workbook .xlsx",
    b"PAR1": "it is a Parquet file; name it .parquet",
}
ENCODINGS = ("utf-8", "cp1252", "latin-1")  # one byte per letter, or lines that end alike
QUOTE = '"'
WITH_POINT = re.compile(r"[+-]?\d+\.\d+")
WITH_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+")
IN_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")  # or three decimals
GROUPED = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?")
GUESSED_TYPES = (
    *("int64", "double", "bool", "date32[day]", "time32[s]", "timestamp[s]", "timestamp[ns]"),
)


def _delimiter(value: Any, place: str, _: Any) -> None:
    if not isinstance(value, str) or len(value) != 1 or not value.isascii() or value == QUOTE:
        raise refuse(place, "one ASCII character, not a quote")


def any_text(value: Any, place: str, _: Any) -> None:
    """Ask for a text."""
    if not isinstance(value, str):
        raise refuse(place, "a text")


FORM: Form = {
    "delimiter": _delimiter,
    "decimal": one_of(".", ","),
    "thousands": one_of("", ".", ",", " ", "'"),
    "encoding": one_of(*ENCODINGS),
    "missing": list_of(any_text, least=0, kind=tuple),
}


@dataclass(frozen=True)
class TextFormat:
    """How a table is written as text; fields are quoted by double quotes."""

    delimiter: str = ","
    decimal: str = "."
    thousands: str = ""  # by which digits are grouped
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ()  # cells that mean so, besides empty ones

    @classmethod
    def from_record(cls, record: Any) -> TextFormat:
        """Check what is declared in [file]."""
        if not isinstance(record, Mapping) or not set(record) <= FORM.keys():
            raise InvalidInputError(f"[file] must have keys of {', '.join(FORM)}.")
        found = cls(**{**record, "missing": tuple(record.get("missing", ()))})
        check_parameters(found, FORM)
        if found.thousands == found.decimal:
            raise InvalidInputError("'thousands' and 'decimal' must differ.")
        return found

    def to_record(self) -> dict[str, Any]:
        """Return what `from_record` reads."""
        default = vars(PLAIN_TEXT)
        return {key: value for key, value in vars(self).items() if value != default[key]}


PLAIN_TEXT = TextFormat()


def open_text(path: Path) -> BinaryIO:
    """Open a file of text, compressed as its suffix says or not, behind its byte order mark."""
    file: Any = io.BufferedReader(arrow().input_stream(path, compression="detect"))
    if file.peek(3)[:3] == codecs.BOM_UTF8:
        file.read(3)
    return cast("BinaryIO", file)


def read_blocks(path: Path) -> Iterator[bytes]:
    """Yield the file in blocks of whole lines, without its header; a line too long is blank."""
    with open_text(path) as file:
        file.readline()
        begun, size = bytearray(), 0  # the line that is not at its end yet, and its length
        while block := file.read(BLOCK_BYTES):
            end = block.find(b"\n") + 1
            size += end or len(block)
            if size <= MAX_LINE_LENGTH:
                begun += block[: end or len(block)]
            if not end:
                continue
            cut = block.rfind(b"\n") + 1  # [Z3] a line ends where it ends, whatever it holds
            yield (bytes(begun) if size <= MAX_LINE_LENGTH else b"\n") + block[end:cut]
            begun, size = bytearray(block[cut:]), len(block) - cut
        if size:
            yield bytes(begun) + b"\n" if size <= MAX_LINE_LENGTH else b"\n"


def csv_header(path: Path, line: bytes, text: TextFormat) -> list[str]:
    """Return the names of the columns: the fields of the first line."""
    try:
        decoded = line.decode(text.encoding).rstrip("\r\n")
        names = next(csv.reader([decoded], delimiter=text.delimiter), [])
    except UnicodeDecodeError:
        raise InvalidInputError(
            f"The file '{path}' cannot be read as csv: its first line is not written in "
            f"{text.encoding}. Say how it is written: '--read encoding=cp1252', or encoding under "
            "[file] in the bounds."
        ) from None
    except csv.Error:
        raise InvalidInputError(
            f"The first line of '{path}' cannot be read as names of columns: one is too long, or "
            "lines end in carriage returns alone; save them with line feeds."
        ) from None
    if not any(names):
        raise InvalidInputError(f"The first line of '{path}' names no columns.")
    return names


def csv_batches(
    path: Path,
    names: Sequence[str],
    types: Mapping[str, str],
    text: TextFormat,
    *,
    strict: bool = False,
) -> Iterator[Any]:
    """Yield tables of the columns in `types`: of these types where Arrow can, else of texts.

    With `strict`, for the eyes of the owner, a line that cannot be read is an error.
    """
    pa, compute = arrow(), arrow("compute")
    d, q = re.escape(text.delimiter), QUOTE
    # A field is in quotes from its beginning, or not; quotes inside it mean nothing.
    tail = f"[^{q}{d}\\n][^{d}\\n]*"
    field = f"(?:{tail}|{q}(?:[^{q}\\n]|{q}{q})*{q}(?:{tail})?|)"
    closed_line = f"^{field}(?:{d}{field})*\\n$"
    quoted_field = f"(^|{d}){q}(?:[^{q}\\n]|{q}{q})*{q}"
    declared = {name: type_of(each) for name, each in types.items()}
    is_common = text.decimal == "." and not text.thousands and not text.missing
    n_before = 1
    for block in read_blocks(path):
        if text.encoding != "utf-8":  # a letter of it is one byte, so that no line changes another
            block = block.decode(text.encoding, "replace").encode()
        if b"\r" in block:  # alone it would end a line for Arrow
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b" ")
        ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")) + 1
        offsets = pa.py_buffer(np.concatenate([[0], ends]).astype(np.int64))
        buffers = [None, offsets, pa.py_buffer(block)]  # lines with their ends, not copied
        lines = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends), buffers)
        if QUOTE.encode() in block:
            bare = compute.replace_substring_regex(lines, quoted_field, r"\1")
            is_good = compute.equal(compute.count_substring(bare, text.delimiter), len(names) - 1)
            is_good = compute.and_(compute.match_substring_regex(lines, closed_line), is_good)
        else:
            is_good = compute.equal(compute.count_substring(lines, text.delimiter), len(names) - 1)
        if is_good.true_count < len(lines):
            blank = pa.scalar(b"\n", pa.large_binary())
            odd = compute.index(compute.or_(is_good, compute.equal(lines, blank)), False).as_py()
            if strict and odd >= 0:
                raise InvalidInputError(
                    f"Line {n_before + odd + 1} of '{path}' does not have as many fields as the "
                    "first line, or leaves a quote open. Each line is read as one record: close "
                    "the quote, remove line breaks inside quotes, or save the table as Parquet."
                )
            # [Z4] each line alone; the others are kept as they are
            block = b"".join(compute.if_else(is_good, lines, blank).to_pylist())
        n_before += len(ends)
        table = None
        if is_common:
            with contextlib.suppress(pa.ArrowException):
                table = _read_block(block, names, declared, text)
        if table is None:
            table = _read_block(block, names, dict.fromkeys(types, pa.binary()), text)
        yield table if is_common else _common_cells(table, types, text)


def _read_block(
    block: bytes, names: Sequence[str], types: Mapping[str, Any], text: TextFormat
) -> Any:
    reader = arrow("csv")
    return reader.read_csv(
        arrow().BufferReader(block),
        read_options=reader.ReadOptions(
            column_names=list(names), use_threads=False, block_size=len(block) + 1
        ),
        parse_options=reader.ParseOptions(delimiter=text.delimiter, ignore_empty_lines=False),
        convert_options=reader.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            strings_can_be_null=True,  # an empty cell is a missing one
            null_values=[""],
        ),
    )


def _common_cells(table: Any, types: Mapping[str, str], text: TextFormat) -> Any:
    """Return markers of missing cells as missing, and numbers with a point; each cell alone."""
    compute, none = arrow("compute"), arrow().scalar(None, arrow().string())
    columns = {}
    for name in table.column_names:
        cells = compute.utf8_trim_whitespace(read_as(table[name], "string"))
        if text.missing:
            marks = arrow().array(list(text.missing), arrow().string())
            cells = compute.if_else(compute.is_in(cells, value_set=marks), none, cells)
        columns[name] = common_numbers(cells, text) if arrow_kind(types[name]) else cells
    return arrow().table(columns)


def common_numbers(cells: Any, text: TextFormat) -> Any:
    """Write numbers with a point and without groups; where a comma is due, a point is not one."""
    compute = arrow("compute")
    if text.thousands:
        t, d = re.escape(text.thousands), re.escape(text.decimal)
        grouped = compute.match_substring_regex(cells, rf"^[+-]?\d{{1,3}}({t}\d{{3}})+({d}\d*)?$")
        bare = compute.replace_substring(cells, text.thousands, "")
        cells = compute.if_else(grouped, bare, cells)
    if text.decimal != ".":
        cells = compute.replace_substring(cells, ".", "?")
        cells = compute.replace_substring(cells, text.decimal, ".")
    return cells


def guess_types(tables: Iterable[Any], names: Sequence[str], text: TextFormat) -> dict[str, str]:
    """Read the types of columns of texts off all their cells, for the eyes of the owner."""
    pa, compute = arrow(), arrow("compute")
    possible, filled = {name: list(GUESSED_TYPES) for name in names}, set()
    marks = pa.array(["", *MARKERS])
    for table in tables:
        for name in names:
            cells = compute.utf8_trim_whitespace(read_as(table[name], "string")).drop_null()
            cells = cells.filter(compute.invert(compute.is_in(cells, value_set=marks)))
            filled |= {name} if len(cells) else set()
            for each in tuple(possible[name]):
                try:
                    (common_numbers(cells, text) if arrow_kind(each) else cells).cast(type_of(each))
                except pa.ArrowException:
                    possible[name].remove(each)
    return {name: [*possible[name], "string"][0] if name in filled else "string" for name in names}


def sniff_text(path: Path, **known: Any) -> TextFormat | None:
    """Find out how a table is written, from its first lines; for the eyes of its owner."""
    with open_text(path) as file:
        block = file.read(BLOCK_BYTES)
        sample = block[:SAMPLE_BYTES]
        encoding, decoder = known.get("encoding"), codecs.getincrementaldecoder("utf-8")()
        try:  # by all of the file: one name far down may need it
            while block and encoding is None:
                decoder.decode(block)
                block = file.read(BLOCK_BYTES)
            decoder.decode(b"", final=encoding is None)
        except UnicodeDecodeError:
            encoding = "cp1252"
    encoding = encoding or "utf-8"
    sample = sample[: sample.rfind(b"\n") + 1] if len(sample) == SAMPLE_BYTES else sample
    if not sample.strip():
        return None
    lines = sample.decode(encoding, "replace").splitlines()
    lines = [line for line in lines if len(line) <= 100_000]  # csv takes no longer field

    def fit(delimiter: str) -> tuple[float, int]:  # lines with as many fields as the header
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter)] or [0]
        return widths.count(widths[0]) / len(widths) if widths[0] > 1 else 0.0, widths[0]

    delimiter = known.get("delimiter") or max(DELIMITERS, key=fit)
    rows = list(csv.reader(lines, delimiter=delimiter))
    cells = [cell.strip() for row in rows[1:] if len(row) == len(rows[0]) for cell in row]
    found: dict[str, Any] = {"delimiter": delimiter, "encoding": encoding}
    found["missing"] = tuple(dict.fromkeys(cell for cell in cells if cell in MARKERS))
    commas = sum(1 for cell in cells if WITH_COMMA.fullmatch(cell))
    points = sum(1 for cell in cells if WITH_POINT.fullmatch(cell) and not GROUPED.fullmatch(cell))
    if delimiter != "," and commas > points:
        found |= {"decimal": ",", "thousands": "." if any(map(GROUPED.fullmatch, cells)) else ""}
    return TextFormat.from_record({**found, **known})
