"""The additive classifier: additive, weighted, on tables, and better with more budget."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from sfumato import Bounds, PrivateAdditiveClassifier
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.tables import TableBounds

Split = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def curved() -> Split:
    """Chances that rise and fall again with the first number."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, size=(6000, 3))
    return X, (rng.random(6000) < np.where(np.abs(X[:, 0]) < 0.5, 0.9, 0.1)).astype(int)


def model(**options: object) -> PrivateAdditiveClassifier:
    usual = {"delta": 1e-5, "relation": "add_or_remove_one", "n_steps": 60}
    bounds = Bounds(lower=-1.0, upper=1.0, labels=[0, 1])
    return PrivateAdditiveClassifier(**{**usual, "bounds": bounds, **options})


def test_a_curve_is_found_that_no_line_follows(noise: None, curved: Split) -> None:
    X, y = curved
    fitted = model(epsilon=1.0).fit(X[:4000], y[:4000])
    assert roc_auc_score(y[4000:], fitted.decision_function(X[4000:])) > 0.85
    assert fitted.guarantee_.epsilon <= 1.0


def test_scores_are_sums_of_curves(noise: None, curved: Split) -> None:
    fitted = model(interactions=False).fit(*curved)
    a, b = curved[0][:50], curved[0][50:100]
    mixed, rest = a.copy(), b.copy()
    mixed[:, 0], rest[:, 0] = b[:, 0], a[:, 0]
    together = fitted.decision_function(a) + fitted.decision_function(b)
    swapped = fitted.decision_function(mixed) + fitted.decision_function(rest)
    np.testing.assert_allclose(together, swapped, atol=1e-5)


def test_names_stand_beside_the_weights(noise: None, curved: Split) -> None:
    fitted = model().fit(pd.DataFrame(curved[0], columns=["a", "b", "c"]), curved[1])
    names = fitted.get_feature_names_out()
    assert len(names) == fitted.coef_.shape[1]
    assert names[0] == "a@-1"
    assert names[-1] == "c@1"


def test_small_public_numbers_of_rows_take_public_knots(curved: Split) -> None:
    X, y = curved
    few = model(relation="replace_one").plan(X[:200], y[:200])[1]
    many = model(relation="replace_one").plan(X, y)[1]
    assert few.quantiles is None
    assert many.quantiles is not None
    assert model(expected_rows=200).plan(X, y)[1].quantiles is None
    assert model(knots="public").plan(X, y)[1].quantiles is None


def test_a_secret_number_of_rows_decides_once_it_is_released(noise: None, curved: Split) -> None:
    X, y = curved
    plans = [model().plan(X[:n], y[:n])[1] for n in (100, 6000)]
    charged = [[each.event() for each in plan.mechanisms()] for plan in plans]
    assert charged[0] == charged[1]  # what is paid does not depend on the rows
    few, many = model().fit(X[:100], y[:100]), model().fit(X, y)
    assert few.knots_.shape == (3, 5)
    np.testing.assert_allclose(few.knots_[0], [0, 0.25, 0.5, 0.75, 1])
    assert many.knots_.shape == (3, 9)


def test_balanced_classes_are_predicted_more_often(noise: None) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(8000, 2))
    y = (rng.random(8000) < 0.02 + 0.2 * (X[:, 0] > 0.3)).astype(int)
    plain = model(epsilon=3.0).fit(X, y)
    balanced = model(epsilon=3.0, class_weight="balanced").fit(X, y)
    public = model(epsilon=3.0, class_weight={0: 0.1, 1: 1.0}).fit(X, y)
    assert plain.predict(X).mean() < 0.05
    assert balanced.predict(X).mean() > 0.2
    assert public.predict(X).mean() > 0.2
    np.testing.assert_allclose(balanced.counts_, np.bincount(y), rtol=0.2)


def test_a_missing_cell_is_information(noise: None) -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, size=(6000, 2))
    y = (rng.random(6000) < 0.3).astype(int)
    X[(y == 1) & (rng.random(6000) < 0.6), 1] = np.nan
    fitted = model(epsilon=2.0).fit(X, y)
    assert roc_auc_score(y, fitted.decision_function(X)) > 0.75


def test_tables_with_text(noise: None) -> None:
    rng = np.random.default_rng(2)
    town = rng.choice(["Ghent", "Ypres", "Bruges"], size=5000)
    age = rng.integers(18, 90, size=5000)
    y = np.where(rng.random(5000) < np.where(town == "Ypres", 0.9, 0.1), "yes", "no")
    frame = pd.DataFrame({"town": town, "age": age})
    facts = {"town": ["Ghent", "Ypres", "Bruges"], "age": (18, 90), "ill": ["no", "yes"]}
    fitted = model(bounds=TableBounds.from_dict(facts, target="ill")).fit(frame, y)
    assert fitted.score(frame, y) > 0.85
    odd = pd.DataFrame({"age": [30.0, None], "town": ["Atlantis", None]})
    assert fitted.predict_proba(odd).shape == (2, 2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_knots": 8}, "n_knots"),
        ({"knots": "secret"}, "knots"),
        ({"class_weight": "fair"}, "class_weight"),
        ({"class_weight": {0: -1.0}}, "not negative"),
        ({"largest_weight": 0.5}, "largest_weight"),
        ({"max_gradient_norm": 3.0}, "max_gradient_norm"),
        ({"n_steps": 0}, "n_steps"),
        ({"bounds": Bounds(lower=-1, upper=1, labels=[1])}, "one class"),
    ],
)
def test_bad_settings_are_refused(curved: Split, options: dict, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        model(**options).fit(*curved)


def test_a_norm_alone_is_refused(curved: Split) -> None:
    with pytest.raises(MissingBoundsError, match="range of each column"):
        model(bounds=Bounds(norm=2.0, labels=[0, 1])).fit(*curved)


def test_few_rows_of_many_columns_are_told_apart(noise: None) -> None:
    """Where most eigenvalues of the moment are noise, rows must not shrink beside the constant."""
    X, y = load_breast_cancer(return_X_y=True)
    bounds = Bounds(lower=0.0, upper=(1.3 * X.max(axis=0)).tolist(), labels=[0, 1])
    fitted = model(epsilon=1.0, n_steps=240, bounds=bounds).fit(X[:400], y[:400])
    assert fitted.score(X[400:], y[400:]) > 0.85


def test_probabilities_are_those_of_the_labels(noise: None) -> None:
    rng = np.random.default_rng(9)
    X = rng.uniform(-1, 1, size=(12_000, 2))
    chance = 1 / (1 + np.exp(1 - 3 * X[:, 0]))
    y = (rng.random(12_000) < chance).astype(int)
    fitted = model(epsilon=1.0, n_steps=120).fit(X[:8000], y[:8000])
    found, truth = fitted.predict_proba(X[8000:])[:, 1], chance[8000:]
    assert np.mean(np.abs(found - truth)) < 0.06
    assert fitted.score_factor_ < 0.8  # clipped slopes make scores too large
    three = np.digitize(X[:, 0], [-0.3, 0.3])
    three = np.where(rng.random(12_000) < 0.3, rng.integers(0, 3, 12_000), three)
    bounds = Bounds(lower=-1.0, upper=1.0, labels=[0, 1, 2])
    many = model(epsilon=2.0, n_steps=120, bounds=bounds).fit(X[:8000], three[:8000])
    sure = many.predict_proba(X[8000:]).max(axis=1)
    assert abs(sure.mean() - np.mean(many.predict(X[8000:]) == three[8000:])) < 0.1


def test_costs_move_the_decision(noise: None, curved: Split) -> None:
    fitted = model(epsilon=2.0).fit(*curved)
    chances = fitted.predict_proba(curved[0])[:, 1]
    careful = fitted.predict_by_costs(curved[0], {1: 9.0})
    np.testing.assert_array_equal(careful == 1, chances > 0.1)
    for costs in ({1: -1.0}, {"yes": 1.0}, {0: 0.0, 1: 0.0}):
        with pytest.raises(InvalidInputError, match="costs"):
            fitted.predict_by_costs(curved[0], costs)


def test_labels_that_are_not_declared_are_noticed_by_released_counts(noise: None) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, size=(3000, 2))
    words = np.where(X[:, 0] > 0, "yes", "no")
    with pytest.warns(UserWarning, match="not in the set"):
        model(n_steps=5).fit(X, words)  # the bounds say 0 and 1
    model(n_steps=5, epsilon=0.1).fit(X[:50], words[:50])  # too few to tell: nothing is said
