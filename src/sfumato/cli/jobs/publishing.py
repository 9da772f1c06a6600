"""Private functions of a table: a density of some columns, or the mean of its rows as curves.

The model that results is the release: a small file that answers any number of points.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sfumato.cli.jobs.pipeline import PrivacyRequest, is_public, make_model, public_class
from sfumato.cli.jobs.streaming import fit_rows
from sfumato.exceptions import InvalidInputError
from sfumato.models.density import FEW_FEATURES
from sfumato.sums.partitions import Partitions
from sfumato.tables.columns import arrow, arrow_kind
from sfumato.tables.files import TableFile
from sfumato.tables.schema import TableBounds

# The names of the command line, and the public classes they stand for.
FUNCTIONS = {"curve": "PrivateMeanCurve", "density": "PrivateDensity"}
MAX_GRID_POINTS = 10**6

Array = NDArray[np.float64]


def offered_functions() -> tuple[str, ...]:
    """Return the functions that can be released."""
    return tuple(name for name, kind in FUNCTIONS.items() if is_public(kind))


def release_table(
    source: TableFile | Partitions,
    bounds: TableBounds,
    promise: PrivacyRequest,
    *,
    function: str,
    columns: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Any:
    """Release the density of some columns, or the mean curve of the rows."""
    chosen = chosen_columns(bounds, columns, function)
    usual = {"points": _points(chosen.columns)} if function == "curve" else _steps(chosen)
    given = {**usual, **(options or {})}
    model = make_model(public_class(FUNCTIONS[function]), promise, chosen, given)
    if isinstance(source, TableFile):
        source = source.declared(bounds.types(), bounds.text)
    return fit_rows(model, source, progress)


def chosen_columns(bounds: TableBounds, names: Sequence[str], function: str) -> TableBounds:
    """Return confirmed bounds of the named columns of numbers alone, or of all used ones."""
    bounds.require_confirmed()
    known = {column.name: column for column in bounds.used}
    for name in names:
        if name not in known:
            raise InvalidInputError(f"The bounds have no column {name!r}, or leave it out.")
    used = tuple(known[name] for name in names) if names else bounds.used
    for column in used:
        if column.categories is not None or column.parts:
            raise InvalidInputError(
                f"A {function} needs columns of numbers, and {column.name!r} contains categories "
                "or dates. Choose others by name."
            )
    # Rows without a number are left out of a density; a curve takes the middle of the range.
    gaps = function == "density" and len(used) <= FEW_FEATURES
    plain = tuple(replace(column, log=False, missing=column.missing and gaps) for column in used)
    return replace(bounds, columns=plain, target=None)


def query_table(model: Any, source: TableFile) -> Any:
    """Answer points of a table by a released function; costs no budget."""
    check_is_fitted(model)
    names = _columns_of(model, source)
    source.require(names)
    return _answered(model, names, source.read(names))


def grid_table(model: Any, size: int) -> Any:
    """Answer a grid over the public domain, `size` points along each axis."""
    check_is_fitted(model)
    if hasattr(model, "curve"):
        axes = [np.linspace(model.points_[0], model.points_[-1], size)]
        names = ["point"]
    else:
        box = model.row_bounds.box(model.n_features_in_)
        axes = [np.linspace(low, high, size) for low, high in zip(*box, strict=True)]
        names = _columns_of(model, None)
    if size < 2 or size ** len(axes) > MAX_GRID_POINTS:
        raise InvalidInputError(
            f"A grid of {size} points along {len(axes)} axes must have from 2 points per axis to "
            f"{MAX_GRID_POINTS} points in all."
        )
    points = np.array(list(itertools.product(*axes)))
    table = arrow().table(dict(zip(names, points.T, strict=True)))
    return _answered(model, names, table)


def _columns_of(model: Any, source: TableFile | None) -> list[str]:
    if source is not None and hasattr(model, "curve"):
        return list(source.columns)[:1]
    if hasattr(model, "density"):
        if isinstance(model.bounds, TableBounds):
            return [column.name for column in model.bounds.used]
        if source is not None:
            return list(source.columns)
        return [f"x{place}" for place in range(model.n_features_in_)]
    raise InvalidInputError(f"A {type(model).__name__} is not a released function.")


def _answered(model: Any, names: Sequence[str], table: Any) -> Any:
    points = finite_points(table, names)
    if hasattr(model, "curve"):
        return table.append_column("curve", arrow().array(model.curve(points[:, 0])))
    return table.append_column("density", arrow().array(model.density(points)))


def finite_points(table: Any, names: Sequence[str]) -> Array:
    """Return the points of a table as an array, if all of them are finite numbers."""
    for name in names:
        if not arrow_kind(str(table[name].type)):
            raise InvalidInputError(f"The column {name!r} of the points does not contain numbers.")
    points = np.column_stack([np.asarray(table[name].cast("float64")) for name in names])
    if not np.isfinite(points).all():
        raise InvalidInputError("The points must be finite numbers.")
    return points


def _steps(bounds: TableBounds) -> dict[str, Any]:
    """Whole numbers are counted one by one, so that no cell holds more of them than another."""
    kinds = [arrow_kind(column.type) for column in bounds.used]
    steps = [1.0 if kind in ("b", "i", "u") else None for kind in kinds]
    return {"step": steps} if any(steps) else {}


def _points(columns: Sequence[Any]) -> Any:
    """Take the names of the columns for the points of curves, if they are increasing numbers."""
    try:
        points = [float(column.name) for column in columns]
    except ValueError:
        return None
    return points if np.all(np.diff(points) > 0) else None
