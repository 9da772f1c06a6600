"""Tables by their kind: those in memory, their names and columns, and those that lie elsewhere.

None of these libraries is imported here: a table that was handed over has brought its own along.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.tables.columns import arrow, type_of

LIBRARIES = ("pandas", "polars", "pyarrow")
TABLE_CLASSES = ("DataFrame", "Table")
CLUSTERS = ("dask", "pyspark")
QUERIES = (("duckdb", "DuckDBPyRelation"), ("_duckdb", "DuckDBPyRelation"), ("polars", "LazyFrame"))


def is_table(X: object) -> bool:
    """Return whether `X` is a table with named columns.

    Parameters
    ----------
    X : object
        Anything.

    Returns
    -------
    bool
        Whether it is one.
    """
    return library_of(X) in LIBRARIES and type(X).__name__ in TABLE_CLASSES


def is_out_of_core(X: object) -> bool:
    """Return whether `X` names or describes a table that is not in memory.

    Such are paths, queries, tables and arrays of a cluster, and what says so of itself in
    `is_elsewhere`: `Partitions` and records of parties.
    """
    if isinstance(X, str | os.PathLike) or getattr(type(X), "is_elsewhere", False) is True:
        return True
    library, kind = library_of(X), type(X).__name__
    is_array = library == "dask" and hasattr(X, "chunks")
    in_cluster = library in CLUSTERS and (hasattr(X, "columns") or is_array)
    return in_cluster or (library, kind) in QUERIES


def library_of(X: object) -> str:
    """Name the library of an object."""
    return type(X).__module__.partition(".")[0]


def column_names(table: Any) -> list[str]:
    """Return the names of the columns of a table, in order."""
    names = table.column_names if library_of(table) == "pyarrow" else table.columns
    return [str(name) for name in names]


def columns_of(table: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return columns by name; a table that lacks one, or has it twice, is an error."""
    given = column_names(table)
    found = {}
    for name in names:
        if given.count(name) != 1:
            what = "lacks" if name not in given else "has more than one of"
            raise InvalidInputError(f"The table {what} the column {name!r}, which is needed once.")
        found[name] = _column(table, given.index(name))
    return found


def _column(table: Any, place: int) -> Any:
    library = library_of(table)
    if library == "pandas":
        return table.iloc[:, place]
    return table.to_series(place) if library == "polars" else table.column(place)


def table_from(library: str, values: Mapping[str, Sequence[Any]], types: Mapping[str, str]) -> Any:
    """Build a table of a library from columns (None: missing) and the names of their types."""
    home = sys.modules.get(library)
    if home is None:
        raise InvalidInputError(f"The rows were a table of {library}: import {library} first.")
    arrays = {n: arrow().array(list(v)).cast(type_of(types[n])) for n, v in values.items()}
    table = arrow().table(arrays)
    if library == "pandas":
        return table.to_pandas()
    return home.from_arrow(table) if library == "polars" else table
