"""Bounded range: the curve against brute force, the composition against an adaptive attacker."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.privacy.composition import epsilon_spent
from sfumato.privacy.distributions import pld_delta, pld_epsilon
from sfumato.privacy.events import (
    BoundedRangeEvent,
    GaussianEvent,
    PureEvent,
    RepeatedEvent,
    event_from_dict,
)
from sfumato.privacy.renyi import bounded_range_delta, concentrated_epsilon


def up_probability(epsilon: float, top: np.ndarray) -> np.ndarray:
    """P(loss = top) of the pair of laws whose loss is `top` or ``top - epsilon``."""
    return -np.expm1(top - epsilon) / -np.expm1(-epsilon)


@pytest.mark.parametrize("epsilon", [0.01, 0.7, 5.0])
def test_the_curve_is_the_supremum_over_the_place_of_the_interval(epsilon: float) -> None:
    top = np.linspace(0, epsilon, 4001)
    up = up_probability(epsilon, top)
    for x in np.linspace(-1.2 * epsilon, 1.2 * epsilon, 49):
        gain_up = up * np.maximum(0, -np.expm1(x - top))
        gain_down = (1 - up) * np.maximum(0, -np.expm1(x - top + epsilon))
        largest = (gain_up + gain_down).max()
        curve = float(bounded_range_delta(epsilon, x))
        assert largest <= curve + 1e-12
        assert largest >= curve * (1 - 1e-6) - 1e-12


def test_exponential_mechanisms_stay_below_the_curve_and_reach_it() -> None:
    """Scores that move by at most 1 each way, on 2 to 6 candidates."""
    rng, epsilon, nearest = np.random.default_rng(0), 1.5, 0.0
    for case in range(500):
        size = int(rng.integers(2, 7))
        scores = rng.normal(size=size) * 10 ** rng.uniform(-1, 2)
        if case % 2:  # all the mass on two sides that move apart
            scores = np.array([0.0, rng.normal()])
        moved = scores + rng.choice([-1.0, 1.0], scores.size)
        log_p, log_q = (
            v / 2 * epsilon - np.logaddexp.reduce(v / 2 * epsilon) for v in (scores, moved)
        )
        loss = log_p - log_q
        assert np.ptp(loss) <= epsilon * (1 + 1e-9)
        for x in np.linspace(-1.4, 1.4, 15):
            delta = (np.exp(log_p) * np.maximum(0, -np.expm1(x - loss))).sum()
            curve = float(bounded_range_delta(epsilon, x))
            assert delta <= curve + 1e-12
            nearest = max(nearest, delta / curve if x > 0 else 0.0)
    assert nearest > 0.99


def attacked_delta(epsilon: float, count: int, cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Delta that an attacker reaches who places each interval after seeing the earlier outputs."""
    step, reach = epsilon / cells, cells * count
    x = np.arange(-reach, reach + 1) * step
    value = np.maximum(0, -np.expm1(x))
    top = np.arange(cells + 1)
    up = up_probability(epsilon, top * step)
    for _ in range(count):
        low = -np.expm1((np.arange(-reach - cells, -reach)) * step)
        padded = np.concatenate([low, value, np.zeros(cells)])
        value = np.max(
            [
                p * padded[cells - j : cells - j + x.size]
                + (1 - p) * padded[2 * cells - j : 2 * cells - j + x.size]
                for j, p in zip(top, up, strict=True)
            ],
            axis=0,
        )
    return x, value


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 50), (0.5, 10), (1.0, 2)])
def test_an_adaptive_attacker_stays_below_both_bounds(epsilon: float, count: int) -> None:
    x, attacked = attacked_delta(epsilon, count, 20)
    event = BoundedRangeEvent(epsilon)
    for delta in (1e-2, 1e-4, 1e-6):
        for bound in (pld_epsilon, concentrated_epsilon):
            claimed = bound({event: count}, delta)
            assert np.interp(claimed, x, attacked) <= delta * (1 + 1e-9)
        # The test can fail: four fifths of the best figure are less than what the attacker reaches.
        assert np.interp(0.8 * epsilon_spent([event] * count, delta), x, attacked) > delta


def test_fifty_choices_cost_half_of_fifty_pure_releases() -> None:
    choices = epsilon_spent([RepeatedEvent(BoundedRangeEvent(0.1), 50)], 1e-6)
    assert choices == pytest.approx(1.66, abs=0.005)
    # What was written down as pure before stays priced as pure.
    old = event_from_dict({"kind": "pure", "epsilon": 0.1, "law": "exponential"})
    assert epsilon_spent([RepeatedEvent(old, 50)], 1e-6) == pytest.approx(3.173, abs=0.005)
    assert epsilon_spent([RepeatedEvent(BoundedRangeEvent(0.1), 50)], 0.0) == 5.0


def test_a_single_choice_never_costs_more_than_its_epsilon() -> None:
    for epsilon in (1e-6, 0.1, 3.0, 50.0, 1e6):
        event = BoundedRangeEvent(epsilon)
        assert epsilon_spent([event], 0.0) == epsilon
        assert epsilon_spent([event], 1e-6) <= epsilon
        exact = epsilon + 2 * math.log1p(-math.sqrt(1e-6 * -math.expm1(-epsilon)))
        assert epsilon_spent([event], 1e-6) >= max(0.0, exact) * (1 - 1e-12)


def test_the_distribution_has_the_curve_and_mixes_with_gaussian_noise() -> None:
    event = BoundedRangeEvent(0.4)
    for x in (0.0, 0.1, 0.3, 0.39):
        assert pld_delta({event: 1}, x) == pytest.approx(
            float(bounded_range_delta(0.4, x)), rel=1e-6, abs=1e-12
        )
    noise = GaussianEvent(4.0)
    mixed = epsilon_spent([event, event, noise], 1e-6)
    assert (
        epsilon_spent([noise], 1e-6) < mixed < epsilon_spent([PureEvent(0.4)] * 2 + [noise], 1e-6)
    )
