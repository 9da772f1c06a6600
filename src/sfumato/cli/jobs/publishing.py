"""Private functions of a table: a density of some columns, or the mean of its rows as curves.

The model that results is the release: a small file that answers any number of points.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.cli.jobs.pipeline import PrivacyRequest, fit_rows, make_model
from sfumato.exceptions import InvalidInputError
from sfumato.models.density import FEW_FEATURES
from sfumato.sums.partitions import Partitions
from sfumato.tables.columns import arrow, arrow_kind
from sfumato.tables.files import TableFile
from sfumato.tables.schema import TableBounds

# The names of the command line, and the public classes they stand for.
FUNCTIONS = {"curve": "PrivateMeanCurve", "density": "PrivateDensity"}


def release_table(
    source: TableFile | Partitions,
    bounds: TableBounds,
    promise: PrivacyRequest,
    *,
    function: str,
    columns: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Release the density of some columns, or the mean curve of the rows."""
    import sfumato

    bounds.require_confirmed()
    known = {column.name: column for column in bounds.used}
    for name in columns:
        if name not in known:
            raise InvalidInputError(f"The bounds have no column {name!r}, or leave it out.")
    used = tuple(known[name] for name in columns) if columns else bounds.used
    for column in used:
        if column.categories is not None or column.parts:
            raise InvalidInputError(
                f"A {function} needs columns of numbers, and {column.name!r} contains categories "
                "or dates. Choose others by name."
            )
    # Rows without a number are left out of a density; a curve takes the middle of the range.
    gaps = function == "density" and len(used) <= FEW_FEATURES
    plain = tuple(replace(column, log=False, missing=column.missing and gaps) for column in used)
    given: dict[str, Any] = {}
    if function == "curve":
        given["points"] = None
        with contextlib.suppress(ValueError):  # names that are increasing numbers are the points
            points = [float(column.name) for column in used]
            given["points"] = points if np.all(np.diff(points) > 0) else None
    else:  # whole numbers are counted one by one: no cell holds more of them than another
        steps = [1.0 if arrow_kind(column.type) in ("b", "i", "u") else None for column in used]
        given |= {"step": steps} if any(steps) else {}
    chosen = replace(bounds, columns=plain, target=None)
    kind = getattr(sfumato, FUNCTIONS[function])
    model = make_model(kind, promise, chosen, {**given, **(options or {})})
    if isinstance(source, TableFile):
        source = source.declared(bounds.types(), bounds.text)
    return fit_rows(model, source)


def grid_table(model: Any, size: int) -> Any:
    """Answer a grid over the public domain, `size` points along each axis."""
    if hasattr(model, "curve"):
        axes, names = [np.linspace(model.points_[0], model.points_[-1], size)], ["point"]
    else:
        box = model.row_bounds.box(model.n_features_in_)
        axes = [np.linspace(low, high, size) for low, high in zip(*box, strict=True)]
        names = [column.name for column in model.bounds.used]
    points = np.array(list(itertools.product(*axes)))
    is_curve = hasattr(model, "curve")
    values = model.curve(points[:, 0]) if is_curve else model.density(points)
    table = arrow().table(dict(zip(names, points.T, strict=True)))
    return table.append_column("curve" if is_curve else "density", arrow().array(values))
