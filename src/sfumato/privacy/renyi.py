"""Rényi divergences of events: what private selection is accounted by.

``D_a <= r(a)`` for each order a > 1 and both directions of a pair of neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from sfumato.exceptions import UnsupportedEventError
from sfumato.privacy.bounded_range import concentration
from sfumato.privacy.events import (
    ApproximateEvent,
    EntryEvent,
    Event,
    LaplaceEvent,
    NonPrivateEvent,
    ObjectivePerturbationEvent,
    PureEvent,
    RandomizedResponseEvent,
    flatten,
)
from sfumato.privacy.objective import mean_chi

ORDERS = np.concatenate([1 + np.geomspace(0.01, 10, 160), np.geomspace(11.5, 4000, 160)])
MAX_EXPONENT = 700.0


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
        return _pure(event.epsilon)
    rho = concentration(event)
    if math.isinf(rho):
        raise UnsupportedEventError(f"No Rényi divergence is known for a {event.kind!r} event.")
    return np.asarray(rho * ORDERS)


def _pure(epsilon: float) -> np.ndarray:
    """Binary randomised response is the worst epsilon-private release, and epsilon the limit."""
    if epsilon * ORDERS[-1] > MAX_EXPONENT:
        ordinary = epsilon * ORDERS <= MAX_EXPONENT
    else:
        ordinary = np.ones(len(ORDERS), dtype=bool)
    a = ORDERS[ordinary]
    exact = np.full(len(ORDERS), epsilon)
    ratio = (np.sinh(a * epsilon) - np.sinh((a - 1) * epsilon)) / math.sinh(epsilon)
    exact[ordinary] = np.minimum(np.log(ratio) / (a - 1), epsilon)
    return np.asarray(np.minimum(np.maximum(exact, 0.0) + 1e-15, epsilon**2 / 2 * ORDERS))


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
