"""Privacy loss distributions: one handler per event, `count` applied in one place.

The arithmetic (convolution of losses, pessimistic rounding) is dp-accounting's. Its own event
dispatch is not used: in 0.6 the branch for randomised response forgets the count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from dp_accounting.pld import common, pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.privacy_accountant import NeighboringRelation

from sfumato.accounting.bounded_range import bounded_range_delta
from sfumato.accounting.objective import loss_cdf, loss_range
from sfumato.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    EntryEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PureEvent,
    RandomizedResponseEvent,
)
from sfumato.exceptions import UnsupportedEventError

__all__ = ["pld_curve", "pld_delta", "pld_epsilon", "unnamed"]

FINEST_INTERVAL = 1e-4
MOST_CELLS = 2**20  # memory of one distribution stays below some 50 MB for any epsilon
COARSEST_INTERVAL = 100.0  # beyond it exp(interval) leaves the doubles, and nothing is tight
TAIL = 1e-15
LARGEST_EXPONENT = 700.0  # of exp in doubles


def pld_epsilon(counts: Mapping[Event, int], delta: float) -> float:
    """Epsilon of all events together at `delta`, never below the truth; infinite if unknown.

    Parameters
    ----------
    counts : mapping of Event to int
        The releases and how often each was made.
    delta : float
        The delta at which epsilon is asked for.

    Returns
    -------
    float
        Epsilon.
    """
    return _epsilon(tuple(unnamed(counts).items()), delta)


@lru_cache(maxsize=256)  # fits of one estimator, and a ledger, ask for the same sum again and again
def _epsilon(items: tuple[tuple[Event, int], ...], delta: float) -> float:
    counts = dict(items)
    rest = delta - _rounding(counts)
    if rest <= 0 or _interval(counts) > COARSEST_INTERVAL:
        return math.inf
    with np.errstate(over="ignore"):  # towards infinity, the safe side
        epsilon = float(_composed(counts).get_epsilon_for_delta(rest))
    # Beyond this exp(-loss) is no normal number any more and may be rounded to its double.
    return epsilon if epsilon < LARGEST_EXPONENT else epsilon + math.log(2)


def pld_delta(counts: Mapping[Event, int], epsilon: float) -> float:
    """Delta of all events together at `epsilon`, never below the truth; 1 if unknown.

    Parameters
    ----------
    counts : mapping of Event to int
        The releases and how often each was made.
    epsilon : float
        The epsilon at which delta is asked for.

    Returns
    -------
    float
        Delta.
    """
    return pld_curve(counts)(epsilon)


def pld_curve(counts: Mapping[Event, int]) -> Callable[[float], float]:
    """Compose once, and give delta as a function of epsilon; see `pld_delta`."""
    if _interval(counts) > COARSEST_INTERVAL:
        return lambda _: 1.0
    composed, lost = _composed(counts), _rounding(counts)
    return lambda epsilon: min(1.0, float(composed.get_delta_for_epsilon(epsilon)) + lost)


def unnamed(counts: Mapping[Event, int]) -> dict[Event, int]:
    """Count releases that differ only in the name of their law as one: they cost the same."""
    found: dict[Event, int] = {}
    for event, count in counts.items():
        plain: Event = replace(event, law="") if hasattr(event, "law") else event  # type: ignore[call-arg]
        found[plain] = found.get(plain, 0) + count
    return found


def _rounding(counts: Mapping[Event, int]) -> float:
    """What the Fourier transforms of a composition may lose of delta (seen: 5e-17 an event)."""
    return 1e-13 + 1e-15 * sum(counts.values())


def _composed(counts: Mapping[Event, int]) -> Any:
    interval = _interval(counts)
    total: Any = pld.identity(value_discretization_interval=interval)
    for event, count in counts.items():
        one = _distribution(event, interval)
        total = total.compose(one.self_compose(count) if count > 1 else one)
    return total


@lru_cache(maxsize=64)
def _distribution(event: Event, interval: float) -> Any:
    handler = _HANDLERS.get(type(event))
    if handler is None:
        raise UnsupportedEventError(f"No privacy loss distribution for a {event.kind!r} event.")
    return handler(event, interval)


def _gaussian(event: GaussianEvent, interval: float) -> Any:
    return pld.from_gaussian_mechanism(
        event.noise_multiplier, value_discretization_interval=interval
    )


def _laplace(event: LaplaceEvent, interval: float) -> Any:
    return pld.from_laplace_mechanism(1 / event.epsilon, value_discretization_interval=interval)


def _entry(event: EntryEvent, interval: float) -> Any:
    # The atom publishes the entry exactly: an infinite loss of mass delta beside Laplace noise.
    return _laplace(LaplaceEvent(event.epsilon), interval).compose(
        _parameters(0.0, event.delta, interval)
    )


def _pure(event: PureEvent, interval: float) -> Any:
    return _parameters(event.epsilon, 0.0, interval)


def _bounded_range(event: BoundedRangeEvent, interval: float) -> Any:
    if event.epsilon > LARGEST_EXPONENT:
        return _parameters(event.epsilon, 0.0, interval)
    last = math.ceil(event.epsilon / interval)
    deltas = bounded_range_delta(event.epsilon, np.arange(-last, last + 1) * interval)
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, -last, last, deltas)
    return pld.PrivacyLossDistribution(pmf)


def _approximate(event: ApproximateEvent, interval: float) -> Any:
    return _parameters(event.epsilon, event.delta, interval)


def _randomized_response(event: RandomizedResponseEvent, interval: float) -> Any:
    if event.epsilon > LARGEST_EXPONENT:  # no double holds the odds: the worst of this epsilon
        return _parameters(event.epsilon, 0.0, interval)
    kept = math.exp(-event.epsilon)
    noise = event.n_labels * kept / (1 + (event.n_labels - 1) * kept)
    return pld.from_randomized_response(
        noise,
        event.n_labels,
        value_discretization_interval=interval,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )


def _objective(event: ObjectivePerturbationEvent, interval: float) -> Any:
    low, high = loss_range(event, TAIL)
    first, last = math.floor(low / interval), math.ceil(high / interval)
    cdf = loss_cdf(event, np.arange(first, last + 1) * interval)
    masses = {first + 1 + i: float(m) for i, m in enumerate(np.diff(cdf)) if m > 0}
    pmf = pld_pmf.create_pmf(masses, interval, 1.0 - float(cdf[-1]), pessimistic_estimate=True)
    return pld.PrivacyLossDistribution(pmf)


def _parameters(epsilon: float, delta: float, interval: float) -> Any:
    if epsilon > LARGEST_EXPONENT:  # the loss is epsilon but for less than a double can hold
        mass = {math.ceil(epsilon / interval): 1.0 - delta}
        pmf = pld_pmf.create_pmf(mass, interval, delta, pessimistic_estimate=True)
        return pld.PrivacyLossDistribution(pmf)
    return pld.from_privacy_parameters(
        common.DifferentialPrivacyParameters(epsilon, delta), value_discretization_interval=interval
    )


_HANDLERS: dict[type[Event], Callable[[Any, float], Any]] = {
    ApproximateEvent: _approximate,
    BoundedRangeEvent: _bounded_range,
    EntryEvent: _entry,
    GaussianEvent: _gaussian,
    LaplaceEvent: _laplace,
    ObjectivePerturbationEvent: _objective,
    PureEvent: _pure,
    RandomizedResponseEvent: _randomized_response,
}


def _interval(counts: Mapping[Event, int]) -> float:
    return max(FINEST_INTERVAL, _total_range(counts) / MOST_CELLS)


def _total_range(counts: Mapping[Event, int]) -> float:
    """Width of the losses that carry mass, all events together."""
    return sum(count * _range(event) for event, count in counts.items())


def _range(event: Event) -> float:
    if isinstance(event, GaussianEvent):
        mu = 1 / event.noise_multiplier
        return mu**2 + 20 * mu
    if isinstance(event, ObjectivePerturbationEvent):
        return 2 * loss_range(event, TAIL)[1]
    return 2 * float(getattr(event, "epsilon", 0.0))
