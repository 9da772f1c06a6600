"""Masses of a table along a tree of its columns, from released counts alone, and rows from them.

Counts become masses (nowhere negative, one total); pairs are moved towards independence as far as
their noise asks for, and fitted to columns. A column with two parents follows the table of all
three whose pairs are the released ones and which says nothing beyond them. Rows are drawn from the
root down, so rounded that shares are met almost exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.models.smoothing import density_threshold, smooth
from sfumato.sums import CountTables
from sfumato.synthetic.table_cells import MAX_VALUES, TableCells

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

FITTING_ROUNDS = 60
SECOND_ROUNDS = 30  # of three tables at a time


@dataclass(frozen=True)
class ReleasedTree:
    """What was released of a table: edges of cells, counts of columns, pairs and their counts.

    cuts (n_cut, n_cuts): Released cuts, see `sfumato.sums.counts`.
    margins, pairs: Noisy counts of all columns, and of all pairs of the tree, one table after the
        other.
    tree (n_columns - 1, 2): The pairs.
    noise (2,): Standard deviations of the noise of one count of a column, and of a pair.
    n_rows: The number of rows where it is public.
    seconds (n_seconds, 2): Columns with a second parent, and that parent; a neighbour of the first
        one in the tree.
    more_pairs: Noisy counts of all pairs of `seconds`, one table after the other.
    n_parts: Cells to which fine columns are joined in pairs; 0 where they are not.
    most_values: Whole numbers of a range of at most so many have a cell each.
    """

    cuts: Array
    margins: Array
    pairs: Array
    tree: Codes
    noise: Array
    n_rows: int | None
    seconds: Codes = field(default_factory=lambda: np.empty((0, 2), dtype=np.intp))
    more_pairs: Array = field(default_factory=lambda: np.empty(0))
    n_parts: int = 0
    most_values: int = MAX_VALUES


class Node(NamedTuple):
    """A column in its place: its parent and the pair of both; -1 for the root, and for no second.

    `second` is the second parent, `more` the number of its pair.
    """

    column: int
    parent: int
    pair: int
    second: int = -1
    more: int = -1


@dataclass(frozen=True)
class LabelTree:
    """Masses along the tree, from released counts alone.

    fine: The cells of each column in which it is counted by itself.
    released: The counts.
    """

    fine: TableCells
    n_classes: int
    released: ReleasedTree

    @cached_property
    def noisy_margins(self) -> list[Array]:
        """Released counts of each column by class."""
        tables = tuple((i,) for i in range(self.fine.width))
        return CountTables(self.fine.sizes, tables, self.n_classes).split(self.released.margins)

    @cached_property
    def cells(self) -> TableCells:
        """The cells of each column in pairs: fine ones are joined by their released masses."""
        if not self.released.n_parts:
            return self.fine
        masses = [margin.sum(axis=1) for margin in self.fine_margins]
        return self.fine.joined(masses, self.released.n_parts)

    def _split(self, pairs: Codes, counts: Array) -> list[Array]:
        """Return counts of pairs by class as tables."""
        if not len(pairs):
            return []
        tables = tuple(map(tuple, pairs.tolist()))
        return CountTables(self.cells.sizes, tables, self.n_classes).split(counts)

    @cached_property
    def n_rows(self) -> int:
        """The public number of rows, or the released one; at least 1."""
        if self.released.n_rows:
            return self.released.n_rows
        weights = 1 / np.array([table.size for table in self.noisy_margins])
        totals = np.array([table.sum() for table in self.noisy_margins])
        return max(1, round(float(weights @ totals / weights.sum())))

    @cached_property
    def shares(self) -> Array:
        """Share of each class, an average over all columns."""
        weights = 1 / np.array([len(table) for table in self.noisy_margins])
        totals = np.array([table.sum(axis=0) for table in self.noisy_margins])
        return _masses(weights @ totals / weights.sum() / self.n_rows)

    @cached_property
    def fine_margins(self) -> list[Array]:
        """Masses of the fine cells of each column by class, with the shares of the classes."""
        return [self._margin(_masses(shares)) for shares in self._smoothed_shares]

    @property
    def _smoothed_shares(self) -> Iterator[Array]:
        """Released shares; whole numbers of a long range smoothed as far as the noise asks for."""
        variance = (float(self.released.noise[0]) / self.n_rows) ** 2
        for column, table in zip(self.fine.columns, self.noisy_margins, strict=True):
            shares = table / self.n_rows
            if column.is_fine and not column.is_cut and variance > 0:
                last = len(shares) - column.may_be_missing
                for c in range(self.n_classes):
                    shares[:last, c] = smooth(shares[:last, c], variance, self.n_rows).masses
            yield shares

    @cached_property
    def margins(self) -> list[Array]:
        """The same of the cells in pairs."""
        return [
            margin if len(margin) == size else np.add.reduceat(margin, self._starts(column), axis=0)
            for column, (margin, size) in enumerate(
                zip(self.fine_margins, self.cells.sizes, strict=True)
            )
        ]

    def _starts(self, column: int) -> Codes:
        """Return the first fine cell of each joined one; that of missing values is the last."""
        fine, joined = self.fine.edges[column], self.cells.edges[column]
        assert fine is not None and joined is not None  # noqa: S101, PT018 - categories stay
        starts = np.searchsorted(np.array(fine), joined[:-1])
        missing = [len(fine) - 1] * self.fine.columns[column].may_be_missing
        return np.concatenate([starts, missing]).astype(np.intp)

    def _margin(self, masses: Array) -> Array:
        per_class = masses.sum(axis=0)
        even = np.full(masses.shape, 1 / len(masses))
        scaled = np.where(per_class > 0, masses / np.where(per_class > 0, per_class, 1), even)
        return np.asarray(scaled * self.shares)

    @cached_property
    def pairs(self) -> list[Array]:
        """Masses of each pair of the tree by class, fitted to those of its columns."""
        return self._fitted_pairs(self.released.tree, self.released.pairs)

    @cached_property
    def more_pairs(self) -> list[Array]:
        """Masses of each column and its second parent by class, fitted likewise."""
        return self._fitted_pairs(self.released.seconds, self.released.more_pairs)

    def _fitted_pairs(self, pairs: Codes, counts: Array) -> list[Array]:
        found = []
        variance = (float(self.released.noise[1]) / self.n_rows) ** 2
        for table, (i, j) in zip(self._split(pairs, counts), pairs, strict=True):
            first, second = self.margins[i], self.margins[j]
            expected = first[:, None, :] * second[None, :, :] / np.maximum(self.shares, 1e-300)
            shrunk = _shrunk(table / self.n_rows, expected, variance)
            found.append(_fitted(_masses(shrunk), first, second))
        return found

    @cached_property
    def order(self) -> list[Node]:
        """Columns from the root down."""
        seconds = {c: (q, k) for k, (c, q) in enumerate(self.released.seconds.tolist())}
        found, known = [Node(0, -1, -1)], {0}
        left = list(enumerate(self.released.tree.tolist()))
        while left:
            for number, (i, j) in left:
                if (i in known) != (j in known):
                    child, parent = (j, i) if i in known else (i, j)
                    found.append(Node(child, parent, number, *seconds.get(child, (-1, -1))))
                    known.add(child)
                    left.remove((number, [i, j]))
                    break
            else:
                break  # not a tree: stored forms are checked before
        return found

    @cached_property
    def second_parents(self) -> list[tuple[int, int, int]]:
        """Candidates (column, second parent, parent): both parents are a pair of the tree."""
        parents = {node.column: node.parent for node in self.order}
        found: list[tuple[int, int, int]] = []
        children: dict[int, list[int]] = {}
        for column, parent, *_ in self.order[1:]:
            above = [parents[parent]] if parents[parent] >= 0 else []
            found += [(column, each, parent) for each in above + children.get(parent, [])]
            children.setdefault(parent, []).append(column)
        return found

    def pair_of(self, column: int, parent: int) -> Array:
        """Return the masses of two neighbours in the tree, the first asked for first, by class."""
        for (i, j), table in zip(self.released.tree.tolist(), self.pairs, strict=True):
            if (i, j) == (column, parent):
                return table
            if (j, i) == (column, parent):
                return np.moveaxis(table, 0, 1)
        raise KeyError((column, parent))

    @cached_property
    def _given_parents(self) -> list[Array]:
        """Masses of each column by its parents and class, in the order of the draws."""
        found = []
        for node in self.order:
            if node.parent < 0:
                found.append(_given_above(self.margins[node.column][:, None, :]))
                continue
            joint = self.pair_of(node.column, node.parent)
            if node.second >= 0:
                above = self.pair_of(node.parent, node.second)
                joint = _joined(joint, self.more_pairs[node.more], above)
            found.append(_given_above(joint))
        return found

    def draw(
        self,
        n_rows: int,
        generator: np.random.RandomState,
        given: Mapping[int, int] | None = None,
        given_class: int | None = None,
    ) -> tuple[Codes, Codes]:
        """Draw cells of all columns, and classes; conditions fix cells of columns or the class."""
        tables, weights = self._conditioned(given or {}, given_class)
        sizes = _whole_rows(weights, n_rows, generator)
        classes = np.repeat(np.arange(self.n_classes), sizes)
        cells = np.zeros((n_rows, self.cells.width), dtype=np.intp)
        for node, table in zip(self.order, tables, strict=True):
            groups = np.zeros(n_rows, dtype=np.intp)
            for above in (node.parent, node.second):
                if above >= 0:
                    groups = groups * self.cells.sizes[above] + cells[:, above]
            groups = groups * self.n_classes + classes
            cells[:, node.column] = _drawn(
                groups, table.reshape(len(table), -1), self.n_classes, generator
            )
        shuffled = generator.permutation(n_rows)
        return cells[shuffled], classes[shuffled]

    def redraw(
        self,
        cells: Codes,
        classes: Codes,
        column: int,
        rows: Codes,
        generator: np.random.RandomState,
        *,
        keep_last: bool = True,
    ) -> None:
        """Draw one column of some rows anew, in place, given all others of their row."""
        mine, here = cells[rows], classes[rows]
        chances = np.ones((len(rows), self.cells.sizes[column]))
        for node, table in zip(self.order, self._given_parents, strict=True):
            axes = [a for a in (node.column, node.parent, node.second) if a >= 0]
            if column in axes:
                above = [mine[:, a] for a in axes if a != column]
                above += [np.zeros(len(rows), dtype=np.intp)] * (node.parent < 0)
                chances *= np.moveaxis(table, axes.index(column), -1)[(*above, here)]
        if not keep_last:
            chances[:, -1] = 0.0
            chances[~(chances.sum(axis=1) > 0), :-1] = 1.0
        total = np.cumsum(chances, axis=1)
        marks = generator.uniform(size=(len(rows), 1)) * total[:, -1:]
        cells[rows, column] = np.minimum((total <= marks).sum(axis=1), total.shape[1] - 1)

    def _conditioned(
        self, given: Mapping[int, int], given_class: int | None
    ) -> tuple[list[Array], Array]:
        """Return masses of each column by (parents, class), after the conditions below are met.

        Messages go from the last column up: what a column can still give for the cells of its
        parents. Of two parents one is the parent of the other in the tree, so that the message
        belongs to the table of the lower one.
        """
        tables = {
            node.column: table.copy()
            for node, table in zip(self.order, self._given_parents, strict=True)
        }
        for column, cell in given.items():
            tables[column][np.arange(self.cells.sizes[column]) != cell] = 0.0
        nodes = {node.column: node for node in self.order}
        for node in reversed(self.order[1:]):
            message = tables[node.column].sum(axis=0)  # by parent, second parent, class
            lower = node.parent
            if node.second >= 0 and nodes[node.second].parent == node.parent:
                lower, message = node.second, np.moveaxis(message, 0, 1)
            table = tables[lower]
            if node.second < 0:
                message = message.reshape(len(message), *[1] * (table.ndim - 2), self.n_classes)
            elif table.ndim == 4:
                message = message[:, :, None, :]
            tables[lower] = table * message
        weights = self.shares * tables[self.order[0].column].sum(axis=0)[0]
        if given_class is not None:
            weights = np.where(np.arange(self.n_classes) == given_class, weights, 0.0)
        if not weights.sum() > 0:  # the noisy tables know no such row: keep the conditions anyway
            wanted = np.arange(self.n_classes) == given_class
            weights = wanted.astype(float) if given_class is not None else self.shares
            tables = {column: self._forced(t, column, given) for column, t in tables.items()}
        return [tables[node.column] for node in self.order], weights / weights.sum()

    def _forced(self, table: Array, column: int, given: Mapping[int, int]) -> Array:
        """Return a table in which a cell that is asked for has all mass."""
        if column not in given:
            return np.where(table.sum(axis=0) > 0, table, 1.0)
        forced = np.zeros(table.shape)
        forced[given[column]] = 1.0
        return forced


def _masses(shares: Array) -> Array:
    """Return the nearest masses that are nowhere negative and sum to one."""
    threshold, gain = density_threshold(shares, 1.0)
    return np.asarray(gain * np.maximum(shares - threshold, 0.0))


def _shrunk(shares: Array, expected: Array, variance: float) -> Array:
    """Move noisy shares towards what independent columns give, where that has less estimated risk.

    Of the difference, by class, ``1 - cells variance / |difference|²`` is kept (James and Stein).
    Few large cells are better served by the nearest masses alone, which take noise off the others.
    Both risks are estimated without bias from the released shares and the variance of their noise.
    """
    difference = shares - expected
    length = np.maximum(np.square(difference).sum(axis=(0, 1)), 1e-300)
    cells = difference[..., 0].size
    kept = np.maximum(0.0, 1 - cells * variance / length)
    moved = (1 - kept) ** 2 * length
    freedom = np.where(kept > 0, cells * (kept + 2 * variance / length), 0.0)
    masses = _masses(shares)
    alone = np.square(masses - shares).sum() + 2 * variance * (np.count_nonzero(masses) - 1)
    if (moved + 2 * variance * freedom).sum() >= alone:
        return shares
    return np.asarray(expected + kept * difference)


def _fitted(pair: Array, first: Array, second: Array) -> Array:
    """Scale a table in turn to the masses of its two columns, by class."""
    table = pair + 1e-12 * first[:, None, :] * second[None, :, :]  # so that no mass is lost
    for _ in range(FITTING_ROUNDS):
        for target, axis in ((first[:, None, :], 1), (second[None, :, :], 0)):
            sums = table.sum(axis=axis, keepdims=True)
            table = table * np.where(sums > 0, target / np.where(sums > 0, sums, 1), 0.0)
    return np.asarray(table)


def _joined(first: Array, second: Array, above: Array) -> Array:
    """Return masses of (column, parent, second parent, class) by those of its three pairs."""
    table = first[:, :, None, :] * second[:, None, :, :] * above[None]
    targets = ((first[:, :, None, :], 2), (second[:, None, :, :], 1), (above[None], 0))
    for _ in range(SECOND_ROUNDS):
        for target, axis in targets:
            sums = table.sum(axis=axis, keepdims=True)
            table *= target / np.where(sums > 0, sums, 1)
    return table


def _given_above(joint: Array) -> Array:
    """Masses of a column given its parents and class; even where there are none."""
    total = joint.sum(axis=0)
    safe = np.where(total > 0, total, 1)
    return np.where(total > 0, joint / safe, 1 / len(joint))


def _whole_rows(weights: Array, n_rows: int, generator: np.random.RandomState) -> Codes:
    """Divide rows by weights: whole parts first, what is left by systematic sampling."""
    expected = weights / weights.sum() * n_rows
    sizes = np.floor(expected).astype(np.intp)
    left = n_rows - int(sizes.sum())
    if left:
        rest = np.cumsum(expected - sizes)
        marks = (np.arange(left) + generator.uniform()) * rest[-1] / left
        places = np.minimum(np.searchsorted(rest, marks, side="right"), len(sizes) - 1)
        np.add.at(sizes, places, 1)
    return np.asarray(sizes)


def _drawn(
    groups: Codes, chances: Array, n_classes: int, generator: np.random.RandomState
) -> Codes:
    """Draw a cell for each row from the chances of its group, nearly at their exact shares.

    What rounding leaves in one group is made up for in the next ones of the same class, so that
    shares are met in each class as a whole too, however small its groups are.
    """
    drawn = np.zeros(len(groups), dtype=np.intp)
    order = np.argsort(groups, kind="stable")
    numbers, starts, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    owed = np.zeros((n_classes, len(chances)))
    for place in generator.permutation(len(numbers)):
        number, start, size = numbers[place], starts[place], int(sizes[place])
        share = chances[:, number] + 1e-300
        expected = share / share.sum() * size
        mine = owed[number % n_classes]
        wanted = np.maximum(expected + mine, 1e-12 * expected) * (expected > 1e-9)
        counts = _whole_rows(wanted, size, generator)
        mine += expected - counts
        values = np.repeat(np.arange(len(counts)), counts)
        drawn[order[start : start + size]] = generator.permutation(values)
    return drawn
