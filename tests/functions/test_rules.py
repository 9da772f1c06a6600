"""Online rules against direct conditioning: the same covariance, coordinates that never leak."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.functions import rules
from sfumato.functions.domain import Domain
from sfumato.functions.features import NUGGET
from sfumato.functions.rules import DenseRule, MarkovRule
from sfumato.kernels import ExponentialKernel, KernelExpansion, MaternKernel
from sfumato.kernels.bridge import bridge
from tests.functions.literal import GivenNoise

LINE = Domain(Bounds(lower=-1.0, upper=2.0), 1)
PLANE = Domain(Bounds(lower=0.0, upper=1.0), 2)


def zero(X):
    return np.zeros(len(X))


def keys_in(domain, rng, count):
    cells = rng.choice(2**domain.bits + 1, size=(count, domain.n_features), replace=False)
    return [tuple(row) for row in cells.tolist()]


def swapped(left_gap, right_gap):
    left, right, variance = bridge(left_gap, right_gap)
    return (left, right, variance) if np.inf in (left_gap, right_gap) else (right, left, variance)


def worst_error(rng, configurations):
    """Distance of the online answers from ``f + L z``, L the Cholesky factor in order of asking."""
    worst = 0.0
    for _ in range(configurations):
        kernel = ExponentialKernel(10 ** rng.uniform(-1, 1.5))
        f = KernelExpansion(kernel, rng.uniform(-1, 2, (3, 1)), rng.normal(size=3))
        keys = keys_in(LINE, rng, int(rng.integers(2, 15)))
        draws = rng.normal(size=len(keys)).tolist()
        rule = MarkovRule(f, LINE, kernel, GivenNoise(draws))
        cut = int(rng.integers(len(keys)))
        answers = [*rule.answer(keys[:cut]), *rule.answer(keys[cut:])]
        points = LINE.points(keys)
        direct = f(points) + np.linalg.cholesky(kernel(points, points)) @ draws
        worst = max(worst, np.abs(answers - direct).max())
    return worst


def test_markov_rule_is_direct_conditioning(rng):
    assert worst_error(rng, 1000) < 1e-10


def test_markov_rule_with_swapped_weights_is_not(rng, monkeypatch):
    monkeypatch.setattr(rules, "bridge", swapped)
    assert worst_error(rng, 100) > 0.1


@pytest.mark.parametrize(
    ("domain", "kernel"),
    [
        (LINE, MaternKernel(1.5, 0.7)),
        (PLANE, ExponentialKernel(2.0)),
        (PLANE, MaternKernel(2.5, 0.7)),
    ],
    ids=["line, Matern", "plane, exponential", "plane, Matern"],
)
def test_dense_rule_is_direct_conditioning(domain, kernel, rng):
    keys = keys_in(domain, rng, 60)
    points = domain.points(keys)
    f = KernelExpansion(kernel, points[:5], rng.normal(size=5))
    draws = rng.normal(size=60).tolist()
    rule = DenseRule(f, domain, kernel, GivenNoise(draws))
    answers = [*rule.answer(keys[:20]), *rule.answer(keys[20:])]
    gram = kernel(points, points) + NUGGET * np.eye(60)
    np.testing.assert_allclose(answers, f(points) + np.linalg.cholesky(gram) @ draws, atol=1e-9)


@pytest.mark.parametrize(
    ("domain", "kernel"), [(LINE, ExponentialKernel(4.0)), (PLANE, MaternKernel(1.5, 0.7))]
)
def test_a_rule_that_learned_goes_on_as_the_one_that_answered(domain, kernel, rng):
    keys, draws = keys_in(domain, rng, 30), rng.normal(size=30).tolist()
    make = MarkovRule if domain is LINE else DenseRule
    first = make(lambda X: X[:, 0], domain, kernel, GivenNoise(draws))
    answers = first.answer(keys)
    second = make(lambda X: X[:, 0], domain, kernel, GivenNoise(draws[12:]))
    second.learn(keys[:5], answers[:5])
    second.learn([], [])
    second.learn(keys[5:8], answers[5:8])
    second.learn(keys[8:12], answers[8:12])
    np.testing.assert_allclose(second.answer(keys[12:]), answers[12:], atol=1e-9)


@given(st.integers(0, 2**32 - 1))
def test_coordinates_never_pass_the_norm_however_near_the_points(seed):
    """The attack on the printed formulas: ask points that nearly meet, in any order."""
    rng = np.random.default_rng(seed)
    kernel = ExponentialKernel(float(10 ** rng.uniform(-1, 2)))
    f = KernelExpansion(kernel, rng.uniform(-1, 2, (8, 1)), rng.normal(size=8))
    start = int(rng.integers(2**19))
    near = [start + d for d in (0, 1, 2, 3, 10, 11, 1000, 1001)]
    keys = [(k,) for k in rng.permutation(near + rng.choice(2**19, 20).tolist())]
    noise = GivenNoise(np.zeros(len(keys)))
    MarkovRule(f, LINE, kernel, noise).answer(list(dict.fromkeys(keys)))
    assert np.linalg.norm(noise.seen) <= f.norm() * (1 + 1e-6)


def test_swapped_weights_leak(monkeypatch):
    monkeypatch.setattr(rules, "bridge", swapped)
    kernel = ExponentialKernel(1.0)
    f = KernelExpansion(kernel, np.array([[0.0]]), np.array([1.0]))
    noise = GivenNoise(np.zeros(3))
    MarkovRule(f, LINE, kernel, noise).answer([(2**19,), (2**19 + 300_000,), (2**19 + 100,)])
    assert np.linalg.norm(noise.seen) > 5 * f.norm()


def test_dense_coordinates_never_pass_the_norm(rng):
    for kernel in (MaternKernel(2.5, 0.5), ExponentialKernel(3.0)):
        f = KernelExpansion(kernel, rng.uniform(size=(8, 2)), rng.normal(size=8))
        near = [(500_000 + int(i), 400_000 + int(j)) for i, j in rng.integers(0, 4, (12, 2))]
        keys = list(dict.fromkeys(near + keys_in(PLANE, rng, 30)))
        noise = GivenNoise(np.zeros(len(keys)))
        DenseRule(f, PLANE, kernel, noise).answer(keys)
        assert np.linalg.norm(noise.seen) <= f.norm() * (1 + 1e-6)


def test_a_dense_rule_has_a_limit(monkeypatch):
    monkeypatch.setattr(rules, "MOST_DENSE", 10)
    rule = DenseRule(zero, LINE, MaternKernel(1.5, 1.0), GivenNoise(np.zeros(30)))
    rule.answer([(i,) for i in range(10)])
    with pytest.raises(InvalidInputError, match="features"):
        rule.answer([(11,)])


@pytest.mark.parametrize(("gap", "least"), [(0.1, 2.0), (0.01, 7.0), (0.001, 20.0)])
def test_the_printed_online_mean_leaks_even_when_repaired(gap, least):
    """Predicting from past *answers* on top of f: near points show f through little noise."""
    kernel = ExponentialKernel(1.0)
    points = np.array([[0.3], [0.3 + gap]])
    f = KernelExpansion(kernel, points[:1], np.array([1.0]))
    factor = np.linalg.cholesky(kernel(points, points))
    first, second = f(points)
    printed = np.array([first, second + factor[1, 0] * first])  # what the mean becomes
    assert np.linalg.norm(np.linalg.solve(factor, printed)) > least * f.norm()
    assert np.linalg.norm(np.linalg.solve(factor, f(points))) <= f.norm() * (1 + 1e-12)
