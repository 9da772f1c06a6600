"""How additive models see a record, in the order of a fit; everything here is public or released.

`PublicColumns` puts cells into their ranges, `HatRows` makes weights on knots of them, `PairRows`
adds products of columns. `AdditiveScores` are weights of such rows; the maps at the end show scores
together with labels or targets, for the last release of a fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_expit, logsumexp

from sfumato.core.arrays import Array as AnyArray
from sfumato.exceptions import MissingBoundsError
from sfumato.privacy.guarantee import Relation
from sfumato.sums.coded import NO_TARGET, STEPS, TARGETS, CodedRows
from sfumato.sums.grid import FINE_BITS, ROW_BITS, SINGLE_BITS, truncate_to_grid
from sfumato.sums.maps import (
    FARTHEST as FARTHEST_TARGET,
    ROUNDING_MARGIN,
    LinearRows,
    exact_product,
)
from sfumato.sums.statistics import EDGES, Codes, CountTables, Statistic
from sfumato.tables.bounds import Bounds
from sfumato.tables.columns import arrow_kind
from sfumato.tables.schema import TableBounds

Array = NDArray[np.float64]

FARTHEST = 2.0  # spreads of a target from its median, in the choice of pairs
DEFAULT_SPREAD = 0.5  # of a target, in these units
SIGNS = np.array([[1.0, -1.0], [-1.0, 1.0]])
ABOVE = np.array([1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 3, 4, 6, 8, 12])
BIN_EDGES = np.concatenate([-ABOVE[::-1], [0.0], ABOVE])  # of scores
BIN_MIDDLES = np.concatenate([[-14.0], (BIN_EDGES[:-1] + BIN_EDGES[1:]) / 2, [14.0]])
# Probabilities: the factor is drawn towards a default by this many records where counts are noise,
# and a bin must have this many deviations of its noise, or it is empty.
DEFAULT_FACTOR, STRENGTH, SEEN = 0.4, 5.0, 4.0
STEEPEST = 2.0  # times the slope that a robust fit of a target without skew would have
SLOPE_DOUBT = 0.3  # relative deviation of that slope from the best one
MIN_VARIANCE = 1e-6
# Rows in codes: places between two knots, and steps of 1 of products and targets. A term of a sum
# is a multiple of 2**-36: 5 bits are of products, 7 or more of lengths; slopes and the projection
# of a row have the others.
LEVELS, SHORTER_BITS = 16, 7
WHITE_BITS = 2 * ROW_BITS - 5
SHARED_CODES = 2**15  # at most, of columns together: a table of them stays in the cache


# Columns and knots ------------------------------------------------------------------------------


@dataclass(frozen=True)
class PublicColumns:
    """``cells -> places``: numbers as places in their ranges, from 0 to 1, and what is public.

    names: Of all columns.
    lower, upper: Range of each column of numbers; of a column of categories 0 and their number.
    categories: The categories of each column, or None for numbers; what is true or false has two.
    units: What the numbers of each column are: "log", "log1p", "day" since 1970, "whole" numbers,
        or "" as they are.
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
            kinds: list[tuple[Any, ...] | None] = []
            units = []
            for each in bounds.features:
                is_truth = each.categories is None and arrow_kind(each.type) == "b"
                listed = None if each.is_number else each.categories
                kinds.append((False, True) if is_truth else listed)
                unit = "whole" if each.is_whole and not each.ordered else ""
                unit = ("log" if each.lower > 0 else "log1p") if each.log else unit
                units.append("day" if each.part == "time" else unit)
            ranges = [
                each.range if kind is None else (0.0, float(len(kind)))
                for each, kind in zip(bounds.features, kinds, strict=True)
            ]
            lower, upper = zip(*ranges, strict=True)
            found = tuple(each.name for each in bounds.features)
            return cls(found, lower, upper, tuple(kinds), tuple(units))
        box = bounds.box(len(names))
        if box is None:
            raise MissingBoundsError(
                "An additive model needs the public range of each column: give "
                "Bounds(lower=[...], upper=[...]) or the bounds of a table, not a 'norm' alone."
            )
        low, high = (tuple(corner.tolist()) for corner in box)
        return cls(names, low, high, (None,) * len(names))

    @property
    def width(self) -> int:
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
        if unit == "whole":  # to six digits: those between few whole numbers are none
            return tuple(int(x) if x.is_integer() else x for x in np.round(numbers, 6).tolist())
        if unit:
            numbers = np.exp(numbers) if unit == "log" else np.expm1(numbers)
        return tuple(numbers.tolist())

    def __call__(self, rows: AnyArray) -> Array:
        """Map cells, each alone; a category stays its number, what is missing or odd is NaN."""
        cells = np.asarray(rows, dtype=np.float64)[:, : self.width]
        found = np.where(np.isfinite(cells), cells, np.nan)
        for i, categories in enumerate(self.categories):
            column = found[:, i]
            if categories is None:  # [N3] each cell alone
                width = self.upper[i] - self.lower[i]
                inside = np.clip(column, self.lower[i], self.upper[i])
                found[:, i] = np.clip((inside - self.lower[i]) / width, 0.0, 1.0)
            else:
                is_known = (column >= 0) & (column < len(categories))
                found[:, i] = np.where(is_known, np.trunc(column), np.nan)
        return found


def public_knots(columns: PublicColumns, n_levels: int) -> Array:
    """Return knots by the public ranges alone, which cost nothing.

    They are even in a column that may have negative numbers. Else they are squares of even places:
    most numbers of a long tail lie far below its public end.
    """
    even = np.linspace(0.0, 1.0, 2**n_levels + 1)
    rows = [even if columns.lower[i] < 0 else even**2 for i in columns.numeric]
    return whole_knots(columns, np.array(rows).reshape(len(rows), len(even)))


def whole_knots(columns: PublicColumns, knots: Array) -> Array:
    """Move knots of whole numbers to the nearest ones, each to one of its own.

    Where there are fewer whole numbers than knots, all have one, and others lie between them.
    """
    moved, last = knots.copy(), knots.shape[1] - 1
    for row, i in zip(moved, columns.numeric, strict=True):
        n = round(columns.upper[i] - columns.lower[i])
        if not columns.units or columns.units[i] != "whole" or n < 1:
            continue
        order = np.arange(last + 1)
        if n <= last:
            fine = np.arange(n * last + 1) / last  # in which whole numbers come before others
            row[:] = np.sort(fine[np.argsort(fine % 1 != 0, kind="stable")][: last + 1]) / n
            continue
        steps = np.rint(row * n) - order  # ascending places never fall in these
        steps = np.clip(np.maximum.accumulate(steps), 0, n - last)
        row[:] = (steps + order) / n
    return moved


def knots_at(cuts: Array) -> Array:
    """Return the knots of released cuts; a part that was not cut is divided evenly."""
    known = ~np.isnan(cuts)
    places = np.full(cuts.shape, np.nan)
    places[known] = EDGES[cuts[known].astype(int) - 1]
    knots = np.column_stack([np.zeros(len(cuts)), places, np.ones(len(cuts))])
    for row in knots:
        missing = np.isnan(row)
        numbers = np.arange(len(row))
        row[missing] = np.interp(numbers[missing], numbers[~missing], row[~missing])
    return knots


@dataclass(frozen=True, eq=False)
class HatRows:
    """``cells -> z``: hats of numbers and indicators of categories, in the unit ball.

    A number between knots k and k' becomes ``(k' - x)/(k' - k)`` and ``(x - k)/(k' - k)`` at their
    places, a category 1 at its place, all divided by the root of the number of columns. So a column
    adds 1 at most to the sum of all, and the row has length 1 at most. A missing cell has no hat:
    since the hats of a column add up to 1 otherwise, that is an indicator of its own.

    knots (n_numeric, n_knots): Ascending places from 0 to 1, of the columns of numbers.
    """

    columns: PublicColumns
    knots: Array = field(repr=False)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Where the hats of each column are in a row."""
        n_knots = self.knots.shape[1]
        sizes = [n_knots if each is None else len(each) for each in self.columns.categories]
        return tuple(slice(int(a), int(b)) for a, b in pairwise(np.cumsum([0, *sizes])))

    @property
    def width(self) -> int:
        return int(self.slices[-1].stop)

    def __call__(self, rows: AnyArray) -> AnyArray:
        return truncate_to_grid(self.raw(rows) * (1 / math.sqrt(self.columns.width)), FINE_BITS)

    def raw(self, rows: AnyArray, n_more: int = 0) -> Array:
        """Return hats of height 1, multiples of ``2**-FINE_BITS``, and room for more numbers."""
        places = self.columns(rows)
        hats = np.zeros((len(places), self.width + n_more))
        flat, numeric = hats.reshape(-1), iter(self.knots)
        first = np.arange(0, hats.size, hats.shape[1])  # place of each row
        for i, part in enumerate(self.slices):
            column = places[:, i]
            missing = np.flatnonzero(np.isnan(column))
            if self.columns.categories[i] is None:
                left, weight = interval(column, next(numeric))
                weight = truncate_to_grid(weight, FINE_BITS)
                at = first + (part.start + left)
                flat[at] = 1 - weight
                flat[at + 1] = weight
            else:
                column = np.nan_to_num(column)
                flat[first + (part.start + column.astype(np.intp))] = 1.0
            hats[missing, part] = 0.0
        return hats

    def orders_of(self, rows: AnyArray, orders: Array) -> AnyArray:
        """Return the sum of the orders of each column, weighted by its hats; each row alone."""
        numbers = truncate_to_grid(np.clip(orders, -1.0, 1.0), ROW_BITS)
        return np.column_stack([rows[:, part] @ numbers[part] for part in self.slices])


def interval(column: Array, knots: Array) -> tuple[NDArray[np.intp], Array]:
    """Return the number of the knot below each number, and the place to the next, from 0 to 1."""
    left = np.zeros(len(column), dtype=np.uint8)
    for knot in knots[1:-1]:
        left += column >= knot
    number = left.astype(np.intp)
    return number, np.clip((column - knots.take(number)) / np.diff(knots).take(number), 0.0, 1.0)


# Pairs of columns -------------------------------------------------------------------------------
# Each column has one number per record, from -1 to 1: a number its place among the knots, a
# category its order by the released share of a class. The product of the numbers of two columns is
# what they add together, beyond what each adds alone.


@dataclass(frozen=True)
class HatSums(Statistic):
    """``sum e_y ⊗ z``: the sum of the hats of each class.

    A target after the hats, where there is one, makes two classes: below and above 0; a record
    without one adds nothing. Adding or removing a record moves the sum by ``|z| <= 1``. Replacing
    one moves two classes by 1 each, or one by ``|z - v| <= √2``: hats are not negative.

    width: Numbers of a row of hats.
    has_target: Whether one number more follows them in a row, the target.
    """

    n_classes: int
    width: int
    has_target: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_classes, self.width)

    @property
    def in_ball(self) -> int:
        return self.width

    def add_up(self, rows: AnyArray, codes: Codes) -> AnyArray:
        if isinstance(rows, CodedRows):
            if self.has_target:  # NaN is of neither class
                codes = np.where(np.isnan(rows.targets()[:, 0]), -1, rows.targets()[:, 0] > 0)
            found = [rows.counted((codes == c) * 1.0) for c in range(self.n_classes)]
            return np.array(found) * (rows.code.units / STEPS)
        hats = np.maximum(truncate_to_grid(rows[:, : self.width], ROW_BITS), 0.0)
        if self.has_target:
            hats = np.where(np.isnan(rows[:, -1:]), 0.0, hats)
            codes = (rows[:, -1] > 0).astype(np.intp)
        return (codes == np.arange(self.n_classes)[:, None]).astype(np.float64) @ hats

    def term_sensitivity(self, relation: Relation) -> float:
        return math.sqrt(2) if relation is Relation.REPLACE_ONE else 1.0


def column_orders(hats: HatRows, sums: Array, noise: float) -> tuple[Array, Array]:
    """Return the number of each hat, from -1 to 1, and the strength of each column."""
    orders, strengths = np.empty(hats.width), np.empty(hats.columns.width)
    for i, part in enumerate(hats.slices):
        counts = np.maximum(sums[:, part], 0.0)
        total = counts.sum(axis=0)
        # Shares of classes, drawn towards those of the column where a hat has hardly a record.
        usual = counts.sum(axis=1, keepdims=True) / max(float(total.sum()), 1e-12)
        calm = noise * math.sqrt(len(counts)) + 1e-12
        apart = (counts - usual * total) / (total + calm)
        weighted = apart * np.sqrt(total / max(float(total.sum()), 1e-12))
        left, values, _ = np.linalg.svd(weighted, full_matrices=False)
        strengths[i] = float(values[0])
        along = left[:, 0] @ apart
        size = part.stop - part.start
        if hats.columns.categories[i] is None or size == 2:
            orders[part] = np.linspace(-1.0, 1.0, size)
        else:
            orders[part] = along / max(float(np.abs(along).max()), 1e-12)
    return truncate_to_grid(np.clip(orders, -1.0, 1.0), ROW_BITS), strengths


@dataclass(frozen=True, eq=False)
class Sides:
    """``hats and target -> sides``: 1 where a column is above its middle, else 0.

    orders (width of the hats,): A number from -1 to 1 for each hat.
    columns: Which columns.
    has_target: Whether a target follows the hats; it is the last number then, from -1 to 1.
    """

    hats: HatRows
    orders: Array = field(repr=False)
    columns: tuple[int, ...]
    has_target: bool = False

    @property
    def width(self) -> int:
        return len(self.columns) + self.has_target

    def __call__(self, rows: AnyArray) -> AnyArray:
        is_coded = isinstance(rows, CodedRows)
        if is_coded:
            starts = [self.hats.slices[i].start for i in self.columns]
            sides = rows.numbers(self.orders, starts) > 0
        else:
            sides = self.hats.orders_of(rows, self.orders)[:, self.columns] > 0
        if not self.has_target:
            return sides.astype(np.float64)
        target = rows.targets() if is_coded else rows[:, -1:]
        return np.column_stack([sides, np.clip(target / FARTHEST, -1.0, 1.0)])


@dataclass(frozen=True)
class SideMeans(Statistic):
    """``sum [1, t] e_cell`` for each pair of columns: how many records, and the sum of targets.

    A record adds a 1 and its target t, from -1 to 1, to one of four cells of each pair, or nothing
    where its target is missing. So it moves P pairs by √2 each: √(2P) (add or remove). Replacing
    it moves a pair by 2 at most: two cells by √2 each, or one target by 2.

    n_columns: Columns of sides.
    """

    n_columns: int
    in_ball = 0  # sides are counted, and targets clipped

    @property
    def shape(self) -> tuple[int, ...]:
        return (math.comb(self.n_columns, 2), 2, 2, 2)

    def add_up(self, rows: AnyArray, codes: Codes) -> AnyArray:  # noqa: ARG002 - no classes
        known = rows[~np.isnan(rows[:, -1])]
        target = truncate_to_grid(np.clip(known[:, -1], -1.0, 1.0), ROW_BITS)
        sides = (known[:, :-1] > 0).astype(np.intp)
        total = np.empty((self.shape[0], 4, 2))
        for place, (a, b) in enumerate(combinations(range(self.n_columns), 2)):
            cells = 2 * sides[:, a] + sides[:, b]
            total[place, :, 0] = np.bincount(cells, minlength=4)
            total[place, :, 1] = np.bincount(cells, weights=target, minlength=4)
        return total.reshape(self.shape)

    def term_sensitivity(self, relation: Relation) -> float:
        return math.sqrt(self.shape[0] * (4 if relation is Relation.REPLACE_ONE else 2))


def clear_pairs(statistic: Statistic, drawn: Array, noise: float) -> Array:
    """Return by how many deviations two sides together change a mean, or the odds of a class."""
    if not isinstance(statistic, CountTables):
        counts = np.maximum(drawn[..., 0], 1.0 + noise)
        mean = np.clip(drawn[..., 1] / counts, -1.0, 1.0)
        apart = np.abs((SIGNS * mean).sum(axis=(1, 2)))
        spread = DEFAULT_SPREAD**2 / counts + (1 + mean**2) * (noise / counts) ** 2
        return np.asarray(apart / np.sqrt(spread.sum(axis=(1, 2))))
    clear = []
    for counts in statistic.split(drawn):
        inside = np.maximum(counts, 1.0 + noise)
        found = 0.0
        for each in range(counts.shape[2] if counts.shape[2] > 2 else 1):
            own = inside[..., each]
            rest = inside.sum(axis=2) - own
            odds = float((SIGNS * np.log(own / rest)).sum())
            doubt = sum((1 / n + (noise / n) ** 2).sum() for n in (own, rest))
            found = max(found, abs(odds) / math.sqrt(float(doubt)))
        clear.append(found)
    return np.array(clear)


@dataclass(frozen=True, eq=False)
class PairRows:
    """``cells -> [z √(1-w); (s_i s_j)_ij √(w/P)]``, w = P/(P + m): hats and products, unit ball.

    ``s_i = sum_k orders_k h_k`` over the hats h of column i, from -1 to 1, and 0 where the cell is
    missing. P products have length √P at most.

    orders (width of the hats,): A number from -1 to 1 for each hat.
    pairs (P, 2): Places of the columns of each pair.
    """

    hats: HatRows
    orders: Array = field(repr=False)
    pairs: NDArray[np.intp] = field(repr=False)

    @property
    def width(self) -> int:
        return self.hats.width + len(self.pairs)

    @property
    def share(self) -> float:
        """Of the squared length for the products, w: each is worth as much as a column."""
        return len(self.pairs) / (len(self.pairs) + self.hats.columns.width)

    @cached_property
    def units(self) -> Array:
        """By what each hat of height 1, and each product, is multiplied."""
        share, length = self.share, 1 - ROUNDING_MARGIN
        height = 1 / math.sqrt(self.hats.columns.width)
        hats = np.full(self.hats.width, height * math.sqrt(1 - share) * length)
        products = math.sqrt(share / max(1, len(self.pairs))) * length
        return np.concatenate([hats, np.full(len(self.pairs), products)])

    def products(self, raw: AnyArray) -> AnyArray:
        """Return the products of the pairs of hats of height 1; each row alone."""
        if not len(self.pairs):
            return np.empty((len(raw), 0))
        places = self.hats.orders_of(raw, self.orders)
        places = truncate_to_grid(np.clip(places, -1.0, 1.0), FINE_BITS)
        return np.asarray(places[:, self.pairs[:, 0]] * places[:, self.pairs[:, 1]])

    def __call__(self, rows: AnyArray) -> AnyArray:
        return truncate_to_grid(self.raw(rows) * self.units, FINE_BITS)

    def raw(self, rows: AnyArray) -> Array:
        """Return hats of height 1 and products."""
        together = self.hats.raw(rows, len(self.pairs))
        together[:, self.hats.width :] = self.products(together)
        return together


# Rows in codes -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CellCodes:
    """``cells -> z``: hats and products in whole steps of ``1/STEPS``, held as codes.

    A number counts as the nearest of `LEVELS` places between two knots, a product as the nearest
    multiple of the step. Neighbouring columns share one column of codes where together they have
    few: a pass over the rows then looks up half as many. What is exact is so in any grouping.

    rows: Hats and products; none of the latter where they are not chosen yet.
    most: Codes that columns may share.
    keeps_target: Whether a target follows the cells; `centre` and `scale` as in `BesideTarget`.
    """

    rows: PairRows
    most: int = 0
    keeps_target: bool = False
    centre: float = 0.0
    scale: float = 1.0
    makes_codes: ClassVar[bool] = True
    ends_in_ball: ClassVar[bool] = True

    @property
    def width(self) -> int:
        return self.rows.width

    @cached_property
    def units(self) -> Array:
        """Those of `rows`, multiples of ``2**-ROW_BITS`` for each step: rows are on that grid."""
        return np.asarray(truncate_to_grid(self.rows.units, ROW_BITS - 5))

    @cached_property
    def tables(self) -> list[list[tuple[slice, NDArray[np.int64]]]]:
        """Return for each column of codes what is in it: places in z, and numbers for each code.

        The last code of a column says that it is missing.
        """
        hats, n_codes = self.rows.hats, math.inf
        found: list[list[tuple[slice, NDArray[np.int64]]]] = []
        products = np.arange(-STEPS, STEPS + 1)[:, None]
        for i in range(hats.columns.width + len(self.rows.pairs)):
            k = hats.width + i - hats.columns.width
            part, table = slice(k, k + 1), products
            if k < hats.width:
                part, is_number = hats.slices[i], hats.columns.categories[i] is None
                height = LEVELS if is_number else 1
                codes = np.arange(part.stop - part.start) * height
                table = np.maximum(height - np.abs(np.arange(codes[-1] + 1)[:, None] - codes), 0)
                table = np.vstack([table, np.zeros_like(codes)]) * (STEPS // height)
            n_codes *= len(table)
            if n_codes > self.most or k == hats.width:  # products come later
                found.append([])
                n_codes = len(table)
            found[-1].append((part, table))
        return found

    def __call__(self, rows: AnyArray) -> CodedRows:
        if isinstance(rows, CodedRows):  # of the columns: products are added
            starts, pairs = [part.start for part in self.rows.hats.slices], self.rows.pairs
            numbers = rows.numbers(self.rows.orders, starts)
            products = numbers[:, pairs[:, 0]] * numbers[:, pairs[:, 1]]
            codes, first = np.rint(products * STEPS) + STEPS, len(rows.code.tables)
            return CodedRows(np.concatenate([rows.codes, self._shared(codes, first)], 1), self)
        if rows.dtype == np.uint16:  # codes that were kept
            return CodedRows(rows, self)
        hats = self.rows.hats
        places, knots = hats.columns(rows), iter(hats.knots)
        singles = [each for columns in self.tables for each in columns]
        for i, (_, table) in enumerate(singles[: hats.columns.width]):
            if hats.columns.categories[i] is None:
                left, weight = interval(places[:, i], next(knots))
                places[:, i] = np.rint(weight * LEVELS) + LEVELS * left
            places[np.isnan(places[:, i]), i] = len(table) - 1
        codes = self._shared(places)
        if self.keeps_target:
            target = (rows[:, -1:] - self.centre) / self.scale + FARTHEST_TARGET
            target = np.rint(np.clip(target, 0.0, 2 * FARTHEST_TARGET) * TARGETS)
            target = np.where(np.isnan(target), NO_TARGET, target).astype(np.uint16)
            codes = np.concatenate([target, codes], 1)
        return CodedRows(codes, self)

    def _shared(self, singles: Array, first: int = 0) -> NDArray[np.uint16]:
        """Return codes of columns as those that they share, from one column of codes on."""
        listed, columns = self.tables[first:], iter(singles.T)
        codes = np.zeros((len(singles), len(listed)), np.uint16, order="F")
        for shared, inside in zip(codes.T, listed, strict=False):
            for (_, table), column in zip(inside, columns, strict=False):
                shared *= len(table)
                shared += column.astype(np.uint16)
        return codes


@dataclass(frozen=True, eq=False)
class WhiteRows:
    """``z -> a = [t Pᵀz; c]``, held as the codes of z and t: a hundred numbers in ten codes.

    P whitens z and is public, t shortens a row to length 1, c is the constant of `white`. All are
    multiples of powers of two, so that products are exact.

    bits: Steps of P times those of t are ``2**-bits``: finer ones of t the longer rows may be.
    """

    code: CellCodes
    white: LinearRows
    bits: int
    makes_codes: ClassVar[bool] = True
    ends_in_ball: ClassVar[bool] = True

    @property
    def width(self) -> int:
        return self.white.width

    @property
    def height(self) -> float:
        """Return c, a multiple of ``2**-SINGLE_BITS``."""
        return math.floor(self.white.height * 2.0**SINGLE_BITS) * 2.0**-SINGLE_BITS

    @cached_property
    def steps(self) -> int:
        """Return the steps of t from 0 to 1."""
        return 1 << (SHORTER_BITS + max(math.frexp(1 / self.radius)[1] - 2, 0))

    @cached_property
    def radius(self) -> float:
        """Return the length by which rows are divided, where squares stay exact."""
        return max(self.white.radius or 1.0, 2.0**-8)

    @cached_property
    def projection(self) -> Array:
        """Return P, of hats of height 1 and products."""
        return np.asarray(self.whole_projection * (2.0**-self.bits * self.steps), np.float64)

    @cached_property
    def whole_projection(self) -> NDArray[np.int64]:
        """Return P in its steps."""
        before = self.white.weights_before * self.code.units[:, None]
        before *= (self.white.radius or 1.0) / self.radius * 2.0**self.bits / self.steps
        return np.rint(before).astype(np.int64)

    def __call__(self, rows: Any) -> CodedRows:
        if not isinstance(rows, CodedRows):  # codes that were kept
            return CodedRows(rows, self.code, self)
        # Products are exact, in single precision where no partial sum can pass its 24 bits.
        longest = float(np.linalg.norm(self.whole_projection, axis=0).max(initial=0.0))
        n_columns = self.code.rows.hats.columns.width + len(self.code.rows.pairs)
        single = STEPS * math.sqrt(n_columns) * longest < 2.0**24
        weights = self.whole_projection.astype(np.float32 if single else np.float64)
        t, most = np.empty((len(rows.codes), 1), np.uint16), math.sqrt(1 - self.white.height**2)
        for part, z in rows.dense(weights.dtype):
            mapped: Any = z @ weights
            squares = np.einsum("ij,ij->i", mapped, mapped, dtype=np.float64)
            lengths = np.sqrt(squares) * (2.0**-self.bits / STEPS)  # in steps of t
            longest = most * (1 - ROUNDING_MARGIN) / np.maximum(lengths, 2.0**-30)
            t[part, 0] = np.minimum(longest, self.steps)
        return CodedRows(np.concatenate([rows.codes, t], 1), self.code, self)


# Scores -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AdditiveScores:
    """``cells -> scores`` by released weights, to the bit whatever other rows there are.

    coef (n_scores, width): Weight of each hat of height 1, and of each product of a pair.
    intercept (n_scores,): Weight of the constant.
    """

    rows: PairRows
    coef: Array = field(repr=False)
    intercept: Array = field(repr=False)

    def __call__(self, cells: AnyArray) -> Array:
        if isinstance(cells, CodedRows):
            return np.asarray(cells.looked_up(cells.by_code(self.coef.T)) + self.intercept)
        together = self.rows.raw(cells)
        products = together[:, self.rows.hats.width :]
        products[:] = truncate_to_grid(products, FINE_BITS)
        longest = math.sqrt(self.rows.hats.columns.width + len(self.rows.pairs))
        return exact_product(together, self.coef, longest) + self.intercept


@dataclass(frozen=True, eq=False)
class ScoreBins:
    """``cells -> bin``: of the score for two classes; else of the margin, and what is predicted."""

    scores: AdditiveScores

    @property
    def width(self) -> int:
        return 1 if len(self.scores.intercept) == 1 else 2

    def __call__(self, rows: AnyArray) -> AnyArray:
        found = self.scores(rows)
        if self.width == 1:
            return np.searchsorted(BIN_EDGES, found, side="right").astype(np.float64)
        best = found.argmax(axis=1)
        top = np.take_along_axis(found, best[:, None], axis=1)[:, 0]
        others = found.copy()
        others[np.arange(len(found)), best] = -np.inf
        bins = np.searchsorted(BIN_EDGES, top - logsumexp(others, axis=1), side="right")
        return np.column_stack([bins, best]).astype(np.float64)


@dataclass(frozen=True, eq=False)
class ScoreAndTarget:
    """``cells and t -> [1, g, s] / √3``, g the standardised score and s the target, within ±1.

    A row has length 1 at most, and 0 where the target is missing.

    middle, reach: ``g = (score - middle) / reach``.
    low, high: Places of the target that become -1 and 1; those outside are clipped.
    """

    scores: AdditiveScores
    middle: float
    reach: float
    low: float = 0.0
    high: float = 1.0
    width: ClassVar[int] = 3

    def __call__(self, rows: AnyArray) -> AnyArray:
        score = np.clip((self.scores(rows[:, :-1])[:, 0] - self.middle) / self.reach, -1.0, 1.0)
        target = 2 * (rows[:, -1] - self.low) / (self.high - self.low) - 1
        target = np.clip(target, -1.0, 1.0)
        together = np.column_stack([np.ones(len(rows)), score, target])
        together[np.isnan(target)] = 0.0
        return truncate_to_grid(together * ((1 - ROUNDING_MARGIN) / math.sqrt(3)), FINE_BITS)


def probability_line(
    right: Array, wrong: Array, noise: float, shifted: float
) -> tuple[float, float]:
    """Return the most likely factor and shift for the counts of each bin, drawn towards defaults.

    Clipped slopes make scores too large: a descent that may move by the sign of a residual alone
    goes on where an honest one would stop. With `shifted` 0 there is no shift.
    """
    both = right + wrong
    # A bin of n records with noise of variance v says as much as n²/(n + v) records would.
    weight = np.where(both > SEEN * noise, both / (np.abs(both) + noise**2 + 1e-12), 0.0)
    right, wrong = (np.maximum(n, 0.0) * weight for n in (right, wrong))

    def loss(line: Array) -> float:
        scores = math.exp(line[0]) * BIN_MIDDLES + line[1] * shifted
        fitted = right @ log_expit(scores) + wrong @ log_expit(-scores)
        drawn = (line[0] - math.log(DEFAULT_FACTOR)) ** 2 + line[1] ** 2
        return float(STRENGTH * drawn - fitted)

    found = minimize(loss, np.array([math.log(DEFAULT_FACTOR), 0.0]), method="Nelder-Mead").x
    factor, shift = float(np.clip(found[0], -4.0, 4.0)), float(np.clip(found[1], -5.0, 5.0))
    return math.exp(factor), shift * shifted


def target_line(
    moments: Array, noise: float, learned: float, noisy: float
) -> tuple[float, float, float]:
    """Return level and slope of the target over g, and the relative doubt of the slope.

    Robust scores follow the middle of a skewed target; the line brings back its mean. Its slope is
    drawn towards that of the descent, `learned`, which the noise of its gradients, of variance
    `noisy` in g, makes too steep.
    """
    n_rows = max(float(moments[0, 0]), 1.0)
    noise = noise / n_rows
    score, target = (float(np.clip(x / n_rows, -1.0, 1.0)) for x in moments[0, 1:])
    own = min(max(float(moments[1, 1]) / n_rows - score**2, 2 * noise, MIN_VARIANCE), 1.0)
    joint = float(moments[1, 2]) / n_rows - score * target
    usual = learned * max(1 - noisy / own, 0.0)
    deviation, doubt = SLOPE_DOUBT * learned, noise / (math.sqrt(2) * own)
    weight = deviation**2 / (deviation**2 + doubt**2)
    slope = min(max(usual + weight * (joint / own - usual), 0.0), STEEPEST * learned)
    doubt = math.sqrt(weight) * doubt / max(slope, 1e-300) + noise / own
    return target - slope * score, slope, min(doubt, 1.0)
