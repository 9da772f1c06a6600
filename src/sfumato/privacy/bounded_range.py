"""Releases of bounded range: a logarithmic likelihood ratio inside an interval of length epsilon.

The exponential mechanism is one. Pure epsilon alone allows an interval of twice that length, so
several such releases cost less together than their epsilons say (Dong, Durfee & Rogers 2020). Both
bounds here hold for releases chosen adaptively. Proof: docs/guarantees/exponential.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from sfumato.privacy.events import (
    BoundedRangeEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    RandomizedResponseEvent,
)

MAX_LOG_ORDER = 40.0


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
    rho = sum(count * concentration(event) for event, count in counts.items())
    return epsilon_from_rho(rho, delta)


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
