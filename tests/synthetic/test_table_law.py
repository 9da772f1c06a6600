"""The law of a table: what crosses the boundary, how far one record moves it, and its rows."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare

from sfumato import Fabricator, TableBounds, load, save
from sfumato.audit.testing import seeded_noise
from sfumato.audit.testing.contracts import moved_share
from sfumato.audit.testing.taint import taint_test
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.base import Tape, taped
from sfumato.mechanisms.exponential import SpanningTreeMechanism
from sfumato.sums.statistics import EDGES
from sfumato.synthetic.cells import MAX_CATEGORIES, TableCells, public_columns
from sfumato.synthetic.table_law import (
    PAIR_SIGNAL,
    TableLaw,
    cells_that_stand_out,
    fitted_tail,
    n_halvings,
    share_out,
)

FACTS: dict[str, Any] = {
    "age": {"type": "int64", "lower": 0, "upper": 100},
    "ward": ["A", "B", "C"],
    "income": {"lower": 0, "upper": 200_000, "decimals": 2},
    "kids": {"type": "int64", "lower": 0, "upper": 10, "missing": True},
    "ill": ["no", "yes"],
}
BOUNDS = TableBounds.from_dict(FACTS, target="ill")
PLAIN = TableBounds.from_dict({name: fact for name, fact in FACTS.items() if name != "ill"})
RELATIONS = ["replace_one", "add_or_remove_one"]
LAW = sys.modules[TableLaw.__module__]


def people(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.choice(["no", "yes"], n, p=[0.7, 0.3])
    age = np.clip(rng.normal(np.where(ill == "yes", 60, 40), 12), 0, 100).round().astype(int)
    ward = np.where(rng.random(n) < np.where(age > 50, 0.9, 0.3), "A", "B")
    income = np.where(rng.random(n) < 0.4, 0.0, rng.gamma(2, 10_000, n))
    kids = np.where(rng.random(n) < 0.1, np.nan, rng.poisson(1.5, n))
    return pd.DataFrame({"age": age, "ward": ward, "income": income, "kids": kids, "ill": ill})


def fabricator(**parameters: Any) -> Fabricator:
    usual = {"epsilon": 2.0, "delta": 1e-5, "bounds": BOUNDS, "random_state": 0}
    return Fabricator(**{**usual, **parameters})


def releases(table: pd.DataFrame, playback: Tape | None = None, **parameters: Any) -> Tape:
    with taped(playback) as tape:
        fabricator(**parameters).fit(table)
    return tape


# What crosses the boundary ------------------------------------------------------------------------


@pytest.mark.parametrize("with_pairs", [True, False])
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_record_moves_a_release_further_than_its_sensitivity(
    relation: str, with_pairs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brute force over odd and ordinary last records; counts attain 90 % and more."""
    monkeypatch.setattr(LAW, "PAIR_SIGNAL", 0.0 if with_pairs else math.inf)
    table = people(60)
    rows = [
        (0, "A", 0.0, 1.0, "no"),
        (100, "C", 2e5, np.nan, "yes"),
        (37, "B", 5e4, 3.0, "yes"),
        (-9, "odd", np.inf, 99.0, "no"),
    ]
    last = [table.copy() for _ in rows]
    for each, row in zip(last, rows, strict=True):
        each["kids"] = each["kids"].astype(float)
        each.loc[len(each) - 1] = row
    last += [table.iloc[:-1]] if relation == "add_or_remove_one" else []
    first = releases(last[0], relation=relation)
    tapes = [first] + [releases(each, first, relation=relation) for each in last[1:]]
    pairs = list(itertools.combinations(range(len(last)), 2))
    if relation == "add_or_remove_one":
        pairs = [(place, len(last) - 1) for place in range(len(rows))]
    moved = np.array(
        [
            [moved_share(a, b) for a, b in zip(tapes[i].releases, tapes[j].releases, strict=True)]
            for i, j in pairs
        ]
    )
    # Cuts, columns, classes, moment, choices, three draws of pairs; else three of them once more
    assert moved.shape[1] == (8 if with_pairs else 7)
    assert moved.max() <= 1 + 1e-12
    counts = [0, 1, 2, 4, 5, 6, 7] if with_pairs else [0, 1, 2, 3, 4]
    assert (moved.max(axis=0)[counts] >= 0.75).all(), moved.max(axis=0)
    assert (moved.max(axis=0) >= 0.3).all(), moved.max(axis=0)  # few rows reach the longest score


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_column_that_is_counted_twice_is_paid_for(relation: str) -> None:
    """Five tables of four columns; the record that differs in all of them attains the most."""
    facts: dict[str, Any] = {"x": (0, 1), **{name: ["n", "y"] for name in "abc"}}
    about: dict[str, Any] = {"relation": relation, "bounds": TableBounds.from_dict(facts)}
    flags = {name: ["n", "y"] * 30 for name in "abc"}
    table = pd.DataFrame({"x": np.linspace(0.4, 0.6, 60), **flags})
    other = pd.concat([table, pd.DataFrame({"x": [0.99], **{name: ["y"] for name in "abc"}})])
    if relation == "replace_one":
        table = pd.concat([table, pd.DataFrame({"x": [0.01], **{name: ["n"] for name in "abc"}})])
    tape = releases(table, **about)
    pairs = zip(tape.releases, releases(other, tape, **about).releases, strict=True)
    moved = [moved_share(a, b) for a, b in pairs]
    assert max(moved) <= 1 + 1e-12
    assert moved[1] == pytest.approx(1)  # columns alone


@pytest.mark.parametrize("relation", RELATIONS)
def test_nothing_after_the_releases_reads_a_row(relation: str) -> None:
    n = 300 if relation == "replace_one" else 30_000  # beyond the floors of rules by the number
    taint_test(fabricator(relation=relation), people(300), people(n, seed=5))


# The choice of the tree ---------------------------------------------------------------------------


def free_pairs(pairs: Any, before: Any) -> list[int]:
    """Which pairs may come next: no circle."""
    part = list(range(1 + max(max(pair) for pair in pairs)))
    for k in before:
        i, j = (part[end] for end in pairs[k])
        part = [i if each == j else each for each in part]
    return [k for k, (i, j) in enumerate(pairs) if part[i] != part[j]]


PAIRS = tuple(itertools.combinations(range(4), 2))


def test_when_all_columns_are_joined_another_tree_begins() -> None:
    """Every pair once; the second tree takes what the first had to leave, the best first."""
    scores = np.array([9.0, 8.0, 1.0, 7.0, 2.0, 3.0])  # the fourth would close a circle
    found = SpanningTreeMechanism.best(scores, 9, PAIRS).tolist()
    assert found == [list(PAIRS[k]) for k in (0, 1, 5, 3, 4, 2)]
    none = (np.zeros(1),) * 6
    mechanism = SpanningTreeMechanism(1.0, math.inf, 5, PAIRS, none, (0.0,) * 6)
    assert mechanism.release(scores, ledger=None).tolist() == found[:5]


def test_pairs_are_chosen_as_often_as_they_should() -> None:
    """The chances of all first two choices, by counting; one false alarm in a million."""
    pairs, counts = PAIRS, np.array([1.0, 0.0, 2.0, 1.0, 0.0, 1.0])
    mechanism = SpanningTreeMechanism(1.0, 2.0, 2, pairs, (np.zeros(1),) * 6, (0.0,) * 6)
    with seeded_noise(4):
        drawn = [mechanism.release(counts, ledger=None) for _ in range(2000)]
    chances, weights = {}, np.exp(counts)
    for first in range(6):
        free = free_pairs(pairs, [first])
        for second in free:
            chance = weights[first] / weights.sum() * weights[second] / weights[free].sum()
            chances[pairs[first], pairs[second]] = chance
    found = [sum(tuple(map(tuple, each)) == both for each in drawn) for both in chances]
    assert sum(found) == 2000
    assert chisquare(found, 2000 * np.array([*chances.values()])).pvalue > 1e-6


# Rules --------------------------------------------------------------------------------------------


def test_public_rules() -> None:
    assert [n_halvings(5, n, 0.3, 1.0) for n in (10, 10_000, 50_000, 10**6)] == [3, 4, 6, 7]
    assert n_halvings(5, 10_000, 0.3, 2.0) == 3  # replacing one moves two counts
    for n, parameters, pairs in ((300, {}, 0), (20_000, {}, 4), (20_000, {"epsilon": 0.01}, 0)):
        law = fabricator(**parameters).fit(people(n)).released_law()
        assert len(law.released["tree"]) == pairs
        assert not pairs or law.n_rows >= PAIR_SIGNAL * law.released["noise"][3]


def test_cells_that_do_not_stand_out_are_joined() -> None:
    """Of three and a half noises or more alone; others with their neighbours until they are."""
    counts = np.array([500.0, 3.0, -2.0, 4.0, 60.0, 60.0, 9.0, 9.0, 9.0, 9.0, 1.0])
    assert cells_that_stand_out(counts, 10.0) == [0, 1, 4, 5, 6]
    assert cells_that_stand_out(counts, 0.1)[:4] == [0, 1, 2, 3]
    assert cells_that_stand_out(np.zeros(4), 10.0) == [0]


def test_a_tail_keeps_its_mean(rng: np.random.Generator) -> None:
    """Released quantiles of long and short tails; drawn evenly, these means would be far off."""
    for drawn in (rng.pareto(3, 40_000), rng.exponential(size=40_000), rng.random(40_000)):
        values = np.minimum(1000 * drawn, 2e5)
        table = pd.DataFrame({"income": values, "kids": 0.0})
        facts = {"income": (0, 2e5), "kids": (0, 1)}
        model = fabricator(epsilon=3.0, bounds=TableBounds.from_dict(facts)).fit(table)
        assert model.fabricate()["income"].mean() == pytest.approx(values.mean(), rel=0.1)


def test_whatever_its_range_a_column_keeps_its_mean(rng: np.random.Generator) -> None:
    """Counts with a long tail, a constant and a column half missing, in ranges far too wide."""
    n = 4000
    table = pd.DataFrame({"visits": rng.negative_binomial(0.5, 0.1, n), "always": 7})
    table["income"] = np.where(rng.random(n) < 0.5, np.nan, rng.lognormal(0, 1, n))
    facts: dict[str, Any] = {
        "visits": {"type": "int64", "lower": 0, "upper": 1_000_000},
        "always": {"type": "int64", "lower": 0, "upper": 100_000},
        "income": {"lower": 0, "upper": 1_000_000, "missing": True},
    }
    with seeded_noise(0):
        model = fabricator(epsilon=3.0, bounds=TableBounds.from_dict(facts)).fit(table)
    made = model.fabricate().astype(float).mean()
    assert (made / table.mean()).between(0.75, 1.33).all()


def test_a_fitted_tail_is_that_of_its_law(rng: np.random.Generator) -> None:
    """Beside the exact law of Pareto counts; a tail to the left is its mirror image."""
    ends, fine = np.array([0.0, 1, 2, 4, 8, 1000]), 8 * 2.0 ** np.arange(7)
    fine = np.append(fine, 1000)
    law = lambda x: 20_000 * (1 + x) ** -1.5  # noqa: E731
    counts, inner = -np.diff(law(ends)), -np.diff(law(fine)) + rng.normal(0, 20, 7)
    about = counts, ends, fine, inner, np.array([400.0] * 4 + [2800]), 20.0
    found = fitted_tail(*about, is_whole=False)
    assert found is not None
    assert found[0] == pytest.approx(counts[-1], rel=0.1)
    exact = (9 / 0.5 ** (2 / 3) - 1 - 8) / 8  # away from the cut, by the cut
    assert found[1](np.array([0.5]))[0] / 8 - 1 == pytest.approx(exact, rel=0.25)
    left = fitted_tail(counts, -ends, -fine, *about[3:], is_whole=False) or found
    assert left[1](np.array([0.5]))[0] == -found[1](np.array([0.5]))[0]
    assert not fitted_tail(counts, np.array([0.0, 1, 2, 4, 8, 9]), *about[2:], is_whole=True)
    light = fitted_tail(*about[:5], 2e3, is_whole=False, likely_shape=-0.1) or found  # as is likely
    assert light[1](np.array([0.1]))[0] < found[1](np.array([0.1]))[0] / 1.2


def test_cells_of_all_kinds(rng: np.random.Generator) -> None:
    columns = public_columns(BOUNDS)
    assert [column.is_cut for column in columns] == [False, False, True, False]
    cut = TableCells.of(columns, np.array([[0.0, len(EDGES) // 2, 0.0]]))
    assert cut.sizes[2] == 40  # 8 edges on either side of the cut, both ends, powers of two
    cells = TableCells.of(columns, np.zeros((1, 3)))
    assert cells.sizes == (101, 3, 23, 12)  # income: both ends and powers of two
    for given, levels in ((cut, 2), (cells, 0)):  # what is checked before the charge
        assert all(n <= c.max_cells(levels) for n, c in zip(given.sizes, columns, strict=True))
    places = np.column_stack(
        [
            c.places(v)
            for c, v in zip(
                columns, ([17, 18, 65], [0, 1, 2], [0, 1, 2e5], [0, 10, np.nan]), strict=True
            )
        ]
    )
    assert cells(places).tolist() == [[17, 0, 0, 0], [18, 1, 4, 10], [65, 2, 22, 11]]
    for i, column in enumerate(columns):
        codes = rng.integers(0, cells.sizes[i], 500)
        order, state = rng.random(500), np.random.RandomState(0)
        values, missing = cells.draw(i, codes, np.ones(cells.sizes[i]), order, state)
        back = np.full((500, 4), np.nan)
        back[:, i] = column.places(np.where(missing, np.nan, values))
        np.testing.assert_array_equal(cells(back)[:, i], codes)


def test_whole_rows_meet_their_shares(rng: np.random.Generator) -> None:
    weights = rng.dirichlet(np.ones(9))
    draws = np.array([share_out(weights, 100, np.random.RandomState(k)) for k in range(400)])
    assert (draws.sum(axis=1) == 100).all()
    assert np.abs(draws - 100 * weights).max() < 1 + 1e-9  # floor or ceiling
    assert np.abs(draws.mean(axis=0) - 100 * weights).max() < 0.12


# Rows ---------------------------------------------------------------------------------------------


def test_pairs_beyond_the_tree_are_met_and_a_class_without_rows_does_no_harm() -> None:
    """Three columns tied in a circle, which no tree holds; oracle: the rows."""
    rng = np.random.default_rng(8)
    a, b = rng.integers(0, 4, (2, 20_000))
    c = np.where(rng.random(20_000) < 0.8, (a + b) % 4, rng.integers(0, 4, 20_000))
    y = np.where(rng.random(20_000) < 0.9, c > 1, a > 1).astype(int)
    table = pd.DataFrame({"a": a, "b": np.where(rng.random(20_000) < 0.7, a, b), "c": c})
    names = list(table)
    table = table.astype(str).assign(y=y)
    facts = {name: list("0123") for name in names} | {
        "y": list(range(8))
    }  # six classes have no row
    bounds = TableBounds.from_dict(facts, target="y")
    with seeded_noise(3):
        made = fabricator(bounds=bounds).fit(table).fabricate()
    for one, two in itertools.combinations([*names, "y"], 2):
        shares = [pd.crosstab(t[one], t[two], normalize=True).stack() for t in (table, made)]
        assert shares[0].sub(shares[1], fill_value=0).abs().sum() / 2 < 0.04, (one, two)


def test_fabricated_rows_are_like_the_table() -> None:
    table = people(6000)
    with seeded_noise(1):
        model = fabricator().fit(table)
    made = model.fabricate()
    assert "names, types, ranges and categories of the columns" in model.guarantee_.public
    assert len(made) == 6000
    assert made.dtypes.to_dict() == table.dtypes.to_dict()
    ill = made["ill"]
    assert (ill == "yes").mean() == pytest.approx((table["ill"] == "yes").mean(), abs=0.02)
    assert made["kids"].isna().mean() == pytest.approx(0.1, abs=0.02)
    assert (made["income"] == 0).mean() == pytest.approx(0.4, abs=0.03)
    np.testing.assert_array_equal(made["income"], made["income"].round(2))
    real = table.loc[table["ill"] == "yes", "age"]
    assert made.loc[ill == "yes", "age"].mean() == pytest.approx(real.mean(), abs=2.0)
    assert (made.loc[made["age"] > 55, "ward"] == "A").mean() > 0.75
    assert (made.loc[made["age"] < 45, "ward"] == "A").mean() < 0.45
    made = fabricator(epsilon=math.inf).fit(table).fabricate()  # no noise
    assert abs(made["ward"].value_counts() - table["ward"].value_counts()).max() <= 1
    counts = [pd.crosstab(t["ward"], t["ill"]).to_numpy() for t in (table, made)]
    assert np.abs(counts[0] - counts[1]).max() < 90


def test_correlations_and_a_numeric_target_are_kept(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    """Oracle: the rows. A correlation of pairs that no tree holds, skewed columns, and dates."""
    z = (
        rng.normal(size=(8000, 3))
        @ np.linalg.cholesky([[1, 0.8, 0.7], [0.8, 1, 0.6], [0.7, 0.6, 1]]).T
    )
    table = pd.DataFrame({"a": z[:, 0], "b": np.exp(z[:, 1]).clip(0, 60), "c": z[:, 2]})
    table["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, 8000), "D")
    table["cost"] = np.rint(20 * np.exp(0.4 * z[:, 0] + 0.1 * rng.normal(size=8000))).astype(int)
    day = {"type": "timestamp[ns]", "parts": ["time"], "lower": "2020-01-01", "upper": "2021-01-01"}
    cost = {"type": "int64", "lower": 0, "upper": 200}
    facts = {"a": (-5, 5), "b": (0, 60), "c": (-5, 5), "day": day, "cost": cost}
    bounds = TableBounds.from_dict(facts, target="cost")
    with seeded_noise(2):
        model = fabricator(bounds=bounds, relation="add_or_remove_one").fit(table)
    made = model.fabricate()
    assert list(made.columns) == list(table.columns)
    assert made.dtypes["day"].kind == "M"
    assert made.dtypes["cost"] == np.int64
    numbers = ["a", "b", "c", "cost"]
    away = (made[numbers].corr() - table[numbers].corr()).abs().to_numpy()
    assert away.max() < 0.12
    assert made["cost"].mean() == pytest.approx(table["cost"].mean(), rel=0.05)
    for unread in (model, fabricator(bounds=bounds).fit(table.assign(cost=0.5))):
        save(unread, tmp_path / "rows.sfumato")
        assert list(load(tmp_path / "rows.sfumato").fabricate()) == list(table)
    with pytest.raises(InvalidInputError, match="without 'y'"):
        model.fit(table, table["cost"])


def test_the_copula_is_that_of_its_moment() -> None:
    """Without noise, correlations of the Gaussians are those that made the cells."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(60_000, 2)) @ np.array([[1, 0.6], [0, 0.8]])
    table = pd.DataFrame({"x": z[:, 0] > 0.8, "y": np.digitize(z[:, 1], [-1, 0.2, 1])})
    facts = {"x": bool, "y": {"type": "int64", "lower": 0, "upper": 3}}
    law = (
        fabricator(epsilon=math.inf, bounds=TableBounds.from_dict(facts)).fit(table).released_law()
    )
    assert law.correlations[0, 1] == pytest.approx(0.6, abs=0.07)  # lengths are bounded


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_rows_one_column_and_none(n: int) -> None:
    table = people(20).iloc[:n]
    made = fabricator(relation="add_or_remove_one").fit_fabricate(table)
    assert len(made) >= 1
    model = fabricator(
        relation="add_or_remove_one", bounds=TableBounds.from_dict({"ward": ["A", "B", "C"]})
    ).fit(table)
    assert len(model.guarantee_.events) == 1
    assert model.released_["tree"].shape == (0, 2)
    assert set(model.fabricate()["ward"]) <= {"A", "B", "C"}


def test_rare_categories_are_redrawn_evenly() -> None:
    names = [f"t{k:03d}" for k in range(MAX_CATEGORIES + 16)]
    bounds = TableBounds.from_dict({"town": names, "age": (0, 100)})
    table = pd.DataFrame({"town": names[70:] * 60, "age": np.linspace(0, 100, 600)})
    model = fabricator(epsilon=math.inf, bounds=bounds).fit(table)
    assert model.released_law().fine.sizes[0] == MAX_CATEGORIES
    share = (model.fabricate()["town"] == "t079").mean()
    assert 0.03 < share < 0.09  # 1 of 17 that share a cell
