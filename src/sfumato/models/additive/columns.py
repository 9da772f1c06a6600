"""What is public about the columns of a table, as additive models need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import MissingBoundsError
from sfumato.tables import TableBounds
from sfumato.tables.bounds import Bounds
from sfumato.tables.columns import arrow_kind
from sfumato.tables.schema import Feature

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PublicColumns:
    """Names, ranges and categories of the columns.

    names: Of all columns.
    lower, upper: Range of each column of numbers; of a column of categories 0 and their number.
    categories: The categories of each column, or None for numbers; what is true or false has two.
    units: What the numbers of each column are: "log", "log1p", "day" since 1970, or "" as they
        stand.
    """

    names: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    categories: tuple[tuple[Any, ...] | None, ...]
    units: tuple[str, ...] = ()

    @classmethod
    def of(cls, bounds: Bounds | TableBounds, names: tuple[str, ...]) -> Self:
        """Read them from the bounds of a table, or from a box: all columns are numbers then."""
        if isinstance(bounds, TableBounds):
            features = bounds.features
            kinds = tuple(_categories(each) for each in features)
            ranges = [
                each.range if kind is None else (0.0, float(len(kind)))
                for each, kind in zip(features, kinds, strict=True)
            ]
            lower, upper = zip(*ranges, strict=True)
            units = tuple(_unit(each) for each in features)
            return cls(tuple(each.name for each in features), lower, upper, kinds, units)
        box = bounds.box(len(names))
        if box is None:
            raise MissingBoundsError(
                "An additive model needs the public range of each column: give "
                "Bounds(lower=[...], upper=[...]) or the bounds of a table, not a 'norm' alone."
            )
        low, high = (tuple(corner.tolist()) for corner in box)
        return cls(names, low, high, (None,) * len(names))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def numeric(self) -> tuple[int, ...]:
        """Places of the columns of numbers."""
        return tuple(i for i, each in enumerate(self.categories) if each is None)

    def values(self, column: int, places: Array) -> tuple[Any, ...]:
        """Return places of a column of numbers in the units of the table; of dates, the days."""
        low, high = self.lower[column], self.upper[column]
        numbers = low + places * (high - low)
        unit = self.units[column] if self.units else ""
        if unit == "day":
            return tuple(np.round(numbers).astype("datetime64[D]").tolist())
        if unit:
            numbers = np.exp(numbers) if unit == "log" else np.expm1(numbers)
        return tuple(numbers.tolist())

    def width(self, n_knots: int) -> int:
        """Numbers of an encoded row where each column of numbers has so many knots."""
        return sum(n_knots if each is None else len(each) for each in self.categories)

    def places(self, cells: Array) -> Array:
        """Return each number as its place in the public range, from 0 to 1, each cell by itself.

        A category stays its number. What is missing, infinite or no category is NaN.
        """
        found = np.where(np.isfinite(cells), cells, np.nan)
        for i, categories in enumerate(self.categories):
            column = found[:, i]
            if categories is None:  # [N3] each cell by itself
                width = self.upper[i] - self.lower[i]
                inside = np.clip(column, self.lower[i], self.upper[i])
                found[:, i] = np.clip((inside - self.lower[i]) / width, 0.0, 1.0)
            else:
                is_known = (column >= 0) & (column < len(categories))
                found[:, i] = np.where(is_known, np.trunc(column), np.nan)
        return found


def _categories(feature: Feature) -> tuple[Any, ...] | None:
    """Return the categories of a column, or None where its curve has knots."""
    if feature.is_number:
        is_truth = feature.categories is None and arrow_kind(feature.type) == "b"
        return (False, True) if is_truth else None
    return feature.categories


def _unit(feature: Feature) -> str:
    if feature.part == "time":
        return "day"
    return ("log" if feature.lower > 0 else "log1p") if feature.log else ""
