"""The handle that estimators take as `ledger`: charge, or refuse, one dataset's budget.

A handle is not a value: copies, clones, pickles and forks of it all charge the same budget.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Self

from sqlalchemy.engine import Connection

from sfumato.accounting import ledger_store
from sfumato.accounting.composition import epsilon_spent
from sfumato.accounting.ledger_chain import (
    Budget,
    History,
    chain_of,
    decode_event,
    encode_event,
    now,
)
from sfumato.accounting.ledger_database import LedgerDatabase
from sfumato.accounting.receipt import Receipt, refuse_other_words
from sfumato.events import Event
from sfumato.exceptions import BudgetExceededError, LedgerError

__all__ = ["DatasetBudget", "Statement"]


@dataclass(frozen=True)
class Statement:
    """A budget at one moment: composed epsilon `spent`, `left`, number of `charges`, last hash."""

    budget: Budget
    spent: float
    left: float
    charges: int
    head: str

    def to_dict(self) -> dict[str, Any]:
        """Give the statement as plain JSON values."""
        fields = asdict(self)
        return {**fields.pop("budget"), **fields}


class DatasetBudget:
    """A handle to the budget of one dataset; made by `Ledger.create` and `Ledger.dataset`.

    Notes
    -----
    Copying gives the same handle, pickling carries the address and the name, and two handles are
    equal if they point to the same budget. So an estimator may be cloned, sent to workers or
    forked with its `ledger`, and every fit is still charged.
    """

    def __init__(self, database: LedgerDatabase, name: str) -> None:
        self.name = name
        self._database = database
        self._known: dict[str, History] = {}  # by genesis: the part that was checked already

    def charge(
        self, *events: Event, unit: str | None = None, relation: str | None = None
    ) -> Receipt:
        """Pay for `events` in one transaction, or refuse them all.

        Call it before the noise is drawn: what is charged stays charged, whatever happens next.

        Parameters
        ----------
        *events : Event
            What will be released.
        unit, relation : str, optional
            What the release protects; refused if it is not what the budget counts.

        Returns
        -------
        Receipt
            Stands in for the ledger when the noise is drawn, once for each event.

        Raises
        ------
        BudgetExceededError
            If the composed epsilon at the budget's delta would pass the budget.
        """
        texts = [encode_event(event) for event in events]
        with self._database.writing() as connection:
            budget, history = self._read(connection, lock=True)
            refuse_other_words(
                f"budget of '{self.name}'", budget.unit, budget.relation, unit, relation
            )
            _refuse_overspending(budget, history, events)
            if texts:
                ledger_store.append(connection, history.next_lines(self.name, texts, now()))
        return Receipt(events, unit=budget.unit, relation=budget.relation)

    @property
    def total(self) -> Budget:
        """What may be spent in all."""
        with self._database.reading() as connection:
            return self._read(connection)[0]

    def statement(self) -> Statement:
        """Give budget, spent, left, number of charges and head, all of the same moment."""
        with self._database.reading() as connection:
            budget, history = self._read(connection)
        spent = epsilon_spent(history.releases(), budget.delta, budget.relation)
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
        """Give the last hash of the chain, for an auditor to note elsewhere (`Ledger.verify`)."""
        with self._database.reading() as connection:
            return self._read(connection)[1].head

    def events(self) -> tuple[Event, ...]:
        """List what was charged, in order."""
        with self._database.reading() as connection:
            return tuple(decode_event(line) for line in ledger_store.charges(connection, self.name))

    def _read(self, connection: Connection, *, lock: bool = False) -> tuple[Budget, History]:
        """Read and check budget and lines, only the new lines if this handle saw the others."""
        known = self._known  # taken before the first query, or a thread's view may be the older
        record = ledger_store.budget(connection, self.name, lock=lock)
        if record is None:
            raise LedgerError(f"The budget of '{self.name}' is gone from {self._database.shown}.")
        budget, seen = Budget.from_record(record), known.get(record["genesis"])
        if seen is None:
            history = chain_of(record, ledger_store.charges(connection, self.name))
        else:
            lines = ledger_store.charges(connection, self.name, seen.count)
            history = seen.continued(record, lines)
        self._known = {record["genesis"]: history}
        return budget, history

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
        return (_reopened, (*self._database.ticket(), self.name))

    def __repr__(self) -> str:
        place = "" if self._database.in_memory else repr(self._database.shown)
        return f"Ledger({place}).dataset({self.name!r})"


def _reopened(address: str, timeout: float, name: str) -> DatasetBudget:
    return DatasetBudget(LedgerDatabase(address, timeout), name)


def _refuse_overspending(budget: Budget, history: History, events: tuple[Event, ...]) -> None:
    # [L1] the composed cost of everything, before a line is written
    def cost(releases: list[Event], enough: float | None = None) -> float:
        return epsilon_spent(releases, budget.delta, budget.relation, enough=enough)

    after = cost(history.releases(*events), enough=budget.epsilon)
    if after <= budget.epsilon:
        return
    spent, asked = cost(history.releases()), cost(list(events))
    left = _left(budget, spent)
    hint = " With delta 0 a budget holds pure releases only." if budget.delta == 0 else ""
    raise BudgetExceededError(
        f"The budget of '{budget.name}' refuses this charge: spent {spent:.6g} of epsilon "
        f"{budget.epsilon:.6g}, asked {asked:.6g}, left {left:.6g} (together they would cost "
        f"{_above(after, budget.epsilon)}, all at delta {budget.delta:g}). Nothing was charged and "
        "nothing drawn." + (hint if math.isinf(after) else ""),
        spent=spent,
        asked=asked,
        left=left,
    )


def _above(figure: float, limit: float) -> str:
    """Print with few digits, but with enough of them to show what the sentence says."""
    short = f"{figure:.6g}"
    return short if float(short) > limit else repr(figure)


def _left(budget: Budget, spent: float) -> float:
    """Subtract the figures as written, and round down: 1 - 0.1 is 0.9, and 0.9 fits."""
    exact = max(Decimal(repr(budget.epsilon)) - Decimal(repr(spent)), Decimal(0))
    near = float(exact)
    return math.nextafter(near, 0.0) if Decimal(repr(near)) > exact else near
