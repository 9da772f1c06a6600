"""Counts: of combinations of cells by class, and of the places of numbers in their ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array, to_numpy
from sfumato.privacy.guarantee import Relation
from sfumato.sums.statistics import Codes, Statistic


@dataclass(frozen=True)
class CountTables(Statistic):
    """``sum e_{t, cell}``: for each table t, the counts of the cells of some columns by class.

    A row holds the number of its cell in each column. It adds 1 to one cell of each of T tables:
    √T in the Euclidean norm and T in the sum of magnitudes. Replacing it takes as much from
    other cells at most: √(2T) and 2T. Counts are whole numbers, so they are exact as doubles.

    Parameters
    ----------
    sizes : tuple of int
        Cells of each column.
    tables : tuple of tuple of int
        Columns of each table; the class is the last axis of all of them.
    n_classes : int, default=1
        Classes.
    """

    sizes: tuple[int, ...]
    tables: tuple[tuple[int, ...], ...]
    n_classes: int = 1
    in_ball = 0  # whatever a row holds, it is counted once in each table

    @property
    def shape(self) -> tuple[int, ...]:
        """All cells of all tables, one after the other."""
        return (sum(map(math.prod, self.table_shapes)),)

    @property
    def table_shapes(self) -> list[tuple[int, ...]]:
        """Shape of each table: the cells of its columns, and the classes."""
        return [(*(self.sizes[column] for column in t), self.n_classes) for t in self.tables]

    def add_up(self, rows: Array, codes: Codes) -> NDArray[np.float64]:
        """Count the records of each cell of each table."""
        inside = np.clip(np.nan_to_num(to_numpy(rows)), 0, np.array(self.sizes) - 1)
        cells = inside.astype(np.intp).T
        classes = np.clip(codes, 0, self.n_classes - 1)
        parts = []
        for table, shape in zip(self.tables, self.table_shapes, strict=True):
            place = np.zeros(len(classes), dtype=np.intp)
            for column in table:
                place = place * self.sizes[column] + cells[column]
            place = place * self.n_classes + classes
            parts.append(np.bincount(place, minlength=math.prod(shape)))
        return np.concatenate(parts).astype(np.float64)

    def split(self, sums: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return released sums as tables.

        Parameters
        ----------
        sums : ndarray
            What was released, in the shape of the statistic.

        Returns
        -------
        list of ndarray
            One array per table, its class the last axis.
        """
        shapes: Sequence[tuple[int, ...]] = self.table_shapes
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        return [
            part.reshape(shape) for part, shape in zip(np.split(sums, ends), shapes, strict=True)
        ]

    def term_sensitivity(self, relation: Relation) -> float:
        """√(2T) (replace) or √T (add or remove)."""
        return math.sqrt(self.term_total(relation))

    def term_total(self, relation: Relation) -> float:
        """2T (replace) or T (add or remove)."""
        return len(self.tables) * (2.0 if relation is Relation.REPLACE_ONE else 1.0)

    def sensitivity(self, relation: str | Relation, max_rows: int, norm: int | str = 2) -> float:
        """Return the distance of neighbours; one part is one table, which moves by 2 or 1.

        relation ({"replace_one", "add_or_remove_one"}): The neighbours.
        max_rows: The public number of records, or a public bound on it.
        norm ({1, 2, "part"}): The sum of magnitudes, the Euclidean norm, or the sum over one table.
        """
        if norm == "part":
            return self.term_total(Relation(relation)) / len(self.tables)
        return super().sensitivity(relation, max_rows, norm)

    def touched(self, n_rows: int, *, part: bool = False) -> int:
        """One cell of each table per record; one part is one table."""
        return n_rows * (1 if part else len(self.tables))

    def rounding(self, max_rows: int) -> float:  # noqa: ARG002 - whatever their number
        """Whole numbers below 2⁵³ are doubles."""
        return 0.0


# Places -----------------------------------------------------------------------------------------
# A number has a place in its public range, from 0 to 1. Places are counted in the cells of a public
# grid, and cuts are chosen between cells: equal values share a cell, so that ties need no rule.

UNIFORM = 2**12  # cells of equal width
OCTAVES, PER_OCTAVE = 24, 8  # finer ones towards both ends, where long tails have their numbers
_FINE = 2.0 ** -(np.arange(1, OCTAVES * PER_OCTAVE + 1) / PER_OCTAVE)
EDGES = np.unique(np.concatenate([np.arange(1, UNIFORM) / UNIFORM, _FINE, 1 - _FINE]))
FAN_OUT, LEVELS = 17, 3  # 17³ nodes for the cells of the grid


@dataclass(frozen=True)
class PlaceCounts(Statistic):
    """For some columns, how many records have their place in each cell of the public grid.

    A record adds 1 to one cell of each column, or nothing where its place is missing. So adding or
    removing one moves the counts of a column by 1 in sum, replacing one by 2. Counts are whole
    numbers: no rounding as they become doubles.

    columns: Which columns of a row of places.
    """

    columns: tuple[int, ...]
    in_ball = 0  # a place is counted, or missing

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.columns), len(EDGES) + 1)

    def add_up(self, rows: Array, codes: Codes) -> Array:  # noqa: ARG002 - classes do not matter
        counts = np.zeros(self.shape)
        for i, column in enumerate(self.columns):
            places = rows[:, column]
            cells = np.searchsorted(EDGES, places[~np.isnan(places)], side="right")
            counts[i] = np.bincount(cells, minlength=self.shape[1])
        return counts

    def term_sensitivity(self, relation: Relation) -> float:
        """√(2k) (replace) or √k (add or remove) for k columns."""
        return math.sqrt(len(self.columns) * (2.0 if relation is Relation.REPLACE_ONE else 1.0))

    def sensitivity(self, relation: str | Relation, max_rows: int, norm: int | str = 2) -> float:
        """Return the distance of neighbours; one part is one column, which moves by 2 or 1."""
        if norm == "part":
            return 2.0 if Relation(relation) is Relation.REPLACE_ONE else 1.0
        return super().sensitivity(relation, max_rows, norm)

    def touched(self, n_rows: int, *, part: bool = False) -> int:
        """One cell of each column per record; one part is one column."""
        return n_rows * (1 if part else len(self.columns))

    def rounding(self, max_rows: int) -> float:  # noqa: ARG002 - whatever their number
        """None: doubles hold whole numbers up to 2**53 exactly."""
        return 0.0


@dataclass(frozen=True)
class PlaceTree(Statistic):
    """For some columns, the counts of `PlaceCounts` and those of groups, and groups of groups.

    Sums of many cells with noise each have far more noise than few groups with noise each. A
    record adds 1 to one cell of each level of each column, or nothing where its place is missing:
    √(3k) for k columns (add or remove), √(6k) where one is replaced. Counts are whole numbers.

    columns: Which columns of a row of places.
    """

    columns: tuple[int, ...]
    in_ball = 0  # a place is counted, or missing

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.columns), FAN_OUT + FAN_OUT**2 + FAN_OUT**3)

    def add_up(self, rows: Array, codes: Codes) -> Array:
        counts = PlaceCounts(self.columns).add_up(rows, codes)
        cells = np.zeros((len(counts), FAN_OUT**3))
        cells[:, : counts.shape[1]] = counts
        groups = cells.reshape(len(cells), -1, FAN_OUT).sum(axis=2)
        return np.hstack([groups.reshape(len(cells), -1, FAN_OUT).sum(axis=2), groups, cells])

    def term_sensitivity(self, relation: Relation) -> float:
        """√(6k) (replace) or √(3k) (add or remove) for k columns."""
        return math.sqrt(LEVELS) * PlaceCounts(self.columns).term_sensitivity(relation)

    def rounding(self, max_rows: int) -> float:  # noqa: ARG002 - whatever their number
        """None: doubles hold whole numbers up to 2**53 exactly."""
        return 0.0


def cuts_by_counts(nodes: NDArray[np.float64], n_levels: int) -> NDArray[np.float64]:
    """Cut columns into parts of about equal counts by released counts of a `PlaceTree`."""
    n_cells = len(EDGES) + 1
    below = np.cumsum(agreeing_counts(nodes)[:, :n_cells], axis=1)
    below = np.maximum(np.maximum.accumulate(below, axis=1), 0.0)
    shares = np.arange(1, 2**n_levels) / 2**n_levels
    cuts = np.full((len(nodes), len(shares)), np.nan)
    for column, (found, counts) in enumerate(zip(cuts, below, strict=True)):
        places = 1.0 + np.searchsorted(counts, shares * counts[-1])
        is_new = np.diff(places, prepend=0.0) > 0
        cuts[column] = np.where(is_new & (places < n_cells), places, found)
    return cuts


def agreeing_counts(nodes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return counts of cells that fit those of their groups best, by least squares (Hay 2010)."""
    n_columns, fan = len(nodes), FAN_OUT
    top, groups, cells = np.split(nodes, [fan, fan + fan**2], axis=1)
    inner = cells.reshape(n_columns, -1, fan).sum(axis=2)
    groups = (fan**2 - fan) / (fan**2 - 1) * groups + (fan - 1) / (fan**2 - 1) * inner
    outer = groups.reshape(n_columns, -1, fan).sum(axis=2)
    top = (fan**3 - fan**2) / (fan**3 - 1) * top + (fan**2 - 1) / (fan**3 - 1) * outer
    groups = groups + np.repeat((top - outer) / fan, fan, axis=1)
    return np.asarray(cells + np.repeat((groups - inner) / fan, fan, axis=1))
