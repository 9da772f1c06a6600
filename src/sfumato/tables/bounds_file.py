"""The file of public bounds (``bounds.toml``): TOML, written to be read by a person."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError

DAY = re.compile(r"\d{4}-\d\d-\d\d")

HEAD = """\
# Public bounds of a table, for `sfumato fit` and `sfumato fabricate`.
#
# Bounds are facts that are known WITHOUT the data: the scale of a form, a physical
# range, a list of codes. Values proposed by `sfumato describe` were taken from the data and are not
# private. Replace them with what you know. Values outside the bounds are moved to the nearest
# bound. `sfumato confirm` asks you about each column and then sets confirmed = true.
#
# person      the column of IDs if a person has several rows (then fit with --unit person), and
# person_rows how many rows of a person are used at most; otherwise one_row_per_person = true
# [file]      how a text file is written: delimiter, quote, decimal, thousands, encoding, and
#             the texts that mean a missing cell; a fit follows this and never guesses
# type        every cell is read as this type; what cannot be read counts as missing
# lower/upper the range of a number; for a date, its first and last day
# log         true: use the logarithm of the number (log(1 + x) if lower is 0)
# categories  all possible values of a column that is not a number; other values count as missing
# ordered     true: the order of the categories has a meaning; they become one number
# missing     true: a missing cell gets an indicator of its own
# fill        the value used for a missing cell; without missing or fill, the middle of the range
# decimals    decimals of fabricated numbers
# weights     public weights of categories, by which rare ones are redrawn in fabricated tables
# parts       the parts of a date to use: "time", "year", "month", "weekday", "hour"
# format      how a date is written, such as "%d.%m.%Y"
# left_out    true: the column is not read
"""


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a file of bounds as plain values."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInputError(
            f"There is no bounds file '{path}'. `sfumato describe` proposes one."
        ) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "not text"
        raise InvalidInputError(
            f"The bounds in '{path}' are not written in TOML: {reason}."
        ) from None


def write(text: str, path: str | os.PathLike[str]) -> None:
    """Write a file of bounds, aside and renamed."""
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))


def text_of(record: Mapping[str, Any], notes: Mapping[str, str], target_note: str = "") -> str:
    """Return the text of the file."""
    plain = {key: value for key, value in record.items() if not isinstance(value, Mapping)}
    parts = [HEAD, "\n".join([*_pairs(plain), ""])]
    for key, value in record.items():
        if isinstance(value, Mapping) and key != "columns":
            note = target_note if key == "target" else ""
            parts.append("\n".join([f"[{key}]", *_comment(note), *_pairs(value), ""]))
    for name, column in record["columns"].items():
        title = f"[columns.{_toml(name)}]"
        parts.append("\n".join([title, *_comment(notes.get(name, "")), *_pairs(column), ""]))
    return "\n".join(parts)


def _comment(note: str) -> list[str]:
    text = " ".join("".join(c if c.isprintable() else " " for c in note).split())
    return [f"# {text}"] if text else []


def _pairs(values: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_toml(value, key)}" for key, value in values.items()]


def _toml(value: Any, key: str = "") -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        if key in ("lower", "upper") and DAY.fullmatch(value):
            return value
        # a basic string of TOML is one of JSON, but for one character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
