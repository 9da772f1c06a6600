"""Lower bounds on epsilon: power against broken mechanisms, false alarms against right ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta

from sfumato.audit import empirical_epsilon
from sfumato.audit.empirical import epsilon_from_outputs, lower_limit, upper_limit
from sfumato.privacy import mu_from_budget

CONFIDENCE = 0.999
DELTA = 1e-5


def laplace_bound(seed: int, claimed: float) -> bool:
    rng = np.random.default_rng(seed)
    found = empirical_epsilon(
        lambda value, n: value + rng.laplace(scale=0.8, size=n),
        1.0,
        0.0,
        n_runs=20_000,
        batched=True,
        confidence=CONFIDENCE,
        claimed=claimed,
    )
    return found.refutes


def test_cheap_laplace_is_caught_in_50_of_50_seeds() -> None:
    assert sum(laplace_bound(seed, 1.0) for seed in range(50)) == 50


def test_gaussian_too_small_by_root_two_is_caught(seed: int) -> None:
    scale = 1 / mu_from_budget(1.0, DELTA)
    rng = np.random.default_rng(seed)
    options = {"delta": DELTA, "method": "gaussian", "claimed": 1.0, "n_runs": 100_000}
    shared = {"batched": True, "confidence": CONFIDENCE, **options}
    for factor in (math.sqrt(0.5), 1.0):

        def noisy(value: float, n: int, s: float = scale * factor) -> np.ndarray:
            return value + rng.normal(scale=s, size=n)

        assert empirical_epsilon(noisy, 1.0, 0.0, **shared).refutes is (factor < 1)


def test_false_alarms_stay_below_the_stated_rate() -> None:
    """At 80 % confidence, at most 20 % of right mechanisms may be accused: 4 standard errors."""
    alarms = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        found = empirical_epsilon(
            lambda value, n, rng=rng: value + rng.laplace(size=n),
            1.0,
            0.0,
            n_runs=400,
            batched=True,
            confidence=0.8,
            claimed=1.0,
        )
        alarms += found.refutes
    assert alarms <= 300 * 0.2 + 4 * math.sqrt(300 * 0.16)


def test_vectors_are_projected_on_what_differs() -> None:
    rng = np.random.default_rng(0)
    shift = np.zeros(30)
    shift[7] = 3.0

    def noisy(there: float, n: int) -> np.ndarray:
        return there * shift + rng.normal(size=(n, 30))

    found = empirical_epsilon(noisy, 1.0, 0.0, n_runs=4000, batched=True, delta=1e-3)
    assert found.epsilon > 3


def test_hinge_with_objective_perturbation_is_refuted(seed: int) -> None:
    """argmin (1 - x t)_+ + t²/2 + b t, b of density prop. to exp(-|b|/2), sold with epsilon 1.

    The minimiser sits exactly on the margin x t = 1 with positive probability, and where that is
    depends on the row: the atom is 0.197 under x = 1 and 0 under x = 0.5.
    """
    rng = np.random.default_rng(seed)

    def minimisers(x: float, n: int) -> np.ndarray:
        b = rng.laplace(scale=2.0, size=n)
        beyond, inside = -b, x - b
        return np.where(x * beyond >= 1, beyond, np.where(x * inside <= 1, inside, 1 / x))

    options = {"n_runs": 4000, "batched": True, "claimed": 1.0, "confidence": 0.999}
    found = empirical_epsilon(minimisers, 1.0, 0.5, **options)
    assert found.refutes
    assert found.epsilon > 3
    assert found.hits[0] / found.hits[1] == pytest.approx(0.197, abs=0.03)


def test_delta_is_given_away_first() -> None:
    outputs = np.concatenate([np.ones(500), np.zeros(500)])
    rng = np.random.default_rng(0)
    sides = rng.permutation(outputs), np.zeros(1000)
    assert epsilon_from_outputs(*sides).epsilon > 3
    assert epsilon_from_outputs(*sides, delta=0.6).epsilon == 0


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 10), (10, 10), (700, 10_000)])
def test_limits_are_those_of_clopper_and_pearson(k: int, n: int) -> None:
    low = 0.0 if k == 0 else beta.ppf(0.01, k, n - k + 1)
    high = 1.0 if k == n else beta.ppf(0.99, k + 1, n - k)
    assert float(lower_limit(k, n, 0.01)) == pytest.approx(low)
    assert float(upper_limit(k, n, 0.01)) == pytest.approx(high)
