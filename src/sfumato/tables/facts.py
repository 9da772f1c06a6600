"""What is public about a column of a table, and what each of its cells becomes.

A column becomes one *feature* or, where it holds dates, one feature per public part of the date. A
feature is a number of a public range or one of some public categories, or it is missing. Each cell
is read by itself, as what was declared; what cannot be read, an unknown category included, is
missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds
from sfumato.tables.columns import (
    arrow_kind,
    as_column,
    as_numbers,
    codes_of,
    read_as,
    type_of_value,
)
from sfumato.tables.dates import PARTS, is_date, part_of

Array = NDArray[np.float64]
MAX_MAGNITUDE = 1e150
MONTHS, WEEKDAYS, HOURS = tuple(range(1, 13)), tuple(range(1, 8)), (0.0, 23.0)


@dataclass(frozen=True)
class Feature:
    """One number or one category of a record: a column, or one part of a column of dates.

    name, source: Its own name, and that of the column it is read from.
    type: Declared type of the column.
    lower, upper: Range of its numbers in the units of the table; for ordered categories, of their
        places.
    categories: The public categories, or None for a number.
    ordered, log, missing: Whether categories count as numbers, numbers enter as logarithms, and
        missing cells are marked by a number of their own.
    fill: What a missing cell counts as (a number of the table, or the place of a category), or NaN.
    decimals: Decimals of the numbers that are written back.
    part, format: Which part of a date it is, and how dates are written in text.
    weights: Public weights of the categories.
    """

    name: str
    source: str
    type: str
    lower: float = 0.0
    upper: float = 1.0
    categories: tuple[Any, ...] | None = None
    ordered: bool = False
    log: bool = False
    missing: bool = False
    fill: float = math.nan
    decimals: int | None = None
    part: str = ""
    format: str = ""
    weights: tuple[float, ...] | None = None

    @property
    def is_number(self) -> bool:
        """Whether its cells are numbers; ordered categories are, the others are not."""
        return self.categories is None or self.ordered

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest cell: in public units, as a logarithm where that is declared."""
        lower, upper = self.scaled(np.array([self.lower, self.upper])).tolist()
        return lower, upper

    def cells(self, column: Any) -> Array:
        """Read each cell of a column by itself."""
        named = f"The column {self.source!r}"
        if self.part:
            found = part_of(column, self.part, self.type, self.format, named)
        elif self.categories is None:
            found = as_numbers(column, arrow_kind(self.type), named)
        else:
            return self._places(codes_of(column, self.categories, named))
        if self.categories is not None:  # of a part of a date, they are 1, 2, ...
            return self._places(np.nan_to_num(found, nan=0).astype(np.intp) - 1)
        filled = np.where(np.isnan(found), self.fill, found)
        return self.scaled(np.clip(filled, self.lower, self.upper))

    def _places(self, codes: NDArray[np.intp]) -> Array:
        return np.where(codes < 0, self.fill, codes)

    def scaled(self, numbers: Array) -> Array:
        """Return numbers of the table in public units: logarithms where that is declared."""
        if not self.log:
            return numbers
        return np.log(numbers) if self.lower > 0 else np.log1p(numbers)

    def unscaled(self, cells: Array) -> Array:
        """Return numbers of public units in those of the table again, inside of the range."""
        lower, upper = self.range
        inside = np.clip(cells, lower, upper)
        if self.log:
            inside = np.exp(inside) if self.lower > 0 else np.expm1(inside)
        inside = np.clip(inside, self.lower, self.upper)
        return inside if self.decimals is None else np.round(inside, self.decimals)


@dataclass(frozen=True)
class Column:
    """What is public about one column: its type, and its range or its categories.

    name: Name of the column.
    type: Arrow's name of its type, as which each cell is read: "double", "int64", "bool", "string",
        "date32[day]", "timestamp[s]" and the like.
    lower, upper (float or str): Range of a number; of a date, its first and last day as
        "2020-12-31".
    categories: All possible values of a column that is no number.
    left_out: Whether the column is not read at all.
    note: A comment of the file of bounds.
    ordered: Whether categories stand in an order that means something: they become one number.
    log: Whether a number enters as its logarithm: of x where `lower` is positive, of 1 + x where it
        is 0.
    missing: Whether a missing cell is marked by a number of its own.
    fill: A public value that stands for a missing cell instead.
    decimals: Decimals of fabricated numbers.
    parts: Parts of a date that are used: "time", "year", "month", "weekday", "hour".
    format: How a date is written in text, as for `strptime`; by default as ISO 8601 says.
    weights: Public weights of the categories, one each: where many of them share a cell of a
        fabricated table, they are redrawn by these. By default evenly.
    """

    name: str
    type: str
    lower: Any = None
    upper: Any = None
    categories: tuple[Any, ...] | None = None
    left_out: bool = False
    note: str = field(default="", compare=False)
    ordered: bool = False
    log: bool = False
    missing: bool = False
    fill: Any = None
    decimals: int | None = None
    parts: tuple[str, ...] = ()
    format: str = ""
    weights: tuple[float, ...] | None = None

    @classmethod
    def from_record(cls, name: str, record: Any) -> Column:
        """Check what is declared about a column."""
        place = f"[columns.{name!r}]"
        if not isinstance(record, Mapping):
            raise InvalidInputError(f"{place} must be a table of keys.")
        refuse_unknown(record, {each.name for each in fields(cls)} - {"name", "note"}, place)
        values = {key: _plain(value) for key, value in record.items()}
        column = cls(name, **{"type": _type(record, place), **values})
        for key in ("left_out", "ordered", "log", "missing"):
            if not isinstance(getattr(column, key), bool):
                raise InvalidInputError(f"{place}: '{key}' must be true or false.")
        if not column.left_out:
            column._check(place)
        return column

    def to_record(self) -> dict[str, Any]:
        """Return what `from_record` reads; what is not declared is left out."""
        usual = {each.name: each.default for each in fields(self)}
        record = {key: value for key, value in vars(self).items() if value != usual[key]}
        return {key: v for key, v in record.items() if key not in ("name", "note")}

    @property
    def features(self) -> tuple[Feature, ...]:
        """What a record holds in this column."""
        shared: dict[str, Any] = {"source": self.name, "type": self.type, "missing": self.missing}
        if self.parts:
            shared["format"] = self.format
            return tuple(
                Feature(f"{self.name}.{part}", part=part, **shared, **self._part(part))
                for part in self.parts
            )
        if self.categories is not None:
            fill = math.nan if self.fill is None else float(self.categories.index(self.fill))
            last = float(max(len(self.categories) - 1, 1))
            return (
                Feature(
                    self.name,
                    categories=self.categories,
                    ordered=self.ordered,
                    upper=last,
                    fill=fill,
                    weights=self.weights,
                    **shared,
                ),
            )
        lower, upper = (0, 1) if self.lower is None else (self.lower, self.upper)
        fill = math.nan if self.fill is None else float(self.fill)
        return (
            Feature(
                self.name,
                lower=float(lower),
                upper=float(upper),
                log=self.log,
                fill=fill,
                decimals=self.decimals,
                **shared,
            ),
        )

    def _part(self, part: str) -> dict[str, Any]:
        """Return the public range or the categories of a part of a date."""
        if part in ("month", "weekday"):
            return {"categories": MONTHS if part == "month" else WEEKDAYS}
        if part == "hour":
            return {"lower": HOURS[0], "upper": HOURS[1]}
        first, last = (datetime.fromisoformat(each) for each in (self.lower, self.upper))
        if part == "year":
            return {"lower": float(first.year), "upper": float(max(last.year, first.year + 1))}
        origin = datetime(1970, 1, 1)
        lower, upper = ((each - origin).total_seconds() / 86400 for each in (first, last))
        return {"lower": lower, "upper": upper}

    # Checks -----------------------------------------------------------------------------------

    def _check(self, place: str) -> None:
        if self.categories is not None:
            self._check_categories(place)
        elif is_date(self.type):
            self._check_date(place)
        else:
            self._check_number(place)
        if self.fill is not None and self.missing:
            raise InvalidInputError(f"{place} has 'fill' and 'missing'; choose one of them.")

    def _check_categories(self, place: str) -> None:
        if self.lower is not None or self.upper is not None:
            raise InvalidInputError(f"{place} has categories and a range; choose one of them.")
        self._refuse(place, "log", "decimals", "parts", "format")
        check_values(self.categories, place, "categories")
        if self.fill is not None and self.fill not in (self.categories or ()):
            raise InvalidInputError(f"{place}: 'fill' must be one of the categories.")
        if self.weights is not None:
            found = [_number(each, "weights", place) for each in self.weights]
            if len(found) != len(self.categories or ()) or min(found) <= 0:
                raise InvalidInputError(
                    f"{place}: 'weights' must be positive, one for each of the categories."
                )

    def _check_number(self, place: str) -> None:
        kind = arrow_kind(self.type)
        if not kind:
            raise InvalidInputError(
                f"{place} is of type {self.type}, which is not numeric: list its 'categories', or "
                "set left_out = true."
            )
        self._refuse(place, "parts", "format", "ordered", "weights")
        if kind != "b" or self.lower is not None or self.upper is not None:
            lower, upper = (_number(getattr(self, key), key, place) for key in ("lower", "upper"))
            if not lower < upper:
                raise InvalidInputError(f"{place}: 'lower' must lie below 'upper'.")
            if self.log and lower < 0:
                raise InvalidInputError(f"{place}: 'log' needs a 'lower' of 0 or above.")
        if self.fill is not None:
            _number(self.fill, "fill", place)
        decimals = self.decimals
        if decimals is not None and (type(decimals) is not int or not -12 <= decimals <= 12):
            raise InvalidInputError(f"{place}: 'decimals' must be a whole number, -12 to 12.")

    def _check_date(self, place: str) -> None:
        self._refuse(place, "log", "ordered", "decimals", "fill", "weights")
        if not self.parts:
            listed = ", ".join(f'"{part}"' for part in PARTS)
            raise InvalidInputError(
                f"{place} is of type {self.type}: name the public 'parts' that are used, of "
                f"{listed}, or set left_out = true. A whole date can say who somebody is."
            )
        if not set(self.parts) <= set(PARTS) or len(set(self.parts)) != len(self.parts):
            raise InvalidInputError(f"{place}: 'parts' must be some of {', '.join(PARTS)}.")
        if not isinstance(self.format, str):
            raise InvalidInputError(f"{place}: 'format' must be a text such as \"%d.%m.%Y\".")
        if {"time", "year"} & set(self.parts):
            first, last = (_day(getattr(self, key), key, place) for key in ("lower", "upper"))
            if not first < last:
                raise InvalidInputError(f"{place}: 'lower' must lie before 'upper'.")

    def _refuse(self, place: str, *keys: str) -> None:
        """Refuse keys that mean nothing for such a column."""
        for key in keys:
            if getattr(self, key) not in (None, False, (), ""):
                raise InvalidInputError(f"{place}: '{key}' means nothing for this column.")


@dataclass(frozen=True)
class Target:
    """The column to predict: its possible labels, or the range of its numbers.

    ``labels="public"`` takes the labels that are found.
    """

    name: str
    type: str
    labels: tuple[Any, ...] | str | None = None
    note: str = field(default="", compare=False)
    lower: float | None = None
    upper: float | None = None

    @classmethod
    def from_record(cls, record: Any) -> Target:
        """Check what is declared about the target."""
        place = "[target]"
        if not isinstance(record, Mapping):
            raise InvalidInputError(f"{place} must be a table of keys.")
        refuse_unknown(record, {"column", "type", "labels", "lower", "upper"}, place)
        name, declared = record.get("column"), record.get("labels")
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"{place} needs 'column', the name of the column of labels.")
        if declared is None and "lower" in record:
            lower, upper = (_number(record.get(key), key, place) for key in ("lower", "upper"))
            if not lower < upper:
                raise InvalidInputError(f"{place}: 'lower' must lie below 'upper'.")
            if not arrow_kind(_type(record, place)):
                raise InvalidInputError(f"{place} has a type that is not numeric.")
            return cls(name, _type(record, place), lower=lower, upper=upper)
        if declared != PUBLIC_LABELS:
            declared = check_values(_plain(declared), place, "labels")
            if len(declared) < 2:
                raise InvalidInputError(
                    f"{place}: 'labels' has only one label; a classifier needs at least two."
                )
        return cls(name, _type(record, place), declared)

    def values(self, column: Any) -> NDArray[Any]:
        """Return labels or numbers, cell by cell; a cell that is no label is the first one."""
        if self.labels is None:
            return as_numbers(column, arrow_kind(self.type), f"The column {self.name!r}")
        if self.labels == PUBLIC_LABELS:
            return np.asarray(self.read(as_column(column)).to_pylist(), dtype=object)
        known = np.asarray(sorted(Bounds(labels=self.labels).labels))
        return np.asarray(known[np.maximum(codes_of(column, known.tolist()), 0)])  # [Z2]

    def read(self, column: Any) -> Any:
        """Read a column of Arrow as labels: numbers, truth values, and texts for all else."""
        return read_as(column, self.type if arrow_kind(self.type) else "string")

    def to_record(self) -> dict[str, Any]:
        """Return what `from_record` reads."""
        found: dict[str, Any] = {"column": self.name, "type": self.type, "labels": self.labels}
        found |= {"lower": self.lower, "upper": self.upper}
        return {key: value for key, value in found.items() if value is not None}


def refuse_unknown(record: Mapping[str, Any], known: set[str], place: str) -> None:
    """Refuse keys that nobody reads."""
    for key in record:
        if key not in known:
            listed = ", ".join(sorted(known))
            raise InvalidInputError(
                f"{place} has the unknown key {key!r}; known keys are {listed}."
            )


def check_values(values: Any, place: str, key: str) -> tuple[Any, ...]:
    """Ask for a list of different values of one kind."""
    if not isinstance(values, tuple) or not values:
        raise InvalidInputError(f"{place}: '{key}' must list at least one value.")
    kinds = {type(value) for value in values}
    if len(kinds) != 1 or not kinds <= {str, int, float, bool}:
        raise InvalidInputError(f"{place}: '{key}' must be all text or all numbers.")
    if len(set(values)) != len(values):
        raise InvalidInputError(f"{place}: '{key}' names a value twice.")
    for value in values:
        type_of_value(value)
    return values


def _plain(value: Any) -> Any:
    """Return lists as tuples, days as text, and numbers of NumPy as those of Python."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if isinstance(value, date):
        return value.isoformat()
    return value.item() if isinstance(value, np.generic) else value


def _type(record: Mapping[str, Any], place: str) -> str:
    declared = record.get("type")
    if not isinstance(declared, str) or not declared:
        raise InvalidInputError(f'{place} needs \'type\', such as "double" or "string".')
    return declared


def _number(value: Any, key: str, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MissingBoundsError(f"{place} needs '{key}', one finite number.")
    if abs(value) > MAX_MAGNITUDE:
        raise InvalidInputError(f"{place}: '{key}' must lie between -1e150 and 1e150.")
    return value


def _day(value: Any, key: str, place: str) -> datetime:
    try:
        return datetime.fromisoformat(value).replace(tzinfo=None)
    except (TypeError, ValueError):
        raise MissingBoundsError(f"{place} needs '{key}', a day such as 2020-12-31.") from None
