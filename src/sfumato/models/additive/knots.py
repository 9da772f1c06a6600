"""Knots: where the curve of a column may bend, at privately released quantiles or at public places.

The places of a column, from 0 to 1 in its public range, are counted in the cells of a public grid,
and `QuantileMechanism` cuts the cells into parts of about equal counts. A record is counted once
per column whatever the others hold, so ties need no rule: many equal values fill one cell, and the
cuts that an even division would put inside it fall beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array as AnyArray
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms.exponential import QuantileMechanism
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.models.additive.columns import PublicColumns
from sfumato.privacy.guarantee import Relation
from sfumato.sums.records import Records
from sfumato.sums.statistics import Codes, Statistic

Array = NDArray[np.float64]

UNIFORM = 2**12  # cells of equal width
OCTAVES, PER_OCTAVE = 24, 8  # finer ones towards both ends, where long tails have their numbers


def _edges() -> Array:
    even = np.arange(1, UNIFORM) / UNIFORM
    fine = 2.0 ** -(np.arange(1, OCTAVES * PER_OCTAVE + 1) / PER_OCTAVE)
    return np.unique(np.concatenate([even, fine, 1 - fine]))


EDGES = _edges()


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
        """One count per column and cell."""
        return (len(self.columns), len(EDGES) + 1)

    def add_up(self, rows: AnyArray, codes: Codes) -> AnyArray:  # noqa: ARG002 - classes do not matter
        """Count places."""
        counts = np.zeros(self.shape)
        for i, column in enumerate(self.columns):
            places = rows[:, column]
            cells = np.searchsorted(EDGES, places[~np.isnan(places)], side="right")
            counts[i] = np.bincount(cells, minlength=self.shape[1])
        return counts

    def term_sensitivity(self, relation: Relation) -> float:
        """√(2k) (replace) or √k (add or remove) for k columns."""
        return math.sqrt(len(self.columns) * self._in_a_column(relation))

    def sensitivity(self, relation: str | Relation, max_rows: int, norm: int | str = 2) -> float:
        """Return the distance of neighbours; one part is one column, which moves by 2 or 1."""
        if norm == "part":
            return self._in_a_column(Relation(relation))
        return super().sensitivity(relation, max_rows, norm)

    @staticmethod
    def _in_a_column(relation: Relation) -> float:
        return 2.0 if relation is Relation.REPLACE_ONE else 1.0

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
        """One count per column and node: groups of groups, then groups, then cells."""
        return (len(self.columns), FAN_OUT + FAN_OUT**2 + FAN_OUT**3)

    def add_up(self, rows: AnyArray, codes: Codes) -> AnyArray:
        """Count places, and add up groups."""
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


FAN_OUT, LEVELS = 17, 3  # 17³ nodes for the cells of the grid


def cuts_by_counts(nodes: Array, n_levels: int) -> Array:
    """Cut columns into parts of about equal counts by released counts of a `PlaceTree`."""
    n_cells = len(EDGES) + 1
    below = np.cumsum(_agreeing(nodes)[:, :n_cells], axis=1)
    below = np.maximum(np.maximum.accumulate(below, axis=1), 0.0)
    shares = np.arange(1, 2**n_levels) / 2**n_levels
    cuts = np.full((len(nodes), len(shares)), np.nan)
    for column, (found, counts) in enumerate(zip(cuts, below, strict=True)):
        places = 1.0 + np.searchsorted(counts, shares * counts[-1])
        is_new = np.diff(places, prepend=0.0) > 0
        cuts[column] = np.where(is_new & (places < n_cells), places, found)
    return cuts


def _agreeing(nodes: Array) -> Array:
    """Counts of cells that fit those of their groups best, by least squares (Hay et al. 2010)."""
    n_columns, fan = len(nodes), FAN_OUT
    top, groups, cells = np.split(nodes, [fan, fan + fan**2], axis=1)
    inner = cells.reshape(n_columns, -1, fan).sum(axis=2)
    groups = (fan**2 - fan) / (fan**2 - 1) * groups + (fan - 1) / (fan**2 - 1) * inner
    outer = groups.reshape(n_columns, -1, fan).sum(axis=2)
    top = (fan**3 - fan**2) / (fan**3 - 1) * top + (fan**2 - 1) / (fan**3 - 1) * outer
    groups = groups + np.repeat((top - outer) / fan, fan, axis=1)
    return np.asarray(cells + np.repeat((groups - inner) / fan, fan, axis=1))


def release_cuts(
    records: Records,
    columns: tuple[int, ...],
    mechanism: QuantileMechanism | GaussianMechanism,
    n_levels: int,
    receipt: Receipt,
) -> Array:
    """Cut columns into ``2**n_levels`` parts of about equal counts."""
    if isinstance(mechanism, QuantileMechanism):
        return records.release(PlaceCounts(columns), mechanism, receipt)  # [N4] the only release
    # [N5] where no one has exact counts: noisy ones, which are cut by whoever sees them
    return cuts_by_counts(records.release(PlaceTree(columns), mechanism, receipt), n_levels)


def release_knots(
    records: Records,
    columns: tuple[int, ...],
    mechanism: QuantileMechanism | GaussianMechanism,
    n_levels: int,
    receipt: Receipt,
) -> Array:
    """Release the knots of columns."""
    return knots_at(release_cuts(records, columns, mechanism, n_levels, receipt))


def knots_at(cuts: Array) -> Array:
    """Return the knots of released cuts; a part that was not cut is divided evenly."""
    known = ~np.isnan(cuts)
    places = np.full(cuts.shape, np.nan)
    places[known] = EDGES[cuts[known].astype(int) - 1]
    ends = np.zeros((len(cuts), 1)), np.ones((len(cuts), 1))
    knots = np.concatenate([ends[0], places, ends[1]], axis=1)
    for row in knots:
        missing = np.isnan(row)
        numbers = np.arange(len(row))
        row[missing] = np.interp(numbers[missing], numbers[~missing], row[~missing])
    return knots


def public_knots(columns: PublicColumns, n_levels: int) -> Array:
    """Return knots by the public ranges alone, which cost nothing.

    They are even in a column that may have negative numbers. Else they are squares of even places:
    most numbers of a long tail lie far below its public end.
    """
    even = np.linspace(0.0, 1.0, 2**n_levels + 1)
    rows = [even if columns.lower[i] < 0 else even**2 for i in columns.numeric]
    return np.array(rows).reshape(len(rows), len(even))
