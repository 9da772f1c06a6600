"""Additive models: curves, pairs, probabilities, bands, and what decides about their releases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from sfumato import Bounds, PrivateAdditiveClassifier, PrivateAdditiveRegressor
from sfumato.audit.testing import PrivateCase
from sfumato.audit.testing.contracts import check_sensitivity, check_taint
from sfumato.mechanisms.base import taped
from sfumato.mechanisms.entropy import seeded
from sfumato.models.additive import DEFAULT_SQUARE
from sfumato.models.additive_rows import target_line
from sfumato.models.linear import CONSTANT, whitened_rows
from sfumato.tables import TableBounds

Split = tuple[np.ndarray, np.ndarray]
BOX = Bounds(lower=-1.0, upper=1.0, labels=[0, 1])
SETTINGS: dict[str, Any] = {"delta": 1e-5, "relation": "add_or_remove_one", "bounds": BOX}


def classifier(**options: Any) -> PrivateAdditiveClassifier:
    return PrivateAdditiveClassifier(**{"n_steps": 60, **SETTINGS, **options})


def regressor(**options: Any) -> PrivateAdditiveRegressor:
    usual = {"n_steps": 80, "target_bounds": (-3.0, 3.0), **SETTINGS}
    return PrivateAdditiveRegressor(**{**usual, **options})


@pytest.fixture(scope="module")
def curved() -> Split:
    """Chances that rise and fall again with the first number."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(6000, 3))
    return X, (rng.random(6000) < np.where(np.abs(X[:, 0]) < 0.5, 0.9, 0.1)).astype(int)


@pytest.fixture(scope="module")
def crossed() -> Split:
    """Labels that are a matter of two columns together."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(6000, 3))
    y = (X[:, 0] > 0) == (X[:, 1] > 0)
    return X, np.where(rng.random(6000) < 0.1, ~y, y).astype(int)


@pytest.fixture(scope="module")
def waves() -> Split:
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(6000, 3))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=6000)


# What is learned ----------------------------------------------------------------------------------


def test_a_curve_is_found_that_no_line_follows(noise: None, curved: Split) -> None:
    X, y = curved
    fitted = classifier(interactions=False).fit(X[:4000], y[:4000])
    assert roc_auc_score(y[4000:], fitted.decision_function(X[4000:])) > 0.85
    assert fitted.guarantee_.epsilon <= 1.0
    a, b = X[:50], X[50:100]
    mixed, rest = a.copy(), b.copy()
    mixed[:, 0], rest[:, 0] = b[:, 0], a[:, 0]
    together = fitted.decision_function(a) + fitted.decision_function(b)
    swapped = fitted.decision_function(mixed) + fitted.decision_function(rest)
    np.testing.assert_allclose(together, swapped, atol=1e-5)  # a sum of curves


def test_a_cross_is_learned_by_pairs_alone(noise: None, crossed: Split) -> None:
    X, y = crossed
    train, test = slice(4000), slice(4000, None)
    apart = classifier(interactions=False).fit(X[train], y[train])
    together = classifier(interactions=True).fit(X[train], y[train])
    assert roc_auc_score(y[test], apart.decision_function(X[test])) < 0.6
    assert roc_auc_score(y[test], together.decision_function(X[test])) > 0.85
    assert together.guarantee_.epsilon <= 1.0
    explanation = together.explain()
    first = explanation.pairs[0]
    assert first.names == ("x0", "x1")
    assert first.is_seen
    assert first.weight[0] > 0
    assert "x0 × x1" in str(explanation)
    assert apart.explain().pairs == ()
    total = np.zeros(50)  # curves and pairs add up to the score
    for i in range(3):
        curve = explanation[f"x{i}"]
        total += np.interp(X[:50, i], curve.values, curve.curve[0])
    for pair in explanation.pairs:
        places = [
            np.interp(X[:50, int(n[1:])], explanation[n].values, np.linspace(-1, 1, 9))
            for n in pair.names
        ]
        total += pair.weight[0] * places[0] * places[1]
    np.testing.assert_allclose(
        np.diff(total), np.diff(together.decision_function(X[:50])), atol=1e-5
    )


def test_probabilities_are_those_of_the_labels(noise: None) -> None:
    rng = np.random.default_rng(9)
    X = rng.uniform(-1, 1, size=(12_000, 2))
    chance = 1 / (1 + np.exp(1 - 3 * X[:, 0]))
    y = (rng.random(12_000) < chance).astype(int)
    fitted = classifier(n_steps=120).fit(X[:8000], y[:8000])
    found = fitted.predict_proba(X[8000:])[:, 1]
    assert np.mean(np.abs(found - chance[8000:])) < 0.06
    three = np.digitize(X[:, 0], [-0.3, 0.3])
    three = np.where(rng.random(12_000) < 0.3, rng.integers(0, 3, 12_000), three)
    bounds = Bounds(lower=-1.0, upper=1.0, labels=[0, 1, 2])
    for epsilon in (2.0, 30.0):  # axes that no row has must not shorten all others
        many = classifier(epsilon=epsilon, n_steps=120, bounds=bounds).fit(X[:8000], three[:8000])
        sure, right = (
            many.predict_proba(X[8000:]).max(axis=1),
            many.predict(X[8000:]) == three[8000:],
        )
        assert right.mean() > 0.77
        assert abs(sure.mean() - right.mean()) < 0.2


def test_labels_that_are_not_declared_are_noticed_by_released_counts(noise: None) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, size=(3000, 2))
    words = np.where(X[:, 0] > 0, "yes", "no")
    with pytest.warns(UserWarning, match="not in the set"):
        classifier(n_steps=5).fit(X, words)  # the bounds say 0 and 1
    few = classifier(n_steps=5, epsilon=0.1, relation="replace_one")
    few.fit(X[:50], words[:50])  # too few to tell: nothing is said


# Targets ------------------------------------------------------------------------------------------


def test_curves_of_a_target_are_found(noise: None, waves: Split) -> None:
    fitted = regressor(epsilon=2.0).fit(*waves)
    assert fitted.score(*waves) > 0.85
    assert fitted.guarantee_.epsilon <= 2.0
    frame = pd.DataFrame(waves[0], columns=["a", "b", "c"])
    facts = {"a": (-1, 1), "b": (-1, 1), "c": (-1, 1), "y": (-3, 3)}
    bounds = TableBounds.from_dict(facts, target="y")
    of_table = regressor(bounds=bounds, target_bounds=None).fit(frame, waves[1])
    assert of_table.score(frame, waves[1]) > 0.7


def test_the_line_is_that_of_least_squares(rng: np.random.Generator) -> None:
    g = rng.uniform(-1, 1, 5000)
    t = 0.2 + 0.5 * g + 0.1 * rng.normal(size=5000)
    rows = np.column_stack([np.ones(5000), g, t])
    level, slope, _ = target_line(rows.T @ rows, 1e-9, 0.4, 0.0)
    assert [level, slope] == pytest.approx([0.2, 0.5], abs=0.01)
    assert target_line(rows.T @ rows, 1e7, 0.4, 0.0)[1] == pytest.approx(0.4)  # as learned
    assert target_line(rows.T @ rows, 1e7, 0.4, 2.0)[1] == pytest.approx(0.0, abs=1e-6)  # all noise


# What decides about the releases ------------------------------------------------------------------


def test_a_public_number_of_rows_decides_about_knots_and_pairs(noise: None, crossed: Split) -> None:
    X, y = crossed
    replaced: dict[str, Any] = {"relation": "replace_one", "n_steps": 2}
    few = classifier(**replaced).fit(X[:60], y[:60])
    many = classifier(epsilon=3.0, **replaced).fit(X, y)
    assert few.knots_.shape == (3, 5)
    np.testing.assert_allclose(few.knots_[0], [0, 0.25, 0.5, 0.75, 1])
    assert many.knots_.shape == (3, 9)
    assert [0, 1] in many.pairs_.tolist()
    assert classifier(knots="public", n_knots=3, **replaced).fit(X, y).knots_.shape == (3, 3)


@pytest.mark.filterwarnings("ignore:By the released counts")  # of few rows, mostly noise
def test_a_secret_number_of_rows_decides_once_it_is_released(noise: None, crossed: Split) -> None:
    X, y = crossed
    few = classifier(epsilon=3.0, n_steps=2).fit(X[:40], y[:40])
    many = classifier(epsilon=3.0, n_steps=2).fit(X, y)
    assert few.guarantee_.events == many.guarantee_.events  # what is paid does not depend on rows
    assert (few.knots_.shape, many.knots_.shape) == ((3, 5), (3, 9))
    assert len(few.pairs_) == 0
    assert [0, 1] in many.pairs_.tolist()


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_contracts_with_pairs(relation: str) -> None:
    X = 0.1 + 1e-3 * np.random.default_rng(0).normal(size=(60, 3))  # all but alike
    model = classifier(relation=relation, interactions=True, knots="private", n_knots=5, n_steps=3)
    # One column alike, two opposite: hats and products together are orthogonal.
    at_bound = np.array([[-1.0] * 3, [1.0, 1.0, -1.0], [1.0] * 3, [np.nan, -1.0, 1.0]])
    case = PrivateCase(model, X, (X[:, 0] > 0.1).astype(int), rows_at_bound=at_bound)
    check_taint(case)
    check_sensitivity(case)


@pytest.mark.parametrize(
    ("relation", "knots"), [("replace_one", "private"), ("add_or_remove_one", None)]
)
def test_contracts_where_targets_are_replaced_or_counted(relation: str, knots: str | None) -> None:
    near = np.array([0.137, -0.211]) + 1e-1 * np.random.default_rng(0).normal(size=(200, 2))
    model = regressor(
        relation=relation,
        n_knots=5,
        n_steps=20,
        knots=knots,
        max_gradient_norm=0.05,  # so small that both targets are clipped
        target_bounds=(0.0, 1.0),
    )
    ends = np.array([[1.0, 1.0], [-1.0, -1.0]])
    y = (np.arange(200) > 90).astype(float)
    case = PrivateCase(model, near, y, rows_at_bound=ends)
    check_taint(case)
    check_sensitivity(case)


# Explanations -------------------------------------------------------------------------------------


def synthetic(seed: int, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n_rows, 4))
    truth = np.sin(3 * X[:, 0]) + np.abs(X[:, 1]) + 0.5 * X[:, 2]
    return X, truth, rng.random(n_rows)


def noiseless_coef(model: Any, X: np.ndarray, y: np.ndarray, tape: Any) -> np.ndarray:
    """The same descent from the same knots and moment in plain doubles, without noise."""
    counts, moment = tape.releases[0].output, tape.releases[2].output
    mechanism = tape.releases[3].mechanism
    hats = model._pair_rows.hats
    z, n_rows = hats(X), float(np.maximum(counts, 1).sum())
    noise = math.sqrt(tape.releases[2].mechanism.variance())
    white, spectrum = whitened_rows(moment, noise, n_rows, DEFAULT_SQUARE)
    projection, radius = white.projection, white.radius
    u = z @ projection
    u /= np.maximum(np.linalg.norm(u, axis=1, keepdims=True), radius)
    rows = np.column_stack([u, np.full(len(u), CONSTANT)]) / math.sqrt(1 + CONSTANT**2)
    noise = math.sqrt(model.n_steps * mechanism.variance()) / n_rows
    clip = model.max_gradient_norm
    rate = min(1.6 * 0.1 / noise, 4 / (spectrum.max() + white.height**2), 32.0 / clip)
    weights, move, total = np.zeros(rows.shape[1]), 0.0, 0.0
    for step in range(model.n_steps):
        slopes = np.clip(1 / (1 + np.exp(-rows @ weights)) - y, -clip, clip)
        move = 0.9 * move - rate * (slopes @ rows) / n_rows
        weights = weights + move
        total = total + weights * (step >= model.n_steps // 2)
    weights = total / (model.n_steps - model.n_steps // 2)
    length = radius * math.sqrt(1 + CONSTANT**2) * math.sqrt(X.shape[1])
    return projection @ weights[:-1] / length * model.score_factor_


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_bands_cover_the_fit_without_noise(epsilon: float) -> None:
    covered, widths = [], []
    for seed in range(5):
        X, truth, uniform = synthetic(seed, 3000)
        y = (uniform < 1 / (1 + np.exp(-2 * truth))).astype(int)
        model = classifier(epsilon=epsilon, n_knots=5, interactions=False)
        with seeded(seed), taped() as tape:
            model.fit(X, y)
        exact, explanation = noiseless_coef(model, X, y, tape), model.explain()
        for i, part in enumerate(model._pair_rows.hats.slices):
            curve = explanation[f"x{i}"]
            off = curve.curve[0] - (exact[part] - exact[part] @ model.hat_means_[part])
            covered.append(bool((np.abs(off) <= curve.band[0] + 1e-9).all()))
            widths.append(np.abs(off).max() / curve.band[0].max())
    assert np.mean(covered) >= 0.95  # of 20 columns: one may be missed
    assert np.median(widths) > 0.1  # and bands are not merely wide
