"""Parallel composition: releases about disjoint sets of records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from sfumato.exceptions import InvalidInputError
from sfumato.privacy.composition import explained_by_events
from sfumato.privacy.events import Event, GaussianEvent, flatten
from sfumato.privacy.guarantee import Guarantee, Status


def parallel(*guarantees: Guarantee, condition: str) -> Guarantee:
    """Return the guarantee of releases about disjoint sets of records: the weakest of them.

    A record enters the releases about its own set, and the others do not depend on it: epsilon and
    delta are the largest of all.
    """
    if not guarantees:
        raise InvalidInputError("Nothing to compose: give at least one guarantee.")
    weakest = guarantees[0]
    for each in guarantees[1:]:
        both = weakest + each  # checks unit and relation, gathers conditions
        later = max(weakest, each, key=_figure)
        weakest = replace(
            later,
            delta=max(weakest.delta, each.delta),
            status=both.status,
            epsilon=None if both.status is Status.REFUTED else later.epsilon,
            public=both.public,
            conditions=both.conditions,
        )
    if len(guarantees) == 1:
        return weakest
    readings = {each.record_reading for each in guarantees}
    return replace(
        weakest.only_if(condition),
        record_reading=readings.pop() if len(readings) == 1 else None,
        events=_most_informative(guarantees),
    )


def _most_informative(guarantees: Sequence[Guarantee]) -> tuple[Event, ...]:
    """Return the events that bound every attacker of every set, or none."""
    counts = [flatten(each.events) for each in guarantees]
    if all(each == counts[0] for each in counts):
        return guarantees[0].events
    if not all(map(explained_by_events, guarantees)):
        return ()
    if not all(isinstance(event, GaussianEvent) for each in counts for event in each):
        return ()
    spread = [math.fsum(n / _multiplier(e) ** 2 for e, n in each.items()) for each in counts]
    return guarantees[spread.index(max(spread))].events


def _multiplier(event: Event) -> float:
    assert isinstance(event, GaussianEvent)  # noqa: S101 - for the type checker
    return event.noise_multiplier


def _figure(guarantee: Guarantee) -> float:
    return math.inf if guarantee.epsilon is None else guarantee.epsilon
