"""How a table is written as text: declared in the file of bounds, or sniffed by `describe`.

`fit` obeys what is declared and never looks at the rows to find it out.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, BinaryIO

from sfumato.exceptions import InvalidInputError

DELIMITERS = (",", ";", "\t", "|")
MAX_LINE_LENGTH = 100_000  # of those that are looked at: csv takes no longer field
# Words that many programs and people write for what is missing.
MARKERS = (
    *("NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "nan", "NaN", "-", "--", "?", "."),
    *("k.A.", "k. A.", "keine Angabe", "unknown", "missing"),
)
MAX_MARKERS = 5
BLOCK_BYTES = 2**24
# First bytes of files that are not text in an encoding which we read, and what to do with them.
# The mark of UTF-16 is the beginning of that of UTF-32.
NOT_TEXT = {
    codecs.BOM_UTF32_LE: "it is written in UTF-32; save it as UTF-8",
    codecs.BOM_UTF32_BE: "it is written in UTF-32; save it as UTF-8",
    codecs.BOM_UTF16_LE: "it is written in UTF-16; save it as UTF-8",
    codecs.BOM_UTF16_BE: "it is written in UTF-16; save it as UTF-8",
    b"\x1f\x8b": "it is compressed with gzip; add .gz to its name",
    b"\x28\xb5\x2f\xfd": "it is compressed with Zstandard; add .zst to its name",
    b"PK\x03\x04": "it is a workbook or another ZIP archive; name a workbook .xlsx",
}
WITH_POINT = re.compile(r"[+-]?\d+\.\d+")
WITH_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+")
GROUPED = re.compile(r"[+-]?\d{1,3}(\.\d{3})+(,\d+)?")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class TextFormat:
    """How a table is written as text.

    delimiter, quote: What stands between fields, and around a field that holds one.
    decimal, thousands: What stands before decimals, and between groups of digits (nothing by
        default).
    encoding: "utf-8", or an encoding with one byte per letter, such as "cp1252".
    missing: Cells that mean "missing", besides empty ones.
    """

    delimiter: str = ","
    quote: str = '"'
    decimal: str = "."
    thousands: str = ""
    encoding: str = "utf-8"
    missing: tuple[str, ...] = ()

    @classmethod
    def from_record(cls, record: Any) -> TextFormat:
        """Check what is declared in [file]."""
        known = {each.name for each in fields(cls)}
        if not isinstance(record, Mapping) or not set(record) <= known:
            raise InvalidInputError(f"[file] must have keys of {', '.join(sorted(known))}.")
        found = cls(**{**record, "missing": tuple(record.get("missing", ()))})
        for key in ("delimiter", "quote", "decimal"):
            value = getattr(found, key)
            if not isinstance(value, str) or len(value) != 1 or not value.isascii():
                raise InvalidInputError(f"[file]: '{key}' must be one ASCII character.")
        if found.decimal not in ".," or found.thousands not in ("", ".", ",", " ", "'"):
            raise InvalidInputError("[file]: 'decimal' must be a point or a comma.")
        if found.thousands == found.decimal or found.delimiter == found.quote:
            raise InvalidInputError("[file]: one character cannot mean two things.")
        if not all(isinstance(mark, str) and mark for mark in found.missing):
            raise InvalidInputError("[file]: 'missing' must list texts.")
        if not _is_plain(found.encoding):
            raise InvalidInputError(
                f"[file]: 'encoding' is {found.encoding!r}; it must be utf-8 or have one byte per "
                "letter, such as cp1252. Save the table as UTF-8."
            )
        return found

    def to_record(self) -> dict[str, Any]:
        """Return what `from_record` reads."""
        usual = vars(PLAIN_TEXT)
        return {key: value for key, value in vars(self).items() if value != usual[key]}

    @property
    def is_common(self) -> bool:
        """Whether cells can be read as they are."""
        return self.decimal == "." and not self.thousands and not self.missing

    @property
    def closed_line(self) -> str:
        """Pattern of a line without a quote left open, as Arrow reads it.

        A field is in quotes from its beginning, or not; quotes inside it mean nothing.
        """
        d, q = re.escape(self.delimiter), re.escape(self.quote)
        tail = f"[^{q}{d}\\n][^{d}\\n]*"
        field = f"(?:{tail}|{q}(?:[^{q}\\n]|{q}{q})*{q}(?:{tail})?|)"
        return f"^{field}(?:{d}{field})*\\n$"

    @property
    def quoted_field(self) -> str:
        """Pattern of a field in quotes."""
        d, q = re.escape(self.delimiter), re.escape(self.quote)
        return f"(^|{d}){q}(?:[^{q}\\n]|{q}{q})*{q}"


PLAIN_TEXT = TextFormat()


def _is_plain(encoding: Any) -> bool:
    """Return whether an encoding is UTF-8, or one byte per letter with ASCII inside."""
    try:
        if codecs.lookup(encoding).name == "utf-8":
            return True
        letters = [bytes([byte]).decode(encoding, "replace") for byte in range(256)]
    except (LookupError, TypeError, ValueError):
        return False
    has_ascii = letters[:128] == list(map(chr, range(128)))
    return has_ascii and all(len(letter) == 1 for letter in letters)


def sniffed(sample: bytes, encoding: str = "utf-8", **known: Any) -> TextFormat:
    """Find out how a table is written, from its first lines; for the eyes of its owner."""
    lines = sample.removeprefix(codecs.BOM_UTF8).decode(encoding, "replace").splitlines()
    lines = [line for line in lines if len(line) <= MAX_LINE_LENGTH]
    is_single = sample.count(b"'") > 4 * sample.count(b'"') and _quotes(lines)
    quote = known.get("quote") or ("'" if is_single else '"')
    delimiter = known.get("delimiter") or max(DELIMITERS, key=lambda d: _fit(lines, d, quote))
    rows = list(csv.reader(lines, delimiter=delimiter, quotechar=quote))
    body = [row for row in rows[1:] if len(row) == len(rows[0])]
    columns = [[cell.strip() for cell in column] for column in zip(*body, strict=True)]
    found: dict[str, Any] = {"delimiter": delimiter, "quote": quote, "encoding": encoding}
    found |= _decimals(columns, delimiter) | known
    text = TextFormat(**found)
    return TextFormat(**{**vars(text), "missing": known.get("missing", _markers(columns, text))})


def _decimals(columns: Sequence[Sequence[str]], delimiter: str) -> dict[str, str]:
    """Find out whether numbers are written with a comma, and whether digits stand in groups."""
    cells = [cell for column in columns for cell in column]
    commas = sum(1 for cell in cells if WITH_COMMA.fullmatch(cell))
    points = sum(1 for cell in cells if WITH_POINT.fullmatch(cell) and not GROUPED.fullmatch(cell))
    if delimiter == "," or commas <= points:
        return {}
    return {"decimal": ",", "thousands": "." if any(map(GROUPED.fullmatch, cells)) else ""}


def encoding_of(file: BinaryIO) -> str:
    """Find out how letters are written, from all of a file: one name far down may need it."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    start = file.read(BLOCK_BYTES)
    for mark, told in NOT_TEXT.items():
        if start.startswith(mark):
            raise InvalidInputError(told)
    try:
        while start:
            decoder.decode(start)
            start = file.read(BLOCK_BYTES)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def _quotes(lines: Sequence[str]) -> bool:
    quoted = re.compile(r"(^|[,;\t|])'[^']*'($|[,;\t|])")
    return sum(bool(quoted.search(line)) for line in lines) > len(lines) / 2


def _fit(lines: Sequence[str], delimiter: str, quote: str) -> tuple[float, int]:
    """Return the share of lines that have as many fields as the header, if it has several."""
    widths = [len(row) for row in csv.reader(lines, delimiter=delimiter, quotechar=quote)]
    if not widths or widths[0] < 2:
        return 0.0, 0
    return Counter(widths)[widths[0]] / len(widths), widths[0]


def _markers(columns: Sequence[Sequence[str]], text: TextFormat) -> tuple[str, ...]:
    """Return texts that stand for missing cells: known words, and few odd ones among numbers."""
    found: dict[str, None] = {}
    for column in columns:
        values = Counter(cell for cell in column if cell)
        odd = [cell for cell in values if not _is_number(cell, text)]
        known = [cell for cell in odd if cell in MARKERS]
        n_odd = sum(values[cell] for cell in odd)
        few = len(odd) <= MAX_MARKERS and n_odd <= 0.5 * values.total()
        is_number = few and len(values) - len(odd) > len(odd)
        found |= dict.fromkeys(odd if is_number else known)
    return tuple(found)


def _is_number(cell: str, text: TextFormat) -> bool:
    if text.decimal == ",":
        cell = cell.replace(".", "" if text.thousands == "." else "?").replace(",", ".")
    return NUMBER.fullmatch(cell) is not None
