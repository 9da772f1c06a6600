"""CSV files, one line per record, read so that no line changes another.

How a CSV is written is declared in the file of bounds, or sniffed by `describe`; a fit never looks
at the rows to find it out. After the header each line is one record, blank ones included; where
`line_breaks` are declared, those in quotes end none. A record that cannot be read (a quote that is
not closed, a field too many, too long) misses all cells.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sfumato.core.constraints import Form, check_parameters, flag, list_of, one_of, refuse
from sfumato.exceptions import InvalidInputError
from sfumato.tables.columns import arrow, arrow_kind, read_as, type_of

BLOCK_BYTES = 2**24
MAX_LINE_LENGTH = 2**26
SAMPLE_BYTES = 2**22  # from which the format is guessed; no header is longer
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
QUOTE = '"'
WITH_POINT = re.compile(r"[+-]?\d+\.\d+")
WITH_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+")
IN_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")  # or three decimals
GROUPED = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?")
GUESSED_TYPES = ["int64", "double", "bool"]
GUESSED_TYPES += ["date32[day]", "time32[s]", "timestamp[s]", "timestamp[ns]"]


def _delimiter(value: Any, place: str, _: Any) -> None:
    if not isinstance(value, str) or len(value) != 1 or not value.isascii() or value == QUOTE:
        raise refuse(place, "one ASCII character, not a quote")


def any_text(value: Any, place: str, _: Any) -> None:
    if not isinstance(value, str):
        raise refuse(place, "a text")


FORM: Form = {
    "delimiter": _delimiter,
    "decimal": one_of(".", ","),
    "thousands": one_of("", ".", ",", " ", "'"),
    "encoding": one_of("utf-8", "cp1252", "latin-1"),  # one byte per letter, or ends alike
    "missing": list_of(any_text, least=0, kind=tuple),
    "line_breaks": flag(),
}


@dataclass(frozen=True)
class TextFormat:
    """How a table is written as text; fields are quoted by double quotes."""

    delimiter: str = ","
    decimal: str = "."
    thousands: str = ""  # by which digits are grouped
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ()  # cells that mean so, besides empty ones
    line_breaks: bool = False  # whether there may be some in quotes

    @classmethod
    def from_record(cls, record: Any) -> TextFormat:
        if not isinstance(record, Mapping) or not set(record) <= FORM.keys():
            raise InvalidInputError(f"[file] must have keys of {', '.join(FORM)}.")
        found = cls(**{**record, "missing": tuple(record.get("missing", ()))})
        check_parameters(found, FORM)
        if found.thousands == found.decimal:
            raise InvalidInputError("'thousands' and 'decimal' must differ.")
        return found

    def to_record(self) -> dict[str, Any]:
        default = vars(PLAIN_TEXT)
        return {key: value for key, value in vars(self).items() if value != default[key]}


PLAIN_TEXT = TextFormat()


def open_text(path: Path, text: TextFormat) -> tuple[BinaryIO, bytes, str]:
    """Open a file behind its first record; return that, and the encoding that its mark tells."""
    file: Any = io.BufferedReader(arrow().input_stream(path, compression="detect"))
    is_marked = file.peek(3)[:3] == codecs.BOM_UTF8
    file.read(3 * is_marked)
    line = more = file.readline(SAMPLE_BYTES)
    record = re.compile(_patterns(text)[0].encode())
    while text.line_breaks and more and len(line) < SAMPLE_BYTES and not record.match(line):
        line += (more := file.readline(SAMPLE_BYTES))
    return file, line, "utf-8" if is_marked else text.encoding


def read_records(path: Path, text: TextFormat) -> Iterator[tuple[bytes, NDArray[np.intp]]]:
    """Yield blocks of whole records in UTF-8, without carriage returns, and where each ends."""
    one_line = f"^{_patterns(replace(text, line_breaks=False))[0]}$"
    record, is_last = re.compile(_patterns(text)[0].encode()), False
    begun, held = b"", b""  # a line that is not at its end yet, and a record
    file, _, encoding = open_text(path, text)
    with file:
        while not is_last:
            read = file.read(BLOCK_BYTES)
            is_last = not read
            block = begun + (b"\n" if is_last and begun else read)
            cut = block.rfind(b"\n") + 1  # [Z3] a line ends where it ends, whatever it holds
            block, begun = block[:cut], block[cut : cut + MAX_LINE_LENGTH + 1]
            if (end := block.find(b"\n")) > MAX_LINE_LENGTH:
                block = block[end:]  # a blank line
            if encoding != "utf-8":  # its letters are one byte: no line changes another
                block = block.decode(encoding, "replace").encode()
            if b"\r" in block:  # alone it would end a line for Arrow
                block = block.replace(b"\r\n", b"\n").replace(b"\r", b" ")
            block, held = held + block, b""
            ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")) + 1
            if text.line_breaks and QUOTE.encode() in block:
                is_whole = arrow("compute").match_substring_regex(_lines(block, ends), one_line)
                starts, is_end, done = np.append(0, ends[:-1]), np.ones(len(ends), np.bool_), 0
                for place in np.flatnonzero(~np.asarray(is_whole)).tolist():
                    if (start := int(starts[place])) < done:
                        continue
                    found = record.match(block, start, start + MAX_LINE_LENGTH)
                    if found:  # [Z9] a record ends at the first line feed outside of quotes
                        done = found.end()
                        is_end[place : np.searchsorted(ends, done)] = False
                    elif not is_last and len(block) - start < MAX_LINE_LENGTH:
                        # Else its quote opens nothing: it is not closed, or too far away.
                        block, held, is_end[place:] = block[:start], block[start:], False
                        break
                ends = ends[is_end]
            if len(ends):
                yield block, ends


def _patterns(text: TextFormat, *, has_tails: bool = True) -> tuple[str, str]:
    """Return what matches a record that closes its quotes, and one field in quotes."""
    d, q = re.escape(text.delimiter), QUOTE
    inside = f"[^{q}]" if text.line_breaks else rf"[^{q}\n]"
    # A field is in quotes from its beginning, or not; quotes inside it mean nothing.
    quoted = f"{q}{inside}*(?:{q}{q}{inside}*)*{q}"
    tail = f"[^{q}{d}\\n][^{d}\\n]*"
    field = f"(?:{tail}|{quoted}(?:{tail if has_tails else ''})?|)"
    return f"{field}(?:{d}{field})*\\n", f"(^|{d}){quoted}"


def _lines(block: bytes, ends: NDArray[np.intp]) -> Any:
    offsets = arrow().py_buffer(np.append(0, ends).astype(np.int64))
    buffers = [None, offsets, arrow().py_buffer(block)]
    return arrow().LargeBinaryArray.from_buffers(arrow().large_binary(), len(ends), buffers)


def csv_header(path: Path, text: TextFormat) -> list[str]:
    file, line, encoding = open_text(path, text)
    file.close()
    for mark, told in NOT_TEXT.items():
        if line.startswith(mark):
            raise InvalidInputError(f"The file '{path}' cannot be read: {told}.")
    try:
        fields = io.StringIO(line.decode(encoding).rstrip("\r\n"), newline="\n")
        names = next(csv.reader(fields, delimiter=text.delimiter), [])
    except (UnicodeDecodeError, csv.Error):
        raise InvalidInputError(
            f"The first line of '{path}' cannot be read as csv: it is not written in {encoding} "
            "(name another: '--read encoding=cp1252', or encoding under [file] in the bounds), a "
            "name is too long, or lines end in carriage returns alone (save them with line feeds)."
        ) from None
    if not any(names):
        raise InvalidInputError(f"The first line of '{path}' names no columns.")
    return names


def distinct(names: Sequence[str]) -> list[str]:
    """Return names of columns; one that was there becomes x.1, x.2, as pandas calls them."""
    found: list[str] = []
    for name in names:
        free = (each for k in count(1) if (each := f"{name}.{k}") not in {*names, *found})
        found.append(next(free) if name in found else name)
    return found


def csv_batches(
    path: Path,
    names: Sequence[str],
    types: Mapping[str, str],
    text: TextFormat,
    *,
    strict: bool = False,  # for the eyes of the owner: what cannot be read is an error
) -> Iterator[Any]:
    """Yield tables of the columns in `types`: of these types where Arrow can, else of texts."""
    pa, compute = arrow(), arrow("compute")
    # Where lines are joined, text behind a quote says that it was not meant to close one.
    record, quoted = _patterns(text, has_tails=not (strict and text.line_breaks))
    is_common = text.decimal == "." and not text.thousands and not text.missing
    kinds = [{name: type_of(each) for name, each in types.items()}] * is_common
    kinds += [dict.fromkeys(types, pa.binary())]
    closed, n_lines = re.compile(record.encode()), 2  # to the first line of a record

    def parsed(block: bytes) -> Any:
        for each in kinds:
            with contextlib.suppress(pa.ArrowException):
                return _read_block(block, names, each, text)
        return None

    for block, ends in read_records(path, text):
        n_lines += block.count(b"\n") if strict else 0
        # Arrow refuses lines of another width. An open quote takes one along, or is in the last.
        table = None if strict and text.line_breaks else parsed(block)
        start = int(ends[-2]) if len(ends) > 1 else 0
        if table is None or len(table) != len(ends) or not closed.match(block, start):
            records = _lines(block, ends)
            bare = compute.replace_substring_regex(records, quoted, r"\1")
            is_good = compute.equal(compute.count_substring(bare, text.delimiter), len(names) - 1)
            is_good = compute.and_(compute.match_substring_regex(records, f"^{record}$"), is_good)
            blank = pa.scalar(b"\n", pa.large_binary())
            odd = compute.index(compute.or_(is_good, compute.equal(records, blank)), False).as_py()
            if strict and odd >= 0:
                n_lines -= block.count(b"\n", int(ends[odd - 1]) if odd else 0)
                raise InvalidInputError(
                    f"Line {n_lines} of '{path}' does not have as many fields as the first "
                    "line, or leaves a quote open. Close the quote, or save the table as Parquet."
                )
            # [Z4] each record alone; the others are kept as they are
            table = parsed(b"".join(compute.if_else(is_good, records, blank).to_pylist()))
        yield table if is_common else _common_cells(table, types, text)


def _read_block(
    block: bytes, names: Sequence[str], types: Mapping[str, Any], text: TextFormat
) -> Any:
    reader = arrow("csv")
    block = codecs.BOM_UTF8 * block.startswith(codecs.BOM_UTF8) + block  # Arrow takes one off
    return reader.read_csv(
        arrow().BufferReader(block),
        read_options=reader.ReadOptions(
            column_names=list(names), use_threads=False, block_size=len(block) + 1
        ),
        parse_options=reader.ParseOptions(
            delimiter=text.delimiter, ignore_empty_lines=False, newlines_in_values=text.line_breaks
        ),
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
    file, line, _ = open_text(path, PLAIN_TEXT)
    with file:
        block = line + file.read(BLOCK_BYTES)
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
    found["line_breaks"] = True
    text = TextFormat.from_record({**found, **known})
    file, line, _ = open_text(path, text)
    file.close()
    broken = (block.count(b"\n") > len(ends) for block, ends in read_records(path, text))
    return replace(text, line_breaks=line.count(b"\n") > 1 or any(broken))
