"""Events: data-free records of what was released, each defined by its noise law.

An event holds all and only what an accountant needs. It can be stored, mailed and accounted
again next year by a tighter accountant, without the data. The meaning of an event never
changes once published; a different law gets a new class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from sfumato.exceptions import InvalidInputError, UnsupportedEventError


@dataclass(frozen=True)
class Event:
    """One release, described without data."""

    kind: ClassVar[str] = "event"

    def __post_init__(self) -> None:
        for name in ("noise_multiplier", "epsilon", "entry_bound"):
            value = getattr(self, name, None)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise InvalidInputError(
                    f"'{name}' must be finite and positive. Got {value} instead."
                )
        delta = getattr(self, "delta", 0.0)
        if not 0 <= delta < 1:
            raise InvalidInputError(f"'delta' must lie in [0, 1). Got {delta} instead.")

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain JSON values."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class GaussianEvent(Event):
    """``v + N(0, s² I)`` where ``||v - v'||₂ <= D``; ``noise_multiplier = s / D``."""

    noise_multiplier: float
    kind: ClassVar[str] = "gaussian"


@dataclass(frozen=True)
class LaplaceEvent(Event):
    """``v + Lap(D / epsilon)`` per coordinate where ``||v - v'||₁ <= D``."""

    epsilon: float
    kind: ClassVar[str] = "laplace"


@dataclass(frozen=True)
class EntryEvent(Event):
    """``v + w``, ``|v - v'| <= d``; w is 0 with probability `delta`, else ``Lap(d / epsilon)``."""

    epsilon: float
    delta: float = 0.0
    entry_bound: float | None = None  # d; releases with different d protect different changes
    kind: ClassVar[str] = "entry"


@dataclass(frozen=True)
class PureEvent(Event):
    """Any output law with density ratio at most ``exp(epsilon)``; `law` names it for the reader."""

    epsilon: float
    law: str = "unnamed"
    kind: ClassVar[str] = "pure"


@dataclass(frozen=True)
class BoundedRangeEvent(Event):
    """Any output law with ``t - epsilon <= log(p / p') <= t``, one t for all outputs of a pair.

    t may depend on the neighbours and on earlier outputs. `law` names the law for the reader.
    """

    epsilon: float
    law: str = "unnamed"
    kind: ClassVar[str] = "bounded_range"


@dataclass(frozen=True)
class RandomizedResponseEvent(Event):
    """A label of `n_labels` kept with odds ``exp(epsilon) : 1`` against each other label."""

    epsilon: float
    n_labels: int
    kind: ClassVar[str] = "randomized_response"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_labels < 2:
            raise InvalidInputError(f"'n_labels' must be at least 2. Got {self.n_labels} instead.")


@dataclass(frozen=True)
class ObjectivePerturbationEvent(Event):
    """A privacy loss at most ``kappa + 1/(2 r²) + chi_m / r`` with ``r = noise_multiplier``.

    The minimiser of a convex objective with the linear term ``b.t``, ``b ~ N(0, s² I)``, where
    the gradient changes by at most ``D = s / r`` inside `dimension` = m directions and `kappa`
    bounds the change of the log-determinant.
    """

    noise_multiplier: float
    kappa: float
    dimension: int
    kind: ClassVar[str] = "objective_perturbation"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.kappa) and self.kappa >= 0) or self.dimension < 1:
            raise InvalidInputError("'kappa' must be finite and >= 0, 'dimension' at least 1.")


@dataclass(frozen=True)
class ApproximateEvent(Event):
    """Any release of which only ``(epsilon, delta)`` is known."""

    epsilon: float
    delta: float
    kind: ClassVar[str] = "approximate"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise InvalidInputError(f"'epsilon' must be finite and >= 0. Got {self.epsilon}.")
        if not 0 <= self.delta < 1:
            raise InvalidInputError(f"'delta' must lie in [0, 1). Got {self.delta} instead.")


@dataclass(frozen=True)
class NonPrivateEvent(Event):
    """A release without noise: epsilon is infinite, and visibly so."""

    kind: ClassVar[str] = "non_private"


@dataclass(frozen=True)
class RepeatedEvent(Event):
    """`event`, `count` times with independent noise."""

    event: Event
    count: int
    kind: ClassVar[str] = "repeated"

    def __post_init__(self) -> None:
        if not self.count >= 1:  # nor for NaN
            raise InvalidInputError(f"'count' must be at least 1. Got {self.count} instead.")

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain JSON values."""
        return {"kind": self.kind, "event": self.event.to_dict(), "count": self.count}


@dataclass(frozen=True)
class SubsampledGaussianEvent(Event):
    """``sum over sampled records + N(0, s² I)``, each record sampled alone; add or remove only.

    One step of DP-SGD with Poisson sampling: a record enters with probability
    `sampling_probability`, its term is at most D long, and ``noise_multiplier = s / D``.
    """

    noise_multiplier: float
    sampling_probability: float
    kind: ClassVar[str] = "subsampled_gaussian"
    relations: ClassVar[tuple[str, ...]] = ("add_or_remove_one",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.sampling_probability <= 1:
            raise InvalidInputError(
                "'sampling_probability' must lie in (0, 1]. "
                f"Got {self.sampling_probability} instead."
            )


@dataclass(frozen=True)
class SelectionEvent(Event):
    """The best of K independent runs, K random and hidden; only the winner comes out.

    A run draws one of `options` by a public law and makes its releases. K has the law `runs`, on
    1, 2, ..., of mean `mean_runs`, cut at `max_runs`: "poisson" given that it is not 0, or
    "negative_binomial" of `shape` (0: logarithmic, 1: geometric), given that it is not 0.
    """

    options: tuple[tuple[Event, ...], ...]
    runs: str
    mean_runs: float
    shape: float = 0.0
    max_runs: int | None = None
    kind: ClassVar[str] = "selection"

    def __post_init__(self) -> None:
        options = tuple(tuple(option) for option in self.options)
        object.__setattr__(self, "options", options)
        if not options or not all(options):
            raise InvalidInputError("'options' must contain at least one release each.")
        if self.runs not in ("poisson", "negative_binomial"):
            raise InvalidInputError(
                f"'runs' must be 'poisson' or 'negative_binomial'. Got {self.runs!r} instead."
            )
        if not 1 < self.mean_runs < math.inf:
            raise InvalidInputError(f"'mean_runs' must be above 1. Got {self.mean_runs} instead.")
        if not -1 < self.shape < math.inf:
            raise InvalidInputError(f"'shape' must be above -1. Got {self.shape} instead.")
        if self.max_runs is not None and self.max_runs < 1:
            raise InvalidInputError(f"'max_runs' must be at least 1. Got {self.max_runs} instead.")

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain JSON values."""
        options = [[event.to_dict() for event in option] for option in self.options]
        return super().to_dict() | {"options": options}


_KINDS: dict[str, type[Event]] = {each.kind: each for each in Event.__subclasses__()}


def kind_of(name: str) -> type[Event]:
    """Return the class of a kind of events."""
    if name not in _KINDS:
        raise UnsupportedEventError(f"Unknown event kind {name!r}; a newer Sfumato may know it.")
    return _KINDS[name]


def event_from_dict(record: Mapping[str, Any]) -> Event:
    """Rebuild an event from `Event.to_dict`; an unknown kind is refused, never skipped."""
    values = dict(record)
    kind = kind_of(values.pop("kind", None))
    if kind is RepeatedEvent:
        return RepeatedEvent(event_from_dict(values["event"]), int(values["count"]))
    if kind is SelectionEvent:
        values["options"] = tuple(tuple(map(event_from_dict, each)) for each in values["options"])
    try:
        return kind(**values)
    except TypeError:
        raise UnsupportedEventError(
            f"A {kind.kind!r} event has fields that are not known here: {sorted(values)}."
        ) from None


def flatten(events: Iterable[Event]) -> dict[Event, int]:
    """Count equal events, with repetitions unrolled; the order of releases does not matter."""
    counts: dict[Event, int] = {}
    for event in events:
        times = 1
        while isinstance(event, RepeatedEvent):
            times *= event.count
            event = event.event
        counts[event] = counts.get(event, 0) + times
    return counts
