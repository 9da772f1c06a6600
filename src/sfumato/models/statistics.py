"""Everyday statistics: counts, sums, means, variances, quantiles, histograms, correlations.

Each is a noisy sum over records, or a choice by one, for all groups of a question together, with
error bars that hold for the rows as they are. Read `GroupedRows` (how a record is seen),
`GroupSums` (what is added up), `_begin`, then a statistic. Proofs: docs/guarantees/statistics.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri

from sfumato.core.arrays import to_numpy
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.mechanisms.laplace import DiscreteLaplaceMechanism
from sfumato.models.base import PrivateEstimator
from sfumato.models.budget import Budget, Release
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Guarantee, Relation, Unit
from sfumato.sums.grid import QUANTUM, ROW_BITS, truncate_to_grid
from sfumato.sums.records import Records
from sfumato.sums.statistics import Codes, CountTables, RunCounts, Statistic
from sfumato.tables.bounds import PUBLIC_LABELS
from sfumato.tables.columns import PARTS, arrow, arrow_kind
from sfumato.tables.files import write_table
from sfumato.tables.schema import Column, Feature, TableBounds, bounds_from

Array = NDArray[np.float64]

MAX_GROUPS = 10**6
MAX_CELLS, MAX_PLACES = 300_000, 2**21  # of a quantile's grid, and of those of all groups
MAX_VALUES = 100  # up to which whole numbers are groups of their own
DEFAULT_BINS = 10
END_SHARE = 0.3  # of epsilon, for the error bars of quantiles, ...
TIED = 0.4  # of the misses that are allowed: where numbers are tied there are more
WIDER = 1.5  # ... each of which may be this many times as long as the one before
NEVER = -1e6  # logarithm of the weight of what is not wanted
ROUNDED_DOWN = 1 - 1e-12  # shares of epsilon that add up to no more than the whole
MEAN_SHARE = 0.15  # of epsilon, for the mean around which squares are taken
# Of trees of counts: bins of a run, what a weight is of the one below, and ranges to choose by.
FANS, FALLS, PROBES = (2, 3, 4, 6, 8, 11, 16, 24, 32, 48), (1.0, 0.8, 0.6), 24
MAX_PLACES_OF_RANGES = 2**12
FIRST_DAY = date(1970, 1, 1).toordinal()
NOT_THERE = 5.0  # scales of noise: so few missing cells are none where none are declared


@dataclass(frozen=True)
class ReleasedStatistic:
    """A released table of figures with their error bars, and what is promised about it.

    Parameters
    ----------
    statistic : str
        What it is: "counts", "mean" and so on.
    table : pyarrow.Table
        A row for each group: its values, the figure, and `low` and `high`, between which the
        figure of the rows themselves lies with the stated confidence. A group named null holds
        the cells that are missing or unknown.
    guarantee : Guarantee
        What is promised.
    confidence : float
        Of each error bar on its own.
    counts : str
        What is counted: records, or what of persons.
    """

    statistic: str
    table: Any
    guarantee: Guarantee
    confidence: float
    counts: str

    @property
    def guarantee_(self) -> Guarantee:
        """The guarantee, by the name that it has in models."""
        return self.guarantee

    def to_pandas(self) -> Any:
        """Return the figures as a data frame of pandas.

        Returns
        -------
        DataFrame
            The table.
        """
        return self.table.to_pandas()

    def write(self, path: Any) -> None:
        """Write the figures to a table that carries its guarantee, such as counts.csv.

        Parameters
        ----------
        path : path-like
            The file; of a text, the guarantee is in a note next to it.
        """
        about = {"statistic": self.statistic, "confidence": self.confidence, "counts": self.counts}
        record = {"class": type(self).__name__, "guarantee": self.guarantee.to_dict(), **about}
        write_table(self.table, path, record)

    def __str__(self) -> str:
        frame = self.to_pandas().to_string(index=False, float_format="{:.6g}".format, na_rep="-")
        said = f"{self.statistic} of {self.counts}; error bars hold at {100 * self.confidence:g} %"
        return f"{frame}\n{said}; group -: missing; figure -: lost in noise\n{self.guarantee}"

    def _repr_html_(self) -> str:
        return f"{self.to_pandas().to_html(index=False)}<p>{self.guarantee}</p>"


# How a record is seen ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """The public values of a column by which records are grouped; the last place is missing.

    labels: Of each place, None for what is missing.
    edges: Of the bins of a column of numbers.
    ends: First and last number of each bin, as they are shown.
    """

    name: str
    labels: tuple[Any, ...]
    edges: tuple[float, ...] | None = None
    ends: tuple[Any, ...] = ()

    @classmethod
    def of(cls, feature: Feature, bins: int | Sequence[float] | None, name: str) -> Axis:
        """Return the categories of a column, its whole numbers if they are few, or bins."""
        if feature.categories is not None:
            return cls(name, (*feature.categories, None))
        low, high, is_day = feature.lower, feature.upper, feature.part == "time"
        is_whole = is_day or _is_whole(feature)
        if bins is None:
            bins = MAX_VALUES if is_whole and not is_day else DEFAULT_BINS
        edges = np.array(bins, dtype=float)
        if isinstance(bins, int) and 1 <= bins <= MAX_CELLS:
            edges = np.linspace(low, high, bins + 1)
            if is_whole:  # the last value beside the last whole step
                step = max(1, math.ceil((high - low) / bins))
                edges = np.append(np.arange(low, high + (step == 1), step), high + 1)
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise InvalidInputError(
                f"'bins' must be a whole number from 1 to {MAX_CELLS}, or increasing edges."
            )
        if arrow_kind(feature.type) == "b" and not feature.part:
            return cls(name, (*map(bool, edges[:-1]), None), tuple(edges.tolist()))

        def shown(number: float) -> Any:
            day = date.fromordinal(FIRST_DAY + int(number)) if is_day else None
            return str(day) if day else int(number) if is_whole else number

        pairs = zip(edges.tolist(), (edges[1:] - is_whole).tolist(), strict=False)
        ends = tuple((shown(a), shown(b)) for a, b in pairs)
        words, is_single = "{} to {}" if is_whole else "{:g} to {:g}", all(a == b for a, b in ends)
        labels = [a if is_single else words.format(a, b) for a, b in ends]
        return cls(name, (*labels, None), tuple(edges.tolist()), ends)

    def places(self, cells: Array) -> NDArray[np.intp]:
        """Return the place of each cell; numbers beyond the edges are in the bins at the ends."""
        known = cells
        if self.edges is not None:
            found = np.searchsorted(self.edges, cells, side="right") - 1
            known = np.clip(found, 0, len(self.edges) - 2).astype(np.float64)
        return np.where(np.isnan(cells), len(self.labels) - 1, known).astype(np.intp)


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """``cells -> [group, numbers]``, each record alone; a group too many where one is missing.

    axes: Of the first cells, by which records are grouped.
    ranges: Of the last cells, where numbers are asked for.
    numbers: ``(x, t, group) -> numbers`` of cells x inside of their ranges, which are t scaled to
        [-1, 1].
    n_numbers: How many.
    n_cells: If given, the number is the place of a cell among so many, and a row is one place.
    """

    axes: tuple[Axis, ...]
    ranges: tuple[tuple[float, float], ...] = ()
    numbers: Callable[[Array, Array, Any], Array] | None = None
    n_numbers: int = 0
    n_cells: int = 0

    @property
    def n_groups(self) -> int:
        """Groups."""
        return math.prod(len(axis.labels) for axis in self.axes)

    @property
    def width(self) -> int:
        """Numbers of a mapped row."""
        return 1 + self.n_numbers

    def __call__(self, rows: Array) -> Array:
        """Map a block of cells."""
        cells = np.asarray(rows, dtype=np.float64)
        group = np.zeros(len(cells), dtype=np.intp)
        for i, axis in enumerate(self.axes):
            group = group * len(axis.labels) + axis.places(cells[:, i])
        if self.numbers is None:
            return group[:, None].astype(np.float64)
        (low, high), values = np.transpose(self.ranges), cells[:, -len(self.ranges) :]
        is_gone: Any = np.isnan(values).any(axis=1)
        values = np.clip(np.where(is_gone[:, None], low, values), low, high)
        t = np.clip((values - (low + high) / 2) / ((high - low) / 2), -1.0, 1.0)
        numbers = self.numbers(values, t, group)
        group = np.where(is_gone, self.n_groups, group)
        if self.n_cells:
            return np.reshape(numbers, (-1, 1)) + group[:, None] * self.n_cells
        return np.vstack([group, numbers.T]).T  # column by column: rows are short


def _place(_: Array, t: Array, __: Any, n_cells: int) -> Array:
    return np.clip(np.floor((1 + t) / 2 * n_cells), 0, n_cells - 1)


def _place_around(x: Array, _: Array, group: Any, middle: Array, edges: Array) -> Array:
    """Return the place among edges around the middle of the group."""
    return np.asarray(np.searchsorted(edges, x - middle[group], side="right"), dtype=np.float64)


def _share_of_largest(x: Array, _: Array, __: Any, largest: float) -> Array:
    return x / largest


def _count_and_value(_: Array, t: Array, __: Any) -> Array:
    return np.hstack([np.ones_like(t), t]) / 2


def _polynomials(_: Array, t: Array, __: Any, degree: int) -> Array:
    """Return Bernstein's polynomials of degree 1 or 2, which add up to one."""
    p = (1 + t) / 2
    parts = [p, 1 - p] if degree == 1 else [p**2, 2 * p * (1 - p), (1 - p) ** 2]
    return np.hstack(parts)


def _products(_: Array, t: Array, __: Any, largest: float) -> Array:
    i, j = np.triu_indices(t.shape[1], 1)
    return np.hstack([np.ones((len(t), 1)), t, t**2 - 0.5, t[:, i] * t[:, j]]) / largest


def _square(_: Array, t: Array, __: Any, centre: float) -> Array:
    return np.asarray(((t - centre) / (1 + abs(centre))) ** 2)


@dataclass(frozen=True)
class GroupSums(Statistic):
    """``sum e_g uᵀ`` over rows [g, u] of group g and numbers u with ``|u|₁ <= 1``.

    Adding a record moves it by 1 in the sum of magnitudes; replacing one by 2, or by `apart` where
    all are in one group. In the Euclidean norm, by `length` and twice that.

    apart: Largest ``|u - v|₁``, also of v = 0.
    length: Largest ``|u|₂``.
    """

    n_groups: int
    width: int
    apart: float = 2.0
    length: float = 1.0
    in_ball: ClassVar[int] = 0  # terms are bounded whatever rows hold

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_groups, self.width)

    def add_up(self, rows: Any, codes: Codes) -> Array:  # noqa: ARG002 - classes do not matter
        group, *numbers = to_numpy(rows).T
        terms = truncate_to_grid(np.array(numbers), 2 * ROW_BITS)
        fine = (np.abs(terms).sum(axis=0) <= 1) & (group >= 0) & (group < self.n_groups)
        fine &= (terms * terms).sum(axis=0) <= self.length**2 * (1 + 2.0**-40)  # [S1]
        if not fine.all():
            group, terms = group[fine], terms[:, fine]
        group = group.astype(np.intp)
        sums = [np.bincount(group, each, minlength=self.n_groups) for each in terms]
        return np.stack(sums, axis=1)

    def sensitivity(self, relation: str | Relation, max_rows: int, norm: int | str = 2) -> float:
        """Largest distance of the sums of two neighbours once they are doubles."""
        is_replaced = Relation(relation) is Relation.REPLACE_ONE
        moved = (self.apart if self.n_groups == 1 else 2.0) if is_replaced else 1.0  # [S2]
        rounding = self._rounding(max_rows)
        if norm == 2:
            return min(moved, self.length * (1 + 2.0**-40) * (1 + is_replaced)) + rounding
        return moved + math.sqrt(self.size) * rounding


# What is asked ----------------------------------------------------------------------------------


class PrivateStatistics(PrivateEstimator):
    """Reads the records of a question as every estimator reads them; it is never fitted."""

    reads_cells: ClassVar[bool] = True


@dataclass(frozen=True)
class Question:
    """What is public about a question, the records, and its budget."""

    axes: tuple[Axis, ...]
    features: tuple[Feature, ...]
    records: Records
    budget: Budget
    confidence: float
    counts: str

    def rows(self, numbers: Callable[..., Array], n_numbers: int) -> GroupedRows:
        """Return how a record is seen: the group, and numbers of the cells after it."""
        ranges = tuple(each.range for each in self.features[len(self.axes) :])
        return GroupedRows(self.axes, ranges, numbers, n_numbers)

    def draw(self, release: Release, rows: GroupedRows) -> Any:
        """Charge what was declared, unless it was, and draw."""
        if self.budget.receipt is None:
            self.budget.charge()
        return self.budget.draw(release, self.records.mapped(rows))

    def sums(
        self, numbers: Callable[..., Array], n_numbers: int, apart: float = 2.0, length: float = 1.0
    ) -> tuple[Array, float]:
        """Return noisy sums of groups, and the deviation of each number's noise."""
        rows = self.rows(numbers, n_numbers)
        statistic = GroupSums(rows.n_groups, n_numbers, apart, length)
        release = self.law(statistic)[1](statistic)
        return self.draw(release, rows), self.budget.noise(release)

    def law(self, statistic: Statistic) -> tuple[float, Callable[[Any], Release]]:
        """Return the deviation of the least noise, and the law that has it."""
        budget, moved = self.budget, partial(self.records.sensitivity, statistic)
        noise = math.sqrt(2) * moved(1) / budget.epsilon
        if budget.delta > 0 and math.isfinite(budget.epsilon):
            other = moved(2) / mu_from_budget(budget.epsilon, budget.delta)
            if other < noise:
                return other, budget.gaussian
        return noise, budget.laplace

    @property
    def is_alone(self) -> bool:
        """Whether one group has a public number of records, so that a count costs nothing."""
        return not self.axes and self.records.relation is Relation.REPLACE_ONE

    def known(self, count: Array, noise: float) -> Array:
        """Return the number of cells that are there; all, unless it shows or is declared."""
        n_rows, known = self.records.public_rows, np.maximum(count, 1e-9)
        if not self.is_alone or n_rows is None:
            return known
        is_whole = n_rows - count < NOT_THERE * noise / math.sqrt(2)
        is_whole &= not self.features[-1].missing
        return np.where(is_whole, n_rows, np.minimum(known, n_rows))

    def released(self, statistic: str, columns: Mapping[str, Any]) -> ReleasedStatistic:
        """Return figures with the groups, in the order of which they are given."""
        n_groups = math.prod(len(axis.labels) for axis in self.axes)
        size = np.size(next(iter(columns.values()))) // n_groups
        keys = itertools.product(*(axis.labels for axis in self.axes), range(size))
        listed = list(zip(*keys, strict=True))[:-1]
        table = {axis.name: list(each) for axis, each in zip(self.axes, listed, strict=True)}
        for name, values in columns.items():  # of one type, whatever is hidden
            flat = np.ravel(np.asarray(values))
            given = flat.tolist() if flat.dtype == object else flat
            table[name] = arrow().array(given, from_pandas=True)
        promise, found = self.budget.guarantee(), arrow().table(table)
        return ReleasedStatistic(statistic, found, promise, self.confidence, self.counts)


def _begin(
    table: Any,
    by: str | Sequence[str],
    columns: Sequence[str] = (),
    *,
    bounds: TableBounds | Mapping[str, Any],
    epsilon: float,
    bins: int | Sequence[float] | None = None,
    delta: float = 0.0,
    unit: str | None = None,
    relation: str = "replace_one",
    groups: Any = None,
    ledger: Any = None,
    confidence: float = 0.95,
    keeps_log: bool = False,
    days: str = "",
) -> Question:
    """Check everything and read the records; nothing is charged yet."""
    if not 0 < confidence < 1:
        raise InvalidInputError(f"'confidence' must lie between 0 and 1. Got {confidence}.")
    known = bounds_from(bounds) if isinstance(bounds, Mapping) else bounds
    if not isinstance(known, TableBounds):
        raise MissingBoundsError(
            "A statistic needs the public bounds of its table: bounds=TableBounds.from_dict(...), "
            "or the mapping that it takes."
        )
    by = [by] if isinstance(by, str) else list(by)
    asked = [replace(_column(known, name, days), fill=None, log=False) for name in by]
    for name in columns:
        last = _column(known, name)
        if last.categories is not None or last.parts:
            raise InvalidInputError(f"The column {name!r} holds no numbers by its bounds.")
        asked.append(replace(last, fill=None, log=last.log and keeps_log))
    asked = asked or [*known.used[:1]]  # records of which nothing is asked are read by something
    unit = unit or (Unit.RECORD if known.person is None else Unit.PERSON)
    reader = PrivateStatistics(
        bounds=replace(known, columns=tuple(asked), target=None),
        epsilon=epsilon,
        delta=delta,
        unit=str(unit),
        relation=str(relation),
        ledger=ledger,
    )
    features = reader.bounds.features  # type: ignore[union-attr]
    axes = tuple(Axis.of(f, bins, name) for f, name in zip(features, by, strict=False))
    if math.prod(len(axis.labels) for axis in axes) > MAX_GROUPS:
        raise InvalidInputError(f"There are more than {MAX_GROUPS} groups: name fewer columns.")
    records, budget = reader._begin(table, None, groups)
    counts, person = "records", records.person
    if person is not None:
        counts = f"rows, at most {person.rows} of each person; further rows are left out"
        if person.averages:
            counts = "persons, each shared over their rows (to count rows: per_person = 'sum')"
    return Question(axes, features, records, budget, confidence, counts)


def _column(bounds: TableBounds, name: str, days: str = "") -> Column:
    """Return what is public about a column, the target, a part such as day.month, or the `days`."""
    known = {column.name: column for column in bounds.used}
    if bounds.target is not None and bounds.target.labels != PUBLIC_LABELS:
        known[bounds.target.name] = bounds.target
    dates = [each.name for each in known.values() if each.parts]
    source, _, part = name.rpartition(".")
    if name == days and name in dates:
        source, part = name, "time"
    if name in PARTS and name not in known and len(dates) == 1:
        source, part = dates[0], name
    if source in dates and part in PARTS:
        found = replace(known[source], parts=(part,)).to_record()
        return Column.from_record(source, found)  # refuses a year without its range
    if name not in known or name in dates:
        about = f"is a date: name a part, such as '{name}.month', of {', '.join(PARTS)}"
        about = about if name in dates else "is not in the bounds, or left out there"
        raise InvalidInputError(f"The column {name!r} {about}.")
    return known[name]


def _is_whole(feature: Feature) -> bool:
    return feature.is_whole or (not feature.part and arrow_kind(feature.type) == "b")


def _factor(confidence: float, *, is_one: bool = False) -> float:
    """Return deviations of an error bar for one Laplace variable, or sums of any, or Gaussians."""
    laplace = -math.log1p(-confidence) / math.sqrt(2)
    return laplace if is_one else max(laplace, float(ndtri((1 + confidence) / 2)))


def _bars(figures: Array, half: Any, low: float, high: float) -> dict[str, Array]:
    """Return the ends of error bars, inside of what is possible."""
    ends = {"low": figures - half, "high": figures + half}
    return {name: np.clip(each, low, high) for name, each in ends.items()}


def _propagated(figure: Callable[[Array], Array], sums: Array, wide: float) -> tuple[Array, Array]:
    """Return a figure of sums, and half of its error bar: each sum is moved by its own."""
    found = figure(sums)
    steps = wide * np.eye(len(sums))[:, :, None]
    away = np.abs([[figure(sums + step) - found for step in each] for each in (steps, -steps)])
    return found, np.linalg.norm(away.max(axis=0), axis=0)


def _counts(asked: Question) -> dict[str, Array]:
    """Return noisy counts of groups; and with error bars, none below zero, whole ones as such."""
    rows = GroupedRows(asked.axes)
    release = asked.budget.counts(CountTables((rows.n_groups,), ((0,),)))
    noisy = asked.draw(release, rows)
    mechanism, half = release.mechanism, 0.0
    is_whole = isinstance(mechanism, DiscreteLaplaceMechanism)
    if not is_whole:
        half = _factor(asked.confidence, is_one=True) * asked.budget.noise(release)
    elif (grid := mechanism.grid(1)) is not None:
        beyond = 2 / (1 + math.exp(-1 / grid[1]))  # P(|k| > h) = beyond exp(-(h + 1) / t)
        half = math.ceil(grid[1] * math.log(beyond / (1 - asked.confidence))) - 1.0
        half = max(0.0, half)
    columns = {"count": np.maximum(noisy, 0.0), **_bars(noisy, half, 0.0, math.inf)}
    kind = np.int64 if is_whole else np.float64
    return {name: each.astype(kind) for name, each in columns.items()}


@lru_cache(maxsize=8)
def _slack(ratio: float, missed: float) -> float:
    """Return how far out the end of an error bar is asked for, in scales of its noise, in ranks.

    ratio: That scale over the scale of the quantile's own noise.
    """
    off = np.logspace(-4, 2, 2001)  # of a quantile from the right one, towards one end
    weights = np.diff(-np.exp(-ratio * off), prepend=-1)
    longer = (1 + 1 / WIDER) / 2  # bars reach the outer edge of their cell

    def excess(slack: float) -> float:
        inside = (np.exp(off * (longer - 1)) - np.exp(-off)) / (2 - np.exp(-off - slack))
        return float(weights @ inside) * math.exp(-slack) - missed

    return float(brentq(excess, 0, 50)) if excess(0) > 0 else 0.0


# Statistics -------------------------------------------------------------------------------------

SHARED = {  # what several statistics document alike
    "$table": """Parameters
    ----------
    table : DataFrame, Table, path or records
        As `fit` takes it.""",
    "$column": """$table
    column : str
        A numeric column; values outside its bounds are moved to the nearest bound.""",
    "$rest": """by : str or sequence of str
        Columns whose values make groups, see `release_counts`.
    **promise
        See `release_counts`.

    Returns
    -------
    ReleasedStatistic
        The figures, their error bars and the guarantee. What noise hides is null.""",
}


def _documented(function: Callable[..., ReleasedStatistic]) -> Callable[..., ReleasedStatistic]:
    for name, text in reversed(SHARED.items()):
        function.__doc__ = (function.__doc__ or "").replace(name, text)
    return function


def release_counts(table: Any, by: str | Sequence[str] = (), **promise: Any) -> ReleasedStatistic:
    """Release the number of records of each group.

    Parameters
    ----------
    table : DataFrame, Table, path or records
        As `fit` takes it.
    by : str or sequence of str
        Columns whose values make the groups: categories, truth values, numbers (see `bins`), the
        target, or parts of dates such as "admitted.month". None: all records together.
    **promise
        What is asked of the release.

        bounds : TableBounds or mapping
            Public bounds of the table; required. A mapping is given to `TableBounds.from_dict`.
        epsilon : float
            The budget; required.
        delta : float, default=0.0
            Above 0, Gaussian noise is used where it is smaller.
        unit : {"record", "person"}, optional
            By default persons where the bounds name their column.
        relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
            Which data sets are neighbours.
        bins : int or sequence of float, optional
            Bins of columns of numbers in `by`, or their edges.
        groups : array-like, optional
            IDs of persons, where the bounds name no column of them.
        ledger : DatasetBudget, optional
            Who pays.
        confidence : float, default=0.95
            Confidence of each error bar.

    Returns
    -------
    ReleasedStatistic
        The figures, their error bars and the guarantee.
    """
    asked = _begin(table, by, **promise)
    return asked.released("counts", _counts(asked))


@_documented
def release_histogram(
    table: Any,
    column: str,
    *,
    by: str | Sequence[str] = (),
    bins: int | Sequence[float] = 20,
    ranges: str | Sequence[Sequence[Any]] | None = None,
    **promise: Any,
) -> ReleasedStatistic:
    """Release how many records have their number in each bin, or in each of many ranges.

    $table
    column : str
        A column of numbers, or of categories.
    bins : int or sequence of float, default=20
        Number of bins, or their edges, which are public; whole numbers have whole bins.
    ranges : sequence of pairs or "all", optional
        First and last number of each range, in place of bins; or all ranges of bins. The last
        one is counted where numbers are whole, days or at the upper bound. Any number of ranges
        costs epsilon once: counts of bins, and of runs of bins, are released and made to agree.
    $rest
    """
    by = [by] if isinstance(by, str) else list(by)
    days = "" if ranges is None else column  # in which ranges of a date are
    asked = _begin(table, [*by, column], bins=bins, days=days, **promise)
    if ranges is not None:
        return _ranges(asked, ranges)
    axis, figures = asked.axes[-1], _counts(asked)
    if not axis.ends:
        return asked.released("histogram", figures)
    times = len(figures["count"]) // len(axis.labels)
    pairs = np.array([*axis.ends, (None, None)] * times, dtype=object)
    figures = {"from": pairs[:, 0], "to": pairs[:, 1], **figures}
    return replace(asked, axes=asked.axes[:-1]).released("histogram", figures)


def _ranges(asked: Question, ranges: Any) -> ReleasedStatistic:
    """Release counts of ranges by counts of bins, of runs of bins, and of runs of those."""
    feature, records = asked.features[-1], asked.records
    if isinstance(ranges, str) and ranges == "all":
        pairs = itertools.combinations_with_replacement(asked.axes[-1].ends, 2)
        ranges = [(a, b) for (a, _), (_, b) in itertools.islice(pairs, MAX_GROUPS + 1)]
    is_day = feature.part == "time"
    is_whole = is_day or _is_whole(feature)
    low, high = np.floor(feature.range) if is_whole else feature.range
    given = wrong = list(ranges if np.iterable(ranges) else [ranges]) or [()]
    try:
        if is_day:
            given = [[date.fromisoformat(str(e)[:10]).toordinal() for e in p] for p in given]
        first, last = np.array(given, dtype=np.float64).T - FIRST_DAY * is_day
        first, last = (np.ceil(first), np.floor(last)) if is_whole else (first, last)
        first, last = np.maximum(first, low), np.minimum(last, high) + is_whole
        wrong = [pair for pair, fine in zip(wrong, first < last, strict=True) if not fine][:1]
    except (TypeError, ValueError, OverflowError):
        pass
    if len(wrong) or not asked.axes[-1].ends:
        raise InvalidInputError(
            f"'ranges' must be 'all', or pairs of numbers, or days (2024-01-31). Got {wrong!r}."
        )
    edges = np.unique(np.concatenate([[low, high + is_whole], first, last]))
    axis = Axis.of(feature, edges.tolist(), "")
    starts, stops = np.searchsorted(edges, first), np.searchsorted(edges, last)
    groups = replace(asked, axes=asked.axes[:-1])
    n_groups, places = GroupedRows(groups.axes).n_groups, np.arange(len(axis.labels))
    if len(starts) * n_groups > MAX_GROUPS or len(places) > MAX_PLACES_OF_RANGES:
        raise InvalidInputError(f"More than {MAX_GROUPS} ranges or {MAX_PLACES_OF_RANGES} bins.")
    total = records.public_rows if groups.is_alone else None

    def variances(tree: RunCounts, which: Any) -> Array:
        inside = (starts[which, None] <= places) & (places < stops[which, None])
        return np.asarray(tree.variances(inside, knows_total=total is not None))

    some, trees = np.unique(np.linspace(0, len(starts) - 1, PROBES).astype(int)), []
    for fan, fall in itertools.product((*(f for f in FANS if f < len(places)), len(places)), FALLS):
        levels = np.arange(max(1, math.ceil(math.log(len(places), fan) - 1e-9)))
        weights = np.maximum(np.rint(256 * fall**levels), 1) / 256
        tree = RunCounts(n_groups, len(places), fan, tuple(weights.tolist()))
        noise, law = asked.law(tree)
        trees.append(((noise or 1.0) ** 2 * variances(tree, some).mean(), tree, law))
    _, tree, law = min(trees, key=itemgetter(0))  # [H3] what errs least
    if law == asked.budget.laplace and set(tree.weights) == {1.0}:  # of whole numbers
        law = asked.budget.counts
    release = law(tree)
    counts = tree.agreed(asked.draw(release, GroupedRows((*groups.axes, axis))), total)  # [H2]
    below = np.pad(np.cumsum(counts, axis=1), ((0, 0), (1, 0)))
    found = below[:, stops] - below[:, starts]
    blocks = np.array_split(np.arange(len(starts)), 1 + len(starts) * len(places) // 2**15)
    spread = np.sqrt(np.concatenate([variances(tree, block) for block in blocks]))
    half = _factor(asked.confidence) * asked.budget.noise(release) * spread
    half += isinstance(release.mechanism, DiscreteLaplaceMechanism) / 2  # which has no fractions
    most = math.inf if total is None else total
    figures = {"count": np.clip(found, 0.0, most), **_bars(found, half, 0.0, most)}
    if records.person is None or not records.person.averages:  # whole, and so are ends of bars
        count, low = np.rint(figures["count"]), np.ceil(figures["low"])
        high = np.maximum(np.floor(figures["high"]), count)
        whole = {"count": count, "low": np.minimum(low, count), "high": high}
        figures = {name: each.astype(np.int64) for name, each in whole.items()}
    ends = np.array(axis.ends, dtype=object)
    first, last = np.tile([ends[starts, 0], ends[stops - 1, 1]], n_groups)
    return groups.released("histogram", {"from": first, "to": last, **figures})


@_documented
def release_sum(
    table: Any, column: str, *, by: str | Sequence[str] = (), **promise: Any
) -> ReleasedStatistic:
    """Release the sum of a column of numbers; a missing cell adds nothing.

    $column
    $rest
    """
    asked = _begin(table, by, [column], **promise)
    low, high = asked.features[-1].range
    largest = max(abs(low), abs(high))
    apart = (max(high, 0.0) - min(low, 0.0)) / largest
    sums, noise = asked.sums(partial(_share_of_largest, largest=largest), 1, apart)
    half = _factor(asked.confidence, is_one=not asked.budget.delta) * noise * largest
    found = sums[:, 0] * largest
    ends = (min(low, 0.0) * math.inf if low < 0 else 0.0, math.inf if high > 0 else 0.0)
    return asked.released("sum", {"sum": np.clip(found, *ends), **_bars(found, half, *ends)})


@_documented
def release_mean(
    table: Any, column: str, *, by: str | Sequence[str] = (), **promise: Any
) -> ReleasedStatistic:
    """Release the mean of the cells that are not missing, and their number.

    $column
    $rest
    """
    asked = _begin(table, by, [column], **promise)
    low, high = asked.features[-1].range
    if asked.is_alone:  # [S3] the count costs nothing
        sums, noise = asked.sums(_count_and_value, 2, 1.0, math.sqrt(0.5))
        (count, total), noise = 2 * sums.T, 2 * noise
    else:  # [S4] of p and 1 - p, which add up to one
        sums, noise = asked.sums(partial(_polynomials, degree=1), 2)
        count, total, noise = sums.sum(axis=1), sums[:, 0] - sums[:, 1], math.sqrt(2) * noise
    wide = _factor(asked.confidence) * noise
    # [S5] all m with |total - m count| <= wide sqrt(1 + m²)
    is_clear = count > wide
    square = np.where(is_clear, count**2 - wide**2, 1.0)
    root = wide * np.sqrt(np.maximum(count**2 + total**2 - wide**2, 0.0))
    ends = [np.clip((total * count + side * root) / square, -1, 1) for side in (-1, 1)]
    ends = [np.where(is_clear, end, side) for end, side in zip(ends, (-1.0, 1.0), strict=True)]
    known, n_rows = asked.known(count, noise), asked.records.public_rows
    mean = np.where(is_clear, np.clip(total / known, -1, 1), np.nan)
    scaled = {"mean": mean, "low": ends[0], "high": ends[1]}
    figures = {name: (low + high) / 2 + (high - low) / 2 * t for name, t in scaled.items()}
    limits = _bars(count, wide, 0.0, math.inf if n_rows is None else n_rows)
    figures["count"] = np.where(count > 0, known, 0.0)
    figures |= {f"count_{name}": end for name, end in limits.items()}
    return asked.released("mean", figures)


@_documented
def release_variance(
    table: Any, column: str, *, by: str | Sequence[str] = (), **promise: Any
) -> ReleasedStatistic:
    """Release the variance of the cells that are there, divided by their number.

    $column
    $rest
    """
    asked = _begin(table, by, [column], **promise)
    low, high = asked.features[-1].range
    z, unit = _factor(asked.confidence), ((high - low) / 2) ** 2
    if asked.is_alone:  # [S6] squares around a first mean
        budget = asked.budget
        n_rows, share = asked.records.public_rows, MEAN_SHARE
        if n_rows is not None and not asked.features[-1].missing:  # what errs least in sum
            share = min(2 * MEAN_SHARE, 2.3 * (n_rows * min(budget.epsilon, 100.0)) ** -0.4)
        first = budget.laplace(GroupSums(1, 2, 1.0, math.sqrt(0.5)), share * ROUNDED_DOWN)
        second = budget.laplace(GroupSums(1, 1, 1.0), (1 - share) * ROUNDED_DOWN)
        count, total = 2 * asked.draw(first, asked.rows(_count_and_value, 2)).T
        wide = z * 2 * budget.noise(first)
        is_clear, n = count > 3 * wide, asked.known(count, wide / z)
        centre = float(np.clip(total / n, -1, 1)[0])
        rows, scale = asked.rows(partial(_square, centre=centre), 1), (1 + abs(centre)) ** 2
        found = scale * asked.draw(second, rows)[:, 0] / n
        half = (z * scale * budget.noise(second) + wide * np.abs(found)) / n
        half += (1 + centre**2) * (wide / n) ** 2
    else:  # [S4] polynomials that add up to one
        sums, noise = asked.sums(partial(_polynomials, degree=2), 3)
        is_clear = sums.sum(axis=1) > 3 * z * math.sqrt(3) * noise
        found, half = _propagated(_variance, np.where(is_clear, sums.T, 1.0), z * noise)
    bars = _bars(found, np.where(is_clear, half, 2.0), 0.0, 1.0)
    figures = {"variance": np.where(is_clear, np.clip(found, 0.0, 1.0), np.nan), **bars}
    return asked.released("variance", {name: unit * each for name, each in figures.items()})


def _variance(sums: Array) -> Array:
    """Return the variance by sums of Bernstein's polynomials of degree 2."""
    p, q, r = sums / sums.sum(axis=0)
    return np.asarray((p - q + r) - (p - r) ** 2)


@_documented
def release_correlation(
    table: Any, columns: Sequence[str], *, by: str | Sequence[str] = (), **promise: Any
) -> ReleasedStatistic:
    """Release the correlations of columns of numbers, of the records that have all of them.

    A row for each pair, `first` and `second`. A correlation is null where a variance is no larger
    than its noise; its error bar is then -1 to 1.

    $table
    columns : sequence of str
        Two columns of numbers or more; those outside of the bounds are moved to the nearest bound.
    $rest
    """
    d = len(columns)
    if isinstance(columns, str) or not 2 <= d == len(set(columns)):
        raise InvalidInputError("'columns' must name at least two different numeric columns.")
    asked = _begin(table, by, columns, **promise)
    largest = 1 + 1.5 * d + d * (d - 1) / 2  # [S7]
    products, n_products = partial(_products, largest=largest), 1 + 2 * d + d * (d - 1) // 2
    apart = d * (d + 2) ** 2 / (2 * (d + 1)) / largest + n_products * QUANTUM
    length = math.sqrt(1 + 1.25 * d + d * (d - 1) / 2) / largest
    sums, noise = asked.sums(products, n_products, apart, length)
    i, j = np.triu_indices(d, 1)

    def correlations(sums: Array) -> Array:
        means, squares, products = np.split(sums[1:] / sums[0], [d, 2 * d])
        spread = np.where(sums[0] > 0, squares + 0.5 - means**2, 0.0)
        both = np.sqrt(np.maximum(spread[i] * spread[j], 0.0))
        return np.asarray((products - means[i] * means[j]) / both)

    with np.errstate(divide="ignore", invalid="ignore"):  # not finite: no figure
        found, half = _propagated(correlations, sums.T, _factor(asked.confidence) * noise)
    is_clear = np.isfinite(half) & (half < 1)
    bars = _bars(np.where(is_clear, found, 0.0), np.where(is_clear, half, 2.0), -1.0, 1.0)
    pairs = {"first": np.array(columns)[i], "second": np.array(columns)[j]}
    figures = {name: np.tile(each, sums.shape[0]) for name, each in pairs.items()}
    bars = {"correlation": np.where(is_clear, np.clip(found, -1.0, 1.0), np.nan), **bars}
    return asked.released("correlation", figures | {name: b.T for name, b in bars.items()})


@_documented
def release_quantiles(
    table: Any,
    column: str,
    *,
    at: float | Sequence[float] = (0.5,),
    by: str | Sequence[str] = (),
    error_bars: bool = True,
    **promise: Any,
) -> ReleasedStatistic:
    """Release quantiles of a column of numbers; those of whole numbers are whole.

    $column
    at : float or sequence of float, default=(0.5,)
        Which quantiles, each between 0 and 1; the budget is shared among them.
    error_bars : bool, default=True
        Whether 30 % of epsilon are spent on error bars.
    $rest
    """
    shares = [float(each) for each in np.atleast_1d(np.asarray(at, dtype=float))]
    if not shares or not all(0 < each < 1 for each in shares):
        raise InvalidInputError("'at' must be numbers between 0 and 1, such as 0.5.")
    asked = _begin(table, by, [column], keeps_log=True, **promise)
    feature, n_groups = asked.features[-1], GroupedRows(asked.axes).n_groups
    is_whole = _is_whole(feature)
    n_cells = max(2, min(MAX_CELLS, MAX_PLACES // n_groups))
    low, high = feature.range
    if is_whole:  # a cell is one whole number, if they are not too many
        n_cells, low, high = min(n_cells, int(high - low) + 1), low - 0.5, high + 0.5
    rows = GroupedRows(
        asked.axes, ((low, high),), partial(_place, n_cells=n_cells), n_cells=n_cells
    )
    counts, step = CountTables((n_groups * n_cells + 1,), ((0,),)), (high - low) / n_cells
    farthest = high - low if is_whole else 2 * n_cells
    growth = WIDER ** np.arange(math.ceil(math.log(farthest, WIDER)) + 1)
    away = np.unique(np.floor(growth)) - 0.5 if is_whole else step / 2 * growth
    widths = np.log(np.diff(away, prepend=0))[[*range(len(away)), -1, -1]]
    upper = (*[NEVER] * (len(away) + 1), *widths.tolist())  # never on the other side
    edges, points = np.append(-away[::-1], away), tuple((each, 0.0) for each in shares)
    few = CountTables((n_groups * (len(edges) + 1) + 1,), ((0,),))
    end = END_SHARE * ROUNDED_DOWN / len(shares)
    middle = asked.budget.ranks(counts, n_groups, points, 1 - END_SHARE if error_bars else None)
    moved = asked.records.sensitivity(few, 1)  # [R4]
    outer = []
    for each in shares if error_bars else []:
        apart = 0.5 if asked.is_alone else max(each, 1 - each)
        slack = _slack(2 * (1 - END_SHARE) / END_SHARE, TIED * (1 - asked.confidence))
        rank = 1 + slack * 2 * apart * moved / (asked.budget.epsilon * end / 2)
        pair = ((each, -rank), (each, rank))
        outer.append(asked.budget.ranks(few, n_groups, pair, end, (upper[::-1], upper)))
    places = asked.draw(middle, rows)  # [R1]
    found = np.clip(low + (places - 0.5) * step, low + step / 2, high - step / 2)
    far = np.full((2, *found.shape), np.nan)
    for i, release in enumerate(outer):  # around what was released
        around = partial(_place_around, middle=found[:, [i]], edges=edges)
        near = replace(rows, numbers=around, n_cells=len(edges) + 1)
        chosen = asked.draw(release, near) - len(away) - 1
        steps = np.clip(np.abs(chosen), 0, len(away) - 1)
        far[:, :, i] = away[steps].T - 0.5 * is_whole
    figures = {"at": np.tile(shares, (n_groups, 1))}
    low, high = feature.range
    drawn = (found, np.maximum(found - far[0], low), np.minimum(found + far[1], high))
    for name, scaled in zip(("quantile", "low", "high"), drawn, strict=True):
        numbers = feature.unscaled(scaled)
        is_int = is_whole and not np.isnan(numbers).any()
        figures[name] = np.rint(numbers).astype(np.int64) if is_int else numbers
    return asked.released("quantiles", figures)
