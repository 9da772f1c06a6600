"""What the best attacker can do: against closed forms, brute force, and noise that was drawn."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato import Guarantee
from sfumato.privacy import best_attacker, compose, epsilon_spent, mu_from_budget
from sfumato.privacy.attacker import _of_events, percent
from sfumato.privacy.distributions import pld_curve
from sfumato.privacy.events import (
    EntryEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    RepeatedEvent,
    SelectionEvent,
    flatten,
)
from sfumato.report.words import facts

FALSE_ALARM = 1e-6  # of each statistical test below
SEARCH = SelectionEvent(((GaussianEvent(4.0),),), "poisson", 8.0)


def gaussian(epsilon: float, delta: float, releases: int = 1) -> Guarantee:
    """Noise that just keeps the budget, in that many equal releases."""
    noise = GaussianEvent(math.sqrt(releases) / mu_from_budget(epsilon, delta))
    return Guarantee(epsilon=epsilon, delta=delta, events=(RepeatedEvent(noise, releases),))


# Gaussian noise ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1.0, 1e-5), (0.1, 1e-6), (20.0, 1e-5), (1e-3, 1e-9), (600.0, 1e-6)]
)
def test_how_often_the_loss_exceeds_epsilon_against_many_digits(epsilon, delta) -> None:
    """The half-line whose probability falls by exactly the factor, found by bisection."""
    mu = mpmath.mpf(mu_from_budget(epsilon, delta))
    with mpmath.workdps(50):
        low, high = mpmath.mpf(-40), mu / 2 + epsilon / mu
        for _ in range(150):
            middle = (low + high) / 2
            ratio = mpmath.ncdf(mu - middle) / mpmath.ncdf(-middle)
            low, high = (low, middle) if ratio > mpmath.exp(epsilon) else (middle, high)
        exact = mpmath.ncdf(mu - low)
        found = gaussian(epsilon, delta).attacker.loss_exceeds
        assert exact <= found <= exact * (1 + mpmath.mpf(1e-6))


# Other noise ------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_laplace_noise(epsilon: float) -> None:
    found = best_attacker(Guarantee(epsilon=epsilon, events=(LaplaceEvent(epsilon),)))
    assert found.guesses_right == pytest.approx(1 - math.exp(-epsilon / 2) / 2, rel=1e-4)
    threshold = -math.log(2 * 0.01) / epsilon  # of Lap(1/epsilon), 1 % false alarms
    hits = (
        1 - math.exp(-epsilon * (1 - threshold)) / 2 if threshold < 1 else math.exp(epsilon) / 100
    )
    assert hits * (1 - 1e-9) <= found.finds <= hits * (1 + 1e-3)


@given(st.floats(0.05, 4), st.floats(1e-6, 0.2))
def test_without_events_the_figures_are_those_of_the_worst_mechanism(epsilon, delta) -> None:
    guarantee = Guarantee(epsilon=epsilon, delta=delta)
    odds = (1 - delta) / (1 + math.exp(epsilon))
    p = np.array([delta, 0.0, odds * math.exp(epsilon), odds])
    best = assert_no_attack_is_better(p, p[[1, 0, 3, 2]], guarantee)
    assert best == pytest.approx((guarantee.attacker.guesses_right, guarantee.attacker.finds))


def assert_no_attack_is_better(p, q, guarantee: Guarantee) -> tuple[float, float]:
    """Try every set of outcomes, and every mixture of two sets at 1 % false alarms."""
    sets = [np.array(chosen, bool) for chosen in itertools.product((0, 1), repeat=len(p))]
    rates = [(float(q[chosen].sum()), float(p[chosen].sum())) for chosen in sets]
    right = max((1 - false + hit) / 2 for false, hit in rates)
    finds = max(
        a[1] + (b[1] - a[1]) * (0.01 - a[0]) / (b[0] - a[0])
        for a in rates
        for b in rates
        if a[0] <= 0.01 < b[0]
    )
    found = guarantee.attacker
    assert right <= found.guesses_right
    assert finds <= found.finds
    return right, finds


@pytest.mark.parametrize(
    "guarantee",
    [
        Guarantee(epsilon=0.099998, events=(LaplaceEvent(0.1),)),  # rounded: half are above
        Guarantee(epsilon=0.1, delta=1e-5, events=(EntryEvent(0.1, 1e-5),)),
        Guarantee(epsilon=1.0, delta=1e-5, events=(GaussianEvent(9.0), LaplaceEvent(0.1))),
        Guarantee(epsilon=epsilon_spent([SEARCH], 1e-5), delta=1e-5, events=(SEARCH,)),
        Guarantee(epsilon=1.0, delta=1e-5),
    ],
)
def test_the_loss_above_epsilon_is_not_told_of_other_noise(guarantee: Guarantee) -> None:
    assert guarantee.attacker.loss_exceeds is None
    names = [name for name, _ in facts(guarantee)]
    assert not [name for name in names if "loss" in name]
    assert "Best attacker, from even odds" in names
    assert "Privacy loss above epsilon" in dict(facts(gaussian(1.0, 1e-5)))


# What is not known --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "guarantee",
    [
        Guarantee(epsilon=math.inf),
        Guarantee(epsilon=None, status="refuted", claimed_epsilon=0.1),
        Guarantee(epsilon=1.0, status="testing"),
    ],
)
def test_where_nothing_is_promised_the_attacker_is_always_right(guarantee: Guarantee) -> None:
    assert guarantee.attacker.to_dict() == {
        "guesses_right": 1.0,
        "finds": 1.0,
        "loss_exceeds": 1.0,
        "false_alarms": 0.01,
    }


@given(st.floats(1e-9, 1))
def test_shares_are_written_no_smaller_than_they_are(share: float) -> None:
    assert percent(0.0) == "0 %"
    written = float(percent(share).removesuffix(" %")) / 100
    assert share * (1 - 1e-10) <= written <= share * 1.0101


@pytest.mark.parametrize("event", [PureEvent(1.0, "any"), LaplaceEvent(1.0), EntryEvent(1.0, 0.01)])
def test_events_that_leave_delta_unexplained_do_not_stand_for_a_guarantee(event) -> None:
    """A failure of probability 0.03 that no event tells of can give a record away."""
    stated = Guarantee(epsilon=1.0, delta=0.03, events=(event,))
    found = best_attacker(stated)
    assert found == best_attacker(Guarantee(epsilon=1.0, delta=0.03))
    assert compose(stated, stated).epsilon == 2.0
    explained = Guarantee(epsilon=1.0, delta=getattr(event, "delta", 0.0), events=(event,))
    assert best_attacker(explained).finds < found.finds


def test_what_an_attacker_finds_is_the_least_that_the_curve_allows() -> None:
    """On both sides of one half: by false alarms times exp(epsilon), or by what is missed."""
    for events in ([LaplaceEvent(0.5)] * 12, [LaplaceEvent(0.2)] * 3):
        curve = pld_curve(flatten(events))
        grid = np.linspace(0, 6, 1201)
        deltas = np.array([curve(e) for e in grid])
        for false_alarms in (0.01, 0.45):
            many = np.exp(grid) * false_alarms + deltas
            missed = 1 - np.exp(-grid) * (1 - deltas - false_alarms)
            least = min(many.min(), missed.min())
            found = _of_events(dict(flatten(events)), 1.0, false_alarms)[1]
            assert found <= least * (1 + 1e-3)
