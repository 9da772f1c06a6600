"""An event of every kind."""

from __future__ import annotations

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
