"""The public facts about a table: `Column`, `Target`, `TableBounds`, and the file of bounds.

A column becomes one *feature* or, where it holds dates, one feature per public part of the date. A
feature is a number of a public range or one of some public categories, or it is missing. Each cell
is read alone, as what was declared; what cannot be read, an unknown category included, is missing.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.core.atomic_file import atomic_write
from sfumato.core.constraints import Form, check_parameters, flag, list_of, or_none, whole
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.tables.bounds import MAX_MAGNITUDE, PERSONS, PUBLIC_LABELS, Bounds
from sfumato.tables.cells import REAL_KINDS, column_names, columns_of
from sfumato.tables.columns import (
    PARTS,
    arrow_kind,
    as_column,
    as_numbers,
    codes_of,
    is_date,
    part_of,
    read_as,
    type_of_value,
)
from sfumato.tables.text import TextFormat, any_text

Array = NDArray[np.float64]
MONTHS, WEEKDAYS = tuple(range(1, 13)), tuple(range(1, 8))
ABOUT_PERSONS = ("person", "person_rows", "per_person", "one_row_per_person", "looks_like_ids")
LAYOUT = 2  # a file of another layout is refused: its words may mean something else
DAY = re.compile(r"\d{4}-\d\d-\d\d")
NAMES_OF_TYPES = {float: "double", int: "int64", bool: "bool", str: "string"}

# What all columns may declare, and keys that mean nothing for a column of some kind.
KEYS: Form = {
    **dict.fromkeys(("left_out", "ordered", "log", "missing"), flag()),
    **dict.fromkeys(("parts", "sentinels"), list_of(lambda *_: None, least=0, kind=tuple)),
    "decimals": or_none(whole(least=-12, most=12)),
    "format": any_text,
}
MEANINGLESS = {
    "categories": ("lower", "upper", "log", "decimals", "parts", "format", "sentinels"),
    "date": ("log", "ordered", "decimals", "fill", "sentinels"),
    "number": ("parts", "format", "ordered"),
}

HEAD = """\
# Public bounds of a table. docs/howto/tables.md explains the keys.
#
# Bounds are facts that are known WITHOUT the data: the scale of a form, a physical
# range, a list of codes. Values proposed by `sfumato describe` were taken from the data and are not
# private. Replace them with what you know. Values outside the bounds are moved to the nearest
# bound; what cannot be read as its type, or is not listed, counts as missing. `sfumato confirm`
# asks you about each column, then sets confirmed = true and seals the content: a later change must
# be confirmed again.
"""


@dataclass(frozen=True)
class Column:
    """What is public about one column; the file of bounds explains the keys."""

    name: str
    type: str  # Arrow's name of a type, as which each cell is read
    lower: Any = None
    upper: Any = None
    categories: Any = None  # a tuple; of a target, or "public"
    left_out: bool = False
    note: str = field(default="", compare=False)  # a comment of the file of bounds
    ordered: bool = False
    log: bool = False
    missing: bool = False
    fill: Any = None
    decimals: int | None = None
    parts: tuple[str, ...] = ()
    format: str = ""
    sentinels: tuple[float, ...] = ()

    @classmethod
    def from_record(cls, name: str, record: Any) -> Self:
        """Check what is declared about a column."""
        place = f"[columns.{name!r}]" if cls is Column else "[target]"
        _mapping(record, {each.name for each in fields(cls)} - {"name", "note"}, place)
        if not isinstance(record.get("type"), str) or not record["type"]:
            raise InvalidInputError(f'{place} needs \'type\', such as "double" or "string".')
        column = cls(name, **{key: _plain(value) for key, value in record.items()})
        try:
            check_parameters(column, KEYS)
        except InvalidInputError as error:
            raise InvalidInputError(f"{place}: {error}") from None
        if not column.left_out:
            column._check(place)
        return column

    def to_record(self) -> dict[str, Any]:
        """Return what `from_record` reads; what is not declared is left out."""
        default = {each.name: each.default for each in fields(self)}
        record = {key: value for key, value in vars(self).items() if value != default[key]}
        return {key: v for key, v in record.items() if key not in ("name", "note")}

    @property
    def features(self) -> tuple[Feature, ...]:
        """What a record holds in this column."""
        shared, fill, lower, upper = {**vars(self), "source": self.name}, self.fill, 0.0, 1.0
        if self.categories is not None:
            upper = float(max(len(self.categories) - 1, 1))
            fill = None if fill is None else self.categories.index(fill)
        elif self.lower is not None and not self.parts:
            lower, upper = float(self.lower), float(self.upper)
        shared |= {"lower": lower, "upper": upper}
        shared["fill"] = math.nan if fill is None else float(fill)
        if not self.parts:
            return (Feature(**shared),)
        parts: dict[str, dict[str, Any]] = {
            "month": {"categories": MONTHS},
            "weekday": {"categories": WEEKDAYS},
            "hour": {"upper": 23.0},
        }
        if {"time", "year"} & set(self.parts):
            first, last = _moment(self.lower), _moment(self.upper)
            years = float(first.year), float(max(last.year, first.year + 1))
            days = [(d - datetime(1970, 1, 1)).total_seconds() / 86400 for d in (first, last)]
            if first.year < last.year or len(self.parts) == 1:  # the only year says nothing
                parts["year"] = {"lower": years[0], "upper": years[1]}
            parts["time"] = {"lower": days[0], "upper": days[1]}
        return tuple(
            Feature(**shared | {"name": f"{self.name}.{part}", "part": part} | parts[part])
            for part in self.parts
            if part in parts
        )

    def _check(self, place: str) -> None:
        kind = "date" if is_date(self.type) else "number"
        kind = kind if self.categories is None else "categories"
        for key in MEANINGLESS[kind]:
            if getattr(self, key) not in (None, False, (), ""):
                raise InvalidInputError(f"{place}: '{key}' does not apply to this column.")
        if self.fill is not None and self.missing:
            raise InvalidInputError(f"{place} has 'fill' and 'missing'; choose one of them.")
        if kind == "categories":
            values = self.categories if isinstance(self.categories, tuple) else ()
            if len({type_of_value(each) for each in values}) != 1 or len(set(values)) < len(values):
                raise InvalidInputError(
                    f"{place} must list categories or labels: all text or all numbers, each once."
                )
            if self.fill is not None and self.fill not in values:
                raise InvalidInputError(f"{place}: 'fill' must be one of the categories.")
        elif kind == "date":
            if not 0 < len(self.parts) == len(set(self.parts) & set(PARTS)):
                listed = ", ".join(f'"{part}"' for part in PARTS)
                raise InvalidInputError(
                    f"{place} is of type {self.type}: name the public 'parts' that are used, of "
                    f"{listed}, or set left_out = true. A full date can identify a person."
                )
            if {"time", "year"} & set(self.parts):
                with suppress(TypeError, ValueError):
                    if _moment(self.lower) < _moment(self.upper):
                        return
                raise MissingBoundsError(
                    f"{place} needs days such as 2020-12-31, 'lower' before 'upper'."
                )
        else:
            if not arrow_kind(self.type):
                raise InvalidInputError(
                    f"{place} is of type {self.type}, which is not numeric: list its 'categories', "
                    "or set left_out = true."
                )
            if arrow_kind(self.type) != "b" or (self.lower, self.upper) != (None, None):
                for key in ("lower", "upper"):
                    _number(getattr(self, key), key, place)
                if not self.lower < self.upper:
                    raise InvalidInputError(f"{place}: 'lower' must lie below 'upper'.")
                if self.log and self.lower < 0:
                    raise InvalidInputError(f"{place}: 'log' needs a 'lower' of 0 or above.")
            for each in (*self.sentinels, *(() if self.fill is None else (self.fill,))):
                _number(each, "fill' and 'sentinels", place)


@dataclass(frozen=True)
class Feature(Column):
    """One number or one category of a record: a column, or one part of a column of dates."""

    source: str = ""  # the column that it is read from
    part: str = ""

    @property
    def is_number(self) -> bool:
        """Whether its cells are numbers; ordered categories are, the others are not."""
        return self.categories is None or self.ordered

    @property
    def is_whole(self) -> bool:
        """Whether its cells are whole numbers, in public units too."""
        kinds = () if self.log else ("i", "u")
        return self.part in ("year", "hour") or (not self.part and arrow_kind(self.type) in kinds)

    @property
    def range(self) -> tuple[float, float]:
        """Smallest and largest cell, in public units."""
        lower, upper = self.scaled(np.array([self.lower, self.upper])).tolist()
        return lower, upper

    def read(self, column: Any) -> Array:
        """Read each cell of a column alone, as a number of the table or the place of a category."""
        named = f"The column {self.source!r}"
        if self.part:
            found = part_of(column, self.part, self.format, named)
            return found if self.categories is None else found - 1  # which are 1, 2, ...
        if self.categories is not None:
            codes = codes_of(column, self.categories, named)
            return np.where(codes < 0, np.nan, codes)
        found = as_numbers(column, arrow_kind(self.type), named)
        return np.where(np.isin(found, self.sentinels), np.nan, found) if self.sentinels else found

    def cells(self, column: Any) -> Array:
        """Read each cell of a column alone, in public units."""
        found = self.read(column)
        filled = found if math.isnan(self.fill) else np.where(np.isnan(found), self.fill, found)
        return filled if self.categories else self.scaled(np.clip(filled, self.lower, self.upper))

    def scaled(self, numbers: Array) -> Array:
        """Return numbers of the table in public units."""
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
class Target(Column):
    """The column to predict: its possible labels, or "public", or the range of its numbers."""

    @property
    def labels(self) -> Any:
        """The possible labels, "public", or None where it is a number."""
        return self.categories

    def _check(self, place: str) -> None:
        if self.labels == PUBLIC_LABELS:
            return
        super()._check(place)
        if self.labels is not None and len(self.labels) < 2:
            raise InvalidInputError(
                f"{place}: 'labels' has only one label; a classifier needs at least two."
            )

    def values(self, column: Any) -> NDArray[Any]:
        """Return labels or numbers, cell by cell; a cell that is not a label is None or NaN."""
        if self.labels is None:
            return self.features[0].read(column)
        if self.labels == PUBLIC_LABELS:
            declared = self.type if arrow_kind(self.type) else "string"
            return np.asarray(read_as(as_column(column), declared).to_pylist(), dtype=object)
        known = np.asarray(sorted(self.labels))
        none: Any = np.nan if known.dtype.kind in REAL_KINDS else None
        listed = np.append(known.astype(float if none else object), none)
        return np.asarray(listed[codes_of(column, known.tolist())])  # [Z2]


def _mapping(record: Any, known: set[str], place: str) -> Mapping[str, Any]:
    """Refuse what is not a table of known keys."""
    if not isinstance(record, Mapping):
        raise InvalidInputError(f"{place} must be a table of keys.")
    for key in record:
        if key not in known:
            keys = ", ".join(sorted(known))
            raise InvalidInputError(f"{place} has the unknown key {key!r}; known keys are {keys}.")
    return record


def _plain(value: Any) -> Any:
    """Return lists as tuples, days as text, and numbers of NumPy as those of Python."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if isinstance(value, date):
        return value.isoformat()
    return value.item() if isinstance(value, np.generic) else value


def _moment(day: Any) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=None)


def _number(value: Any, key: str, place: str) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and abs(value) <= MAX_MAGNITUDE):
        raise MissingBoundsError(f"{place} needs '{key}', one number between -1e150 and 1e150.")


@dataclass(frozen=True, repr=False)
class TableBounds:
    """The public facts about a table that its owner confirms.

    Parameters
    ----------
    columns : tuple of Column
        Every column except the target, in the order of the table.
    target : Target, optional
        The column to predict.
    confirmed : bool
        Whether the owner has declared that all this is known without the data.
    text : TextFormat, optional
        How the table is written as text.
    person : str, optional
        The column of IDs, for unit "person"; never a feature.
    person_rows : int, optional
        The largest number of rows used per person.
    per_person : {"average", "sum"}, default="average"
        How a person's rows are added up, see `sfumato.Bounds`.
    one_row_per_person : bool, default=False
        Whether the owner has declared that no person has more than one row.
    looks_like_ids : tuple of str
        Columns in which `describe` found values that repeat as IDs do. If there are any, the owner
        must declare `person` or `one_row_per_person`.
    confirmed_by, confirmed_seal : str, optional
        Who has confirmed the file of bounds, and its seal; guarantees repeat both.

    Examples
    --------
    >>> from sfumato.tables import TableBounds
    >>> bounds = TableBounds.from_dict(
    ...     {"age": (0, 120), "town": ["Ghent", "Ypres"], "ill": ["no", "yes"]}, target="ill"
    ... )
    >>> [feature.name for feature in bounds.features], bounds.target.labels
    (['age', 'town'], ('no', 'yes'))
    """

    columns: tuple[Column, ...]
    target: Target | None = None
    confirmed: bool = False
    text: TextFormat | None = None
    person: str | None = None
    person_rows: int | None = None
    per_person: str = "average"
    one_row_per_person: bool = False
    looks_like_ids: tuple[str, ...] = ()
    confirmed_by: str | None = field(default=None, compare=False)
    confirmed_seal: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "looks_like_ids", tuple(self.looks_like_ids))
        check_parameters(self, PERSONS)
        if self.person is not None and not isinstance(self.person, str):
            raise InvalidInputError("'person' must be the name of a column.")
        if self.person is not None and self.one_row_per_person:
            raise InvalidInputError("'person' and 'one_row_per_person' exclude each other.")

    @classmethod
    def from_dict(
        cls,
        columns: Mapping[str, Any],
        *,
        target: str | None = None,
        person: str | None = None,
        person_rows: int | None = None,
        per_person: str = "average",
    ) -> TableBounds:
        """Build confirmed bounds from what is known about each column.

        Parameters
        ----------
        columns : mapping of str to object
            By the name of a column: a pair ``(lower, upper)`` for a number, or of days such as
            ``("2020-01-01", "2024-12-31")`` for a date (its "time"), a list for categories,
            `bool` for truth values, None for a column that is left out, or a mapping with the keys
            of the file of bounds, such as ``{"lower": 0, "upper": 1e6, "log": True}``.
        target : str, optional
            The column to predict: a list for its labels (or the word "public"), or a pair for the
            range of its numbers.
        person : str, optional
            The column of IDs, for unit "person"; it need not be among `columns`.
        person_rows : int, optional
            The largest number of rows used per person.
        per_person : {"average", "sum"}, default="average"
            How a person's rows are added up, see `sfumato.Bounds`.

        Returns
        -------
        TableBounds
            The bounds. Writing them down declares them public.
        """
        records = {str(name): _declared(value) for name, value in columns.items()}
        found: dict[str, Any] = {"version": LAYOUT, "confirmed": True, "columns": records}
        if target is not None:
            if target not in records:
                raise InvalidInputError(f"'columns' must say what the target {target!r} can be.")
            found["target"] = {"column": target, **records.pop(target)}
            if "categories" in found["target"]:
                found["target"]["labels"] = found["target"].pop("categories")
        about = {"person": person, "person_rows": person_rows, "per_person": per_person}
        return cls.from_record(found | {k: v for k, v in about.items() if v is not None})

    def __repr__(self) -> str:
        about = f"{len(self.used)} columns, target {self.target.name!r}" if self.target else "..."
        return f"TableBounds({about}, confirmed={self.confirmed})"

    @property
    def seal(self) -> str:
        """SHA-256 of all that is declared; it changes with every change of that."""
        content = {**self.to_record(), "confirmed": True}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def used(self) -> tuple[Column, ...]:
        """The columns that are read."""
        return tuple(column for column in self.columns if not column.left_out)

    @property
    def features(self) -> tuple[Feature, ...]:
        """What a record holds: one feature per used column, or per part of a date."""
        found = tuple(feature for column in self.used for feature in column.features)
        if not found:
            raise InvalidInputError("The bounds leave out every column: nothing is left to learn.")
        return found

    def cells(self, table: Any) -> NDArray[np.float64]:
        """Return each cell of the used columns as a number, each on its own.

        Parameters
        ----------
        table : table
            A table of pandas, polars or Arrow with at least the used columns.

        Returns
        -------
        ndarray of shape (n_records, n_features)
            In the order of `features`: a number in public units (a logarithm where that is
            declared) inside its range, the place of a category, and NaN for what is missing.
        """
        features = self.features
        given = columns_of(table, list(dict.fromkeys(each.source for each in features)))
        return np.column_stack([each.cells(given[each.source]) for each in features])

    def require_confirmed(self) -> None:
        """Raise unless the owner has confirmed the bounds."""
        if not self.confirmed:
            raise MissingBoundsError(
                "These bounds are proposals taken from the data, and were not confirmed. "
                "Check them, column by column, with `sfumato confirm`."
            )
        if self.looks_like_ids and self.person is None and not self.one_row_per_person:
            raise MissingBoundsError(
                f"The column {self.looks_like_ids[0]!r} looks like a repeating ID. Declare who a "
                'row belongs to, person = "COLUMN" and person_rows = 8, or '
                "one_row_per_person = true."
            )

    def with_target(self, name: str | None) -> TableBounds:
        """Return the same facts with another column as the target; the old one is a feature again.

        Parameters
        ----------
        name : str or None
            A column with categories or a range; None, or the target itself, changes nothing. One
            of both there must be.

        Returns
        -------
        TableBounds
            The bounds.
        """
        if name is None and self.target is None:
            raise MissingBoundsError(
                "The bounds have no [target]: name the column of labels. `sfumato describe "
                "--target NAME` writes it."
            )
        if name is None or (self.target is not None and self.target.name == name):
            return self
        column = next((each for each in self.used if each.name == name), None)
        if column is None or column.parts:
            raise InvalidInputError(
                f"{name!r} cannot be the target: the bounds have no such column of labels or "
                "numbers, or leave it out."
            )
        labels = column.categories
        if labels is None and column.lower is None:  # truth values
            labels = (False, True)
        columns = tuple(each for each in self.columns if each.name != name)
        if (old := self.target) is not None:
            are_found = old.labels == PUBLIC_LABELS
            about = (old.lower, old.upper, None if are_found else old.labels, are_found)
            columns += (Column(old.name, old.type, *about, sentinels=old.sentinels),)
        marks = column.sentinels
        target = Target(name, column.type, column.lower, column.upper, labels, sentinels=marks)
        return replace(self, columns=columns, target=target)

    @property
    def target_range(self) -> tuple[float, float] | None:
        """Smallest and largest number of the target, or None where it has labels."""
        if self.target is None or self.target.lower is None or self.target.upper is None:
            return None
        return self.target.lower, self.target.upper

    def types(self) -> dict[str, str]:
        """Return the types of the columns that are read, of IDs, and of the target.

        Returns
        -------
        dict of str to str
            Arrow's names of the types, by column.
        """
        # A date that is written in its own way is a text until `part_of` reads it.
        found = {each.name: "string" if each.format else each.type for each in self.used}
        if self.person is not None:
            found[self.person] = "string"  # as they are written: 007 is not 7
        return found if self.target is None else {**found, self.target.name: self.target.type}

    def target_of(self, table: Any, name: str | None = None) -> NDArray[Any] | None:
        """Return the labels or numbers of the target, each cell on its own.

        Parameters
        ----------
        table : table
            A table of pandas, polars or Arrow.
        name : str, optional
            The target's name; may repeat it, not change it.

        Returns
        -------
        ndarray or None
            Labels (None or NaN, where a cell holds none of them) or numbers; None where the bounds
            name no target, or the table has no such column and it was not asked for.
        """
        if name is not None and self.with_target(name) is not self:
            raise InvalidInputError(f"Use bounds.with_target({name!r}) first.")
        if self.target is None or (name is None and self.target.name not in column_names(table)):
            return None
        return self.target.values(columns_of(table, [self.target.name])[self.target.name])

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> TableBounds:
        """Check plain values and build bounds from them.

        Parameters
        ----------
        record : mapping
            Keys and values as in the file of bounds.

        Returns
        -------
        TableBounds
            The bounds.
        """
        known = {"version", "confirmed", "confirmed_by", "seal", "target", "columns", "file"}
        known |= set(ABOUT_PERSONS)
        version = _mapping(record, known, "The file").get("version")
        if type(version) is not int or version != LAYOUT:
            raise InvalidInputError(f"Its 'version' is {version!r}; this Sfumato reads {LAYOUT}.")
        if not isinstance(record.get("confirmed"), bool):
            raise InvalidInputError("'confirmed' must be true or false.")
        columns = record.get("columns")
        if not isinstance(columns, Mapping) or not columns:
            raise InvalidInputError("There must be one [columns.NAME] for each column.")
        target = None
        if (declared := record.get("target")) is not None:
            known = {"column", "type", "labels", "lower", "upper", "sentinels"}
            _mapping(declared, known, "[target]")
            about = {"categories" if key == "labels" else key: v for key, v in declared.items()}
            if not isinstance(name := about.pop("column", None), str) or not name:
                raise InvalidInputError("[target] needs 'column', the name of the column.")
            target = Target.from_record(name, about)
        found = tuple(Column.from_record(name, each) for name, each in columns.items())
        person = record.get("person")
        if target is not None and person == target.name:
            raise InvalidInputError("'person' and [target] must name different columns.")
        others = {person, target and target.name}
        found = tuple(column for column in found if column.name not in others)
        names = [each.name for column in found if not column.left_out for each in column.features]
        if len(set(names)) != len(names):
            raise InvalidInputError("A column is named as a part of a date is: 'day.year'.")
        text = None if record.get("file") is None else TextFormat.from_record(record["file"])
        about = {n: record[n] for n in (*ABOUT_PERSONS, "confirmed_by") if n in record}
        about["confirmed_seal"] = record.get("seal")
        return cls(found, target, record["confirmed"], text, **about)

    def to_record(self) -> dict[str, Any]:
        """Return plain values, which `from_record` reads.

        Returns
        -------
        dict
            Keys and values as in the file of bounds.
        """
        found: dict[str, Any] = {"version": LAYOUT, "confirmed": self.confirmed}
        left_out = () if self.person_rows is not None else ("per_person",)
        about_persons = {n: getattr(self, n) for n in ABOUT_PERSONS if n not in left_out}
        found |= {name: value for name, value in about_persons.items() if value}
        if self.text is not None:
            found["file"] = self.text.to_record()
        if self.target is not None:
            about = {"column": self.target.name, **self.target.to_record()}
            named = {"labels" if key == "categories" else key: v for key, v in about.items()}
            found["target"] = named
        return {**found, "columns": {each.name: each.to_record() for each in self.columns}}

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, sealed: bool = True) -> TableBounds:
        """Read and check a file of bounds.

        Parameters
        ----------
        path : path-like
            The file.
        sealed : bool, default=True
            Whether a confirmed file must be as it was confirmed.

        Returns
        -------
        TableBounds
            The bounds.
        """
        try:
            record = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InvalidInputError(
                f"There is no bounds file '{path}'. `sfumato describe` proposes one."
            ) from None
        except ValueError as error:  # also of what is not text
            raise InvalidInputError(f"'{path}' is not written in TOML: {error}.") from None
        try:
            columns = record.get("columns")
            for each in columns.values() if isinstance(columns, dict) else ():
                if isinstance(each, dict) and "categories_file" in each:
                    listed = Path(path).with_name(str(each.pop("categories_file")))
                    lines = listed.read_text(encoding="utf-8-sig").splitlines()
                    each["categories"] = [line.strip() for line in lines if line.strip()]
            found = cls.from_record(record)
        except (OSError, ValueError) as error:
            kind = type(error) if isinstance(error, InvalidInputError) else InvalidInputError
            raise kind(f"The bounds in '{path}' cannot be used. {error}") from None
        if sealed and found.confirmed and record.get("seal") != found.seal:
            raise MissingBoundsError(
                f"The bounds in '{path}' were typed or changed since they were confirmed: "
                f"`sfumato confirm {path}` asks about each column, and seals the answers."
            )
        return found

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the bounds with comments for the person who confirms them.

        Parameters
        ----------
        path : path-like
            The file to write, aside and renamed.
        """
        record = self.to_record()
        if self.confirmed:
            by = {} if self.confirmed_by is None else {"confirmed_by": self.confirmed_by}
            record = {**dict(list(record.items())[:2]), **by, "seal": self.seal, **record}
        columns = record.pop("columns")
        sections = [(f"[{key}]", record.pop(key)) for key in ("file", "target") if key in record]
        sections += [(f"[columns.{_toml(name)}]", columns[name]) for name in columns]
        notes = {f"[columns.{_toml(each.name)}]": each.note for each in self.columns}
        notes["[target]"] = self.target.note if self.target else ""
        parts = [HEAD]
        for title, pairs in [("", record), *sections]:
            note = "".join(c if c.isprintable() else " " for c in notes.get(title, ""))
            lines = [title] * bool(title) + [f"# {' '.join(note.split())}"] * bool(note)
            lines += [f"{key} = {_toml(value, key)}" for key, value in pairs.items()]
            parts.append("\n".join([*lines, ""]))
        with atomic_write(path) as file:
            file.write("\n".join(parts).encode("utf-8"))


def bounds_from(facts: Mapping[str, Any]) -> Bounds | TableBounds:
    """Return the bounds that a plain dict means: of `Bounds`, or columns for `from_dict`."""
    if facts and set(facts) <= {each.name for each in fields(Bounds)}:
        return Bounds(**facts)
    is_named = isinstance(facts.get("columns"), Mapping)
    return TableBounds.from_dict(**facts) if is_named else TableBounds.from_dict(facts)


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


def _declared(value: Any) -> dict[str, Any]:
    """Return the keys of the file for the short forms of Python."""
    if isinstance(value, Mapping):
        listed = value.get("categories", value.get("labels"))
        if isinstance(listed, list | tuple) and listed:
            return {"type": _type_of_all(listed), **value}
        default = "string" if value.get("left_out") else "double"
        return {"type": "date32[day]" if "parts" in value else default, **value}
    if value is None:
        return {"type": "string", "left_out": True}
    if value is bool:
        return {"type": "bool"}
    if isinstance(value, str):
        return {"type": "string", "labels": value}
    is_pair = isinstance(value, tuple) and len(value) == 2
    if is_pair and all(isinstance(v, date) or (isinstance(v, str) and DAY.match(v)) for v in value):
        return {"type": "date32[day]", "parts": ("time",), "lower": value[0], "upper": value[1]}
    if is_pair and not any(isinstance(v, str) for v in value):
        return {"type": "double", "lower": value[0], "upper": value[1]}
    if isinstance(value, list | tuple):
        return {"type": _type_of_all(value), "categories": list(value)}
    raise InvalidInputError(
        "A column is declared as (lower, upper), a list of categories, bool, None to leave it "
        f"out, or a mapping of keys. Got {value!r}."
    )


def _type_of_all(values: Any) -> str:
    known = {NAMES_OF_TYPES.get(type(value), "double") for value in values}
    return known.pop() if len(known) == 1 else "string"
