"""Columns of a table as cells, and values drawn inside cells.

A category is a cell, and so is each whole number of a short range. Other numbers are cut at
privately released edges (`sums.statistics`) and at public powers of two. Where a column may be
missing, that is one more cell. Maps read one record at a time.
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
Tail = Callable[[Array], Array] | None  # quantiles of what lies in an end cell

MAX_VALUES = 32  # whole numbers of so short a range have a cell each, also in pairs of columns
MAX_FINE_VALUES = 128  # and of so short a one in the counts of the column alone, noise permitting
NARROW = 2.0**-30  # of its range: the width of a cell that stands for one value
MAX_CATEGORIES = 64  # further categories share the last cell
TAIL_HALVINGS, END_HALVINGS = 6, 3  # beyond the outermost cuts: towards the cut, and the end
STANDS_OUT = 3.5  # standard deviations of the noise
POWERS = 20  # of two, at which a range is cut
# Of a fitted tail: its mass and cells at most, what a law errs by, and its likely shape.
TAIL_MASS, TAIL_CELLS, MISFIT, LIKELY_SHAPE, SHAPE_SPREAD = 0.35, 3, 0.1, 0.45, 0.25
TAIL_DOUBT, CLEARLY = 0.2, 4.0  # what a law errs by; variances of noise
TARGET_SHAPE = -0.1  # of a target: one too long spoils regressions on made rows


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
        n_cut = 2**levels + 4 + 2 * (TAIL_HALVINGS + END_HALVINGS + POWERS)
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
            # Powers of two, away from zero: whatever the range, some cell is not far too wide.
            powers = np.outer([column.lower, column.upper], 0.5 ** np.arange(1, POWERS + 1))
            powers = np.ceil(powers) - 0.5 if column.is_whole else powers
            is_inside = (ends[0] < powers) & (powers < ends[1]) & (np.abs(powers) > tiny)
            inner = np.concatenate([inner, powers[is_inside]])
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
        tails: Sequence[Tail] = (None, None),
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
        by, sizes = np.lexsort((order, cells)), np.bincount(cells)  # missing rows apart
        rank = np.empty(len(cells))
        rank[by] = np.arange(len(cells)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        share = (rank + generator.uniform(size=len(cells))) / sizes[cells]
        lower, upper = ends[known], ends[known + 1]
        mass = np.maximum(masses[: last + 1], 0.0) + 1e-9
        tilt = _tilts(mass, ends, is_whole=each.is_whole)[known]
        small, safe = np.abs(tilt) < 1e-3, np.where(np.abs(tilt) < 1e-3, 1.0, tilt)
        rest = np.exp(-np.abs(safe))
        up = 1 + np.log(np.maximum(share + (1 - share) * rest, 1e-300)) / safe
        down = np.log(np.maximum(1 - share + share * rest, 1e-300)) / safe
        inside = np.where(small, share, np.where(safe > 0, up, down))
        values = lower + inside * (upper - lower)
        for place, tail in ((0, tails[0]), (last, tails[1])):
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
    counts: Array,
    ends: Array,
    fine: Array,
    fine_counts: Array,
    variances: Array,
    noise: float,
    is_whole: bool,
    likely_shape: float = LIKELY_SHAPE,
) -> tuple[float, Callable[[Array], Array]] | None:
    """Fit generalised Pareto laws to the last cell of a column and up to three cells before it.

    `counts` of the cells between `ends` have noise of these `variances`; `fine_counts`, each with
    this `noise`, are those inside the last cell, between `fine`. In a left tail, ends descend.
    Returns the expected count of the last cell and its quantiles under the laws, each as likely as
    the counts make it, or None where the cell stands for one value.
    """
    last, width = len(counts) - 1, abs(float(ends[-1] - ends[0]))
    cut, longest = float(ends[-2]), abs(float(ends[-1] - ends[-2]))
    if longest < max(4 * NARROW * width, 1.5 * is_whole):
        return None
    above = np.cumsum(np.maximum(counts, 0.0)[::-1])[::-1]
    is_tail = above <= TAIL_MASS * above[0]
    start = last
    while start > max(last - TAIL_CELLS, 1) and is_tail[start - 1]:
        start -= 1
    away = np.abs(np.concatenate([ends[start:-1], fine[1:]]) - ends[start])
    seen = np.concatenate([counts[start:-1], fine_counts])
    blur = np.concatenate([variances[start:-1], np.full(len(fine_counts), noise**2)])
    blur = blur + np.maximum(seen, 1.0) + (MISFIT * np.maximum(seen, 0.0)) ** 2
    shapes = np.arange(-0.9, 1.05, 0.1)[:, None, None] + 1e-3
    unit = away[last - start]
    least, most = (unit / 20, unit * 20) if start < last else (float(away[1]), longest)
    scales = np.geomspace(least, most, 31)[:, None]
    beyond = np.maximum(1 + shapes * away / scales, 1e-12) ** (-1 / shapes)
    law = -np.diff(beyond, axis=-1) + 1e-12
    total = np.maximum((law * seen / blur).sum(axis=-1) / (law**2 / blur).sum(axis=-1), 0.0)
    misfit = (np.square(seen - total[..., None] * law) / blur).sum(axis=-1)
    misfit += np.square((shapes[..., 0] - likely_shape) / SHAPE_SPREAD)
    chances = np.exp((misfit.min() - misfit) / 2)
    chances /= chances.sum()
    here, at_end = beyond[..., last - start], beyond[..., -1]
    inside = total * (here - at_end)
    mass = float((chances * inside).sum())
    is_clear = counts[last] >= STANDS_OUT * math.sqrt(variances[last])
    # Expected shares of the cell beyond points on a grid
    far = longest * np.concatenate([[0.0], np.geomspace(1e-6, 1, 100)])
    points = away[last - start] + far
    laws = np.maximum(1 + shapes * points / scales, 1e-12) ** (-1 / shapes) - at_end[..., None]
    left = np.tensordot(chances * total, laws, 2) / max(mass, 1e-12)
    sign = math.copysign(1.0, float(ends[-1] - ends[-2]))
    # A fine cell that stands out from the laws, the more so the further out, has its own count
    expected = np.tensordot(chances * total, law, 2)[last - start :] + 1e-9
    far_out = np.log2(1 + np.abs((fine[1:] - cut) / (cut - ends[0])))
    told = np.maximum(weighed(expected, fine_counts, noise**2, CLEARLY + 2 * far_out)[0], 1e-9)
    by_law, by_count = (
        np.append(np.cumsum(each[::-1])[::-1], 0.0) / each.sum() for each in (expected, told)
    )

    def quantile(gone: Array) -> Array:
        gone = np.interp(gone, by_count[::-1], by_law[::-1])
        return np.asarray(cut + sign * np.interp(gone, left[::-1], far[::-1]))

    # Noise alone is no tail beyond a cell that holds nearly all
    return (mass if start < last or is_clear else 0.0), quantile


def weighed(law: Any, count: Any, variance: Any, clearly: Any = CLEARLY) -> tuple[Any, Any]:
    """Return the mean of what a law expects and of a noisy count, and its variance.

    The count weighs more where the two differ clearly: by so many variances.
    """
    away = count - law
    doubt = np.maximum((TAIL_DOUBT * law) ** 2, away**2 - clearly * variance)
    share = doubt / np.maximum(variance + doubt, 1e-300)
    return law + away * share, variance * share


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
