"""What a ledger has spent, as a sum of bounded size."""

import math
import random

import pytest
from hypothesis import given, settings, strategies as st

from sfumato.ledger.spending import Scale, Spending
from sfumato.privacy.composition import epsilon_spent
from sfumato.privacy.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    EntryEvent,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedEvent,
)

DELTA = 1e-5
SCALE = Scale.of(2.0, DELTA)
KINDS = (
    ApproximateEvent(0.1, 1e-7),
    BoundedRangeEvent(0.07),
    EntryEvent(0.1, 1e-7),
    GaussianEvent(20.0),
    LaplaceEvent(0.05),
    ObjectivePerturbationEvent(40.0, 0.01, 2),
    PureEvent(0.1),
    RandomizedResponseEvent(0.1, 3),
    RepeatedEvent(LaplaceEvent(0.01), 9),
)


def added(events, scale=SCALE):
    total = Spending.none(scale)
    for event in events:
        total = total.plus(Spending.of([event], scale), scale)
    return total


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(KINDS), max_size=9))
def test_the_price_is_that_of_composing_anew(events):
    anew = epsilon_spent(events, DELTA)
    for total in (added(events), Spending.of(events, SCALE)):
        assert total.price(DELTA, 2.0) <= anew  # also for the last bit
        assert total.price(DELTA, 2.0) >= anew - 1e-3 * (1 + anew)
        assert total.fits(anew, DELTA)
        assert not total.fits(anew - 2e-3 * (1 + anew), DELTA)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(KINDS), max_size=9), st.randoms())
def test_sums_do_not_depend_on_the_order(events, draws):
    mixed = draws.sample(events, len(events))
    one, other = added(events), Spending.of(mixed, SCALE)
    for name in ("epsilon", "delta", "mu_squared", "rho", "kinds", "entry_bounds", "few"):
        assert getattr(one, name) == getattr(other, name)


def test_many_different_releases_are_priced_from_above_and_tightly():
    draws = random.Random(0)
    scale = Scale.of(2.0, 1e-6)
    epsilons = [draws.uniform(0.02, 0.04) for _ in range(300)]
    events = [LaplaceEvent(epsilon) for epsilon in epsilons]
    total = added(events, scale)
    assert total.few is None
    price = total.price(1e-6, 2.0)
    # Laplace losses have at most the variance of pure ones, whose composition is known well.
    spread = math.sqrt(sum(epsilon**2 for epsilon in epsilons))
    assert price < spread * math.sqrt(2 * math.log(1e6)) + spread**2 / 2
    alike = epsilon_spent([RepeatedEvent(LaplaceEvent(sum(epsilons) / 300), 300)], 1e-6)
    assert alike * 0.97 < price < alike * 1.06  # the mean epsilon, a little too low
    assert total.fits(price, 1e-6)


@pytest.mark.parametrize(
    "events", [KINDS, KINDS * 3, [LaplaceEvent(0.001 * i) for i in range(1, 40)]]
)
def test_what_is_stored_is_never_cheaper(events):
    total = added(events)
    stored = Spending.from_bytes(total.to_bytes())
    assert stored.covers(total, DELTA)
    for e in (-0.5, 0.0, 0.3, 1.0, 2.0):
        assert stored.losses.delta(e, 0.1) >= total.losses.delta(e, 0.1)
        assert stored.losses.delta(e, 0.1) <= total.losses.delta(e, 0.1) * (1 + 1e-6)
    assert stored.few == total.few
    assert Spending.from_bytes(stored.to_bytes()).to_bytes() == stored.to_bytes()


def test_a_checkpoint_of_other_charges_does_not_cover():
    total = added([LaplaceEvent(0.1), GaussianEvent(9.0)])
    for other in ([LaplaceEvent(0.1)], [PureEvent(0.1), GaussianEvent(9.0)], []):
        assert not added(other).covers(total, DELTA)
    cheaper = Spending.from_bytes(total.to_bytes())
    object.__setattr__(cheaper, "losses", added([PureEvent(0.01)]).losses)
    assert not cheaper.covers(total, DELTA)
    assert added([GaussianEvent(9.0), LaplaceEvent(0.1)]).covers(total, DELTA)


def test_large_and_narrow_charges_are_priced_by_the_quickest_bound_that_holds():
    events = [LaplaceEvent(0.6)] * 6 + [PureEvent(0.4)]
    assert added(events, Scale.of(4.0, DELTA)).fits(epsilon_spent(events, DELTA), DELTA)
    ranges = [BoundedRangeEvent(0.05 + 1e-4 * i) for i in range(100)]
    many = added(ranges)
    assert many.few is None
    rho = sum(event.epsilon**2 for event in ranges) / 8
    assert many._simple_epsilon(DELTA) <= rho + 2 * math.sqrt(rho * math.log(1 / DELTA))
    assert Spending.none(Scale.of(1.0, 0.0)).losses is None
    assert Spending.none(SCALE).losses is not None
