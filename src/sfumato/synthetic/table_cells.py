"""Columns of a table as cells: a public map of each record, and values drawn inside cells.

A category is a cell, and so is each whole number of a short range. Other numbers are cut at public
edges, or at privately released ones (`sums.counts`). Where a column may be missing, that
is one more cell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from sfumato.core.arrays import Array as AnyArray, to_numpy
from sfumato.exceptions import InvalidInputError
from sfumato.sums.counts import EDGES
from sfumato.tables.columns import arrow_kind
from sfumato.tables.schema import Feature, TableBounds

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

MAX_VALUES = 32  # whole numbers of so short a range have a cell each, also in pairs of columns
MAX_FINE_VALUES = 128  # and of so short a one in the counts of the column alone, noise permitting
NARROW = 2.0**-30  # of its range: so wide is a cell that stands for one value
MAX_CATEGORIES = 64  # further categories share the last cell
PARTS = 33  # points of a cell at which its distribution function is known; straight between them


@dataclass(frozen=True)
class ColumnCells:
    """What is public about the cells of one column.

    name: Name of the column.
    n_categories: Categories, or 0 for numbers.
    lower, upper: Range of numbers; whole numbers reach half a unit further on both sides.
    is_whole: Whether its numbers are whole.
    edges: Public edges of the cells, from `lower` to `upper`; None where they are to be released.
    may_be_missing: Whether a missing cell is kept as missing.
    weights: Public weights of its categories, by which those that share a cell are redrawn.
    is_fine: Whether its cells are counted finely by themselves and joined to fewer in pairs.
    """

    name: str
    n_categories: int
    lower: float
    upper: float
    is_whole: bool
    edges: tuple[float, ...] | None
    may_be_missing: bool
    weights: tuple[float, ...] | None = None
    is_fine: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether the edges of its cells are released."""
        return not self.n_categories and self.edges is None

    @property
    def is_shared(self) -> bool:
        """Whether the last cell stands for several categories."""
        return self.n_categories > MAX_CATEGORIES

    def max_cells(self, levels: int, n_parts: int = 0) -> int:
        """Return a public bound on its cells if ranges are halved so often, or joined to parts."""
        if n_parts and self.is_fine:
            return 3 * n_parts + 2
        if self.n_categories:
            return min(self.n_categories, MAX_CATEGORIES) + 1
        return (2**levels + 4 if self.edges is None else len(self.edges) - 1) + 1

    def with_values(self, most: int) -> ColumnCells:
        """Cut a range of more whole numbers than that at released edges instead."""
        if self.is_cut or not self.is_fine or len(self.edges or ()) <= most + 1:
            return self
        return replace(self, edges=None)

    def around_ends(self) -> list[float]:
        """Edges that give a cell of their own to both ends of the range and to zero."""
        width = self.upper - self.lower
        tiny = 0.5 if self.is_whole else width * NARROW / 2
        ends = [self.lower + 2 * tiny, self.upper - 2 * tiny]
        return ends + [-tiny, tiny] * (self.lower + 2 * tiny < 0 < self.upper - 2 * tiny)

    def places(self, cells: Array) -> Array:
        """Return one number per record: its category, its place in [0, 1], or NaN where missing."""
        known = np.where(np.isfinite(cells), cells, np.nan)
        if not self.n_categories:
            inside = np.clip(known, self.lower, self.upper)
            known = (inside - self.lower) / (self.upper - self.lower)
        return known if self.may_be_missing else np.where(np.isnan(known), self._default, known)

    @property
    def _default(self) -> float:
        """What stands for a missing cell that is not kept: the first category, the middle."""
        return 0.0 if self.n_categories else 0.5


def public_columns(
    bounds: TableBounds, bins: Mapping[str, Sequence[float]] | None = None
) -> tuple[ColumnCells, ...]:
    """Return the cells of the columns of a table from what is public about them."""
    asked = dict(bins or {})
    found = []
    for feature in bounds.features:
        edges = asked.pop(feature.name, None)
        if not feature.is_number:
            if edges is not None:
                raise InvalidInputError(f"'bins' names a column of categories: {feature.name!r}.")
            size = len(feature.categories or ())
            about = feature.missing, feature.weights
            found.append(ColumnCells(feature.name, size, 0.0, 1.0, False, None, *about))
            continue
        if edges is not None:
            inside = np.clip(np.array(edges, dtype=np.float64), feature.lower, feature.upper)
            edges = feature.scaled(inside).tolist() if feature.log else edges
        found.append(_number(feature, edges))
    if asked:
        raise InvalidInputError(f"'bins' names no column of the table: {next(iter(asked))!r}.")
    return tuple(found)


def _number(feature: Feature, asked: Sequence[float] | None) -> ColumnCells:
    lower, upper = feature.range
    is_counted = feature.categories is not None or arrow_kind(feature.type) in ("b", "i", "u")
    is_whole = not feature.log and (is_counted or feature.part not in ("", "time"))
    if is_whole:
        lower, upper = math.ceil(lower) - 0.5, math.floor(upper) + 0.5
    edges = _edges(feature.name, (lower, upper), is_whole, asked)
    is_fine = edges is None or (asked is None and len(edges) > MAX_VALUES + 1)
    about = is_whole, edges, feature.missing, None, is_fine
    return ColumnCells(feature.name, 0, lower, upper, *about)


def _edges(
    name: str, ends: tuple[float, float], is_whole: bool, asked: Sequence[float] | None
) -> tuple[float, ...] | None:
    if asked is not None:
        inner = [float(edge) for edge in asked if ends[0] < edge < ends[1]]
        if not inner or not np.all(np.diff(inner) > 0):
            raise InvalidInputError(
                f"'bins' of the column {name!r} must be ascending edges, one inside its range at "
                "least."
            )
        return (ends[0], *inner, ends[1])
    if is_whole and 0 < ends[1] - ends[0] <= MAX_FINE_VALUES:
        return tuple(np.arange(ends[0], ends[1] + 1).tolist())
    return None


@dataclass(frozen=True)
class TableCells:
    """The cells of all columns, once all edges are known.

    columns: What is public about each column.
    edges: Edges of the cells of each column of numbers, None for categories.
    """

    columns: tuple[ColumnCells, ...]
    edges: tuple[tuple[float, ...] | None, ...]

    @classmethod
    def of(cls, columns: Sequence[ColumnCells], cuts: Array) -> TableCells:
        """Join public edges and released cuts, one row for each column that is cut; 0 is no cut."""
        rows = iter(cuts)
        edges: list[tuple[float, ...] | None] = []
        for column in columns:
            if column.n_categories or column.edges is not None:
                edges.append(column.edges)
                continue
            row = next(rows)
            places = EDGES[np.unique(row[row > 0]).astype(np.intp) - 1]
            inner = column.lower + places * (column.upper - column.lower)
            if column.is_whole:  # the same records on both sides, and no cell without a number
                inner = np.ceil(inner) - 0.5
            ascending = np.unique([column.lower, *inner, *column.around_ends(), column.upper])
            edges.append(tuple(ascending.tolist()))
        return cls(tuple(columns), tuple(edges))

    def joined(self, masses: Sequence[Array], n_parts: int) -> TableCells:
        """Join neighbouring cells of columns that are counted finely."""
        edges = [
            _joined_edges(cuts, mass[: len(cuts) - 1], n_parts)
            if cuts is not None and column.is_fine
            else cuts
            for column, cuts, mass in zip(self.columns, self.edges, masses, strict=True)
        ]
        return TableCells(self.columns, tuple(edges))

    @property
    def width(self) -> int:
        """Numbers of a row: one per column."""
        return len(self.columns)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Cells of each column."""
        return tuple(
            (min(c.n_categories, MAX_CATEGORIES) if edges is None else len(edges) - 1)
            + c.may_be_missing
            for c, edges in zip(self.columns, self.edges, strict=True)
        )

    def __call__(self, rows: AnyArray) -> AnyArray:
        """Return the numbers of the cells of places."""
        places = to_numpy(rows)
        cells = np.empty(places.shape)
        for i, (column, edges) in enumerate(zip(self.columns, self.edges, strict=True)):
            there, last = places[:, i], self.sizes[i] - 1 - column.may_be_missing
            if edges is None:
                found = np.minimum(there, MAX_CATEGORIES - 1)
            else:
                inner = (np.array(edges[1:-1]) - column.lower) / (column.upper - column.lower)
                found = np.searchsorted(inner, there, side="right").astype(np.float64)
            cells[:, i] = np.where(np.isnan(there), last + 1, np.minimum(found, last))
        return cells

    def cell_of(self, column: int, cell: float) -> int:
        """Return the cell of one public value of a column, for conditions."""
        row = np.full((1, self.width), np.nan)
        row[0, column] = self.columns[column].places(np.array([cell]))[0]
        return int(self(row)[0, column])

    def draw(
        self,
        column: int,
        cells: Codes,
        masses: Array,
        generator: np.random.RandomState,
        fine: TableCells | None = None,
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Draw a value inside each cell: a number, or the number of a category.

        Numbers follow a monotone cubic through the cumulative masses, which are those of `fine`
        where these cells were joined from finer ones.
        """
        each, edges = self.columns[column], self.edges[column]
        last = self.sizes[column] - 1 - each.may_be_missing
        missing = cells > last
        known = np.minimum(cells, last)
        if edges is None:
            values = known.astype(np.float64)
            if each.is_shared:
                weights = np.array(
                    (each.weights or (1.0,) * each.n_categories)[MAX_CATEGORIES - 1 :]
                )
                chances = weights / weights.sum()
                others = (
                    MAX_CATEGORIES - 1 + generator.choice(len(chances), size=len(cells), p=chances)
                )
                values = np.where(known == last, others, values)
            return values, missing
        known_at = (fine or self).edges[column] or ()
        curve = _distribution(np.array(known_at), masses[: len(known_at) - 1])
        return _inside(np.array(edges), known, curve, each.is_whole, generator), missing


def _joined_edges(edges: tuple[float, ...], masses: Array, n_parts: int) -> tuple[float, ...]:
    """Keep the edges that are nearest to equal masses, and both of a cell with more mass."""
    if len(edges) - 1 <= n_parts:
        return edges
    shares = np.maximum(masses, 0.0) + 1e-12
    shares /= shares.sum()
    total = np.cumsum(shares)[:-1]
    marks = np.arange(1, n_parts) / n_parts
    kept = {int(np.argmin(np.abs(total - mark))) + 1 for mark in marks}
    for cell in np.flatnonzero(shares > 1 / n_parts):
        kept |= {int(cell), int(cell) + 1}
    kept |= {0, len(edges) - 1}
    return tuple(edges[place] for place in sorted(kept))


def _distribution(edges: Array, masses: Array) -> tuple[Array, Array]:
    """Return points of a smooth distribution function through cumulative masses."""
    total = np.cumsum(np.maximum(masses, 0.0) + 1e-12)
    curve = PchipInterpolator(edges, np.concatenate([[0.0], total / total[-1]]))
    places = np.linspace(edges[:-1], edges[1:], PARTS)[1:]
    fine = np.unique(np.concatenate([edges, places.ravel()]))
    return fine, curve(fine)


def _spread(cells: Codes, generator: np.random.RandomState) -> Array:
    """Draw numbers from [0, 1) that cover it evenly among the rows of each cell."""
    shuffled = generator.permutation(len(cells))
    ranked = shuffled[np.argsort(cells[shuffled], kind="stable")]
    sizes = np.bincount(cells)
    rank = np.empty(len(cells))
    rank[ranked] = np.arange(len(cells)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray((rank + generator.uniform(size=len(cells))) / sizes[cells])


def _inside(
    edges: Array,
    cells: Codes,
    curve: tuple[Array, Array],
    is_whole: bool,
    generator: np.random.RandomState,
) -> Array:
    """Draw numbers inside cells by the smoothed distribution function."""
    lower, upper = edges[cells], edges[cells + 1]
    fine, heights = curve
    low, high = (np.interp(ends, fine, heights) for ends in (lower, upper))
    wanted = low + _spread(cells, generator) * (high - low)
    inside = np.interp(wanted, heights, fine)
    values = np.clip(inside, lower, upper - (upper - lower) * NARROW)
    if not is_whole:
        return _one_value(edges, cells, values)
    first, last = np.ceil(edges[cells]), np.ceil(edges[cells + 1]) - 1
    return np.asarray(np.clip(np.rint(values), first, np.maximum(first, last)))


def _one_value(edges: Array, cells: Codes, values: Array) -> Array:
    """Return the value for which a narrow cell stands: an end of the range, or zero."""
    lower, upper = edges[cells], edges[cells + 1]
    narrow = upper - lower < 2 * NARROW * (edges[-1] - edges[0])
    at_end = np.where(cells == 0, edges[0], edges[-1])
    zero = (lower < 0) & (upper > 0)
    is_end = (cells == 0) | (cells == len(edges) - 2)
    found = np.where(is_end, at_end, np.where(zero, 0.0, values))
    return np.asarray(np.where(narrow, found, values))
