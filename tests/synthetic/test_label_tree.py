"""The label tree: what crosses the boundary, how far one record moves it, and the rows it makes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare, kstest

from sfumato import Bounds, Fabricator, TableBounds
from sfumato.audit.testing import seeded_noise
from sfumato.audit.testing.contracts import moved_share, uniform_scores
from sfumato.audit.testing.taint import taint_test
from sfumato.exceptions import InvalidInputError, UnsupportedModeError
from sfumato.mechanisms.base import Tape, taped
from sfumato.mechanisms.exponential import SecondParentsMechanism, SpanningTreeMechanism
from sfumato.synthetic.cells import (
    MAX_CATEGORIES,
    ColumnCells,
    TableCells,
    parse_constraints,
    public_columns,
    repair,
)
from sfumato.synthetic.label_tree import (
    MAX_COUNTS,
    LabelTree,
    TreeRules,
    coarse_sizes,
    is_tree_worthwhile,
    nearest_masses,
    share_out,
    shrink,
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


def people(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    ill = rng.choice(["no", "yes"], n, p=[0.7, 0.3])
    age = np.clip(rng.normal(np.where(ill == "yes", 60, 40), 12), 0, 100).round().astype(int)
    ward = np.where(rng.random(n) < np.where(age > 50, 0.9, 0.3), "A", "B")
    income = np.where(rng.random(n) < 0.4, 0.0, rng.gamma(2, 10_000, n))
    kids = np.where(rng.random(n) < 0.1, np.nan, rng.poisson(1.5, n))
    return pd.DataFrame({"age": age, "ward": ward, "income": income, "kids": kids, "ill": ill})


def fabricator(**parameters: Any) -> Fabricator:
    usual = {"epsilon": 2.0, "delta": 1e-5, "bounds": BOUNDS, "random_state": 0, "method": "tree"}
    return Fabricator(**{**usual, **parameters})


def releases(table: pd.DataFrame, playback: Tape | None = None, **parameters: Any) -> Tape:
    with taped(playback) as tape:
        fabricator(**parameters).fit(table)
    return tape


# What crosses the boundary ------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_record_moves_a_release_further_than_its_sensitivity(
    relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brute force over odd and ordinary last records; 90 % and more are attained."""
    monkeypatch.setattr("sfumato.synthetic.label_tree.SECONDS_BY_SIGNAL", ((0.0, 1.0),))
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
    assert moved.shape[1] == 6  # cuts, columns, tree, pairs, second parents, their pairs
    assert moved.max() <= 1 + 1e-12
    assert (moved.max(axis=0) >= 0.9).all(), moved.max(axis=0)


@pytest.mark.parametrize("relation", RELATIONS)
def test_nothing_after_the_releases_reads_a_row(relation: str) -> None:
    n = 300 if relation == "replace_one" else 170
    taint_test(fabricator(relation=relation), people(300), people(n, seed=5))


def test_the_noise_has_its_law() -> None:
    tapes = [releases(people(300, seed)) for seed in range(9)]
    drawn = [release for tape in tapes for release in tape.releases]
    scores = np.concatenate([uniform_scores(each) for each in drawn])
    assert len(scores) > 1900
    assert kstest(scores, "uniform").pvalue > 1e-6
    for factor in (2 / 3, 3 / 2):
        off = np.concatenate([uniform_scores(each, factor) for each in drawn])
        assert kstest(off, "uniform").pvalue < 1e-6


# The choice of the tree ---------------------------------------------------------------------------


def free_pairs(kind: Any, pairs: Any, before: Any) -> list[int]:
    """Which pairs may come next: no circle, or one more parent of a column that has none."""
    if kind is SecondParentsMechanism:
        taken = {pairs[k][0] for k in before}
        return [k for k, (column, _) in enumerate(pairs) if column not in taken]
    part = list(range(1 + max(max(pair) for pair in pairs)))
    for k in before:
        i, j = (part[end] for end in pairs[k])
        part = [i if each == j else each for each in part]
    return [k for k, (i, j) in enumerate(pairs) if part[i] != part[j]]


CHOICES = {
    SpanningTreeMechanism: tuple(itertools.combinations(range(4), 2)),
    SecondParentsMechanism: ((2, 0), (3, 1), (3, 2), (4, 1), (4, 3), (2, 1)),
}


@pytest.mark.parametrize("kind", CHOICES)
def test_every_choice_of_a_pair_keeps_its_range(kind: Any, rng: np.random.Generator) -> None:
    """Given the choices before it, by a law that is written out here; some pair attains 90 %."""
    pairs, worst = CHOICES[kind], 0.0
    for trial in range(20):
        references = rng.integers(0, 6, (6, 3)).astype(float)
        mechanism = kind(1.0, 0.8, 3, pairs, tuple(references), (0.0,) * 6)
        counts = references + (np.arange(6) % 2)[:, None]
        moved = counts.copy()
        if trial == 0:  # one record less: half of the tables nearer to their references
            moved[:, 0] -= 1
        else:  # one more: one cell of each table
            moved[np.arange(6), rng.integers(0, 3, 6)] += 1
        scores = [np.abs(each - references).sum(axis=1) for each in (counts, moved)]
        for before in itertools.chain([()], itertools.permutations(range(6), 1)):
            free = free_pairs(kind, pairs, before)
            np.testing.assert_array_equal(mechanism.allowed(mechanism.pairs, before), free)
            laws = [np.exp(0.4 * each[free]) for each in scores]
            losses = np.log(laws[0] / laws[0].sum()) - np.log(laws[1] / laws[1].sum())
            worst = max(worst, np.ptp(losses), np.abs(losses).max())
    assert 0.9 * 0.8 <= worst <= 0.8 + 1e-9


@pytest.mark.parametrize("kind", CHOICES)
def test_pairs_are_chosen_as_often_as_they_should(kind: Any) -> None:
    """The chances of all first two choices, by counting; one false alarm in a million."""
    pairs, counts = CHOICES[kind], np.array([1.0, 0.0, 2.0, 1.0, 0.0, 1.0])
    mechanism = kind(1.0, 2.0, 2, pairs, (np.zeros(1),) * 6, (0.0,) * 6)
    with seeded_noise(4):
        drawn = [mechanism.release(counts, ledger=None) for _ in range(2000)]
    chances, weights = {}, np.exp(counts)
    for first in range(6):
        free = free_pairs(kind, pairs, [first])
        for second in free:
            chance = weights[first] / weights.sum() * weights[second] / weights[free].sum()
            chances[pairs[first], pairs[second]] = chance
    found = [sum(tuple(map(tuple, each)) == both for each in drawn) for both in chances]
    assert sum(found) == 2000
    assert chisquare(found, 2000 * np.array([*chances.values()])).pvalue > 1e-6


# Rules --------------------------------------------------------------------------------------------


def test_public_rules() -> None:
    by_rows = [TreeRules.of(n, 12, 20.0, 20.0) for n in (1, 1000, 6000, 10_000, 10**6)]
    assert [each.levels for each in by_rows] == [2, 3, 4, 4, 5]
    assert [each.n_seconds for each in by_rows] == [0, 0, 0, 5, 10]
    assert [each.most_values for each in by_rows] == [32, 32, 100, 128, 128]
    assert TreeRules.of(None, 12, 20.0, 20.0) == TreeRules.of(10_000, 12, 20.0, 20.0)
    assert [TreeRules.of(10**6, columns, 1.0, 1.0).n_seconds for columns in (1, 2, 3)] == [0, 0, 1]
    assert [TreeRules.of(n, 3, 20.0, 20.0).margin_share for n in (2999, 3000)] == [0.8, 0.5]
    assert coarse_sizes((16,) * 10, 2) == (16,) * 10
    wide = coarse_sizes((30,) * 300, 2)
    assert max(wide) < 30
    assert 300 * 299 / 2 * max(wide) ** 2 * 2 <= MAX_COUNTS
    for n, cut in ((300, True), (20_000, False)):  # the rule meets the declared columns
        model = fabricator(epsilon=1.0).fit(people(n))
        assert len(model.released_["cuts"]) == 1 + cut  # income, and age


def test_cells_of_all_kinds(rng: np.random.Generator) -> None:
    columns = public_columns(BOUNDS, {"age": [18, 65]})
    assert [column.is_cut for column in columns] == [False, False, True, False]
    cells = TableCells.of(columns, np.zeros((1, 3)))
    assert cells.sizes == (3, 3, 3, 12)  # income: zero, the middle, the upper end
    places = np.column_stack(
        [
            c.places(v)
            for c, v in zip(
                columns, ([17, 18, 65], [0, 1, 2], [0, 1, 2e5], [0, 10, np.nan]), strict=True
            )
        ]
    )
    assert cells(places).tolist() == [[0, 0, 0, 0], [1, 1, 1, 10], [2, 2, 2, 11]]
    for i, column in enumerate(columns):
        codes = rng.integers(0, cells.sizes[i], 500)
        values, missing = cells.draw(i, codes, np.ones(cells.sizes[i]), np.random.RandomState(0))
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


def test_fabricated_rows_are_like_the_table() -> None:
    table = people(6000)
    with seeded_noise(1):
        made, ill = fabricator().fit(table).fabricate()
    assert len(made) == 6000
    assert list(made.columns) == ["age", "ward", "income", "kids"]
    assert made["age"].dtype == np.int64
    assert (ill == "yes").mean() == pytest.approx((table["ill"] == "yes").mean(), abs=0.02)
    assert made["kids"].isna().mean() == pytest.approx(0.1, abs=0.02)
    assert (made["income"] == 0).mean() == pytest.approx(0.4, abs=0.03)
    np.testing.assert_array_equal(made["income"], made["income"].round(2))
    real = table.loc[table["ill"] == "yes", "age"]
    assert made.loc[ill == "yes", "age"].mean() == pytest.approx(real.mean(), abs=2.0)
    assert (made.loc[made["age"] > 55, "ward"] == "A").mean() > 0.75
    assert (made.loc[made["age"] < 45, "ward"] == "A").mean() < 0.45
    made, ill = fabricator(epsilon=math.inf).fit(table).fabricate()  # exact
    counts = [pd.crosstab(t["ward"], y).to_numpy() for t, y in ((table, table["ill"]), (made, ill))]
    np.testing.assert_array_equal(*counts)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_rows_one_column_and_none(n: int) -> None:
    table = people(20).iloc[:n]
    made, labels = fabricator(relation="add_or_remove_one").fit_fabricate(table)
    assert len(made) == len(labels) >= 1
    model = fabricator(
        relation="add_or_remove_one", bounds=TableBounds.from_dict({"ward": ["A", "B", "C"]})
    ).fit(table)
    assert len(model.guarantee_.events) == 1
    assert model.released_["tree"].shape == (0, 2)
    assert set(model.fabricate()["ward"]) <= {"A", "B", "C"}


def test_every_library() -> None:
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    table = pa.Table.from_pandas(people(300), preserve_index=False)
    for library, each in {"polars": pl.from_arrow(table), "pyarrow": table}.items():
        made, _ = fabricator().fit_fabricate(each)
        assert type(made).__module__.partition(".")[0] == library
        assert fabricator(bounds=PLAIN).fit_fabricate(each).shape[1] == 4


def test_conditions_hold_and_shift_the_rest() -> None:
    model = fabricator().fit(people(5000))
    old, ill = model.sample(400, given={"age": 70, "ward": "A"})
    assert set(old["age"]) == {70}
    assert set(old["ward"]) == {"A"}
    assert (ill == "yes").mean() > 0.5
    _, sick = model.sample(50, given={"ill": "yes"})
    assert set(sick) == set(model.sample(50, given={"label": "yes"})[1]) == {"yes"}
    rare, _ = model.sample(20, given={"ward": "C", "age": 0})  # seen by nobody
    assert set(rare["ward"]) == {"C"}
    for wrong in ({"town": 1}, {"ward": "Z"}, {"age": 101}, {"age": "x"}, {"ill": "maybe"}):
        with pytest.raises(InvalidInputError):
            model.sample(5, given=wrong)


def a_tree_with_second_parents(rng: np.random.Generator, n_classes: int = 2) -> LabelTree:
    """Five columns, 0-1, 1-2, 1-3, 3-4, and second parents of a grandparent and of a sibling."""
    sizes, tree = (2, 3, 2, 3, 2), np.array([(0, 1), (1, 2), (1, 3), (3, 4)])
    seconds = np.array([(2, 0), (3, 2), (4, 1)])
    joint = rng.gamma(0.7, size=(*sizes, n_classes))
    columns = tuple(
        ColumnCells(str(k), size, 0, 1, False, None, False) for k, size in enumerate(sizes)
    )

    def counts(tables: Any) -> np.ndarray:
        kept = [tuple(a for a in range(5) if a not in t) for t in tables]
        found = [joint.sum(axis=axes) for axes in kept]
        found = [
            np.moveaxis(t, 0, 1) if len(c) == 2 and c[0] > c[1] else t
            for t, c in zip(found, tables, strict=True)
        ]
        return np.concatenate([1000 * t.ravel() for t in found])

    released = {
        "cuts": np.empty((0, 1)),
        "margins": counts([(k,) for k in range(5)]),
        "pairs": counts(tree.tolist()),
        "tree": tree,
        "noise": np.zeros(2),
        "n_rows": None,
        "seconds": seconds,
        "more_pairs": counts(seconds.tolist()),
        "n_parts": 0,
        "most_values": 32,
    }
    return LabelTree(BOUNDS, columns, n_classes, released)


def the_joint_law(tree: LabelTree) -> np.ndarray:
    """Multiply everything out: the chance of each combination of cells and class."""
    law = np.ones((*tree.cells.sizes, tree.n_classes)) * tree.shares
    for node, table in zip(tree.order, tree._given_parents, strict=True):
        axes = [a for a in (node.column, node.parent, node.second) if a >= 0] + [5]
        kept = table[:, 0] if node.parent < 0 else table
        order = np.argsort(axes)
        shape = [tree.cells.sizes[a] if a in axes else 1 for a in range(5)] + [tree.n_classes]
        law = law * np.transpose(kept, order).reshape(shape)
    return law


def test_second_parents_keep_all_their_pairs(rng: np.random.Generator) -> None:
    tree = a_tree_with_second_parents(rng)
    law = the_joint_law(tree)
    assert law.sum() == pytest.approx(1)
    released = [*zip(tree.released["tree"], tree.pairs, strict=True)]
    released += [*zip(tree.released["seconds"], tree.more_pairs, strict=True)]
    for (i, j), table in released:
        found = law.sum(axis=tuple(a for a in range(5) if a not in (i, j)))
        np.testing.assert_allclose(found if i < j else np.moveaxis(found, 0, 1), table, atol=2e-3)
    cells, classes = tree.draw(4000, np.random.RandomState(0))
    for column in range(5):
        drawn = np.zeros(tree.margins[column].shape)
        np.add.at(drawn, (cells[:, column], classes), 1 / 4000)
        np.testing.assert_allclose(drawn, tree.margins[column], atol=3e-3)


@pytest.mark.parametrize("given", [{}, {4: 1}, {2: 0, 4: 1}, {0: 1, 3: 2}])
@pytest.mark.parametrize("given_class", [None, 1])
def test_conditions_by_messages_are_those_of_the_whole_law(
    given: dict[int, int], given_class: int | None, rng: np.random.Generator
) -> None:
    tree = a_tree_with_second_parents(rng)
    law = the_joint_law(tree)
    for column, cell in given.items():
        law = np.moveaxis(law, column, 0)
        law[np.arange(len(law)) != cell] = 0
        law = np.moveaxis(law, 0, column)
    if given_class is not None:
        law[..., 1 - given_class] = 0
    law /= law.sum()
    tables, weights = tree._conditioned(given, given_class)
    np.testing.assert_allclose(weights, law.sum(axis=(0, 1, 2, 3, 4)), atol=1e-12)
    for node, table in zip(tree.order, tables, strict=True):
        axes = [a for a in (node.column, node.parent, node.second) if a >= 0] + [5]
        found = law.sum(axis=tuple(a for a in range(6) if a not in axes))
        found = np.transpose(found, np.argsort(np.argsort(axes)))
        mine = table[:, 0] if node.parent < 0 else table
        known = found.sum(axis=0) > 1e-12
        np.testing.assert_allclose(
            (mine / np.maximum(mine.sum(axis=0), 1e-300))[:, known],
            (found / np.maximum(found.sum(axis=0), 1e-300))[:, known],
            atol=1e-9,
        )


def test_constraints_are_met() -> None:
    rules = ["if ward == B then kids == 2", "age <= income"]
    model = fabricator(constraints=rules).fit(people(800))
    made, _ = model.fabricate()
    assert (made["age"] <= made["income"]).all()
    kids = made.loc[made["ward"] == "B", "kids"]
    assert set(kids.dropna()) == {2}
    for wrong in ("age < < income", "age <= town", "ward <= age", "if ward == Z then kids == 2", 7):
        with pytest.raises(InvalidInputError, match="constraint"):
            fabricator(constraints=[wrong]).fit(people(50))


def test_constraints_are_read_and_repaired() -> None:
    known = {"first day": None, "last day": None, "stays + more": None, "smoker": None, "a": None}
    texts = [
        "`first day` >= `last day`",
        "a==`first day`+`stays + more` + smoker",
        "if smoker == True then `last day` == 3",
        "if a == 1 then smoker == false",
    ]
    assert [tuple(each) for each in parse_constraints(texts, known)] == [
        ("order", ("last day", "first day"), ()),
        ("sum", ("a", "first day", "stays + more", "smoker"), ()),
        ("if", ("smoker", "last day"), (1.0, 3.0)),
        ("if", ("a", "smoker"), (1.0, 0.0)),
    ]
    with pytest.raises(InvalidInputError, match="backticks"):
        parse_constraints(["first day <= last day"], known)
    values = {"a": np.array([5.0, 1.0, 9.0]), "b": np.array([2.0, 3.0, 4.0]), "total": np.zeros(3)}
    rules = parse_constraints(["b >= a", "total == a + b"], dict.fromkeys(values))
    found = repair(values, rules, {"a": (0.0, 6.0), "b": (0.0, 10.0), "total": (0.0, 20.0)})
    assert [each.tolist() for each in found.values()] == [[2, 1, 4], [5, 3, 9], [7, 4, 13]]


def test_the_method_is_chosen_by_a_public_rule() -> None:
    secret = {"relation": "add_or_remove_one"}  # their number is secret
    for n, parameters, method in (
        (300, {}, "tree"),
        (20, {}, "moments"),  # few rows of numbers
        (20, secret, "tree"),
        (20, {"constraints": ["age <= income"]}, "tree"),
        (50, {"method": "moments"}, "moments"),
    ):
        assert fabricator(**{"method": None, **parameters}).fit(people(n)).method_ == method
    facts = {"n_columns": 30, "epsilon": 1.0, "delta": 1e-5}
    found = [
        is_tree_worthwhile(n, n_numbers=k, **facts) for n, k in ((569, 30), (569, 3), (5**7, 30))
    ]
    assert found == [False, True, True]
    rows, box = np.zeros((50, 2)), {"delta": 1e-5, "bounds": Bounds(lower=0.0, upper=1.0)}
    with pytest.raises(UnsupportedModeError, match="tree"):
        Fabricator(method="tree", **box).fit(rows)
    with pytest.raises(UnsupportedModeError, match="given"):
        Fabricator(**box).fit(rows).sample(5, given={"x0": 0})
    for wrong in ({"town": [1]}, {"ward": [1]}, {"age": [200]}, {"age": [9, 3]}):
        with pytest.raises(InvalidInputError, match="bins"):
            fabricator(bins=wrong).fit(people(50))


def test_rare_categories_are_redrawn_by_public_weights() -> None:
    names = [f"t{k:03d}" for k in range(MAX_CATEGORIES + 16)]
    facts = {"type": "string", "categories": names, "weights": [1.0] * 79 + [9.0]}
    bounds = TableBounds.from_dict({"town": facts, "age": (0, 100)})
    table = pd.DataFrame({"town": names[70:] * 60, "age": np.linspace(0, 100, 600)})
    model = fabricator(epsilon=math.inf, bounds=bounds).fit(table)
    assert model.released_tree().fine.sizes[0] == MAX_CATEGORIES
    share = (model.fabricate()["town"] == "t079").mean()
    assert 0.25 < share < 0.47  # 9 of 25 among the shared ones; evenly it would be 1 of 17


def test_gaussians_under_conditions(rng: np.random.Generator) -> None:
    """The fallback of small tables draws the rest of a row given some columns and the label."""
    ward = rng.choice(["A", "B"], 600)
    age = np.where(ward == "A", 30.0, 70.0) + rng.normal(0, 5, 600)
    table = pd.DataFrame({"ward": ward, "age": age, "cost": 2 * age + rng.normal(0, 5, 600)})
    table["ill"] = np.where(rng.random(600) < age / 100, "yes", "no")
    facts = {"ward": ["A", "B"], "age": (0, 100), "cost": (0, 250), "ill": ["no", "yes"]}
    bounds = TableBounds.from_dict(facts, target="ill")
    model = fabricator(method="moments", epsilon=math.inf, bounds=bounds).fit(table)
    rows, labels = model.sample(1500, given={"ward": "B", "ill": "yes"})
    assert set(rows["ward"]) == {"B"}
    assert set(labels) == {"yes"}
    assert rows["cost"].mean() == pytest.approx(140, abs=12)
    rows, labels = model.sample(1500, given={"age": 31})
    assert (rows["age"].round(9) == 31).all()
    assert rows["cost"].mean() == pytest.approx(62, abs=12)
    assert (rows["ward"] == "A").mean() > 0.9
    assert len(model.fabricate(37)[0]) == 37


def test_fine_cells_are_joined_by_their_masses() -> None:
    bounds = TableBounds.from_dict({"age": {"type": "int64", "lower": 0, "upper": 99}})
    (age,), (given,) = public_columns(bounds), public_columns(bounds, {"age": [18, 65]})
    assert (age.is_fine, age.is_cut, given.is_fine) == (True, False, False)
    fine = TableCells.of((age,), np.empty((0, 1)))
    assert fine.sizes == (100,)
    masses = np.full(100, 0.005)
    masses[40] = 0.505  # an atom stays alone
    joined = fine.joined([masses], 8)
    edges = joined.edges[0]
    assert {-0.5, 39.5, 40.5, 99.5} <= set(edges) <= set(fine.edges[0])
    assert len(edges) <= 3 * 8 + 1
    rows = age.places(np.arange(100.0))[:, None]
    np.testing.assert_array_equal(joined(rows)[:, 0], np.searchsorted(edges, np.arange(100.0)) - 1)
    cells = np.full(4000, int(joined.cell_of(0, 10.0)))
    drawn, _ = joined.draw(0, cells, masses, np.random.RandomState(0), fine)
    assert set(drawn) == {k for k in range(100) if joined.cell_of(0, float(k)) == cells[0]}
    assert age.with_values(100) is age
    assert age.with_values(99).is_cut
    assert not given.with_values(2).is_cut


@pytest.mark.parametrize("kind", ["independent", "diagonal"])
def test_pairs_are_shrunk_where_that_is_nearer_to_the_truth(
    kind: str, rng: np.random.Generator
) -> None:
    """Oracle: the truth. Independent columns under much noise, and columns that say the same."""
    first, second = rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(8))
    if kind == "diagonal":
        second = first
    expected = (first[:, None] * second[None, :])[..., None]
    truth = np.diag(first)[..., None] if kind == "diagonal" else expected
    errors = []
    for _ in range(50):
        noisy = truth + rng.normal(0, 0.01, truth.shape)
        found = shrink(noisy, expected, 0.01**2)
        errors.append([np.abs(nearest_masses(each) - truth).sum() for each in (found, noisy)])
    mean_found, mean_noisy = np.mean(errors, axis=0)
    if kind == "independent":
        assert mean_found < 0.5 * mean_noisy
    else:
        assert mean_found <= 1.01 * mean_noisy
    np.testing.assert_allclose(shrink(truth, expected, 0.0), truth, atol=1e-12)
