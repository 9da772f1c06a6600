"""Columns of a table as cells, and values drawn inside cells.

A category is a cell, and so is each whole number of a short range. Other numbers are cut at public
edges, or at privately released ones (`sums.statistics`). Where a column may be missing, that
is one more cell. Maps read one record at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array as AnyArray, to_numpy
from sfumato.sums.grid import FINE_BITS, truncate_to_grid
from sfumato.sums.statistics import EDGES
from sfumato.tables.bounds import Bounds
from sfumato.tables.columns import arrow_kind
from sfumato.tables.schema import TableBounds

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

MAX_VALUES = 32  # whole numbers of so short a range have a cell each, also in pairs of columns
MAX_FINE_VALUES = 128  # and of so short a one in the counts of the column alone, noise permitting
NARROW = 2.0**-30  # of its range: the width of a cell that stands for one value
MAX_CATEGORIES = 64  # further categories share the last cell
TAIL_HALVINGS, END_HALVINGS = 6, 3  # beyond the outermost cuts: towards the cut, and the end


@dataclass(frozen=True)
class ColumnCells:
    """What is public about the cells of one column.

    name: Name of the column.
    n_categories: Categories, or 0 for numbers.
    lower, upper: Range of numbers; whole numbers reach half a unit further on both sides.
    is_whole: Whether its numbers are whole.
    edges: Public edges of the cells, from `lower` to `upper`; None where they are to be released.
    may_be_missing: Whether a missing cell is kept as missing.
    is_fine: Whether its cells are counted finely alone and joined to fewer in pairs.
    """

    name: str
    n_categories: int
    lower: float
    upper: float
    is_whole: bool
    edges: tuple[float, ...] | None
    may_be_missing: bool
    is_fine: bool = False

    @property
    def is_cut(self) -> bool:
        """Whether the edges of its cells are released."""
        return not self.n_categories and self.edges is None

    def max_cells(self, levels: int) -> int:
        """Return a public bound on its cells if ranges are halved so often."""
        if self.n_categories:
            return min(self.n_categories, MAX_CATEGORIES) + 1
        n_cut = 2**levels + 4 + 2 * (TAIL_HALVINGS + END_HALVINGS)
        return (n_cut if self.edges is None else len(self.edges) - 1) + 1

    def with_values(self, most: int) -> ColumnCells:
        """Cut a range of more whole numbers than that at released edges instead."""
        if self.is_cut or not self.is_fine or len(self.edges or ()) <= most + 1:
            return self
        return replace(self, edges=None)

    def places(self, cells: Array) -> Array:
        """Return one number per record: its category, its place in [0, 1], or NaN where missing."""
        known = np.where(np.isfinite(cells), cells, np.nan)
        if not self.n_categories:
            inside = np.clip(known, self.lower, self.upper)
            known = (inside - self.lower) / (self.upper - self.lower)
        # Where it cannot be missing: the first category, the middle of a range.
        default = 0.0 if self.n_categories else 0.5
        return known if self.may_be_missing else np.where(np.isnan(known), default, known)


def public_columns(bounds: TableBounds) -> tuple[ColumnCells, ...]:
    """Return the cells of the columns of a table from what is public about them."""
    found = []
    for feature in bounds.features:
        if not feature.is_number:
            size = len(feature.categories or ())
            found.append(ColumnCells(feature.name, size, 0.0, 1.0, False, None, feature.missing))
            continue
        lower, upper = feature.range
        is_counted = feature.categories is not None or arrow_kind(feature.type) in ("b", "i", "u")
        is_whole = not feature.log and (is_counted or feature.part not in ("", "time"))
        if is_whole:
            lower, upper = math.ceil(lower) - 0.5, math.floor(upper) + 0.5
        edges: tuple[float, ...] | None = None
        if is_whole and 0 < upper - lower <= MAX_FINE_VALUES:
            edges = tuple(np.arange(lower, upper + 1).tolist())
        is_fine = edges is None or len(edges) > MAX_VALUES + 1
        about_numbers = is_whole, edges, feature.missing, is_fine
        found.append(ColumnCells(feature.name, 0, lower, upper, *about_numbers))
    return tuple(found)


@dataclass(frozen=True)
class CellPlaces:
    """``cells -> places``, one number per column: see `ColumnCells.places`."""

    columns: tuple[ColumnCells, ...]

    @property
    def width(self) -> int:
        """Numbers of a row: one per column."""
        return len(self.columns)

    def __call__(self, rows: AnyArray) -> AnyArray:
        """Return the places of cells; no value makes it raise."""
        pairs = zip(self.columns, to_numpy(rows).T, strict=True)
        return np.column_stack([column.places(each) for column, each in pairs])


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
            if not column.is_cut:
                edges.append(column.edges)
                continue
            row, width = next(rows), column.upper - column.lower
            inner = column.lower + EDGES[np.unique(row[row > 0]).astype(np.intp) - 1] * width
            near, far = (0.5 ** np.arange(1, k + 1) for k in (TAIL_HALVINGS, END_HALVINGS))
            outer = [(inner[0], column.lower), (inner[-1], column.upper)] if len(inner) else []
            for cut, end in outer:
                tail = cut + (end - cut) * np.concatenate([near, 1 - far])
                inner = np.concatenate([inner, tail])
            if column.is_whole:  # the same records on both sides, and no cell without a number
                inner = np.ceil(inner) - 0.5
            # Both ends of the range, and zero, have a cell of their own.
            tiny = 0.5 if column.is_whole else width * NARROW / 2
            ends = [column.lower + 2 * tiny, column.upper - 2 * tiny]
            ends += [-tiny, tiny] * (ends[0] < 0 < ends[1])
            ascending = np.unique([column.lower, *inner, *ends, column.upper])
            edges.append(tuple(ascending.tolist()))
        return cls(tuple(columns), tuple(edges))

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
        places, sizes = to_numpy(rows), self.sizes
        cells = np.empty(places.shape)
        for i, (column, edges) in enumerate(zip(self.columns, self.edges, strict=True)):
            there, last = places[:, i], sizes[i] - 1 - column.may_be_missing
            if edges is None:
                found = np.minimum(there, MAX_CATEGORIES - 1)
            else:
                inner = (np.array(edges[1:-1]) - column.lower) / (column.upper - column.lower)
                found = np.searchsorted(inner, there, side="right").astype(np.float64)
            cells[:, i] = np.where(np.isnan(there), last + 1, np.minimum(found, last))
        return cells

    def draw(
        self,
        column: int,
        cells: Codes,
        masses: Array,
        order: Array,
        generator: np.random.RandomState,
        tails: Sequence[Callable[[Array], Array] | None] = (None, None),
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Return a value inside each cell, a number or that of a category, and which are missing.

        Inside a cell values ascend in the given order. They follow an exponential law between the
        densities of the neighbours, and in the last and the first cell the given tails.
        """
        each, edges = self.columns[column], self.edges[column]
        last = self.sizes[column] - 1 - each.may_be_missing
        missing, known = cells > last, np.minimum(cells, last)
        if edges is None:
            values = known.astype(np.float64)
            if each.n_categories > MAX_CATEGORIES:  # the last cell stands for several of them
                n_others = each.n_categories - MAX_CATEGORIES + 1
                evenly = np.full(n_others, 1 / n_others)
                others = generator.choice(n_others, size=len(cells), p=evenly)
                values = np.where(known == last, MAX_CATEGORIES - 1 + others, values)
            return values, missing
        ends = np.array(edges)
        by, sizes = np.lexsort((order, known)), np.bincount(known, minlength=last + 1)
        rank = np.empty(len(known))
        rank[by] = np.arange(len(known)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        share = (rank + generator.uniform(size=len(known))) / sizes[known]
        lower, upper = ends[known], ends[known + 1]
        mass = np.maximum(masses[: last + 1], 0.0) + 1e-9
        tilt = _tilts(mass, ends, is_whole=each.is_whole)[known]
        small, safe = np.abs(tilt) < 1e-3, np.where(np.abs(tilt) < 1e-3, 1.0, tilt)
        rest = np.exp(-np.abs(safe))
        up = 1 + np.log(np.maximum(share + (1 - share) * rest, 1e-300)) / safe
        down = np.log(np.maximum(1 - share + share * rest, 1e-300)) / safe
        inside = np.where(small, share, np.where(safe > 0, up, down))
        values = lower + inside * (upper - lower)
        for place, tail in ((last, tails[0]), (0, tails[1])):
            is_end = known == place
            if tail is not None and is_end.any():
                values[is_end] = tail(share[is_end] if place == 0 else 1 - share[is_end])
        values = np.clip(values, lower, upper - (upper - lower) * NARROW)
        if each.is_whole:
            first = np.ceil(lower)
            values = np.clip(np.rint(values), first, np.maximum(first, np.ceil(upper) - 1))
            return values, missing
        # A narrow cell stands for one value: an end of the range, zero, or its shortest decimal.
        width = ends[-1] - ends[0]
        narrow = upper - lower < 2 * NARROW * width
        short, is_open = values.copy(), upper - lower < 2e-3 * width
        for digits in range(9):
            decimal = np.ceil(lower * 10.0**digits - 1e-9) / 10.0**digits
            short = np.where(is_open & (decimal < upper), decimal, short)
            is_open &= decimal >= upper
        at_end = np.where(known == 0, ends[0], ends[-1])
        is_end = (known == 0) | (known == last)
        one = np.where(is_end, at_end, np.where((lower < 0) & (upper > 0), 0.0, values))
        return np.where(narrow, one, short), missing


def _tilts(mass: Array, ends: Array, *, is_whole: bool) -> Array:
    """Return the slope of the logarithm of the density across each cell, times its width.

    It joins the densities of the neighbours. One value that is far more frequent than its
    neighbours says nothing about theirs.
    """
    width = np.diff(ends)
    density, is_atom = mass / width, width < 4 * NARROW * (ends[-1] - ends[0])
    if is_whole:
        one = width <= 1
        beside = np.maximum(
            np.append(np.where(one, density, 0.0)[1:], 0.0),
            np.append(0.0, np.where(one, density, 0.0)[:-1]),
        )
        is_atom = one & (8 * beside < density)
    middle = np.sqrt(density[1:] * density[:-1])
    is_known = ~(is_atom[1:] | is_atom[:-1])
    left = np.append(np.nan, np.where(is_known, middle, np.nan))
    right = np.append(np.where(is_known, middle, np.nan), np.nan)
    with np.errstate(invalid="ignore"):
        both = np.log(right / left)
    one_sided = np.where(np.isnan(left), -_slope_of(density / right), _slope_of(density / left))
    return np.asarray(np.nan_to_num(np.clip(np.where(np.isnan(both), one_sided, both), -500, 500)))


def _slope_of(ratio: Array) -> Array:
    """Return k with ``(exp(k) - 1) / k = ratio``, by halving."""
    low, high = np.full(ratio.shape, -500.0), np.full(ratio.shape, 50.0)
    for _ in range(60):
        middle = (low + high) / 2
        safe = np.where(np.abs(middle) < 1e-6, 1e-6, middle)
        is_low = np.expm1(safe) / safe < ratio
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return np.asarray(np.where(np.isnan(ratio), np.nan, (low + high) / 2))


def fitted_tail(
    mass: Array, ends: Array, sign: float, fine: Array, counts: Array, noise: float
) -> Callable[[Array], Array] | None:
    """Return the quantile function of an end cell: a generalised Pareto law, within the range.

    Expected are the scale and the shape that the quantiles at its mass p, at 2p and at 4p show
    (Pickands 1975), if they can; the noisy counts of the fine cells that were joined to the end
    cell, between edges `fine`, correct both.
    """
    shares = mass / mass.sum()
    if sign < 0:
        shares, ends, fine, counts = shares[::-1], ends[::-1], fine[::-1], counts[::-1]
    cut, width, p = float(ends[-2]), abs(float(ends[-1] - ends[0])), float(shares[-1])
    longest = abs(float(ends[-1]) - cut)
    if longest < 4 * NARROW * width:
        return None
    above = np.append(np.cumsum(shares[::-1])[::-1], 0.0)
    at = np.interp([2 * p, 4 * p], above[::-1], ends[::-1])
    near, far = abs(cut - at[0]), abs(at[0] - at[1])
    if 8 * p <= 1 - shares.max() and min(near, far) >= 1e-6 * width:
        shape = min(max(math.log2(near / far), -0.5), 0.5)
        shape = shape if abs(shape) >= 1e-3 else 1e-3
        scale, doubt = shape * near / (1 - 2.0**-shape), 0.4
    elif len(counts) > 1:
        shape, scale, doubt = 1e-3, longest / 4, 1.5
    else:
        return None
    shapes = np.linspace(-0.5, 1.0, 16)[:, None, None] - shape % 0.1
    shapes = np.where(np.abs(shapes) < 1e-3, 1e-3, shapes)
    scales = scale * np.exp(doubt * np.linspace(-2.5, 2.5, 31))[:, None]

    def beyond(shape: Any, scale: Any, away: Any) -> Any:
        return np.maximum(1 + shape * away / scale, 1e-12) ** (-1 / shape)

    law = 1 - beyond(shapes, scales, np.abs(fine - cut))
    total = max(float(counts.sum()), noise)
    expected = total * np.diff(law / np.maximum(law[..., -1:], 1e-12), axis=-1)
    misfit = np.square(counts - expected) / (noise**2 + np.maximum(expected, 1))
    misfit = misfit.sum(axis=-1) + np.square((shapes - shape) / 0.25)[..., 0]
    misfit += np.square(np.log(scales / scale) / doubt)[:, 0]
    i, j = np.unravel_index(np.argmin(misfit), misfit.shape)
    shape, scale = float(shapes[i, 0, 0]), float(scales[j, 0])
    least = float(beyond(shape, scale, longest))  # beyond the range

    def quantile(gone: Array) -> Array:
        away = scale * ((least + (1 - least) * gone) ** -shape - 1) / shape
        return np.asarray(cut + sign * np.clip(away, 0.0, longest))

    return quantile


@dataclass(frozen=True)
class CellLookup:
    """A public map of cells: columns looked up in tables, one number for each cell.

    places: Which column each number is looked up for.
    tables: The numbers.
    radius: Rows are shortened to this length and divided by it; by default they stay as they are.
    """

    places: tuple[int, ...]
    tables: tuple[tuple[float, ...], ...]
    radius: float | None = None

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return len(self.places)

    def __call__(self, rows: AnyArray) -> AnyArray:
        """Look up rows of cells; no value makes it raise."""
        cells = np.nan_to_num(to_numpy(rows))
        found = np.empty((len(cells), self.width))
        for k, (place, table) in enumerate(zip(self.places, self.tables, strict=True)):
            at = np.clip(cells[:, place], 0, len(table) - 1).astype(np.intp)
            found[:, k] = np.array(table)[at]
        if self.radius is None:
            return found
        return truncate_to_grid(Bounds(norm=1.0).clip(found / self.radius), FINE_BITS)
