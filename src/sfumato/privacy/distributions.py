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
from dp_accounting.pld import common, pld_pmf, privacy_loss_distribution as pld
from dp_accounting.privacy_accountant import NeighboringRelation
from scipy.special import log_ndtr, ndtr, ndtri

from sfumato.exceptions import UnsupportedEventError
from sfumato.privacy.bounded_range import bounded_range_delta
from sfumato.privacy.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    CurveEvent,
    EntryEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PureEvent,
    RandomizedResponseEvent,
    SelectionEvent,
    SubsampledGaussianEvent,
)
from sfumato.privacy.objective import loss_cdf, loss_range
from sfumato.privacy.profiles import profile_masses
from sfumato.privacy.renyi import epsilon_from_renyi
from sfumato.privacy.selection import selection_delta, selection_divergence

FINEST_INTERVAL = 1e-4
MAX_CELLS = 2**20  # memory of one distribution stays below some 50 MB for any epsilon
COARSEST_INTERVAL = 100.0  # beyond it exp(interval) leaves the doubles, and nothing is tight
TAIL = 1e-15
PROFILE_POINTS = 1000  # of a curve that is given point by point
_REACH = float(-ndtri(0.5 * math.exp(-50)))  # Gaussian noise beyond it counts as an infinite loss
MAX_EXPONENT = 700.0  # of exp in doubles


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
    return _epsilon(tuple(_one_gaussian(unnamed(counts)).items()), delta)


@lru_cache(maxsize=256)  # fits of one estimator, and a ledger, ask for the same sum again and again
def _epsilon(items: tuple[tuple[Event, int], ...], delta: float) -> float:
    counts = dict(items)
    rest = delta - _rounding(counts)
    if rest <= 0 or _interval(counts) > COARSEST_INTERVAL:
        return math.inf
    with np.errstate(over="ignore"):  # towards infinity, the safe side
        epsilon = float(_composed(counts).get_epsilon_for_delta(rest))
    # Beyond this exp(-loss) is no normal number any more and may be rounded to its double.
    return epsilon if epsilon < MAX_EXPONENT else epsilon + math.log(2)


def pld_keeps(counts: Mapping[Event, int], epsilon: float, delta: float) -> bool:
    """Return whether `pld_epsilon` is not above epsilon, by the delta there."""
    if epsilon >= MAX_EXPONENT:
        return pld_epsilon(counts, delta) <= epsilon
    with np.errstate(over="ignore"):  # towards infinity, the safe side
        return pld_delta(_one_gaussian(unnamed(counts)), epsilon) <= delta


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
    """Compose once, and return delta as a function of epsilon; see `pld_delta`."""
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


def _one_gaussian(counts: Mapping[Event, int]) -> dict[Event, int]:
    """Replace Gaussian releases by the one that they are together: ``mu² = sum mu_i²``, exactly."""
    others = {event: n for event, n in counts.items() if not isinstance(event, GaussianEvent)}
    gaussian = [(event, n) for event, n in counts.items() if isinstance(event, GaussianEvent)]
    if not gaussian:
        return others
    squares = math.fsum(n / event.noise_multiplier**2 for event, n in gaussian)
    mu = math.sqrt(squares) * (1 + (len(gaussian) + 4) * 2.0**-52)  # never rounded down
    return {**others, GaussianEvent(1 / (mu * (1 + 2.0**-52))): 1}


def _rounding(counts: Mapping[Event, int]) -> float:
    """What the Fourier transforms of a composition may lose of delta (seen: 5e-17 an event)."""
    return 1e-13 + 1e-15 * sum(counts.values())


def _composed(counts: Mapping[Event, int]) -> Any:
    interval = _interval(counts)
    total: Any = None
    for event, count in counts.items():
        one = _distribution(event, interval)
        one = one.self_compose(count) if count > 1 else one
        total = one if total is None else total.compose(one)
    return pld.identity(value_discretization_interval=interval) if total is None else total


@lru_cache(maxsize=64)
def _distribution(event: Event, interval: float) -> Any:
    handler = _HANDLERS.get(CurveEvent if isinstance(event, CurveEvent) else type(event))
    if handler is None:
        raise UnsupportedEventError(f"No privacy loss distribution for a {event.kind!r} event.")
    return handler(event, interval)


def _gaussian(event: GaussianEvent, interval: float) -> Any:
    """Deltas of N(mu²/2, mu²) in whole arrays; dp-accounting asks for them cell by cell."""
    mu = 1 / event.noise_multiplier
    last = math.ceil((mu**2 / 2 + _REACH * mu) / interval)
    losses = np.arange(-last, last + 1) * interval
    beyond = np.exp(losses + log_ndtr(-mu / 2 - losses / mu))
    return _connected(-last, np.clip(ndtr(mu / 2 - losses / mu) - beyond, 0.0, 1.0), interval)


def _connected(first: int, deltas: Any, interval: float) -> Any:
    """Connect the dots of the deltas at ``(first + i) interval``, as dp-accounting does.

    The masses are those of `pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap`, which puts
    them into a dict: a million numbers one by one.
    """
    deltas = np.minimum.accumulate(deltas)
    steps, e = np.diff(deltas), math.expm1(interval)
    masses = np.empty_like(deltas)
    masses[0] = 1 - deltas[0] + steps[0] / e
    masses[1:-1] = (steps[1:] - steps[:-1] * math.exp(interval)) / e
    masses[-1] = steps[-1] / math.expm1(-interval)
    pmf = pld_pmf.DensePLDPmf(interval, first, np.maximum(0.0, masses), float(deltas[-1]), True)
    return pld.PrivacyLossDistribution(pmf)


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
    if event.epsilon > MAX_EXPONENT:
        return _parameters(event.epsilon, 0.0, interval)
    last = math.ceil(event.epsilon / interval)
    deltas = bounded_range_delta(event.epsilon, np.arange(-last, last + 1) * interval)
    return _connected(-last, deltas, interval)


def _approximate(event: ApproximateEvent, interval: float) -> Any:
    return _parameters(event.epsilon, event.delta, interval)


def _randomized_response(event: RandomizedResponseEvent, interval: float) -> Any:
    if event.epsilon > MAX_EXPONENT:  # no double holds the odds: the worst of this epsilon
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
    masses = np.maximum(0.0, np.diff(cdf))  # of the cells' upper ends
    pmf = pld_pmf.DensePLDPmf(interval, first + 1, masses, 1.0 - float(cdf[-1]), True)
    return pld.PrivacyLossDistribution(pmf)


def _subsampled(event: SubsampledGaussianEvent, interval: float) -> Any:
    return pld.from_gaussian_mechanism(
        event.noise_multiplier,
        value_discretization_interval=interval,
        sampling_prob=event.sampling_probability,
        neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
    )


def _selection(event: SelectionEvent | CurveEvent, interval: float) -> Any:
    places, masses, infinite = profile_masses(*profile_of(event, interval))
    cells = np.rint(places / interval).astype(int)
    filled = {int(cell): float(mass) for cell, mass in zip(cells, masses, strict=True) if mass > 0}
    pmf = pld_pmf.create_pmf(filled, interval, min(1.0, infinite), pessimistic_estimate=True)
    return pld.PrivacyLossDistribution(pmf)


def profile_of(event: Event, interval: float) -> tuple[np.ndarray, np.ndarray]:
    """Return epsilons, multiples of `interval` from 0 on, and bounds on delta there."""
    width = _range(event) / 2
    step = interval * max(1, math.floor(width / (PROFILE_POINTS * interval)))
    epsilons = np.arange(math.ceil(width / step) + 1) * step
    if isinstance(event, CurveEvent):
        return epsilons, np.array([float(event.delta(float(e))) for e in epsilons])
    if isinstance(event, SelectionEvent):
        return epsilons, np.array([selection_delta(event, float(e)) for e in epsilons])
    one = _distribution(event, interval)
    return epsilons, np.asarray(one.get_delta_for_epsilon(list(epsilons)))


def _curve_range(event: CurveEvent) -> float:
    end = 1e-3
    while event.delta(end) > TAIL and end < MAX_EXPONENT / 2:
        end *= 2
    return 2 * end


def _selection_range(event: SelectionEvent) -> float:
    divergence = selection_divergence(event)
    if not np.isfinite(divergence).any():
        return 2 * MAX_EXPONENT
    return min(2 * epsilon_from_renyi(divergence, TAIL), 2 * MAX_EXPONENT)


def _parameters(epsilon: float, delta: float, interval: float) -> Any:
    if epsilon > MAX_EXPONENT:  # the loss is epsilon but for less than a double can hold
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
    CurveEvent: _selection,
    SelectionEvent: _selection,
    SubsampledGaussianEvent: _subsampled,
}


def _interval(counts: Mapping[Event, int]) -> float:
    return max(FINEST_INTERVAL, _total_range(counts) / MAX_CELLS)


def _total_range(counts: Mapping[Event, int]) -> float:
    """Width of the losses that carry mass, all events together."""
    return sum(_range(event, count) for event, count in counts.items())


def _range(event: Event, count: int = 1) -> float:
    """Width of the losses of `count` equal releases; a guide to the grid, of no weight in a proof.

    The losses of subsampled releases are narrow but for rare ones, and are summed like variances.
    """
    if isinstance(event, SubsampledGaussianEvent):
        mu, q = 1 / event.noise_multiplier, event.sampling_probability
        spread = q * math.sqrt(math.expm1(min(mu**2, 50.0)))
        single = math.log1p(q * math.expm1(min(mu**2 / 2 + 9 * mu, MAX_EXPONENT)))
        whole = count * spread**2 + 20 * math.sqrt(count) * spread + 2 * single
        return min(whole, count * (mu**2 + 20 * mu))
    return count * _single_range(event)


def _single_range(event: Event) -> float:
    if isinstance(event, GaussianEvent):
        mu = 1 / event.noise_multiplier
        return mu**2 + 20 * mu
    if isinstance(event, ObjectivePerturbationEvent):
        return 2 * loss_range(event, TAIL)[1]
    if isinstance(event, SelectionEvent):
        return _selection_range(event)
    if isinstance(event, CurveEvent):
        return _curve_range(event)
    return 2 * float(getattr(event, "epsilon", 0.0))
