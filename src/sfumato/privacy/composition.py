"""What several releases on the same data cost together, for a group, and how much noise fits.

Every figure here is an upper bound that is proved, so the smallest of them is one too:

- the exact decimal sum, where each release has an epsilon of its own (0.1 + 0.9 is 1);
- the Gaussian closed form, ``mu² = sum mu_i²``;
- concentration, ``rho = sum rho_i``, where a release has a bounded range;
- the privacy loss distribution of all releases (dp-accounting), the tight one for mixtures.

Composition by loss distributions assumes that the *parameters* of the releases were not chosen
from earlier outputs; the decimal sum and the Gaussian form hold under full adaptivity.

Data sets that differ in k records are joined by k steps from neighbour to neighbour. So a
statistic moves by at most k times its sensitivity, and the noise, measured by that, is k times
smaller: each event has a *group event*, and group events compose like any others. For Gaussian
and Laplace noise the curve is exact. Only pure epsilon is k times as large; epsilon at a fixed
delta above 0 grows faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from sfumato.exceptions import InvalidInputError, UnsupportedEventError
from sfumato.privacy.distributions import pld_delta, pld_epsilon, pld_keeps
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
    SelectionEvent,
    SubsampledGaussianEvent,
    flatten,
)
from sfumato.privacy.gaussian import epsilon_from_mu, mu_from_budget
from sfumato.privacy.guarantee import Guarantee, RecordReading, Relation, Status, Unit
from sfumato.privacy.renyi import concentrated_epsilon, concentration, selection_epsilon

ROUNDING = 2.0**-51  # more than one operation on doubles changes
MAX_MULTIPLIER = 2.0**40
CLOSE = 1.2  # times the concentration of releases: about what they cost together with Gaussian ones

EVENTS_WITH_EPSILON = (
    ApproximateEvent,
    BoundedRangeEvent,
    EntryEvent,
    LaplaceEvent,
    PureEvent,
    RandomizedResponseEvent,
)

# No epsilon of their own: their loss distributions have it.
EVENTS_WITH_CURVES = (ObjectivePerturbationEvent, SelectionEvent, SubsampledGaussianEvent)


def epsilon_spent(
    events: Iterable[Event],
    delta: float,
    relation: Relation = Relation.REPLACE_ONE,
    *,
    enough: float | None = None,
) -> float:
    """Return the smallest epsilon that is proved for all `events` together at `delta`.

    Parameters
    ----------
    events : iterable of Event
        The releases, in any order.
    delta : float
        The delta at which epsilon is asked for.
    relation : Relation, default="replace_one"
        The neighbours for which the events were calibrated.
    enough : float, optional
        Stop at the first bound that is not above this figure, instead of looking for the
        smallest; a ledger that only asks "does it fit?" saves the tight computation.

    Returns
    -------
    float
        Epsilon, never below the truth.
    """
    counts, spent, is_settled = _in_closed_form(events, delta, relation)
    if is_settled or (enough is not None and spent <= enough):
        return spent
    return min(spent, pld_epsilon(counts, delta))


def keeps_budget(
    events: Iterable[Event], *, epsilon: float, delta: float, relation: Relation
) -> bool:
    """Return whether `epsilon_spent` is not above epsilon: the delta there is found far sooner."""
    counts, spent, is_settled = _in_closed_form(events, delta, relation)
    return spent <= epsilon or (not is_settled and pld_keeps(counts, epsilon, delta))


def _in_closed_form(
    events: Iterable[Event], delta: float, relation: Relation
) -> tuple[dict[Event, int], float, bool]:
    """Count the events; return epsilon without distributions, and whether none is needed."""
    if not 0 <= delta < 1:
        raise InvalidInputError(f"'delta' must lie in [0, 1). Got {delta} instead.")
    counts = flatten(events)
    require_relation(counts, relation)
    require_one_entry_bound({e.entry_bound for e in counts if isinstance(e, EntryEvent)})
    searches = (event for event in counts if isinstance(event, SelectionEvent))
    inside = [event for search in searches for option in search.options for event in option]
    if any(isinstance(event, NonPrivateEvent) for event in (*counts, *inside)):
        return counts, math.inf, True
    spent = _simple_epsilon(counts, delta)
    single = next(iter(counts)) if sum(counts.values()) == 1 else None
    if isinstance(single, SelectionEvent):
        return counts, selection_epsilon(single, delta), True
    if any(isinstance(event, BoundedRangeEvent) for event in counts):
        spent = min(spent, concentrated_epsilon(counts, delta))
    is_gaussian = all(isinstance(event, GaussianEvent) for event in counts)
    return counts, spent, is_gaussian or isinstance(single, PureEvent) or delta == 0


def compose(*guarantees: Guarantee) -> Guarantee:
    """Compose guarantees on the same data, tightly where their events are known.

    Parameters
    ----------
    *guarantees : Guarantee
        Promises of the same unit and relation.

    Returns
    -------
    Guarantee
        What they promise together.
    """
    if not guarantees:
        raise InvalidInputError("Nothing to compose: give at least one guarantee.")
    total = guarantees[0]
    for guarantee in guarantees[1:]:
        total = total + guarantee
    if total.epsilon is None or not all(map(explained_by_events, guarantees)):
        return total
    return replace(
        total, epsilon=min(total.epsilon, epsilon_spent(total.events, total.delta, total.relation))
    )


def require_one_entry_bound(bounds: Collection[float | None]) -> None:
    """Changes by at most d and by at most d' are different neighbours: their costs do not add."""
    if len(bounds) > 1:
        raise InvalidInputError(
            f"Entry releases of different entry bounds do not compose: {sorted(map(str, bounds))}."
        )


def require_relation(events: Iterable[Event], relation: Relation | str) -> None:
    """Refuse events whose law is known for other neighbours only."""
    for event in events:
        offered = getattr(event, "relations", (str(Relation(relation)),))
        if str(Relation(relation)) not in offered:
            raise UnsupportedEventError(
                f"A {event.kind!r} event is accounted under relation {', '.join(offered)} only. "
                f"Got {str(relation)!r} instead."
            )


def explained_by_events(guarantee: Guarantee) -> bool:
    """Whether the events are all that the guarantee pays for, so that they may stand for it.

    Neither the epsilon nor the delta that is stated may be more than the events alone would cost:
    the rest would be a failure of which no event tells.
    """
    if not guarantee.events or guarantee.epsilon is None:
        return False
    cost = epsilon_spent(guarantee.events, guarantee.delta, guarantee.relation)
    if guarantee.epsilon > cost * (1 + 1e-6):
        return False
    counts = flatten(guarantee.events)
    if guarantee.delta == 0 or not all(isinstance(e, EVENTS_WITH_EPSILON) for e in counts):
        return True  # a Gaussian curve falls strictly, so at this epsilon it is not below delta
    return guarantee.delta <= pld_delta(counts, guarantee.epsilon) * (1 + 1e-3)


def _simple_epsilon(counts: Mapping[Event, int], delta: float) -> float:
    """Decimal sum of what has an epsilon, plus the Gaussian closed form for the rest."""
    epsilon, used_delta, mu_squared = Fraction(0), Fraction(0), 0.0
    for event, count in counts.items():
        if isinstance(event, GaussianEvent):
            mu_squared += count / event.noise_multiplier**2
        elif isinstance(event, EVENTS_WITH_EPSILON):
            epsilon += count * exact_fraction(event.epsilon)
            used_delta += count * exact_fraction(getattr(event, "delta", 0.0))
        elif isinstance(event, EVENTS_WITH_CURVES):
            return math.inf
        else:
            raise UnsupportedEventError(f"No accountant supports a {event.kind!r} event.")
    mu = math.sqrt(mu_squared) * (1 + (len(counts) + 4) * ROUNDING)
    return added_epsilon(epsilon, used_delta, mu, delta)


def added_epsilon(epsilon: Fraction, used_delta: Fraction, mu: float, delta: float) -> float:
    """Add stated epsilons to the closed form of Gaussian releases at what is left of `delta`."""
    rest = exact_fraction(delta) - used_delta
    if rest < 0:
        return math.inf
    summed = float(epsilon)
    if exact_fraction(summed) < epsilon:
        summed = math.nextafter(summed, math.inf)
    gaussian = epsilon_from_mu(mu, float(rest) * (1 - ROUNDING))
    both = summed + gaussian
    return math.nextafter(both, math.inf) if summed and gaussian else both


def exact_fraction(value: float) -> Fraction:
    """Return the number as it is written: 0.1 is one tenth, not its binary neighbour."""
    return Fraction(Decimal(repr(float(value))))


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
        later = max(weakest, each, key=lambda one: math.inf if one.epsilon is None else one.epsilon)
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
    spread = []
    for each in counts:
        mus = [n / e.noise_multiplier**2 for e, n in each.items() if isinstance(e, GaussianEvent)]
        if len(mus) < len(each):
            return ()
        spread.append(math.fsum(mus))
    return guarantees[spread.index(max(spread))].events


# What a record-level promise means for persons, an entry-level one for records --------------------


def record_level_guarantee(
    event: EntryEvent, n_entries: int, *, delta: float = 1e-5
) -> RecordReading:
    """Read p releases of one entry each as a single release of the record that holds them.

    The losses of the p entries add up. Unless an atom is hit they are p Laplace losses, so
    ``delta_p(e) = 1 - (1 - atom)**p (1 - delta_Laplace^p(e))``.

    Parameters
    ----------
    event : EntryEvent
        The noise on each entry.
    n_entries : int
        Numbers p of a record.
    delta : float, default=1e-5
        The delta at which epsilon is stated, in addition to the probability of an atom.

    Returns
    -------
    RecordReading
        The figures for the whole record.
    """
    atom = -math.expm1(n_entries * math.log1p(-event.delta))
    pure = n_entries * event.epsilon
    return RecordReading(
        n_entries=n_entries,
        pure_epsilon=pure,
        epsilon=min(pure, pld_epsilon({LaplaceEvent(event.epsilon): n_entries}, delta)),
        delta=atom + (1 - atom) * delta,
        atom_probability=atom,
    )


def group_epsilon(
    events: Iterable[Event], size: int, delta: float, relation: Relation = Relation.REPLACE_ONE
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


def for_persons(guarantee: Guarantee, person_rows: int) -> Guarantee:
    """Return what a guarantee for one record, or entry, is worth to a person with several rows.

    This is the group curve: exact for Gaussian and Laplace noise, an upper bound else. Estimators
    that offer unit "person" have less noise for the same promise.

    Parameters
    ----------
    guarantee : Guarantee
        Of unit "record" or "entry".
    person_rows : int
        The most rows of a person.

    Returns
    -------
    Guarantee
        Of unit "person", under the condition that no person has more rows. Where neighbours are
        data sets with one record replaced, the rows of a person are replaced by as many others.

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
    events = guarantee.events or (ApproximateEvent(guarantee.epsilon, guarantee.delta),)
    conditions = [f"no person has more than {person_rows} rows"]
    if guarantee.relation is Relation.REPLACE_ONE:
        conditions.append("the number of rows of each person is public")
    found = replace(
        guarantee,
        epsilon=group_epsilon(events, size, guarantee.delta, guarantee.relation),
        unit=Unit.PERSON,
        entry_bound=None,
        whole_range=False,
        record_reading=None,
        events=tuple(group_event(event, size) for event in events),
    )
    return found.only_if(*conditions)


def group_event(event: Event, size: int) -> Event:
    """Return the event that a release is for a group of `size` records."""
    if size == 1:
        return event

    def times(value: float) -> float:
        """Multiply a number as it is written, and round up: ten times 0.1 is 1."""
        product = Decimal(repr(float(value))) * size
        near = float(product)
        return near if Decimal(repr(near)) >= product else math.nextafter(near, math.inf)

    match event:
        case NonPrivateEvent():
            return event
        case RepeatedEvent():
            return RepeatedEvent(group_event(event.event, size), event.count)
        case GaussianEvent():
            return GaussianEvent(math.nextafter(event.noise_multiplier / size, 0.0))
        case LaplaceEvent() | PureEvent() | BoundedRangeEvent():
            return replace(event, epsilon=times(event.epsilon))  # ranges add up as well
        case EntryEvent():
            # One number moved by k d, or k numbers by d each: k independent losses are dominated by
            # the loss of one Laplace variable moved as far in sum, and k atoms are met more often.
            atoms = min(times(event.delta), math.nextafter(1.0, 0.0))
            return EntryEvent(times(event.epsilon), atoms, event.entry_bound)
        case RandomizedResponseEvent():
            return RepeatedEvent(event, size)  # each label of the group is answered on its own
        case ObjectivePerturbationEvent():
            # Gradients add up, in the sum of k spaces, and so do logarithms of determinants.
            noise = math.nextafter(event.noise_multiplier / size, 0.0)
            return ObjectivePerturbationEvent(noise, times(event.kappa), event.dimension * size)
        case ApproximateEvent():
            # P <= e^eps P1 + delta <= e^2eps P2 + (1 + e^eps) delta <= ..., and so on.
            delta = event.delta
            for _ in range(size - 1):
                delta = (event.delta + math.exp(min(event.epsilon, 700.0)) * delta) * (1 + 1e-15)
                if delta >= 1:
                    return NonPrivateEvent()
            return ApproximateEvent(times(event.epsilon), delta)
    raise UnsupportedEventError(f"No group event is known for a {event.kind!r} event.")


# From a budget to noise ---------------------------------------------------------------------------


def calibrate(
    events_of: Callable[[float], Iterable[Event]],
    *,
    epsilon: float,
    delta: float,
    bracket: tuple[float, float],
    relation: Relation = Relation.REPLACE_ONE,
    tolerance: float = 1e-6,
) -> float:
    """Find the knob at which the cost of ``events_of(knob)`` is epsilon, from the safe side.

    The cost must be monotone in the knob. `bracket` is two positive knobs: at the first the budget
    is kept, at the second it is passed; either may be the larger.
    """
    kept, passed = bracket
    if min(bracket) <= 0:
        raise InvalidInputError("The bracket must be two positive numbers.")
    keeps = partial(keeps_budget, epsilon=epsilon, delta=delta, relation=relation)
    if not keeps(events_of(kept)):
        raise InvalidInputError(f"Even at {kept:g} the budget of epsilon {epsilon:g} is exceeded.")
    if keeps(events_of(passed)):
        return passed
    while abs(passed - kept) > max(tolerance, 1e-12) * min(kept, passed):
        middle = (kept * passed) ** 0.5
        if keeps(events_of(middle)):
            kept = middle
        else:
            passed = middle
    return kept


def min_noise_multiplier(
    events_of: Callable[[float], Iterable[Event]], *, tolerance: float, advice: str, **budget: Any
) -> float:
    """Find the least noise multiplier at which ``events_of(multiplier)`` keeps the budget."""
    kept = 1.0
    while not keeps_budget(events_of(kept), **budget):
        kept *= 2
        if kept > MAX_MULTIPLIER:
            raise InvalidInputError(
                f"No amount of noise achieves epsilon {budget['epsilon']:g} at delta "
                f"{budget['delta']:g}. {advice}"
            )
    passed = kept / 2
    while passed > 1 / MAX_MULTIPLIER and keeps_budget(events_of(passed), **budget):
        kept, passed = passed, passed / 2
    return calibrate(events_of, bracket=(kept, passed), tolerance=tolerance, **budget)


@lru_cache(maxsize=64)
def gaussian_mu_beside(
    events: tuple[Event, ...], *, epsilon: float, delta: float, relation: Relation
) -> float:
    """Find the mu of all Gaussian releases that keep the budget together with `events`."""
    whole = mu_from_budget(epsilon, delta)
    if not events:
        return whole
    counts = flatten(events)
    rho = sum(count * concentration(event) for event, count in counts.items())
    summed = sum(count * getattr(event, "epsilon", math.inf) for event, count in counts.items())
    if summed < epsilon:  # at large budgets the plain sum is as good as any other bound
        plain = mu_from_budget(epsilon * (1 - 1e-9) - summed, delta)
        if plain**2 >= whole**2 - 2 * CLOSE * rho:
            return plain

    def events_of(mu: float) -> list[Event]:
        return [*events, GaussianEvent(1 / mu)]

    budget: Any = {"epsilon": epsilon, "delta": delta, "relation": relation}
    for factor in (CLOSE, 1.6, 2.5, 5.0):  # a hair dearer than their concentration alone says
        left = whole**2 - 2 * factor * rho
        if left <= 0:
            break
        kept = left**0.5
        if keeps_budget(events_of(kept), **budget):
            found = calibrate(events_of, bracket=(kept, whole), tolerance=2e-4, **budget)
            return found * (1 - 1e-9)  # squares of shares are rounded as they are added up
    raise InvalidInputError(
        f"A budget of epsilon {epsilon:g} at delta {delta:g} leaves no room for "
        "anything besides these releases."
    )
