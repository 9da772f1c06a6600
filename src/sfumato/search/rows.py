"""Rows of arrays and of tables of any library."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["n_rows", "taken"]


def n_rows(X: Any) -> int:
    """Give the number of rows of an array or a table."""
    if hasattr(X, "num_rows"):
        return int(X.num_rows)
    return len(X) if hasattr(X, "__len__") else len(np.asarray(X))


def taken(values: Any, rows: NDArray[np.intp]) -> Any:
    """Give some rows of an array or a table."""
    if values is None:
        return None
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    if hasattr(values, "take") and hasattr(values, "schema") and hasattr(values, "num_rows"):
        return values.take(rows)
    if hasattr(values, "select") and hasattr(values, "height"):
        return values[rows.tolist()]
    return np.asarray(values)[rows]
