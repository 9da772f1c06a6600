"""Dummy rows: a table of the declared columns that is made from public bounds alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np

from sfumato.exceptions import InvalidInputError
from sfumato.tables.bounds import PUBLIC_LABELS
from sfumato.tables.columns import arrow, arrow_kind, is_date, type_of
from sfumato.tables.schema import TableBounds

GOLDEN = 0.6180339887498949  # multiples of it fill an interval evenly, and no generator is needed


def dummy_table(bounds: TableBounds, n_rows: int = 200) -> Any:
    """Make rows that obey the bounds; nothing else is known of them, and no data are read."""
    facts: list[Any] = [*bounds.used, *([bounds.target] if bounds.target is not None else [])]
    found = {}
    for place, fact in enumerate(facts, start=1):
        shares = np.arange(1, n_rows + 1) * GOLDEN * (1 + place * GOLDEN) % 1
        values = getattr(fact, "categories", None) or getattr(fact, "labels", None)
        kind, lower, upper = arrow_kind(fact.type), fact.lower, fact.upper
        cells: list[Any]
        if values == PUBLIC_LABELS:
            raise InvalidInputError("Dummy rows need the labels listed in the bounds.")
        if values is not None:
            cells = [values[int(share * len(values))] for share in shares]
        elif is_date(fact.type):  # days, or whole seconds where a column has times
            first = datetime.fromisoformat(str(lower or "2000-01-01")).replace(tzinfo=None)
            last = datetime.fromisoformat(str(upper or "2020-12-31")).replace(tzinfo=None)
            seconds = (last - first).total_seconds()
            cells = [first + timedelta(seconds=int(share * seconds)) for share in shares]
            if not fact.type.startswith("timestamp"):
                cells = [each.date() for each in cells]
        elif kind == "b":
            cells = (shares > 0.5).tolist()
        else:
            lower, upper = (0, 1) if lower is None else (lower, upper)
            numbers = float(lower) + shares * (float(upper) - float(lower))
            cells = [int(x) for x in np.rint(numbers)] if kind in ("i", "u") else numbers.tolist()
        found[fact.name] = arrow().array(cells, type=type_of(fact.type))
    if bounds.person is not None:
        rows = bounds.person_rows or 1
        found[bounds.person] = arrow().array([f"person {i // rows}" for i in range(n_rows)])
    return arrow().table(found)
