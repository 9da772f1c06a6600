"""Dummy rows: a table of the declared columns that is made from public bounds alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.tables.bounds import PUBLIC_LABELS
from sfumato.tables.columns import arrow, arrow_kind, is_date, type_of
from sfumato.tables.schema import Column, TableBounds, Target

GOLDEN = 0.6180339887498949  # multiples of it fill an interval evenly, and no generator is needed


def dummy_table(bounds: TableBounds, n_rows: int = 200) -> Any:
    """Make rows that obey the bounds; nothing else is known of them, and no data are read.

    Examples
    --------
    >>> from sfumato.cli.jobs.dummies import dummy_table
    >>> from sfumato.tables import TableBounds
    >>> bounds = TableBounds.from_dict({"age": (0, 120), "ill": ["no", "yes"]}, target="ill")
    >>> dummy_table(bounds, 3).column_names
    ['age', 'ill']
    """
    if not 1 <= n_rows <= 10**6:
        raise InvalidInputError(f"'n_rows' must be from 1 to 1,000,000. Got {n_rows}.")
    facts: list[Any] = [*bounds.used, *([bounds.target] if bounds.target is not None else [])]
    found = {}
    for place, fact in enumerate(facts, start=1):
        shares = (
            np.asarray(np.arange(1, n_rows + 1) * GOLDEN * (1 + place * GOLDEN), np.float64) % 1
        )
        values = _target(fact, shares) if isinstance(fact, Target) else _column(fact, shares)
        found[fact.name] = arrow().array(values, type=type_of(fact.type))
    if bounds.person is not None:
        rows = bounds.person_rows or 1
        found[bounds.person] = arrow().array([f"person {i // rows}" for i in range(n_rows)])
    return arrow().table(found)


def _column(column: Column, shares: NDArray[Any]) -> list[Any]:
    if column.categories is not None:
        return _picked(column.categories, shares)
    if is_date(column.type):
        return _moments(column, shares)
    lower, upper = (0, 1) if column.lower is None else (column.lower, column.upper)
    return _numbers(column.type, float(lower), float(upper), shares)


def _moments(column: Column, shares: NDArray[Any]) -> list[Any]:
    """Return dates, or whole seconds where a column has times."""
    first = datetime.fromisoformat(str(column.lower or "2000-01-01")).replace(tzinfo=None)
    last = datetime.fromisoformat(str(column.upper or "2020-12-31")).replace(tzinfo=None)
    seconds = (last - first).total_seconds()
    found = [first + timedelta(seconds=int(share * seconds)) for share in shares]
    return found if column.type.startswith("timestamp") else [each.date() for each in found]


def _target(target: Target, shares: NDArray[Any]) -> list[Any]:
    if target.labels is None:
        return _numbers(target.type, target.lower or 0.0, target.upper or 1.0, shares)
    if target.labels == PUBLIC_LABELS:
        raise InvalidInputError("Dummy rows need the labels listed in the bounds.")
    return _picked(tuple(target.labels), shares)


def _picked(values: tuple[Any, ...], shares: NDArray[Any]) -> list[Any]:
    return [values[int(share * len(values))] for share in shares]


def _numbers(declared: str, lower: float, upper: float, shares: NDArray[Any]) -> list[Any]:
    numbers = lower + shares * (upper - lower)
    kind = arrow_kind(declared)
    if kind == "b":
        return [bool(share > 0.5) for share in shares]
    return [int(x) for x in np.rint(numbers)] if kind in ("i", "u") else numbers.tolist()
