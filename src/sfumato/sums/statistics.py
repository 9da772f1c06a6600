"""Statistics: what is added up, a term per record, and how far one record can move the sum.

Read `Statistic`, then moments of rows, tables of counts, and counts of places in public ranges.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array, to_numpy
from sfumato.privacy.guarantee import Relation
from sfumato.sums.grid import ROW_BITS, HeldRows, double_rounding, truncate_to_grid

if TYPE_CHECKING:
    from sfumato.sums.persons import PersonUnit

Codes = NDArray[np.intp]


class Statistic(ABC):
    """A sum over records, described without data: shape, term, sensitivity.

    A subclass is a frozen dataclass of public values, so that it can be sent to where rows live.
    Its terms are multiples of ``2**-36`` below 2 in magnitude; `add_up` is then exact.
    """

    is_symmetric: ClassVar[bool] = False  # in its last two axes, so that half of the noise is drawn
    takes_singles: ClassVar[bool] = False  # whether `add_up` reads rows held as `Float32Rows`
    moved: ClassVar[tuple[float, float]]  # how far replacing one, and adding or removing one moves
    # Parts of which a record adds 1 to one number each, where a statistic counts so.
    n_parts: int | None = None

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of the sum."""

    @property
    def in_ball(self) -> int:
        """How many first numbers of a row must lie in the unit ball, or its term is zero.

        By default `width`, all of them; 0 where terms are bounded whatever a row holds.
        """
        return int(self.width)  # type: ignore[attr-defined]

    @property
    def max_term(self) -> float:
        """Largest magnitude of a term of one record, in one coordinate; below 2."""
        return 1.0

    @property
    def size(self) -> int:
        """Numbers in the sum."""
        return math.prod(self.shape)

    @abstractmethod
    def add_up(self, rows: Array, codes: Codes) -> Array:
        """Return the exact sum of the terms of a block of records.

        Parameters
        ----------
        rows : array of shape (n, width)
            Rows of the unit ball.
        codes : ndarray of shape (n,)
            Number of each record's class.

        Returns
        -------
        array
            The sum, of the shape of the statistic.
        """

    def term_sensitivity(self, relation: Relation) -> float:
        """Largest distance of the exact sums of two neighbours, in the Euclidean norm.

        Parameters
        ----------
        relation : Relation
            Which data sets count as neighbours.

        Returns
        -------
        float
            The distance; by default that of `moved`.
        """
        return self.moved[0 if relation is Relation.REPLACE_ONE else 1]

    def _add_up_persons(self, rows: Array, codes: Codes, size: int) -> Array:  # noqa: ARG002
        """Return the same of rows that belong to persons, `size` rows each and side by side."""
        return self.add_up(rows, codes)

    def _joined_sensitivity(self, relation: Relation, unit: PersonUnit) -> float | None:  # noqa: ARG002
        """Largest distance where a person's rows are bounded together; None where each is."""
        return None

    def _rounding(self, max_rows: int) -> float:
        """Euclidean distance by which two sums can move apart as they become doubles."""
        return double_rounding(self.size, self.max_term * max_rows)

    def sensitivity(self, relation: str | Relation, max_rows: int, norm: int | str = 2) -> float:
        """Largest distance of the sums of two neighbours once they are doubles.

        Parameters
        ----------
        relation : {"replace_one", "add_or_remove_one"}
            Which data sets count as neighbours.
        max_rows : int
            The public number of records, or a public bound on it.
        norm : {1, 2, "part"}, default=2
            The sum of magnitudes, the Euclidean norm, or the sum over one part of the statistic.

        Returns
        -------
        float
            The distance.
        """
        moved = self.term_sensitivity(Relation(relation)) + self._rounding(max_rows)
        if norm == 2:
            return moved
        if self.n_parts is None:  # a part moves no further than the whole
            return math.sqrt(self.size) * moved
        one = 2.0 if Relation(relation) is Relation.REPLACE_ONE else 1.0
        return one if norm == "part" else one * self.n_parts


@dataclass(frozen=True)
class ClassCounts(Statistic):
    """Number of records of each class: ``sum e_y``.

    Adding a record moves one count by 1. Replacing one moves two counts by 1 each: √2.

    n_classes: Classes.
    """

    n_classes: int
    in_ball = 0  # rows are not read
    moved: ClassVar[tuple[float, float]] = (math.sqrt(2), 1.0)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_classes,)

    def add_up(self, rows: Array, codes: Codes) -> Array:  # noqa: ARG002 - rows are not counted
        counts = np.bincount(to_numpy(codes), minlength=self.n_classes)
        return counts[: self.n_classes].astype(np.float64)


@dataclass(frozen=True)
class MeanAndSquares(Statistic):
    """``sum [z; |z|²; 1]`` over rows of the unit ball.

    Adding a row moves it by ``sqrt(|z|² + |z|⁴ + 1) <= √3``. Replacing z by v, with lengths a
    and b, moves it by at most ``sqrt((a + b)² (1 + (a - b)²)) <= 2``.

    width: Numbers of a row.
    """

    width: int
    moved: ClassVar[tuple[float, float]] = (2.0, math.sqrt(3))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.width + 2,)

    def add_up(self, rows: Array, codes: Codes) -> Array:  # noqa: ARG002 - classes do not matter
        on_grid = truncate_to_grid(rows, ROW_BITS)
        squares = float(np.einsum("ij,ij->", on_grid, on_grid))
        return np.concatenate([on_grid.sum(axis=0), [squares, len(on_grid)]])


@dataclass(frozen=True)
class SecondMoment(Statistic):
    """``M = sum z zᵀ`` over rows of the unit ball.

    Adding a row moves it by ``||z zᵀ||_F = |z|² <= 1``. Replacing one moves it by
    ``||z zᵀ - v vᵀ||_F = sqrt(|z|⁴ + |v|⁴ - 2 (z.v)²) <= √2``, attained by orthonormal z, v.

    Parameters
    ----------
    width : int
        Numbers of a row.
    """

    width: int
    is_symmetric: ClassVar[bool] = True
    moved: ClassVar[tuple[float, float]] = (math.sqrt(2), 1.0)

    @property
    def shape(self) -> tuple[int, ...]:
        """Square."""
        return (self.width, self.width)

    def add_up(self, rows: Array, codes: Codes) -> Array:  # noqa: ARG002 - classes do not matter
        """Add up products."""
        if isinstance(rows, HeldRows):
            return rows.second_moment()
        on_grid = truncate_to_grid(rows, ROW_BITS)
        return on_grid.T @ on_grid


@dataclass(frozen=True, eq=False)
class Parts:
    """Public cuts of each class at a point and along axes: which part a row belongs to.

    means: Where each class is cut.
    axes: Across which directions; ``2**n_axes`` parts per class.
    """

    means: NDArray[np.float64] = field(repr=False)
    axes: NDArray[np.float64] = field(repr=False)

    @property
    def per_class(self) -> int:
        return 1 << int(self.axes.shape[2])

    def of(self, rows: Array, codes: Codes) -> Codes:
        """Return the part of each row, each row on its own."""
        along = np.einsum("ij,ijk->ik", rows - self.means[codes], self.axes[codes])
        places = (along > 0) @ (1 << np.arange(self.axes.shape[2]))
        return np.asarray(codes * self.per_class + places)


@dataclass(frozen=True)
class ClassMoments(Statistic):
    """``S_c = sum_{y=c} a aᵀ`` with ``a = [u; w]``, for all classes, or parts of them, jointly.

    ``|a|² <= 1 + w²``, so a row is worth at most that in one class. Replacing it takes at most as
    much from one class and gives at most as much to another (√2 times that together; a new label
    is included), or changes one class by at most √2 times that.

    n_classes: Classes.
    width: Numbers of a row u of the unit ball.
    constant: Weight w of the constant, at most 1 and a multiple of 2**-8: products with it are
        exact.
    parts: How classes are cut; by default each is one part.
    """

    n_classes: int
    width: int
    constant: float = 1.0
    parts: Parts | None = None
    is_symmetric: ClassVar[bool] = True

    @property
    def n_groups(self) -> int:
        return self.n_classes * (1 if self.parts is None else self.parts.per_class)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_groups, self.width + 1, self.width + 1)

    def add_up(self, rows: Array, codes: Codes) -> Array:
        on_grid = truncate_to_grid(rows, ROW_BITS)
        groups = codes if self.parts is None else self.parts.of(on_grid, codes)
        extended = np.column_stack([on_grid, np.full(len(on_grid), self.constant)])
        total = np.zeros(self.shape)
        for group in np.unique(groups):
            members = extended[groups == group]
            total[group] = members.T @ members
        return total

    def unweighted(self, sums: Array) -> Array:
        """Return ``sum [u; 1][u; 1]ᵀ`` of released sums.

        sums: What was released, in the shape of the statistic.
        """
        column = np.append(np.ones(self.width), self.constant)
        return np.asarray(sums / np.outer(column, column))

    def term_sensitivity(self, relation: Relation) -> float:
        return (1 + self.constant**2) * SecondMoment(self.width).term_sensitivity(relation)


# Counts -------------------------------------------------------------------------------------------


class Counts(Statistic):
    """Whole numbers, which are exact as doubles below 2⁵³, whatever rows hold."""

    in_ball = 0

    def _rounding(self, max_rows: int) -> float:  # noqa: ARG002 - whatever their number
        return 0.0


@dataclass(frozen=True)
class CountTables(Counts):
    """``sum e_{t, cell}``: for each table t, the counts of the cells of some columns by class.

    A row holds the number of its cell in each column. It adds 1 to one cell of each of T tables:
    √T in the Euclidean norm and T in the sum of magnitudes. Replacing it takes as much from
    other cells at most: √(2T) and 2T. Counts are whole numbers, so they are exact as doubles.

    sizes: Cells of each column.
    tables: Columns of each table; the class is the last axis of all of them.
    n_classes: Classes.
    """

    sizes: tuple[int, ...]
    tables: tuple[tuple[int, ...], ...]
    n_classes: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(map(math.prod, self.table_shapes)),)

    @property
    def table_shapes(self) -> list[tuple[int, ...]]:
        """Shape of each table: the cells of its columns, and the classes."""
        return [(*(self.sizes[column] for column in t), self.n_classes) for t in self.tables]

    def add_up(self, rows: Array, codes: Codes) -> NDArray[Any]:
        largest = max(map(math.prod, self.table_shapes), default=1)
        short = np.min_scalar_type(largest)  # few bytes are read faster
        inside = np.clip(np.nan_to_num(to_numpy(rows)), 0, np.array(self.sizes) - 1)
        cells = inside.astype(short, order="F").T
        classes = np.clip(codes, 0, self.n_classes - 1).astype(short)
        parts = []
        for table, shape in zip(self.tables, self.table_shapes, strict=True):
            place = np.zeros(len(classes), short)
            for column in table:
                place = place * short.type(self.sizes[column]) + cells[column]
            place = place * short.type(self.n_classes) + classes
            parts.append(np.bincount(place, minlength=math.prod(shape)))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def split(self, sums: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return released sums as tables.

        sums: What was released, in the shape of the statistic.
        """
        shapes = self.table_shapes
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        return [
            part.reshape(shape) for part, shape in zip(np.split(sums, ends), shapes, strict=True)
        ]

    @property
    def n_parts(self) -> int:  # type: ignore[override]
        return len(self.tables)

    def term_sensitivity(self, relation: Relation) -> float:
        return math.sqrt(self.n_parts * (2.0 if relation is Relation.REPLACE_ONE else 1.0))


# Places -----------------------------------------------------------------------------------------
# A number has a place in its public range, from 0 to 1. Places are counted in the cells of a public
# grid, and cuts are chosen between cells: equal values share a cell, so that ties need no rule.

UNIFORM = 2**12  # cells of equal width
OCTAVES, PER_OCTAVE = 24, 8  # finer ones towards both ends, where long tails have their numbers
_FINE = 2.0 ** -(np.arange(1, OCTAVES * PER_OCTAVE + 1) / PER_OCTAVE)
EDGES = np.unique(np.concatenate([np.arange(1, UNIFORM) / UNIFORM, _FINE, 1 - _FINE]))
# Edges up to the even ones, and whether there are finer ones up to the next.
_BELOW = np.searchsorted(EDGES, np.arange(UNIFORM + 1) / UNIFORM, side="right")
_IS_CUT = np.diff(_BELOW, append=_BELOW[-1]) != 1
FAN_OUT, LEVELS = 17, 3  # 17³ nodes for the cells of the grid


@dataclass(frozen=True)
class PlaceCounts(Counts):
    """For some columns, how many records have their place in each cell of the public grid.

    A record adds 1 to one cell of each column, or nothing where its place is missing. So adding or
    removing one moves the counts of a column by 1 in sum, replacing one by 2. Counts are whole
    numbers: no rounding as they become doubles.

    columns: Which columns of a row of places.
    """

    columns: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.columns), len(EDGES) + 1)

    def add_up(self, rows: Array, codes: Codes) -> Array:  # noqa: ARG002 - classes do not matter
        counts = np.zeros(self.shape)
        for i, column in enumerate(self.columns):
            places = rows[:, column]
            places = np.clip(places[~np.isnan(places)], 0.0, 1.0)
            even = (places * UNIFORM).astype(np.intp)  # a power of two: exact
            cells = _BELOW.take(even)
            cut = _IS_CUT.take(even)
            cells[cut] = np.searchsorted(EDGES, places[cut], side="right")
            counts[i] = np.bincount(cells, minlength=self.shape[1])
        return counts

    def term_sensitivity(self, relation: Relation) -> float:
        return math.sqrt(len(self.columns) * (2.0 if relation is Relation.REPLACE_ONE else 1.0))

    @property
    def n_parts(self) -> int:  # type: ignore[override]
        return len(self.columns)


@dataclass(frozen=True)
class PlaceTree(Counts):
    """For some columns, the counts of `PlaceCounts` and those of groups, and groups of groups.

    Sums of many cells with noise each have far more noise than few groups with noise each. A
    record adds 1 to one cell of each level of each column, or nothing where its place is missing:
    √(3k) for k columns (add or remove), √(6k) where one is replaced. Counts are whole numbers.

    columns: Which columns of a row of places.
    """

    columns: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.columns), FAN_OUT + FAN_OUT**2 + FAN_OUT**3)

    def add_up(self, rows: Array, codes: Codes) -> Array:
        counts = PlaceCounts(self.columns).add_up(rows, codes)
        cells = np.zeros((len(counts), FAN_OUT**3))
        cells[:, : counts.shape[1]] = counts
        groups = _runs(cells, FAN_OUT)
        return np.hstack([_runs(groups, FAN_OUT), groups, cells])

    def term_sensitivity(self, relation: Relation) -> float:
        return math.sqrt(LEVELS) * PlaceCounts(self.columns).term_sensitivity(relation)


def cuts_by_counts(nodes: NDArray[np.float64], n_levels: int) -> NDArray[np.float64]:
    """Cut columns into parts of about equal counts by released counts of a `PlaceTree`."""
    n_cells = len(EDGES) + 1
    top, groups, cells = np.split(nodes, [FAN_OUT, FAN_OUT + FAN_OUT**2], axis=1)
    tree = RunCounts(len(nodes), FAN_OUT**3, FAN_OUT, (1.0,) * LEVELS)
    below = np.cumsum(tree.agreed(np.hstack([cells, groups, top]))[:, :n_cells], axis=1)
    below = np.maximum(np.maximum.accumulate(below, axis=1), 0.0)
    shares = np.arange(1, 2**n_levels) / 2**n_levels
    cuts = np.full((len(nodes), len(shares)), np.nan)
    for column, (found, counts) in enumerate(zip(cuts, below, strict=True)):
        places = 1.0 + np.searchsorted(counts, shares * counts[-1])
        is_new = np.diff(places, prepend=0.0) > 0
        cuts[column] = np.where(is_new & (places < n_cells), places, found)
    return cuts


@dataclass(frozen=True)
class RunCounts(Counts):
    """For each group, counts of places, of runs of `fan` places, of runs of those, times weights.

    A row holds its place among those of all groups. It adds w_l to one number of each level l; the
    highest has at most `fan` runs. Replacing one moves twice as many numbers.

    weights: Of levels, the places first; at most 1, and multiples of 2⁻⁸, so that sums are exact.
    """

    n_groups: int
    n_places: int
    fan: int
    weights: tuple[float, ...]

    @property
    def sizes(self) -> list[int]:
        """Numbers of each level, the places first."""
        return [-(-self.n_places // self.fan**level) for level in range(len(self.weights))]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_groups, sum(self.sizes))

    def add_up(self, rows: Array, codes: Codes) -> Array:
        places = CountTables((self.n_groups * self.n_places,), ((0,),)).add_up(rows, 0 * codes)
        levels = [places.reshape(self.n_groups, -1)]
        for _ in self.weights[1:]:
            levels.append(_runs(levels[-1], self.fan))
        return np.hstack(levels) * np.repeat(self.weights, self.sizes)

    def sensitivity(self, relation: str | Relation, max_rows: int, norm: int | str = 2) -> float:  # noqa: ARG002 - exact
        """Largest distance of the sums of two neighbours, which are exact."""
        moved = self.weights * (2 if Relation(relation) is Relation.REPLACE_ONE else 1)  # [H1]
        return math.hypot(*moved) if norm == 2 else sum(moved)

    def agreed(self, noisy: NDArray[np.float64], total: float | None = None) -> Any:
        """Return counts of places that fit all numbers, and a known total, best (Hay 2010)."""
        parts = np.split(noisy / np.repeat(self.weights, self.sizes), np.cumsum(self.sizes), axis=1)
        levels = [(part, w**-2.0) for part, w in zip(parts[:-1], self.weights, strict=True)]
        levels += [] if total is None else [(np.full((1, 1), total), 0.0)]
        (counts, variance), steps = levels[0], []
        spread = np.full(self.n_places, variance)
        for level, variance in levels[1:]:  # from runs below and their own number, what runs are
            fan = self.fan if variance else len(spread)
            inner, wide = _runs(counts, fan), _runs(spread, fan)
            steps.append((counts, spread, inner, wide, fan))
            counts = inner + (level - inner) * wide / (wide + variance)
            spread = wide * variance / (wide + variance)
        for below, spread, inner, wide, fan in reversed(steps):
            moved = np.repeat((counts - inner) / wide, fan, axis=-1)
            counts = below + spread * moved[:, : len(spread)]
        return counts

    def variances(self, inside: NDArray[np.bool_], *, knows_total: bool) -> Any:
        """Return those of sums of agreed counts over sets of places, for noise of deviation 1."""
        weighed = np.pad(inside / self.weights[0], ((0, 0), (0, sum(self.sizes[1:]))))
        return (inside * self.agreed(weighed, 0.0 if knows_total else None)).sum(axis=1)


def _runs(numbers: NDArray[np.float64], fan: int) -> NDArray[np.float64]:
    """Add up runs of `fan` numbers side by side, the last of which may be shorter."""
    return np.add.reduceat(numbers, np.arange(0, numbers.shape[-1], fan), axis=-1)
