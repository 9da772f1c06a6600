"""Scores as releases: private ones against literal sums, and what is said of the others."""

from __future__ import annotations

import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_regressor
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

import sfumato.models.scores
from sfumato import (
    Bounds,
    Ledger,
    PrivateGaussianClassifier,
    PrivateLinearRegressor,
    TableBounds,
    release_score,
)
from sfumato.exceptions import InvalidInputError, MissingBoundsError, UnprotectedScoreWarning
from sfumato.mechanisms.base import taped
from sfumato.models.additive import is_first_alone
from sfumato.models.base import PrivateEstimator
from sfumato.models.scores import ROWS_ALONE, are_right, measure, unproved_of
from sfumato.models.search import row_scores
from sfumato.tables.bounds import label_places
from tests.test_common import INSTANCES

RELATIONS = ("replace_one", "add_or_remove_one")


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has said nothing yet, and where warnings are errors."""
    monkeypatch.setattr(sfumato.models.scores, "_SAID", set())


def rows(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(-1, 1, size=(n, 2))
    return X, (X[:, 0] > 0).astype(int)


# Private scores -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["label", "number"])
def test_there_may_be_no_row_where_their_number_is_secret(kind: str) -> None:
    X, y = rows()
    model = LogisticRegression().fit(X, y) if kind == "label" else LinearRegression().fit(X, y)
    told = {"epsilon": 1.0, "delta": 1e-6, "target_bounds": (-1, 1)}
    found = release_score(model, X[:0], y[:0], relation="add_or_remove_one", **told)
    assert found.value <= 1
    with pytest.raises(InvalidInputError, match="no records"):
        release_score(model, X[:0], y[:0], **told)


def test_one_odd_label_makes_no_other_wrong() -> None:
    """NumPy writes all labels as texts beside a text, and as doubles beside a missing one."""
    X, _ = rows(40)
    names = LogisticRegression().fit(X, ["007", "7"] * 20)
    for predicted in (["007"] * 3, ["007", "007", "7"]):  # nor does an odd prediction
        assert are_right(names.classes_, np.array(predicted), np.array(["7"] * 3))[:2].sum() == 0
        for each in ([7, 7], [7, "odd"], [7, np.nan]):  # whatever type the others have
            assert label_places(names.classes_, np.array(each))[0] == 1
    model = LogisticRegression().fit(X, [0, 1] * 20)
    truth = model.predict(X).tolist()
    for odd in ("odd", None, np.nan, 1j):
        spoilt = [*truth[:-1], odd]
        for labels in (np.array(spoilt), spoilt, pd.Series(spoilt)):
            assert release_score(model, X, labels, epsilon=np.inf).value == 1.0
            assert row_scores(model, X, labels).sum(axis=0).tolist() == [39, 19.5]


@pytest.mark.parametrize("metric", ["accuracy", "auc", "r2", "mae"])
def test_a_row_for_which_a_foreign_model_fails_is_a_wrong_answer(
    metric: str, recwarn: pytest.WarningsRecorder
) -> None:
    """It raises for a missing number, and NumPy warns of large ones: neither is told."""
    X, y = rows(60)
    model = (LinearRegression if metric in ("r2", "mae") else LogisticRegression)().fit(X, y)
    options = {"epsilon": 1.0, "metric": metric, "target_bounds": (0, 1e-3)}
    sums = {}
    for cell in (0.5, np.nan, np.inf, 1e308, -1e308):
        odd = X.copy()
        odd[7, 0] = cell
        for given in (odd, pd.DataFrame(odd), odd.tolist()):
            with taped() as tape:
                found = release_score(model, given, y, **options)
            sums.setdefault(repr(cell), []).append(np.asarray(tape.releases[0].statistic))
    assert found.guarantee.conditions == (ROWS_ALONE,)
    with taped() as tape:
        release_score(model, np.delete(X, 7, axis=0), np.delete(y, 7), **options)
    rest = np.asarray(tape.releases[0].statistic)
    for name, each in sums.items():
        for found in each:
            np.testing.assert_array_equal(found, each[0])
        added = (each[0] - rest).ravel()
        assert np.abs(added).sum() <= 1
        if name in ("nan", "inf"):
            assert added.tolist() == ([1, 0] if metric == "accuracy" else [0] * len(added))
    for target in (1e308, np.nan):  # far from its range, or none
        with taped() as tape:
            release_score(model, X, np.where(np.arange(60) == 7, target, y), **options)
    if metric != "accuracy":
        np.testing.assert_array_equal(np.asarray(tape.releases[0].statistic), rest)
    with pytest.raises(InvalidInputError, match="features"):
        release_score(model, X[:, :1], y, **options)
    assert not recwarn.list


@pytest.mark.parametrize("name", sorted(INSTANCES))
def test_a_model_that_answers_alone_gives_a_row_the_same_bits_in_any_company(name: str) -> None:
    """Removing one of four equal records moved three others, at a threshold set on purpose."""
    model = INSTANCES[name]
    if not getattr(model, "answers_alone", False):
        assert unproved_of(model, np.zeros((1, 1))) == (ROWS_ALONE,)
        return
    assert unproved_of(model, np.zeros((1, 1))) == ()
    rng, d = np.random.default_rng(0), 21
    X = rng.uniform(-1, 1, size=(400, d))
    bounds = Bounds(lower=[-1.0] * d, upper=[1.0] * d, labels=[0, 1])
    settings = {"target_bounds": (-1, 1)} if is_regressor(model) else {}
    model = clone(model).set_params(bounds=bounds, delta=1e-5, unit="record", **settings)
    model.fit(X, X[:, 0] if settings else X[:, 0] > 0)
    answer = model.predict if settings else model.decision_function
    for size in (1.0, 3e7):
        model.coef_ = model.coef_ * size
        model.intercept_ = model.intercept_ - answer(X[:1])[0] * size
        if settings:
            model.target_bounds, model.reach_ = (-1e9, 1e9), np.array([-1e9, 1e9])
        alone = np.concatenate([answer(row) for row in X[:40, None]])
        for n in range(1, 41):
            np.testing.assert_array_equal(answer(X[:n]), alone[:n])
            np.testing.assert_array_equal(answer(X[n - 1 : 40]), alone[n - 1 :])


# What is said ---------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("metric", ["accuracy", "auc"])
def test_rows_without_a_label_are_left_out(metric: str, relation: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(4000, 2))
    y = (X @ [1.0, 0.5] + rng.normal(0, 0.3, 4000) > 0).astype(float)
    model = LogisticRegression().fit(X, y)
    y[:500] = np.nan
    y[500:600] = 7.0  # not a label of the model
    truth = measure(model, X, y)[metric]
    assert truth == pytest.approx(measure(model, X[600:], y[600:])[metric])
    options = {"epsilon": 2.0, "metric": metric, "relation": relation}
    found = [release_score(model, X, y, **options) for _ in range(25)]
    values, deviation = [each.value for each in found], found[0].deviation
    assert abs(np.mean(values) - truth) < 6 * deviation / 5 + 0.01 * (metric == "auc")
    assert 0.4 < np.std(values) / deviation < 2


def gaussian() -> PrivateGaussianClassifier:
    bounds = Bounds(lower=-1.0, upper=1.0, labels=[0, 1])
    return PrivateGaussianClassifier(epsilon=5.0, delta=1e-4, bounds=bounds)


def said(what) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        what()
    return [str(w.message) for w in caught if issubclass(w.category, UnprotectedScoreWarning)]


def test_a_score_says_once_what_it_is(silent: None) -> None:
    X, y = rows()
    model = gaussian().fit(X, y)
    assert "release_score" in said(lambda: model.score(X, y))[0]
    assert said(lambda: model.score(X[:5], y[:5])) == []


def test_what_scikit_learn_fits_around_a_private_estimator_says_so(silent: None) -> None:
    """A scaler of targets learns their mean; self-training fits the same rows again and again."""
    X, y = rows()
    line = PrivateLinearRegressor(target_bounds=(-5, 5), bounds=Bounds(lower=-1.0, upper=1.0))
    scaled = TransformedTargetRegressor(line, transformer=StandardScaler())
    for around in (scaled, SelfTrainingClassifier(gaussian()), OneVsRestClassifier(gaussian())):
        sfumato.models.scores._SAID.clear()
        assert "No guarantee covers" in said(lambda around=around: around.fit(X, y.astype(int)))[0]


def test_every_private_estimator_says_so_and_refuses_weights() -> None:
    private = {type(each) for each in INSTANCES.values() if isinstance(each, PrivateEstimator)}
    assert len(private) > 10
    for kind in private:
        assert hasattr(kind.fit, "refuses_weights"), kind
        if hasattr(kind, "score"):
            assert hasattr(kind.score, "says_once"), kind


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("person", [None, "average", "sum"])
@pytest.mark.parametrize("metric", ["accuracy", "auc", "r2", "mae"])
def test_every_score_is_near_its_literal_figure(
    metric: str, person: str | None, relation: str
) -> None:
    """The mean of draws against `measure`; neighbours on tape against what was paid for."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(4000, 2))
    ids, kind = np.arange(4000) // 2, LinearRegression if metric in ("r2", "mae") else None
    target = X @ [1.0, 0.5] + rng.normal(0, 0.3, 4000)
    y = np.clip(target, -2, 2) if kind else target > 0
    model = (kind or LogisticRegression)().fit(X, y)
    about = {} if person is None else {"person_rows": 2, "per_person": person}
    model.bounds = Bounds(lower=[-1, -1], upper=[1, 1], **about)
    options = {"epsilon": 2.0, "metric": metric, "relation": relation}
    options |= {} if person is None else {"unit": "person", "groups": ids}
    options |= {"target_bounds": (-2, 2)} if kind else {}
    found = [release_score(model, X, y, **options) for _ in range(25)]
    spread = found[0].deviation / 5
    binned = 0.01 if metric == "auc" else 1e-3
    truth = measure(model, X, y)[metric]
    if metric in ("accuracy", "r2"):
        assert truth == pytest.approx(model.score(X, y))
    assert abs(np.mean([each.value for each in found]) - truth) < 6 * spread + binned
    assert 0.4 < np.std([each.value for each in found]) / found[0].deviation < 2
    assert found[0].guarantee.unit == ("record" if person is None else "person")
    last = (ids if person else np.arange(4000)) == 7
    others = [(X, y, ids)]  # whatever the labels of one are, or without them
    for label in (-2.0, -0.5, 1.0, 2.0, np.nan) if kind else (False, True):
        others.append((X, np.where(last, label, y).astype(y.dtype), ids))
    if relation == "add_or_remove_one":
        others[1:] = [(X[~last], y[~last], ids[~last])]
    sums = []
    for rows_of, labels, owners in others:
        with taped() as tape:
            options |= {} if person is None else {"groups": owners}
            release_score(model, rows_of, labels, **options)
        sums.append(np.asarray(tape.releases[0].statistic))
    moved = [np.abs(a - b).sum() for a, b in combinations(sums, 2)]
    assert max(moved) <= tape.releases[0].mechanism.sensitivity
    if metric == "accuracy" and person != "sum":
        assert max(moved) == pytest.approx(tape.releases[0].mechanism.sensitivity, rel=1e-3)


def test_a_score_is_never_silently_of_records() -> None:
    """The unit is the ledger's, or persons where the model's bounds name them."""
    X, y = rows()
    model = LogisticRegression().fit(X, y)
    budget = Ledger().create("patients", epsilon=1.0, unit="person", delta=0.0)
    with pytest.raises(MissingBoundsError, match="person_rows"):
        release_score(model, X, y, epsilon=1.0, ledger=budget)
    model.bounds = TableBounds.from_dict({"x": (0, 1)}, person="id", person_rows=2)
    with pytest.raises(InvalidInputError, match="groups"):
        release_score(model, X, y, epsilon=1.0)
    assert budget.spent() == 0


@pytest.mark.parametrize("n", [2_200, 4_000, 150_000])
def test_the_alarm_for_wrong_labels(n: int) -> None:
    """False alarms below 1 % with 18 % of other labels, misses below 5 % without any."""
    rng, noise = np.random.default_rng(0), 95.0  # of a fit at epsilon 1
    for share, wanted in ((0.18, False), (0.0, True)):
        exact = n * np.array([1 - share, share])
        released = np.maximum(exact + rng.normal(0, noise, (20_000, 2)), 1.0)
        found = [is_first_alone(each, noise) for each in released]
        assert np.mean(np.array(found) != wanted) < (0.05 if wanted else 0.01)


@pytest.mark.parametrize("first", [0.0, 0.82])
def test_the_alarm_where_no_label_is_known(first: float) -> None:
    """Of 700 persons, whose number is public: too few to tell a rare label, but not for none."""
    rng, noise = np.random.default_rng(0), 95.0
    exact = 700 * np.array([first, 0.18 if first else 0.0])
    released = np.maximum(exact + rng.normal(0, noise, (20_000, 2)), 1.0)
    share = np.mean([is_first_alone(each, noise, 700) for each in released])
    assert share < 0.01 if first else share > 0.95
