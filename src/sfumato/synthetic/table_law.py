"""What is released of a table, and the law of its rows that follows from it.

`release_table`, which alone sees records:

1. Where columns of numbers are cut, by private quantiles; then the counts of the cells of each
   column, with Gaussian noise.
2. Counts of parts of each column by class, with Gaussian noise. The parts of a numeric target are
   its classes.
3. One second moment of the normal scores of all columns, with Gaussian noise: every pair at once.
4. The pairs that a Gaussian copula misses most, a spanning tree and half as many more, by the
   exponential mechanism, and their counts by class. Where rows are too few for that, steps 1 to 3
   are drawn again.

`TableLaw`, from released numbers alone: cells that do not stand out from the noise are joined; the
moment gives the correlations of a Gaussian copula; along the tree, columns take the cells of their
released pair in the order of their Gaussian. The class is drawn by an additive logistic model, and
rows are chosen by weights that meet all released pairs by class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp, ndtri

from sfumato.mechanisms.exponential import ExponentialMechanism, SpanningTreeMechanism
from sfumato.models.budget import Budget, Law, Release
from sfumato.models.smoothing import density_threshold
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.sums.records import Records
from sfumato.sums.statistics import CountTables, PlaceCounts, SecondMoment, Statistic
from sfumato.synthetic.cells import (
    LIKELY_SHAPE,
    MAX_CATEGORIES,
    MAX_FINE_VALUES,
    MAX_VALUES,
    STANDS_OUT,
    TARGET_SHAPE,
    CellLookup,
    CellPlaces,
    ColumnCells,
    TableCells,
    Tail,
    fitted_tail,
    weighed,
)
from sfumato.tables.schema import TableBounds

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

# Chosen once on training rows of public and made tables, and fixed since.
CUT_SHARE, TREE_SHARE = 0.07, 0.05  # of mu²: where columns are cut, which pairs
COLUMN_SHARE, CLASS_SHARE, MOMENT_SHARE = 0.21, 0.28, 0.15
ROWS_NOT_KNOWN = 10_000  # what a rule takes for a number of rows that is secret
ROWS_OF_A_CUT = 16.0  # by the epsilon of one cut: rows that a part needs
MAX_LEVELS, MIN_LEVELS = 7, 3
ROWS_OF_A_VALUE = 3.0  # per noise of its count, where each whole number has a cell
PAIR_DRAWS = 3  # of the counts of pairs; or one of each other release but the cuts
PAIR_SIGNAL = 400.0  # rows per noise of a count, from which on pairs are released
FEW_CELLS = 8  # of a column: none of them is joined
MIN_TARGET_CLASSES, MAX_TARGET_CLASSES, TARGET_GROUPS = 4, 16, 4  # of a numeric target; in pairs
MAX_SIDE, MIN_GROUP_CELLS = 16, 25  # cells of a column in pairs; of a pair in each class
MAX_SCORE, SPREAD = 2.5, 2.0  # of a normal score; of squared lengths about their expectation
HERMITE = 8
FEW_FACTORS, CLEAR = 2, 3.0  # of what a copula misses in a pair; noises that weights follow
WEAK = 4.0  # variances of noise that an entry of the moment must exceed
SURE = 0.03  # standard deviation of a correlation, below which it is kept as it is
# Variances of weights of the label model: by what stands out in the counts of their column, of
# labels and of a numeric target; at least; of pairs. MISSED: what drawn rows err by, as 1 / n.
WEIGHT_SIGNAL, WEIGHT_FLOOR, PAIR_WEIGHT, MISSED = (0.3, 2.5), 0.003, (0.5, 0.25), 3e-4
BY_DEGREE = (1.0, 0.5, 0.3, 0.2, 0.2)  # of weights that are polynomials of the classes
MIN_POOL, MAX_POOL, MAX_RAKED = 2000, 20_000, 60_000  # drawn rows to learn from; to choose among
FITTING_ROUNDS = 40
COPIES = 2  # of the counts of columns of many cells, where these are a third at most
PAIRS_OF_A_COLUMN = 1.5  # released pairs, by columns
POOL, RAKING_ROUNDS, MAX_FACTOR = 3, 12, 20.0  # drawn rows by wanted ones; of their weights


def _tables(n_tables: int, size: int = 1) -> CountTables:
    """Return as many tables: only their number matters for a sensitivity."""
    return CountTables((size,), ((0,),) * n_tables)


def n_halvings(n_columns: int, n_rows: int, mu: float, moved: float) -> int:
    """Return how often columns are halved: while parts hold more rows than a cut errs by."""
    for levels in range(MAX_LEVELS, MIN_LEVELS, -1):
        each = 2 * mu * math.sqrt(CUT_SHARE / (n_columns * levels)) / moved
        if n_rows / 2**levels >= ROWS_OF_A_CUT / each:
            return levels
    return MIN_LEVELS


def release_table(
    given: Records,
    budget: Budget,
    bounds: TableBounds,
    columns: tuple[ColumnCells, ...],
    n_classes: int,
    target: int | None,
) -> dict[str, Any]:
    """Divide the budget, charge it, and draw what `TableLaw` reads.

    `target` is the column of a numeric target; labels are the classes of the records.
    """
    records, exact = given.mapped(CellPlaces(columns)), given.has_exact_sums
    n_columns, n_known = len(columns), given.public_rows or ROWS_NOT_KNOWN
    finite = math.isfinite(budget.epsilon)
    mu = mu_from_budget(budget.epsilon, budget.delta) if finite else math.inf
    # [W0] Public rules
    copies = copies_of(columns)
    n_counted, copied = sum(copies), max(copies)
    one_noise = records.sensitivity(_tables(n_counted)) / (mu * math.sqrt(COLUMN_SHARE * copied))
    values = n_known / max(ROWS_OF_A_VALUE * one_noise, 1e-12)
    most_values = int(min(max(values, MAX_VALUES), MAX_FINE_VALUES))
    columns = tuple(column.with_values(most_values) for column in columns)
    numeric = tuple(i for i, column in enumerate(columns) if column.is_cut)
    features = [i for i in range(n_columns) if i != target]
    n_latent = n_columns + sum(columns[i].may_be_missing for i in features)
    levels, cuts = 0, None
    if numeric:
        moved = records.sensitivity(PlaceCounts(numeric), "part")
        levels = n_halvings(len(numeric), n_known, mu, moved)
        cuts = budget.quantiles(PlaceCounts(numeric), levels, CUT_SHARE)
    # What cannot be drawn or held is refused before the charge: sizes are public bounds.
    largest = max(column.max_cells(levels) for column in columns)
    most_classes = n_classes if target is None else MAX_TARGET_CLASSES + 1
    has_classes = most_classes > 1 and len(features) > 0
    is_joint = n_columns > 1
    n_pairs = max(1, round(PAIRS_OF_A_COLUMN * (len(features) - 1)))
    share = COLUMN_SHARE + (0 if has_classes else CLASS_SHARE)
    counts = budget.gaussian(
        _tables(n_counted, largest), share if is_joint or has_classes else None
    )
    side = max(MAX_SIDE, MAX_CATEGORIES) + 2
    classes = choice = moment = more = None
    if has_classes:
        by_class = _tables(len(features), side * most_classes)
        classes = budget.gaussian(by_class, CLASS_SHARE if is_joint else None)
    if is_joint:
        moment = budget.gaussian(SecondMoment(n_latent), MOMENT_SHARE)
        more = budget.gaussian(_tables(n_pairs, side**2 * most_classes), count=PAIR_DRAWS)
        if exact and len(features) > 2:
            law = Law(ExponentialMechanism, "part", per_mu=2.0)
            choice = Release(law, _tables(n_columns), TREE_SHARE, count=n_pairs)
            budget.releases.append(choice)
    receipt = budget.charge()  # [W1] charge all, then draw

    drawn = np.empty((0, 1))
    if cuts is not None:
        drawn = np.nan_to_num(budget.draw(cuts, records))  # [W2] 0 where a part was not cut
    released: dict[str, Any] = {
        "cuts": drawn,
        "n_rows": given.public_rows,
        "noise": np.array([budget.noise(counts), 0.0, 0.0, 0.0]),
        "classes": np.empty(0),
        "moment": np.zeros((0, 0)),
        "tree": np.empty((0, 2), dtype=np.intp),
        "pairs": np.empty(0),
        "most_values": most_values,
    }

    def known() -> TableLaw:
        return TableLaw(bounds, columns, n_classes, released, target)

    places = TableCells.of(columns, drawn)
    cells = records.mapped(places)
    alone = column_tables(places)
    released["columns"] = budget.draw(counts, cells, alone)  # [W3] columns alone
    pair_noise = 0.0 if more is None else budget.noise(more) / math.sqrt(PAIR_DRAWS)
    has_pairs = len(features) > 2 and known().n_rows >= PAIR_SIGNAL * pair_noise

    # [W5] Too few rows for pairs: their draws are of the columns, the classes and the moment.
    extra = None if has_pairs else more
    noise = released["noise"]

    def at_cost(statistic: Statistic, *declared: Release | None) -> tuple[list[Any], Array, float]:
        """Return laws of one draw of each at what is charged, weights by precision, and noise."""
        moved = records.sensitivity(statistic)
        laws = [replace(each.mechanism, sensitivity=moved) for each in declared if each]
        weights = 1 / np.array([max(records.variance_of(law), 1e-300) for law in laws])
        return laws, weights / weights.sum(), 1 / math.sqrt(weights.sum()) if finite else 0.0

    def draw(rows: Records, statistic: Statistic, laws: list[Any], weights: Array) -> Array:
        found = [rows.release(statistic, law, receipt) for law in laws]
        return np.asarray(np.average(found, axis=0, weights=weights))

    if extra is not None:
        laws, weights, noise[0] = at_cost(alone, counts, extra)
        again = draw(cells, alone, laws[1:], weights[1:])
        released["columns"] = weights[0] * released["columns"] + weights[1] * again
    if classes is not None:
        laws, weights, noise[1] = at_cost(by_class, classes, extra)
        law_now = known()
        mapped = cells.mapped(law_now.lookup(law_now.parts, np.arange(law_now.n_classes)))
        released["classes"] = draw(mapped, law_now.class_tables, laws, weights)  # [W4]
    if moment is None or more is None:
        return released
    law_now = known()
    unit, mapped = law_now.score_unit, cells.mapped(law_now.score_lookup)
    all_pairs = SecondMoment(n_latent)
    laws, weights, error = at_cost(all_pairs, moment, *[extra] * (1 if classes else 2))
    released["moment"] = unit * draw(mapped, all_pairs, laws, weights)  # [W6]
    noise[2] = unit * error / math.sqrt(2)  # off the diagonal
    if not has_pairs:
        return released
    noise[3] = pair_noise
    law_now = known()
    pairs = tuple(combinations(range(len(features)), 2))
    joined = cells.mapped(law_now.lookup(law_now.coarse, law_now.groups))
    if choice is not None:
        placed = law_now.copula_cells
        parts = [part[placed[:, k]] for k, part in enumerate(law_now.coarse)]
        rows = np.column_stack(
            [*parts, np.zeros((len(placed), n_columns - len(features)), dtype=np.intp)]
        )
        reference = CountTables(law_now.pair_tables(()).sizes, pairs)  # the class is not asked
        made = reference.add_up(rows, np.zeros(len(rows), dtype=np.intp))
        expected = [each * law_now.n_rows / len(rows) for each in reference.split(made)]
        one = math.sqrt(2 / math.pi) * pair_noise / 2
        penalties = tuple(one * table.size * law_now.n_groups for table in expected)
        paid = choice.mechanism.sensitivity, choice.mechanism.epsilon, choice.count
        chooser = SpanningTreeMechanism(*paid, pairs, tuple(expected), penalties)
        released["tree"] = joined.release(reference, chooser, receipt).astype(np.intp)  # [W7]
    else:
        strength = np.abs(law_now.correlations)
        scores = np.array([strength[i, j] for i, j in pairs])
        released["tree"] = SpanningTreeMechanism.best(scores, n_pairs, pairs)
    chosen = law_now.pair_tables(tuple(map(tuple, released["tree"].tolist())))
    each = [budget.draw(more, joined, chosen) for _ in range(PAIR_DRAWS)]
    released["pairs"] = np.mean(each, axis=0)  # [W8] pairs by class
    return released


def column_tables(cells: TableCells) -> CountTables:
    """Return the tables of step 1: each column alone."""
    copies = enumerate(copies_of(cells.columns))
    return CountTables(cells.sizes, tuple((i,) for i, n in copies for _ in range(n)))


def copies_of(columns: Sequence[ColumnCells]) -> list[int]:
    """Return how often columns are counted: those of many cells more often, where they are few."""
    is_few = 3 * sum(column.is_fine for column in columns) <= len(columns)
    return [COPIES if column.is_fine and is_few else 1 for column in columns]


# From released numbers alone ----------------------------------------------------------------------


class TableLaw:
    """The law of rows, from what `release_table` returns.

    bounds: Public facts about the table; `cells`: the cells that stand out, and their edges.
    n_rows: The public number of rows, or the released one; at least 1.
    shares: Share of each class.
    margins: Masses of the cells of each column.
    features: Columns other than a numeric target.
    parts: What the cells of each feature are joined to in its table by class.
    """

    def __init__(
        self,
        bounds: TableBounds,
        columns: Sequence[ColumnCells],
        n_classes: int,
        released: Mapping[str, Any],
        target: int | None = None,
    ) -> None:
        self.bounds, self.released = bounds, released
        self.target = target
        known = tuple(column.with_values(released["most_values"]) for column in columns)
        self.fine = fine = TableCells.of(known, released["cuts"])
        self.features = [i for i in range(fine.width) if i != target]
        noise, self.noise, _, self.pair_noise = released["noise"].tolist()
        split = column_tables(fine).split(released["columns"])
        copies = np.array(copies_of(fine.columns))
        ends = np.cumsum(copies)
        tables = [
            np.mean(split[e - k : e], axis=0)[:, 0] for k, e in zip(copies, ends, strict=True)
        ]
        self.tables, self.fine_noise = tables, noise / np.sqrt(copies)
        weights = np.array([1 / len(table) for table in tables])
        total = weights @ [table.sum() for table in tables] / weights.sum()
        self.n_rows = released["n_rows"] or max(1, round(float(total)))
        found = zip(*(self._join(i, table) for i, table in enumerate(tables)), strict=True)
        edges, self.joins, self.blur, self.tails, self.margins = map(list, found)
        self.cells = TableCells(fine.columns, tuple(edges))
        self.n_classes = n_classes
        self._learn_classes()

    def _join(self, i: int, table: Array) -> tuple[Any, ...]:
        """Join fine cells that do not stand out: edges, joins, variances, tails and masses."""
        column, fine, noise = self.fine.columns[i], self.fine.edges[i], self.fine_noise[i]
        join, last = np.arange(len(table)), len(table) - column.may_be_missing
        edges = fine
        if fine is not None and (last > FEW_CELLS or i == self.target) and noise > 0:
            starts = cells_that_stand_out(table[:last], noise)
            edges = (*(fine[k] for k in starts), fine[-1])
            join = np.searchsorted(starts, np.arange(len(table)), side="right") - 1
            join[last:] = len(starts)  # of missing
        counts = np.asarray(np.bincount(join, table), dtype=np.float64)
        blur = np.asarray(np.bincount(join) * noise**2, dtype=np.float64)
        tails: list[Tail] = [None, None]
        if fine is not None and edges is not None and len(edges) > 2:
            cuts, size = np.array(fine), len(edges) - 1
            kind = column.is_whole, TARGET_SHAPE if i == self.target else LIKELY_SHAPE
            for place, step in ((0, -1), (size - 1, 1)):
                here = np.flatnonzero(join[:last] == place)
                inner = cuts[here[0] : here[-1] + 2][::step], table[here][::step]
                near = counts[:size][::step], np.array(edges)[::step]
                tail = fitted_tail(*near, *inner, blur[:size][::step], noise, *kind)
                if tail is not None:  # the law and the count both tell the mass, if they are near
                    mass, tails[place > 0] = tail
                    counts[place], blur[place] = weighed(mass, counts[place], blur[place])
        return edges, join, blur, tails, nearest_masses(counts / self.n_rows)

    def _learn_classes(self) -> None:
        """Join cells to parts by class; shares of classes and margins by both releases."""
        released, target = self.released, self.target
        room = self.n_rows / (4 * max(self.noise, 1e-9))
        self.target_classes = np.zeros(0, dtype=np.intp)  # of the cells of a numeric target
        if target is not None and self.features:
            most = int(min(max(math.sqrt(room), MIN_TARGET_CLASSES), MAX_TARGET_CLASSES))
            self.target_classes = self._parts(target, most)
            self.n_classes = int(self.target_classes[-1]) + 1
        most = int(min(max(room / self.n_classes, 6), MAX_SIDE))
        self.parts = [self._parts(i, most) for i in self.features]
        self.shares = np.full(self.n_classes, 1 / self.n_classes)
        self.class_counts: list[Array] = []
        if not released["classes"].size:
            return
        found = self.class_tables.split(released["classes"])
        self.class_counts = [t if target is None else t[..., 0] for t in found]
        weights = np.array([1 / len(table) for table in self.class_counts])
        totals = np.array([table.sum(axis=0) for table in self.class_counts])
        self.shares = nearest_masses(weights @ totals / weights.sum() / self.n_rows)
        for i, part, table in zip(self.features, self.parts, self.class_counts, strict=True):
            # Both releases tell the mass of a part: a mean by precision
            margin, blur = self.margins[i], self.blur[i]
            one, other = np.bincount(part, blur), self.n_classes * self.noise**2
            away = table.sum(axis=1) / self.n_rows - np.bincount(part, margin)
            moved = away / np.maximum(one + other, 1e-300)
            self.margins[i] = nearest_masses(margin + moved[part] * blur)

    def _parts(self, column: int, most: int) -> Codes:
        """Join the cells of a column of numbers to that many parts; missing is one of its own."""
        about, margin = self.cells.columns[column], self.margins[column]
        last = len(margin) - about.may_be_missing
        found = np.arange(last) if about.n_categories else _parts(margin[:last], most)
        return np.append(found, [found[-1] + 1] * about.may_be_missing).astype(np.intp)

    def lookup(self, parts: Sequence[Codes], classes: Codes) -> CellLookup:
        """Return the map from fine cells to parts, and to the class of a numeric target."""
        places = list(self.features)
        tables = [part[self.joins[i]] for i, part in zip(self.features, parts, strict=True)]
        if self.target is not None:
            places.append(self.target)
            tables.append(classes[self.target_classes][self.joins[self.target]])
        return CellLookup(tuple(places), tuple(tuple(map(float, t)) for t in tables))

    def _tables(
        self, parts: Sequence[Codes], listed: Sequence[tuple[int, ...]], n_classes: int
    ) -> CountTables:
        """Return tables of parts of features by class; a numeric target is a column of its own."""
        sizes = tuple(int(part[-1]) + 1 for part in parts)
        if self.target is None:
            return CountTables(sizes, tuple(listed), n_classes)
        return CountTables((*sizes, n_classes), tuple((*t, len(sizes)) for t in listed))

    @property
    def class_tables(self) -> CountTables:
        """The tables of features by class."""
        return self._tables(self.parts, [(k,) for k in range(len(self.parts))], self.n_classes)

    # Normal scores --------------------------------------------------------------------------------

    @cached_property
    def orders(self) -> list[Codes]:
        """The cells of each column from low to high; nominal ones by their tie to the class."""
        found = []
        for i, (column, margin) in enumerate(zip(self.cells.columns, self.margins, strict=True)):
            last = len(margin) - column.may_be_missing
            if column.n_categories < 3 or not self.class_counts or i == self.target:
                found.append(np.arange(last))
                continue
            mass, counts = margin[:last] + 1e-9, self.class_counts[self.features.index(i)][:last]
            away = counts / self.n_rows - np.outer(margin[:last], self.shares)
            away = _low_rank(away, self.noise / self.n_rows)[1]
            away = away / np.sqrt(mass)[:, None] / np.sqrt(self.shares + 1e-9)
            first = np.linalg.svd(away, full_matrices=False)[0][:, 0]
            found.append(np.argsort(first / np.sqrt(mass), kind="stable"))
        return found

    @cached_property
    def latents(self) -> list[tuple[int, bool]]:
        """Gaussians of a row: one of each column's value, one of whether it is missing."""
        features = self.features
        missing = [(i, True) for i in features if self.cells.columns[i].may_be_missing]
        target = [] if self.target is None else [(self.target, False)]
        return [(i, False) for i in features] + target + missing

    @cached_property
    def _scores(self) -> tuple[list[Array], Array, Array]:
        """Return the score of each cell of each latent, its Hermite coefficients and variances."""
        scores, coefficients, variances = [], [], []
        for i, of_missing in self.latents:
            margin = self.margins[i]
            last = len(margin) - self.cells.columns[i].may_be_missing
            masses, order = margin[:last], self.orders[i]
            if of_missing:
                masses, order = np.array([masses.sum(), margin[last:].sum()]), np.arange(2)
            z, at, heights = _normal_scores(masses[order])
            polynomials, found = [np.ones_like(at), at], []
            for k in range(1, HERMITE + 1):
                term = float((z * -np.diff(polynomials[k - 1] * heights)).sum())
                found.append(term / math.sqrt(math.factorial(k)))
                polynomials.append(at * polynomials[k] - k * polynomials[k - 1])
            score = np.zeros(len(margin))  # a missing value says nothing
            if of_missing:
                score[:last], score[last:] = z
            else:
                score[order] = z
            scores.append(score)
            coefficients.append(found)
            variances.append(float(np.average(z * z, weights=masses[order] + 1e-12)))
        return scores, np.array(coefficients), np.array(variances)

    @property
    def score_unit(self) -> float:
        """Squared length to which rows of scores are shortened."""
        spread = 1 + SPREAD / math.sqrt(len(self.latents))
        return max(spread * float(self._scores[2].sum()), 1e-6)

    @cached_property
    def score_lookup(self) -> CellLookup:
        """The public map from fine cells to normal scores of bounded length."""
        scores, radius = self._scores[0], math.sqrt(self.score_unit)
        tables = [score[self.joins[i]] for (i, _), score in zip(self.latents, scores, strict=True)]
        return CellLookup(
            tuple(i for i, _ in self.latents), tuple(tuple(t.tolist()) for t in tables), radius
        )

    @cached_property
    def correlations(self) -> Array:
        """Correlations of the Gaussians, by the released moment of scores."""
        q = len(self.latents)
        if not self.released["moment"].size:
            return np.eye(q)
        _, coefficients, variances = self._scores
        n, noise = self.n_rows, float(self.released["noise"][2]) / self.n_rows
        moment = self.released["moment"] / n
        missing = np.array(
            [
                0.0 if of else self.margins[i][-1] * self.cells.columns[i].may_be_missing
                for i, of in self.latents
            ]
        )  # of values: the share that is missing
        missing = np.minimum(missing, 0.98)
        present = np.outer(1 - missing, 1 - missing)
        flags = [k for k, (_, of_missing) in enumerate(self.latents) if of_missing]
        spread = np.sqrt(np.maximum(variances, 1e-12))
        for a in flags:  # pairs of values are seen where both are there
            for b in flags:
                i, j = (self.features.index(self.latents[k][0]) for k in (a, b))
                tie = np.clip(moment[a, b] / (spread[a] * spread[b]), -1, 1) if a != b else 1.0
                p, r = missing[i], missing[j]
                both = (1 - p) * (1 - r) + tie * math.sqrt(p * (1 - p) * r * (1 - r))
                present[i, j] = max(min(both, 1 - max(p, r)), 0.02)
        ratio = np.sqrt(  # what the bound on lengths took away
            np.clip(
                (np.diag(moment) / np.diag(present) * variances + 2 * noise**2)
                / (variances**2 + 2 * noise**2 + 1e-300),
                0.4,
                1,
            )
        )
        error = noise / present
        moment = moment / present / np.outer(ratio, ratio)
        moment = moment * np.maximum(0.0, 1 - WEAK * error**2 / np.maximum(moment**2, 1e-300))
        terms = [np.outer(c, c) for c in coefficients.T]
        middle = np.zeros((q, q))  # the correlation with this moment of scores, by halving
        for step in range(1, 31):
            value = sum(term * middle ** (k + 1) for k, term in enumerate(terms))
            middle += 0.998 / 2**step * np.where(value < moment, 1, -1)
        np.fill_diagonal(middle, 1.0)
        middle = (middle + middle.T) / 2
        doubt = error / np.maximum(terms[0], 1e-6)
        return _nearest_correlations(middle, np.square(SURE / np.maximum(doubt, SURE)))

    # Pairs of the tree ----------------------------------------------------------------------------

    @cached_property
    def groups(self) -> Codes:
        """Classes as they are told apart in pairs: all, groups of a numeric target, or none."""
        classes = np.arange(self.n_classes)
        if self.target is not None:
            classes = classes * min(self.n_classes, TARGET_GROUPS) // self.n_classes
        room = self.n_rows / (3 * max(self.pair_noise, 1e-9))
        return classes if room >= MIN_GROUP_CELLS * (classes[-1] + 1) else np.zeros_like(classes)

    @property
    def n_groups(self) -> int:
        return int(self.groups[-1]) + 1

    @cached_property
    def coarse(self) -> list[Codes]:
        """The cell in pairs of each cell of each feature."""
        room = self.n_rows / (3 * max(self.pair_noise, 1e-9) * self.n_groups)
        return [self._parts(i, int(min(max(math.sqrt(room), 4), MAX_SIDE))) for i in self.features]

    def pair_tables(self, pairs: tuple[tuple[int, int], ...]) -> CountTables:
        """Return the tables of pairs of features by group of classes."""
        return self._tables(self.coarse, pairs, self.n_groups)

    @cached_property
    def pairs(self) -> list[Array]:
        """Released counts of each pair of the tree by group, (first, second, group)."""
        listed = tuple(map(tuple, self.released["tree"].tolist()))
        if not listed:
            return []
        tables = self.pair_tables(listed).split(self.released["pairs"])
        return [table if self.target is None else table[..., 0] for table in tables]

    def _mass(self, k: int) -> Array:
        """Masses of the cells in pairs of a feature."""
        masses = self.margins[self.features[k]] + 1e-12
        return np.asarray(np.bincount(self.coarse[k], masses), dtype=np.float64)

    @cached_property
    def copula_cells(self) -> Codes:
        """Rows drawn from the copula alone."""
        return self._placed(self.n_pool, np.random.RandomState(0), tree=())[0]

    @cached_property
    def pair_masses(self) -> list[Array]:
        """Masses of each pair of the tree: the copula's, moved to the released ones."""
        if not self.pairs:
            return []
        drawn = self.copula_cells
        noise, found = self.pair_noise * math.sqrt(self.n_groups), []
        tree = self.released["tree"][: len(self.features) - 1].tolist()
        for (i, j), table in zip(tree, self.pairs[: len(tree)], strict=True):
            first, second = self._mass(i)[:, None], self._mass(j)[None]
            at = self.coarse[i][drawn[:, i]] * len(second[0]) + self.coarse[j][drawn[:, j]]
            made = np.bincount(at, minlength=first.size * second.size) / len(drawn)
            made = made.reshape(len(first), -1) + 1e-4 * first * second
            made = _fit(made, first, second, 10)
            away = table.sum(axis=2) / self.n_rows - made
            rank, low = _low_rank(away, noise / self.n_rows)
            if rank > FEW_FACTORS:
                low = _shrunk(away, 2 * noise / self.n_rows)
            moved = np.maximum(made + low, 0.02 * made)
            found.append(_fit(moved, first, second, FITTING_ROUNDS))
        return found

    # Rows -----------------------------------------------------------------------------------------

    @cached_property
    def order(self) -> list[tuple[int, int, int]]:
        """Features from the root of the tree down: (feature, parent, pair), -1 for none."""
        found, known = [(0, -1, -1)], {0}
        left = list(enumerate(self.released["tree"][: len(self.features) - 1].tolist()))
        while left:
            step = next(((k, e) for k, e in left if (e[0] in known) != (e[1] in known)), None)
            if step is None:
                break
            k, (i, j) = step
            child, parent = (j, i) if i in known else (i, j)
            found.append((child, parent, k))
            known.add(child)
            left.remove((k, [i, j]))
        found += [(i, -1, -1) for i in range(len(self.features)) if i not in known]
        return found

    def _placed(
        self, n_rows: int, generator: np.random.RandomState, tree: Sequence[Array] | None = None
    ) -> tuple[Codes, Array]:
        """Draw cells of the features, and the Gaussians whose order they follow."""
        masses = self.pair_masses if tree is None else tree
        root = np.linalg.cholesky(self.correlations + 1e-9 * np.eye(len(self.latents)))
        gaussians = generator.normal(size=(n_rows, len(self.latents))) @ root.T
        cells = np.zeros((n_rows, len(self.features)), dtype=np.intp)
        flag = {i: k for k, (i, of_missing) in enumerate(self.latents) if of_missing}
        for k, parent, pair in self.order:
            i = self.features[k]
            margin, order = self.margins[i], self.orders[i]
            group, chances = np.zeros(n_rows, dtype=np.intp), margin[:, None]
            if masses and parent >= 0:
                group = self.coarse[parent][cells[:, parent]]
                first = self.released["tree"][pair, 0]
                joint = masses[pair].T if first == parent else masses[pair]  # (k, parent)
                inside = (margin + 1e-12) / self._mass(k)[self.coarse[k]]
                chances = joint[self.coarse[k]] * inside[:, None]
            # Cells nearly at the exact shares of their group; what rounding leaves in one group is
            # made up for in the next ones.
            by = np.lexsort((gaussians[:, k], group))
            numbers, starts, sizes = np.unique(group[by], return_index=True, return_counts=True)
            owed = np.zeros(len(margin))
            for at in generator.permutation(len(numbers)):
                share = chances[:, numbers[at]] + 1e-300
                expected = share / share.sum() * sizes[at]
                wanted = np.maximum(expected + owed, 1e-12 * expected) * (expected > 1e-9)
                drawn = share_out(wanted + 1e-300, int(sizes[at]), generator)
                owed += expected - drawn
                rows = by[starts[at] : starts[at] + sizes[at]]
                if i in flag and drawn[-1]:  # missing are those whose other Gaussian is largest
                    gone = np.argsort(-gaussians[rows, flag[i]], kind="stable")[: drawn[-1]]
                    cells[rows[gone], k] = len(margin) - 1
                    rows = np.delete(rows, gone)
                cells[rows, k] = np.repeat(order, drawn[order])
        return cells, gaussians

    @property
    def n_pool(self) -> int:
        """Rows that are drawn to learn from: as many as there are, within limits."""
        return int(min(max(self.n_rows, MIN_POOL), MAX_POOL))

    @cached_property
    def _pool(self) -> tuple[Codes, Array]:
        return self._placed(self.n_pool, np.random.RandomState(1))

    def _parts_of(self, cells: Codes) -> Codes:
        """Return what the label model reads: a part of each feature, and of each pair by class."""
        found = [part[cells[:, k]] for k, part in enumerate(self.parts)]
        if self.n_groups > 1:
            for i, j in self.released["tree"].tolist():
                width = int(self.coarse[j][-1]) + 1
                found.append(self.coarse[i][cells[:, i]] * width + self.coarse[j][cells[:, j]])
        starts = np.cumsum([0, *self._label_sizes])[:-1]
        return np.asarray(np.column_stack(found) + starts, dtype=np.intp)

    @property
    def _label_sizes(self) -> list[int]:
        sizes = [int(part[-1]) + 1 for part in self.parts]
        return sizes + [t[..., 0].size for t in self.pairs if self.n_groups > 1]

    @cached_property
    def _label_weights(self) -> Array:
        """Weights of the additive label model: its counts by class on drawn rows are the released.

        Weights are normal beforehand: as large as the counts of their column stand out from the
        noise, and alike in neighbouring cells. Those of a numeric target are polynomials of its
        classes.
        """
        parts, n_pool, n = self._parts_of(self._pool[0]), self.n_pool, self.n_rows
        sizes, shares = self._label_sizes, np.maximum(self.shares, 1e-6)
        ends = np.cumsum([0, *sizes])
        n_single, size = int(ends[len(self.features)]), int(ends[-1])
        rows = np.repeat(np.arange(n_pool), parts.shape[1])
        X = scipy.sparse.csr_matrix((np.ones(parts.size), (rows, parts.ravel())), (n_pool, size))
        turned, here = X.T.tocsr(), np.bincount(parts.ravel(), minlength=size) / n_pool
        mass = np.maximum(here, 1 / n)
        one, scale = np.eye(self.n_classes), np.ones(self.n_classes)
        if self.target is not None:
            scores = _normal_scores(shares)[0]
            powers = np.vander(scores, 1 + min(len(BY_DEGREE), len(scores) - 1), increasing=True)
            root = np.sqrt(shares)[:, None]
            one = (np.linalg.qr(root * powers)[0][:, 1:] / root).T
            scale = np.array(BY_DEGREE[: len(one)])
        split = np.eye(self.n_groups)[self.groups]
        grouped = shares @ split
        two = np.eye(self.n_groups) if self.target is None else one[:2] * shares @ split / grouped
        # Masses of cells are those of the drawn rows; only classes within cells are learned.
        single = np.vstack(self.class_counts) / n
        away = (single - np.outer(single.sum(axis=1), shares)) @ one.T
        single = away + np.outer(here[:n_single], shares @ one.T)
        pair = np.empty((0, len(two)))
        if size > n_single:
            pair = np.vstack([t.reshape(-1, self.n_groups) for t in self.pairs]) / n
            pair = (pair + np.outer(here[n_single:] - pair.sum(axis=1), grouped)) @ two.T
        spread = np.maximum(one**2 @ shares - (one @ shares) ** 2, 1e-6)
        error = (self.noise / n) ** 2 * (one**2).sum(axis=1)
        missed = 1 / n + (MISSED if self.target is None else 0.0)
        ridge = np.zeros((len(one), n_single, n_single))
        for k, (start, end) in enumerate(pairwise(ends[: len(self.features) + 1])):
            p, at = mass[start:end], slice(start, end)
            heard = 1 / (p + 5 * self.noise / n)
            signal = float(heard @ (away[at] ** 2 - error).sum(axis=1))
            signal = max(0.0, signal / float((spread @ spread) * (p * p @ heard)))
            kept = WEIGHT_SIGNAL[self.target is not None] * signal + WEIGHT_FLOOR
            precision = np.linalg.inv(self._likeness(k, p) * kept)
            factor = (error / spread)[:, None, None] / np.sqrt(np.outer(p, p)) + missed
            ridge[:, at, at] = factor * precision / scale[:, None, None] ** 2
        gram = (X[:, :n_single].T @ X[:, :n_single]).toarray() / n_pool
        back = np.linalg.inv(np.linalg.cholesky(gram * spread[:, None, None] + ridge))
        apart = np.maximum(two**2 @ grouped - (two @ grouped) ** 2, 1e-6)
        noise = self.pair_noise / n
        light = noise**2 * (two**2).sum(axis=1) / apart / mass[n_single:, None] + 1 / n
        light = light / (PAIR_WEIGHT[self.target is not None] * scale[: len(two)]) ** 2
        unit = 1 / np.sqrt(mass[n_single:, None] * apart + light)
        base, cut = np.log(shares), n_single * len(one)

        def weights(v: Array) -> tuple[Array, Array]:
            first = np.einsum("bji,bj->ib", back, v[:cut].reshape(len(one), -1))
            return first, v[cut:].reshape(-1, len(two)) * unit

        def loss(v: Array) -> tuple[float, Array]:
            u, w = weights(v)
            scores = X @ np.vstack([u @ one, w @ two @ split.T]) + base
            normal = logsumexp(scores, axis=1)
            made = turned @ np.exp(scores - normal[:, None]) / n_pool
            held = np.einsum("bij,jb->ib", ridge, u)
            value = float(normal.mean() - (single * u).sum() - (pair * w).sum())
            value += float((held * u).sum() + (light * w**2).sum()) / 2
            slope = np.einsum("bij,jb->bi", back, made[:n_single] @ one.T - single + held)
            more = (made[n_single:] @ split @ two.T - pair + light * w) * unit
            return value, np.concatenate([slope.ravel(), more.ravel()])

        start = np.zeros(cut + (size - n_single) * len(two))
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 40})
        u, w = weights(found.x)
        return np.vstack([u @ one, w @ two @ split.T, base[None]])

    def _likeness(self, k: int, masses: Array) -> Array:
        """Covariance of the weights of the parts of a feature: numbers nearby have like ones."""
        about = self.cells.columns[self.features[k]]
        last, found = len(masses) - about.may_be_missing, np.eye(len(masses))
        if about.n_categories > 2:
            return found
        z = _normal_scores(masses[:last])[0]
        near = np.exp(-np.square(z[:, None] - z) / 2)
        found[:last, :last] = 0.9 * np.outer(z, z) + 0.22 * near + 0.05 * np.eye(last)
        found[:last, :last] /= np.average(np.diag(found)[:last], weights=masses[:last])
        return found

    def draw(self, n_rows: int, generator: np.random.RandomState) -> tuple[Codes, Codes, Array]:
        """Draw the cells of all columns, classes, and the Gaussians behind them."""
        n_pool = max(n_rows, min(POOL * n_rows, MAX_RAKED)) if self.pairs else n_rows
        cells, gaussians = self._placed(n_pool, generator)
        chances = np.ones((n_pool, 1))
        if self.class_counts and self.n_classes > 1:
            weights = self._label_weights
            scores = weights[-1] + sum(weights[part] for part in self._parts_of(cells).T)
            chances = np.exp(scores - logsumexp(scores, axis=1)[:, None])
        # Evenly spread marks along rows of like chances: classes nearly at their exact shares
        rank = np.empty(n_pool)
        rank[np.argsort(chances @ np.arange(self.n_classes), kind="stable")] = np.arange(n_pool)
        marks = (rank * (math.sqrt(5) - 1) / 2 + generator.uniform()) % 1
        classes = (np.cumsum(chances, axis=1)[:, :-1] <= marks[:, None]).sum(axis=1)
        if self.pairs:
            kept = self._raked(cells, classes, n_rows, generator)
            cells, classes, gaussians = cells[kept], classes[kept], gaussians[kept]
            for k, i in enumerate(self.features):  # the rest moves to neighbouring cells
                order = self.orders[i]
                place = np.append(np.argsort(order), len(order))[cells[:, k]]
                by = np.lexsort((gaussians[:, k], place))[: int((place < len(order)).sum())]
                drawn = share_out(self.margins[i][order] + 1e-300, len(by), generator)
                cells[by, k] = np.repeat(order, drawn)
        found = np.zeros((n_rows, self.cells.width), dtype=np.intp)
        found[:, self.features] = cells
        if self.target is not None:  # inside its class in the order of its Gaussian
            for c in np.unique(classes):
                (rows,) = np.nonzero(classes == c)
                share = (self.margins[self.target] + 1e-12) * (self.target_classes == c)
                drawn = share_out(share, len(rows), generator)
                rows = rows[np.argsort(gaussians[rows, len(self.features)], kind="stable")]
                found[rows, self.target] = np.repeat(np.arange(len(drawn)), drawn)
        return found, classes, gaussians

    def _raked(
        self, cells: Codes, classes: Codes, n_rows: int, generator: np.random.RandomState
    ) -> Codes:
        """Choose drawn rows whose counts of pairs are the released ones, by weights."""
        n_pool, noise = len(cells), self.pair_noise / self.n_rows
        groups, wanted = self.groups[classes], []
        for (i, j), table in zip(self.released["tree"].tolist(), self.pairs, strict=True):
            rows, columns, _ = table.shape
            at = self.coarse[i][cells[:, i]] * columns + self.coarse[j][cells[:, j]]
            at = at * self.n_groups + groups
            made = np.bincount(at, minlength=table.size) / n_pool
            away = (table.ravel() / self.n_rows - made).reshape(rows, -1)
            rank, low = _low_rank(away, noise)
            if self.target is None:  # a few factors, and cells that stand out beside them
                low = low + _shrunk(away - low, CLEAR * noise)
            elif rank > 1:  # groups of a numeric target are small: one factor, or clear cells
                low = _shrunk(away, CLEAR * noise)
            wanted.append((at, np.maximum(made + low.ravel(), 0.02 * made)))
        for part, column in zip(self.parts, cells.T, strict=True):  # these stay
            at = part[column] * self.n_classes + classes
            wanted.append((at, np.bincount(at) / n_pool))
        weights = np.ones(n_pool)
        for _ in range(RAKING_ROUNDS):
            for at, masses in wanted:
                made = np.bincount(at, weights, minlength=len(masses)) / n_pool
                weights *= np.clip(masses / np.maximum(made, 1e-12), 0.2, 5)[at]
            weights = np.minimum(weights, MAX_FACTOR)
        total, order = np.cumsum(weights), generator.permutation(n_rows)
        marks = (np.arange(n_rows) + generator.uniform()) / n_rows * total[-1]
        chosen = np.minimum(np.searchsorted(total, marks, side="right"), n_pool - 1)
        return np.asarray(chosen[order])

    def redraw(
        self,
        cells: Codes,
        gaussians: Array,
        columns: Sequence[int],
        rows: Codes,
        generator: np.random.RandomState,
    ) -> None:
        """Draw some columns of some rows anew, in place, given all others of their row.

        A new Gaussian takes the cell that drawn rows have at its place among those of the same
        parent cell.
        """
        free = np.array([k for k, i in enumerate(self.features) if i in columns], dtype=np.intp)
        kept = np.setdiff1d(np.arange(gaussians.shape[1]), free)
        Q = self.correlations
        slope = np.linalg.solve(Q[np.ix_(kept, kept)] + 1e-6 * np.eye(len(kept)), Q[kept][:, free])
        left = Q[np.ix_(free, free)] - Q[np.ix_(free, kept)] @ slope
        values, vectors = np.linalg.eigh(left)
        noise = generator.normal(size=(len(rows), len(free)))
        noise = noise @ (vectors * np.sqrt(np.maximum(values, 0))).T
        gaussians[np.ix_(rows, free)] = gaussians[np.ix_(rows, kept)] @ slope + noise
        seen, drawn = self._pool
        for k, parent, _ in self.order:
            i = self.features[k]
            if k not in free:
                continue
            last = len(self.margins[i]) - self.cells.columns[i].may_be_missing
            there = seen[:, k] < last
            near = np.zeros(len(seen), dtype=np.intp)
            mine = np.zeros(len(rows), dtype=np.intp)
            if self.pair_masses and parent >= 0:
                near = self.coarse[parent][seen[:, parent]]
                mine = self.coarse[parent][cells[rows, self.features[parent]]]
            for group in np.unique(mine):
                like = there & (near == group) if (there & (near == group)).any() else there
                (here,) = np.nonzero(mine == group)
                if not like.any():
                    continue
                order = np.argsort(drawn[like, k])
                at = np.searchsorted(drawn[like, k][order], gaussians[rows[here], k])
                cells[rows[here], i] = seen[like, k][order][np.minimum(at, len(order) - 1)]

    def values(self, cells: Codes, gaussians: Array, generator: np.random.RandomState) -> Array:
        """Return values inside cells, in the order of the Gaussians; NaN for what is missing."""
        found = []
        for i in range(self.cells.width):
            order = gaussians[:, [j for j, _ in self.latents].index(i)]
            about = i, cells[:, i], self.margins[i], order, generator, self.tails[i]
            drawn, missing = self.cells.draw(*about)
            found.append(np.where(missing, np.nan, drawn))
        return np.column_stack(found)


def nearest_masses(shares: Array) -> Array:
    """Return the nearest masses that are nowhere negative and sum to one."""
    threshold, gain = density_threshold(shares, 1.0)
    return np.asarray(gain * np.maximum(shares - threshold, 0.0))


def _normal_scores(masses: Array) -> tuple[Array, Array, Array]:
    """Return the mean normal score of cells in order, and the score and density at their ends."""
    total = np.concatenate([[0.0], np.cumsum(masses + 1e-12)])
    total /= total[-1]
    at = ndtri(np.clip(total, 1e-9, 1 - 1e-9))
    inside = (total > 1e-9) & (total < 1 - 1e-9)
    heights = np.exp(-(at**2) / 2) / math.sqrt(2 * math.pi) * inside
    z = -np.diff(heights) / np.maximum(np.diff(total), 1e-9)
    return np.clip(z, -MAX_SCORE, MAX_SCORE), at, heights


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


def cells_that_stand_out(counts: Array, noise: float) -> list[int]:
    """Return where cells begin once those that do not stand out from the noise are joined.

    A count that stands out stays alone; others join their neighbours until they do together.
    """
    parts: list[tuple[int, float, int]] = []  # start, count, cells
    least = STANDS_OUT * noise
    for i, count in enumerate(counts.tolist()):
        if count < least and parts and parts[-1][1] < least * math.sqrt(parts[-1][2]):
            start, total, size = parts.pop()
            parts.append((start, total + count, size + 1))
        else:
            parts.append((i, count, 1))
    return [start for start, *_ in parts]


def _parts(masses: Array, n_parts: int) -> Codes:
    """Join cells to parts of like mass, many are finer at the ends; a heavy cell stays alone."""
    shares = np.maximum(masses, 0.0) + 1e-12
    shares /= shares.sum()
    is_heavy = shares > 1 / n_parts
    light = np.where(is_heavy, 0.0, shares)
    rest = max(float(light.sum()), 1e-12)
    most = max(1, round(math.sqrt(rest) * n_parts))
    place = np.clip((np.cumsum(light) - light / 2) / rest, 0, 1)
    bent = n_parts / (2 * MAX_SIDE)  # few parts are needed in the middle
    place = (1 - bent) * place + bent * 2 / math.pi * np.arcsin(np.sqrt(place))
    quantile = np.minimum((place * most).astype(int), most - 1)
    is_new = (np.diff(quantile) != 0) | is_heavy[1:] | is_heavy[:-1]
    return np.cumsum(np.concatenate([[False], is_new]))


def _low_rank(noisy: Array, noise: float) -> tuple[int, Array]:
    """Shrink the singular values of a matrix seen with noise (Gavish and Donoho 2017); its rank."""
    if noise <= 0:
        return 0, noisy
    left, values, right = np.linalg.svd(noisy, full_matrices=False)
    unit, ratio = noise * math.sqrt(max(noisy.shape)), min(noisy.shape) / max(noisy.shape)
    y = np.maximum(values / unit, 1e-9)
    kept = np.sqrt(np.maximum((y * y - ratio - 1) ** 2 - 4 * ratio, 0)) / y
    is_kept = y > 1 + math.sqrt(ratio)
    return int(is_kept.sum()), (left * (unit * np.where(is_kept, kept, 0))) @ right


def _shrunk(noisy: Array, least: float) -> Array:
    """Shrink number by number, what is below `least` to zero (Breiman 1995)."""
    return np.asarray(noisy * np.maximum(0, 1 - np.square(least / (noisy + 1e-300))))


def _nearest_correlations(noisy: Array, weights: Array) -> Array:
    """Return the nearest correlations by weighted squares, with Nesterov's steps."""
    point, last, step = noisy, noisy, 1.0
    for _ in range(60):
        values, vectors = np.linalg.eigh(point + weights * (noisy - point))
        found = (vectors * np.maximum(values, 1e-3)) @ vectors.T
        after = (1 + math.sqrt(1 + 4 * step**2)) / 2
        point, last, step = found + (step - 1) / after * (found - last), found, after
    length = np.sqrt(np.diag(last))
    return np.asarray(last / np.outer(length, length))


def _fit(table: Array, rows: Array, columns: Array, rounds: int) -> Array:
    """Scale a table in turn to masses of its rows and columns."""
    for _ in range(rounds):
        table = table * (rows / np.maximum(table.sum(axis=1, keepdims=True), 1e-300))
        table = table * (columns / np.maximum(table.sum(axis=0, keepdims=True), 1e-300))
    return table
