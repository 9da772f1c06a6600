"""Measures of privacy losses: never below the truth, and hardly above it."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.exceptions import UnsupportedEventError
from sfumato.privacy import losses as module
from sfumato.privacy.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    EntryEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectivePerturbationEvent,
    PureEvent,
    RandomizedResponseEvent,
    SelectionEvent,
    SubsampledGaussianEvent,
)
from sfumato.privacy.gaussian import delta_from_mu
from sfumato.privacy.losses import Losses, losses_of
from sfumato.privacy.renyi import bounded_range_delta
from tests.privacy.events import objective_delta

STEP = 2.0**-12
TAIL = 1e-15


def atoms(pairs):
    """The curve of a few exact losses."""
    return lambda e: math.fsum(p * max(0.0, -math.expm1(e - x)) for x, p in pairs)


def laplace(epsilon, e):
    if abs(e) <= epsilon:
        return -math.expm1((e - epsilon) / 2)
    return 0.0 if e > 0 else -math.expm1(e)


def curve(event, e):
    """The exact delta of one release at e, from the law and not from the code."""
    if isinstance(event, LaplaceEvent):
        return laplace(event.epsilon, e)
    if isinstance(event, EntryEvent):
        return event.delta + (1 - event.delta) * laplace(event.epsilon, e)
    if isinstance(event, BoundedRangeEvent):
        return float(bounded_range_delta(event.epsilon, e))
    if isinstance(event, ObjectivePerturbationEvent):
        return objective_delta(event, e)
    odds = math.exp(event.epsilon)
    if isinstance(event, RandomizedResponseEvent):
        whole, rest = odds + event.n_labels - 1, event.n_labels - 2
        masses = [(event.epsilon, odds / whole), (0, rest / whole), (-event.epsilon, 1 / whole)]
        return atoms(masses)(e)
    pure = atoms([(event.epsilon, odds / (1 + odds)), (-event.epsilon, 1 / (1 + odds))])(e)
    lost = getattr(event, "delta", 0.0)
    return lost + (1 - lost) * pure


EVENTS = (
    PureEvent(0.3),
    PureEvent(3.0),
    LaplaceEvent(0.05),
    LaplaceEvent(1.7),
    RandomizedResponseEvent(0.4, 2),
    RandomizedResponseEvent(1.0, 7),
    BoundedRangeEvent(0.25),
    BoundedRangeEvent(2.0),
    ApproximateEvent(0.2, 1e-4),
    ApproximateEvent(0.0, 1e-3),
    EntryEvent(0.3, 1e-5),
    ObjectivePerturbationEvent(20.0, 0.1, 3),
)
SEARCHES = (
    SelectionEvent(((GaussianEvent(5.0),),), "poisson", 5.0, max_runs=30),
    SubsampledGaussianEvent(2.0, 0.1),
)


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_one_release_is_bounded_and_tightly_so(event):
    measure = losses_of(event, STEP)
    on_grid = np.arange(-8000, 16000, 777) * STEP
    off_grid = on_grid + STEP * 0.37
    for e in (*on_grid, *off_grid):
        found, exact = measure.delta(e, 0.0), curve(event, e)
        assert found >= exact * (1 - 1e-12) - 1e-15
        is_rounded_up = isinstance(event, ObjectivePerturbationEvent) or e in off_grid
        assert found <= exact + (2 * STEP if is_rounded_up else 2e-6 * exact + 1e-12)


@pytest.mark.parametrize("event", [*EVENTS, *SEARCHES], ids=repr)
def test_no_mass_is_lost(event):
    measure = losses_of(event, STEP)
    assert math.fsum((*measure.masses, measure.infinite)) >= 1


def test_an_unknown_release_is_refused():
    for event in (NonPrivateEvent(), GaussianEvent(1.0)):
        with pytest.raises(UnsupportedEventError, match=event.kind):
            losses_of(event, STEP)


def _one_by_one(events, step=STEP, tail=TAIL):
    measure = Losses.none(step)
    for event in events:
        measure = measure.composed(losses_of(event, step), tail)
    return measure


@pytest.mark.parametrize("mu", [1e-5, 1e-3, 0.1, 1.0, 30.0])
def test_the_gaussian_curve_is_not_too_small_at_tiny_deltas(mu):
    """Down to deltas that doubles cannot hold; there two logarithms cancel."""
    mpmath.mp.dps = 60
    e = mu * mu / 2 + mu * np.linspace(20, 39.5, 40)
    found = module._gaussian_curve(e, mu) * (1 + module.CURVE_ROUNDING)
    for place, value in zip(e, found, strict=True):
        a, b = mu / mpmath.mpf(2) - mpmath.mpf(place) / mu, -mpmath.mpf(place) / mu
        exact = mpmath.ncdf(a) - mpmath.exp(place) * mpmath.ncdf(b - mu / mpmath.mpf(2))
        assert exact < value < exact * (1 + 1e-4) + 1e-299


@pytest.mark.parametrize("mu", np.geomspace(1e-6, 300, 12).tolist())
def test_delta_is_the_exact_one_or_the_double_above(mu):
    for place in (*np.linspace(-45, 45, 11), -52):  # standard deviations from the middle
        epsilon = mu * mu / 2 - place * mu
        if epsilon < 0:
            continue
        with mpmath.workdps(700):
            m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
            exact = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
            found = mpmath.mpf(delta_from_mu(mu, epsilon))
            assert exact <= found <= max(min(1, exact * (1 + mpmath.mpf(2) ** -52)), 5e-324)


def test_transforms_err_by_less_than_what_is_added():
    draws = np.random.default_rng(0)
    worst = 0.0
    for size, width in ((3000, 300), (9000, 1500)):
        large, small = draws.exponential(size=size) ** 4, draws.exponential(size=width) ** 4
        large, small = large / large.sum(), small / small.sum()
        part, lost = module._convolved(large, small)
        exact = np.convolve(large.astype(np.longdouble), small.astype(np.longdouble))
        lacking = float(np.maximum(exact - part, 0).sum())
        assert lacking <= lost
        worst = max(worst, lacking / lost)
    assert worst > 1e-6  # or it is no bound but a guess far away


def test_what_is_done_to_a_measure_only_raises_its_curve():
    measure = _one_by_one([LaplaceEvent(0.11), PureEvent(0.07), BoundedRangeEvent(0.2)] * 3)
    changed = (
        measure._at(2 * STEP),
        measure._at(8 * STEP),
        measure.trimmed(1e-6),
        measure.trimmed(0.3),
        measure.composed(Losses.none(STEP), TAIL),
    )
    for e in np.linspace(-1, 2, 61):
        before = measure.delta(e, 0.0)
        for other in changed:
            assert other.delta(e, 0.0) >= before * (1 - 1e-12)
    assert changed[1].interval == 8 * STEP
    assert changed[3].infinite >= 0.2


def test_a_wide_measure_keeps_to_its_cells():
    measure = _one_by_one([PureEvent(5.0)] * 6)
    assert len(measure.masses) <= module.MAX_CELLS
    exact = Fraction(30)
    assert 0 < measure.delta(float(exact) - 1e-3, 0.0) < 1
    assert len(losses_of(PureEvent(1e5), STEP).masses) <= module.MAX_CELLS
    assert losses_of(PureEvent(1e5), STEP).delta(0.99e5, 0.0) == pytest.approx(1.0, rel=1e-5)
    for event in (PureEvent(1.7e308), LaplaceEvent(1e200), ObjectivePerturbationEvent(1e-99, 0, 2)):
        assert losses_of(event, STEP).delta(1e4, 0.0) >= 1.0  # no more is known than that


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0.001, 0.9), min_size=1, max_size=9), st.floats(0, 2), st.floats(0.01, 1))
def test_different_pure_releases_against_every_outcome(epsilons, at, mu):
    """All 2^k outcomes, each with Gaussian noise beside it."""
    outcomes = [(0.0, 1.0)]
    for epsilon in epsilons:
        up = 1 / (1 + math.exp(-epsilon))
        outcomes = [
            (x + step, p * q)
            for x, p in outcomes
            for step, q in ((epsilon, up), (-epsilon, 1 - up))
        ]
    losses, masses = np.array(outcomes).T
    for gaussian in (0.0, mu):
        exact = float(masses @ module._gaussian_curve(at - losses, gaussian))
        found = _one_by_one([PureEvent(epsilon) for epsilon in epsilons]).delta(at, gaussian)
        assert exact * (1 - 1e-12) <= found <= exact + 2 * STEP


def test_masses_are_rounded_up_wherever_they_are_moved():
    draws = np.random.default_rng(0)
    places, masses = draws.uniform(-3, 3, 1000), draws.uniform(size=1000)
    found = module._on_grid(places, masses, STEP)
    assert math.fsum(found.masses) >= math.fsum(masses)
    for seed in range(40):  # what is cut off is no less at infinity
        masses = np.random.default_rng(seed).uniform(size=999)
        cut = Losses(STEP, 0, masses).trimmed(300.0)
        assert math.fsum((*cut.masses, cut.infinite)) >= math.fsum(masses)
    steep = losses_of(ObjectivePerturbationEvent(3.0, 0.123456, 1), 2.0**-10)
    assert math.fsum((*steep.masses, steep.infinite)) >= 1
    tiny = SelectionEvent(((GaussianEvent(2000.0),),), "poisson", 3.0, max_runs=30)
    measure = losses_of(tiny, 2.0**-24)  # a narrow one: its lowest loss holds a share of the mass
    assert math.fsum((*measure.masses, measure.infinite)) >= 1
