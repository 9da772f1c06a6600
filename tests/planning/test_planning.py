"""Plans: from public numbers alone, monotone where they must be, and a pilot that pays."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sfumato import Bounds, Ledger, TableBounds
from sfumato.accounting import epsilon_spent, mu_from_budget
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms import GaussianMechanism
from sfumato.planning import SCENARIOS, curves, epsilon_needed, pilot, plan, rows_needed
from sfumato.planning.models import CLASSIFIERS, REGRESSORS
from sfumato.planning.simulation import Shape, simulated, simulated_numbers
from tests.interfaces.running import done, run


def test_a_plan_has_an_interval_and_says_how_it_was_made() -> None:
    found = plan(300, 3, epsilon=2.0, delta=1e-5, models=["linear"], majority=0.6)
    (model,) = found.models
    assert model.interval[0] <= model.accuracy <= model.interval[1]
    assert found.majority == 0.6
    assert "separable" in found.made
    assert json.dumps(found.to_dict())
    more = plan(300, 3, epsilon=80.0, delta=1e-5, models=["linear"])
    assert more.models[0].accuracy > model.accuracy - 0.02


def test_scenarios_are_ordered() -> None:
    from sklearn.linear_model import LogisticRegression

    shape = Shape(600, 4)
    scores = []
    for scenario in ("hard", "typical", "easy"):
        X, y = simulated(shape, SCENARIOS[scenario], 0)
        fitted = LogisticRegression().fit(X[:300], y[:300])
        scores.append(fitted.score(X[300:], y[300:]))
    assert scores == sorted(scores)
    assert scores[0] > 0.6
    assert scores[-1] > 0.95


def test_noise_of_columns_is_that_of_the_mechanism() -> None:
    found = plan(
        1000,
        2,
        epsilon=1.0,
        delta=1e-5,
        models=[],
        ranges={"age": (0, 100), "pay": (0, 1e4), "x": (0, 1), "z": (0, 1)},
    )
    mechanism = GaussianMechanism.calibrate(sensitivity=2.0 / 1000, epsilon=1.0, delta=1e-5)
    # Four columns scaled to their ranges: a record moves their means by 2 / n in norm.
    assert math.isclose(found.column_noise["x"], mechanism.variance() ** 0.5, rel_tol=1e-9)
    assert math.isclose(found.column_noise["age"], 100 * found.column_noise["x"])


def test_a_pilot_charges_a_tenth_and_forecasts() -> None:
    X, y = simulated(Shape(300, 3), 0.9, 7)
    budget = Ledger().create("patients", epsilon=4.0, delta=1e-5)
    bounds = Bounds(norm=1.5, labels=[0, 1])
    found = pilot(X, y, bounds=bounds, epsilon=4.0, delta=1e-5, model="gaussian", ledger=budget)
    mu = mu_from_budget(4.0, 1e-5)
    squares = sum(
        count / event.noise_multiplier**2  # type: ignore[attr-defined]
        for event, count in ((e, 1) for e in budget.events())
    )
    assert squares <= 0.1 * mu**2 * (1 + 1e-6)
    assert squares > 0.09 * mu**2
    assert found.interval[0] <= found.accuracy <= found.interval[1]
    assert budget.spent() == pytest.approx(epsilon_spent(budget.events(), 1e-5), rel=1e-6)
    assert found.epsilon_left < 4.0


@pytest.mark.usefixtures("noise")
def test_a_pilot_of_a_number_forecasts_near_the_truth() -> None:
    """2,000 rows whose targets a line explains to nine tenths, at a large budget."""
    X, y = simulated_numbers(Shape(2000, 3, 0), 0.9, 0)
    bounds = Bounds(lower=-2.0, upper=2.0)
    options = {"bounds": bounds, "target_bounds": (0.0, 1.0), "model": "linear"}
    found = pilot(X, y, epsilon=8.0, delta=1e-5, **options)  # type: ignore[arg-type]
    fitted = REGRESSORS["linear"](
        epsilon=found.epsilon_left, delta=1e-5, bounds=bounds, target_bounds=(0.0, 1.0)
    ).fit(X, y)
    X_test, y_test = simulated_numbers(Shape(2000, 3, 0), 0.9, 1)
    measured = 1 - float(np.mean((fitted.predict(X_test) - y_test) ** 2))
    assert abs(found.accuracy - measured) < 0.02
    assert found.interval[0] <= found.accuracy <= found.interval[1]


@pytest.mark.parametrize(
    ("task", "model"),
    [("label", name) for name in CLASSIFIERS if curves.has_curves("label", name)]
    + [("number", name) for name in REGRESSORS],
)
def test_forecasts_hold_for_sets_that_are_left_out(
    task: str, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each set is taken out of the file of curves and foretold by the others."""
    kept = json.loads(curves.FILE.read_text())["curves"]
    mine = [each for each in kept if (each["task"], each["model"]) == (task, model)]
    assert len(mine) >= 5
    inside = []
    for left_out in mine:
        others = [each for each in kept if each["set"] != left_out["set"]]
        monkeypatch.setattr(curves, "_read", lambda others=others: others)
        curves._pairs.cache_clear()
        curves._factor.cache_clear()
        points = left_out["points"]
        for (level, own, _), (_, _, other) in pairwise(points):
            found = curves.forecast(
                task,
                model,
                level=level,
                n_features=left_out["columns"],
                score=own,
                deviation=0.0,
            )
            inside.append(found.interval[0] <= other <= found.interval[1])
    curves._pairs.cache_clear()
    curves._factor.cache_clear()
    assert np.mean(inside) >= 0.85


def test_noise_of_the_score_widens_the_interval() -> None:
    options = {"level": 500.0, "n_features": 20, "score": 0.8}
    sure = curves.forecast("label", "linear", deviation=0.0, **options)  # type: ignore[arg-type]
    unsure = curves.forecast("label", "linear", deviation=0.1, **options)  # type: ignore[arg-type]
    assert unsure.interval[0] < sure.interval[0] - 0.05
    assert unsure.score == sure.score


def test_no_set_that_is_measured_has_made_a_curve() -> None:
    names = {each["set"] for each in json.loads(curves.FILE.read_text())["curves"]}
    shown = Path(__file__).parents[2] / "benchmarks" / "results" / "planning.json"
    if not shown.exists():
        pytest.skip("the results are not part of an installed package")
    measured = {row["set"] for row in json.loads(shown.read_text())["numbers"]}
    assert measured
    assert not names & measured


def test_more_is_needed_for_more() -> None:
    options = {"delta": 1e-5, "scenario": "easy", "model": "gaussian"}
    few = rows_needed(0.7, 3, epsilon=1.0, **options)  # type: ignore[arg-type]
    many = rows_needed(0.95, 3, epsilon=1.0, **options)  # type: ignore[arg-type]
    assert 99 <= few <= many
    assert epsilon_needed(2.0, 50, 3, **options) == math.inf  # type: ignore[arg-type]


def test_wrong_numbers_are_refused() -> None:
    for wrong in ({"scenario": "nice"}, {"models": ["x"]}, {"majority": 0.1}, {"n_classes": 1}):
        with pytest.raises(InvalidInputError):
            plan(100, 3, epsilon=1.0, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError):
        pilot(np.zeros((3, 1)), [0, 1, 0], bounds=Bounds(norm=1.0), epsilon=1.0)


def test_the_command() -> None:
    told = done(
        "plan", "--rows", 200, "--columns", 3, "--epsilon", 1, "--models", "linear,additive"
    )
    assert "linear" in told
    assert "without privacy" in told
    assert "additive" in told
    assert run("plan", "--rows", 200, "--epsilon", 1).exit_code == 2


def test_a_number_is_planned_in_its_own_units(tmp_path: Path) -> None:
    day = {"lower": "2019-01-01", "upper": "2025-01-01", "parts": ["year", "month"]}
    facts = {"age": (0, 100), "town": ["a", "b"], "day": day, "pay": (0, 5000)}
    TableBounds.from_dict(facts, target="pay").write(tmp_path / "bounds.toml")
    words = ["plan", "--rows", 500, "--bounds", tmp_path / "bounds.toml", "--epsilon", 1]
    told = done(*words, "--models", "linear")
    assert "error" in told
    assert "the mean" in told
    assert "833" in told  # a sixth of the range: what the mean of the target is off by
    assert run(*words, "--accuracy", 0.9).exit_code == 2


@pytest.mark.usefixtures("noise")
def test_hulls_are_planned_from_simulated_rows_alone() -> None:
    found = plan(400, 4, epsilon=4.0, delta=1e-5, models=["hull"])
    (model,) = found.models
    assert model.interval[0] + 0.2 > 0.5
    assert model.interval[0] <= model.accuracy <= model.interval[1]
    assert "For hull there are no measured curves" in found.made
    X, y = simulated(Shape(50, 3), 0.9, 7)
    with pytest.raises(InvalidInputError, match="'model' must be one of"):
        pilot(X, y, bounds=Bounds(norm=1.5, labels=[0, 1]), epsilon=1.0, model="hull")
