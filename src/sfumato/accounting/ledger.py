"""The durable ledger: one budget per dataset, charged before any noise is drawn.

A `Ledger` is a place (a file, a database), and a `DatasetBudget` is a handle to one budget in it.
Neither is a value: copies, clones, pickles and forks of a handle all charge the same budget.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

from sqlalchemy.engine import Connection

from sfumato.accounting.composition import epsilon_spent
from sfumato.accounting.ledger_chain import Budget, History, chain_of, encode_event, now
from sfumato.accounting.ledger_store import Store
from sfumato.accounting.receipt import Receipt, refuse_other_words
from sfumato.events import Event
from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    LedgerError,
    LedgerTamperedError,
)
from sfumato.guarantee import Relation, Unit

__all__ = ["Budget", "DatasetBudget", "Ledger", "Statement", "Verification"]


class Ledger:
    """What may be spent on each dataset, and what was: durable, append-only, refusing.

    Parameters
    ----------
    path_or_url : str or Path, optional
        A file (SQLite), or a URL such as "postgresql+psycopg://user@host/database". None keeps
        the ledger in the memory of this process, for experiments.
    timeout : float, default=60.0
        Seconds to wait for another process that is writing.

    Notes
    -----
    Nothing is opened until a method needs it, and nothing stays open. What is promised, why, and
    what is not: see the proof sheet ``docs/guarantees/ledger.md``.

    Examples
    --------
    >>> from sfumato.accounting.ledger import Ledger
    >>> from sfumato.events import PureEvent
    >>> ledger = Ledger()
    >>> patients = ledger.create("patients", epsilon=1.0)
    >>> for epsilon in (0.1, 0.9):
    ...     _ = patients.charge(PureEvent(epsilon))
    >>> patients.spent(), patients.left()
    (1.0, 0.0)
    >>> print(ledger.verify())
    The chain holds: 1 dataset, 2 charges.
    """

    def __init__(
        self, path_or_url: str | os.PathLike[str] | None = None, *, timeout: float = 60.0
    ) -> None:
        if not 0 <= timeout < math.inf:
            raise InvalidInputError(f"'timeout' must be finite and >= 0. Got {timeout} instead.")
        self._store = Store(path_or_url, timeout)

    def create(
        self,
        name: str,
        *,
        epsilon: float,
        delta: float = 0.0,
        unit: str = "record",
        relation: str = "replace_one",
    ) -> DatasetBudget:
        """Set the budget of a dataset, once and for all.

        Parameters
        ----------
        name : str
            The dataset; a new name.
        epsilon, delta : float
            The most that all releases together may cost. A delta of 0 admits pure releases only.
        unit : {"record", "entry"}, default="record"
            What one change may touch.
        relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
            Which data sets count as neighbours.
        """
        budget = _checked_budget(name, epsilon, delta, unit, relation)
        with self._store.creating() as connection:
            if self._store.budget(connection, name, lock=True) is not None:
                raise InvalidInputError(
                    f"'name': the ledger has a budget for '{name}' already, and a budget is never "
                    "changed. Use it with Ledger.dataset, or give the new one another name."
                )
            self._store.add_budget(connection, budget.record(now()))
        return DatasetBudget(self._store, name)

    def dataset(self, name: str) -> DatasetBudget:
        """Give the budget of a dataset, as estimators take it for `ledger`."""
        known = self.datasets()
        if name not in known:
            listed = ", ".join(repr(other) for other in known) or "none"
            raise InvalidInputError(
                f"'name': the ledger has no budget for {name!r} (it has: {listed}). "
                "Ledger.create makes one."
            )
        return DatasetBudget(self._store, name)

    def datasets(self) -> list[str]:
        """List the names of the datasets that have a budget."""
        with self._store.reading() as connection:
            return [record["name"] for record in self._store.budgets(connection)]

    def verify(self, heads: Mapping[str, str] | None = None) -> Verification:
        """Check every line of every chain.

        Parameters
        ----------
        heads : mapping of str to str, optional
            Heads noted earlier (`DatasetBudget.head`), by dataset. Each must still be part of
            its chain: this is how a ledger that was rewritten as a whole is found out.

        Raises
        ------
        LedgerTamperedError
            Naming the dataset and the position of the first line that does not hold.
        """
        with self._store.reading() as connection:
            self._store.check_pages(connection)
            records = self._store.budgets(connection)
            self._refuse_lost_budgets(connection, records, heads or {})
            chains = [self._verified(connection, record, heads or {}) for record in records]
        return Verification({record["name"]: chain.head for record, chain in zip(
            records, chains, strict=True)}, sum(chain.count for chain in chains))

    def _verified(
        self, connection: Connection, record: Mapping[str, Any], heads: Mapping[str, str]
    ) -> History:
        Budget.from_record(record)
        lines = self._store.charges(connection, record["name"])
        history = chain_of(record, lines)
        noted = heads.get(record["name"])
        if noted not in (None, record["genesis"], *(line.hash for line in lines)):
            raise LedgerTamperedError(
                f"The ledger does not hold: the head noted for dataset '{record['name']}' is not "
                f"among its positions 0 to {history.count}; the chain was replaced or cut."
            )
        return history

    def _refuse_lost_budgets(
        self, connection: Connection, records: list[Mapping[str, Any]], heads: Mapping[str, str]
    ) -> None:
        charged = self._store.charged_names(connection) | set(heads)
        for name in sorted(charged - {record["name"] for record in records}):
            raise LedgerTamperedError(
                f"The ledger does not hold: dataset '{name}', position 0 (the budget record): "
                "it is gone."
            )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (_reopened, self._store.ticket())

    def __repr__(self) -> str:
        return "Ledger()" if self._store.in_memory else f"Ledger({self._store.shown!r})"


class DatasetBudget:
    """A handle to the budget of one dataset; made by `Ledger.create` and `Ledger.dataset`.

    Notes
    -----
    Copying gives the same handle, pickling carries the address and the name, and two handles are
    equal if they point to the same budget. So an estimator may be cloned, sent to workers or
    forked with its `ledger`, and every fit is still charged.
    """

    def __init__(self, store: Store, name: str) -> None:
        self.name = name
        self._store = store
        self._known: tuple[str, History] | None = None  # genesis and the part checked already

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
        with self._store.writing() as connection:
            budget, history = self._read(connection, lock=True)
            refuse_other_words(
                f"budget of '{self.name}'", budget.unit, budget.relation, unit, relation
            )
            _refuse_overspending(budget, history, events)
            self._store.append(connection, history.next_lines(self.name, texts, now()))
        return Receipt(events, unit=budget.unit, relation=budget.relation)

    @property
    def total(self) -> Budget:
        """What may be spent in all."""
        with self._store.reading() as connection:
            return self._read(connection)[0]

    def statement(self) -> Statement:
        """Give budget, spent, left, number of charges and head, all of the same moment."""
        with self._store.reading() as connection:
            budget, history = self._read(connection)
        spent = epsilon_spent(history.releases(), budget.delta, budget.relation)
        return Statement(budget, spent, _left(budget, spent), history.count, history.head)

    def spent(self) -> float:
        """Epsilon of all charges together, composed tightly, at the budget's delta."""
        return self.statement().spent

    def left(self) -> float:
        """Budget minus spent: the largest pure epsilon that is sure to fit.

        A release with a delta, or a Gaussian one, may fit with a larger epsilon of its own,
        because it composes better than by addition; `charge` decides.
        """
        return self.statement().left

    def head(self) -> str:
        """Give the last hash of the chain, for an auditor to note elsewhere (`Ledger.verify`)."""
        with self._store.reading() as connection:
            return self._read(connection)[1].head

    def events(self) -> tuple[Event, ...]:
        """List what was charged, in order."""
        with self._store.reading() as connection:
            return tuple(decode_event(c) for c in self._store.charges(connection, self.name))

    def _read(self, connection: Connection, *, lock: bool = False) -> tuple[Budget, History]:
        record = self._store.budget(connection, self.name, lock=lock)
        if record is None:
            raise LedgerError(f"The budget of '{self.name}' is gone from {self._store.shown}.")
        return Budget.from_record(record), self._caught_up(connection, record)

    def _caught_up(self, connection: Connection, record: Mapping[str, Any]) -> History:
        """Read and check only the lines after those that this handle has checked before."""
        history = None
        if self._known is not None and self._known[0] == record["genesis"]:
            history = self._continued(connection, self._known[1])
        if history is None:
            history = chain_of(record, self._store.charges(connection, self.name))
        history.check_end(record)
        self._known = (record["genesis"], history)
        return history

    def _continued(self, connection: Connection, known: History) -> History | None:
        if known.count == 0:
            return None
        last, *new = self._store.charges(connection, self.name, known.count) or [None]
        if last is None or (last.position, last.hash) != (known.count, known.head):
            return None
        return known.extended(self.name, new)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DatasetBudget):
            return NotImplemented
        return (self._store.address, self.name) == (other._store.address, other.name)

    def __hash__(self) -> int:
        return hash((self._store.address, self.name))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (_reopened_dataset, (*self._store.ticket(), self.name))

    def __repr__(self) -> str:
        place = "" if self._store.in_memory else repr(self._store.shown)
        return f"Ledger({place}).dataset({self.name!r})"
