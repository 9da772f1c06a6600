"""Groups of records and disjoint sets of them: against closed forms and brute force."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.exceptions import InvalidInputError, UnsupportedEventError
from sfumato.privacy import best_attacker, delta_from_mu, epsilon_spent, for_persons, group_epsilon
from sfumato.privacy.composition import group_event, parallel
from sfumato.privacy.distributions import pld_delta
from sfumato.privacy.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    EntryEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectivePerturbationEvent,
    PureEvent,
    RepeatedEvent,
    flatten,
)
from sfumato.privacy.guarantee import Guarantee, RecordReading, Status, Unit
from tests.privacy.events import EVENTS


@given(st.integers(1, 60), st.floats(0.01, 3), st.floats(1e-10, 0.1))
def test_gaussian_groups_are_exact(size: int, mu: float, delta: float) -> None:
    found = group_epsilon([GaussianEvent(1 / mu)], size, delta)
    assert delta_from_mu(size * mu * (1 - 1e-12), found) <= delta
    if found:
        assert delta_from_mu(size * mu, found * (1 - 1e-5)) > delta


@given(st.integers(1, 60), st.floats(0.01, 100), st.floats(0, 3))
def test_noise_for_a_group_is_never_rounded_up(size: int, noise: float, kappa: float) -> None:
    for event in (GaussianEvent(noise), ObjectivePerturbationEvent(noise, kappa, 3)):
        found: Any = group_event(event, size)
        assert found.noise_multiplier == pytest.approx(noise / size, rel=1e-12)
        assert Fraction(found.noise_multiplier) * size <= Fraction(noise)
    assert found.dimension == 3 * size
    assert Fraction(kappa) * size * (1 - Fraction(1, 2**50)) <= found.kappa


def test_pure_epsilons_multiply_as_they_are_written() -> None:
    for event in (PureEvent(0.1), LaplaceEvent(0.1), BoundedRangeEvent(0.1)):
        assert group_epsilon([event], 10, 0.0) == 1.0
        assert group_epsilon([event, event], 3, 0.0) == 0.6


def test_laplace_groups_are_exact() -> None:
    """Two people at distance 3 under Laplace noise for distance 1, by integration."""
    grid = np.linspace(-100, 100, 400_001)
    p, q = (np.exp(-0.4 * np.abs(grid - centre)) * 0.2 for centre in (0.0, 3.0))
    for epsilon in (0.1, 0.6, 1.1):
        exact = np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), grid)
        counts = flatten([group_event(LaplaceEvent(0.4), 3)])
        assert pld_delta(counts, epsilon) == pytest.approx(exact, rel=1e-3)


def test_a_bare_pair_of_epsilon_and_delta_goes_by_the_group_theorem() -> None:
    event = ApproximateEvent(0.5, 1e-6)
    found = group_event(event, 3)
    assert isinstance(found, ApproximateEvent)
    assert found.epsilon == 1.5
    assert found.delta == pytest.approx(1e-6 * (1 + math.exp(0.5) + math.exp(1.0)))
    assert group_event(ApproximateEvent(3.0, 1e-2), 3) == NonPrivateEvent()
    assert group_epsilon([event], 30, 1e-5) == math.inf


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_a_larger_group_costs_more_and_a_group_of_one_the_same(event: Event) -> None:
    costs = [group_epsilon([RepeatedEvent(event, 2)], size, 1e-5) for size in (1, 2, 3, 4)]
    assert costs[0] == epsilon_spent([event, event], 1e-5)
    assert costs == sorted(costs)
    assert costs[1] > 1.9 * costs[0]


def test_what_has_no_group_event_is_refused() -> None:
    assert 0.99 < group_event(EntryEvent(0.1, 0.4), 5).delta < 1  # type: ignore[attr-defined]

    class Telepathy(Event):
        kind = "telepathy"

    with pytest.raises(UnsupportedEventError, match="telepathy"):
        group_epsilon([Telepathy()], 2, 1e-5)
    with pytest.raises(InvalidInputError, match="size"):
        group_epsilon([GaussianEvent(1.0)], 0, 1e-5)
    assert group_epsilon([NonPrivateEvent()], 2, 1e-5) == math.inf


def test_persons_of_numbers_are_groups_of_all_their_numbers() -> None:
    """A guarantee per number, read for a person: their rows times the numbers of a row."""
    noise = GaussianEvent(20.0)
    reading = RecordReading(4, 0.8, 0.5, 1e-5, 1e-5)
    entry = Guarantee(epsilon=0.2, delta=1e-6, unit=Unit.ENTRY, entry_bound=1.0, events=(noise,))
    with pytest.raises(InvalidInputError, match="how many numbers a record has"):
        for_persons(entry, 3)
    found = for_persons(replace(entry, record_reading=reading), 3)
    assert found.unit is Unit.PERSON
    assert found.epsilon == group_epsilon([noise], 12, 1e-6)


@pytest.mark.parametrize("size", [2, 3, 10, 60])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.01])
def test_a_group_meets_k_atoms(size: int, delta: float) -> None:
    """Entries of k records are each published as they are with probability delta."""
    grouped = group_event(EntryEvent(0.5, delta, 1.0), size)
    assert isinstance(grouped, EntryEvent)
    assert -math.expm1(size * math.log1p(-delta)) <= grouped.delta <= size * delta * (1 + 1e-12)
    assert grouped.epsilon == pytest.approx(0.5 * size)
    assert grouped.entry_bound == 1.0


@pytest.mark.parametrize("size", [2, 3])
def test_k_entries_with_atoms_stay_below_the_group_curve(size: int) -> None:
    """Brute force: entries of 0 against entries of d, each with its own noise or its atom.

    An atom is met on one side only, so it is lost; else losses of k Laplace variables add up.
    """
    epsilon, delta = 0.4, 0.02
    # of one entry: atoms at both ends, a density between
    loss = np.linspace(-epsilon, epsilon, 801)
    weight = np.exp(loss / 2 - epsilon / 2) / 4 * (loss[1] - loss[0])
    weight[[0, -1]] = np.exp(-epsilon) / 2, 0.5
    weight *= (1 - delta) / weight.sum()
    total, losses = weight, loss
    for _ in range(size - 1):
        total = np.convolve(total, weight)
        losses = np.linspace(-epsilon * size, epsilon * size, len(total))
    for asked in (0.0, 0.3, 0.8, 1.2):
        over = np.maximum(1 - np.exp(asked - losses), 0.0)
        truth = 1 - (1 - delta) ** size + float(total @ over)
        events = [group_event(EntryEvent(epsilon, delta, 1.0), size)]
        assert pld_delta(flatten(events), asked) >= truth - 1e-3
        assert group_epsilon([EntryEvent(epsilon, delta, 1.0)], size, 1.5 * delta) == math.inf


def promise(delta: float, *events: Event) -> Guarantee:
    return Guarantee(epsilon_spent(events, delta, "replace_one"), delta, events=events)


PROMISES = {
    "weak at a small delta": promise(1e-9, GaussianEvent(4.0)),
    "strong at a large delta": promise(1e-2, GaussianEvent(2.0)),
    "pure": promise(0.0, PureEvent(1.2)),
    "two Gaussians": promise(1e-6, GaussianEvent(5.0), GaussianEvent(6.0)),
    "no events": Guarantee(0.9, 1e-5),
    "events of a part": Guarantee(1.5, 1e-5, events=(GaussianEvent(40.0),)),
}


@pytest.mark.parametrize("pair", itertools.permutations(PROMISES, 2), ids="/".join)
def test_no_figure_is_below_that_of_a_set(pair: tuple[str, str]) -> None:
    parts = [PROMISES[name] for name in pair]
    total = parallel(*parts, condition="one set each")
    assert total.epsilon == max(part.epsilon for part in parts)
    assert total.delta == max(part.delta for part in parts)
    assert (total.status, total.conditions) == (Status.CONDITIONAL, ("one set each",))
    whole = best_attacker(total)
    for part in map(best_attacker, parts):
        assert whole.guesses_right >= part.guesses_right
        assert whole.finds >= part.finds
    if total.events:  # accounted again, they cost no more than is stated
        assert epsilon_spent(total.events, total.delta, total.relation) <= total.epsilon * (
            1 + 1e-9
        )


def test_one_set_is_itself_and_none_is_an_error() -> None:
    (alone,) = [PROMISES["pure"]]
    assert parallel(alone, condition="one set each") == alone
    assert parallel(alone, alone, condition="x").events == alone.events
    with pytest.raises(InvalidInputError):
        parallel(condition="one set each")
    other = Guarantee(1.0, relation="add_or_remove_one")
    with pytest.raises(InvalidInputError):
        parallel(alone, other, condition="one set each")


def test_a_worse_status_stays() -> None:
    seeded = Guarantee(1.0, status="testing")
    total = parallel(seeded, PROMISES["pure"], condition="one set each")
    assert total.status is Status.TESTING
    refuted = Guarantee(None, status="refuted")
    assert parallel(seeded, refuted, condition="one set each").epsilon is None
