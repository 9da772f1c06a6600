"""Files of text, one line per record: CSV and JSON lines, read so that no line changes another.

After the header of a CSV, each line is one record, blank ones included: their number is a fact
about lines, and no quote or bracket can swallow the next. A line that cannot be read (a quote that
is not closed, a field too many, no JSON object, too long) is a record whose cells are all missing.
Cells come as texts or bytes; `columns.read_as` makes them what was declared.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, BinaryIO, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.tables.columns import arrow, arrow_kind, read_as, text_of, texts, type_of
from sfumato.tables.text import PLAIN_TEXT, TextFormat

BLOCK_BYTES = 2**24
MAX_LINE_LENGTH = 2**26
MARK = b"\xef\xbb\xbf"  # with which some programs begin a file of UTF-8
# Beginnings of files of other formats: packed, Parquet, Arrow.
OTHER_FORMATS = (
    b"\x1f\x8b",
    b"PK\x03\x04",
    b"BZh",
    b"\xfd7zXZ",
    b"\x28\xb5\x2f\xfd",
    b"PAR1",
    b"ARROW1",
)
# What the cells of JSON are in Python where their column holds nothing odd.
PLAIN = {"f": {float, NoneType}, "i": {int, NoneType}, "u": {int, NoneType}, "b": {bool, NoneType}}
JSON_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
}


def count_lines(path: Path, *, header: bool, blank: bool = True) -> int:
    """Return the number of records, or of those lines that are not blank."""
    if blank:
        return sum(block.count(b"\n") for block in _blocks(path, header=header))
    return sum(
        int((np.diff(_ends(block.replace(b"\r", b"")), prepend=0) > 1).sum())
        for block in _blocks(path, header=header)
    )


def odd_line(path: Path, form: str, text: TextFormat = PLAIN_TEXT) -> str:
    """Return which line of a text has other fields or types than those before it, for its owner."""
    with contextlib.suppress(csv.Error, OSError, EOFError, zlib.error), opened(path) as raw:
        file = io.TextIOWrapper(raw, encoding="latin-1", newline="")
        found = _odd_csv(file, text) if form == "csv" else _odd_json(file)
        return "" if found is None else f" Line {found[0]}: {found[1]}."
    return ""


def _odd_csv(file: TextIO, text: TextFormat) -> tuple[int, str] | None:
    reader = csv.reader(file, delimiter=text.delimiter, quotechar=text.quote)
    width = len(next(reader, []))
    for row in reader:
        if row and len(row) != width:
            return (
                reader.line_num,
                f"{len(row)} field{'s' * (len(row) > 1)}, where the first line has {width}",
            )
    return None


def _odd_json(file: TextIO) -> tuple[int, str] | None:
    kinds: dict[str, str] = {}
    for number, line in enumerate(file, start=1):
        try:
            record = dict(json.loads(line) if line.strip() else {})
        except (ValueError, TypeError, RecursionError):
            return number, "it is not a JSON object"
        for name, value in record.items():
            kind = JSON_KINDS.get(type(value), "a list or an object")
            if value is not None and kinds.setdefault(name, kind) != kind:
                return number, f"{name!r} is {kind}, where it was {kinds[name]} before"
    return None


def opened(path: Path) -> BinaryIO:
    """Open a file of text, packed by gzip, by Zstandard, or not."""
    if path.suffix == ".zst":
        return cast("BinaryIO", io.BufferedReader(arrow().input_stream(path, compression="zstd")))
    return cast("BinaryIO", gzip.open(path) if path.suffix == ".gz" else path.open("rb"))


def _blocks(path: Path, *, header: bool) -> Iterator[bytes]:
    """Yield the file in blocks of whole lines, without its header; a line too long is blank."""
    with opened(path) as file:
        _skip_mark(file)
        if header:
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


def _skip_mark(file: BinaryIO) -> None:
    if cast("io.BufferedReader", file).peek(len(MARK))[: len(MARK)] == MARK:
        file.read(len(MARK))


# CSV ------------------------------------------------------------------------------------------


def csv_header(path: Path, longest: int, text: TextFormat = PLAIN_TEXT) -> list[str]:
    """Return the names of the columns: the fields of the first line."""
    with opened(path) as file:
        _skip_mark(file)
        line = _decoded(file.readline(longest), path, text.encoding).rstrip("\r\n")
    try:
        names = next(csv.reader([line], delimiter=text.delimiter, quotechar=text.quote), [])
    except csv.Error:
        raise InvalidInputError(
            f"The first line of '{path}' cannot be read as names of columns: one is too long."
        ) from None
    if not any(names):
        raise InvalidInputError(f"The first line of '{path}' names no columns.")
    return names


def _decoded(header: bytes, path: Path, encoding: str) -> str:
    try:
        return header.decode(encoding)
    except UnicodeDecodeError:
        raise InvalidInputError(
            f"The file '{path}' cannot be read as csv: its first line is not written in {encoding}."
            " Say how it is written: '--read encoding=cp1252', or encoding under [file] in the "
            "bounds."
        ) from None


def csv_batches(
    path: Path, names: Sequence[str], types: Mapping[str, str], text: TextFormat = PLAIN_TEXT
) -> Iterator[Any]:
    """Yield tables of the columns in `types`: of these types where Arrow can, else of bytes.

    Where Arrow can read all cells of a block, it reads each of them as `read_as` would.
    """
    declared = {name: type_of(each) for name, each in types.items()}
    plain = dict.fromkeys(types, arrow().binary())
    for raw in _blocks(path, header=True):
        block = raw
        if text.encoding != "utf-8":  # a letter of it is one byte, so that no line changes another
            block = raw.decode(text.encoding, "replace").encode()
        readable = _readable(block, len(names), text)
        if text.is_common:
            try:
                yield _read_block(readable, names, declared, text)
                continue
            except arrow().ArrowException:
                pass
        found = _read_block(readable, names, plain, text)
        yield found if text.is_common else _common_cells(found, types, text)


def _common_cells(table: Any, types: Mapping[str, str], text: TextFormat) -> Any:
    """Return markers of missing cells as missing, and numbers with a point; each cell by itself."""
    compute, none = arrow("compute"), arrow().scalar(None, arrow().string())
    columns = {}
    for name in table.column_names:
        cells = compute.utf8_trim_whitespace(read_as(table[name], "string"))
        if text.missing:
            marks = arrow().array(list(text.missing), arrow().string())
            cells = compute.if_else(compute.is_in(cells, value_set=marks), none, cells)
        if arrow_kind(types[name]):
            cells = common_numbers(cells, text)
        columns[name] = cells
    return arrow().table(columns)


def common_numbers(cells: Any, text: TextFormat) -> Any:
    """Write numbers with a point and without groups; where a comma is due, a point is no number."""
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


def _read_block(
    block: Any, names: Sequence[str], types: Mapping[str, Any], text: TextFormat
) -> Any:
    reader = arrow("csv")
    return reader.read_csv(
        arrow().BufferReader(block),
        read_options=reader.ReadOptions(
            column_names=list(names), use_threads=False, block_size=len(block) + 1
        ),
        parse_options=reader.ParseOptions(
            delimiter=text.delimiter, quote_char=text.quote, ignore_empty_lines=False
        ),
        convert_options=reader.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            strings_can_be_null=True,  # an empty cell is a missing one
            null_values=[""],
        ),
    )


def _good_lines(block: bytes, n_fields: int, text: TextFormat) -> Any:
    """Return which lines have as many fields as the header, and no quote left open."""
    compute, lines = arrow("compute"), _lines(block)
    if text.quote.encode() not in block:
        return compute.equal(compute.count_substring(lines, text.delimiter), n_fields - 1)
    is_closed = compute.match_substring_regex(lines, text.closed_line)
    bare = compute.replace_substring_regex(lines, text.quoted_field, r"\1")
    is_full = compute.equal(compute.count_substring(bare, text.delimiter), n_fields - 1)
    return compute.and_(is_closed, is_full)


def _readable(block: bytes, n_fields: int, text: TextFormat = PLAIN_TEXT) -> Any:
    """Blank the lines that have not as many fields as the header, or a quote left open."""
    if b"\r" in block:  # by itself it would end a line for Arrow
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b" ")
    pa, compute = arrow(), arrow("compute")
    is_good, lines = _good_lines(block, n_fields, text), _lines(block)
    if is_good.true_count == len(lines):
        return pa.py_buffer(block)
    # [Z4] each line by itself; the others are kept as they are
    good = compute.if_else(is_good, lines, pa.scalar(b"\n", pa.large_binary()))
    return pa.py_buffer(b"".join(good.to_pylist()))


def _lines(block: bytes) -> Any:
    """Return the lines of a block, their ends included, without copying them."""
    pa = arrow()
    offsets = np.concatenate([[0], _ends(block)])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(block)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _ends(block: bytes) -> NDArray[np.int64]:
    found = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")) + 1
    return found.astype(np.int64)


# JSON lines -----------------------------------------------------------------------------------


def json_names(path: Path, most: int) -> list[str]:
    """Return at most so many keys of the first line; refuse a file of another format."""
    with opened(path) as file:
        start = file.read(8)
    if start.startswith(OTHER_FORMATS):
        raise InvalidInputError(
            f"The file '{path}' has a different format from what its name says."
        )
    first = next(_blocks(path, header=False), b"\n").partition(b"\n")[0]
    return list(_record(first))[:most]


def json_batches(path: Path, types: Mapping[str, str]) -> Iterator[Any]:
    """Yield tables of the columns in `types`: of these types where all cells are, else of texts."""
    for block in _blocks(path, header=False):
        records = [_record(line) for line in block.split(b"\n")[:-1]]
        columns = {name: _column([r.get(name) for r in records], types[name]) for name in types}
        yield arrow().table(columns)


def _record(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _column(cells: list[Any], declared: str) -> Any:
    kinds = set(map(type, cells))
    if kinds <= PLAIN.get(
        arrow_kind(declared), {str, NoneType}
    ):  # then Arrow reads each as `read_as`
        with contextlib.suppress(arrow().ArrowException, OverflowError, UnicodeError):
            return arrow().array(cells, type_of(declared))
    return texts([text_of(cell) for cell in cells])
