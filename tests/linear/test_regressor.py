"""Linear regression from one noisy moment matrix, and by noisy gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from sfumato import Bounds, PrivateLinearRegressor
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.models.linear.regressor import ALGORITHMS
from sfumato.models.linear.target_moments import ridge_weights
from sfumato.privacy.gaussian import mu_from_budget


def data(n_rows: int = 5000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 3, size=(n_rows, 3))
    return X, X @ [1.0, -0.5, 0.0] + 0.3 + 0.2 * rng.normal(size=n_rows)


def test_columns_of_different_ranges() -> None:
    X, y = data()
    X = X * [1.0, 1000.0, 0.01]
    bounds = Bounds(lower=[-1, -1000, -0.01], upper=[3, 3000, 0.03])
    assert model(epsilon=3.0, bounds=bounds).fit(X, y).score(X, y) > 0.8


def model(**options: object) -> PrivateLinearRegressor:
    usual = {"delta": 1e-5, "target_bounds": (-5, 5), "bounds": Bounds(lower=-1.0, upper=3.0)}
    return PrivateLinearRegressor(**{**usual, **options})


def test_without_noise_it_is_least_squares() -> None:
    X, y = data()
    ours = model(algorithm="moments", epsilon=np.inf).fit(X, y)
    plain = LinearRegression().fit(X, y)
    np.testing.assert_allclose(ours.predict(X), plain.predict(X), atol=3e-3)
    assert ours.residual_std_ == pytest.approx(0.2, abs=0.02)


def test_gradients_without_noise_give_a_robust_line() -> None:
    X, y = data()
    ours = model(epsilon=np.inf).fit(X, y)
    np.testing.assert_allclose(ours.coef_ @ X.T + ours.intercept_, X @ [1, -0.5, 0] + 0.3, atol=0.1)
    assert ours.residual_std_ == pytest.approx(0.2, abs=0.02)


def test_outliers_move_gradients_less_than_moments(rng: np.random.Generator) -> None:
    X, y = data()
    y = np.where((X[:, 2] > 2) & (rng.random(len(y)) < 0.1), 50.0, y)
    options = {"epsilon": np.inf, "target_bounds": (-60, 60)}
    plain = model(algorithm="moments", **options).fit(X, y)
    robust = model(**options).fit(X, y)
    assert abs(robust.coef_[2]) < 0.8 * abs(plain.coef_[2])


def test_predictions_have_the_mean_of_a_skewed_target(rng: np.random.Generator) -> None:
    X = rng.uniform(size=(20_000, 2))
    y = (1 + X[:, 0]) * rng.exponential(size=len(X)) ** 2  # the mean is 2 (1 + x), the middle .48
    fitted = model(epsilon=3.0, target_bounds=(0, 50), bounds=Bounds(lower=0.0, upper=1.0))
    assert fitted.fit(X, y).predict(X).mean() == pytest.approx(y.mean(), rel=0.1)


def test_what_gradients_cost(noise: None) -> None:
    """Shares of mu² add up: one matrix and sixty gradients."""
    X, y = data(500)
    events = model(epsilon=1.0).fit(X, y).guarantee_.events
    matrix, gradients = events
    spent = 1 / matrix.noise_multiplier**2 + gradients.count / gradients.event.noise_multiplier**2
    assert gradients.count == 60
    assert spent == pytest.approx(mu_from_budget(1.0, 1e-5) ** 2, rel=1e-6)
    assert spent <= mu_from_budget(1.0, 1e-5) ** 2 * (1 + 1e-12)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_line_is_found(noise: None, relation: str, algorithm: str) -> None:
    X, y = data(20_000)
    fitted = model(algorithm=algorithm, epsilon=2.0, relation=relation).fit(X, y)
    assert fitted.score(X, y) > 0.9
    ends = fitted.predict_interval(X, 0.9)
    assert np.mean((ends[:, 0] <= y) & (y <= ends[:, 1])) > 0.85


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_little_budget_gives_no_wild_line(noise: None, algorithm: str) -> None:
    X, y = data(500)
    scores = [model(algorithm=algorithm, epsilon=0.05).fit(X, y).score(X, y) for _ in range(15)]
    assert np.median(scores) > -6.0  # the public range alone allows -18


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_missing_targets_add_nothing(algorithm: str) -> None:
    X, y = data()
    y[:2500] = np.nan
    fitted = model(algorithm=algorithm, epsilon=np.inf).fit(X, y)
    assert fitted.score(X[2500:], y[2500:]) > 0.95


def test_what_is_refused() -> None:
    with pytest.raises(MissingBoundsError, match="target_bounds"):
        model(target_bounds=None).fit(*data(10))
    with pytest.raises(InvalidInputError, match="lower first"):
        model(target_bounds=(2, 1)).fit(*data(10))
    with pytest.raises(InvalidInputError, match="'noisy-gd', 'moments'"):
        model(algorithm="newton").fit(*data(10))
    with pytest.raises(InvalidInputError, match="n_steps"):
        model(n_steps=0).fit(*data(10))
    with pytest.raises(InvalidInputError, match="coverage"):
        model().fit(*data(2000)).predict_interval(data(5)[0], 1.5)


def test_the_ridge_goes_by_the_noise(rng: np.random.Generator) -> None:
    values, weights = np.array([0.3, 0.2, 0.1, 1e-4]), np.array([1.0, -1.0, 1.0, 0.0])
    exact = ridge_weights(values, values * weights, 1e-9)
    np.testing.assert_allclose(exact[:3], weights[:3], rtol=1e-5)
    risks = {}
    for times in (0.1, 3.2, None):  # fixed ridges, and the one that is chosen
        found = []
        for _ in range(300):
            joint = values * weights + 0.05 * rng.normal(size=4)
            noisy = np.maximum(values + 0.07 * rng.normal(size=4), 0.0)
            chosen = joint / (noisy + (times or 0) * 0.07 * math.sqrt(8) + 1e-12)
            chosen = ridge_weights(noisy, joint, 0.07) if times is None else chosen
            found.append(float((chosen - weights) @ (values * (chosen - weights))))
        risks[times] = np.mean(found)
    assert risks[None] < 0.8 * risks[0.1]  # a small ridge lets the noise in
    assert risks[None] < 1.05 * risks[3.2]
