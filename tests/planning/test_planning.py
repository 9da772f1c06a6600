"""Plans: from public numbers alone, monotone where they must be, and a pilot that pays."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sfumato import Bounds, Ledger
from sfumato.accounting import epsilon_spent, mu_from_budget
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms import GaussianMechanism
from sfumato.planning import SCENARIOS, epsilon_needed, pilot, plan, rows_needed
from sfumato.planning.simulation import Shape, simulated
from tests.interfaces.running import done, run


def test_a_plan_has_an_interval_and_says_how_it_was_made() -> None:
    found = plan(400, 4, epsilon=2.0, delta=1e-5, models=["linear"], majority=0.6)
    (model,) = found.models
    assert model.interval[0] <= model.accuracy <= model.interval[1]
    assert found.majority == 0.6
    assert "separable" in found.made
    assert json.dumps(found.to_dict())
    more = plan(4000, 4, epsilon=20.0, delta=1e-5, models=["linear"])
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
    told = done("plan", "--rows", 200, "--columns", 3, "--epsilon", 1)
    assert "linear" in told
    assert "without privacy" in told
    assert run("plan", "--rows", 200, "--epsilon", 1).exit_code == 2
