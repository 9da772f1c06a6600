"""Cells as doubles: what is not a number is missing, silently, whatever its neighbours hold.

An error or a warning about one cell would tell that such a record is there, so there is none, and
nothing is counted. A record that is not a sequence of as many cells as there are features is
missing altogether. The type of an array is not trusted: one odd cell turns numbers into text,
objects or complex numbers. No library of tables is imported: one that was handed over has brought
its own along.
"""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_array, validate_data

from sfumato.core.arrays import namespace_of
from sfumato.exceptions import InvalidInputError, InvalidTypeError

TRUTHS = {"true": 1, "false": 0}
REAL_KINDS = "biuf"  # of NumPy types whose cells are all numbers
COMPLEX = re.compile(r"\((.+)[+-]0j\)|0j")
NOT_ON_ARROW = ("Object", "Int128", "UInt128")  # of polars
TIME_KINDS = "mM"  # of dates and times: one cell can change the unit of a whole column
LIBRARIES = ("pandas", "polars", "pyarrow")
QUERIES = (("duckdb", "DuckDBPyRelation"), ("_duckdb", "DuckDBPyRelation"), ("polars", "LazyFrame"))

Array = NDArray[np.float64]


def as_number(cell: Any) -> float:
    """Return one cell as a double, NaN for what is not a number; never raises."""
    try:
        if isinstance(cell, bytes):  # as NumPy writes all cells of a column with bytes
            cell = cell.decode("utf-8", "replace")
        if isinstance(cell, str):  # as truth values are written in a column of text
            cell = TRUTHS.get(cell.lower(), real_text(cell))
        if isinstance(cell, complex | np.complexfloating):  # as reals are written beside one
            cell = cell.real if cell.imag == 0 else None
        is_time = isinstance(cell, np.datetime64 | np.timedelta64)  # numbers in one unit only
        return np.nan if is_time else float(cell)
    except Exception:  # whatever a strange object raises, its cell is missing
        return np.nan


def real_text(text: str) -> str:
    """Return the text of a number that is written as a complex one, as all beside a complex one."""
    found = COMPLEX.fullmatch(text) if text.endswith(("j", "j)")) else None
    return (found[1] or "0") if found else text


def as_numbers(cells: Any) -> Array:
    """Return an array of cells as doubles, each cell read alone."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of beyond-double numbers, and of strange objects
        if cells.dtype.kind in REAL_KINDS:
            return np.asarray(cells, dtype=np.float64)
        if cells.dtype.kind in TIME_KINDS:  # no numbers, as in a column of objects
            return np.full(cells.shape, np.nan)
        each = map(as_number, cells.astype(object).ravel())  # [Q1] each cell alone
        return np.fromiter(each, dtype=np.float64, count=cells.size).reshape(cells.shape)


def as_cells(values: Any) -> NDArray[Any]:
    """Return a sequence as an array of one cell each; a typed one keeps its type."""
    if isinstance(values, list | tuple):
        cells = np.empty(len(values), dtype=object)
        for place, value in enumerate(values):
            boxed = isinstance(value, list | tuple) and len(value) == 1
            cells[place] = value[0] if boxed else value
        return cells
    column = on_arrow(values)
    try:
        return np.asarray(column)
    except MemoryError:
        raise
    except Exception:  # NumPy cannot, because of one cell or of a type
        cells = np.empty(len(column), dtype=object)
        for place, cell in enumerate(cells_of(column)):
            cells[place] = cell
        return cells


def cells_of(column: Any) -> list[Any]:
    """Return the cells of a column as objects, None for one that Python cannot hold."""

    def as_list(part: Any) -> list[Any]:
        return part.to_pylist() if hasattr(part, "to_pylist") else list(part)

    try:
        return as_list(column)
    except MemoryError:  # says nothing about a cell
        raise
    except Exception:  # of a date beyond the years of Python, say; then each alone
        cells, by_place = [], getattr(column, "iloc", column)
        for place in range(len(column)):
            try:
                cells.append(as_list(by_place[place : place + 1])[0])
            except MemoryError:
                raise
            except Exception:
                cells.append(None)
        return cells


def on_arrow(column: Any) -> Any:
    """Return a column on Arrow as it is stored; libraries fail at cells that Python cannot hold."""
    dtype = getattr(column, "dtype", None)
    if hasattr(column, "to_arrow"):  # of polars, but for types that Arrow lacks
        column = column if str(dtype) in NOT_ON_ARROW else column.to_arrow()
    elif hasattr(dtype, "pyarrow_dtype"):  # of pandas
        column = getattr(column, "array", column).__arrow_array__()
    kind: Any = getattr(column, "type", None)
    while hasattr(kind, "storage_type") or hasattr(kind, "index_type"):
        # Of a dictionary NumPy would take a missing cell for the last value that is known.
        column = column.cast(getattr(kind, "storage_type", None) or kind.value_type)
        kind = column.type
    return column


def as_rows(X: Any, n_features: int | None = None) -> Array:
    """Return records as rows of doubles; no value makes it raise."""
    columns: list[Any] | None = None  # of a table of pandas, polars or Arrow
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        columns = [X.iloc[:, place] for place in range(X.shape[1])]
    elif hasattr(X, "get_columns") or hasattr(X, "itercolumns"):
        columns = list(X.get_columns() if hasattr(X, "get_columns") else X.itercolumns())
    if columns is not None:
        rows = np.empty((len(X), len(columns)))
        for place, column in enumerate(columns):
            cells = as_cells(column)  # more than one dimension: sequences, all of one length
            rows[:, place] = as_numbers(cells) if cells.ndim == 1 else np.nan
        return rows
    if isinstance(X, list | tuple):
        return _rows_of_records(X, n_features)  # [Q2] each record alone
    cells = np.asarray(X)
    if cells.ndim == 1 and cells.dtype == object:
        return _rows_of_records(cells, n_features)
    if cells.ndim != 2:
        raise InvalidInputError(
            f"Expected 2D array, got {cells.ndim}D array instead. Reshape your data to rows and "
            "columns."
        )
    # Single precision is kept: every double is the same once a block of rows is clipped, and a
    # copy of all rows would take twice their memory.
    return cells if cells.dtype == np.float32 else as_numbers(cells)


def _rows_of_records(records: Sequence[Any] | NDArray[Any], n_features: int | None) -> Array:
    with contextlib.suppress(Exception):  # plain numbers of one length: an array is much faster
        whole = np.asarray(list(records))
        is_plain = whole.ndim == 2 and whole.dtype.kind in REAL_KINDS
        if is_plain and n_features in (None, whole.shape[1]):
            return as_numbers(whole)
    found: list[NDArray[Any] | None] = []
    for record in records:
        cells = None
        if isinstance(record, list | tuple) or hasattr(record, "__array__"):
            with contextlib.suppress(Exception):  # of a strange object: its record is missing
                cells = as_cells(record)
        found.append(cells if cells is not None and cells.ndim == 1 else None)
    if n_features is None:
        if not found or found[0] is None:
            raise InvalidInputError(
                "Expected 2D array, got no rows of cells. Reshape your data to rows and columns; "
                "for no rows at all give an array of shape (0, n_features)."
            )
        n_features = len(found[0])
    rows = np.full((len(found), n_features), None, dtype=object)
    for row, given in zip(rows, found, strict=True):
        if given is not None and given.shape == row.shape:
            row[:] = given
    return as_numbers(rows)


def library_of(X: object) -> str:
    return type(X).__module__.partition(".")[0]


def is_table(X: object) -> bool:
    return library_of(X) in LIBRARIES and type(X).__name__ in ("DataFrame", "Table")


def is_out_of_core(X: object) -> bool:
    """Return whether `X` names or describes a table, or records of parties, not in memory."""
    if isinstance(X, str | os.PathLike) or getattr(type(X), "is_elsewhere", False) is True:
        return True
    library = library_of(X)
    if library == "dask" and hasattr(X, "chunks"):
        return True
    in_cluster = library in ("dask", "pyspark") and hasattr(X, "columns")
    return in_cluster or (library, type(X).__name__) in QUERIES


def column_names(table: Any) -> list[str]:
    names = table.column_names if library_of(table) == "pyarrow" else table.columns
    return [str(name) for name in names]


def columns_of(table: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return columns by name; a table that lacks one, or has it twice, is an error."""
    given, library, found = column_names(table), library_of(table), {}
    for name in names:
        if given.count(name) != 1:
            what = "is missing" if name not in given else "appears more than once"
            raise InvalidInputError(f"The column {name!r} {what} in the table.")
        place = given.index(name)
        if library == "pandas":
            found[name] = table.iloc[:, place]
        else:
            found[name] = table.to_series(place) if library == "polars" else table.column(place)
    return found


def checked_rows(
    estimator: BaseEstimator,
    X: ArrayLike,
    *,
    reset: bool,
    n_features: int | None = None,
    may_be_empty: bool = False,
) -> NDArray[np.float64]:
    """Return rows of doubles, and note or check the number and the names of their features."""
    try:
        if issparse(X):
            check_array(X)  # raises what scikit-learn raises
        is_list = isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype == object
        if n_features is None and (is_list or isinstance(X, list | tuple)):
            if reset:  # in a fit no record, nor most of them, may tell it
                raise InvalidInputError(
                    "A list of rows does not fix the number of features, which is public: give an "
                    "array or a table, or bounds with a range per feature."
                )
            n_features = getattr(estimator, "n_features_in_", None)
        rows = as_rows(X, n_features)
        for axis, name in enumerate(("sample(s)", "feature(s)")):
            if not rows.shape[axis] and not (axis == 0 and may_be_empty):
                shape = ("n", rows.shape[1]) if may_be_empty else rows.shape
                raise InvalidInputError(
                    f"Found array with 0 {name} (shape={shape}) while a minimum of 1 is required."
                )
        named = X if hasattr(X, "columns") else rows
        validate_data(estimator, named, reset=reset, skip_check_array=True)
    except InvalidInputError:
        raise
    except TypeError as error:
        raise InvalidTypeError(str(error)) from None
    except ValueError as error:
        raise InvalidInputError(str(error)) from None
    return rows


def checked_tensor(estimator: Any, X: Any, *, reset: bool, may_be_empty: bool = False) -> Any:
    """Do as `checked_rows` with an array of another library, which stays where it is."""
    if X.ndim != 2 or 0 in X.shape[may_be_empty:]:
        shape = ("n", *X.shape[1:]) if may_be_empty else tuple(X.shape)
        raise InvalidInputError(f"Rows must form a 2-D array with data. Got shape {shape}.")
    if reset:
        estimator.n_features_in_ = int(X.shape[1])
    elif X.shape[1] != estimator.n_features_in_:
        raise InvalidInputError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    xp = namespace_of(X)
    return X if xp.isdtype(X.dtype, "real floating") else xp.astype(X, xp.float64)


def checked_column(estimator: BaseEstimator, y: ArrayLike | None, n_rows: int) -> NDArray[Any]:
    """Return labels or targets as one cell per row; of the cells nothing is asked."""
    if y is None:
        raise InvalidInputError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None. "
            "Pass y, or name its column in bounds: {'columns': {...}, 'target': 'COLUMN'}."
        )
    column = as_cells(y)
    if column.ndim == 2 and column.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: pass y.ravel().",
            DataConversionWarning,
            stacklevel=3,
        )
        column = column.ravel()
    if column.ndim != 1:
        raise InvalidInputError(f"y should be a 1d array, got {column.ndim} dimensions instead.")
    if len(column) != n_rows:
        raise InvalidInputError("X and y have inconsistent numbers of samples.")
    return column
