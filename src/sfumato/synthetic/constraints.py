"""Public constraints between the columns of a table, met by fabricated rows after they are drawn.

Three forms: ``a <= b`` (or ``a >= b``), ``total == a + b``, and ``if a == x then b == y``; a name
with spaces stands between backticks. A repair reads one fabricated row at a time, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError

Values = dict[str, NDArray[np.float64]]

_NAME = r"`[^`]+`|[^\s`]+"
_ORDER = re.compile(rf"\s*({_NAME})\s*(<=|>=)\s*({_NAME})\s*")
_SUM = re.compile(rf"\s*({_NAME})\s*==\s*((?:{_NAME})(?:\s*\+\s*(?:{_NAME}))+)\s*")
_IF = re.compile(rf"\s*if\s+({_NAME})\s*==\s*(.+?)\s+then\s+({_NAME})\s*==\s*(.+?)\s*")
TRUTH = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True)
class Constraint:
    """One constraint: its kind, its columns, and the values of a condition.

    Parameters
    ----------
    kind : {"order", "sum", "if"}
        What it says.
    columns : tuple of str
        Order: the smaller, then the larger. Sum: the total, then its parts. If: both columns.
    values : tuple of float
        If: the value of each column, or the place of its category.
    """

    kind: str
    columns: tuple[str, ...]
    values: tuple[float, ...] = ()


def parsed(
    texts: Sequence[str], categories: Mapping[str, Sequence[Any] | None]
) -> tuple[Constraint, ...]:
    """Read constraints."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InvalidInputError("'constraints' must be a list of texts such as 'start <= end'.")
    return tuple(_read(text, categories) for text in texts)


def _read(text: str, categories: Mapping[str, Sequence[Any] | None]) -> Constraint:
    if match := _IF.fullmatch(text):
        columns: tuple[str, ...] = (_bare(match[1]), _bare(match[3]))
        values = tuple(
            _value(text, name, word, categories)
            for name, word in zip(columns, (match[2], match[4]), strict=True)
        )
        return Constraint("if", columns, values)
    if match := _ORDER.fullmatch(text):
        first, second = _bare(match[1]), _bare(match[3])
        columns, kind = (first, second) if match[2] == "<=" else (second, first), "order"
    elif match := _SUM.fullmatch(text):
        parts = re.findall(r"`[^`]+`|[^\s`+]+", match[2])
        columns, kind = (_bare(match[1]), *map(_bare, parts)), "sum"
    else:
        raise InvalidInputError(
            f"The constraint {text!r} is none of 'a <= b', 'total == a + b' and 'if a == x then b "
            "== y'; put a name with spaces in backticks."
        )
    for name in columns:
        _require(text, name, categories)
        if categories[name] is not None:
            raise InvalidInputError(f"The constraint {text!r} compares categories of {name!r}.")
    return Constraint(kind, columns)


def _bare(name: str) -> str:
    return name.strip("`")


def _require(text: str, name: str, categories: Mapping[str, Any]) -> None:
    if name not in categories:
        raise InvalidInputError(f"The constraint {text!r} names no column of the table: {name!r}.")


def _value(text: str, name: str, word: str, categories: Mapping[str, Any]) -> float:
    _require(text, name, categories)
    listed, plain = categories[name], word.strip("'\"")
    try:
        if listed is None:
            return TRUTH[plain.lower()] if plain.lower() in TRUTH else float(plain)
        return float([str(each) for each in listed].index(plain))
    except ValueError:
        raise InvalidInputError(
            f"The constraint {text!r} names no value of {name!r}: {word!r}."
        ) from None


def repaired(
    values: Values,
    constraints: Sequence[Constraint],
    ranges: Mapping[str, tuple[float, float]],
) -> Values:
    """Return values that meet the constraints, one constraint after the other."""
    found = {name: column.copy() for name, column in values.items()}
    for each in constraints:
        if each.kind == "order":
            _order(found, each.columns[0], each.columns[1], ranges)
        elif each.kind == "sum":
            found[each.columns[0]] = np.sum([found[name] for name in each.columns[1:]], axis=0)
        else:
            meets = found[each.columns[0]] == each.values[0]
            found[each.columns[1]] = np.where(meets, each.values[1], found[each.columns[1]])
    return found


def _order(
    values: Values, small: str, large: str, ranges: Mapping[str, tuple[float, float]]
) -> None:
    """Exchange two numbers in the wrong order; where a range forbids it, move them together."""
    a, b = values[small], values[large]
    low, high = (np.where(a > b, x, y) for x, y in ((b, a), (a, b)))
    low = np.clip(low, *ranges[small])
    values[small] = np.minimum(low, ranges[large][1])
    values[large] = np.maximum(np.clip(high, *ranges[large]), values[small])
