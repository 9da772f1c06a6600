"""An event of every kind, and the curve of one that has no closed form."""

from __future__ import annotations

import math

from scipy.integrate import quad
from scipy.stats import chi

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
    RepeatedEvent,
)

# Cheap enough for a budget of 1.
EVERY_KIND = (
    ApproximateEvent(0.1, 1e-7),
    EntryEvent(0.1, 1e-7),
    GaussianEvent(30.0),
    LaplaceEvent(0.05),
    ObjectivePerturbationEvent(40.0, 0.1, 2),
    PureEvent(0.1, "exponential"),
    BoundedRangeEvent(0.1, "exponential"),
    RandomizedResponseEvent(0.1, 3),
    RepeatedEvent(PureEvent(0.01), 3),
)
# Dear enough to be told apart.
EVENTS: list[Event] = [
    GaussianEvent(2.5),
    LaplaceEvent(0.4),
    EntryEvent(0.4, 1e-7),
    PureEvent(0.4),
    BoundedRangeEvent(0.4),
    RandomizedResponseEvent(0.4, 5),
    ObjectivePerturbationEvent(6.0, 0.05, 2),
    ApproximateEvent(0.4, 1e-7),
]


def objective_delta(event: ObjectivePerturbationEvent, epsilon: float) -> float:
    """``E max(0, 1 - exp(epsilon - W))`` by quadrature, W = kappa + 1/(2r²) + chi_m / r."""
    a, m = 1 / event.noise_multiplier, event.dimension
    offset = event.kappa + a**2 / 2
    start = max(0.0, (epsilon - offset) / a)
    stop = max(start, math.sqrt(m)) + 40.0

    def integrand(t: float) -> float:
        return -math.expm1(epsilon - offset - a * t) * math.exp(chi.logpdf(t, m))

    points = [p for p in (math.sqrt(m) - 3, math.sqrt(m), math.sqrt(m) + 3) if start < p < stop]
    value, error = quad(integrand, start, stop, limit=500, points=points or None)
    return float(min(1.0, max(0.0, value + error)))
