"""Tables of counts along a tree of the columns: what is released of a table.

1. The edges of the cells of columns of numbers, where no public ones are given, and the counts of
   the cells of each column by class, with Gaussian noise.
2. A spanning tree of the columns: pairs whose counts by class are furthest from what step 1 says
   under independence, chosen by the exponential mechanism.
3. The counts of the cells of each pair of the tree by class, with Gaussian noise.
4. Where the budget allows, second parents: columns and neighbours of their parents whose counts are
   furthest from what step 3 says, chosen likewise; and the counts of these pairs.

What becomes of them without rows is `sfumato.synthetic.tree_masses`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array as AnyArray
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms.exponential import (
    ColumnPairsMechanism,
    SecondParentsMechanism,
    SpanningTreeMechanism,
)
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.sums import CountTables, Records
from sfumato.sums.counts import PlaceCounts, PlaceTree, cuts_by_counts
from sfumato.synthetic.table_cells import TableCells
from sfumato.synthetic.tree_masses import LabelTree, ReleasedTree
from sfumato.synthetic.tree_plan import TreePlan, coarse_sizes, counted_sizes

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

MAX_JOINT_CELLS = 2**18  # of a column and two parents by class


@dataclass(frozen=True)
class Coarse:
    """Cells joined to fewer, as a public map: neighbouring cells stay together."""

    sizes: tuple[int, ...]
    coarse: tuple[int, ...]

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return len(self.sizes)

    def __call__(self, rows: AnyArray) -> AnyArray:
        """Join cells."""
        return np.asarray(np.floor(rows * np.array(self.coarse) / np.array(self.sizes)))

    def table(self, column: int, table: Array) -> Array:
        """Join the cells of the first axis of a table, that of one column."""
        places = np.arange(self.sizes[column]) * self.coarse[column] // self.sizes[column]
        joined = np.zeros((self.coarse[column], *table.shape[1:]))
        np.add.at(joined, places, table)
        return joined


def release_tree(records: Records, plan: TreePlan, receipt: Receipt) -> ReleasedTree:
    """Draw the releases of a plan."""
    n_columns, n_classes = len(plan.columns), plan.n_classes
    cuts = np.empty((0, 1))
    if plan.cuts is not None:
        numeric = tuple(i for i, column in enumerate(plan.columns) if column.is_cut)
        if records.has_exact_sums:
            cuts = records.release(PlaceCounts(numeric), plan.cuts, receipt)  # [W1] edges
        else:  # noisy counts, which are cut by whoever sees them
            counts = records.release(PlaceTree(numeric), plan.cuts, receipt)
            cuts = cuts_by_counts(counts, plan.levels)
        cuts = np.nan_to_num(cuts)  # 0 where a part was not cut
    fine = TableCells.of(plan.columns, cuts)
    singles = CountTables(fine.sizes, tuple((i,) for i in range(n_columns)), n_classes)
    margins = records.mapped(fine).release(singles, plan.margins, receipt)  # [W2] counts of columns
    nothing, no_pairs = np.empty(0), np.empty((0, 2), dtype=np.intp)
    noise, n_rows = np.array(plan.noise), records.public_rows
    released = ReleasedTree(cuts, margins, nothing, no_pairs, noise, n_rows)
    released = replace(released, n_parts=plan.n_parts, most_values=plan.most_values)
    if plan.pairs is None:
        return released
    known = LabelTree(fine, n_classes, released)
    cells, counted = known.cells, records.mapped(known.cells)  # fine cells joined
    choices = _Choices(counted, plan, cells, receipt)
    tree = choices.release_tree(
        [known.n_rows * margin for margin in known.margins]
    )  # [W3] the tree
    pairs = _release_pairs(counted, cells, tree, plan, plan.pairs, receipt)  # [W4] its counts
    released = replace(released, tree=tree, pairs=pairs)
    if plan.more_pairs is None:
        return released
    seconds = choices.release_seconds(LabelTree(fine, n_classes, released))  # [W5] second parents
    more = _release_pairs(counted, cells, seconds, plan, plan.more_pairs, receipt)  # [W6] counts
    return replace(released, seconds=seconds, more_pairs=more)


def _release_pairs(
    counted: Records,
    cells: TableCells,
    pairs: Codes,
    plan: TreePlan,
    mechanism: GaussianMechanism,
    receipt: Receipt,
) -> Array:
    """Release the counts of pairs by class."""
    if not len(pairs):
        return np.empty(0)
    tables = CountTables(cells.sizes, tuple(map(tuple, pairs.tolist())), plan.n_classes)
    return counted.release(tables, mechanism, receipt)


@dataclass(frozen=True)
class _Choices:
    """Private choices among pairs of columns, in cells that are joined to fewer."""

    counted: Records
    plan: TreePlan
    cells: TableCells
    receipt: Receipt

    @property
    def coarse(self) -> Coarse:
        if isinstance(self.plan.choice, GaussianMechanism):
            return Coarse(self.cells.sizes, counted_sizes(self.cells.sizes))
        return Coarse(self.cells.sizes, coarse_sizes(self.cells.sizes, self.plan.n_classes))

    def release_tree(self, margins: list[Array]) -> Codes:
        """Choose the pairs that the counts of columns serve worst."""
        coarse, pairs = self.coarse, self.plan.candidates
        tables = [coarse.table(i, np.maximum(table, 0.0)) for i, table in enumerate(margins)]
        totals = [np.maximum(table.sum(axis=0), 1.0) for table in tables]
        references = [
            tables[i][:, None, :] * tables[j][None, :, :] / np.sqrt(totals[i] * totals[j])
            for i, j in pairs
        ]
        return self._release(SpanningTreeMechanism, len(margins) - 1, pairs, references)

    def release_seconds(self, tree: LabelTree) -> Codes:
        """Choose the pairs that the tree serves worst, of those that it can take in."""
        sizes, coarse = self.cells.sizes, self.coarse
        candidates = [
            (column, second, parent)
            for column, second, parent in tree.second_parents
            if sizes[column] * sizes[second] * sizes[parent] * tree.n_classes <= MAX_JOINT_CELLS
        ]
        if not candidates:
            return np.empty((0, 2), dtype=np.intp)
        references = []
        for column, second, parent in candidates:
            joint = coarse.table(column, tree.pair_of(column, parent))
            above = np.maximum(tree.margins[parent], 1e-300)
            other = coarse.table(second, tree.pair_of(second, parent)) / above
            references.append(tree.n_rows * np.einsum("apl,bpl->abl", joint, other))
        pairs = tuple((column, second) for column, second, _ in candidates)
        return self._release(SecondParentsMechanism, self.plan.n_seconds, pairs, references)

    def _release(
        self,
        kind: type[ColumnPairsMechanism],
        n_choices: int,
        pairs: tuple[tuple[int, int], ...],
        references: Sequence[Array],
    ) -> Codes:
        choice, sizes = self.plan.choice, self.cells.sizes
        assert choice is not None  # noqa: S101 - there are pairs
        if isinstance(choice, GaussianMechanism):
            return self._by_counts(kind, n_choices, pairs, references, choice)
        # What noise alone would add to the distance of a released table.
        one = math.sqrt(2 / math.pi) * self.plan.noise[1] * self.plan.n_classes
        mechanism = kind(
            choice.sensitivity,
            choice.epsilon,
            n_choices,
            pairs,
            tuple(references),
            tuple(one * sizes[i] * sizes[j] for i, j in pairs),
        )
        coarse = self.coarse
        statistic = CountTables(coarse.coarse, pairs, self.plan.n_classes)
        chosen = self.counted.mapped(coarse).release(statistic, mechanism, self.receipt)
        return chosen.astype(np.intp)

    def _by_counts(
        self,
        kind: type[ColumnPairsMechanism],
        n_choices: int,
        pairs: tuple[tuple[int, int], ...],
        references: Sequence[Array],
        noise: GaussianMechanism,
    ) -> Codes:
        """Choose the pairs whose released counts are furthest from what is expected of them.

        The distance is ``sum (count - expected)² / (expected + variance of the noise)``, less the
        number of cells, which it has by chance.
        """
        variance = self.counted.variance_of(noise)
        scores = []
        for (first, second), reference in zip(pairs, references, strict=True):
            smaller, larger = sorted((first, second))
            table = self._noisy_pairs[smaller, larger]
            counts = table if first < second else np.swapaxes(table, 0, 1)
            spread = np.maximum(reference, 0.0) + variance
            scores.append(float(((counts - reference) ** 2 / spread - 1).sum()))
        return kind.best(np.array(scores), n_choices, pairs)

    @cached_property
    def _noisy_pairs(self) -> dict[tuple[int, int], Array]:
        """Counts of all pairs of columns in few cells, by class: one release for all choices."""
        coarse, mechanism = self.coarse, self.plan.choice
        statistic = CountTables(coarse.coarse, self.plan.candidates, self.plan.n_classes)
        counts = self.counted.mapped(coarse).release(  # [W7] noisy counts instead of choices
            statistic, mechanism, self.receipt
        )
        return dict(zip(self.plan.candidates, statistic.split(counts), strict=True))
