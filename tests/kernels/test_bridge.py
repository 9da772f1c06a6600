"""The O(log i) rule of the exponential kernel against direct conditioning."""

import math

import numpy as np
import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.kernels import ExponentialKernel
from sfumato.kernels.bridge import MarkovLine, bridge


def conditioned(rate, known, x):
    """Weights of all known points and the variance left, by solving with the Gram matrix."""
    kernel = ExponentialKernel(rate)
    gram = kernel(known[:, None], known[:, None])
    to_new = kernel(known[:, None], np.array([[x]]))[:, 0]
    weights = np.linalg.solve(gram, to_new)
    return weights, 1 - weights @ to_new


def worst_error(rule, rng, configurations=1000):
    worst = 0.0
    for _ in range(configurations):
        rate = 10 ** rng.uniform(-1, 2)
        points = rng.permutation(np.linspace(0, 1, 400))[: rng.integers(2, 12)]
        *known, x = points + rng.uniform(0, 1e-3)
        known = np.sort(known)
        weights, variance = conditioned(rate, known, x)
        place = np.searchsorted(known, x)
        gaps = (
            rate * (x - known[place - 1]) if place else math.inf,
            rate * (known[place] - x) if place < len(known) else math.inf,
        )
        left, right, left_over = rule(*gaps)
        expected = np.zeros(len(known))
        if place:
            expected[place - 1] = left
        if place < len(known):
            expected[place] = right
        worst = max(worst, np.abs(expected - weights).max(), abs(left_over - variance))
    return worst


def test_bridge_is_direct_conditioning(rng):
    assert worst_error(bridge, rng) < 1e-10


def test_swapped_weights_are_seen(rng):
    def swapped(left_gap, right_gap):
        left, right, variance = bridge(left_gap, right_gap)
        if math.inf in (left_gap, right_gap):
            return left, right, variance
        return right, left, variance

    assert worst_error(swapped, rng, 100) > 0.1


def test_bridge_over_huge_and_tiny_gaps():
    assert bridge(1e4, 1e4) == (0.0, 0.0, 1.0)
    left, right, variance = bridge(1e-9, 3e-9)
    assert (left, right) == (pytest.approx(0.75), pytest.approx(0.25))
    assert variance == pytest.approx(2 * 0.75e-9)


@pytest.mark.parametrize("rate", [0.1, 3.0, 200.0])
def test_line_is_the_cholesky_factor(rate, rng):
    points = np.sort(rng.uniform(0, 1, 30))
    line = MarkovLine(points, rate)
    factor = line.colour(np.eye(30))
    gram = ExponentialKernel(rate)(points[:, None], points[:, None])
    np.testing.assert_allclose(factor, np.linalg.cholesky(gram), atol=1e-10)
    values = rng.normal(size=(30, 4))
    np.testing.assert_allclose(line.colour(line.whiten(values)), values, atol=1e-10)


def test_line_of_one_point_and_of_equal_points():
    assert MarkovLine(np.array([0.3]), 2.0).whiten(np.array([5.0])) == [5.0]
    with pytest.raises(InvalidInputError, match="strictly"):
        MarkovLine(np.array([0.3, 0.3]), 2.0)
