"""What a guarantee for one record means for several records of one person.

Data sets that differ in k records are joined by k steps from neighbour to neighbour. So a
statistic moves by at most k times its sensitivity, and the noise, measured by that, is k times
smaller: each event has a *group event*, and group events compose like any others. For Gaussian
and Laplace noise the curve is exact. Only pure epsilon is k times as large; epsilon at a fixed
delta above 0 grows faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from sfumato.exceptions import InvalidInputError, UnsupportedEventError
from sfumato.privacy.composition import epsilon_spent
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
    RandomizedResponseEvent,
    RepeatedEvent,
    flatten,
)
from sfumato.privacy.guarantee import Guarantee, Relation, Unit


def group_epsilon(
    events: Iterable[Event],
    size: int,
    delta: float,
    relation: Relation = Relation.REPLACE_ONE,
) -> float:
    """Return the epsilon, at `delta`, of all `events` together for a group of `size` records.

    Parameters
    ----------
    events : iterable of Event
        The releases, such as `guarantee_.events`. Of a guarantee without events take
        ``[ApproximateEvent(epsilon, delta)]``.
    size : int
        Records k of a group: the most that one person has.
    delta : float
        The delta at which epsilon is asked for.
    relation : Relation, default="replace_one"
        The neighbours for which the events were calibrated.

    Returns
    -------
    float
        Epsilon, never below the truth; infinite where `delta` is too small for the group.

    Examples
    --------
    Ten records of one person, each at epsilon 0.1 with Gaussian noise:

    >>> from sfumato.privacy import group_epsilon, mu_from_budget
    >>> from sfumato.privacy.events import GaussianEvent
    >>> noise = GaussianEvent(1 / mu_from_budget(0.1, 1e-6))
    >>> round(group_epsilon([noise], 10, 1e-6), 3)
    1.178
    """
    if size < 1:
        raise InvalidInputError(f"'size' must be at least 1. Got {size} instead.")
    grouped = [
        RepeatedEvent(group_event(event, size), count) for event, count in flatten(events).items()
    ]
    return epsilon_spent(grouped, delta, relation)


def for_persons(guarantee: Guarantee, person_rows: int, delta: float | None = None) -> Guarantee:
    """Return what a guarantee for one record, or entry, is worth to a person with several rows.

    This is the group curve: exact for Gaussian and Laplace noise, an upper bound else. Estimators
    that offer unit "person" have less noise for the same promise.

    Parameters
    ----------
    guarantee : Guarantee
        Of unit "record" or "entry".
    person_rows : int
        The most rows of a person.
    delta : float, optional
        The delta at which epsilon is asked for; by default that of the guarantee.

    Returns
    -------
    Guarantee
        Of unit "person", under the condition that nobody has more rows. Where neighbours are data
        sets with one record replaced, the rows of a person are replaced by as many others.

    Examples
    --------
    >>> from sfumato import Guarantee
    >>> from sfumato.privacy import for_persons, mu_from_budget
    >>> from sfumato.privacy.events import GaussianEvent
    >>> noise = GaussianEvent(1 / mu_from_budget(0.1, 1e-6))
    >>> record = Guarantee(epsilon=0.1, delta=1e-6, events=(noise,))
    >>> round(for_persons(record, 10).epsilon, 3)
    1.178
    """
    if guarantee.unit is Unit.PERSON or guarantee.epsilon is None:
        raise InvalidInputError("Only a proved guarantee for records or entries is converted.")
    size = person_rows
    if guarantee.unit is Unit.ENTRY:
        if guarantee.record_reading is None:
            raise InvalidInputError("The guarantee does not say how many numbers a record has.")
        size *= guarantee.record_reading.n_entries
    at = guarantee.delta if delta is None else delta
    events = guarantee.events or (ApproximateEvent(guarantee.epsilon, guarantee.delta),)
    conditions = [f"no person has more than {person_rows} rows"]
    if guarantee.relation is Relation.REPLACE_ONE:
        conditions.append("the number of rows of each person is public")
    found = replace(
        guarantee,
        epsilon=group_epsilon(events, size, at, guarantee.relation),
        delta=at,
        unit=Unit.PERSON,
        entry_bound=None,
        whole_range=False,
        record_reading=None,
        events=tuple(group_event(event, size) for event in events),
    )
    return found.only_if(*conditions)


def group_event(event: Event, size: int) -> Event:
    """Return the event that a release is for a group of `size` records."""
    if size == 1 or isinstance(event, NonPrivateEvent):
        return event
    if isinstance(event, RepeatedEvent):
        return RepeatedEvent(group_event(event.event, size), event.count)
    handler = _HANDLERS.get(type(event))
    if handler is None:
        raise UnsupportedEventError(f"No group event is known for a {event.kind!r} event.")
    return handler(event, size)


def _times(value: float, size: int) -> float:
    """Multiply a number as it is written, and round up: ten times 0.1 is 1."""
    product = Decimal(repr(float(value))) * size
    near = float(product)
    return near if Decimal(repr(near)) >= product else math.nextafter(near, math.inf)


def _gaussian(event: GaussianEvent, size: int) -> Event:
    return GaussianEvent(math.nextafter(event.noise_multiplier / size, 0.0))


def _laplace(event: LaplaceEvent, size: int) -> Event:
    return LaplaceEvent(_times(event.epsilon, size))


def _entry(event: EntryEvent, size: int) -> Event:
    # One number moved by k d, or k numbers by d each: k independent losses are dominated by the
    # loss of one Laplace variable moved as far in sum, and k atoms are met more often than one.
    atoms = min(_times(event.delta, size), math.nextafter(1.0, 0.0))
    return EntryEvent(_times(event.epsilon, size), atoms, event.entry_bound)


def _pure(event: PureEvent, size: int) -> Event:
    return PureEvent(_times(event.epsilon, size), event.law)


def _bounded_range(event: BoundedRangeEvent, size: int) -> Event:
    return BoundedRangeEvent(_times(event.epsilon, size), event.law)  # ranges add up as well


def _randomized_response(event: RandomizedResponseEvent, size: int) -> Event:
    return RepeatedEvent(event, size)  # each label of the group is answered on its own


def _objective(event: ObjectivePerturbationEvent, size: int) -> Event:
    # Gradients add up, in the sum of k spaces, and so do logarithms of determinants.
    return ObjectivePerturbationEvent(
        math.nextafter(event.noise_multiplier / size, 0.0),
        _times(event.kappa, size),
        event.dimension * size,
    )


def _approximate(event: ApproximateEvent, size: int) -> Event:
    """``P <= e^eps P1 + delta <= e^2eps P2 + (1 + e^eps) delta <= ...``, and so on."""
    delta = event.delta
    for _ in range(size - 1):
        delta = (event.delta + math.exp(min(event.epsilon, 700.0)) * delta) * (1 + 1e-15)
        if delta >= 1:
            return NonPrivateEvent()
    return ApproximateEvent(_times(event.epsilon, size), delta)


_HANDLERS: dict[type[Event], Callable[[Any, int], Event]] = {
    ApproximateEvent: _approximate,
    BoundedRangeEvent: _bounded_range,
    EntryEvent: _entry,
    GaussianEvent: _gaussian,
    LaplaceEvent: _laplace,
    ObjectivePerturbationEvent: _objective,
    PureEvent: _pure,
    RandomizedResponseEvent: _randomized_response,
}
