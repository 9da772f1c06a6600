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
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from itertools import groupby
from typing import Any

from sfumato.exceptions import (
    InvalidInputError,
    LedgerError,
    LedgerTamperedError,
    UnsupportedEventError,
)
from sfumato.ledger.spending import Scale, Spending
from sfumato.privacy.events import Event, event_from_dict
from sfumato.privacy.guarantee import Relation, Unit

EVERY = 32  # lines from one checkpoint to the next
MAX_LINES = 8 * EVERY  # that are added one by one
NOTE = "note"  # the key of what an event was charged for, next to its fields
MAX_NOTE_LENGTH = 500
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
        """Return the fields as stored: figures as the shortest text that reads back the same."""
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
class Note:
    """What a charge was for, who asked, and a name to find it by; part of its line."""

    purpose: str | None = None
    by: str | None = None
    reference: str | None = None

    def __post_init__(self) -> None:
        for name, text in vars(self).items():
            if text is None:
                continue
            if not isinstance(text, str) or not text.strip() or not text.isprintable():
                raise InvalidInputError(f"'{name}' must be one line of text, not empty.")
            if len(text) > MAX_NOTE_LENGTH:
                raise InvalidInputError(f"'{name}' must have at most {MAX_NOTE_LENGTH} characters.")

    def to_dict(self) -> dict[str, str]:
        """Return what is known as plain JSON values."""
        return {name: text for name, text in vars(self).items() if text is not None}


@dataclass(frozen=True)
class Charge:
    """One line of the ledger; `time` is a time, a random mark, and at a checkpoint its seal."""

    dataset: str
    position: int
    time: str
    event: str
    previous: str
    hash: str

    @classmethod
    def sealed(cls, dataset: str, position: int, time: str, event: str, previous: str) -> Charge:
        """Write a line and close it with the hash of itself and of everything before it."""
        own = _hash([previous, dataset, position, time, event])
        return cls(dataset, position, time, event, previous, own)

    @property
    def note(self) -> Note:
        """What the charge was for, and who asked for it."""
        if f'"{NOTE}"' not in self.event:  # most lines: reading them twice takes long
            return Note()
        known = json.loads(self.event).get(NOTE) or {}  # fields of a newer Sfumato are left out
        return Note(*(known.get(name) for name in ("purpose", "by", "reference")))

    @property
    def mark(self) -> str:
        """The random mark that all lines of one charge share; empty in a first ledger."""
        return [*self.time.split(" "), ""][1]

    @property
    def seal(self) -> str | None:
        """The hash of the state that is kept with this line, where it is a checkpoint."""
        parts = self.time.split(" ")
        return parts[2] if len(parts) == 3 else None


@dataclass(frozen=True)
class History:
    """The charges up to one line, checked: how many, the last hash, and what they cost.

    The cost is that of the last checkpoint and of what came after it, so that a reader of the
    ledger, from whatever line on, finds the same figure.
    """

    genesis: str
    count: int
    head: str
    scale: Scale
    base: Spending
    recent: Spending
    since: int = 0  # lines after the checkpoint

    @classmethod
    def before_any(cls, record: Mapping[str, Any]) -> History:
        """Begin with the budget record, before its first charge."""
        scale = Scale.of(float(record["epsilon"]), float(record["delta"]))
        none = Spending.none(scale)
        return cls(record["genesis"], 0, record["genesis"], scale, none, none)

    @classmethod
    def from_checkpoint(cls, record: Mapping[str, Any], line: Charge, state: bytes) -> History:
        """Begin after a line that seals a state; what lies before it is not looked at."""
        name, start = record["name"], cls.before_any(record)
        if line != Charge.sealed(name, line.position, line.time, line.event, line.previous):
            raise _tampered(name, line.position, "its text does not match its hash")
        if line.seal != sha256(state).hexdigest():
            raise _tampered(name, line.position, "the checkpoint is not the one that it seals")
        try:
            base = Spending.from_bytes(state)
        except (TypeError, ValueError, KeyError, AttributeError):
            raise _tampered(name, line.position, "the checkpoint cannot be read") from None
        return replace(start, count=line.position, head=line.hash, base=base)

    @cached_property
    def spending(self) -> Spending:
        """What everything costs together."""
        return self.base.plus(self.recent, self.scale)

    def extended(self, dataset: str, lines: Sequence[Charge]) -> History:
        """Check the lines that follow and add their cost."""
        head, history = check_lines(dataset, self.count, self.head, lines), self
        if len(lines) > MAX_LINES:  # no checkpoint was kept: all at once is quicker
            recent = self.recent.plus(Spending.of(map(decode_event, lines), self.scale), self.scale)
            count = self.count + len(lines)
            return replace(self, count=count, head=head, recent=recent, since=len(lines))
        count = self.count
        for _, group in groupby(lines, key=lambda line: line.time.split(" ")[:2]):
            charge = list(group)
            history = history.plus(Spending.of(map(decode_event, charge), self.scale))
            state = None if charge[-1].seal is None else history.spending.to_bytes()
            count += len(charge)
            history = history.at(count, charge[-1].hash, len(charge), state)
        return history

    def plus(self, cost: Spending) -> History:
        """Add the cost of a charge whose lines are still to be written."""
        return replace(self, recent=self.recent.plus(cost, self.scale))

    def at(self, count: int, head: str, n_lines: int, state: bytes | None) -> History:
        """Return where the chain ends after `n_lines` more; at a checkpoint, take its figures."""
        if state is None:
            return replace(self, count=count, head=head, since=self.since + n_lines)
        base, none = Spending.from_bytes(state), Spending.none(self.scale)
        return replace(self, count=count, head=head, base=base, recent=none, since=0)

    def continued(self, record: Mapping[str, Any], lines: Sequence[Charge]) -> History:
        """Check the rest of the chain, given the lines from this history's last one on.

        Budget and last line were seen before, and a chain only grows: if one of them is another
        now, the ledger was rewritten, made anew under the same name, or put back to an older copy,
        however consistent it looks.
        """
        self.refuse_replaced(record, lines[:1])
        history = self.extended(record["name"], lines[1:] if self.count else lines)
        check_end(record, history.count, history.head)
        return history

    def refuse_replaced(self, record: Mapping[str, Any], last: Sequence[Charge]) -> None:
        """Compare budget and last line with what they were before."""
        name, before = record["name"], "it is not the one that was there before"
        if record["genesis"] != self.genesis:
            raise _tampered(name, 0, before)
        found = [(line.position, line.hash) for line in last]
        if self.count and found != [(self.count, self.head)]:
            raise _tampered(name, self.count, before)

    def next_lines(
        self, dataset: str, events: Sequence[str], time: str, seal: str | None = None
    ) -> list[Charge]:
        """Write one line for each event text, chained to the last line; the last takes the seal."""
        lines: list[Charge] = []
        head = self.head
        for position, event in enumerate(events, start=self.count + 1):
            is_sealing = seal is not None and position == self.count + len(events)
            text = f"{time} {seal}" if is_sealing else time
            lines.append(Charge.sealed(dataset, position, text, event, head))
            head = lines[-1].hash
        return lines


def check_chain(record: Mapping[str, Any], lines: Sequence[Charge]) -> None:
    """Check a whole chain, from the budget record to the head."""
    check_end(record, len(lines), check_lines(record["name"], 0, record["genesis"], lines))


def check_lines(dataset: str, count: int, head: str, lines: Iterable[Charge]) -> str:
    """Check the lines that follow position `count`, and return the last hash."""
    for position, line in enumerate(lines, start=count + 1):
        if line.position != position:
            raise _tampered(dataset, position, "this charge is missing or was moved")
        if line.previous != head:
            raise _tampered(dataset, position, "it does not continue the charge before it")
        if line != Charge.sealed(dataset, position, line.time, line.event, head):
            raise _tampered(dataset, position, "its text does not match its hash")
        head = line.hash
    return head


def check_end(record: Mapping[str, Any], count: int, head: str) -> None:
    """Compare with the count and the head that the budget keeps, to see a removed tail."""
    # [L5] a chain that ends elsewhere was cut
    if record["count"] != count or record["head"] != head:
        said = f"the budget counts {record['count']} charges, the chain ends after {count}"
        raise _tampered(record["name"], count, said)


def check_checkpoint(
    record: Mapping[str, Any], lines: Sequence[Charge], position: int, state: bytes
) -> None:
    """Compare a checkpoint with the cost of its lines, counted anew."""
    start = History.from_checkpoint(record, lines[position - 1], state)
    counted = Spending.of(map(decode_event, lines[:position]), start.scale)
    if not start.base.covers(counted, float(record["delta"])):
        raise _tampered(
            record["name"], position, "the checkpoint does not contain the cost of its charges"
        )


def encode_event(event: Event, note: Note | None = None) -> str:
    """Return the text of an event, after checking that it reads back as the same event.

    What cannot be read back would make the ledger unreadable forever, so it is refused here.
    """
    if not isinstance(event, Event):
        raise InvalidInputError(f"A charge must list events. Got {type(event).__name__} instead.")
    record = event.to_dict()
    if note is not None and note.to_dict():
        record[NOTE] = note.to_dict()
    text = json.dumps(record, sort_keys=True, separators=(",", ":"), default=_number)
    if read_event(text) != event:
        raise UnsupportedEventError(
            f"The event {event!r} cannot be written and read back unchanged."
        )
    return text


def read_event(text: str) -> Event:
    """Return the event of a text."""
    record = json.loads(text)
    record.pop(NOTE, None)
    return event_from_dict(record)


def decode_event(charge: Charge) -> Event:
    """Read the event of a line; an unknown kind is refused, never skipped."""
    try:
        return read_event(charge.event)
    except UnsupportedEventError as error:
        place = f"Dataset '{charge.dataset}', charge {charge.position}"
        raise UnsupportedEventError(f"{place}: {error}") from None
    except (TypeError, ValueError, KeyError, AttributeError):
        raise _tampered(charge.dataset, charge.position, "its event cannot be read") from None


def now() -> str:
    """Return a time: UTC, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def stamp() -> str:
    """Return the time of a charge with a mark that no other charge has.

    So the hash of its first line tells a charge from every other one, and a reader who was not told
    whether a charge was made can look for that hash.
    """
    return f"{now()} {uuid.uuid4().hex}"


def _genesis(fields: Mapping[str, Any]) -> str:
    keys = ("format", "name", "epsilon", "delta", "unit", "relation", "created")
    return _hash(["sfumato ledger", *(fields[key] for key in keys)])


def _hash(fields: list[Any]) -> str:
    return sha256(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()


def _number(value: object) -> int | float:
    """Return NumPy's scalars as Python's; anything else has no place in an event."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise UnsupportedEventError(f"An event cannot contain a value of type {type(value).__name__}.")


def _tampered(dataset: str, position: int, what: str) -> LedgerTamperedError:
    place = f"charge {position}" if position else "the budget record"
    return LedgerTamperedError(
        f"Ledger integrity check failed: dataset '{dataset}', position {position} ({place}): "
        f"{what}. Stop releasing from this dataset and compare with a copy or with a head "
        "recorded elsewhere."
    )
