"""Points near a minimiser: quick solvers that fail, rounding, and the bounds that are public."""

import numpy as np
import pytest
from scipy.stats import chi

from sfumato.mechanisms.objective import near_minimiser, norm_quantile


class Quadratic:
    """``sum h_k (t_k - c_k)² / 2`` and a quick solver that gives what it is told to."""

    def __init__(self, h, centre, given, error=0.0):
        self.h, self.centre, self.given, self.error = h, centre, given, error
        self.shape, self.smoothness = centre.shape, float(h.max())

    def gradient(self, t):
        return self.h * (t - self.centre)

    def gradient_error(self, t):
        return self.error

    def minimise(self, linear, strong_convexity, tolerance):
        return self.given

    def radius(self, linear, strong_convexity):
        slopes = float(np.linalg.norm(self.h * self.centre))
        return (slopes + linear) / strong_convexity

    def minimiser(self, linear, lam):
        return (self.h * self.centre - linear) / (self.h + lam)


@pytest.mark.parametrize("given", [0.0, 1e9, np.nan, -np.inf], ids=str)
@pytest.mark.parametrize("steepest", [0.1, 50.0, 3000.0])
def test_a_quick_solver_that_fails_is_made_good(given, steepest, rng):
    """No error is raised, for that would tell something of the rows; the descent gets there."""
    h = np.array([steepest, steepest / 7, 0.0])
    centre, linear = rng.normal(0, 5, 3), rng.normal(0, 2, 3)
    objective = Quadratic(h, centre, np.full(3, given))
    found = near_minimiser(objective, linear, 0.7, 1e-3)
    assert np.linalg.norm(found - objective.minimiser(linear, 0.7)) <= 0.75 * 1e-3 / 0.7


def test_the_check_counts_rounding():
    """A gradient of 0.6 τ passes when it is exact, and not when it may be off by 0.3 τ."""
    tolerance, lam = 1e-2, 2.0
    h, centre = np.array([1.0]), np.array([3.0])
    for error, taken in ((0.0, True), (0.3, False)):
        objective = Quadratic(h, centre, None, error * tolerance)
        near = objective.minimiser(0.0, lam) + 0.6 * tolerance / (h + lam)
        objective.given = near
        found = near_minimiser(objective, np.zeros(1), lam, tolerance)
        assert np.array_equal(found, near) == taken
        assert abs(found - objective.minimiser(0.0, lam)) <= tolerance / lam


def test_descent_with_gradients_as_wrong_as_allowed_stays_near(rng):
    """Rounding errors of half the tolerance in every gradient: the distance still holds."""

    class Wrong(Quadratic):
        def gradient(self, t):
            off = rng.normal(size=t.shape)
            return super().gradient(t) + self.error * off / np.linalg.norm(off)

    h, centre, tolerance = np.array([40.0, 3.0, 0.0]), np.array([2.0, -1.0, 4.0]), 0.1
    objective = Wrong(h, centre, np.full(3, np.nan), error=tolerance / 2)
    found = near_minimiser(objective, np.zeros(3), 0.5, tolerance)
    assert np.linalg.norm(found - objective.minimiser(0.0, 0.5)) <= 0.75 * tolerance / 0.5


@pytest.mark.parametrize("size", [1, 10, 1000, 100_000])
def test_norms_of_noise_hardly_pass_their_quantile(size):
    """Against the laws themselves, e⁻⁶⁰ and not much further."""
    far = norm_quantile(size, 2.0)
    assert -1000 < chi(size, scale=2.0).logsf(far) < -60
