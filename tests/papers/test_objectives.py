"""Perturbed linear objectives: exact losses of small problems, rounding, and what is printed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gamma as gamma_law, kstest

from sfumato import Bounds
from sfumato.audit.testing import seeded_noise, taint_test
from sfumato.exceptions import RefutedGuaranteeWarning
from sfumato.mechanisms.base import taped
from sfumato.mechanisms.entropy import seeded
from sfumato.mechanisms.objective import GammaObjectiveMechanism, farthest_minimiser
from sfumato.models.solvers import HuberHingeLoss
from sfumato.papers.feddpdr import PrintedDPML
from sfumato.papers.feddpdr.objective import LinearObjective
from sfumato.papers.feddpdr.printed import log_determinant, printed_budget
from sfumato.privacy.events import NonPrivateEvent
from sfumato.privacy.guarantee import Status

BALL = Bounds(norm=1.0, labels=range(10))


@pytest.fixture(scope="module")
def unit_digits(digits):
    X, y = digits
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


# Objective perturbation tried on small data -----------------------------------------------------

SMALL = np.array([[0.6, 0.3], [-0.5, 0.7], [0.2, -0.9]])


def exact_loss(objectives, theta, lam, log_density):
    """``log p(theta) / p'(theta)`` of the minimiser, by the change of variables."""
    parts = []
    for objective in objectives:
        linear = -(objective.gradient(theta) + lam * theta)
        hessian = numeric_hessian(objective, theta) + lam * np.eye(theta.size)
        parts.append(log_density(linear) + np.linalg.slogdet(hessian)[1])
    return parts[0] - parts[1]


def numeric_hessian(objective, theta, step=1e-6):
    columns = []
    for k in range(theta.size):
        move = np.zeros(theta.size)
        move[k] = step
        ahead, behind = objective.gradient(theta + move), objective.gradient(theta - move)
        columns.append((ahead - behind) / (2 * step))
    return np.array(columns)


def test_pure_objective_perturbation_keeps_its_epsilon(rng):
    """The exact privacy loss at many minimisers, for neighbours at the edge of the ball."""
    epsilon, lam = 1.5, 4.0
    largest = 0.0
    for _ in range(150):
        row, other = rng.normal(size=(2, 2))
        other = -row if rng.random() < 0.5 else other
        pair = []
        signs = 2.0 * rng.integers(2, size=4) - 1
        for last, sign in ((row, signs[2]), (other, signs[3])):
            rows = np.vstack([SMALL[:2], last / np.linalg.norm(last)])
            pair.append(LinearObjective(HuberHingeLoss(), rows, np.array([*signs[:2], sign])))
        mechanism = GammaObjectiveMechanism(
            sensitivity=2.0,
            kappa=log_determinant(0.5, lam),
            strong_convexity=lam,
            epsilon=epsilon,
            size=2,
        )
        with taped() as tape, seeded(int(rng.integers(2**31))):
            theta = mechanism.release(pair[0], ledger=None)
        assert len(tape.releases) == 1
        rate = mechanism.rate
        found = exact_loss(pair, theta, lam, lambda b, rate=rate: -rate * np.linalg.norm(b))
        assert abs(found) <= epsilon
        largest = max(largest, abs(found))
    assert largest > 0.3 * epsilon


def test_the_printed_machines_read_no_row_after_their_releases(unit_digits):
    X, y = unit_digits[0][:200], unit_digits[1][:200]
    taint_test(PrintedDPML(5, bounds=BALL, delta=1e-5), X, -0.5 * X[::-1], y, y[::-1])


# As printed -------------------------------------------------------------------------------------


def test_printed_noise_has_its_law(rng):
    """``||b|| ~ Gamma(k, 2/epsilon')``, found again from the minimiser."""
    X = rng.normal(size=(30, 4))
    bounds = Bounds(norm=1.0, labels=[0, 1])
    model = PrintedDPML(delta=0.0, bounds=bounds)
    lengths = []
    for _ in range(150):
        with taped() as tape:
            model.fit(X, np.arange(30) % 2)
        released = tape.releases[0]
        theta, objective = released.output, released.statistic.item()
        convexity = released.mechanism.strong_convexity
        lengths.append(np.linalg.norm(objective.gradient(theta) + convexity * theta))
    assert printed_budget(0.05, 10_000, 0.01, 0.5) == pytest.approx((0.0301, 0.0), abs=1e-4)
    assert printed_budget(0.005, 10_000, 0.01, 0.5) == pytest.approx((0.0025, 0.07), abs=1e-4)
    epsilon, _ = printed_budget(1.0, 30, 0.01, 0.5)
    assert kstest(lengths, gamma_law(4, scale=2 / epsilon).cdf).pvalue > 1e-6
    assert kstest(lengths, gamma_law(4, scale=1 / epsilon).cdf).pvalue < 1e-6


def test_status_is_read_off_the_bounds_and_not_off_the_rows(unit_digits):
    """Rows inside the ball under bounds that allow longer ones: refuted all the same."""
    X, y = unit_digits
    for wide in ({"norm": 2.0}, {"lower": -1.0, "upper": 0.125}, {"lower": 0.0, "upper": 1.0}):
        model = PrintedDPML(delta=0.0, bounds=Bounds(**wide, labels=range(10)))
        with pytest.warns(RefutedGuaranteeWarning):
            model.fit(X * 0.01, y)
        assert model.guarantee_.status is Status.REFUTED
    assert (model.guarantee_.epsilon, model.guarantee_.claimed_epsilon) == (None, 1.0)
    assert NonPrivateEvent() in model.guarantee_.events
    inside = Bounds(lower=-0.125, upper=0.125, labels=range(10))  # 64 features: radius 1
    boxed = PrintedDPML(delta=0.0, bounds=inside)
    assert boxed.fit(100 * X, y).guarantee_.status is Status.CONDITIONAL
    weights = []
    for rows in (100 * X, np.clip(100 * X, -0.125, 0.125)):  # clipped before anything reads them
        with seeded_noise(0):
            weights.append(boxed.fit(rows, y).weights_)
    np.testing.assert_array_equal(*weights)


def problem(rng, n=400, m=6, band=0.5):
    rows = rng.normal(size=(n, m))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    signs = np.sign(rows @ rng.normal(size=m) + 0.3 * rng.normal(size=n))
    return LinearObjective(HuberHingeLoss(band), rows, signs)


@pytest.mark.parametrize("band", [0.2, 0.5])
def test_no_row_adds_more_to_a_log_determinant_than_is_paid(band, rng):
    for curvature in (0.03, 1.0, 50.0):
        bound, found = log_determinant(band, curvature), []
        for score in rng.uniform(-1, 3, 200):
            row = LinearObjective(HuberHingeLoss(band), np.array([[0.6, 0.8]]), np.ones(1))
            hessian = numeric_hessian(row, score * row.rows[0], 1e-7)
            found.append(np.linalg.slogdet(np.eye(2) + hessian / curvature)[1])
        assert max(found) == pytest.approx(bound, rel=1e-5)  # attained inside the rounding


def test_gradient_error_covers_the_rounding(rng):
    """Against sums in extended precision."""
    objective = problem(rng, n=5000)
    weights = rng.normal(0, 30, 6)
    rows = objective.rows.astype(np.longdouble)
    margin = objective.signs * (rows @ weights.astype(np.longdouble))
    exact = (-objective.signs * np.clip(1.5 - margin, 0, 1)) @ rows  # width 0.5
    error = float(np.linalg.norm(objective.gradient(weights) - exact))
    assert 0 < error <= objective.gradient_error(weights) < 1e-7


def test_newton_finds_minimisers_and_none_lies_beyond_its_public_radius(rng):
    for band in (0.5, 0.01):
        objective = problem(rng, band=band)
        for lam in (1e-3, 1.0, 100.0):
            linear = rng.normal(0, 5, 6)
            found = objective.minimise(linear, lam, 1e-9)
            assert np.linalg.norm(objective.gradient(found) + linear + lam * found) < 1e-8
            farthest = objective.radius(np.linalg.norm(linear), lam) * (1 + 1e-9)
            assert np.linalg.norm(found) <= farthest
    one = LinearObjective(objective.loss, np.ones((1, 1)), np.ones(1))
    assert farthest_minimiser(1.0, 1.0, 0.0, 4.0) == 0.25  # attained: all of the slope at once
    assert one.minimise(np.zeros(1), 4.0, 1e-12)[0] == pytest.approx(0.25)
