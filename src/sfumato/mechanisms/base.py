"""What all mechanisms share: public fields, a charge before every draw, an event."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from sfumato.accounting.receipt import Chargeable, Receipt, prepay
from sfumato.events import Event, RepeatedEvent
from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Relation, Status, Unit
from sfumato.mechanisms.entropy import is_seeded
from sfumato.mechanisms.tape import is_taped, on_tape
from sfumato.memory import RELEASED_COPIES, require_memory

__all__ = [
    "Mechanism",
    "Repeated",
    "noise_status",
    "require_epsilon",
    "require_room",
    "require_sensitivity",
]


class Mechanism(ABC):
    """A release with noise. Its fields are public; the statistic is only ever an argument.

    A mechanism that protects one unit or relation only says so in `unit` and `relation`, and a
    budget that counts in others refuses its charge. For the rest the caller's sensitivity decides.
    """

    unit: ClassVar[Unit | None] = None
    relation: ClassVar[Relation | None] = None
    # Norm of its sensitivity: 1, the sum of magnitudes; 2, Euclidean; "part", the sum of
    # magnitudes over one table, column or other part of the statistic, the largest of them.
    norm: ClassVar[int | str] = 2

    def __init_subclass__(cls, **options: Any) -> None:
        """Put every release method on the tape, so that none can be forgotten by a test."""
        super().__init_subclass__(**options)
        for name, method in list(vars(cls).items()):
            if name.startswith("release"):
                setattr(cls, name, on_tape(method))

    @abstractmethod
    def event(self) -> Event:
        """Describe one release without data."""

    @abstractmethod
    def variance(self) -> float:
        """Variance of the noise on one coordinate."""

    def _charge(self, ledger: Chargeable | None, size: int = 0) -> None:
        """Pay for one release of `size` numbers; raises before any noise is drawn.

        What a receipt stands for was asked for its memory when it was paid (`for_size`); after
        that nothing is refused.
        """
        if size and not isinstance(ledger, Receipt):
            require_room(size)
        prepay(ledger, self.event(), unit=self.unit, relation=self.relation)


@dataclass(frozen=True)
class Repeated(Mechanism):
    """A mechanism used `count` times, as it is paid for: one event that says so."""

    mechanism: Mechanism
    count: int

    def event(self) -> Event:
        """Describe all the releases without data."""
        return RepeatedEvent(self.mechanism.event(), self.count)

    def variance(self) -> float:
        """Variance of the noise on one coordinate of one release."""
        return self.mechanism.variance()


def noise_status() -> Status:
    """Give the status of a release made now: "testing" while noise is seeded or on tape."""
    return Status.TESTING if is_seeded() or is_taped() else Status.PROVED


def require_room(size: int) -> None:
    """Refuse a release of so many numbers that memory would run out after the charge."""
    require_memory(RELEASED_COPIES * float(size), f"A release of {size:,} numbers")


def require_sensitivity(sensitivity: float) -> float:
    """Check a sensitivity: finite and positive."""
    value = float(sensitivity)
    if not (math.isfinite(value) and value > 0):
        raise InvalidInputError(f"'sensitivity' must be finite and positive. Got {sensitivity}.")
    return value


def require_epsilon(epsilon: float) -> float:
    """Check an epsilon: positive; infinity stands for no noise."""
    value = float(epsilon)
    if not value > 0:
        raise InvalidInputError(f"'epsilon' must be positive. Got {epsilon} instead.")
    return value
