"""The best of a random, hidden number of runs: what it costs (Papernot and Steinke 2022).

Let K have the generating function f, and let a run have Rényi divergence r(a). The winner has
divergence at most ``r(a) + log(sup f'(q)^a f'(q')^(1-a)) / (a - 1)``, the supremum over
probabilities q, q' of one event under two neighbours; f' is known for the laws offered here.
Proof: docs/guarantees/search.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import MAX_EMAX, Decimal, localcontext
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from sfumato.exceptions import InvalidInputError
from sfumato.privacy.events import Event, GaussianEvent, SelectionEvent, flatten
from sfumato.privacy.renyi import (
    ORDERS,
    delta_from_renyi,
    epsilon_from_renyi,
    renyi_divergence,
)

MAX_RUNS = 100_000
MAX_EXPONENT = 700.0  # of a number that is a double
ROUNDING = 1e-13  # more than doubles lose of a delta
NEGLIGIBLE = 1e-2  # share of delta that the cut of K may cost


def worst_options(options: tuple[tuple[Event, ...], ...]) -> tuple[tuple[Event, ...], ...]:
    """Return fewer options that cost as much: of Gaussian ones, the one with the least noise."""
    others, largest = [], 0.0
    for option in dict.fromkeys(options):
        if _is_gaussian(option):
            largest = max(largest, _mu(option))
        else:
            others.append(option)
    if not largest:
        return tuple(others)
    return ((GaussianEvent(1 / (largest * (1 + 1e-15))),), *others)


def _is_gaussian(option: tuple[Event, ...]) -> bool:
    return all(isinstance(event, GaussianEvent) for event in flatten(option))


def _mu(option: tuple[Event, ...]) -> float:
    squares = [n / e.noise_multiplier**2 for e, n in flatten(option).items()]  # type: ignore[attr-defined]
    return math.sqrt(math.fsum(squares)) * (1 + 1e-15)


@lru_cache(maxsize=256)
def selection_divergence(event: SelectionEvent) -> np.ndarray:
    """Return the Rényi divergence of the winner at each of `ORDERS`, before K is cut."""
    runs = [renyi_divergence(option) for option in event.options]
    one = np.max(runs, axis=0)
    if event.runs == "poisson":
        # [V3] theorem 6 of the paper, for K >= 1
        rate = _poisson_rate(event.mean_runs)
        extra = rate * _deltas(event.options, one) + math.log(event.mean_runs) / (ORDERS - 1)
    else:
        # [V4] theorem 2 of the paper
        spread = -math.log(_gamma(event.shape, event.mean_runs))
        least = np.min((1 - 1 / ORDERS) * one + spread / ORDERS)
        extra = (1 + event.shape) * least + math.log(event.mean_runs) / (ORDERS - 1)
    total = one + extra
    # A divergence grows with its order, so that of a higher order is a bound as well.
    return np.minimum.accumulate(total[::-1])[::-1] * (1 + 1e-12)


def _deltas(options: tuple[tuple[Event, ...], ...], one: np.ndarray) -> np.ndarray:
    """Return delta of one run at ``log(1 + 1/(a - 1))`` for each order a."""
    epsilons = np.log1p(1 / (ORDERS - 1))
    if all(map(_is_gaussian, options)):
        mu = max(map(_mu, options))
        hits = ndtr(mu / 2 - epsilons / mu) - np.exp(epsilons) * ndtr(-mu / 2 - epsilons / mu)
        return np.asarray(np.maximum(hits, 0.0) + ROUNDING)
    return np.array([delta_from_renyi(one, float(epsilon)) for epsilon in epsilons])


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
    if event.mean_runs > MAX_RUNS:
        return ()
    return _tails(event.runs, float(event.mean_runs), float(event.shape), most, enough)


@lru_cache(maxsize=8)
def _tails(runs: str, mean: float, shape: float, most: int, enough: float) -> tuple[Decimal, ...]:
    is_poisson, tails = runs == "poisson", []
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
        raise InvalidInputError(f"No law of this kind is offered with 'mean_runs' {mean!r}.")
    return float(brentq(gap, low, high, xtol=1e-15))
