"""Figures measured on raw rows, for the sensitive part of a report. None of them is private."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sfumato.exceptions import InvalidInputError
from sfumato.report import Marginal
from sfumato.tables.files import TableFile
from sfumato.tables.schema import TableBounds

BUDGETS = (0.3, 1.0, 3.0, 10.0)
BINS = 20


def accuracy(model: Any, test: TableFile) -> float:
    """Return the share of rows of a table whose label the model predicts."""
    rows, labels = _rows(model, test)
    return float(np.mean(model.predict(rows) == labels))


def budget_curve(
    model: Any, train: TableFile, test: TableFile, progress: Callable[[int], None] | None = None
) -> tuple[dict[float, float], float]:
    """Return the accuracy of such a model at several budgets, and without privacy.

    The models are fitted anew, charged to no ledger, and thrown away: the figures are for the
    owner of the rows.
    """
    learned, measured = _rows(model, train), _rows(model, test)
    found = {}
    for epsilon in (*BUDGETS, math.inf):
        again = clone(model).set_params(epsilon=epsilon, ledger=None).fit(*learned)
        found[epsilon] = float(np.mean(again.predict(measured[0]) == measured[1]))
        if progress is not None:
            progress(1)
    ceiling = found.pop(math.inf)
    return found, ceiling


def marginals(
    real: TableFile, fabricated: TableFile, ranges: dict[str, tuple[float, float]] | None = None
) -> tuple[Marginal, ...]:
    """Return the shares of values of each column that both tables have."""
    common = [name for name in fabricated.columns if name in real.columns]
    if not common:
        raise InvalidInputError("The real and the fabricated table have no column in common.")
    rows, made = real.read(common), fabricated.read(common)
    return tuple(
        _marginal(name, np.asarray(rows[name]), np.asarray(made[name]), (ranges or {}).get(name))
        for name in common
    )


def _marginal(
    name: str, real: NDArray[Any], made: NDArray[Any], declared: tuple[float, float] | None
) -> Marginal:
    if made.dtype.kind in "iuf" and len(np.unique(made)) > BINS:
        low, high = declared or (float(made.min()), float(made.max()))
        edges = np.linspace(low, high, BINS + 1)
        labels = [f"{edge:.3g}" for edge in edges[:-1]]
        counts = [
            np.histogram(np.clip(column[np.isfinite(column.astype(float))], low, high), edges)[0]
            for column in (real, made)
        ]
    else:
        values = sorted(set(made.tolist()) | {v for v in real.tolist() if v is not None}, key=str)
        labels = [str(value) for value in values]
        counts = [
            np.array([np.count_nonzero(column == value) for value in values])
            for column in (real, made)
        ]
    shares = [tuple((each / max(each.sum(), 1)).tolist()) for each in counts]
    return Marginal(name, tuple(labels), *shares)


def _rows(model: Any, source: TableFile) -> tuple[Any, NDArray[Any]]:
    bounds = getattr(model, "bounds", None)
    if not isinstance(bounds, TableBounds) or bounds.target is None:
        raise InvalidInputError(
            "Only a model that was trained on a table with a target can be measured on a table."
        )
    source.require([bounds.target.name])
    table = source.read(list(bounds.types()))
    return table, bounds.target.values(table[bounds.target.name])
