"""The durable ledger: one budget per dataset, charged before any noise is drawn.

A `Ledger` is a place (a file, a database) and makes handles to the budgets in it; the handles, see
`sfumato.ledger.dataset_budget`, are what estimators take and charge.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from sfumato.core.databases import Database, Transaction
from sfumato.exceptions import InvalidInputError, LedgerTamperedError
from sfumato.ledger import store as ledger_store
from sfumato.ledger.chain import Budget, History, check_chain, check_checkpoint, now
from sfumato.ledger.dataset_budget import WORDS, DatasetBudget
from sfumato.privacy.guarantee import Relation, Unit


@dataclass(frozen=True)
class Verification:
    """What `Ledger.verify` has checked: the `heads` by dataset, and the number of charges."""

    heads: Mapping[str, str]
    charges: int

    def __str__(self) -> str:
        datasets = f"{len(self.heads)} dataset{'' if len(self.heads) == 1 else 's'}"
        lines = f"{self.charges} line{'' if self.charges == 1 else 's'}"
        return f"The chain is intact: {datasets}, {lines}."


class Ledger:
    """A durable, append-only record of what may be spent on each data set, and what was.

    Parameters
    ----------
    path_or_url : str or Path, optional
        A file (SQLite), or a URL such as "postgresql://user@host/database". None keeps
        the ledger in the memory of this process, for experiments.
    timeout : float, default=60.0
        Seconds to wait for another process that is writing.
    keep_open : bool, default=False
        Keep connections to a server for the next transactions, for a process that makes many. A
        file is closed after each in any case.

    Notes
    -----
    Nothing is opened until a method needs it, and nothing else stays open. What is promised, why,
    and what is not: see the proof sheet ``docs/guarantees/ledger.md``.

    Examples
    --------
    >>> from sfumato.ledger.ledger import Ledger
    >>> from sfumato.privacy.events import PureEvent
    >>> ledger = Ledger()
    >>> patients = ledger.create("patients", epsilon=1.0, delta=0.0)
    >>> for epsilon in (0.1, 0.9):
    ...     _ = patients.charge(PureEvent(epsilon))
    >>> patients.spent(), patients.left()
    (1.0, 0.0)
    >>> print(ledger.verify())
    The chain is intact: 1 dataset, 2 lines.
    """

    def __init__(
        self,
        path_or_url: str | os.PathLike[str] | None = None,
        *,
        timeout: float = 60.0,
        keep_open: bool = False,
    ) -> None:
        if not 0 <= timeout < math.inf:
            raise InvalidInputError(f"'timeout' must be finite and >= 0. Got {timeout} instead.")
        keeps = keep_open and "://" in os.fspath(path_or_url or "")  # a WAL would miss in copies
        self._database = Database(path_or_url, timeout, WORDS, keep_open=keeps)
        self._handles: dict[str, DatasetBudget] = {}  # they remember the lines that they have seen

    def create(
        self,
        name: str,
        *,
        epsilon: float,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
    ) -> DatasetBudget:
        """Set the budget of a dataset, once and for all.

        Parameters
        ----------
        name : str
            The dataset; a new name.
        epsilon, delta : float, default=1e-6
            The most that all releases together may cost. A delta of 0 admits pure releases only.
        unit : {"record", "entry", "person"}, default="record"
            What one change may touch.
        relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
            Which data sets count as neighbours.

        Returns
        -------
        DatasetBudget
            The budget, as estimators take it for `ledger`.
        """
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise InvalidInputError("'name' must be printable text, not empty.")
        try:
            epsilon, delta = float(epsilon), float(delta)
            words = Unit(unit), Relation(relation)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                "'epsilon' and 'delta' must be numbers, 'unit' one of 'record', 'entry', "
                "'person', 'relation' one of 'replace_one', 'add_or_remove_one': "
                f"{error}."
            ) from None
        if not 0 < epsilon < math.inf:
            raise InvalidInputError(f"'epsilon' must be finite and positive. Got {epsilon}.")
        if not 0 <= delta < 1:
            raise InvalidInputError(f"'delta' must lie in [0, 1). Got {delta} instead.")
        record = Budget(name, epsilon, delta, *words).record(now())

        def add(ledger: Transaction) -> None:
            ledger_store.create_tables(ledger)
            if ledger_store.budget(ledger, name, lock=True) is not None:
                raise InvalidInputError(
                    f"'name': the ledger has a budget for '{name}' already, and a budget is never "
                    "changed. Use it with Ledger.dataset, or give the new one another name."
                )
            ledger_store.add_budget(ledger, record)

        self._database.write(add, create=True)
        self._handles[name] = DatasetBudget(self._database, name, History.before_any(record))
        return self._handles[name]

    def dataset(self, name: str) -> DatasetBudget:
        """Return the budget of a dataset, as estimators take it for `ledger`.

        Parameters
        ----------
        name : str
            The dataset.

        Returns
        -------
        DatasetBudget
            A handle, always the same one of this `Ledger`; copies of it charge the same budget.
        """
        known = self.datasets()
        if name not in known:
            listed = ", ".join(repr(other) for other in known) or "none"
            raise InvalidInputError(
                f"'name': the ledger has no budget for {name!r} (it has: {listed}). "
                "Ledger.create or `sfumato budget create` makes one."
            )
        handle = self._handles.get(name) or DatasetBudget(self._database, name)
        return self._handles.setdefault(name, handle.refresh())

    def datasets(self) -> list[str]:
        """List the names of the datasets that have a budget.

        Returns
        -------
        list of str
            Their names, sorted.
        """
        return [record["name"] for record in self._database.read(ledger_store.budgets)]

    def verify(self, heads: Mapping[str, str] | None = None) -> Verification:
        """Check every line of every chain.

        Parameters
        ----------
        heads : mapping of str to str, optional
            Heads noted earlier (`DatasetBudget.head`), by dataset. Each must still be part of
            its chain: this is how a ledger that was rewritten as a whole is found out.

        Returns
        -------
        Verification
            The number of lines and the head of every chain.

        Raises
        ------
        LedgerTamperedError
            Naming the dataset and the position of the first line that fails the check.
        """

        def check(ledger: Transaction) -> Verification:
            ledger_store.check_pages(ledger)
            records = ledger_store.budgets(ledger)
            noted = heads or {}
            charged = ledger_store.charged_names(ledger) | set(noted)
            for name in sorted(charged - {record["name"] for record in records}):
                raise LedgerTamperedError(
                    f"Ledger integrity check failed: dataset '{name}', position 0 (the budget "
                    "record): it is missing."
                )
            chains = [_verify_chain(ledger, each, noted.get(each["name"])) for each in records]
            return Verification({each["name"]: each["head"] for each in records}, sum(chains))

        return self._database.read(check)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (_reopened, self._database.connection_args())

    def __repr__(self) -> str:
        return "Ledger()" if self._database.in_memory else f"Ledger({self._database.shown!r})"


def _reopened(address: str, timeout: float) -> Ledger:
    return Ledger(address, timeout=timeout)


def _verify_chain(ledger: Transaction, record: Mapping[str, Any], noted: str | None) -> int:
    """Check one chain, its checkpoint, and that it holds a head noted earlier; count its lines."""
    Budget.from_record(record)
    name = record["name"]
    lines = ledger_store.charges(ledger, name)
    check_chain(record, lines)
    kept = ledger_store.checkpoint(ledger, name)
    if kept is not None and 0 < kept[0] <= len(lines):
        check_checkpoint(record, lines, *kept)
    elif kept is not None:
        raise LedgerTamperedError(
            f"Ledger integrity check failed: dataset '{name}', position {kept[0]} "
            f"(a checkpoint): the chain has the positions 1 to {len(lines)}."
        )
    if noted not in (None, record["genesis"], *(line.hash for line in lines)):
        raise LedgerTamperedError(
            f"Ledger integrity check failed: the head recorded for dataset '{name}' is not "
            f"among its positions 0 to {len(lines)}; the chain was replaced or cut."
        )
    return len(lines)
