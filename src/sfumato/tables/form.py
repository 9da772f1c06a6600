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
from sfumato.exceptions import InvalidInputError
from sfumato.tables.choice import choose_categories

__all__ = ["TableForm", "arrow_kind", "is_table"]

LIBRARIES = ("pandas", "polars", "pyarrow")
TABLE_CLASSES = ("DataFrame", "Table")
NUMBERS = "biuf"  # kinds of NumPy types that count as numbers
_ARROW_KINDS = {
    "bool": "b",
    "int": "i",
    "uint": "u",
    "halffloat": "f",
    "float": "f",
    "double": "f",
}


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
    truth values are rounded.

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
    def of(cls, table: Any, categories: Mapping[str, Sequence[Any]] | None = None) -> TableForm:
        """Read the form of a table; a column that is neither numbers nor listed is refused.

        Parameters
        ----------
        table : table
            A table of pandas, polars or Arrow.
        categories : mapping of str to sequence, optional
            Public list of the values of each column that does not hold numbers.
        """
        listed = {str(name): tuple(values) for name, values in (categories or {}).items()}
        columns = tuple(str(name) for name in _column_names(table))
        for name in listed:
            if name not in columns or not listed[name]:
                raise InvalidInputError(
                    f"'categories' names the column {name!r}: the table must have it, and its "
                    "list must name at least one category."
                )
        types, kinds = [], []
        for name in columns:
            types.append(_type_name(table, name))
            kinds.append("c" if name in listed else _number_kind(table, name))
        return cls(_library_of(table), columns, tuple(types), tuple(kinds), listed)

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
        blocks = [
            _one_hot(_values(table, name), self.categories[name])
            if name in self.categories
            else _numbers(table, name)[:, None]
            for name in self.columns
        ]
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


def _values(table: Any, name: str) -> NDArray[Any]:
    return np.asarray(table[name])


def _numbers(table: Any, name: str) -> NDArray[np.float64]:
    if _library_of(table) == "pyarrow":  # a missing value of any type becomes a missing number
        column = table[name]
        if str(column.type) == "bool":
            column = column.cast("uint8")
        return np.asarray(column.cast("float64", safe=False))
    return np.asarray(_values(table, name), dtype=np.float64)


def _type_name(table: Any, name: str) -> str:
    column = table[name]
    return str(column.type if _library_of(table) == "pyarrow" else column.dtype)


def _number_kind(table: Any, name: str) -> str:
    if _library_of(table) == "pyarrow":  # by its type: a missing value would make it a float
        kind = arrow_kind(_type_name(table, name))
    else:
        kind = _values(table, name).dtype.kind
    if kind not in NUMBERS:
        raise InvalidInputError(
            f"The column {name!r} does not hold numbers. List its possible values in 'categories' "
            "(they are taken for public), or leave the column out."
        )
    return kind


def arrow_kind(type_name: str) -> str:
    """Give the NumPy kind of a type of Arrow, or an empty text where it holds no numbers."""
    return _ARROW_KINDS.get(type_name.rstrip("0123456789"), "")


def _one_hot(values: NDArray[Any], categories: Sequence[Any]) -> NDArray[np.float64]:
    return np.stack([np.asarray(values == each, dtype=np.float64) for each in categories], axis=1)


def _rounded(numbers: NDArray[np.float64], kind: str, type_name: str) -> NDArray[Any]:
    """Give numbers as the kind of their column; whole ones inside the range of their type."""
    if kind == "b":
        return np.asarray(numbers >= 0.5)
    if kind == "f":
        return numbers
    width = type_name.lower().lstrip("uint")
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
