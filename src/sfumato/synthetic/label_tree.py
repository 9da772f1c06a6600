"""Tables of counts along a tree of the columns of a table, and rows drawn from them.

`release_tree`, which alone sees records:

1. The edges of the cells of columns of numbers, where no public ones are given, and the counts of
   the cells of each column by class, with Gaussian noise.
2. A spanning tree of the columns: pairs whose counts by class are furthest from what step 1 says
   under independence, chosen by the exponential mechanism.
3. The counts of the cells of each pair of the tree by class, with Gaussian noise.
4. Where the budget allows, second parents: columns and neighbours of their parents whose counts are
   furthest from what step 3 says, chosen likewise; and the counts of these pairs.

`LabelTree`, from released counts alone: counts become masses (nowhere negative, one total); pairs
are moved towards independence as far as their noise asks for, and fitted to columns. A column with
two parents follows the table of all three whose pairs are the released ones and which says nothing
beyond them. Rows are drawn from the root down, so rounded that shares are met almost exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array as AnyArray
from sfumato.mechanisms.exponential import (
    ColumnPairsMechanism,
    ExponentialMechanism,
    QuantileMechanism,
    SecondParentsMechanism,
    SpanningTreeMechanism,
)
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.models.budget import Budget
from sfumato.models.smoothing import density_threshold, smooth
from sfumato.privacy.composition import gaussian_mu_beside
from sfumato.privacy.events import Event, RepeatedEvent
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.sums.records import Records
from sfumato.sums.statistics import CountTables, PlaceCounts, PlaceTree, Statistic, cuts_by_counts
from sfumato.synthetic.cells import (
    MAX_FINE_VALUES,
    MAX_VALUES,
    CellPlaces,
    ColumnCells,
    Constraint,
    TableCells,
    repair,
)
from sfumato.tables.schema import TableBounds

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

# Chosen once on training rows of public tables, and fixed since.
CUT_SHARE, TREE_SHARE = 0.05, 0.1  # of mu²: edges of cells, edges of the tree
COUNTED_TREE_SHARE = 0.2  # of mu²: counts of all pairs, where edges are chosen by them
MAX_COUNTED_CELLS = 4  # of a column, in these counts
# Of the Gaussian part: counts of each column, more of it below so many rows per noise of a count
# of a pair. Pairs of columns get the rest.
MARGIN_SHARE, NOISY_MARGIN_SHARE, NOISY_SIGNAL = 0.5, 0.8, 150.0
ROWS_OF_A_VALUE = 3.0  # per noise of its count, where each whole number has a cell
FINE_SIGNAL = 400.0  # rows per noise of a count of a pair, from which on
FINE_LEVELS = 2  # columns are halved so much more often alone than in pairs
ROWS_NOT_KNOWN = 10_000  # what a rule takes for a number of rows that is secret
LEVELS_BY_SIGNAL = ((5000.0, 5), (150.0, 4), (40.0, 3))  # rows by the noise of a count of a pair
MAX_COUNTS = 2**22  # counts of all candidate pairs together
MIN_SIGNAL = 15.0  # below which Gaussians of the classes are nearer to a table of numbers
# Columns with a second parent, as a share of those that may have one: by the rows per noise of a
# count of a pair.
SECONDS_BY_SIGNAL = ((10_000.0, 1.0), (400.0, 0.5))
MAX_JOINT_CELLS = 2**18  # of a column and two parents by class
FITTING_ROUNDS = 60
SECOND_ROUNDS = 30  # of three tables at a time


# Release ----------------------------------------------------------------------------------------


def is_tree_worthwhile(
    n_rows: int, n_columns: int, n_numbers: int, *, epsilon: float, delta: float
) -> bool:
    """Return whether counts stand out from their noise, or columns are mostly categories."""
    if 2 * n_numbers < n_columns or not math.isfinite(epsilon) or n_columns < 2:
        return True
    noise = math.sqrt(2 * (n_columns - 1)) / (mu_from_budget(epsilon, delta) * math.sqrt(0.5))
    return n_rows >= MIN_SIGNAL * noise


class TreeRules(NamedTuple):
    """What public rules choose by the number of rows and the noise of counts.

    levels: How often ranges are halved in pairs of columns: 4 to 32 cells.
    fine_levels: And in the counts of a column alone.
    n_seconds: Columns with a second parent: none where noise would eat what they give.
    most_values: Whole numbers of a range of at most so many have a cell each.
    margin_share: Of the Gaussian part for counts of single columns.
    """

    levels: int
    fine_levels: int
    n_seconds: int
    most_values: int
    margin_share: float

    @classmethod
    def of(cls, n_rows: int | None, n_columns: int, alone: float, pair: float) -> TreeRules:
        """Choose by the noise of a count of a column alone, and of a pair."""
        rows = n_rows or ROWS_NOT_KNOWN
        signal = rows / max(pair, 1e-12)
        levels = next((levels for least, levels in LEVELS_BY_SIGNAL if signal >= least), 2)
        share = next((share for least, share in SECONDS_BY_SIGNAL if signal >= least), 0.0)
        values = rows / max(ROWS_OF_A_VALUE * alone, 1e-12)
        return cls(
            levels,
            levels + (FINE_LEVELS if signal >= FINE_SIGNAL else 0),
            max(0, math.ceil(share * (n_columns - 2))),
            int(min(max(values, MAX_VALUES), MAX_FINE_VALUES)),
            MARGIN_SHARE if signal >= NOISY_SIGNAL else NOISY_MARGIN_SHARE,
        )


def coarse_sizes(sizes: Sequence[int], n_classes: int) -> tuple[int, ...]:
    """Return the cells of each column with which pairs are compared: fewer for wide tables."""
    most = max(sizes)
    while most > 2:
        capped = np.minimum(sizes, most).astype(float)
        counts = (capped.sum() ** 2 - np.square(capped).sum()) / 2 * n_classes
        if counts <= MAX_COUNTS:
            break
        most -= 1
    return tuple(min(size, most) for size in sizes)


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


def release_tree(
    given: Records,
    budget: Budget,
    bounds: TableBounds,
    columns: tuple[ColumnCells, ...],
    n_classes: int,
) -> dict[str, Any]:
    """Divide the budget, charge it, and draw what `LabelTree` reads.

    Where nobody has exact sums, columns are cut and pairs are chosen by counts with noise.
    """
    records, n_columns, n_edges = given.mapped(CellPlaces(columns)), len(columns), len(columns) - 1
    epsilon, n_rows, exact = budget.epsilon, given.public_rows, given.has_exact_sums
    finite = math.isfinite(epsilon)
    mu = mu_from_budget(epsilon, budget.delta) if finite else math.inf
    unit = GaussianMechanism(1.0, 1.0)
    more_noise = math.sqrt(records.variance_of(unit) / unit.variance())  # of several parties

    def tables(n_tables: int) -> CountTables:  # only their number matters for a sensitivity
        return CountTables((1,), ((0,),) * n_tables)

    def gaussian(statistic: Statistic, mu: float) -> GaussianMechanism:
        sensitivity = records.sensitivity(statistic)
        if math.isinf(mu):
            return GaussianMechanism(sensitivity, 0.0)
        return GaussianMechanism.from_mu(sensitivity=sensitivity, mu=mu)

    def noise_of(n_tables: int) -> float:
        each = records.sensitivity(tables(n_tables)) / (mu * math.sqrt(0.5)) if finite else 0.0
        return each * more_noise

    # [W0] Shares of the budget, by public rules
    rules = TreeRules.of(
        n_rows, n_columns, noise_of(n_columns), noise_of(n_edges) if n_edges else 0.0
    )
    columns = tuple(column.with_values(rules.most_values) for column in columns)
    numeric = tuple(i for i, column in enumerate(columns) if column.is_cut)
    n_choices = n_edges + rules.n_seconds
    places: Statistic = PlaceCounts(numeric) if exact else PlaceTree(numeric)
    cuts: QuantileMechanism | GaussianMechanism | None = None
    choice: ExponentialMechanism | GaussianMechanism | None = None
    if numeric and exact:
        steps = len(numeric) * rules.fine_levels
        each = 2 * mu * math.sqrt(CUT_SHARE / steps) if finite else math.inf
        moved = records.sensitivity(places, "part")
        cuts = QuantileMechanism(moved, each, len(numeric), rules.fine_levels)
    elif numeric:
        cuts = gaussian(places, mu * math.sqrt(CUT_SHARE))
    if n_edges and exact:
        each = 2 * mu * math.sqrt(TREE_SHARE / n_choices) if finite else math.inf
        choice = ExponentialMechanism(records.sensitivity(tables(n_edges), "part"), each)
    elif n_edges:
        every = tables(n_columns * n_edges // 2)
        choice = gaussian(every, mu * math.sqrt(COUNTED_TREE_SHARE))
    choosing: list[Event | None] = [None, None]
    if isinstance(choice, ExponentialMechanism):
        choosing = [
            RepeatedEvent(choice.event(), count) if count else None
            for count in (n_edges, rules.n_seconds)
        ]
    elif choice is not None:
        choosing = [choice.event(), None]  # the same counts serve second parents
    left = math.inf
    if finite:
        beside = [] if cuts is None else [cuts.event()]
        if isinstance(choice, ExponentialMechanism):
            beside.append(RepeatedEvent(choice.event(), n_choices))
        elif choice is not None:
            beside.append(choice.event())
        left = gaussian_mu_beside(
            tuple(beside), epsilon=epsilon, delta=budget.delta, relation=records.relation
        )
    share = rules.margin_share if n_edges else 1.0
    one_pair = (1 - share) / max(n_choices, 1)  # all pairs have the same noise
    margins_noise = gaussian(tables(n_columns), left * math.sqrt(share))
    pairs_noise, more_pairs_noise = (
        gaussian(tables(n), left * math.sqrt(n * one_pair)) if n else None
        for n in (n_edges, rules.n_seconds)
    )
    # What cannot be drawn or held is refused before the charge.
    sizes = [column.max_cells(rules.fine_levels) for column in columns]
    margins_noise.for_size(sum(sizes) * n_classes)
    if isinstance(choice, GaussianMechanism):
        choice.for_size(sum(min(size, MAX_COUNTED_CELLS) for size in sizes) ** 2 * n_classes)
    n_parts = 2**rules.levels
    if pairs_noise is not None:
        largest = sorted(column.max_cells(rules.fine_levels, n_parts) for column in columns)[-2:]
        pairs_noise.for_size(len(sizes) * largest[0] * largest[1] * n_classes)
    paid = [None if m is None else m.event() for m in (cuts, margins_noise)]
    paid += [choosing[0], None if pairs_noise is None else pairs_noise.event()]
    paid += [choosing[1], None if more_pairs_noise is None else more_pairs_noise.event()]
    receipt = budget.charge(*(event for event in paid if event is not None))

    # Draws
    drawn_cuts = np.empty((0, 1))
    if cuts is not None:
        drawn_cuts = records.release(places, cuts, receipt)  # [W1] edges
        if not exact:
            drawn_cuts = cuts_by_counts(drawn_cuts, rules.fine_levels)
        drawn_cuts = np.nan_to_num(drawn_cuts)  # 0 where a part was not cut
    fine = TableCells.of(columns, drawn_cuts)
    singles = CountTables(fine.sizes, tuple((i,) for i in range(n_columns)), n_classes)
    noise = [
        0.0 if m is None else math.sqrt(m.variance()) * more_noise
        for m in (margins_noise, pairs_noise)
    ]
    none = np.empty((0, 2), dtype=np.intp)
    released: dict[str, Any] = {
        "cuts": drawn_cuts,
        "margins": records.mapped(fine).release(singles, margins_noise, receipt),  # [W2] columns
        "pairs": np.empty(0),
        "tree": none,
        "noise": np.array(noise),
        "n_rows": n_rows,
        "seconds": none,
        "more_pairs": np.empty(0),
        "n_parts": n_parts,
        "most_values": rules.most_values,
    }
    if choice is None:
        return released
    known = LabelTree(bounds, columns, n_classes, released)
    cells, counted = known.cells, records.mapped(known.cells)  # fine cells joined
    few = coarse_sizes(cells.sizes, n_classes)
    if not exact:
        few = tuple(min(size, MAX_COUNTED_CELLS) for size in cells.sizes)
    coarse = Coarse(cells.sizes, few)
    candidates = tuple(combinations(range(n_columns), 2))
    noisy: dict[tuple[int, int], Array] = {}
    if isinstance(choice, GaussianMechanism):
        all_pairs = CountTables(few, candidates, n_classes)
        counts = counted.mapped(coarse).release(all_pairs, choice, receipt)  # [W7] not choices
        noisy = dict(zip(candidates, all_pairs.split(counts), strict=True))

    def choose(
        kind: type[ColumnPairsMechanism],
        n_choices: int,
        pairs: tuple[tuple[int, int], ...],
        references: Sequence[Array],
    ) -> Codes:
        if isinstance(choice, ExponentialMechanism):
            # What noise alone would add to the distance of a released table
            one = math.sqrt(2 / math.pi) * noise[1] * n_classes
            penalties = tuple(one * cells.sizes[i] * cells.sizes[j] for i, j in pairs)
            chooser = kind(
                choice.sensitivity, choice.epsilon, n_choices, pairs, tuple(references), penalties
            )
            statistic = CountTables(few, pairs, n_classes)
            chosen: Array = counted.mapped(coarse).release(statistic, chooser, receipt)
            return chosen.astype(np.intp)
        # Pairs whose released counts are furthest from what is expected of them, by
        # ``sum (count - expected)² / (expected + variance of the noise)``, less its expectation
        variance, scores = records.variance_of(choice), []
        for (first, second), reference in zip(pairs, references, strict=True):
            table = noisy[min(first, second), max(first, second)]
            table = table if first < second else np.swapaxes(table, 0, 1)
            spread = np.maximum(reference, 0.0) + variance
            scores.append(float(((table - reference) ** 2 / spread - 1).sum()))
        return kind.best(np.array(scores), n_choices, pairs)

    def count(pairs: Codes, mechanism: GaussianMechanism | None) -> Array:
        if not len(pairs):
            return np.empty(0)
        statistic = CountTables(cells.sizes, tuple(map(tuple, pairs.tolist())), n_classes)
        return np.asarray(counted.release(statistic, mechanism, receipt))

    expected = [
        coarse.table(i, np.maximum(known.n_rows * table, 0.0))
        for i, table in enumerate(known.margins)
    ]
    totals = [np.maximum(table.sum(axis=0), 1.0) for table in expected]
    references = [
        expected[i][:, None, :] * expected[j][None, :, :] / np.sqrt(totals[i] * totals[j])
        for i, j in candidates
    ]
    released["tree"] = choose(SpanningTreeMechanism, n_edges, candidates, references)  # [W3]
    released["pairs"] = count(released["tree"], pairs_noise)  # [W4] counts of its pairs
    if not rules.n_seconds:
        return released
    tree = LabelTree(bounds, columns, n_classes, released)
    parents, references = [], []
    for column, second, parent in tree.second_parents:
        size = cells.sizes[column] * cells.sizes[second] * cells.sizes[parent] * n_classes
        if size <= MAX_JOINT_CELLS:
            joint = coarse.table(column, tree.pair_of(column, parent))
            above = np.maximum(tree.margins[parent], 1e-300)
            other = coarse.table(second, tree.pair_of(second, parent)) / above
            references.append(tree.n_rows * np.einsum("apl,bpl->abl", joint, other))
            parents.append((column, second))
    if parents:
        seconds = choose(SecondParentsMechanism, rules.n_seconds, tuple(parents), references)
        released["seconds"] = seconds  # [W5] second parents
        released["more_pairs"] = count(seconds, more_pairs_noise)  # [W6] counts
    return released


# From released counts alone ---------------------------------------------------------------------


class Node(NamedTuple):
    """A column in its place: its parent and the pair of both; -1 for the root, and for no second.

    `second` is the second parent, `more` the number of its pair.
    """

    column: int
    parent: int
    pair: int
    second: int = -1
    more: int = -1


class LabelTree:
    """Masses along the tree, from what `release_tree` returns.

    bounds: Public facts about the table.
    fine, cells: The cells of each column in which it is counted alone, and in pairs.
    n_rows: The public number of rows, or the released one; at least 1.
    shares: Share of each class, an average over all columns.
    fine_margins, margins: Masses of the cells of each column by class, alone and in pairs.
    """

    def __init__(
        self,
        bounds: TableBounds,
        columns: Sequence[ColumnCells],
        n_classes: int,
        released: Mapping[str, Any],
        constraints: Sequence[Constraint] = (),
    ) -> None:
        self.bounds, self.n_classes, self.released = bounds, n_classes, released
        self.constraints = constraints
        known = tuple(column.with_values(released["most_values"]) for column in columns)
        self.fine = fine = TableCells.of(known, released["cuts"])
        singles = CountTables(fine.sizes, tuple((i,) for i in range(fine.width)), n_classes)
        noisy = singles.split(released["margins"])
        self.n_rows: int = released["n_rows"] or 0
        if not self.n_rows:
            weights = 1 / np.array([table.size for table in noisy])
            totals = np.array([table.sum() for table in noisy])
            self.n_rows = max(1, round(float(weights @ totals / weights.sum())))
        weights = 1 / np.array([len(table) for table in noisy])
        totals = np.array([table.sum(axis=0) for table in noisy])
        self.shares = nearest_masses(weights @ totals / weights.sum() / self.n_rows)
        self.fine_margins = []
        variance = (float(released["noise"][0]) / self.n_rows) ** 2
        for column, table in zip(fine.columns, noisy, strict=True):
            found = table / self.n_rows
            if column.is_fine and not column.is_cut and variance > 0:
                # Whole numbers of a long range are smoothed as far as the noise asks for.
                last = len(found) - column.may_be_missing
                for c in range(n_classes):
                    found[:last, c] = smooth(found[:last, c], variance, self.n_rows).masses
            masses = nearest_masses(found)
            per_class = masses.sum(axis=0)
            even = np.full(masses.shape, 1 / len(masses))
            scaled = np.where(per_class > 0, masses / np.where(per_class > 0, per_class, 1), even)
            self.fine_margins.append(np.asarray(scaled * self.shares))
        self.cells = fine
        if released["n_parts"]:
            whole = [margin.sum(axis=1) for margin in self.fine_margins]
            self.cells = fine.joined(whole, released["n_parts"])
        self.margins = []
        for i, (margin, size) in enumerate(zip(self.fine_margins, self.cells.sizes, strict=True)):
            joined = margin
            if len(margin) != size:  # the first fine cell of each; that of missing is the last
                fine_edges = np.array(fine.edges[i])
                starts = np.searchsorted(fine_edges, np.array(self.cells.edges[i])[:-1])
                missing = [len(fine_edges) - 1] * fine.columns[i].may_be_missing
                at = np.concatenate([starts, missing]).astype(np.intp)
                joined = np.add.reduceat(margin, at, axis=0)
            self.margins.append(joined)

    @cached_property
    def pairs(self) -> list[Array]:
        """Masses of each pair of the tree by class, fitted to those of its columns."""
        return self._fitted(self.released["tree"], self.released["pairs"])

    @cached_property
    def more_pairs(self) -> list[Array]:
        """Masses of each column and its second parent by class, fitted likewise."""
        return self._fitted(self.released["seconds"], self.released["more_pairs"])

    def _fitted(self, pairs: Codes, counts: Array) -> list[Array]:
        if not len(pairs):
            return []
        listed = tuple(map(tuple, pairs.tolist()))
        tables = CountTables(self.cells.sizes, listed, self.n_classes).split(counts)
        variance, found = (float(self.released["noise"][1]) / self.n_rows) ** 2, []
        for table, (i, j) in zip(tables, listed, strict=True):
            first, second = self.margins[i][:, None, :], self.margins[j][None, :, :]
            expected = first * second / np.maximum(self.shares, 1e-300)
            masses = nearest_masses(shrink(table / self.n_rows, expected, variance))
            masses = masses + 1e-12 * first * second  # so that no mass is lost
            found.append(_fit(masses, ((first, 1), (second, 0)), FITTING_ROUNDS))
        return found

    @cached_property
    def order(self) -> list[Node]:
        """Columns from the root down."""
        seconds = {c: (q, k) for k, (c, q) in enumerate(self.released["seconds"].tolist())}
        found, known = [Node(0, -1, -1)], {0}
        left = list(enumerate(self.released["tree"].tolist()))
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
        for (i, j), table in zip(self.released["tree"].tolist(), self.pairs, strict=True):
            if (i, j) == (column, parent):
                return table
            if (j, i) == (column, parent):
                return np.moveaxis(table, 0, 1)
        raise KeyError((column, parent))

    @cached_property
    def _given_parents(self) -> list[Array]:
        """Masses of each column given its parents and class, in the order of the draws."""
        found = []
        for node in self.order:
            joint = self.margins[node.column][:, None, :]
            if node.parent >= 0:
                joint = self.pair_of(node.column, node.parent)
            if node.second >= 0:  # of three columns by those of their three pairs
                more = self.more_pairs[node.more][:, None, :, :]
                above = self.pair_of(node.parent, node.second)[None]
                joint = joint[:, :, None, :]
                targets = ((joint, 2), (more, 1), (above, 0))
                joint = _fit(joint * more * above, targets, SECOND_ROUNDS)
            total = joint.sum(axis=0)
            safe = np.where(total > 0, total, 1)  # even where there are none
            found.append(np.where(total > 0, joint / safe, 1 / len(joint)))
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
        sizes = share_out(weights, n_rows, generator)
        classes = np.repeat(np.arange(self.n_classes), sizes)
        cells = np.zeros((n_rows, self.cells.width), dtype=np.intp)
        for node, table in zip(self.order, tables, strict=True):
            groups = np.zeros(n_rows, dtype=np.intp)
            for above in (node.parent, node.second):
                if above >= 0:
                    groups = groups * self.cells.sizes[above] + cells[:, above]
            groups, chances = groups * self.n_classes + classes, table.reshape(len(table), -1)
            # Cells nearly at the exact shares of their group. What rounding leaves in one group is
            # made up for in the next ones of the same class, so that shares are met in each class
            # as a whole too, however small its groups are.
            order = np.argsort(groups, kind="stable")
            numbers, starts, counts = np.unique(
                groups[order], return_index=True, return_counts=True
            )
            owed = np.zeros((self.n_classes, len(chances)))
            for place in generator.permutation(len(numbers)):
                number, start, size = numbers[place], starts[place], int(counts[place])
                share = chances[:, number] + 1e-300
                expected = share / share.sum() * size
                mine = owed[number % self.n_classes]
                wanted = np.maximum(expected + mine, 1e-12 * expected) * (expected > 1e-9)
                drawn = share_out(wanted, size, generator)
                mine += expected - drawn
                values = np.repeat(np.arange(len(drawn)), drawn)
                cells[order[start : start + size], node.column] = generator.permutation(values)
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

    def values(
        self,
        numbers: Codes,
        generator: np.random.RandomState,
        wanted: Mapping[int, float] | None = None,
    ) -> Array:
        """Draw values inside cells, as `TableBounds.cells` returns them, and meet constraints.

        `wanted` has values that columns are to have.
        """
        asked, features = wanted or {}, self.bounds.features
        values, gaps = {}, []
        for i, feature in enumerate(features):
            masses = self.fine_margins[i].sum(axis=1)
            drawn, missing = self.cells.draw(i, numbers[:, i], masses, generator, self.fine)
            drawn = np.full(len(numbers), asked[i]) if i in asked else drawn
            # Constraints are in the units of the table.
            values[feature.name] = feature.unscaled(drawn) if feature.is_number else drawn
            gaps.append(missing)
        ranges = {f.name: (f.lower, f.upper) for f in features}
        found = repair(values, self.constraints, ranges)
        cells = [
            f.scaled(np.clip(found[f.name], f.lower, f.upper)) if f.is_number else found[f.name]
            for f in features
        ]
        return np.where(np.column_stack(gaps), np.nan, np.column_stack(cells))

    def _conditioned(
        self, given: Mapping[int, int], given_class: int | None
    ) -> tuple[list[Array], Array]:
        """Return masses of each column by (parents, class), after the conditions below are met.

        Messages go from the last column up: what a column can still give for the cells of its
        parents. Of two parents one is the parent of the other in the tree, so that the message
        belongs to the table of the lower one.
        """
        nodes = {node.column: node for node in self.order}
        tables = {
            column: table.copy() for column, table in zip(nodes, self._given_parents, strict=True)
        }
        for column, cell in given.items():
            tables[column][np.arange(self.cells.sizes[column]) != cell] = 0.0
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
            for column, table in tables.items():
                if column in given:
                    table[:] = 0.0
                    table[given[column]] = 1.0
                else:
                    table[:] = np.where(table.sum(axis=0) > 0, table, 1.0)
        return list(tables.values()), weights / weights.sum()


def nearest_masses(shares: Array) -> Array:
    """Return the nearest masses that are nowhere negative and sum to one."""
    threshold, gain = density_threshold(shares, 1.0)
    return np.asarray(gain * np.maximum(shares - threshold, 0.0))


def shrink(shares: Array, expected: Array, variance: float) -> Array:
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
    masses = nearest_masses(shares)
    alone = np.square(masses - shares).sum() + 2 * variance * (np.count_nonzero(masses) - 1)
    if (moved + 2 * variance * freedom).sum() >= alone:
        return shares
    return np.asarray(expected + kept * difference)


def _fit(table: Array, targets: Sequence[tuple[Array, int]], rounds: int) -> Array:
    """Scale a table in turn to the masses it must have without one of its axes."""
    for _ in range(rounds):
        for target, axis in targets:
            sums = table.sum(axis=axis, keepdims=True)
            table = table * (target / np.where(sums > 0, sums, 1))
    return table


def share_out(weights: Array, n_rows: int, generator: np.random.RandomState) -> Codes:
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
