"""Bounds proposed from the data, for a person to replace and to confirm.

What is computed here is read off the rows: it is protected by nothing, is shown to the owner of the
table only, and no fit accepts it before the owner has declared it public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.exceptions import InvalidInputError
from sfumato.tables.bounds_file import DATE_HINT, Column, TableBounds, Target, is_date
from sfumato.tables.columns import arrow, arrow_kind
from sfumato.tables.files import TableFile

__all__ = ["ColumnSummary", "Description", "describe_table"]

MOST_CATEGORIES = 50
MOST_LABELS = 1000


@dataclass
class ColumnSummary:
    """What was seen of one column; grows batch by batch."""

    name: str
    type: str
    missing: int = 0
    lowest: float = math.inf
    highest: float = -math.inf
    values: set[Any] | None = field(default_factory=set)  # None: too many to list

    def see(self, values: Any, most: int) -> None:
        """Take note of another batch of the column."""
        compute = arrow("compute")
        self.missing += values.null_count
        if self.values is not None:
            found = compute.unique(values).to_pylist() if self._listed(most) else ()
            self.values |= {value for value in found if not _is_missing(value)}
            if len(self.values) > most:
                self.values = None
        if arrow_kind(self.type) in tuple("iuf"):
            numbers = np.asarray(values.cast("float64", safe=False).drop_null())
            self.missing += int(np.isnan(numbers).sum())
            numbers = numbers[np.isfinite(numbers)]
            if len(numbers):
                self.lowest = min(self.lowest, float(numbers.min()))
                self.highest = max(self.highest, float(numbers.max()))

    def _listed(self, most: int) -> bool:
        """Tell whether different values are counted: of texts, and of whatever is the target."""
        is_target = most > MOST_CATEGORIES and (arrow_kind(self.type) or is_date(self.type))
        return self.type == "string" or bool(is_target)

    def proposed(self) -> Column:
        """Propose what may be public about the column."""
        if is_date(self.type):
            return Column(self.name, self.type, left_out=True, note=f"Left out: {DATE_HINT}.")
        kind = arrow_kind(self.type)
        if kind == "b":
            return Column(self.name, self.type, lower=0, upper=1)
        if kind:
            lower, upper = rounded_outwards(self.lowest, self.highest)
            if kind in "iu":
                lower, upper = math.floor(lower), math.ceil(upper)
            return Column(self.name, self.type, lower, upper, note="proposed from the data")
        if self.type == "string" and self.values:
            return Column(
                self.name,
                self.type,
                categories=tuple(sorted(self.values)),
                note="proposed from the data",
            )
        if self.values is None:
            why = (
                f"more than {MOST_CATEGORIES} different texts; names and free text are no features"
            )
        else:
            why = f"no numbers and no texts, but values of type {self.type}"
        return Column(self.name, self.type, left_out=True, note=f"Left out: {why}.")

    def proposed_target(self) -> Target:
        """Propose the set of labels."""
        if not (arrow_kind(self.type) or self.type == "string" or is_date(self.type)):
            raise InvalidInputError(f"The target {self.name!r} holds no labels: {self.type}.")
        if self.values is None:
            raise InvalidInputError(
                f"The target {self.name!r} has more than {MOST_LABELS} different values; a "
                "classifier needs a column of labels."
            )
        if len(self.values) < 2:
            raise InvalidInputError(
                f"The target {self.name!r} has fewer than two different labels in this table; a "
                "classifier needs at least two."
            )
        if is_date(self.type):
            raise InvalidInputError(f"The target {self.name!r} is a date, not a label.")
        labels = tuple(sorted(self.values))
        return Target(self.name, self.type, labels, note="proposed from the data")


@dataclass(frozen=True)
class Description:
    """A table as its owner sees it: number of rows, columns as seen, bounds as proposed."""

    n_rows: int
    columns: tuple[ColumnSummary, ...]
    bounds: TableBounds


def describe_table(source: TableFile, target: str | None = None) -> Description:
    """Go once over a table and propose its bounds.

    Parameters
    ----------
    source : TableFile
        The table.
    target : str, optional
        The column of labels.
    """
    if target is not None:
        source.require([target])
    seen = {name: ColumnSummary(name, told) for name, told in source.columns.items()}
    n_rows = 0
    for batch in source.batches():
        n_rows += len(batch)
        for name, summary in seen.items():
            summary.see(batch[name], MOST_LABELS if name == target else MOST_CATEGORIES)
    if not n_rows:
        raise InvalidInputError(f"The table '{source.path}' has no rows.")
    columns = tuple(each.proposed() for name, each in seen.items() if name != target)
    labels = None if target is None else seen[target].proposed_target()
    return Description(n_rows, tuple(seen.values()), TableBounds(columns, labels))


def rounded_outwards(lowest: float, highest: float) -> tuple[float, float]:
    """Give round numbers around a range; from 0 where the range comes near it.

    >>> rounded_outwards(6.981, 28.11), rounded_outwards(1990, 2024), rounded_outwards(3, 3)
    ((0.0, 30.0), (1990.0, 2030.0), (2.0, 4.0))
    """
    if lowest > highest:  # not one number was seen
        return 0.0, 1.0
    lowest, highest = max(lowest, -1e150), min(highest, 1e150)
    spread = max(highest - lowest, 1e-6 * max(abs(lowest), abs(highest)))
    step = 10.0 ** math.floor(math.log10(spread or 1.0)) if highest > lowest or spread > 1 else 1.0
    lower, upper = math.floor(lowest / step) * step, math.ceil(highest / step) * step
    if lower == upper:
        lower, upper = lower - step, upper + step
    if 0 < lower <= highest - lowest:
        lower = 0.0
    return float(f"{lower:.12g}"), float(f"{upper:.12g}")


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
