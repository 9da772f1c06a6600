"""A factor that grows is the Cholesky factor, and takes half a matrix."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.linalg import cholesky, solve_triangular

from sfumato import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.functions import release_function, rules
from sfumato.functions.features import NUGGET
from sfumato.functions.rules import GrowingFactor
from sfumato.kernels import GaussianKernel, MaternKernel
from sfumato.mechanisms import GaussianProcessMechanism


@pytest.mark.parametrize("kernel", [MaternKernel(1.5, 0.3), GaussianKernel(0.05)])
def test_in_any_steps_it_is_the_cholesky_factor(monkeypatch, seed, kernel):
    monkeypatch.setattr(rules, "BLOCK", 8)
    rng = np.random.default_rng(seed)
    points, right = rng.uniform(size=(50, 2)), rng.normal(size=50)
    growing, solved = GrowingFactor(kernel, 2), np.empty(0)
    while len(growing) < 50:
        n_new = min(int(rng.integers(1, 20)), 50 - len(growing))
        new = points[len(growing) : len(growing) + n_new]
        if rng.random() < 0.5:
            growing.append_all(new)
        else:
            for point in new:
                growing.append(point, *growing.row_of(point))
        solved = growing.solved(solved, right[len(solved) : len(growing)])
    dense = cholesky(kernel(points, points) + NUGGET * np.eye(50), lower=True)
    np.testing.assert_allclose(solved, solve_triangular(dense, right, lower=True), rtol=1e-5)
    row, deviation = growing.row_of(np.array([0.5, 0.5]))
    left = kernel(points, np.array([[0.5, 0.5]]))[:, 0]
    np.testing.assert_allclose(row, solve_triangular(dense, left, lower=True), atol=1e-5)
    assert deviation > 0


def test_points_that_meet_do_not_stop_it():
    growing = GrowingFactor(GaussianKernel(1.0), 1)
    growing.append_all(np.full((300, 1), 0.5) + 1e-12 * np.arange(300)[:, None])
    assert np.isfinite(growing.solved(np.empty(0), np.ones(300))).all()


def test_it_takes_little_more_than_half_a_matrix():
    """3,000 answers took 505 MB to open again, seven matrices of their number squared."""
    points = np.random.default_rng(0).uniform(size=(1200, 2))
    growing = GrowingFactor(MaternKernel(1.5, 0.3), 2)
    tracemalloc.start()
    growing.append_all(points)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.1 * 8 * len(points) ** 2  # a half, and blocks on top of it


def test_the_bound_is_said_with_what_was_answered(monkeypatch):
    monkeypatch.setattr(rules, "MOST_DENSE", 5)
    asked = release_function(
        lambda X: X.sum(axis=1),
        kernel=MaternKernel(1.5, 0.3),
        mechanism=GaussianProcessMechanism.calibrate(sensitivity=0.1, epsilon=1.0, delta=1e-5),
        form="online",
        domain=Bounds(lower=0.0, upper=1.0),
    )
    before = asked([0.1, 0.2, 0.3, 0.4])
    with pytest.raises(InvalidInputError, match="at most 5 different points, and 4 were answered"):
        asked([0.5, 0.6])
    np.testing.assert_array_equal(asked([0.1, 0.2, 0.3, 0.4]), before)
    asked([0.5])


def test_its_backward_error_is_far_below_the_nugget():
    """The proof sheet asks for L Lᵀ >= K: rounding must be small beside τ."""
    points = np.random.default_rng(0).uniform(size=(700, 2))
    kernel = GaussianKernel(0.3)  # nearly singular
    growing = GrowingFactor(kernel, 2)
    growing.append_all(points)
    lower = np.zeros((700, 700))
    for start, block in growing._filled(700):
        lower[start : start + len(block), : block.shape[1]] = block[:, :700]
    error = np.abs(lower @ lower.T - kernel(points, points) - NUGGET * np.eye(700)).max()
    assert error < 1e-13 < NUGGET / 500
