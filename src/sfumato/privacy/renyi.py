"""Concentration, Rényi divergences, and what the best of a hidden number of runs costs by them.

The exponential mechanism has a *bounded range*: a logarithmic likelihood ratio inside an interval
of length epsilon. Pure epsilon alone allows an interval of twice that length, so several such
releases cost less together than their epsilons say (Dong, Durfee and Rogers 2020). Bounds here hold
for releases chosen adaptively. Proof: docs/guarantees/exponential.md.

The best of K runs (Papernot and Steinke 2022): let K have the generating function f, and a run the
divergence r(a). The winner has at most ``r(a) + log(sup f'(q)^a f'(q')^(1-a)) / (a - 1)``, the
supremum over probabilities q, q' of one event under two neighbours; f' is known for the laws
offered here. Proof: docs/guarantees/search.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import MAX_EMAX, Decimal, localcontext
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import gammaln, ndtr

from sfumato.exceptions import InvalidInputError, UnsupportedEventError
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
    SelectionEvent,
    flatten,
)

ORDERS = np.concatenate([1 + np.geomspace(0.01, 10, 160), np.geomspace(11.5, 4000, 160)])
MAX_LOG_ORDER = 40.0
MAX_RUNS = 100_000
MAX_EXPONENT = 700.0  # of a number that is a double
ROUNDING = 1e-13  # more than doubles lose of a delta
NEGLIGIBLE = 1e-2  # share of delta that the cut of K may cost


def bounded_range_delta(epsilon: float, losses: Any) -> np.ndarray:
    """Largest delta of one release of range `epsilon`, at each of `losses` as its epsilon.

    ``(1 - exp((x - epsilon) / 2))² / (1 - exp(-epsilon))`` for ``|x| <= epsilon``: the supremum
    over where the interval of length epsilon may lie. It is the curve of one pair of laws.
    """
    x = np.asarray(losses, dtype=np.float64)
    inside = np.clip(x, -epsilon, epsilon)
    curve = np.expm1((inside - epsilon) / 2) ** 2 / -math.expm1(-epsilon)
    return np.where(x < -epsilon, -np.expm1(np.minimum(x, 0.0)), curve)


def concentration(event: Event) -> float:
    """Return rho such that the release is rho-zCDP; infinite where none follows from the event."""
    if isinstance(event, GaussianEvent):
        return 0.5 / event.noise_multiplier**2
    if isinstance(event, BoundedRangeEvent):
        return event.epsilon**2 / 8
    if isinstance(event, LaplaceEvent | PureEvent | RandomizedResponseEvent):
        return event.epsilon**2 / 2  # pure epsilon is bounded range 2 epsilon
    return math.inf


def concentrated_epsilon(counts: Mapping[Event, int], delta: float) -> float:
    """Epsilon at `delta` of all events together by zCDP, whose rho adds up.

    ``epsilon = rho a + (log(1/delta) + a log(1 - 1/a) - log(a - 1)) / (a - 1)`` holds for every
    order a > 1 (Canonne, Kamath & Steinke 2020), so the order found need not be the best.
    """
    return epsilon_from_rho(sum(n * concentration(event) for event, n in counts.items()), delta)


def epsilon_from_rho(rho: float, delta: float) -> float:
    """Epsilon at `delta` of rho-zCDP, by the formula of `concentrated_epsilon`."""
    if not (math.isfinite(rho) and delta > 0):
        return math.inf

    def epsilon(log_order: float) -> float:
        above = math.exp(log_order)  # the order less one
        order = 1 + above
        slack = -math.log(delta) + order * math.log(above / order) - log_order
        return rho * order + slack / above

    best = minimize_scalar(epsilon, bounds=(-MAX_LOG_ORDER, MAX_LOG_ORDER), method="bounded")
    return max(0.0, float(best.fun)) * (1 + 1e-12)


# Rényi divergences: D_a <= r(a) for each order a > 1 and both directions of neighbours ------------


def mean_chi(dimension: int) -> float:
    """``E chi_m = sqrt(2) Gamma((m+1)/2) / Gamma(m/2)``."""
    return float(math.sqrt(2) * np.exp(gammaln((dimension + 1) / 2) - gammaln(dimension / 2)))


def renyi_divergence(events: Iterable[Event]) -> np.ndarray:
    """Return the divergence of all events together at each of `ORDERS`, never below the truth."""
    total = np.zeros(len(ORDERS))
    for event, count in flatten(events).items():
        total += count * _divergence(event)
    return total * (1 + 1e-12)


def _divergence(event: Event) -> np.ndarray:
    if isinstance(event, NonPrivateEvent):
        return np.full(len(ORDERS), math.inf)
    if isinstance(event, ObjectivePerturbationEvent):
        # chi_m is a 1-Lipschitz function of a Gaussian: E exp(s chi_m) <= exp(s E chi_m + s²/2).
        scale = 1 / event.noise_multiplier
        return event.kappa + scale * mean_chi(event.dimension) + ORDERS * scale**2 / 2
    if isinstance(event, EntryEvent | ApproximateEvent) and event.delta:
        raise UnsupportedEventError(
            f"No Rényi divergence is known for a {event.kind!r} event with delta {event.delta:g}: "
            "it may publish a value unchanged. Use delta=0."
        )
    pure = (LaplaceEvent, PureEvent, EntryEvent, ApproximateEvent, RandomizedResponseEvent)
    if isinstance(event, pure):
        # Binary randomised response is the worst epsilon-private release, and epsilon the limit.
        epsilon = event.epsilon
        ordinary = epsilon * ORDERS <= MAX_EXPONENT
        a = ORDERS[ordinary]
        exact = np.full(len(ORDERS), epsilon)
        ratio = (np.sinh(a * epsilon) - np.sinh((a - 1) * epsilon)) / math.sinh(epsilon)
        exact[ordinary] = np.minimum(np.log(ratio) / (a - 1), epsilon)
        return np.asarray(np.minimum(np.maximum(exact, 0.0) + 1e-15, epsilon**2 / 2 * ORDERS))
    rho = concentration(event)
    if math.isinf(rho):
        raise UnsupportedEventError(f"No Rényi divergence is known for a {event.kind!r} event.")
    return np.asarray(rho * ORDERS)


def delta_from_renyi(divergence: np.ndarray, epsilon: float) -> float:
    """Return the least delta proved at `epsilon` (Canonne, Kamath and Steinke 2020; Pinsker)."""
    with np.errstate(invalid="ignore"):
        logs = (ORDERS - 1) * (divergence - epsilon + np.log1p(-1 / ORDERS)) - np.log(ORDERS)
    least = float(np.nanmin(np.where(np.isfinite(divergence), logs, np.inf)))
    # Total variation is at most √(KL / 2), and KL at most any Rényi divergence of order above 1.
    variation = math.sqrt(float(np.min(divergence)) / 2)
    return min(1.0, variation, math.exp(min(least, 0.0))) * (1 + 1e-12)


def epsilon_from_renyi(divergence: np.ndarray, delta: float) -> float:
    """Return the least epsilon proved at `delta` (Canonne, Kamath and Steinke 2020)."""
    if delta <= 0:
        return math.inf
    slack = np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    return max(0.0, float(np.min(divergence + slack))) * (1 + 1e-12)


# The best of a random, hidden number of runs ------------------------------------------------------


def worst_options(options: tuple[tuple[Event, ...], ...]) -> tuple[tuple[Event, ...], ...]:
    """Return fewer options that cost as much: of Gaussian ones, the one with the least noise."""
    mus = {option: _gaussian_mu(option) for option in options}
    others = tuple(option for option, mu in mus.items() if not mu)
    largest = max(mus.values())
    return ((GaussianEvent(1 / (largest * (1 + 1e-15))),), *others) if largest else others


def _gaussian_mu(option: tuple[Event, ...]) -> float:
    """Return mu of Gaussian releases together; 0 where there are others."""
    counts = flatten(option)
    squares = [n / e.noise_multiplier**2 for e, n in counts.items() if isinstance(e, GaussianEvent)]
    return math.sqrt(math.fsum(squares)) * (1 + 1e-15) if len(squares) == len(counts) else 0.0


@lru_cache(maxsize=256)
def selection_divergence(event: SelectionEvent) -> np.ndarray:
    """Return the Rényi divergence of the winner at each of `ORDERS`, before K is cut."""
    one = np.max([renyi_divergence(option) for option in event.options], axis=0)
    if event.runs == "poisson":
        # [V3] theorem 6 of the paper, for K >= 1
        rate, epsilons = _poisson_rate(event.mean_runs), np.log1p(1 / (ORDERS - 1))
        mus = [_gaussian_mu(option) for option in event.options]
        if all(mus):  # delta of one run at each of these epsilons
            mu = max(mus)
            hits = ndtr(mu / 2 - epsilons / mu) - np.exp(epsilons) * ndtr(-mu / 2 - epsilons / mu)
            deltas = np.asarray(np.maximum(hits, 0.0) + ROUNDING)
        else:
            deltas = np.array([delta_from_renyi(one, float(epsilon)) for epsilon in epsilons])
        extra = rate * deltas + math.log(event.mean_runs) / (ORDERS - 1)
    else:
        # [V4] theorem 2 of the paper
        spread = -math.log(_gamma(event.shape, event.mean_runs))
        least = np.min((1 - 1 / ORDERS) * one + spread / ORDERS)
        extra = (1 + event.shape) * least + math.log(event.mean_runs) / (ORDERS - 1)
    total = one + extra
    # A divergence grows with its order, so that of a higher order is a bound as well.
    return np.minimum.accumulate(total[::-1])[::-1] * (1 + 1e-12)


def selection_delta(event: SelectionEvent, epsilon: float) -> float:
    """Return the least delta proved at `epsilon`, the cut of K included."""
    tail = cut_probability(event)
    if tail and epsilon > MAX_EXPONENT:
        return 1.0
    cut = (1 + math.exp(epsilon)) * tail if tail else 0.0  # [V5] on both sides of the inequality
    return min(1.0, delta_from_renyi(selection_divergence(event), epsilon) + cut)


def selection_epsilon(event: SelectionEvent, delta: float) -> float:
    """Return the least epsilon proved at `delta`."""
    tail, divergence = cut_probability(event), selection_divergence(event)
    epsilon = epsilon_from_renyi(divergence, delta)
    for _ in range(50 if tail else 0):  # rising: each step's epsilon pays for a larger cut
        if math.isinf(epsilon):
            return epsilon
        above = epsilon * (1 + 1e-9) + 1e-12
        if selection_delta(event, above) <= delta:
            return above
        rest = delta - (1 + math.exp(min(above, MAX_EXPONENT))) * tail
        epsilon = max(above, epsilon_from_renyi(divergence, rest)) if rest > 0 else math.inf
    return math.inf if tail else epsilon


def selection_mu(event: SelectionEvent, epsilon: float, delta: float) -> float:
    """Return the largest mu of a run at which a search over Gaussian runs keeps the budget."""

    def keeps(mu: float) -> bool:
        asked = replace(event, options=((GaussianEvent(1 / mu),),))
        return selection_epsilon(asked, delta) <= epsilon

    low, high = 1e-6, max(1e-3, epsilon)
    if not keeps(low):
        raise InvalidInputError(
            f"No amount of noise achieves epsilon {epsilon:g} at delta {delta:g} for a search of "
            f"{event.mean_runs:g} runs on average. Ask for fewer runs."
        )
    while keeps(high):
        low, high = high, 2 * high
    while high - low > 1e-5 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low


def with_max_runs(event: SelectionEvent, delta: float, epsilon: float) -> SelectionEvent:
    """Return the same law, cut where the rest costs a negligible share of delta."""
    allowed = NEGLIGIBLE * delta / (1 + math.exp(min(epsilon, MAX_EXPONENT)))
    tails = run_tails(event, MAX_RUNS, allowed)
    if not tails or tails[-1] >= allowed:
        raise InvalidInputError(
            f"'mean_runs' {event.mean_runs:g} needs more than {MAX_RUNS:,} runs; ask for fewer."
        )
    return replace(event, max_runs=len(tails))


@lru_cache(maxsize=64)
def cut_probability(event: SelectionEvent) -> float:
    """Return ``P(K > max_runs)``, and what 64 random bits change of the law; 0 if K is not cut."""
    if event.max_runs is None:
        return 0.0
    tails = run_tails(event, min(event.max_runs, MAX_RUNS))
    return min(1.0, float(tails[-1]) * (1 + 1e-15) + len(tails) * 2.0**-64) if tails else 1.0


def run_tails(event: SelectionEvent, most: int, enough: float = 0.0) -> tuple[Decimal, ...]:
    """Return ``P(K > 1), P(K > 2), ...``, exact to forty digits."""
    mean, shape = float(event.mean_runs), float(event.shape)
    if mean > MAX_RUNS:
        return ()
    is_poisson, tails = event.runs == "poisson", []
    with localcontext() as context:
        # Of gamma^-shape - 1 as many digits are lost as a small shape has zeros.
        context.prec, context.Emax = 60 + abs(Decimal(shape).adjusted()), MAX_EMAX
        if is_poisson:
            factor, eta = Decimal(_poisson_rate(mean)), None
            chance = factor / (factor.exp() - 1)
        else:
            gamma, eta = Decimal(_gamma(shape, mean)), Decimal(shape)
            factor = 1 - gamma
            chance = factor * (eta / ((-eta * gamma.ln()).exp() - 1) if eta else -1 / gamma.ln())
        tail = 1 - chance  # [V5] the probabilities add up to 1, so no series is broken off
        for k in range(1, most + 1):
            tails.append(tail)
            if tail < enough:
                break
            chance *= factor / (k + 1) if eta is None else factor * (k + eta) / (k + 1)
            tail -= chance
    return tuple(tails)


@lru_cache(maxsize=64)
def _poisson_rate(mean: float) -> float:
    """Solve ``rate / (1 - exp(-rate)) = mean``."""
    return _solved(lambda rate: rate / -math.expm1(-rate) - mean, 1e-12, mean + 1, mean)


@lru_cache(maxsize=64)
def _gamma(shape: float, mean: float) -> float:
    """Solve for gamma: the mean of the truncated negative binomial of this shape."""

    def gap(log_gamma: float) -> float:
        gamma = math.exp(log_gamma)
        if shape == 0:
            return (1 / gamma - 1) / -log_gamma - mean
        return shape * (1 - gamma) / (gamma * -math.expm1(shape * log_gamma)) - mean

    return math.exp(_solved(gap, -40.0, -1e-9, mean))


def _solved(gap: Callable[[float], float], low: float, high: float, mean: float) -> float:
    if not gap(low) * gap(high) < 0:
        raise InvalidInputError(f"No law of this kind has 'mean_runs' {mean!r}. Choose another.")
    return float(brentq(gap, low, high, xtol=1e-15))
