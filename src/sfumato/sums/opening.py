"""What `fit` was given, as parts of a table: by its kind, without importing any engine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.exceptions import InvalidInputError
from sfumato.sums.partitions import Partitions
from sfumato.sums.table_parts import FileParts, QueryParts
from sfumato.sums.urls import UrlParts, is_url
from sfumato.tables.cells import library_of
from sfumato.tables.columns import arrow


def partitions_of(X: Any, y: Any = None, groups: Any = None) -> tuple[Partitions, Any, Any]:
    """Open a table that is not in memory.

    X (path, DuckDB relation, Polars LazyFrame, Dask or Spark DataFrame, Dask array, Partitions):
        The table. A path may name a file, a folder of files, or be a glob.
    y, groups (str or None): Names of the columns of the target and of IDs; Dask arrays beside a
        Dask array.
    Returns parts: The table in parts.
    Returns y, groups: The names of columns that are left to be found.
    """
    if _is_dask_array(X):
        from sfumato.sums.dask import ArrayParts  # here, because it needs Dask

        return ArrayParts(X, y, groups), None, None
    for name, column in (("y", y), ("groups", groups)):
        if column is not None and not isinstance(column, str):
            raise InvalidInputError(
                f"'{name}' must name a column of the table, since its rows are not in memory. "
                f"Got {type(column).__name__} instead."
            )
    return _opened(X), y, groups


def _opened(X: Any) -> Partitions:
    if isinstance(X, Partitions):
        return X
    if isinstance(X, str | os.PathLike):
        return UrlParts(X) if is_url(X) else FileParts.of(X)
    if library_of(X) == "dask":
        from sfumato.sums.dask import FrameParts

        return FrameParts(X)
    if library_of(X) == "pyspark":
        from sfumato.sums.spark import SparkParts

        return SparkParts(X)
    return QueryParts(X)


def _is_dask_array(X: object) -> bool:
    return library_of(X) == "dask" and hasattr(X, "chunks")


def all_missing_record(columns: Sequence[str] | int, schema: Any = None) -> Any:
    """Return one made-up record of which nothing is known: what is public can be read off it."""
    if isinstance(columns, int):
        return np.full((1, columns), np.nan), np.full(1, np.nan), np.full(1, np.nan)
    types = ["null" if schema is None else schema.field(name).type for name in columns]
    missing = [arrow().nulls(1, kind) for kind in types]
    return arrow().table(dict(zip(columns, missing, strict=True)))
