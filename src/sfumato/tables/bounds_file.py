"""The file of public bounds (``bounds.toml``): written to be read, checked when it is read back."""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sfumato.atomic_file import written_aside
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.tables.columns import arrow_kind
from sfumato.tables.encoding import TableEncoding
from sfumato.tables.form import TableForm

__all__ = ["LAYOUT", "Column", "TableBounds", "Target"]

LAYOUT = 1  # a file of a higher layout is refused: its words may mean something else
DATES = ("date", "timestamp", "time", "duration")
DATE_HINT = (
    "a date says who somebody is, and its bounds are hard to know: derive a number from it (an age "
    "in years, a month from 1 to 12) before, or leave it out"
)


@dataclass(frozen=True)
class Column:
    """What is public about one column: its type, and its range or its categories.

    `left_out` columns are not read; `note` becomes a comment of the file.
    """

    name: str
    type: str
    lower: float | None = None
    upper: float | None = None
    categories: tuple[Any, ...] | None = None
    left_out: bool = False
    note: str = ""

    @property
    def kind(self) -> str:
        """NumPy kind of a column of numbers, or "c" for categories."""
        return "c" if self.categories is not None else arrow_kind(self.type)


@dataclass(frozen=True)
class Target:
    """The column of labels and the possible labels; ``labels="public"`` takes those found."""

    name: str
    type: str
    labels: tuple[Any, ...] | str
    note: str = ""


@dataclass(frozen=True)
class TableBounds:
    """The public facts about a table that its owner confirms.

    Parameters
    ----------
    columns : tuple of Column
        Every column but the target, in the order of the table.
    target : Target, optional
        The column of labels.
    confirmed : bool
        Whether the owner has declared that all this is known without the data.
    """

    columns: tuple[Column, ...]
    target: Target | None = None
    confirmed: bool = False

    @property
    def used(self) -> tuple[Column, ...]:
        """The columns that are read."""
        return tuple(column for column in self.columns if not column.left_out)

    def require_confirmed(self) -> None:
        """Raise unless the owner has confirmed the bounds."""
        if not self.confirmed:
            raise MissingBoundsError(
                "The bounds are proposals that were read off the data, and nobody has confirmed "
                "them. Replace each by what is known without the data, then set confirmed = true."
            )

    def require_target(self, name: str | None) -> Target:
        """Give the target; `name` may repeat it, not change it."""
        if self.target is None:
            raise MissingBoundsError("The bounds have no [target]: name the column of labels.")
        if name is not None and name != self.target.name:
            raise InvalidInputError(
                f"'target' is {name!r}, the bounds were made for the target {self.target.name!r}. "
                "Describe the table again with the target you want."
            )
        return self.target

    def types(self) -> dict[str, str]:
        """Give the types of the columns that are read, and of the target."""
        found = {column.name: column.type for column in self.used}
        return found if self.target is None else {**found, self.target.name: self.target.type}

    def encoding(self) -> TableEncoding:
        """Give the way from rows of the table to numbers of a public scale."""
        used = self.used
        if not used:
            raise InvalidInputError("The bounds leave out every column: nothing is left to learn.")
        form = TableForm(
            "pyarrow",
            tuple(column.name for column in used),
            tuple(column.type for column in used),
            tuple(column.kind for column in used),
            {c.name: c.categories for c in used if c.categories is not None},
        )
        numbers = [(c.lower, c.upper) for c in used if c.categories is None]
        lower, upper = zip(*numbers, strict=True) if numbers else ((), ())
        return TableEncoding(form, tuple(map(float, lower)), tuple(map(float, upper)))

    # The file ---------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> TableBounds:
        """Read and check a file of bounds."""
        try:
            record = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InvalidInputError(
                f"There is no file of bounds '{path}'. `sfumato describe` proposes one."
            ) from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "not text"
            raise InvalidInputError(
                f"The bounds in '{path}' are not written in TOML: {reason}."
            ) from None
        try:
            return _bounds_from(record)
        except InvalidInputError as error:
            raise type(error)(f"The bounds in '{path}' cannot be used. {error}") from None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the bounds with comments for the person who confirms them."""
        with written_aside(path) as file:
            file.write(self.to_toml().encode("utf-8"))

    def to_toml(self) -> str:
        """Give the text of the file."""
        parts = [_HEAD, f"version = {LAYOUT}\nconfirmed = {_toml(self.confirmed)}\n"]
        if self.target is not None:
            t = self.target
            lines = ["[target]", *_comment(t.note), *_pairs(column=t.name, type=t.type)]
            parts.append("\n".join([*lines, f"labels = {_toml(t.labels)}", ""]))
        for column in self.columns:
            values = {
                "type": column.type,
                "lower": column.lower,
                "upper": column.upper,
                "categories": column.categories,
                "left_out": column.left_out or None,
            }
            title = f"[columns.{_toml(column.name)}]"
            parts.append("\n".join([title, *_comment(column.note), *_pairs(**values), ""]))
        return "\n".join(parts)


def is_date(type_name: str) -> bool:
    """Tell whether a type of Arrow holds dates or times."""
    return type_name.startswith(DATES)


_HEAD = """\
# Public bounds of a table, for `sfumato fit` and `sfumato fabricate`.
#
# Bounds are facts that are known WITHOUT the data: the scale of a form, a physical range, a list of
# codes. Where a figure below was proposed by `sfumato describe`, it was read off the data, and
# nothing protects it. Replace every figure by what you know; a value outside its bounds is moved to
# them. When every line is public knowledge, set confirmed = true.
#
# type        as in the file; the values are read as this type
# lower/upper the range of a column of numbers; a missing number becomes its middle
# categories  all possible values of a column that is not a number; any other value is none of them
# left_out    true: the column is not read
"""


def _comment(note: str) -> list[str]:
    text = " ".join("".join(c if c.isprintable() else " " for c in note).split())
    return [f"# {text}"] if text else []


def _pairs(**values: Any) -> list[str]:
    return [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):  # a basic string of TOML is one of JSON, but for one character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


# Reading --------------------------------------------------------------------------------------


def _bounds_from(record: dict[str, Any]) -> TableBounds:
    _refuse_unknown(record, {"version", "confirmed", "target", "columns"}, "The file")
    version = record.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise InvalidInputError(f"'version' must be the number {LAYOUT}.")
    if version > LAYOUT:
        raise InvalidInputError(
            f"It has version {version}; this Sfumato reads versions up to {LAYOUT}."
        )
    if not isinstance(record.get("confirmed"), bool):
        raise InvalidInputError("'confirmed' must be true or false.")
    columns = record.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise InvalidInputError("There must be one [columns.NAME] for each column.")
    target = None if "target" not in record else _target_from(record["target"])
    found = tuple(_column_from(name, each) for name, each in columns.items())
    if target is not None:
        found = tuple(column for column in found if column.name != target.name)
    return TableBounds(found, target, record["confirmed"])


def _refuse_unknown(record: Mapping[str, Any], known: set[str], place: str) -> None:
    for key in record:
        if key not in known:
            listed = ", ".join(sorted(known))
            raise InvalidInputError(f"{place} has the key {key!r}; known are {listed}.")


def _target_from(record: Any) -> Target:
    place = "[target]"
    if not isinstance(record, dict):
        raise InvalidInputError(f"{place} must be a table of keys.")
    _refuse_unknown(record, {"column", "type", "labels"}, place)
    name, labels = record.get("column"), record.get("labels")
    if not isinstance(name, str) or not name:
        raise InvalidInputError(f"{place} needs 'column', the name of the column of labels.")
    if labels != "public":
        labels = _values(labels, place, "labels")
        if len(labels) < 2:
            raise InvalidInputError(
                f"{place}: 'labels' holds one label; a classifier needs at least two."
            )
    return Target(name, _type(record, place), labels)


def _column_from(name: str, record: Any) -> Column:
    place = f"[columns.{_toml(name)}]"
    if not isinstance(record, dict):
        raise InvalidInputError(f"{place} must be a table of keys.")
    _refuse_unknown(record, {"type", "lower", "upper", "categories", "left_out"}, place)
    column = Column(name, _type(record, place), left_out=record.get("left_out", False))
    if not isinstance(column.left_out, bool):
        raise InvalidInputError(f"{place}: 'left_out' must be true or false.")
    if column.left_out:
        return column
    if "categories" in record:
        if "lower" in record or "upper" in record:
            raise InvalidInputError(f"{place} has categories and a range; choose one of them.")
        return replace(column, categories=_values(record["categories"], place, "categories"))
    if is_date(column.type):
        raise InvalidInputError(f"{place} is of type {column.type}: {DATE_HINT}.")
    if not column.kind:
        raise InvalidInputError(
            f"{place} is of type {column.type}, which holds no numbers: list its 'categories', or "
            "set left_out = true."
        )
    lower, upper = (_number(record, key, place) for key in ("lower", "upper"))
    if not lower < upper:
        raise InvalidInputError(f"{place}: 'lower' must lie below 'upper'.")
    return replace(column, lower=lower, upper=upper)


def _type(record: Mapping[str, Any], place: str) -> str:
    told = record.get("type")
    if not isinstance(told, str) or not told:
        raise InvalidInputError(f'{place} needs \'type\', such as "double" or "string".')
    return told


def _number(record: Mapping[str, Any], key: str, place: str) -> float:
    value = record.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MissingBoundsError(f"{place} needs '{key}', one finite number.")
    if abs(value) > 1e150:
        raise InvalidInputError(f"{place}: '{key}' must lie between -1e150 and 1e150.")
    return value


def _values(values: Any, place: str, key: str) -> tuple[Any, ...]:
    if not isinstance(values, list) or not values:
        raise InvalidInputError(f"{place}: '{key}' must list at least one value.")
    kinds = {type(value) for value in values}
    if len(kinds) != 1 or not kinds <= {str, int, float, bool}:
        raise InvalidInputError(f"{place}: '{key}' must be all text or all numbers.")
    if len(set(values)) != len(values):
        raise InvalidInputError(f"{place}: '{key}' names a value twice.")
    return tuple(values)
