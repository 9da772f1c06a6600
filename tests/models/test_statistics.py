"""Statistics: sensitivities by brute force, laws, coverage, charges, persons, odd cells."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sfumato import (
    Ledger,
    ReleasedStatistic,
    TableBounds,
    release_correlation,
    release_counts,
    release_histogram,
    release_mean,
    release_quantiles,
    release_sum,
    release_variance,
)
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.mechanisms.base import taped
from sfumato.mechanisms.entropy import seeded
from sfumato.mechanisms.exponential import RankMechanism
from sfumato.mechanisms.laplace import DiscreteLaplaceMechanism
from sfumato.models.statistics import GroupSums
from sfumato.report.certificate import promise_in

FALSE_ALARM = 1e-6  # of each statistical test
RELATIONS = ("replace_one", "add_or_remove_one")
COLUMNS: dict[str, Any] = {
    "ward": ["A", "B", "C"],
    "x": {"lower": -2, "upper": 6, "missing": True},
    "y": (0, 10),
    "far": {"lower": -5, "upper": -3, "missing": True},  # a missing cell is none of its numbers
    "k": {"type": "int64", "lower": 0, "upper": 40},
    "day": {"parts": ["month"], "lower": "2023-01-01", "upper": "2024-12-31"},
}
TO_HERE = [(-2.0, end) for end in np.linspace(-1.9, 6, 60)]
QUESTIONS: dict[str, Callable[..., ReleasedStatistic]] = {
    "counts": lambda t, by=(), **p: release_counts(t, [*by, "ward", "month"], **p),
    "histogram": lambda t, **p: release_histogram(t, "x", bins=7, **p),
    "ranges": lambda t, **p: release_histogram(t, "x", ranges=TO_HERE, **p),
    "sum": lambda t, **p: release_sum(t, "x", **p),
    "sum, far": lambda t, **p: release_sum(t, "far", **p),
    "mean": lambda t, **p: release_mean(t, "x", **p),
    "variance": lambda t, **p: release_variance(t, "x", **p),
    "quantiles": lambda t, **p: release_quantiles(t, "k", at=[0.3, 0.9], **p),
    "correlation": lambda t, **p: release_correlation(t, ["x", "y"], **p),
}


def table(n: int, seed: int = 0) -> pd.DataFrame:
    """Return rows at the ends of their ranges more often than not, some cells missing."""
    rng = np.random.default_rng(seed)
    ends = lambda low, high: np.where(  # noqa: E731
        rng.random(n) < 0.6, rng.choice([low, high], n), rng.uniform(low, high, n)
    )
    x = np.where(rng.random(n) < 0.1, np.nan, ends(-2, 6))
    days = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D")
    ward, person = rng.choice(["A", "B", "C", "?"], n), rng.integers(0, max(n // 3, 1), n)
    whole = np.rint(ends(0, 40)).astype(int)
    cells = {"ward": ward, "x": x, "y": ends(0, 10), "k": whole, "day": days, "id": person}
    return pd.DataFrame({**cells, "far": np.where(rng.random(n) < 0.4, np.nan, ends(-5, -3))})


def bounds(person: str | None) -> TableBounds:
    about = {} if person is None else {"person": "id", "person_rows": 4, "per_person": person}
    return TableBounds.from_dict(COLUMNS, **about)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("person", [None, "average", "sum"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_no_neighbour_is_further_away_than_was_paid_for(
    name: str, person: str | None, relation: str
) -> None:
    """The exact sums of neighbours, taken from the tape, against the mechanism's sensitivity."""
    rng, nearest, laws = np.random.default_rng(1), 0.0, set()
    for seed, by in itertools.product(range(8), ((), ("ward",))):
        whole = table(9, seed)
        gone = rng.choice(whole["id"].unique() if person else whole.index)
        rest = whole[whole["id"] != gone] if person else whole.drop(index=gone)
        # The variance is taken around a released mean, which must be the same for both.
        options = {"bounds": bounds(person), "relation": relation, "epsilon": 1.0, "by": by}
        options["delta"] = 0.1 if seed % 2 else 0.0  # Gaussian noise where it is smaller
        other = rest
        if relation == "replace_one":
            new = table(3 if person else 1, seed + 100).assign(id=gone)
            other = pd.concat([rest, new], ignore_index=True)
        with taped() as first:
            QUESTIONS[name](whole, **options)
        with taped(first) as second:
            QUESTIONS[name](other, **options)
        for a, b in zip(first.releases, second.releases, strict=True):
            assert a.mechanism == b.mechanism
            moved = np.linalg.norm(np.ravel(a.statistic - b.statistic), a.mechanism.norm)
            laws.add(a.mechanism.norm)
            assert moved <= a.mechanism.sensitivity
            nearest = max(nearest, moved / a.mechanism.sensitivity)
    assert nearest > (0.25 if person == "sum" else 0.5)  # not far too much either
    assert 2 in laws or name in ("counts", "histogram", "quantiles", "variance"), laws


def test_cutting_to_the_grid_is_part_of_what_a_correlation_pays() -> None:
    """Five columns, the farthest neighbours: without the cuts their sums are `apart` apart."""
    names, one = list("abcde"), np.array([1.0, 1.0, -1.0, -1.0, -1.0])
    rng, known = np.random.default_rng(0), dict.fromkeys(names, (-1.0, 1.0))
    for other in -one / 6 * (1 + 3e-7 * rng.uniform(-1, 1, (20, 5))):
        with taped() as tape:
            for row in (one, other):
                rows = pd.DataFrame([row, 0 * one], columns=names)
                release_correlation(rows, names, bounds=known, epsilon=1.0)
        here, there = tape.releases
        assert np.abs(here.statistic - there.statistic).sum() <= here.mechanism.sensitivity


def test_rows_that_break_their_bounds_add_nothing() -> None:
    rows = np.array([[0, 0.5, 0.5], [0, 0.8, 0.4], [3, 0.1, 0.1], [-1, 0.1, 0.1], [1, np.nan, 0.0]])
    np.testing.assert_array_equal(
        GroupSums(2, 2).add_up(rows, np.zeros(5, dtype=np.intp)), [[0.5, 0.5], [0, 0]]
    )
    assert not GroupSums(2, 2, length=0.5).add_up(rows[:1], np.zeros(1, dtype=np.intp)).any()


@pytest.mark.parametrize("scale", [0.2, 1.0, 30.0])
def test_noise_of_counts_has_the_discrete_law(scale: float) -> None:
    mechanism = DiscreteLaplaceMechanism(1.0, 1 / scale)
    drawn = mechanism.release(np.zeros(40_000), ledger=None)
    last = int(6 * scale)
    places = np.arange(-last, last + 1)
    law = np.tanh(1 / scale / 2) * np.exp(-np.abs(places) / scale)
    found = np.array([(drawn == k).sum() for k in places])
    law, found = np.append(law, 1 - law.sum()), np.append(found, len(drawn) - found.sum())
    often = law * len(drawn) > 5
    expected = np.append(law[often], law[~often].sum()) * len(drawn)
    counted = np.append(found[often], found[~often].sum())
    kept = expected > 0
    assert stats.chisquare(counted[kept], expected[kept]).pvalue > FALSE_ALARM
    assert np.isclose(drawn.var(), mechanism.variance(), rtol=0.1)


def rank_law(counts: np.ndarray, wanted: float, per_rank: float, logs: np.ndarray) -> np.ndarray:
    """Probabilities of places by the definition, for one group."""
    ranks, scores = 0.0, [-max(wanted, 0.0)]
    for count in counts:
        scores.append(-max(ranks - wanted, wanted - ranks - count, 0.0))
        ranks += count
    scores.append(-max(ranks - wanted, 0.0))
    weights = np.exp(per_rank * np.array(scores) + logs)
    return weights / weights.sum()


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(("is_paired", "n_groups"), [(False, 3), (True, 1)])
def test_ranks_have_their_law(is_paired: bool, n_groups: int, is_weighted: bool) -> None:
    q, epsilon, size, slack = 0.8, 1.5, 2.0, -1.2
    logs = np.log([1, 4, 2, 1, 3, 2, 1, 1]) * is_weighted
    per_rank = epsilon / 2 / (size * (0.5 if is_paired else q))
    start = np.array([[3, 0, 0, 4, 1, 0], [0, 0, 2, 0, 0, 5], np.zeros(6)])[:n_groups]
    weights = (tuple(logs),) if is_weighted else ()
    mechanism = RankMechanism(size, epsilon, n_groups, ((q, slack),), is_paired, weights)
    counts = np.append(start, 7.0)  # of what is missing
    drawn = np.array([mechanism.release(counts, ledger=None)[:, 0] for _ in range(3000)])
    for group in range(n_groups):
        law = rank_law(start[group], q * start[group].sum() + slack, per_rank, logs)
        found = np.bincount(drawn[:, group], minlength=8)
        assert stats.chisquare(found, law * len(drawn)).pvalue > FALSE_ALARM


def truths(rows: pd.DataFrame) -> dict[str, float]:
    both = rows.dropna(subset=["x"])
    at = {"method": "inverted_cdf"}
    return {
        "count": len(rows),
        "mean": both["x"].mean(),
        "sum": both["x"].sum(),
        "variance": both["x"].var(ddof=0),
        "quantile": np.quantile(rows["k"], 0.7, **at),
        "correlation": both["x"].corr(both["y"]),
    }


ASKED: dict[str, Callable[..., ReleasedStatistic]] = {
    "count": release_counts,
    "mean": partial(release_mean, column="x"),
    "sum": partial(release_sum, column="x"),
    "variance": partial(release_variance, column="x"),
    "quantile": partial(release_quantiles, column="k", at=0.7),
    "correlation": partial(release_correlation, columns=["x", "y"]),
}


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ASKED)
def test_error_bars_hold(name: str, relation: str, epsilon: float) -> None:
    """Coverage in 250 groups, and of one group again and again; two-sided for exact error bars."""
    n_groups, rng = 250, np.random.default_rng(3)
    rows = table(n_groups * 120, 4).assign(g=rng.integers(0, n_groups, n_groups * 120))
    rows["y"] = np.clip(rows["x"].fillna(0) + rng.normal(4, 2, len(rows)), 0, 10)
    known = {**COLUMNS, "g": {"type": "int64", "lower": 0, "upper": n_groups - 1}}
    options: dict[str, Any] = {"bounds": known, "epsilon": epsilon, "relation": relation}
    many = ASKED[name](rows, by="g", bins=n_groups, **options).table.to_pylist()[:n_groups]
    alone = rows[rows["g"] < 3]
    exact = [truths(part)[name] for _, part in rows.groupby("g")]
    pairs = list(zip(many, exact, strict=True))
    once = truths(alone)[name]
    pairs += [(ASKED[name](alone, **options).table.to_pylist()[0], once) for _ in range(30)]
    inside = sum(row["low"] - 1e-9 <= truth <= row["high"] + 1e-9 for row, truth in pairs)
    chance = stats.binom(len(pairs), 0.95)
    assert inside >= chance.ppf(FALSE_ALARM)
    if name in ("mean", "sum"):  # the others are wider on purpose, or step by step
        assert inside <= stats.binom(len(pairs), 0.97).ppf(1 - FALSE_ALARM)
    figure = "quantile" if name == "quantile" else name
    far = [abs(row[figure] - truth) for row, truth in pairs[:n_groups] if row[figure] is not None]
    assert len(far) > 0.9 * n_groups or (name, epsilon) == ("correlation", 0.5)  # too few


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
@pytest.mark.parametrize(("relation", "delta"), zip(RELATIONS, (0.0, 1e-5), strict=True))
def test_error_bars_of_ranges_hold(relation: str, delta: float, epsilon: float) -> None:
    """In 300 groups, a range of each; and of one group, of which the total may be known, in 60."""
    n_groups, rng = 300, np.random.default_rng(3)
    rows = table(n_groups * 40, 4).assign(g=rng.integers(0, n_groups, n_groups * 40))
    rows["z"] = rng.integers(0, 200, len(rows))
    known = {"g": {"type": "int64", "lower": 0, "upper": n_groups - 1}}
    known["z"] = {"type": "int64", "lower": 0, "upper": 199}
    asked: dict[str, Any] = {"bounds": known, "epsilon": epsilon, "delta": delta}
    asked |= {"relation": relation, "ranges": [(i, i + 99) for i in range(0, 100, 7)]}
    many = release_histogram(rows, "z", by="g", bins=n_groups, **asked).to_pandas()
    per_group = many.groupby("g").nth(4).reset_index()[:n_groups]
    exact = rows[rows["z"].between(28, 127)].groupby("g").size()
    pairs = list(zip(per_group["low"], exact, per_group["high"], strict=True))
    once = rows["z"].between(28, 127).sum()
    for _ in range(60):
        found = release_histogram(rows, "z", **asked).table.slice(4, 1).to_pylist()[0]
        assert (found["from"], found["to"]) == (28, 127)
        pairs.append((found["low"], once, found["high"]))
    inside = sum(low <= truth <= high for low, truth, high in pairs)
    assert inside >= stats.binom(len(pairs), 0.95).ppf(FALSE_ALARM)
    if epsilon < 8 and relation == "replace_one":  # noise of whole numbers is wider than asked
        assert inside <= stats.binom(len(pairs), 0.975).ppf(1 - FALSE_ALARM)


def test_error_bars_of_ranges_hold_where_most_noise_is_zero() -> None:
    rows = pd.DataFrame({"g": np.repeat(np.arange(1000), 9), "k": np.tile(np.arange(9), 1000)})
    known = {n: {"type": "int64", "lower": 0, "upper": most} for n, most in rows.max().items()}
    asked = {"bounds": known, "epsilon": 3.0, "relation": "add_or_remove_one", "bins": 1000}
    found = release_histogram(rows, "k", by="g", ranges=[(0, 2), (1, 4)], **asked).to_pandas()
    exact = found["to"] - found["from"] + 1
    inside = exact.between(found["low"], found["high"])[found["g"].notna()]
    assert inside.sum() >= stats.binom(len(inside), 0.95).ppf(FALSE_ALARM)


@pytest.mark.filterwarnings("ignore:delta=0.1 is above")  # so that the noise is Gaussian
def test_error_bars_of_each_range_are_as_long_as_its_noise() -> None:
    """The squared errors of 500 groups, Gaussian, beside bars of one deviation: two-sided."""
    places, n_groups, ranges = range(12), 500, [(0, 0), (3, 4), (2, 7), (0, 10), (11, 11)]
    names = ["g", "k", "copy"]
    cells = pd.MultiIndex.from_product([range(n_groups), places, range(60)], names=names)
    known = {"g": {"type": "int64", "lower": 0, "upper": n_groups - 1}}
    known["k"] = {"type": "int64", "lower": 0, "upper": max(places)}
    asked: dict[str, Any] = {"by": "g", "bounds": known, "bins": n_groups, "ranges": ranges}
    asked |= {"epsilon": 0.1, "delta": 0.1, "confidence": stats.chi2(1).cdf(1.0)}
    found = release_histogram(cells.to_frame(index=False), "k", **asked).to_pandas()
    for _, part in found[found["g"].notna()].groupby(["from", "to"]):
        bar = (part["high"] - part["low"]).mean() / 2 + 0.5  # ends are rounded inwards
        errors = part["count"] - 60 * (part["to"] - part["from"] + 1)
        chance = stats.chi2(n_groups).cdf((errors**2).sum() / bar**2)
        assert FALSE_ALARM / 10 < chance < 1 - FALSE_ALARM / 10


def test_ranges_of_numbers_and_days() -> None:
    rows = table(4000)
    given = {**COLUMNS, "day": {**COLUMNS["day"], "parts": ["month", "time"]}}
    asked = partial(release_histogram, rows, bounds=given, epsilon=1e6)
    ages = asked("k", ranges=[(0, 9), (10, 99), (3, 3)]).to_pandas()
    assert ages["count"].tolist() == [
        rows["k"].between(*r).sum() for r in ((0, 9), (10, 40), (3, 3))
    ]
    assert ages["to"].tolist() == [9, 40, 3]
    days = asked("day", ranges=[("2023-02-01", "2023-02-28")], by="ward").to_pandas()
    assert days["from"].tolist() == ["2023-02-01"] * 4
    exact = rows[(rows["day"].dt.month == 2) & (rows["day"].dt.year == 2023)]
    assert days["count"].tolist() == [
        *exact["ward"].value_counts()[["A", "B", "C", "?"]],
    ]
    assert asked("day.time", ranges=[("2023-02-01", "2023-02-28")]).table["count"][0].as_py()
    every = asked("x", bins=4, ranges="all").to_pandas()
    assert len(every) == 10
    upper = every[every["to"] == 6.0]["count"]  # numbers at the upper bound are in the last range
    assert upper.tolist() == [rows["x"].between(low, 6).sum() for low in (-2, 0, 2, 4)]
    flat = release_histogram(rows, "k", bins=41, bounds=given, epsilon=1.0).table.to_pydict()
    assert sum(flat["count"]) > 3900
    assert asked("time", bins=2).table["to"].to_pylist()[1] == "2024-12-31"


def test_counts_of_ranges_err_less_than_sums_of_bins() -> None:
    rows = pd.DataFrame({"z": np.random.default_rng(0).uniform(0, 1, 3000)})
    asked = {"bounds": {"z": (0, 1)}, "bins": 300, "epsilon": 1.0}
    edges, errors = np.linspace(0, 1, 301), []
    for _ in range(2):
        every = release_histogram(rows, "z", ranges="all", **asked).to_pandas()
        exact = np.histogram(rows["z"], edges)[0]
        below = np.concatenate([[0], np.cumsum(exact)])
        i, j = np.triu_indices(300)
        tree = np.sqrt(np.mean((every["count"] - (below[j + 1] - below[i])) ** 2))
        flat = release_histogram(rows, "z", **asked).to_pandas()["count"][:300]
        moved = np.concatenate([[0], np.cumsum(flat)]) - below
        errors.append((tree, np.sqrt(np.mean((moved[j + 1] - moved[i]) ** 2))))
    assert np.median(errors, axis=0)[0] < np.median(errors, axis=0)[1]


@pytest.mark.parametrize("name", QUESTIONS)
def test_all_is_charged_first_and_nothing_else_reads_rows(name: str) -> None:
    """Tape against charge; and other rows under the same noisy sums give the same figures."""
    budget = Ledger().create(
        "patients", epsilon=1.0, unit="person", relation="add_or_remove_one", delta=0.0
    )
    options = {"bounds": bounds("average"), "epsilon": 1.0, "relation": "add_or_remove_one"}
    with taped() as tape:
        found = QUESTIONS[name](table(300), ledger=budget, **options)
    assert 0.999 < budget.spent() <= 1.0
    assert budget.statement().charges >= 1
    assert tuple(each.mechanism.event() for each in tape.releases) == found.guarantee.events
    assert found.guarantee.epsilon == 1.0
    assert found.guarantee.unit == "person"
    assert found.guarantee.charges == (budget.history()[0].mark,)
    with taped(tape):
        again = QUESTIONS[name](table(90, seed=7), **options)
    assert again.table.equals(found.table)
    with taped() as tape, pytest.raises(Exception, match="refuses"):
        QUESTIONS[name](table(300), ledger=budget, **options)
    assert not tape.releases


@pytest.mark.parametrize("column", ["x", "y", "k"])
@pytest.mark.parametrize(
    "ask", [release_sum, release_mean, release_variance, release_histogram, release_quantiles]
)
def test_a_secret_number_of_rows_decides_nothing(ask: Callable[..., Any], column: str) -> None:
    """That of all records; or of the rows of as many persons, each with few or many."""

    def rows(n: int, n_persons: int, seed: int = 0) -> pd.DataFrame:
        return table(n, seed).assign(id=np.arange(n) % n_persons)

    for person, relation, tables in (  # on both sides of rules by the number of rows
        (None, "add_or_remove_one", [rows(n, 1, 7) for n in (0, 9, 20_000)]),
        ("sum", "replace_one", [rows(n, 300, 7) for n in (600, 1200)]),
    ):
        options = {"bounds": bounds(person), "epsilon": 1.0, "relation": relation}
        with taped() as tape:
            found = ask(rows(300, 300), column, **options)
        for other in tables:
            with taped(tape) as replay:
                again = ask(other, column, **options)
            assert again.table.equals(found.table)
            assert [r.mechanism for r in replay.releases] == [r.mechanism for r in tape.releases]


def test_odd_cells_are_missing_and_nothing_else() -> None:
    plain = table(400).astype(object)
    odd = plain.copy()
    odd.loc[plain["x"].isna(), "x"] = ["?", None, "1,5,3"] * 10 + ["x"] * (
        int(plain["x"].isna().sum()) - 30
    )
    odd.loc[plain["ward"] == "?", "ward"] = [None, 7, " A B "] + ["?"] * (
        int((plain["ward"] == "?").sum()) - 3
    )
    for name, question in QUESTIONS.items():
        released = []
        for rows in (plain, odd):
            with seeded(5):
                released.append(question(rows, bounds=bounds(None), epsilon=1.0).table)
        assert released[0].equals(released[1]), name


def test_persons_count_once_or_as_rows() -> None:
    rows = pd.DataFrame(
        {"id": [1] * 3 + list(range(2, 402)), "ward": ["A", "B", "B"] + ["A"] * 400}
    )
    known = {"columns": {"ward": ["A", "B"]}, "person": "id", "person_rows": 2}
    for way, expected in (("average", (400.5, 0.5, 0.0)), ("sum", (401, 1, 0))):
        given = TableBounds.from_dict(**known, per_person=way)
        found = release_counts(rows, "ward", bounds=given, epsilon=1e6).table["count"].to_pylist()
        assert np.abs(np.array(found) - expected).max() < 1.01
        with taped() as tape:  # averages are not whole: rounding would move them further apart
            release_counts(rows, "ward", bounds=given, epsilon=1.0)
        (released,) = tape.releases
        assert isinstance(released.mechanism, DiscreteLaplaceMechanism) == (way == "sum")
    (whole,) = release_counts(rows, bounds=given, epsilon=1e6).table["count"].to_pylist()
    assert whole == 402


def test_a_mean_is_that_of_the_cells_that_are_there() -> None:
    rows = pd.DataFrame({"age": [20.0] * 9200 + [np.nan] * 800})
    (found,) = release_mean(rows, "age", bounds={"age": (0, 120)}, epsilon=1.0).table.to_pylist()
    assert abs(found["mean"] - 20) < 0.5
    assert found["count_low"] < 9200 < found["count_high"]
    known = {"age": {"lower": 1, "upper": 120, "log": True, "missing": True}}
    (found,) = release_sum(rows, "age", bounds=known, epsilon=1.0).table.to_pylist()
    assert abs(found["sum"] - 9200 * 20) < 3000  # of the numbers, not of their logarithms
    (found,) = release_sum(rows, "age", bounds={"age": (0, 15)}, epsilon=1.0).table.to_pylist()
    assert abs(found["sum"] - 9200 * 15) < 500  # those outside are at the nearest bound


def test_groups_of_dates_numbers_and_the_target(tmp_path: Path) -> None:
    rows = table(2000)
    given = TableBounds.from_dict(COLUMNS, target="ward")
    asked = partial(release_counts, bounds=given, epsilon=50.0)
    found = asked(rows, ["day.year", "ward"]).to_pandas()
    assert list(found.columns) == ["day.year", "ward", "count", "low", "high"]
    assert set(found["day.year"].dropna()) == {2023, 2024}
    months = asked(rows, "month").table
    assert months["month"].to_pylist() == [*range(1, 13), None]
    wards = asked(rows, "ward").table.to_pylist()
    assert wards[-1]["ward"] is None  # what the bounds do not list
    assert abs(wards[-1]["count"] - (rows["ward"] == "?").sum()) <= 3
    exact = rows["day"].dt.month.value_counts().sort_index()
    assert np.abs(np.array(months["count"].to_pylist()[:12]) - exact).max() <= 3
    assert asked(rows, "k", bins=4).table["k"].to_pylist()[:2] == ["0 to 9", "10 to 19"]
    edges = release_histogram(rows, "k", bins=4, bounds=given, epsilon=1.0).table.to_pydict()
    assert edges["from"] == [0, 10, 20, 30, None]
    assert edges["to"] == [9, 19, 29, 40, None]
    whole = release_quantiles(rows, "k", at=[0.2, 0.5], bounds=given, epsilon=1.0)
    assert all(each == int(each) for each in whole.table["quantile"].to_pylist())
    rows.to_csv(tmp_path / "t.csv")
    with seeded(1):
        there = release_mean(str(tmp_path / "t.csv"), "y", by="ward", bounds=given, epsilon=1.0)
    with seeded(1):
        here = release_mean(rows, "y", by="ward", bounds=given, epsilon=1.0)
    assert there.table.equals(here.table)
    here.write(tmp_path / "means.csv")
    assert promise_in(tmp_path / "means.csv")["guarantee"] == here.guarantee.to_dict()
    assert "error bars hold" in str(here)


def test_what_cannot_be_asked_is_refused_before_a_charge() -> None:
    budget = Ledger().create("patients", epsilon=1.0, delta=0.0)
    rows, known = table(50), {"bounds": bounds(None), "epsilon": 1.0, "ledger": budget}
    for ask in (
        lambda: release_mean(rows, "ward", **known),
        lambda: release_counts(rows, "day", **known),
        lambda: release_counts(rows, "nothing", **known),
        lambda: release_quantiles(rows, "k", at=[1.5], **known),
        lambda: release_histogram(rows, "x", bins=[3, 2], **known),
        *(
            partial(release_histogram, rows, name, ranges=ranges, **known)
            for name, ranges in {
                "x": [(3, 2)],
                "far": [],
                "k": [(50, 60)],
                "y": [(10**400, 10**401)],
                "ward": "all",
                "month": 3,
            }.items()
        ),
        lambda: release_histogram(rows, "x", bins=2000, ranges="all", **known),
        lambda: release_counts(rows, "x", **{**known, "confidence": 2.0}),
        lambda: release_counts(rows, "x", bounds=None, epsilon=1.0),
    ):
        with pytest.raises((InvalidInputError, MissingBoundsError)):
            ask()
    assert budget.spent() == 0
