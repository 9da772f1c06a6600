"""What several releases on the same data cost together.

Every figure here is an upper bound that is proved, so the smallest of them is one too:

- the exact decimal sum, where each release has an epsilon of its own (0.1 + 0.9 is 1);
- the Gaussian closed form, ``mu² = sum mu_i²``;
- concentration, ``rho = sum rho_i``, where a release has a bounded range;
- the privacy loss distribution of all releases (dp-accounting), the tight one for mixtures.

Composition by loss distributions assumes that the *parameters* of the releases were not chosen
from earlier outputs; the decimal sum and the Gaussian form hold under full adaptivity.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from dp_accounting.rdp import RdpAccountant

from sfumato.exceptions import InvalidInputError, UnsupportedEventError
from sfumato.privacy.bounded_range import concentrated_epsilon
from sfumato.privacy.distributions import pld_delta, pld_epsilon, pld_keeps
from sfumato.privacy.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    CurveEvent,
    EntryEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectivePerturbationEvent,
    PureEvent,
    RandomizedResponseEvent,
    SelectionEvent,
    SubsampledGaussianEvent,
    flatten,
)
from sfumato.privacy.gaussian import epsilon_from_mu
from sfumato.privacy.guarantee import Guarantee, Relation
from sfumato.privacy.interchange import neighboring_relation, to_dp_event
from sfumato.privacy.selection import selection_epsilon

ROUNDING = 2.0**-51  # more than one operation on doubles changes

EVENTS_WITH_EPSILON = (
    ApproximateEvent,
    BoundedRangeEvent,
    EntryEvent,
    LaplaceEvent,
    PureEvent,
    RandomizedResponseEvent,
)

# No epsilon of their own: their loss distributions have it.
EVENTS_WITH_CURVES = (
    CurveEvent,
    ObjectivePerturbationEvent,
    SelectionEvent,
    SubsampledGaussianEvent,
)


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
    if any(map(_hides_nothing, counts)):
        return counts, math.inf, True
    spent = _simple_epsilon(counts, delta)
    if sum(counts.values()) == 1 and isinstance(event := next(iter(counts)), SelectionEvent):
        return counts, selection_epsilon(event, delta), True
    if any(isinstance(event, BoundedRangeEvent) for event in counts):
        spent = min(spent, concentrated_epsilon(counts, delta))
    is_settled = len(counts) == 0 or _only_gaussian(counts) or _is_single_pure(counts)
    return counts, spent, is_settled or delta == 0


def rdp_epsilon(
    events: Iterable[Event], delta: float, relation: Relation = Relation.REPLACE_ONE
) -> float:
    """Epsilon by Rényi divergences (dp-accounting): looser than `epsilon_spent`, a cross-check.

    Parameters
    ----------
    events : iterable of Event
        The releases, in any order.
    delta : float
        The delta at which epsilon is asked for.
    relation : Relation, default="replace_one"
        The neighbours for which the events were calibrated.

    Returns
    -------
    float
        Epsilon, never below the truth.
    """
    accountant = RdpAccountant(neighboring_relation=neighboring_relation(relation))
    for event, count in flatten(events).items():
        accountant.compose(to_dp_event(event, relation), count)
    return float(accountant.get_epsilon(delta))


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


def _hides_nothing(event: Event) -> bool:
    options = event.options if isinstance(event, SelectionEvent) else ()
    return isinstance(event, NonPrivateEvent) or any(
        isinstance(each, NonPrivateEvent) for option in options for each in option
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
    summed, gaussian = _round_up(epsilon), epsilon_from_mu(mu, float(rest) * (1 - ROUNDING))
    both = summed + gaussian
    return math.nextafter(both, math.inf) if summed and gaussian else both


def exact_fraction(value: float) -> Fraction:
    """Return the number as it is written: 0.1 is one tenth, not its binary neighbour."""
    return Fraction(Decimal(repr(float(value))))


def _round_up(exact: Fraction) -> float:
    near = float(exact)
    return near if exact_fraction(near) >= exact else math.nextafter(near, math.inf)


def _only_gaussian(counts: Mapping[Event, int]) -> bool:
    return all(isinstance(event, GaussianEvent) for event in counts)


def _is_single_pure(counts: Mapping[Event, int]) -> bool:
    return sum(counts.values()) == 1 and isinstance(next(iter(counts)), PureEvent)
