"""The membership score: equation (69), its unit, and what it says of itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.svm import LinearSVC

from sfumato import AffineHullClassifier
from sfumato.audit import density_difference, membership_attack, membership_score
from sfumato.audit.observed import observe
from sfumato.exceptions import InvalidInputError

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def split(digits: tuple[np.ndarray, np.ndarray]) -> Split:
    X, y = digits
    order = np.random.default_rng(0).permutation(len(X))
    inside, outside = order[:800], order[800:1600]
    return X[inside], y[inside], X[outside], y[outside]


@pytest.fixture(scope="module")
def hulls(split: Split) -> AffineHullClassifier:
    return AffineHullClassifier(10, n_layers=2).fit(split[0], split[1])


def test_hulls_are_scored_by_their_least_distance(hulls: Any, split: Split) -> None:
    found = membership_score(hulls, split[0], split[2])
    inside, outside = (hulls.distances(rows).min(axis=1) for rows in (split[0], split[2]))
    assert found.observation == "distance"
    assert found.value == density_difference(inside, outside).value
    assert found.value > 10 * found.standard_error  # clean hulls give members away


def test_the_score_says_what_it_is(hulls: Any, split: Split) -> None:
    text = str(membership_score(hulls, split[0], split[2]))
    for words in ("not a guarantee", "not for release", "1/distance", "raw rows"):
        assert words in text


def test_data_ten_times_as_large_score_a_tenth(hulls: Any, split: Split) -> None:
    """Hulls are not invariant to scale, but their distances grow along: the unit is 1/distance."""

    class TenTimes:
        def distances(self, X: np.ndarray) -> np.ndarray:
            return 10 * hulls.distances(X)

    found, small = (membership_score(m, split[0], split[2]) for m in (hulls, TenTimes()))
    assert small.value == pytest.approx(found.value / 10, rel=1e-6)


def test_strangers_on_both_sides_score_nothing(hulls: Any, split: Split) -> None:
    halves = split[2][:400], split[2][400:]
    found = membership_score(hulls, *halves)
    assert abs(found.value) < 5 * found.standard_error + 0.05


@pytest.mark.parametrize(
    ("model", "observation"),
    [
        (RandomForestClassifier(20, random_state=0), "loss"),
        (LogisticRegression(max_iter=2000), "loss"),
        (LinearSVC(), "margin"),
        (GaussianMixture(3, random_state=0), "density"),
    ],
)
def test_any_model_of_scikit_learn(model: Any, observation: str, split: Split) -> None:
    X, y, X_other, y_other = split
    model.fit(X, y) if observation != "density" else model.fit(X)
    labels = {"y_members": y, "y_non_members": y_other}
    assert membership_score(model, X, X_other, **labels).observation == observation
    assert membership_attack(model, X, X_other, **labels).observation == observation


def test_observations_against_their_formulas(split: Split) -> None:
    X, y, *_ = split
    model = LogisticRegression(max_iter=2000).fit(X, y)
    chances, scores = model.predict_proba(X), model.decision_function(X)
    rows = np.arange(len(X))
    np.testing.assert_allclose(observe(model, X, y, "loss"), -np.log(chances[rows, y]))
    others = scores.copy()
    others[rows, y] = -np.inf
    np.testing.assert_allclose(observe(model, X, y, "margin"), others.max(axis=1) - scores[rows, y])
    best = np.sort(scores, axis=1)
    np.testing.assert_allclose(observe(model, X, None, "confidence"), best[:, -2] - best[:, -1])


def test_two_classes_have_a_margin_too(split: Split) -> None:
    X, y, *_ = split
    model = LinearSVC().fit(X, y > 4)
    signed = np.where(y > 4, 1, -1) * model.decision_function(X)
    np.testing.assert_allclose(observe(model, X, y > 4, "margin"), -2 * signed)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"observation": "smell"}, "must be one of"),
        ({"observation": "loss"}, "does not offer"),
        ({"observation": "density"}, "does not offer"),
    ],
)
def test_what_cannot_be_observed_is_refused(
    options: dict[str, str], hint: str, hulls: Any, split: Split
) -> None:
    with pytest.raises(InvalidInputError, match=hint):
        membership_score(hulls, split[0], split[2], **options)


def test_unknown_labels_and_silent_models_are_refused(hulls: Any, split: Split) -> None:
    with pytest.raises(InvalidInputError, match="unknown to the model"):
        observe(hulls, split[0], np.full(len(split[0]), 77), "loss")
    with pytest.raises(InvalidInputError, match="reveals nothing"):
        membership_score(object(), split[0], split[2])
