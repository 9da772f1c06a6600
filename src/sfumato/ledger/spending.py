"""What was charged so far, in bounded size: enough to price the next charge, never too low.

A `Spending` is a sum. Epsilons and deltas are added as decimals, ``mu²`` and ``rho`` as integers of
a tiny unit, rounded up once a release, so the order of charges does not matter to them; what is not
Gaussian is also kept as a measure of privacy losses (`sfumato.privacy.losses`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import brentq

from sfumato.exceptions import UnsupportedEventError
from sfumato.privacy.composition import (
    EVENTS_WITH_CURVES,
    EVENTS_WITH_EPSILON,
    added_epsilon,
    epsilon_spent,
    exact_fraction,
    require_one_entry_bound,
)
from sfumato.privacy.events import (
    BoundedRangeEvent,
    EntryEvent,
    Event,
    GaussianEvent,
    NonPrivateEvent,
    PureEvent,
    RepeatedEvent,
    event_from_dict,
    flatten,
    kind_of,
)
from sfumato.privacy.guarantee import Relation
from sfumato.privacy.losses import Losses, losses_of
from sfumato.privacy.renyi import concentration, epsilon_from_rho

FINEST = 2.0**-14  # of the budget's epsilon: the distance of two losses
MAX_INTERVAL = 2.0**-13
TAIL_SHARE = 1e-9  # of the budget's delta, given up at each composition
FEW = 16  # different events that are also composed anew, as estimators do when they calibrate
SCALE_BITS = 200  # unit of mu² and rho: 2^-200


@dataclass(frozen=True)
class Scale:
    """How finely losses are kept for one budget; no losses at all where delta is 0."""

    interval: float
    tail: float

    @classmethod
    def of(cls, epsilon: float, delta: float) -> Scale:
        """Choose the grid for a budget."""
        finest = min(MAX_INTERVAL, 2.0 ** math.floor(math.log2(epsilon)) * FINEST)
        return cls(max(finest, 2.0**-60), TAIL_SHARE * delta)


@dataclass(frozen=True)
class Spending:
    """The cost of some charges, as a sum that others can be added to."""

    epsilon: Fraction
    delta: Fraction
    mu_squared: int
    rho: int | None  # None: unbounded
    entry_bounds: frozenset[float | None]
    kinds: frozenset[str]
    losses: Losses | None
    few: Mapping[Event, int] | None  # None: more than a few different ones

    @classmethod
    def none(cls, scale: Scale) -> Spending:
        """Return the cost of no charge."""
        losses = Losses.none(scale.interval) if scale.tail else None
        return cls(Fraction(0), Fraction(0), 0, 0, frozenset(), frozenset(), losses, {})

    @classmethod
    def of(cls, events: Iterable[Event], scale: Scale) -> Spending:
        """Return the cost of some releases, the order aside."""
        parts = [cls._one(event, count, scale) for event, count in flatten(events).items()]
        while len(parts) > 1:  # neighbours first: narrow measures are convolved quickly
            pairs = zip(parts[::2], parts[1::2], strict=False)
            odd = parts[-1:] if len(parts) % 2 else []
            parts = [a.plus(b, scale) for a, b in pairs] + odd
        return parts[0] if parts else cls.none(scale)

    @classmethod
    def _one(cls, event: Event, count: int, scale: Scale) -> Spending:
        epsilon = delta = Fraction(0)
        mu_squared, losses = 0, None
        if isinstance(event, GaussianEvent):
            mu_squared = count * _in_units(1 / Fraction(event.noise_multiplier) ** 2)
        elif isinstance(event, EVENTS_WITH_EPSILON):
            epsilon = count * exact_fraction(event.epsilon)
            delta = count * exact_fraction(getattr(event, "delta", 0.0))
        elif not isinstance(event, (*EVENTS_WITH_CURVES, NonPrivateEvent)):
            raise UnsupportedEventError(f"No accountant supports a {event.kind!r} event.")
        if scale.tail and not isinstance(event, GaussianEvent | NonPrivateEvent):
            losses = losses_of(event, scale.interval).power(count, scale.tail)
        elif scale.tail:
            losses = Losses.none(scale.interval)
        rho = concentration(event)
        bounds = {event.entry_bound} if isinstance(event, EntryEvent) else ()
        return cls(
            epsilon,
            delta,
            mu_squared,
            count * _in_units(Fraction(rho)) if math.isfinite(rho) else None,
            frozenset(bounds),
            frozenset([event.kind]),
            losses,
            {event: count},
        )

    def plus(self, other: Spending, scale: Scale) -> Spending:
        """Return the cost of both together."""
        if not (self.kinds and other.kinds):
            return self if self.kinds else other
        bounds = self.entry_bounds | other.entry_bounds
        require_one_entry_bound(bounds)
        losses = self.losses
        if self.losses is not None and other.losses is not None:
            losses = self.losses.composed(other.losses, scale.tail)
        rho = None if self.rho is None or other.rho is None else self.rho + other.rho
        few = None
        if self.few is not None and other.few is not None:
            few = dict(self.few)
            for event, count in other.few.items():
                few[event] = few.get(event, 0) + count
            few = few if len(few) <= FEW else None
        return Spending(
            self.epsilon + other.epsilon,
            self.delta + other.delta,
            self.mu_squared + other.mu_squared,
            rho,
            bounds,
            self.kinds | other.kinds,
            losses,
            few,
        )

    def fits(self, epsilon: float, delta: float) -> bool:
        """Whether everything together is proved to cost at most `epsilon` at `delta`."""
        if self._simple_epsilon(delta) <= epsilon:
            return True
        is_near = self._is_settled
        if not is_near and self.losses is not None:
            if self.losses.delta(epsilon, self._mu) <= delta:
                return True
            is_near = self.losses.delta(1.002 * epsilon + 1e-3, self._mu) <= delta
        return is_near and self._anew(delta) <= epsilon

    def price(self, delta: float, guess: float) -> float:
        """Return the smallest epsilon proved at `delta`; if `guess` is one, not above it."""
        simple = min(self._simple_epsilon(delta), self._anew(delta))
        if self._is_settled or self.losses is None:
            return simple
        return min(simple, self._tight_epsilon(self.losses, delta, guess))

    @property
    def _mu(self) -> float:
        root = math.sqrt(_from_units(self.mu_squared))
        return math.nextafter(root, math.inf) if root else 0.0

    @property
    def _is_settled(self) -> bool:
        """Whether the simple figure is the exact one: nothing, Gaussian releases, one pure one."""
        if self.kinds <= {GaussianEvent.kind} or NonPrivateEvent.kind in self.kinds:
            return True
        few = list((self.few or {}).items())
        return len(few) == 1 and few[0][1] == 1 and isinstance(few[0][0], PureEvent)

    def _simple_epsilon(self, delta: float) -> float:
        """Decimal sum and Gaussian closed form, or zCDP: valid however releases were chosen."""
        if NonPrivateEvent.kind in self.kinds:
            return math.inf
        best = math.inf
        if BoundedRangeEvent.kind in self.kinds and self.rho is not None:
            best = epsilon_from_rho(_from_units(self.rho), delta)
        if any(issubclass(kind_of(kind), EVENTS_WITH_CURVES) for kind in self.kinds):
            return best
        return min(best, added_epsilon(self.epsilon, self.delta, self._mu, delta))

    def _anew(self, delta: float) -> float:
        """Compose as an estimator does that calibrates its noise; infinite if it were too slow."""
        if self.few is None:
            return math.inf
        counts = self.few.items()
        words = {word for event in self.few for word in getattr(event, "relations", ())}
        relation = words.pop() if len(words) == 1 else "replace_one"  # checked when charged
        events = [RepeatedEvent(event, count) for event, count in counts]
        return epsilon_spent(events, delta, Relation(relation))

    def covers(self, other: Spending, delta: float) -> bool:
        """Whether this is the cost of the same charges as `other`, up to the grid of losses."""
        sums = (
            (one.epsilon, one.delta, one.mu_squared, one.rho, one.entry_bounds, one.kinds)
            for one in (self, other)
        )
        if next(sums) != next(sums) or (self.losses is None) != (other.losses is None):
            return False
        if self.few is not None and self.few != other.few:  # without them nothing gets cheaper
            return False
        if self.losses is None or other.losses is None:
            return True
        # At other deltas too: what is charged later is priced by the whole curve.
        finite = 1.01 * max(self.losses.infinite, other.losses.infinite)
        return all(
            self._tight_epsilon(self.losses, at, 1.0)
            >= other._tight_epsilon(other.losses, at, 1.0) * (1 - 1e-3) - 1e-9
            for at in (max(share * delta, finite) for share in (1.0, 1e-3, 1e3))
            if at < 1
        )

    def _tight_epsilon(self, losses: Losses, delta: float, guess: float) -> float:
        def gap(epsilon: float) -> float:
            return math.log(max(losses.delta(epsilon, mu), 1e-300)) - math.log(delta)

        mu, low, high = self._mu, 0.0, guess
        if gap(low) <= 0:
            return 0.0
        while gap(high) > 0:
            if losses.infinite > delta or high > 1e6 + 4 * guess:
                return math.inf
            low, high = high, 2 * high
        root = float(brentq(gap, low, high, xtol=1e-12, rtol=1e-9))
        step = 1e-9 * (1 + root)
        while root < high and gap(root) > 0:
            root, step = root + step, 2 * step
        return min(root, high)

    def to_bytes(self) -> bytes:
        """Return the sum as stored: a line of JSON, then the masses, rounded up."""
        losses = self.losses
        header = {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "mu_squared": str(self.mu_squared),
            "rho": None if self.rho is None else str(self.rho),
            "entry_bounds": sorted(self.entry_bounds, key=str),
            "kinds": sorted(self.kinds),
            "losses": None if losses is None else [losses.interval, losses.first, losses.infinite],
            "few": None
            if self.few is None
            else [[event.to_dict(), count] for event, count in self.few.items()],
        }
        masses = b""
        if losses is not None:
            short = losses.masses.astype("<f4")
            above = np.nextafter(short, np.float32(np.inf))
            masses = np.where(short < losses.masses, above, short).astype("<f4").tobytes()
        return json.dumps(header, separators=(",", ":")).encode() + b"\n" + masses

    @classmethod
    def from_bytes(cls, text: bytes) -> Spending:
        """Read a stored sum."""
        line, _, masses = text.partition(b"\n")
        header: dict[str, Any] = json.loads(line)
        losses = None
        if header["losses"] is not None:
            interval, first, infinite = header["losses"]
            values = np.frombuffer(masses, "<f4").astype(np.float64)
            if not (interval > 0 and infinite >= 0 and np.all(values >= 0)):
                raise ValueError("masses are numbers that are not negative")
            losses = Losses(interval, first, values, infinite)
        few = header["few"]
        return cls(
            Fraction(header["epsilon"]),
            Fraction(header["delta"]),
            int(header["mu_squared"]),
            None if header["rho"] is None else int(header["rho"]),
            frozenset(header["entry_bounds"]),
            frozenset(header["kinds"]),
            losses,
            None if few is None else {event_from_dict(event): count for event, count in few},
        )


def _in_units(value: Fraction) -> int:
    units: int = math.ceil(value * 2**SCALE_BITS)
    return units


def _from_units(units: int) -> float:
    value = float(Fraction(units, 2**SCALE_BITS))
    return math.nextafter(value, math.inf) if units else 0.0
