"""Section 5 of the paper on functions: answers point by point against direct conditioning."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import kstest

from sfumato import Bounds, Ledger
from sfumato.exceptions import BudgetExceededError
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.mechanisms.entropy import drawing_from, seeded
from sfumato.models.features import NUGGET, MaternKernel
from sfumato.papers.functions.online import CELLS, OnlineFunction
from tests.models.literal import GivenNoise

UNIT = Bounds(lower=0.0, upper=1.0)
MECHANISM = GaussianProcessMechanism.calibrate(sensitivity=0.1, epsilon=1.0, delta=1e-5)
EXPONENTIAL = MaternKernel(0.5, 0.2)


class KernelExpansion:
    """``sum_i w_i K(., c_i)`` and its norm."""

    def __init__(self, kernel, centres, weights):
        self.kernel, self.centres, self.weights = kernel, centres, weights

    def __call__(self, X):
        return self.kernel(X, self.centres) @ self.weights

    def norm(self):
        return math.sqrt(self.weights @ self(self.centres))


def wave(X):
    return np.sin(6 * X[:, 0])


def begin(function=wave, kernel=EXPONENTIAL, **options):
    options = {"mechanism": MECHANISM, "domain": UNIT} | options
    return OnlineFunction(function, kernel=kernel, **options)


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("kernel", [EXPONENTIAL, MaternKernel(2.5, 0.7)], ids=repr)
def test_answers_are_direct_conditioning(kernel, d, rng):
    points = rng.choice(CELLS + 1, size=(60, d), replace=False) / CELLS
    f = KernelExpansion(kernel, points[:5], rng.normal(size=5))
    draws = rng.normal(size=60)
    asked = begin(f, kernel, n_features=d)
    asked._noise = GivenNoise(draws)
    answers = np.concatenate([asked(points[:20]), asked(points[20:])])
    gram = kernel(points, points) + NUGGET * np.eye(60)
    np.testing.assert_allclose(answers, f(points) + np.linalg.cholesky(gram) @ draws, atol=1e-8)


@given(st.integers(0, 2**32 - 1))
def test_coordinates_never_pass_the_norm_however_near_the_points(seed):
    """The attack on the printed formulas: ask points that nearly meet, in any order."""
    rng = np.random.default_rng(seed)
    kernel = MaternKernel(0.5, float(10 ** rng.uniform(-2, 1)))
    f = KernelExpansion(kernel, rng.uniform(size=(8, 1)), rng.normal(size=8))
    near = int(rng.integers(CELLS // 2)) + np.array([0, 1, 2, 3, 10, 11, 1000, 1001])
    cells = rng.permutation(np.concatenate([near, rng.choice(CELLS // 2, 20)]))
    asked = begin(f, kernel)
    asked._noise = noise = GivenNoise(np.zeros(len(cells)))
    asked(cells / CELLS)
    assert np.linalg.norm(noise.seen) <= f.norm() * (1 + 1e-6)


@pytest.mark.parametrize(("gap", "least"), [(0.1, 2.0), (0.01, 7.0), (0.001, 20.0)])
def test_the_printed_online_mean_leaks_even_when_repaired(gap, least):
    """Predicting from past *answers* on top of f: near points show f through little noise."""
    kernel = MaternKernel(0.5, 1.0)
    points = np.array([[0.3], [0.3 + gap]])
    f = KernelExpansion(kernel, points[:1], np.array([1.0]))
    factor = np.linalg.cholesky(kernel(points, points))
    first, second = f(points)
    printed = np.array([first, second + factor[1, 0] * first])  # what the mean becomes
    assert np.linalg.norm(np.linalg.solve(factor, printed)) > least * f.norm()
    assert np.linalg.norm(np.linalg.solve(factor, f(points))) <= f.norm() * (1 + 1e-12)


def test_the_printed_weights_of_two_neighbours_are_swapped():
    """The nearer neighbour weighs more: ``sinh(b) / sinh(a + b)`` belongs to the one at gap a."""
    kernel, a, b = MaternKernel(0.5, 1.0), 0.1, 0.3
    known, new = np.array([[0.0], [a + b]]), np.array([[a]])
    weights = np.linalg.solve(kernel(known, known), kernel(known, new))[:, 0]
    right = np.sinh([b, a]) / np.sinh(a + b)
    np.testing.assert_allclose(weights, right, atol=1e-12)
    assert np.abs(weights - right[::-1]).min() > 0.4


def test_the_noise_has_the_stated_law(seed):
    x = np.array([0.2, 0.25, 0.9, 0.3])
    functional = np.array([1.0, -1.0, 0.5, 0.3])
    gram = EXPONENTIAL(x[:, None], x[:, None])
    deviation = math.sqrt(MECHANISM.variance() * functional @ gram @ functional)
    with seeded(seed):
        scores = [(begin()(x) - wave(x[:, None])) @ functional / deviation for _ in range(500)]
    assert kstest(scores, "norm").pvalue > 1e-6
    assert kstest(np.array(scores) / 1.5, "norm").pvalue < 1e-3


def test_one_charge_before_any_draw(tmp_path, rng):
    budget = Ledger(tmp_path / "budget.db").create("rows", epsilon=1.0, delta=1e-5)
    begin(ledger=budget)(rng.uniform(size=100))
    assert budget.events() == (MECHANISM.event(),)

    def no_words(count):
        raise AssertionError("noise was drawn")

    with drawing_from(no_words), pytest.raises(BudgetExceededError):
        begin(ledger=budget)
