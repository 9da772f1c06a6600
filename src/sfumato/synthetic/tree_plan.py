"""From a budget to the releases of a label tree; everything here is public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.base import Mechanism, Repeated
from sfumato.mechanisms.exponential import ExponentialMechanism, QuantileMechanism
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.privacy.calibrate import gaussian_mu_beside
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.sums import CountTables, Records, Statistic
from sfumato.sums.counts import PlaceCounts, PlaceTree
from sfumato.synthetic.table_cells import MAX_FINE_VALUES, MAX_VALUES, ColumnCells

Array = NDArray[np.float64]

# Chosen once on training rows of public tables, and fixed since.
CUT_SHARE, TREE_SHARE = 0.05, 0.1  # of mu²: edges of cells, edges of the tree
COUNTED_TREE_SHARE = 0.2  # of mu²: counts of all pairs, where edges are chosen by them
MAX_COUNTED_CELLS = 4  # of a column, in these counts
# Of the Gaussian part: counts of each column, more of it below so many rows per noise of a count
# of a pair. Pairs of columns get the rest.
MARGIN_SHARE, NOISY_MARGIN_SHARE, NOISY_SIGNAL = 0.5, 0.8, 150.0
ROWS_OF_A_VALUE = 3.0  # per noise of its count, where each whole number has a cell
FINE_SIGNAL = 400.0  # rows per noise of a count of a pair, from which on
FINE_LEVELS = 2  # columns are halved so much more often by themselves than in pairs
ROWS_NOT_KNOWN = 10_000  # what a rule takes for a number of rows that is secret
LEVELS_BY_SIGNAL = ((5000.0, 5), (150.0, 4), (40.0, 3))  # rows by the noise of a count of a pair
MAX_COUNTS = 2**22  # counts of all candidate pairs together
MIN_SIGNAL = 15.0  # below which Gaussians of the classes are nearer to a table of numbers
# Columns with a second parent, as a share of those that may have one: by the rows per noise of a
# count of a pair.
SECONDS_BY_SIGNAL = ((10_000.0, 1.0), (400.0, 0.5))


def is_tree_worthwhile(
    n_rows: int, n_columns: int, n_numbers: int, *, epsilon: float, delta: float
) -> bool:
    """Return whether counts stand out from their noise, or columns are mostly categories."""
    if 2 * n_numbers < n_columns or not math.isfinite(epsilon) or n_columns < 2:
        return True
    noise = math.sqrt(2 * (n_columns - 1)) / (mu_from_budget(epsilon, delta) * math.sqrt(0.5))
    return n_rows >= MIN_SIGNAL * noise


def _rows_per_noise(n_rows: int | None, noise: float) -> float:
    return (n_rows or ROWS_NOT_KNOWN) / max(noise, 1e-12)


def default_levels(n_rows: int | None, noise: float) -> int:
    """Choose how often the range of a column is halved: 4 to 32 cells in pairs of columns."""
    signal = _rows_per_noise(n_rows, noise)
    return next((levels for least, levels in LEVELS_BY_SIGNAL if signal >= least), 2)


def default_seconds(n_rows: int | None, noise: float, n_columns: int) -> int:
    """Choose how many columns get a second parent: none where noise would eat what they give."""
    signal = _rows_per_noise(n_rows, noise)
    share = next((share for least, share in SECONDS_BY_SIGNAL if signal >= least), 0.0)
    return max(0, math.ceil(share * (n_columns - 2)))


def default_values(n_rows: int | None, noise: float) -> int:
    """Choose how many whole numbers of a range have a cell each: fewer where noise would win."""
    most = _rows_per_noise(n_rows, ROWS_OF_A_VALUE * noise)
    return int(min(max(most, MAX_VALUES), MAX_FINE_VALUES))


def default_margin_share(n_rows: int | None, noise: float) -> float:
    """Choose the share of counts of single columns: larger where pairs are mostly noise."""
    signal = _rows_per_noise(n_rows, noise)
    return MARGIN_SHARE if signal >= NOISY_SIGNAL else NOISY_MARGIN_SHARE


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
class TreePlan:
    """The releases of a label tree, in the order of the draws.

    `cuts` is None where all edges of cells are public, `choice` and `pairs` where there is one
    column, `more_pairs` where no column has a second parent. Where nobody has exact sums, `cuts`
    and `choice` put noise on counts by which columns are cut and pairs are chosen. `more_noise` is
    by how much several parties together have more of it.
    """

    columns: tuple[ColumnCells, ...]
    n_classes: int
    cuts: QuantileMechanism | GaussianMechanism | None
    margins: GaussianMechanism
    choice: ExponentialMechanism | GaussianMechanism | None
    pairs: GaussianMechanism | None
    n_seconds: int = 0
    more_pairs: GaussianMechanism | None = None
    levels: int = 0
    more_noise: float = 1.0
    n_parts: int = 0
    most_values: int = MAX_VALUES

    @classmethod
    def of(
        cls,
        records: Records,
        columns: tuple[ColumnCells, ...],
        n_classes: int,
        *,
        epsilon: float,
        delta: float,
    ) -> TreePlan:
        """Divide the budget."""
        n_columns = len(columns)
        n_edges = n_columns - 1
        finite = math.isfinite(epsilon)
        mu = mu_from_budget(epsilon, delta) if finite else math.inf
        # The mechanism of a table does not depend on how many cells it has.
        pairs = _tables(max(n_edges, 1))
        noise = records.sensitivity(pairs) / (mu * math.sqrt(0.5)) if n_edges and finite else 0.0
        unit = GaussianMechanism(1.0, 1.0)
        more_noise = math.sqrt(records.variance_of(unit) / unit.variance())
        alone = records.sensitivity(_tables(n_columns)) / (mu * math.sqrt(0.5)) if finite else 0.0
        most_values = default_values(records.public_rows, alone * more_noise)
        columns = tuple(column.with_values(most_values) for column in columns)
        n_cut = sum(column.is_cut for column in columns)
        levels = default_levels(records.public_rows, noise * more_noise)
        n_seconds = default_seconds(records.public_rows, noise * more_noise, n_columns)
        n_choices = n_edges + n_seconds
        signal = (records.public_rows or ROWS_NOT_KNOWN) / max(noise * more_noise, 1e-12)
        fine = levels + (FINE_LEVELS if signal >= FINE_SIGNAL else 0)
        asked = (n_cut, fine, n_edges, n_choices)
        choosing = _chosen_by_scores if records.has_exact_sums else _chosen_by_counts
        cuts, choice = choosing(records, asked, mu)
        beside = [] if cuts is None else [cuts.event()]
        if isinstance(choice, ExponentialMechanism):
            beside.append(Repeated(choice, n_choices).event())
        elif choice is not None:
            beside.append(choice.event())
        whole = math.inf
        if finite:
            whole = gaussian_mu_beside(
                tuple(beside), epsilon=epsilon, delta=delta, relation=records.relation
            )

        def gaussian(n_tables: int, share: float) -> GaussianMechanism:
            return _gaussian(records, _tables(n_tables), whole * math.sqrt(share))

        share = default_margin_share(records.public_rows, noise * more_noise) if n_edges else 1.0
        one_pair = (1 - share) / max(n_choices, 1)  # all pairs have the same noise
        return cls(
            columns,
            n_classes,
            cuts,
            gaussian(n_columns, share),
            choice,
            gaussian(n_edges, n_edges * one_pair) if n_edges else None,
            n_seconds,
            gaussian(n_seconds, n_seconds * one_pair) if n_seconds else None,
            fine,
            more_noise,
            2**levels,
            most_values,
        )

    def mechanisms(self) -> list[Mechanism]:
        """List those in use, as they are paid for."""
        choices: list[Mechanism | None] = [None, None]
        if isinstance(self.choice, GaussianMechanism):
            choices[0] = self.choice  # the same counts serve second parents
        elif self.choice is not None:
            choices = [
                Repeated(self.choice, count) if count else None
                for count in (len(self.columns) - 1, self.n_seconds)
            ]
        listed = (self.cuts, self.margins, choices[0], self.pairs, choices[1], self.more_pairs)
        return [each for each in listed if each is not None]

    def check_memory(self) -> None:
        """Refuse, before the charge, tables that cannot be drawn or held."""
        sizes = [column.max_cells(self.levels) for column in self.columns]
        self.margins.for_size(sum(sizes) * self.n_classes)
        if isinstance(self.choice, GaussianMechanism):
            few = counted_sizes(sizes)
            self.choice.for_size(sum(few) ** 2 * self.n_classes)
        if self.pairs is not None:
            sizes = [column.max_cells(self.levels, self.n_parts) for column in self.columns]
            largest = sorted(sizes)[-2:]
            self.pairs.for_size(len(sizes) * largest[0] * largest[1] * self.n_classes)

    @property
    def noise(self) -> tuple[float, float]:
        """Standard deviations of the noise of one count: of columns, of pairs."""
        found = [0.0 if m is None else math.sqrt(m.variance()) for m in (self.margins, self.pairs)]
        return found[0] * self.more_noise, found[1] * self.more_noise

    @property
    def candidates(self) -> tuple[tuple[int, int], ...]:
        """Pairs of columns."""
        return tuple(combinations(range(len(self.columns)), 2))


def counted_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the cells of each column with which pairs are compared by noisy counts: few."""
    return tuple(min(size, MAX_COUNTED_CELLS) for size in sizes)


def _chosen_by_scores(
    records: Records, asked: tuple[int, int, int, int], mu: float
) -> tuple[QuantileMechanism | None, ExponentialMechanism | None]:
    """Cuts and choices where a mechanism sees exact counts."""
    n_cut, levels, n_edges, n_choices = asked
    finite, cuts, choice = math.isfinite(mu), None, None
    if n_cut:
        each = 2 * mu * math.sqrt(CUT_SHARE / (n_cut * levels)) if finite else math.inf
        moved = records.sensitivity(PlaceCounts(tuple(range(n_cut))), "part")
        cuts = QuantileMechanism(moved, each, n_cut, levels)
    if n_edges:
        each = 2 * mu * math.sqrt(TREE_SHARE / n_choices) if finite else math.inf
        choice = ExponentialMechanism(records.sensitivity(_tables(n_edges), "part"), each)
    return cuts, choice


def _chosen_by_counts(
    records: Records, asked: tuple[int, int, int, int], mu: float
) -> tuple[GaussianMechanism | None, GaussianMechanism | None]:
    """Noise on all counts by which columns are cut and pairs are chosen afterwards."""
    n_cut, _, n_edges, _ = asked
    cuts = choice = None
    if n_cut:
        cuts = _gaussian(records, PlaceTree(tuple(range(n_cut))), mu * math.sqrt(CUT_SHARE))
    if n_edges:
        every = _tables((n_edges + 1) * n_edges // 2)
        choice = _gaussian(records, every, mu * math.sqrt(COUNTED_TREE_SHARE))
    return cuts, choice


def _tables(n_tables: int) -> CountTables:
    """Tables of counts; only their number matters here."""
    return CountTables((1,), ((0,),) * n_tables)


def _gaussian(records: Records, tables: Statistic, mu: float) -> GaussianMechanism:
    sensitivity = records.sensitivity(tables)
    if math.isinf(mu):
        return GaussianMechanism(sensitivity, 0.0)
    return GaussianMechanism.from_mu(sensitivity=sensitivity, mu=mu)
