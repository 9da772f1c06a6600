"""Releases of a function of one's own: norms by other formulas, laws by brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.spatial.distance import cdist
from scipy.stats import chi2

from sfumato import Bounds, Ledger
from sfumato.audit.testing import seeded_noise
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms import ExponentialMechanism, GaussianMechanism, GaussianProcessMechanism
from sfumato.mechanisms.base import taped
from sfumato.models.features import NUGGET, GaussianKernel
from sfumato.papers.functions import (
    OnlineFunction,
    choose_function,
    density_sensitivity,
    expansion_norm,
    machine_sensitivity,
    neighbour_weights,
    release_vector,
    rule_of_thumb,
    sobolev_density_sensitivity,
    sobolev_norm,
)


def norm_9(f, slope, rate: float) -> float:
    inside = quad(lambda t: slope(t) ** 2 + (rate * f(t)) ** 2, 0, 1)[0]
    return math.sqrt((f(0.0) ** 2 + f(1.0) ** 2) / 2 + inside / (2 * rate))


def test_the_sobolev_norm_is_that_of_9_and_10() -> None:
    def f(x):
        return np.sin(3 * x) + 0.5

    expected = norm_9(f, lambda x: 3 * np.cos(3 * x), 2.0)
    assert sobolev_norm(lambda x: f(x[:, 0]), 2.0) == pytest.approx(expected, rel=1e-5)
    flat = norm_9(lambda x: math.exp(-x), lambda x: -math.exp(-x), 2.0)
    product = sobolev_norm(lambda x: f(x[:, 0]) * np.exp(-x[:, 1]), 2.0, 2, n_knots=257)
    assert product == pytest.approx(expected * flat, rel=1e-4)


def test_printed_sensitivities_bound_the_norms_of_differences() -> None:
    h, n = 0.1, 50
    kernel = GaussianKernel(h)
    height = 1 / (n * math.sqrt(2 * math.pi) * h)
    far = expansion_norm([[0.1], [0.9]], [height, -height], kernel)
    assert far == pytest.approx(density_sensitivity(n, h), rel=1e-9)

    def difference(x):
        bumps = [np.exp(-((x[:, 0] - at) ** 2) / (2 * h * h)) for at in (0.32, 0.65)]
        return height * (bumps[0] - bumps[1])

    moved = sobolev_norm(difference, 1 / h, n_knots=4097)
    assert 0.5 * sobolev_density_sensitivity(n, h) < moved < sobolev_density_sensitivity(n, h)


def test_the_printed_sensitivity_of_a_machine_and_the_rule_for_bandwidths() -> None:
    assert machine_sensitivity(50, 0.25) == pytest.approx(0.08)
    assert rule_of_thumb([1.34], 64) == pytest.approx([2**-1])  # (4 / 128)^(1/5)
    assert rule_of_thumb([1.34, 2.68], 972) == pytest.approx(np.array([1, 2]) / 3.0)


def test_noise_of_a_general_covariance_has_that_covariance() -> None:
    """Chi-square of the whitened noise of 4,000 numbers, two-sided, false alarm 1e-6."""
    points = np.linspace(0, 1, 40)[:, None]
    gram = np.exp(-3 * np.abs(points - points.T))
    mechanism = GaussianMechanism(1.0, 2.0)
    with seeded_noise(0):
        drawn = [release_vector(np.ones(40), gram, mechanism) - 1 for _ in range(100)]
    white = np.linalg.solve(np.linalg.cholesky(gram), np.transpose(drawn)) / 2.0
    low, high = chi2.ppf([5e-7, 1 - 5e-7], white.size)
    assert low < np.sum(white**2) < high
    assert not low < 1.2 * np.sum(white**2) < high
    for matrix, why in ((GaussianKernel(0.3)(points, points), "no full rank"),
                        (np.tri(40), "symmetric"), (np.eye(39), "each value")):  # fmt: skip
        with pytest.raises(InvalidInputError, match=why):
            release_vector(np.ones(40), matrix, mechanism)
    with pytest.raises(InvalidInputError, match="finite"):
        release_vector(np.full(40, np.nan), gram, mechanism)


def test_a_function_is_chosen_by_the_exponential_law() -> None:
    with taped() as tape:
        chosen = choose_function([800.0, 0.0, 900.0], sensitivity=0.5, epsilon=2.0)
    assert (chosen, tape.releases[0].mechanism) == (1, ExponentialMechanism(0.5, 2.0))


# Section 5, online --------------------------------------------------------------------------------


def exponential(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.exp(-cdist(A, B) / 0.2)


PROCESS = GaussianProcessMechanism.calibrate(sensitivity=0.1, epsilon=1.0, delta=1e-5)


def wave(X):
    return np.sin(6 * X[:, 0])


def online(function=wave, **options):
    given = {"kernel": exponential, "mechanism": PROCESS, "domain": Bounds(lower=0.0, upper=1.0)}
    return OnlineFunction(function, max_answers=60, **given, **options)


def test_online_answers_are_direct_conditioning(rng: np.random.Generator) -> None:
    points = rng.choice(2**20 + 1, size=60, replace=False)[:, None] / 2**20
    budget = Ledger().create("rows", epsilon=2.0, delta=1e-4)
    with seeded_noise(0):
        asked = online(ledger=budget)
    assert budget.events() == (PROCESS.event(),)  # one charge, before any answer
    answers = np.concatenate([asked(points[:20]), asked(points[20:])])
    factor = np.linalg.cholesky(exponential(points, points) + NUGGET * np.eye(60))
    expected = wave(points) + factor @ asked._noise
    np.testing.assert_allclose(answers, expected, atol=1e-6)
    assert np.std(asked._noise) == pytest.approx(math.sqrt(PROCESS.variance()), rel=0.5)
    np.testing.assert_array_equal(asked(points[30:]), answers[30:])
    with pytest.raises(InvalidInputError, match="max_answers"):
        asked([0.123456])


def test_the_printed_online_mean_never_reads_the_function() -> None:
    points = np.linspace(0.1, 0.9, 5)
    answers = []
    for function in (wave, lambda X: 1e6 + X[:, 0]):
        with seeded_noise(0):
            answers.append(online(function, printed=True)(points))
    np.testing.assert_array_equal(*answers)


def test_the_printed_weights_of_two_neighbours_are_swapped() -> None:
    a, b = 0.1, 0.3
    known, new = np.array([[0.0], [a + b]]), np.array([[a]])
    weights = np.linalg.solve(exponential(known, known), exponential(known, new))[:, 0]
    np.testing.assert_allclose(neighbour_weights(a, b, 5.0), weights, atol=1e-12)
    assert neighbour_weights(a, b, 1.0, printed=True) == neighbour_weights(b, a, 1.0)
