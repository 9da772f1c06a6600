"""The public facts about a table, and what its records become by them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.tables import bounds_file
from sfumato.tables.bounds import check_persons
from sfumato.tables.facts import Column, Feature, Target, refuse_unknown
from sfumato.tables.frames import column_names, columns_of
from sfumato.tables.text import TextFormat

ABOUT_PERSONS = ("person", "person_rows", "per_person", "one_row_per_person", "looks_like_ids")
LAYOUT = 2  # a file of another layout is refused: its words may mean something else
NAMES_OF_TYPES = {float: "double", int: "int64", bool: "bool", str: "string"}


@dataclass(frozen=True)
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
        Whether the owner has declared that nobody has more than one row.
    looks_like_ids : tuple of str
        Columns in which `describe` found values that repeat as IDs do. If there are any, the owner
        must declare `person` or `one_row_per_person`.

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "looks_like_ids", tuple(self.looks_like_ids))
        check_persons(self.person_rows, self.per_person)
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
            By the name of a column: a pair ``(lower, upper)`` for a number, a list for categories,
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
            The bounds. Whoever writes them down declares them public.
        """
        records = {str(name): _declared(value) for name, value in columns.items()}
        about = None
        if target is not None:
            if target not in records:
                raise InvalidInputError(f"'columns' must say what the target {target!r} can be.")
            record = records.pop(target)
            if "categories" in record:
                record["labels"] = record.pop("categories")
            about = {"column": target, **record}
        about_persons = {"person": person, "person_rows": person_rows, "per_person": per_person}
        return cls.from_record(
            {"version": LAYOUT, "confirmed": True, "target": about, "columns": records}
            | {name: value for name, value in about_persons.items() if value is not None}
        )

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
        """Return each cell of the used columns as a number, by itself.

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
                "These bounds are proposals taken from the data, and nobody has confirmed them. "
                "Check them, column by column, with `sfumato confirm`."
            )
        if self.looks_like_ids and self.person is None and not self.one_row_per_person:
            raise MissingBoundsError(
                f"The column {self.looks_like_ids[0]!r} looks like a repeating ID. Declare who a "
                'row belongs to, person = "COLUMN" and person_rows = 8, or '
                "one_row_per_person = true."
            )

    def with_person(self, name: str | None, rows: int | None) -> TableBounds:
        """Return the bounds with the column of IDs; what they declare may be repeated, not changed.

        Parameters
        ----------
        name : str or None
            The column of IDs, if somebody has given one.
        rows : int or None
            The most rows of a person, likewise.

        Returns
        -------
        TableBounds
            The bounds.
        """
        for what, given, known in (
            ("person", name, self.person),
            ("person_rows", rows, self.person_rows),
        ):
            if given is not None and known is not None and given != known:
                raise InvalidInputError(f"'{what}' is {given!r}, the bounds declare {known!r}.")
        if self.one_row_per_person and name is not None:
            raise InvalidInputError("The bounds declare one row per person.")
        kept = tuple(column for column in self.columns if column.name != name)
        return replace(
            self,
            columns=kept,
            person=self.person if name is None else name,
            person_rows=self.person_rows if rows is None else rows,
        )

    def require_target(self, name: str | None) -> Target:
        """Return the target; `name` may repeat it, not change it.

        Parameters
        ----------
        name : str or None
            Name of the target, if somebody has given one.

        Returns
        -------
        Target
            The column to predict.
        """
        if self.target is None:
            raise MissingBoundsError(
                "The bounds have no [target]: name the column of labels. `sfumato describe "
                "--target NAME` writes it."
            )
        if name is not None and name != self.target.name:
            raise InvalidInputError(
                f"'target' is {name!r}, the bounds were made for the target {self.target.name!r}. "
                "Describe the table again with the target you want."
            )
        return self.target

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
        """Return the labels or numbers of the target, each cell by itself.

        Parameters
        ----------
        table : table
            A table of pandas, polars or Arrow.
        name : str, optional
            The target's name; may repeat it, not change it.

        Returns
        -------
        ndarray or None
            Labels (of the first one, where a cell holds none of them) or numbers; None where the
            bounds name no target, or the table has no such column and it was not asked for.
        """
        if name is not None:
            self.require_target(name)
        if self.target is None or (name is None and self.target.name not in column_names(table)):
            return None
        return self.target.values(columns_of(table, [self.target.name])[self.target.name])

    # As plain values and as a file ------------------------------------------------------------

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
        known = {"version", "confirmed", "target", "columns", "file", *ABOUT_PERSONS}
        refuse_unknown(record, known, "The file")
        _check_version(record.get("version"))
        if not isinstance(record.get("confirmed"), bool):
            raise InvalidInputError("'confirmed' must be true or false.")
        columns = record.get("columns")
        if not isinstance(columns, Mapping) or not columns:
            raise InvalidInputError("There must be one [columns.NAME] for each column.")
        declared = record.get("target")
        target = None if declared is None else Target.from_record(declared)
        found = tuple(Column.from_record(name, each) for name, each in columns.items())
        person = record.get("person")
        others = {person, None if target is None else target.name}
        if target is not None and person == target.name:
            raise InvalidInputError("'person' and [target] must name different columns.")
        found = tuple(column for column in found if column.name not in others)
        names = [each.name for column in found if not column.left_out for each in column.features]
        if len(set(names)) != len(names):
            raise InvalidInputError(
                "A column has the name of a part of a date, such as 'day.year'."
            )
        text = None if record.get("file") is None else TextFormat.from_record(record["file"])
        about = {name: record[name] for name in ABOUT_PERSONS if name in record}
        return cls(found, target, record["confirmed"], text, **about)

    def to_record(self) -> dict[str, Any]:
        """Return plain values, which `from_record` reads.

        Returns
        -------
        dict
            Keys and values as in the file of bounds.
        """
        found: dict[str, Any] = {"version": LAYOUT, "confirmed": self.confirmed}
        if self.person is not None:
            found["person"] = self.person
        if self.person_rows is not None:
            found |= {"person_rows": self.person_rows, "per_person": self.per_person}
        if self.one_row_per_person:
            found["one_row_per_person"] = True
        if self.looks_like_ids:
            found["looks_like_ids"] = self.looks_like_ids
        if self.text is not None:
            found["file"] = self.text.to_record()
        if self.target is not None:
            found["target"] = self.target.to_record()
        return {**found, "columns": {each.name: each.to_record() for each in self.columns}}

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> TableBounds:
        """Read and check a file of bounds.

        Parameters
        ----------
        path : path-like
            The file.

        Returns
        -------
        TableBounds
            The bounds.
        """
        record = bounds_file.read(path)
        try:
            return cls.from_record(record)
        except InvalidInputError as error:
            raise type(error)(f"The bounds in '{path}' cannot be used. {error}") from None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the bounds with comments for the person who confirms them.

        Parameters
        ----------
        path : path-like
            The file to write, aside and renamed.
        """
        bounds_file.write(self.to_toml(), path)

    def to_toml(self) -> str:
        """Return the text of the file.

        Returns
        -------
        str
            TOML with comments.
        """
        notes = {column.name: column.note for column in self.columns}
        return bounds_file.text_of(self.to_record(), notes, self.target.note if self.target else "")


def _declared(value: Any) -> dict[str, Any]:
    """Return the keys of the file for the short forms of Python."""
    if isinstance(value, Mapping):
        return {"type": _type_for(value), **value}
    if value is None:
        return {"type": "string", "left_out": True}
    if value is bool:
        return {"type": "bool"}
    if isinstance(value, str):
        return {"type": "string", "labels": value}
    if isinstance(value, tuple) and len(value) == 2 and not any(isinstance(v, str) for v in value):
        return {"type": "double", "lower": value[0], "upper": value[1]}
    if isinstance(value, list | tuple):
        return {"type": _type_of_all(value), "categories": list(value)}
    raise InvalidInputError(
        "A column is declared as (lower, upper), a list of categories, bool, None to leave it "
        f"out, or a mapping of keys. Got {value!r}."
    )


def _type_for(record: Mapping[str, Any]) -> str:
    listed = record.get("categories", record.get("labels"))
    if isinstance(listed, list | tuple) and listed:
        return _type_of_all(listed)
    return "date32[day]" if "parts" in record else "string" if record.get("left_out") else "double"


def _type_of_all(values: Any) -> str:
    kinds = {type(value) for value in values}
    known = {NAMES_OF_TYPES.get(kind, "double") for kind in kinds}
    return known.pop() if len(known) == 1 else "string"


def _check_version(version: Any) -> None:
    if not isinstance(version, int) or isinstance(version, bool):
        raise InvalidInputError(f"'version' must be the number {LAYOUT}.")
    if version != LAYOUT:
        raise InvalidInputError(f"It has version {version}; this Sfumato reads version {LAYOUT}.")
