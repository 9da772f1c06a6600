"""Tables of pandas, polars and Arrow as numbers, and numbers as such tables again.

None of these libraries is imported here: a table that was handed over has brought its own along.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.tables.choice import choose_categories
from sfumato.tables.columns import arrow_kind, as_numbers, codes_of, type_of, type_of_value

__all__ = ["TableForm", "is_table"]

LIBRARIES = ("pandas", "polars", "pyarrow")
TABLE_CLASSES = ("DataFrame", "Table")
PUBLIC_TYPES = "public"
NAMES_OF_TYPES = {
    "pandas": {"double": "float64", "float": "float32", "halffloat": "float16", "string": "str"},
    "polars": {
        "double": "Float64",
        "float": "Float32",
        "halffloat": "Float32",
        "bool": "Boolean",
        "string": "String",
    },
}
KINDS_IN_POLARS = {"Boolean": "b", "Int": "i", "UInt": "u", "Float": "f"}


def is_table(X: object) -> bool:
    """Tell whether `X` is a table with named columns.

    Parameters
    ----------
    X : object
        Anything.

    Returns
    -------
    bool
        Whether it is one.
    """
    return _library_of(X) in LIBRARIES and type(X).__name__ in TABLE_CLASSES


@dataclass(frozen=True)
class TableForm:
    """Columns of a table: names, types and, for columns of categories, the public categories.

    A column of numbers is one number of a row. A column with categories is one number for each
    of them, 1 where it is the category of the row and 0 else; a value outside the list is 0
    everywhere. Back again, the category with the largest number is taken, whole numbers and
    truth values are rounded. Each cell is read by itself, as what was declared: one that is not
    is missing.

    Parameters
    ----------
    library : {"pandas", "polars", "pyarrow"}
        Whose table it is.
    columns, types : tuple of str
        Names of the columns, and of their types in that library.
    kinds : tuple of str
        NumPy kind of each column of numbers ("b", "i", "u", "f"); "c" for categories.
    categories : dict of str to tuple
        The categories of each such column.
    """

    library: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    kinds: tuple[str, ...]
    categories: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        table: Any,
        categories: Mapping[str, Sequence[Any]] | None = None,
        types: Mapping[str, str] | str | None = None,
    ) -> TableForm:
        """Give the form of a table: its names, and what is declared about its columns.

        Parameters
        ----------
        table : table
            A table of pandas, polars or Arrow; only its names are read.
        categories : mapping of str to sequence, optional
            Public list of the values of each column that does not hold numbers.
        types : mapping of str to str, or str
            Public type of every other column, by its Arrow name ("double", "int64", "bool"); one
            name for all of them; or "public", which takes the types of this table. In pandas a
            missing or odd cell changes the type of its column, so these are read only if they are
            declared public.
        """
        listed = {str(name): tuple(values) for name, values in (categories or {}).items()}
        columns = tuple(str(name) for name in _column_names(table))
        _check_names(columns, listed)
        told = _declared(columns, listed, types)  # [Z5] types are declared, not found
        library = _library_of(table)
        names, kinds = [], []
        for place, name in enumerate(columns):
            stored = _type_name(_column(table, place)) if types == PUBLIC_TYPES else ""
            names.append(stored or _name_in(library, told[name]))
            kinds.append("c" if name in listed else _kind(library, stored, told, name))
        return cls(library, columns, tuple(names), tuple(kinds), listed)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> TableForm:
        """Rebuild a form from `to_dict`.

        Parameters
        ----------
        record : mapping
            What `to_dict` gave.
        """
        return cls(**record)

    def to_dict(self) -> dict[str, Any]:
        """Give the form as plain values.

        Returns
        -------
        dict
            Plain values, which `from_dict` reads.
        """
        return {**vars(self), "categories": dict(self.categories)}

    @property
    def n_numbers(self) -> int:
        """Numbers of an encoded row."""
        return sum(self._widths())

    def encode(self, table: Any) -> NDArray[np.float64]:
        """Give the rows of a table of this form as numbers.

        Parameters
        ----------
        table : table
            A table of pandas, polars or Arrow.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows of numbers.
        """
        places = {str(name): place for place, name in enumerate(_column_names(table))}
        blocks = []
        for name, kind in zip(self.columns, self.kinds, strict=True):
            column, named = _column(table, places[name]), f"The column {name!r}"
            if kind == "c":
                blocks.append(_one_hot(column, self.categories[name], named))
            else:
                blocks.append(as_numbers(column, kind, named)[:, None])
        return np.concatenate(blocks, axis=1)

    def decode(self, rows: NDArray[np.float64]) -> Any:
        """Give numbers as a table of this form.

        Parameters
        ----------
        rows : ndarray of shape (n_samples, n_features)
            Rows of numbers. Those of a category need not lie in [0, 1]: they are scores, see
            `choose_categories`.

        Returns
        -------
        table
            A table of the kind that the form was read from.
        """
        values, start = {}, 0
        parts = zip(self.columns, self.kinds, self.types, self._widths(), strict=True)
        for name, kind, type_name, width in parts:
            numbers = rows[:, start : start + width]
            if kind == "c":
                choices = np.array(self.categories[name])
                values[name] = np.asarray(choices[choose_categories(numbers)])
            else:
                values[name] = _rounded(numbers[:, 0], kind, type_name)
            start += width
        return _table(self.library, values, dict(zip(self.columns, self.types, strict=True)))

    @property
    def is_category(self) -> NDArray[np.bool_]:
        """Which numbers of an encoded row belong to categories."""
        return np.repeat([kind == "c" for kind in self.kinds], self._widths())

    def encoded_bounds(self, bounds: Bounds) -> Bounds:
        """Give bounds of encoded rows from those of the columns of numbers, in their order.

        Parameters
        ----------
        bounds : Bounds
            Bounds of the columns of numbers.

        Returns
        -------
        Bounds
            Bounds of the encoded rows.
        """
        if bounds.lower is None or not self.categories:
            return bounds
        n_plain = self.kinds.count("c")
        box = bounds.box(len(self.columns) - n_plain)
        assert box is not None  # noqa: S101 - a box was asked for above
        corners = [self._spread(corner, fill) for corner, fill in zip(box, (0.0, 1.0), strict=True)]
        return replace(bounds, lower=tuple(corners[0]), upper=tuple(corners[1]))

    def _spread(self, corner: NDArray[np.float64], fill: float) -> list[float]:
        numbers = iter(corner.tolist())
        return [
            value
            for kind, width in zip(self.kinds, self._widths(), strict=True)
            for value in ([fill] * width if kind == "c" else [next(numbers)])
        ]

    def _widths(self) -> list[int]:
        return [len(self.categories.get(name, "1")) for name in self.columns]


def _library_of(X: object) -> str:
    return type(X).__module__.partition(".")[0]


def _column_names(table: Any) -> list[Any]:
    return list(table.column_names if _library_of(table) == "pyarrow" else table.columns)


def _column(table: Any, place: int) -> Any:
    library = _library_of(table)
    if library == "pandas":
        return table.iloc[:, place]
    return table.to_series(place) if library == "polars" else table.column(place)


def _check_names(columns: Sequence[str], listed: Mapping[str, Sequence[Any]]) -> None:
    if len(set(columns)) != len(columns):
        raise InvalidInputError("The table has two columns of one name.")
    for name, values in listed.items():
        if name not in columns or not values:
            raise InvalidInputError(
                f"'categories' names the column {name!r}: the table must have it, and its "
                "list must name at least one category."
            )


def _declared(
    columns: Sequence[str],
    listed: Mapping[str, Sequence[Any]],
    types: Mapping[str, str] | str | None,
) -> dict[str, str]:
    """Give the declared type of every column; that of categories follows from their values."""
    found = {}
    for name, values in listed.items():
        kinds = {type_of_value(value) for value in values}
        are_whole = kinds == {"double"} and all(isinstance(v, int | np.integer) for v in values)
        found[name] = "int64" if are_whole else kinds.pop() if len(kinds) == 1 else "string"
    if isinstance(types, str):
        found = dict.fromkeys(columns, types) | found
    elif types is not None:
        found |= {str(name): told for name, told in types.items()}
    for name in columns:
        if name not in found:
            raise MissingBoundsError(
                f"The type of the column {name!r} is needed and is never learned from its cells: "
                "give types='double' for numbers, types={name: type, ...} with 'double', 'int64' "
                "or 'bool', or types='public' if the types of this table are public knowledge."
            )
    return found


def _name_in(library: str, told: str) -> str:
    """Name a type of Arrow as a library names it."""
    plain = str(type_of(told))
    known = NAMES_OF_TYPES.get(library, {})
    if plain in known or library != "polars":
        return known.get(plain, plain)
    return plain.replace("uint", "UInt") if plain.startswith("u") else plain.capitalize()


def _kind(library: str, stored: str, told: Mapping[str, str], name: str) -> str:
    kind = _kind_in(library, stored) if stored else arrow_kind(str(type_of(told[name])))
    if not kind:
        raise InvalidInputError(
            f"The column {name!r} does not hold numbers. List its possible values in 'categories' "
            "(they are taken for public), or leave the column out."
        )
    return kind


def _kind_in(library: str, stored: str) -> str:
    """Give the kind of numbers that a type of a library holds, or an empty text."""
    if library == "polars":
        return KINDS_IN_POLARS.get(stored.rstrip("0123456789"), "")
    return arrow_kind(stored.lower().removesuffix("[pyarrow]").replace("boolean", "bool"))


def _type_name(column: Any) -> str:
    return str(column.type if _library_of(column) == "pyarrow" else column.dtype)


def _one_hot(column: Any, categories: Sequence[Any], named: str) -> NDArray[np.float64]:
    codes = codes_of(column, categories, named)
    rows = np.zeros((len(codes), len(categories)))
    rows[codes >= 0, codes[codes >= 0]] = 1.0
    return rows


def _rounded(numbers: NDArray[np.float64], kind: str, type_name: str) -> NDArray[Any]:
    """Give numbers as the kind of their column; whole ones inside the range of their type."""
    if kind == "b":
        return np.asarray(numbers >= 0.5)
    if kind == "f":
        return numbers
    width = type_name.lower().removesuffix("[pyarrow]").lstrip("uint")
    range_of = np.iinfo(f"{'u' if kind == 'u' else ''}int{width if width.isdigit() else 64}")
    # The largest double below 2**64 is not its last whole number; steps of 2048 lie between.
    highest = np.nextafter(float(range_of.max), 0) if range_of.bits == 64 else range_of.max
    return np.rint(np.clip(numbers, range_of.min, highest)).astype(range_of.dtype)


def _table(library: str, values: dict[str, NDArray[Any]], types: dict[str, str]) -> Any:
    home = sys.modules.get(library)
    if home is None:
        raise InvalidInputError(f"The rows were a table of {library}: import {library} first.")
    if library == "pandas":
        return home.DataFrame(values).astype(types)
    if library == "polars":
        columns = [
            home.Series(name, list(v) if v.dtype.kind in "UO" else v) for name, v in values.items()
        ]
        return home.DataFrame([c.cast(_polars_type(home, types[c.name])) for c in columns])
    arrays = [
        home.array(column.tolist()).cast(home.type_for_alias(types[name]))
        for name, column in values.items()
    ]
    return home.table(arrays, names=list(values))


def _polars_type(polars: Any, name: str) -> Any:
    # Parameters of a type, as in "Categorical(ordering='physical')", do not bind new values.
    return getattr(polars, name.partition("(")[0])
