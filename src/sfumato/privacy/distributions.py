"""Privacy loss distributions: one law per event, `count` applied in one place.

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
from scipy.stats import chi

from sfumato.exceptions import UnsupportedEventError
from sfumato.privacy.events import (
    ApproximateEvent,
    BoundedRangeEvent,
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
from sfumato.privacy.renyi import (
    bounded_range_delta,
    epsilon_from_renyi,
    selection_delta,
    selection_divergence,
)

FINEST_INTERVAL = 1e-4
MAX_CELLS = 2**20  # memory of one distribution stays below some 50 MB for any epsilon
COARSEST_INTERVAL = 100.0  # beyond it exp(interval) leaves the doubles, and nothing is tight
TAIL = 1e-15
PROFILE_POINTS = 1000  # of a curve that is given point by point
PROFILE_ROUNDING = 1e-14  # more than doubles lose on the way from points to masses
_REACH = float(-ndtri(0.5 * math.exp(-50)))  # Gaussian noise beyond it counts as an infinite loss
MAX_EXPONENT = 700.0  # of exp in doubles


def pld_epsilon(counts: Mapping[Event, int], delta: float) -> float:
    """Epsilon of all events together at `delta`, never below the truth; infinite if unknown."""
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
    """Delta of all events together at `epsilon`, never below the truth; 1 if unknown."""
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
    gaussian = {event: n for event, n in counts.items() if isinstance(event, GaussianEvent)}
    others = {event: n for event, n in counts.items() if event not in gaussian}
    if not gaussian:
        return others
    squares = math.fsum(n / event.noise_multiplier**2 for event, n in gaussian.items())
    mu = math.sqrt(squares) * (1 + (len(gaussian) + 4) * 2.0**-52)  # never rounded down
    return {**others, GaussianEvent(1 / (mu * (1 + 2.0**-52))): 1}


def _rounding(counts: Mapping[Event, int]) -> float:
    """What the Fourier transforms of a composition may lose of delta (seen: 5e-17 an event)."""
    return 1e-13 + 1e-15 * sum(counts.values())


def _interval(counts: Mapping[Event, int]) -> float:
    width = sum(_range(event, count) for event, count in counts.items())
    return max(FINEST_INTERVAL, width / MAX_CELLS)


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
    match event:
        case GaussianEvent():
            # Deltas of N(mu²/2, mu²) in whole arrays; dp-accounting asks for them cell by cell.
            mu = 1 / event.noise_multiplier
            last = math.ceil((mu**2 / 2 + _REACH * mu) / interval)
            losses = np.arange(-last, last + 1) * interval
            beyond = np.exp(losses + log_ndtr(-mu / 2 - losses / mu))
            deltas = np.clip(ndtr(mu / 2 - losses / mu) - beyond, 0.0, 1.0)
            return _connected(-last, deltas, interval)
        case LaplaceEvent():
            scale = 1 / event.epsilon
            return pld.from_laplace_mechanism(scale, value_discretization_interval=interval)
        case EntryEvent():
            # The atom publishes the entry exactly: an infinite loss of mass delta.
            noise = _distribution(LaplaceEvent(event.epsilon), interval)
            return noise.compose(_parameters(0.0, event.delta, interval))
        case BoundedRangeEvent() if event.epsilon <= MAX_EXPONENT:
            last = math.ceil(event.epsilon / interval)
            deltas = bounded_range_delta(event.epsilon, np.arange(-last, last + 1) * interval)
            return _connected(-last, deltas, interval)
        case RandomizedResponseEvent() if event.epsilon <= MAX_EXPONENT:
            kept = math.exp(-event.epsilon)
            return pld.from_randomized_response(
                event.n_labels * kept / (1 + (event.n_labels - 1) * kept),
                event.n_labels,
                value_discretization_interval=interval,
                neighboring_relation=NeighboringRelation.REPLACE_ONE,
            )
        case PureEvent() | BoundedRangeEvent() | RandomizedResponseEvent():
            return _parameters(event.epsilon, 0.0, interval)
        case ApproximateEvent():
            return _parameters(event.epsilon, event.delta, interval)
        case ObjectivePerturbationEvent():
            low, high = loss_range(event, TAIL)
            first, last = math.floor(low / interval), math.ceil(high / interval)
            cdf = loss_cdf(event, np.arange(first, last + 1) * interval)
            masses = np.maximum(0.0, np.diff(cdf))  # of the cells' upper ends
            pmf = pld_pmf.DensePLDPmf(interval, first + 1, masses, 1.0 - float(cdf[-1]), True)
        case SubsampledGaussianEvent():
            return pld.from_gaussian_mechanism(
                event.noise_multiplier,
                value_discretization_interval=interval,
                sampling_prob=event.sampling_probability,
                neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
            )
        case SelectionEvent():
            places, weights, infinite = profile_masses(*profile_of(event, interval))
            cells = np.rint(places / interval).astype(int)
            filled = {int(c): float(m) for c, m in zip(cells, weights, strict=True) if m > 0}
            least = min(1.0, infinite)
            pmf = pld_pmf.create_pmf(filled, interval, least, pessimistic_estimate=True)
        case _:
            raise UnsupportedEventError(f"No privacy loss distribution for a {event.kind!r} event.")
    return pld.PrivacyLossDistribution(pmf)


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


def _parameters(epsilon: float, delta: float, interval: float) -> Any:
    if epsilon > MAX_EXPONENT:  # the loss is epsilon but for less than a double can hold
        mass = {math.ceil(epsilon / interval): 1.0 - delta}
        pmf = pld_pmf.create_pmf(mass, interval, delta, pessimistic_estimate=True)
        return pld.PrivacyLossDistribution(pmf)
    return pld.from_privacy_parameters(
        common.DifferentialPrivacyParameters(epsilon, delta), value_discretization_interval=interval
    )


# With r = noise_multiplier the loss of objective perturbation is at most W = kappa + 1/(2r²) +
# chi_m / r. The gradient difference depends on the noise, so the loss is not Gaussian; chi_m, with
# m the dimension of the space that the difference lies in, is what remains provable.


def loss_cdf(event: ObjectivePerturbationEvent, losses: np.ndarray) -> np.ndarray:
    """``P(W <= loss)`` for each of `losses`."""
    low = event.kappa + 0.5 / event.noise_multiplier**2
    return np.asarray(chi.cdf((losses - low) * event.noise_multiplier, event.dimension))


def loss_range(event: ObjectivePerturbationEvent, tail: float) -> tuple[float, float]:
    """Smallest loss, and the loss passed with probability `tail`."""
    low = event.kappa + 0.5 / event.noise_multiplier**2
    return low, low + float(chi.isf(tail, event.dimension)) / event.noise_multiplier


def profile_of(event: Event, interval: float) -> tuple[np.ndarray, np.ndarray]:
    """Return epsilons, multiples of `interval` from 0 on, and bounds on delta there."""
    width = _range(event) / 2
    step = interval * max(1, math.floor(width / (PROFILE_POINTS * interval)))
    epsilons = np.arange(math.ceil(width / step) + 1) * step
    if isinstance(event, SelectionEvent):
        return epsilons, np.array([selection_delta(event, float(e)) for e in epsilons])
    one = _distribution(event, interval)
    return epsilons, np.asarray(one.get_delta_for_epsilon(list(epsilons)))


def profile_masses(losses: np.ndarray, deltas: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return losses, masses on them and the mass at infinity whose curve is nowhere below `deltas`.

    ``delta(e)``, e >= 0, bounds both directions of a pair of neighbours. The true curve is convex
    in ``x = exp(e)`` and satisfies ``delta(-e) = 1 - exp(-e) (1 - delta'(e))`` with the other
    direction's delta', so chords between points of any bound on it are bounds too, and so is the
    lower convex hull of such points. A hull of points ``(x_i, f_i)`` is the curve of masses
    ``m_i = x_i w_i``, w_i the change of its slope at x_i, and of a mass at infinity where it ends.
    """
    known = np.minimum(np.minimum.accumulate(deltas), 1.0)
    mirrored = 1 - np.exp(-losses[:0:-1]) * (1 - known[:0:-1])
    values = np.concatenate([mirrored, known])
    places = np.concatenate([-losses[:0:-1], losses])
    x = np.exp(places)
    kept = _lower_hull(np.append(0.0, x), np.append(1.0, values))[1:] - 1
    x, values, places = x[kept], values[kept], places[kept]
    slopes = np.diff(values, prepend=1.0) / np.diff(x, prepend=0.0)
    changes = np.maximum(np.diff(np.append(slopes, 0.0)), 0.0)
    return places, changes * x, float(values[-1]) + PROFILE_ROUNDING


def _lower_hull(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the corners of the lower convex hull of points of increasing x: Andrew's chain."""
    kept: list[int] = []
    for point in range(len(x)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            if (y[b] - y[a]) * (x[point] - x[a]) < (y[point] - y[a]) * (x[b] - x[a]):
                break
            kept.pop()
        kept.append(point)
    return np.array(kept)


def _range(event: Event, count: int = 1) -> float:
    """Width of the losses of `count` equal releases; a guide to the grid, of no weight in a proof.

    The losses of subsampled releases are narrow but for rare ones, and are summed like variances.
    """
    match event:
        case SubsampledGaussianEvent():
            mu, q = 1 / event.noise_multiplier, event.sampling_probability
            spread = q * math.sqrt(math.expm1(min(mu**2, 50.0)))
            single = math.log1p(q * math.expm1(min(mu**2 / 2 + 9 * mu, MAX_EXPONENT)))
            whole = count * spread**2 + 20 * math.sqrt(count) * spread + 2 * single
            return min(whole, count * (mu**2 + 20 * mu))
        case GaussianEvent():
            mu = 1 / event.noise_multiplier
            return count * (mu**2 + 20 * mu)
        case ObjectivePerturbationEvent():
            return count * 2 * loss_range(event, TAIL)[1]
        case SelectionEvent():
            divergence = selection_divergence(event)
            if not np.isfinite(divergence).any():
                return count * 2 * MAX_EXPONENT
            return count * min(2 * epsilon_from_renyi(divergence, TAIL), 2 * MAX_EXPONENT)
        case _:
            return count * 2 * float(getattr(event, "epsilon", 0.0))
