"""The chain of hashes: what a ledger holds, and how a changed, moved or missing line is seen.

``h_0 = H(budget record)`` and ``h_i = H(h_(i-1), dataset, i, time, event)`` with SHA-256 over a
JSON array, so that no two different lines have the same encoding. The budget keeps the number of
charges and the last hash, so that a removed tail is seen as well. Nothing here knows of storage.
"""

from __future__ import annotations

import json
import numbers
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from sfumato.events import Event, RepeatedEvent, event_from_dict, flatten
from sfumato.exceptions import (
    InvalidInputError,
    LedgerError,
    LedgerTamperedError,
    UnsupportedEventError,
)
from sfumato.guarantee import Relation, Unit

__all__ = [
    "FORMAT",
    "Budget",
    "Charge",
    "History",
    "chain_of",
    "decode_event",
    "encode_event",
    "now",
    "stamp",
]

FORMAT = 1  # a ledger of a higher format is refused: its lines may mean something else


@dataclass(frozen=True)
class Budget:
    """What may be spent on one dataset in all: `epsilon` at `delta`, for one unit and relation."""

    name: str
    epsilon: float
    delta: float
    unit: Unit
    relation: Relation

    def record(self, created: str) -> dict[str, Any]:
        """Give the fields as stored: figures as the shortest text that reads back the same."""
        fields = {
            "name": self.name,
            "epsilon": repr(self.epsilon),
            "delta": repr(self.delta),
            "unit": str(self.unit),
            "relation": str(self.relation),
            "created": created,
            "format": FORMAT,
        }
        return fields | {"genesis": _genesis(fields)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Budget:
        """Read a stored budget, after checking that it is the one that was created."""
        if isinstance(record["format"], int) and record["format"] > FORMAT:
            raise LedgerError(
                f"The budget of '{record['name']}' was written by a newer Sfumato (format "
                f"{record['format']}, this one reads up to {FORMAT}); upgrade to use it."
            )
        if record["genesis"] != _genesis(record):
            raise _tampered(record["name"], 0, "the budget is not the one that was created")
        return cls(
            name=record["name"],
            epsilon=float(record["epsilon"]),
            delta=float(record["delta"]),
            unit=Unit(record["unit"]),
            relation=Relation(record["relation"]),
        )


@dataclass(frozen=True)
class Charge:
    """One line of the ledger."""

    dataset: str
    position: int
    time: str
    event: str
    previous: str
    hash: str

    @classmethod
    def sealed(cls, dataset: str, position: int, time: str, event: str, previous: str) -> Charge:
        """Write a line and close it with the hash of itself and of everything before it."""
        seal = _hash([previous, dataset, position, time, event])
        return cls(dataset, position, time, event, previous, seal)


@dataclass(frozen=True)
class History:
    """The charges up to one line, checked: how many, the last hash, and how often each event."""

    genesis: str
    count: int
    head: str
    events: Mapping[Event, int]

    @classmethod
    def before_any(cls, record: Mapping[str, Any]) -> History:
        """Begin with the budget record, before its first charge."""
        return cls(record["genesis"], 0, record["genesis"], {})

    def extended(self, dataset: str, charges: Iterable[Charge]) -> History:
        """Check the lines that follow and count their events in."""
        count, head, events = self.count, self.head, dict(self.events)
        for charge in charges:
            count += 1
            _check_line(dataset, count, head, charge)
            head = charge.hash
            for event, times in flatten([decode_event(charge)]).items():
                events[event] = events.get(event, 0) + times
        return History(self.genesis, count, head, events)

    def continued(self, record: Mapping[str, Any], lines: Sequence[Charge]) -> History:
        """Check the rest of the chain, given the lines from this history's last one on.

        Budget and last line were seen before, and a chain only grows: if one of them is another
        now, the ledger was rewritten, made anew under the same name, or put back to an older copy,
        however consistent it looks.
        """
        name, before = record["name"], "it is not the one that was there before"
        if record["genesis"] != self.genesis:
            raise _tampered(name, 0, before)
        if self.count and (not lines or (lines[0].position, lines[0].hash) != self._last):
            raise _tampered(name, self.count, before)
        history = self.extended(name, lines[1:] if self.count else lines)
        history.check_end(record)
        return history

    @property
    def _last(self) -> tuple[int, str]:
        return self.count, self.head

    def check_end(self, record: Mapping[str, Any]) -> None:
        """Compare with the count and the head that the budget keeps, to see a removed tail."""
        # [L5] a chain that ends elsewhere was cut
        if record["count"] != self.count or record["head"] != self.head:
            raise _tampered(
                record["name"],
                self.count,
                f"the budget counts {record['count']} charges, the chain ends after {self.count}",
            )

    def releases(self, *more: Event) -> list[Event]:
        """List everything charged, and `more`, with equal events counted together."""
        counts = dict(self.events)
        for event, times in flatten(more).items():
            counts[event] = counts.get(event, 0) + times
        return [RepeatedEvent(event, n) if n > 1 else event for event, n in counts.items()]

    def next_lines(self, dataset: str, events: Sequence[str], time: str) -> list[Charge]:
        """Write one line for each event text, chained to the last line."""
        lines: list[Charge] = []
        head = self.head
        for position, event in enumerate(events, start=self.count + 1):
            lines.append(Charge.sealed(dataset, position, time, event, head))
            head = lines[-1].hash
        return lines


def chain_of(record: Mapping[str, Any], charges: Sequence[Charge]) -> History:
    """Check a whole chain, from the budget record to the head."""
    return History.before_any(record).continued(record, charges)


def encode_event(event: Event) -> str:
    """Give the text of an event, after checking that it reads back as the same event.

    What cannot be read back would make the ledger unreadable for ever, so it is refused here.
    """
    if not isinstance(event, Event):
        raise InvalidInputError(f"A charge takes events. Got {type(event).__name__} instead.")
    text = json.dumps(event.to_dict(), sort_keys=True, separators=(",", ":"), default=_number)
    if event_from_dict(json.loads(text)) != event:
        raise UnsupportedEventError(f"The event {event!r} does not survive being written down.")
    return text


def decode_event(charge: Charge) -> Event:
    """Read the event of a line; an unknown kind is refused, never skipped."""
    try:
        return event_from_dict(json.loads(charge.event))
    except UnsupportedEventError as error:
        place = f"Dataset '{charge.dataset}', charge {charge.position}"
        raise UnsupportedEventError(f"{place}: {error}") from None
    except (TypeError, ValueError, KeyError, AttributeError):
        raise _tampered(charge.dataset, charge.position, "its event cannot be read") from None


def now() -> str:
    """Give a time: UTC, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def stamp() -> str:
    """Give the time of a charge with a mark that no other charge has.

    So the hash of its first line tells a charge from every other one, and whoever was not told
    whether a charge was made can look for that hash.
    """
    return f"{now()} {uuid.uuid4().hex}"


def _check_line(dataset: str, position: int, head: str, charge: Charge) -> None:
    if charge.position != position:
        raise _tampered(dataset, position, "this charge is missing or was moved")
    if charge.previous != head:
        raise _tampered(dataset, position, "it does not continue the charge before it")
    if charge != Charge.sealed(dataset, position, charge.time, charge.event, head):
        raise _tampered(dataset, position, "its text does not match its hash")


def _genesis(fields: Mapping[str, Any]) -> str:
    keys = ("format", "name", "epsilon", "delta", "unit", "relation", "created")
    return _hash(["sfumato ledger", *(fields[key] for key in keys)])


def _hash(fields: list[Any]) -> str:
    return sha256(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()


def _number(value: object) -> int | float:
    """Give NumPy's scalars as Python's; anything else has no place in an event."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise UnsupportedEventError(f"An event cannot hold a value of type {type(value).__name__}.")


def _tampered(dataset: str, position: int, what: str) -> LedgerTamperedError:
    place = f"charge {position}" if position else "the budget record"
    return LedgerTamperedError(
        f"The ledger does not hold: dataset '{dataset}', position {position} ({place}): {what}. "
        "Stop releasing from this dataset and compare with a copy or a head noted elsewhere."
    )
