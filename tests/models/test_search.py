"""PrivateSearchCV: one charge, a hidden number of runs, and what happens when it is killed."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import sfumato as sf
from sfumato.exceptions import BudgetExceededError, InvalidInputError, LedgerError
from sfumato.ledger.dataset_budget import DatasetBudget
from sfumato.mechanisms import GaussianMechanism
from sfumato.mechanisms.base import taped
from sfumato.mechanisms.entropy import seeded
from sfumato.models import search as search_module
from sfumato.models.search import ScoreSum
from sfumato.privacy.renyi import selection_epsilon
from sfumato.sums.records import ArrayRecords
from sfumato.tables.schema import TableBounds

BOUNDS = sf.Bounds(norm=1.0, labels=[0, 1])
GRID = {"n_steps": [2, 5], "max_gradient_norm": [0.1, 0.5]}


def rows(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    return (0.3 * rng.normal(size=(n, 3)) + 0.4 * (2 * y[:, None] - 1)).clip(-0.57, 0.57), y


def linear(**options: Any) -> sf.PrivateLinearClassifier:
    return sf.PrivateLinearClassifier(bounds=BOUNDS, n_steps=2, whiten=False, **options)


def search(**options: Any) -> sf.PrivateSearchCV:
    chosen = {"mean_runs": 2.0, "epsilon": 2.0, "delta": 1e-4} | options
    return sf.PrivateSearchCV(linear(), GRID, **chosen)


def test_one_charge_before_any_draw_and_only_the_winner_comes_out(tmp_path: Path) -> None:
    X, y = rows()
    budget = sf.Ledger().create("patients", epsilon=2.0, delta=1e-4)
    found = search(ledger=budget).fit(X, y)
    assert budget.statement().charges == 1
    assert 1.99 < budget.spent() <= 2.0
    assert found.guarantee_.epsilon == 2.0
    assert found.best_estimator_.guarantee_ == found.guarantee_
    assert found.guarantee_.status == "proved"
    assert found.best_params_["n_steps"] in GRID["n_steps"]
    assert not hasattr(found, "cv_results_")
    assert found.best_estimator_.ledger is None
    np.testing.assert_array_equal(found.predict(X), found.best_estimator_.predict(X))
    with pytest.raises(InvalidInputError, match="best_estimator_"):
        sf.save(found, tmp_path / "model.sfumato")
    sf.save(found.best_estimator_, tmp_path / "model.sfumato")
    assert sf.load(tmp_path / "model.sfumato").guarantee_ == found.guarantee_


def test_losing_runs_do_not_warn() -> None:
    """A run warns by its own released counts; of runs that lose nothing may come out."""
    X, y = rows(60)[0], np.full(60, "other")
    bounds = sf.Bounds(lower=-1.0, upper=1.0, labels=["no", "yes"])
    model = sf.PrivateAdditiveClassifier(n_steps=3, bounds=bounds, epsilon=50.0, delta=1e-4)
    with pytest.warns(UserWarning, match="hardly any record"):
        model.fit(X, y)
    quiet = sf.PrivateSearchCV(model, {"n_steps": [3, 4]}, mean_runs=2.0, epsilon=40.0, delta=1e-4)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        quiet.fit(X, y)
    assert [str(each.message) for each in found] == []


def test_it_refuses_before_the_first_draw() -> None:
    X, y = rows()
    budget = sf.Ledger().create("patients", epsilon=1.0, delta=1e-4)
    with taped() as tape, pytest.raises(BudgetExceededError):
        search(ledger=budget).fit(X, y)
    assert not tape.releases
    assert budget.spent() == 0


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_what_is_drawn_is_what_was_planned(relation: str) -> None:
    """Every run makes the releases of its plan: the noise on the tape is that of the events."""
    X, y = rows()
    tried = sf.PrivateSearchCV(
        linear(relation=relation), {"n_steps": [2]}, mean_runs=2.0, epsilon=2.0, delta=1e-4
    )
    with taped() as tape:
        tried.fit(X, y)
    n_runs = tried.cost_.event.max_runs
    assert n_runs is not None
    squares = [1 / r.mechanism.noise_multiplier**2 for r in tape.releases]
    per_run = len(squares) // n_runs
    assert len(squares) == n_runs * per_run
    (option,) = tried.cost_.event.options
    paid = 1 / option[0].noise_multiplier ** 2  # type: ignore[attr-defined]
    for start in range(0, len(squares), per_run):
        assert paid * (1 - 1e-6) <= sum(squares[start : start + per_run]) <= paid * (1 + 1e-9)
    assert max(r.statistic[0] for r in tape.releases[per_run - 1 :: per_run]) <= 300


def test_the_best_of_the_first_k_wins() -> None:
    """K uniform draws decide: the winner is the best of a prefix, not of all, and these differ."""
    X, y = rows()
    winners, n_beaten = set(), 0
    for seed in range(12):
        tried = search(mean_runs=2.0, epsilon=30.0)
        with seeded(seed), taped() as tape:
            tried.fit(X, y)
        drawn = [r for r in tape.releases if 1.118 < r.mechanism.sensitivity < 1.12]
        scores = [float(r.output[0]) / 300 for r in drawn]  # all of them seem to have labels
        place = scores.index(tried.best_score_)
        assert tried.best_score_ == max(scores[: place + 1])
        winners.add(place)
        n_beaten += max(scores) > tried.best_score_  # by a run that does not count
        assert tried.guarantee_.status == "testing"
    assert len(winners) > 1
    assert n_beaten > 3


def test_a_random_duration_is_a_condition() -> None:
    X, y = rows()
    quick = search(constant_time=False, runs="logarithmic").fit(X, y)
    assert quick.guarantee_.status == "conditional"
    assert "duration" in quick.guarantee_.conditions[0]


@pytest.mark.parametrize("step", ["charge", "run", "note", "winner"])
def test_a_killed_search_is_paid_for_once_and_has_one_winner(step: str, tmp_path: Path) -> None:
    X, y = rows()
    budget = sf.Ledger(tmp_path / "l.db").create("patients", epsilon=2.0, delta=1e-4)
    options: dict[str, Any] = {"ledger": budget, "resume": tmp_path / "search"}
    if not (child := os.fork()):  # a child that is killed as it begins a step
        owner, name, first = {
            "charge": (DatasetBudget, "charge", 1),
            "run": (sf.PrivateSearchCV, "_search", 1),
            "note": (search_module, "atomic_write", 2),
            "winner": (search_module, "save", 5),  # after the four candidates
        }[step]
        real, calls = getattr(owner, name), iter(range(1, 9))
        counted = lambda *a, **k: os._exit(7) if next(calls) == first else real(*a, **k)  # noqa: E731
        setattr(owner, name, counted)
        search(**options).fit(X, y)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert budget.statement().charges == (step != "charge")
    assert not (tmp_path / "search" / "winner.sfumato").exists()
    found = search(**options).fit(X, y)  # the budget would not pay twice
    assert found.guarantee_.charges == (budget.history()[0].mark,)
    with taped() as tape:
        again = search(**options).fit(X, y)
    assert not tape.releases
    assert budget.statement().charges == 1
    np.testing.assert_array_equal(again.decision_function(X), found.decision_function(X))
    for each in ("best_score_", "best_params_", "guarantee_"):
        assert getattr(again, each) == getattr(found, each)
    with pytest.raises(InvalidInputError, match="other settings"):
        search(**options | {"score_share": 0.2}).fit(X, y)
    other = sf.Ledger().create("patients", epsilon=2.0, delta=1e-4)
    options = {"ledger": other, "resume": tmp_path / "new"}
    piped = make_pipeline(sf.TableEncoder(sf.Bounds(norm=9.0)), linear())
    with pytest.raises(InvalidInputError, match="can be saved"):
        sf.PrivateSearchCV(piped, {}, epsilon=2.0, **options).fit(X, y)
    with pytest.MonkeyPatch.context() as patch:  # a second search while one runs
        patch.setattr(sf.PrivateSearchCV, "_search", lambda *_: search(**options).fit(X, y))
        with pytest.raises(InvalidInputError, match="another search"):
            search(**options).fit(X, y)
    assert other.statement().charges == 1


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_the_score_is_that_of_rows_with_a_label(relation: str, noise: None) -> None:
    """They counted as wrong, and without a public number of rows the score was a sum."""
    X, y = rows(3000)
    labels = np.where(np.arange(3000) % 4 == 0, None, y.astype(object))
    model = sf.PrivateLinearClassifier(bounds=sf.Bounds(norm=2.0, labels=[0, 1]), relation=relation)
    search = sf.PrivateSearchCV(model, {"n_steps": [20]}, mean_runs=1.5, epsilon=20.0)
    search.fit(X, labels)
    assert abs(search.best_score_ - (search.predict(X) == y)[labels != None].mean()) < 0.05  # noqa: E711


# Other estimators --------------------------------------------------------------------------------


@pytest.mark.usefixtures("noise")
def test_pipelines_and_regressors() -> None:
    X, y = rows(80)
    options = {"mean_runs": 1.5, "epsilon": 4.0, "delta": 1e-3}
    steps = make_pipeline(sf.TableEncoder(sf.Bounds(norm=9.0)), Normalizer(), linear())
    grid = {"privatelinearclassifier__n_steps": [2, 3]}
    piped = sf.PrivateSearchCV(steps, grid, **options).fit(X, y)
    assert piped.predict(X).shape == (80,)
    regressor = sf.PrivateLinearRegressor(target_bounds=(0, 1), bounds=sf.Bounds(lower=-1, upper=1))
    fitted = sf.PrivateSearchCV(regressor, {"target_bounds": [(0.0, 1.0)]}, **options).fit(X, y)
    assert 0 < fitted.best_score_ <= 1
    table = pd.DataFrame({"a": X[:, 0], "b": y.astype(float)})
    bounds = TableBounds.from_dict({"a": (-1, 1), "b": (0, 1)}, target="b")
    regressor = sf.PrivateLinearRegressor(bounds=bounds)  # its target's range is the table's
    fitted = sf.PrivateSearchCV(regressor, {"bounds": [bounds]}, **options).fit(table)
    assert 0 < fitted.best_score_ <= 1
    moments = sf.PrivateMoments(bounds=sf.Bounds(lower=-1, upper=1))
    with pytest.raises(InvalidInputError, match="no labels or targets"):
        sf.PrivateSearchCV(moments, {}, **options).fit(X, y)


def test_runs_that_are_not_gaussian_get_less() -> None:
    X, y = rows(80)
    tried = sf.PrivateSearchCV(
        sf.PrivateLargeMarginGaussianClassifier(bounds=BOUNDS),
        {"regularization": [None, 9.0]},
        epsilon=2.0,
        mean_runs=2.0,
    )
    assert selection_epsilon(tried.cost(X, y).event, 1e-6) <= 2.0
    assert tried.fit(X, y).guarantee_.epsilon <= 2.0


def test_a_run_cannot_draw_more_than_was_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(60)
    monkeypatch.setattr(
        "sfumato.models.search.planned_events", lambda *_: (GaussianMechanism(1.0, 50.0).event(),)
    )
    with pytest.raises(LedgerError, match="does not cover"):
        search().fit(X, y)


def test_a_table_gives_its_own_targets_and_without_any_nothing_is_charged() -> None:
    X, y = rows()
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "ill": np.array(["no", "yes"])[y]})
    bounds = TableBounds.from_dict({"a": (-1, 1), "b": (-1, 1), "ill": ["no", "yes"]}, target="ill")
    model = sf.PrivateLinearClassifier(bounds=bounds, n_steps=2, whiten=False)
    chosen = {"mean_runs": 2.0, "epsilon": 2.0, "delta": 1e-4}
    found = sf.PrivateSearchCV(model, GRID, **chosen).fit(table)
    assert set(found.predict(table)) <= {"no", "yes"}
    budget = sf.Ledger().create("patients", epsilon=2.0, delta=1e-4)
    with pytest.raises(InvalidInputError, match="target y is None"):
        sf.PrivateSearchCV(linear(), GRID, ledger=budget, **chosen).fit(X)
    with pytest.raises(InvalidInputError, match="target y is None"):
        sf.PrivateSearchCV(model, GRID, ledger=budget, **chosen).fit(table[["a", "b"]])
    assert budget.statement().charges == 0


@pytest.mark.parametrize("n", [0, 1, 2, 30])
def test_nobody_sees_how_many_rows_there_are(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a row is added or removed, the last one too; scores are released as 8 of 12."""
    real, scored = ArrayRecords.release, np.array([8.0, 6.0])

    def release(its: Any, what: Any, *given: Any, **more: Any) -> Any:
        return scored if isinstance(what, ScoreSum) else real(its, what, *given, **more)

    monkeypatch.setattr(ArrayRecords, "release", release)
    X, y = rows()
    model = linear(relation="add_or_remove_one")
    found = sf.PrivateSearchCV(model, {"n_steps": [2]}, mean_runs=2.0, delta=1e-4).fit(X[:n], y[:n])
    assert (found.predict(X[:3]).shape, found.best_score_) == ((3,), 8 / 12)


PERSONS = TableBounds.from_dict(
    {"a": (0, 1), "ill": ["no", "yes"]}, target="ill", person="id", person_rows=4
)


def visits(last: str, n_last: int) -> pd.DataFrame:
    """Return visits of 40 persons; the last of them has `n_last` with one label."""
    rng = np.random.default_rng(0)
    a = np.append(rng.uniform(size=120), np.full(n_last, 0.5))
    ill = np.where(a > 0.5, "yes", "no").astype(object)
    ill[120:] = last
    ids = np.append(np.arange(120) % 39, np.full(n_last, 99))
    return pd.DataFrame({"id": ids, "a": a, "ill": ill})


@pytest.mark.parametrize("way", ["average", "sum"])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_one_person_moves_a_score_no_further_than_is_paid_for(relation: str, way: str) -> None:
    """However many rows they have: a person is one term of the sum, and so is a neighbour."""
    chosen = {"relation": relation, "n_steps": 2, "whiten": False}
    model = sf.PrivateLinearClassifier(bounds=replace(PERSONS, per_person=way), **chosen)
    grid = {"n_steps": [2]}
    found = sf.PrivateSearchCV(model, grid, mean_runs=1.5, epsilon=2.0, delta=1e-4)
    with taped() as tape:
        found.fit(visits("yes", 200))
    per_run = len(tape.releases) // found.cost_.event.max_runs  # of each run, the score is last
    first = tape.releases[per_run - 1 :: per_run]
    moved = []
    for other in (visits("no", 200), visits("no", 3), visits("no", 0)):
        if relation == "replace_one" and len(other) == 120:
            continue
        with taped(playback=tape) as replay:
            sf.PrivateSearchCV(model, grid, mean_runs=1.5, epsilon=2.0, delta=1e-4).fit(other)
        pairs = zip(first, replay.releases[per_run - 1 :: per_run], strict=True)
        moved += [float(np.linalg.norm(a.statistic - b.statistic)) for a, b in pairs]
    paid = first[0].mechanism.sensitivity
    assert 0.89 * paid <= max(moved) <= paid
    assert found.guarantee_.unit == "person"


def test_a_search_over_persons_refuses_what_it_cannot_keep() -> None:
    model = sf.PrivateLinearClassifier(unit="person", bounds=PERSONS, n_steps=2, whiten=False)
    budget = sf.Ledger().create("patients", epsilon=2.0, delta=1e-4, unit="person")
    table = visits("yes", 4)
    chosen = {"mean_runs": 1.5, "epsilon": 2.0, "delta": 1e-4, "ledger": budget}
    with pytest.raises(InvalidInputError, match="'bounds'"):
        sf.PrivateSearchCV(model, {"bounds": [PERSONS]}, **chosen).fit(table)
    rows_of_persons = sf.Bounds(norm=1.0, labels=[0, 1], person_rows=4)
    plain = sf.PrivateLinearClassifier(unit="person", bounds=rows_of_persons, n_steps=2)
    with pytest.raises(InvalidInputError, match="column of IDs"):
        sf.PrivateSearchCV(plain, {"n_steps": [2]}, **chosen).fit(*rows())
    assert budget.statement().charges == 0
