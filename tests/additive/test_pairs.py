"""Pairs of columns: literal products, their sums, the rule, contracts and what is explained."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

import sfumato
from sfumato import Bounds, PrivateAdditiveClassifier, PrivateAdditiveRegressor, TableBounds
from sfumato.audit.testing import PrivateCase
from sfumato.audit.testing.contracts import check_sensitivity, check_taint
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.base import taped
from sfumato.mechanisms.entropy import seeded
from sfumato.models.additive.columns import PublicColumns
from sfumato.models.additive.hats import HatRows
from sfumato.models.additive.pairs import (
    MAX_PAIRED,
    MAX_PAIRS,
    HatSums,
    PairRows,
    SideMeans,
    Sides,
    clear_means,
    clear_odds,
    column_orders,
    kept_pairs,
    pair_tables,
)
from sfumato.privacy.guarantee import Relation

Split = tuple[np.ndarray, np.ndarray]
RELATIONS = ("replace_one", "add_or_remove_one")
COLUMNS = PublicColumns(("a", "b", "c"), (0.0, 0.0, 0.0), (1.0, 3.0, 1.0), (None, (1, 2, 3), None))


@pytest.fixture(scope="module")
def crossed() -> Split:
    """Labels that are a matter of two columns together."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(6000, 3))
    y = (X[:, 0] > 0) == (X[:, 1] > 0)
    return X, np.where(rng.random(6000) < 0.1, ~y, y).astype(int)


def model(**options: object) -> PrivateAdditiveClassifier:
    usual = {"delta": 1e-5, "relation": "add_or_remove_one", "n_steps": 60, "epsilon": 1.0}
    bounds = Bounds(lower=-1.0, upper=1.0, labels=[0, 1])
    return PrivateAdditiveClassifier(**{**usual, "bounds": bounds, **options})


def paired() -> PairRows:
    knots = np.array([[0, 0.25, 1.0], [0, 0.5, 1.0]])
    hats = HatRows(COLUMNS, knots)
    orders = np.array([-1, 0, 1, 0.5, -1, 1, -1, 0, 1], dtype=float)
    return PairRows(hats, orders, np.array(list(itertools.combinations(range(3), 2))))


def test_products_are_those_of_a_literal_loop(rng: np.random.Generator) -> None:
    rows = paired()
    cells = np.column_stack([rng.random(40), rng.integers(0, 3, 40), rng.random(40)])
    cells[3, 0] = cells[5, 1] = cells[7, 2] = np.nan

    def place(column: int, cell: float) -> float:
        if np.isnan(cell):
            return 0.0
        if column == 1:
            return [0.5, -1, 1][int(cell)]
        at = rows.hats.knots[0 if column == 0 else 1]
        return float(np.interp(cell, at, [-1, 0, 1]))

    found = rows.products(rows.hats.raw(cells))
    for row, got in zip(cells, found, strict=True):
        s = [place(i, cell) for i, cell in enumerate(row)]
        np.testing.assert_allclose(got, [s[0] * s[1], s[0] * s[2], s[1] * s[2]], atol=1e-6)


def test_rows_lie_in_the_unit_ball_and_are_the_same_alone(rng: np.random.Generator) -> None:
    rows = paired()
    cells = rng.choice([-5, 0, 0.25, 0.3, 1, 2, 99, np.nan, np.inf], size=(300, 3))
    together = rows(cells)
    assert (np.linalg.norm(together, axis=1) <= 1).all()
    assert np.linalg.norm(rows(np.array([[0.0, 1.0, 1.0]]))) > 0.999  # corners reach the bound
    for i in range(0, 300, 17):
        np.testing.assert_array_equal(together[i], rows(cells[i : i + 1])[0])
    np.testing.assert_array_equal(together, rows(cells[::-1])[::-1])


def test_sums_of_hats_are_literal_and_move_as_paid_for(rng: np.random.Generator) -> None:
    hats = paired().hats
    cells = np.column_stack([rng.random(30), rng.integers(0, 3, 30), rng.random(30)])
    codes = rng.integers(0, 2, 30)
    statistic = HatSums(2, hats.width)
    literal = np.zeros((2, hats.width))
    for row, code in zip(hats(cells), codes, strict=True):
        literal[code] += row
    np.testing.assert_allclose(statistic.add_up(hats(cells), codes), literal, atol=1e-3)
    corners = np.array(list(itertools.product([0, 1, np.nan], [0, 1, 2, np.nan], [0, 1, np.nan])))
    z = hats(corners)
    moved = [
        np.linalg.norm(
            statistic.add_up(z[i : i + 1], np.array([a])) - statistic.add_up(z[j : j + 1], [b])
        )
        for i in range(len(z))
        for j in range(0, len(z), 5)
        for a in (0, 1)
        for b in (np.array([0]), np.array([1]))
    ]
    assert 0.99 * math.sqrt(2) < max(moved) <= statistic.term_sensitivity(Relation.REPLACE_ONE)
    assert statistic.term_sensitivity(Relation.ADD_OR_REMOVE_ONE) == 1.0


def test_a_target_makes_two_classes_and_a_missing_one_none() -> None:
    statistic = HatSums(2, 2, has_target=True)
    rows = np.array([[0.5, 0.0, -1.0], [0.25, 0.25, 2.0], [0.5, 0.5, np.nan]])
    np.testing.assert_array_equal(
        statistic.add_up(rows, np.zeros(3, dtype=np.intp)), [[0.5, 0.0], [0.25, 0.25]]
    )


def test_categories_are_ordered_by_their_share_of_a_class() -> None:
    hats = paired().hats
    sums = np.ones((2, hats.width)) * 100
    sums[:, 3:6] = [[300, 100, 200], [100, 300, 200]]
    orders, strengths = column_orders(hats, sums, noise=1.0)
    np.testing.assert_allclose(orders[:3], [-1, 0, 1])
    np.testing.assert_allclose(np.abs(orders[3:6]), [1, 1, 0], atol=1e-2)
    assert orders[3] == -orders[4]
    assert strengths.argmax() == 1


def test_pairs_are_counted_by_their_sides(rng: np.random.Generator) -> None:
    hats, orders = paired().hats, paired().orders
    cells = np.column_stack([rng.random(50), rng.integers(0, 3, 50), rng.random(50)])
    cells[4, 1] = np.nan
    target = np.where(np.arange(50) == 7, np.nan, rng.normal(size=50))
    rows = np.column_stack([hats(cells), target])
    sides = Sides(hats, orders, (0, 1, 2), has_target=True)(rows)
    found = SideMeans(3).add_up(sides, np.zeros(50, dtype=np.intp))
    assert found.shape == (3, 2, 2, 2)
    both = (cells[:, 0] > 0.25) & np.isin(cells[:, 1], [0, 2]) & ~np.isnan(target)
    assert found[0, 1, 1, 0] == both.sum()
    assert found[0, 1, 1, 1] == pytest.approx(np.clip(target[both] / 2, -1, 1).sum(), abs=1e-3)
    assert found[0, ..., 0].sum() == 49  # all but the one without a target
    assert len(pair_tables(50, 2).tables) == MAX_PAIRED * (MAX_PAIRED - 1) // 2


def test_sums_of_sides_move_as_paid_for() -> None:
    statistic, codes = SideMeans(3), np.zeros(1, dtype=np.intp)
    corners = np.array(list(itertools.product([0, 1], [0, 1], [0, 1], [-1.0, 1.0, np.nan])))
    terms = [statistic.add_up(row[None], codes).ravel() for row in corners]
    alone = max(np.linalg.norm(term) for term in terms)
    apart = max(np.linalg.norm(a - b) for a in terms for b in terms)
    assert alone == pytest.approx(statistic.term_sensitivity(Relation.ADD_OR_REMOVE_ONE), rel=1e-4)
    assert apart == pytest.approx(statistic.term_sensitivity(Relation.REPLACE_ONE), rel=1e-4)


def test_the_pair_that_changes_the_odds_is_chosen() -> None:
    alone = np.array([[[40.0, 60], [60, 40]], [[60, 40], [80, 20]]]) * 100  # no cross: odds add up
    alone[1, 1] = [7714, 2286]
    crossed = np.array([[[80.0, 20], [20, 80]], [[20, 80], [80, 20]]]) * 100
    flat = np.full((2, 2, 2), 5000.0)
    clear = clear_odds([flat, alone, crossed], noise=5.0)
    assert kept_pairs((2, 5, 7), clear).tolist() == [[5, 7]]
    assert len(kept_pairs(tuple(range(9)), np.full(36, 99.0))) == MAX_PAIRS


def test_the_pair_that_changes_the_mean_is_chosen() -> None:
    means = np.full((3, 2, 2, 2), 1000.0)
    means[..., 1] = 0.0
    means[1, ..., 1] = [[0, 200], [200, 400]]  # each alone
    means[2, ..., 1] = [[200, 0], [0, 200]]
    clear = clear_means(means, 5.0)
    assert clear[:2].tolist() == [0, 0]
    assert kept_pairs((2, 5, 7), clear).tolist() == [[5, 7]]


def test_a_cross_is_learned_by_pairs_alone(noise: None, crossed: Split) -> None:
    X, y = crossed
    train, test = slice(4000), slice(4000, None)
    apart = model(interactions=False).fit(X[train], y[train])
    together = model(interactions=True).fit(X[train], y[train])
    assert roc_auc_score(y[test], apart.decision_function(X[test])) < 0.6
    assert roc_auc_score(y[test], together.decision_function(X[test])) > 0.85
    assert together.guarantee_.epsilon <= 1.0
    first = together.explain().pairs[0]
    assert first.names == ("x0", "x1")
    assert first.is_seen
    assert first.weight[0] > 0
    assert "x0 × x1" in str(together.explain())
    assert apart.explain().pairs == ()


def test_curves_and_pairs_add_up_to_the_score(noise: None, crossed: Split) -> None:
    fitted = model(interactions=True, epsilon=3.0).fit(*crossed)
    explanation = fitted.explain()
    X = crossed[0][:50]
    total = np.zeros(50)
    for i in range(3):
        curve = explanation[f"x{i}"]
        total += np.interp(X[:, i], curve.values, curve.curve[0])
    for pair in explanation.pairs:
        a, b = (int(name[1:]) for name in pair.names)
        s = np.column_stack(
            [np.interp(X[:, i], explanation[f"x{i}"].values, np.linspace(-1, 1, 9)) for i in (a, b)]
        )
        total += pair.weight[0] * s.prod(axis=1)
    assert explanation.pairs
    np.testing.assert_allclose(np.diff(total), np.diff(fitted.decision_function(X)), atol=1e-5)


def test_a_regression_has_pairs_too(noise: None) -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(6000, 2))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=6000)
    settings = {"delta": 1e-5, "relation": "add_or_remove_one", "target_bounds": (-2.0, 2.0)}
    bounds = Bounds(lower=-1.0, upper=1.0)
    found = [
        PrivateAdditiveRegressor(
            interactions=pairs, n_steps=80, epsilon=2.0, bounds=bounds, **settings
        )
        .fit(X, y)
        .score(X, y)
        for pairs in (False, True)
    ]
    assert found[0] < 0.1
    assert found[1] > 0.6


def test_the_rule_goes_by_the_number_of_rows_alone(crossed: Split) -> None:
    X, y = crossed
    few, many = (model().plan(X[:n], y[:n])[1] for n in (100, 6000))
    assert few == many or few.pairs == many.pairs  # a secret number: the same is charged
    assert [each.event() for each in few.mechanisms()] == [
        each.event() for each in many.mechanisms()
    ]
    assert model(relation="replace_one").plan(X[:60], y[:60])[1].orders is None
    assert model(relation="replace_one", epsilon=3.0).plan(X, y)[1].orders is not None
    assert model(expected_rows=60).plan(X, y)[1].orders is None
    with pytest.raises(InvalidInputError, match="interactions"):
        model(interactions="some").fit(X, y)


def test_few_rows_have_no_pairs_and_many_have(noise: None, crossed: Split) -> None:
    X, y = crossed
    assert len(model(epsilon=0.3).fit(X[:60], y[:60]).pairs_) == 0
    assert [0, 1] in model(epsilon=3.0).fit(X, y).pairs_.tolist()


def test_a_table_with_categories_is_crossed_and_stored(noise: None, tmp_path) -> None:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"age": rng.integers(18, 90, 4000), "ward": rng.choice(["e", "w"], 4000)})
    ill = np.where((frame["age"] > 54) == (frame["ward"] == "e"), "yes", "no")
    facts = {"age": (18, 90), "ward": ["e", "w"], "ill": ["no", "yes"]}
    bounds = TableBounds.from_dict(facts, target="ill")
    fitted = model(bounds=bounds).fit(frame, ill)
    assert fitted.score(frame, ill) > 0.85
    sfumato.save(fitted, tmp_path / "m.sfumato")
    again = sfumato.load(tmp_path / "m.sfumato")
    np.testing.assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))


@pytest.mark.parametrize("relation", RELATIONS)
def test_contracts_with_pairs(relation: str) -> None:
    X = 0.1 + 1e-3 * np.random.default_rng(0).normal(size=(60, 3))  # all but alike
    case = PrivateCase(
        model(
            relation=relation, interactions=True, knots="private", n_knots=5, n_steps=3, epsilon=1.0
        ),
        X,
        (X[:, 0] > 0.1).astype(int),
        # One column alike, two opposite: hats and products together are orthogonal.
        rows_at_bound=np.array([[-1.0] * 3, [1.0, 1.0, -1.0], [1.0] * 3, [np.nan, -1.0, 1.0]]),
    )
    check_taint(case)
    check_sensitivity(case)


@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_released_numbers_alone_decide_what_is_used(crossed: Split, kind: str) -> None:
    """The releases of many records, played back on five, give the same model bit by bit."""
    X, y = crossed
    fresh = model(n_steps=4, epsilon=3.0)
    if kind == "regressor":
        settings = {"delta": 1e-5, "relation": "add_or_remove_one", "target_bounds": (0.0, 1.0)}
        box = Bounds(lower=-1.0, upper=1.0)
        fresh = PrivateAdditiveRegressor(n_steps=4, epsilon=3.0, bounds=box, **settings)
    with seeded(0), taped() as tape:
        many = clone(fresh).fit(X, y)
    with taped(playback=tape):
        few = clone(fresh).fit(X[:5], y[:5])
    assert many.knots_.shape == (3, 9)
    for name, value in vars(many).items():
        if name.endswith("_") and isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, getattr(few, name), err_msg=name)
