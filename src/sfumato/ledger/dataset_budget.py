"""The handle that estimators take as `ledger`: charge, or refuse, one dataset's budget.

A handle is not a value: copies, clones, pickles and forks of it all charge the same budget.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import cache
from hashlib import sha256
from itertools import groupby
from typing import Any, Self

from sfumato.core.databases import Database, ErrorTexts, Transaction
from sfumato.exceptions import BudgetExceededError, LedgerError, LedgerUncertainError
from sfumato.ledger import store as ledger_store
from sfumato.ledger.chain import (
    EVERY,
    MAX_LINES,
    Budget,
    Charge,
    History,
    Note,
    check_chain,
    decode_event,
    encode_event,
    read_event,
    stamp,
)
from sfumato.ledger.receipt import Receipt, check_same_unit_and_adjacency
from sfumato.ledger.spending import Spending
from sfumato.privacy.composition import epsilon_spent, require_relation
from sfumato.privacy.events import Event, flatten

WORDS = ErrorTexts(
    thing="ledger",
    undone="nothing was charged",
    creation="Ledger.create",
    retry="verify before you retry. The same charge, made again with the same handle, is not "
    "counted twice.",
    error=LedgerError,
    uncertain=LedgerUncertainError,
)


@dataclass(frozen=True)
class Statement:
    """A budget at one moment: composed epsilon `spent`, `left`, number of `charges`, last hash."""

    budget: Budget
    spent: float
    left: float
    charges: int
    head: str

    def to_dict(self) -> dict[str, Any]:
        """Return the statement as plain JSON values."""
        fields = asdict(self)
        return {**fields.pop("budget"), **fields}


@dataclass(frozen=True)
class PastCharge:
    """One charge of the past, and the `epsilon` that it costs alone at the budget's `delta`."""

    position: int
    time: str
    purpose: str | None
    by: str | None
    events: tuple[Event, ...]
    epsilon: float
    delta: float
    hash: str
    mark: str

    def to_dict(self) -> dict[str, Any]:
        """Return the charge as plain JSON values."""
        return {**vars(self), "events": [event.to_dict() for event in self.events]}


class DatasetBudget:
    """A handle to the budget of one dataset; made by `Ledger.create` and `Ledger.dataset`.

    Notes
    -----
    Copying gives the same handle, pickling carries the address and the name, and two handles are
    equal if they point to the same budget. So an estimator may be cloned, sent to workers or
    forked with its `ledger`, and every fit is still charged.

    A handle remembers the last line that it read or wrote, and refuses a ledger without it.
    """

    def __init__(self, database: Database, name: str, known: History | None = None) -> None:
        self.name = name
        self._database = database
        self._lock = threading.Lock()
        self._note = Note()
        self._known = known  # the chain up to the last line that was read or written
        # Charges that were written, and then no answer came: nothing was drawn on them.
        self._unconfirmed: dict[tuple[int, Note, tuple[Event, ...]], Charge] = {}

    def noted(self, *, purpose: str | None = None, by: str | None = None) -> DatasetBudget:
        """Return a handle to the same budget whose charges say what they are for, and who asked.

        Examples
        --------
        >>> from sfumato import Ledger
        >>> from sfumato.privacy.events import PureEvent
        >>> patients = Ledger().create("patients", epsilon=1.0)
        >>> _ = patients.noted(purpose="triage model", by="Ada").charge(PureEvent(0.5))
        >>> patients.history()[0].purpose
        'triage model'
        """
        handle = DatasetBudget(self._database, self.name, self._known)
        handle._note = Note(purpose or self._note.purpose, by or self._note.by)
        return handle

    def charge(
        self,
        *events: Event,
        unit: str | None = None,
        relation: str | None = None,
        purpose: str | None = None,
        by: str | None = None,
        reference: str | None = None,
        also: Callable[[Transaction, int], None] | None = None,
    ) -> Receipt:
        """Pay for `events` in one transaction, or refuse them all."""
        note = Note(purpose or self._note.purpose, by or self._note.by, reference)
        texts = [encode_event(event, note) for event in events]
        # A forked child must not draw on what its parent has paid, nor anyone on another's quota.
        key = os.getpid(), note, events
        earlier, written = self._unconfirmed.pop(key, None), None

        def pay(ledger: Transaction) -> tuple[Budget, History]:
            nonlocal earlier, written
            budget, history = self._read(ledger, lock=True)
            check_same_unit_and_adjacency(
                f"budget of '{self.name}'", budget.unit, budget.relation, unit, relation
            )
            require_relation(flatten(events), budget.relation)
            if earlier is not None:
                place = earlier.position
                if earlier in ledger_store.charges(ledger, self.name, place, place):
                    return budget, history
                earlier = None
            after = history.plus(asked)
            _refuse_overspending(budget, history, after, events)
            if not texts:
                return budget, history
            if also is not None:
                also(ledger, history.count + 1)
            is_time = after.since + len(texts) >= EVERY
            state = after.spending.to_bytes() if is_time else None
            seal = None if state is None else sha256(state).hexdigest()
            lines = history.next_lines(self.name, texts, stamp(), seal)
            written, last = lines[0], lines[-1]
            ledger_store.append(ledger, lines)
            if state is not None:
                ledger_store.keep_checkpoint(ledger, self.name, last.position, state)
            return budget, after.at(last.position, last.hash, len(lines), state)

        try:
            known = self._known or self._looked_at()[1]  # before others are kept waiting
            asked = Spending.of(map(read_event, texts), known.scale)
            budget, history = self._database.write(pay)
            self._remember(history)  # [L5] what was written is known from here on
            charge = written or earlier
            marks = (charge.mark,) if charge is not None else ()
            return Receipt(events, unit=budget.unit, relation=budget.relation, charges=marks)
        except BaseException:
            pending = written or earlier
            if pending is not None:
                self._unconfirmed[key] = pending
            raise

    def ask(self, *events: Event, unit: str | None = None, relation: str | None = None) -> None:
        """Raise what `charge` would raise now; nothing is charged.

        For releases of which a part is paid for elsewhere or later.
        """
        budget, history = self._looked_at()
        check_same_unit_and_adjacency(
            f"budget of '{self.name}'", budget.unit, budget.relation, unit, relation
        )
        require_relation(flatten(events), budget.relation)
        asked = Spending.of((read_event(encode_event(event)) for event in events), history.scale)
        _refuse_overspending(budget, history, history.plus(asked), events)

    @property
    def total(self) -> Budget:
        """What may be spent in all."""
        return self._looked_at()[0]

    def statement(self) -> Statement:
        """Return budget, spent, left, number of charges and head, all of the same moment."""
        budget, history = self._looked_at()
        spent = history.spending.price(budget.delta, budget.epsilon)
        return Statement(budget, spent, _left(budget, spent), history.count, history.head)

    def spent(self) -> float:
        """Epsilon of all charges together, composed tightly, at the budget's delta."""
        return self.statement().spent

    def left(self) -> float:
        """Budget minus spent.

        With delta 0 it is exactly the largest pure epsilon that fits. With a delta it is a guide:
        costs do not simply add, so a Gaussian release may fit with a larger epsilon of its own, and
        a pure one up to the rounding of the accountant (about 1e-4). `charge` decides.
        """
        return self.statement().left

    def head(self) -> str:
        """Return the last hash of the chain, for an auditor to note elsewhere (`Ledger.verify`)."""
        return self._looked_at()[1].head

    def events(self) -> tuple[Event, ...]:
        """List what was charged, in order."""
        return tuple(decode_event(line) for line in self.lines())

    def history(self) -> list[PastCharge]:
        """List the charges with time, purpose, who asked, and what each costs alone."""
        budget = self.total
        price = cache(lambda events: epsilon_spent(events, budget.delta, budget.relation))
        past = []
        for _, group in groupby(self.lines(), key=lambda line: line.mark or line.position):
            first, *others = group
            events, note = tuple(map(decode_event, (first, *others))), first.note
            time, last = first.time.split(" ")[0], (others or [first])[-1]
            known = (events, price(events), budget.delta, last.hash, first.mark)
            past.append(PastCharge(first.position, time, note.purpose, note.by, *known))
        return past

    def lines(self) -> list[Charge]:
        """Read every line of the chain, all of them checked."""

        def read(ledger: Transaction) -> list[Charge]:
            known, record = self._known, self._record(ledger)
            lines = ledger_store.charges(ledger, self.name)
            check_chain(record, lines)
            if known is not None:
                known.refuse_replaced(record, lines[known.count - 1 : known.count])
            return lines

        return self._database.read(read)

    def refresh(self) -> Self:
        """Read the budget and its chain, so that this handle refuses any other from here on."""
        self._looked_at()
        return self

    def _looked_at(self) -> tuple[Budget, History]:
        budget, history = self._database.read(self._read)
        self._remember(history)
        return budget, history

    def _read(self, ledger: Transaction, *, lock: bool = False) -> tuple[Budget, History]:
        """Read and check budget and lines, only the new lines if this handle saw the others."""
        known = self._known  # taken before the first query, or a thread's view may be the older
        record = self._record(ledger, lock=lock)
        budget = Budget.from_record(record)
        n_lines = record["count"] if isinstance(record["count"], int) else 0
        if known is not None and n_lines - known.count > MAX_LINES:  # better from a checkpoint
            last = ledger_store.charges(ledger, self.name, known.count, known.count)
            known.refuse_replaced(record, last)
            known = None
        if known is None:
            known = History.before_any(record)
            if (kept := ledger_store.checkpoint(ledger, self.name)) is not None:
                sealing = ledger_store.charges(ledger, self.name, kept[0], kept[0])
                if sealing:
                    known = History.from_checkpoint(record, sealing[0], kept[1])
        lines = ledger_store.charges(ledger, self.name, known.count or None)
        return budget, known.continued(record, lines)

    def _record(self, ledger: Transaction, *, lock: bool = False) -> Mapping[str, Any]:
        record = ledger_store.budget(ledger, self.name, lock=lock)
        if record is None:
            raise LedgerError(
                f"The budget of '{self.name}' is missing from {self._database.shown}."
            )
        return record

    def _remember(self, history: History) -> None:
        with self._lock:  # of two threads the one with the longer chain is right
            if self._known is None or history.count >= self._known.count:
                self._known = history

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DatasetBudget):
            return NotImplemented
        return (self._database.address, self.name) == (other._database.address, other.name)

    def __hash__(self) -> int:
        return hash((self._database.address, self.name))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        # [L4] a copy is the address of the same budget
        return (_reopened, (*self._database.connection_args(), self.name, self._note))

    def __repr__(self) -> str:
        place = "" if self._database.in_memory else repr(self._database.shown)
        return f"Ledger({place}).dataset({self.name!r})"


def _reopened(address: str, timeout: float, name: str, note: Note | None = None) -> DatasetBudget:
    handle = DatasetBudget(Database(address, timeout, WORDS), name)
    handle._note = note or Note()
    return handle


def _refuse_overspending(
    budget: Budget, before: History, after: History, events: tuple[Event, ...]
) -> None:
    # [L1] the composed cost of everything, before a line is written
    if after.spending.fits(budget.epsilon, budget.delta):
        return
    spent = before.spending.price(budget.delta, budget.epsilon)
    asked = epsilon_spent(events, budget.delta, budget.relation)
    together = after.spending.price(budget.delta, 2 * budget.epsilon)
    left, short = _left(budget, spent), f"{together:.6g}"
    above = short if float(short) > budget.epsilon else repr(together)  # digits enough to show it
    hint = (
        " Its delta is 0, so only releases with delta=0 fit: create it with delta=1e-6."
        if budget.delta == 0
        else ""
    )
    raise BudgetExceededError(
        f"The budget of '{budget.name}' refuses this charge: spent {spent:.6g} of epsilon "
        f"{budget.epsilon:.6g}, asked {asked:.6g}, left {left:.6g} (together they would cost "
        f"{above}, all at delta {budget.delta:g}). Nothing was charged "
        "and nothing drawn." + (hint if math.isinf(together) else ""),
        spent=spent,
        asked=asked,
        left=left,
    )


def _left(budget: Budget, spent: float) -> float:
    """Subtract the figures as written, and round down: 1 - 0.1 is 0.9, and 0.9 fits."""
    exact = max(Decimal(repr(budget.epsilon)) - Decimal(repr(spent)), Decimal(0))
    near = float(exact)
    return math.nextafter(near, 0.0) if Decimal(repr(near)) > exact else near
