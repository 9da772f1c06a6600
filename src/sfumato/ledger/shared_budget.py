"""One budget that several analysts spend, each within a quota, under full adaptivity.

Total and quotas are privacy filters (`sfumato.privacy.filters`). A charge checks both, the
ledger's own rule and the dates in one transaction, so analysts who work together cannot spend more
than the total. Proof: docs/guarantees/filters.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from sfumato.core.databases import Transaction
from sfumato.exceptions import BudgetExceededError, InvalidInputError, LedgerTamperedError
from sfumato.ledger import store as ledger_store
from sfumato.ledger.chain import Charge, decode_event
from sfumato.ledger.dataset_budget import DatasetBudget, Statement
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.receipt import Receipt
from sfumato.privacy.events import Event
from sfumato.privacy.filters import Cost, PrivacyFilter

TOTAL = ""  # the holder of the whole budget
_TABLE = """CREATE TABLE IF NOT EXISTS sfumato_filters (
    budget TEXT NOT NULL, holder TEXT NOT NULL, kind TEXT NOT NULL, epsilon TEXT NOT NULL,
    delta TEXT NOT NULL, renyi_order TEXT, until TEXT, position INTEGER NOT NULL,
    amount TEXT NOT NULL, failure TEXT NOT NULL, PRIMARY KEY (budget, holder))
"""
_FIELDS = "holder, kind, epsilon, delta, renyi_order, until, position, amount, failure"


@dataclass(frozen=True)
class QuotaBalance:
    """What one holder may spend, and has spent up to a line of the ledger."""

    holder: str
    filter: PrivacyFilter
    until: str | None
    position: int
    cost: Cost

    @property
    def spent(self) -> float:
        """Epsilon spent, at the budget's delta."""
        return self.filter.spent(self.cost)

    @property
    def left(self) -> float:
        """Epsilon of the largest single release that still fits."""
        return self.filter.left(self.cost)

    @property
    def has_ended(self) -> bool:
        """Whether the last day is over."""
        return self.until is not None and datetime.now(UTC) > _moment(self.until)

    def to_dict(self) -> dict[str, Any]:
        """Return the holding as plain JSON values."""
        return {
            "holder": self.holder or None,
            "kind": self.filter.kind,
            "epsilon": self.filter.epsilon,
            "delta": self.filter.delta,
            "until": self.until,
            "spent": self.spent,
            "left": self.left,
            "share": self.filter.share(self.cost),
        }

    def after(self, lines: Sequence[Charge]) -> QuotaBalance:
        """Add the lines that follow, those of this holder."""
        cost = self.cost
        for line in lines:
            if self.holder in (TOTAL, line.note.by):
                cost = cost.plus(self.filter.cost([decode_event(line)]))
        last = lines[-1].position if lines else self.position
        return replace(self, position=last, cost=cost)


@dataclass(frozen=True)
class Payer:
    """A shared budget as estimators take it for `ledger`: charges name who asked and what for."""

    budget: SharedBudget
    by: str
    purpose: str
    reference: str | None = None

    def charge(
        self, *events: Event, unit: str | None = None, relation: str | None = None
    ) -> Receipt:
        """Pay for `events` in one transaction, or refuse them all."""
        words: Any = {"by": self.by, "purpose": self.purpose, "reference": self.reference}
        return self.budget.charge(*events, unit=unit, relation=relation, **words)

    def statement(self) -> Statement:
        """Return that of the ledger."""
        return self.budget.dataset.statement()


class SharedBudget:
    """One budget, quotas for analysts, and charges that keep both.

    Parameters
    ----------
    ledger : Ledger
        Where the budget is kept.
    name : str
        The budget; made by `create`.

    Examples
    --------
    >>> from sfumato import Ledger
    >>> from sfumato.ledger.shared_budget import SharedBudget
    >>> from sfumato.privacy.events import GaussianEvent
    >>> patients = SharedBudget.create(Ledger(), "patients", epsilon=3.0, delta=1e-6)
    >>> patients.set_quota("ada", epsilon=1.0)
    >>> _ = patients.charge(GaussianEvent(10.0), by="ada", purpose="triage")
    >>> [round(one.spent, 2) for one in patients.holdings()]
    [0.4, 0.4]
    """

    def __init__(self, ledger: Ledger, name: str) -> None:
        self.name = name
        self.dataset: DatasetBudget = ledger.dataset(name)
        self._database = self.dataset._database

    @classmethod
    def create(
        cls,
        ledger: Ledger,
        name: str,
        *,
        epsilon: float,
        delta: float = 1e-6,
        unit: str = "record",
        relation: str = "replace_one",
        kind: str | None = None,
    ) -> SharedBudget:
        """Set a budget and the kind of its filter, once and for all."""
        usual = PrivacyFilter.default(epsilon, delta)
        rule = usual if kind is None else PrivacyFilter(kind, float(epsilon), float(delta))
        ledger.create(name, epsilon=epsilon, delta=delta, unit=unit, relation=relation)
        budget = cls(ledger, name)
        budget._keep_new(QuotaBalance(TOTAL, rule, None, 0, Cost()))
        return budget

    def set_quota(self, analyst: str, *, epsilon: float, until: str | None = None) -> None:
        """Set what one analyst may spend, at the budget's delta; what was spent stays counted."""
        if not analyst or not analyst.isprintable():
            raise InvalidInputError("'analyst' must be a printable name.")
        if until is not None:
            _moment(until)
        total = self._database.read(lambda ledger: self._holding(ledger, TOTAL))
        rule = PrivacyFilter(total.filter.kind, float(epsilon), total.filter.delta)
        self._keep_new(QuotaBalance(analyst, rule, until, 0, Cost()))

    def charge(
        self,
        *events: Event,
        by: str,
        purpose: str,
        reference: str | None = None,
        unit: str | None = None,
        relation: str | None = None,
    ) -> Receipt:
        """Pay for `events` from the total and from the quota of `by`, or refuse them all."""

        def both(ledger: Transaction, first: int) -> None:
            # [F5] total and quota, with the budget's row locked by the charge itself
            for holder in (TOTAL, by):
                held = self._holding(ledger, holder)
                asked = held.cost.plus(held.filter.cost(events))
                _refuse(self.name, held, asked)
                written = replace(held, position=first - 1 + len(events), cost=asked)
                self._write(ledger, written)

        words: Any = {"purpose": purpose, "by": by, "reference": reference}
        return self.dataset.charge(*events, unit=unit, relation=relation, also=both, **words)

    def payer(self, by: str, purpose: str, reference: str | None = None) -> Payer:
        """Return the budget as estimators take it for `ledger`."""
        return Payer(self, by, purpose, reference)

    def holdings(self) -> list[QuotaBalance]:
        """Return what is spent and left: the total first, then every analyst by name."""

        def read(ledger: Transaction) -> list[QuotaBalance]:
            stored = self._stored(ledger)
            if not stored:
                return []
            first = 1 + min(held.position for held in stored)
            lines = ledger_store.charges(ledger, self.name, first)
            return [
                held.after([line for line in lines if line.position > held.position])
                for held in sorted(stored, key=lambda held: held.holder)
            ]

        return self._database.read(read)

    def is_charged(self, reference: str) -> bool:
        """Whether a charge with this reference was made."""
        return any(line.note.reference == reference for line in self.dataset.lines())

    def verify(self) -> None:
        """Add up every line of the chain anew and compare with what total and quotas say."""

        def check(ledger: Transaction) -> None:
            lines = ledger_store.charges(ledger, self.name)
            for held in self._stored(ledger):
                counted = replace(held, position=0, cost=Cost()).after(lines[: held.position])
                # A charge may have been dearer when it was made: Laplace noise was, up to 0.2.0.
                is_short = counted.cost.amount > held.cost.amount
                if is_short or counted.cost.failure > held.cost.failure:
                    raise LedgerTamperedError(
                        f"Ledger integrity check failed: budget '{self.name}', what "
                        f"{held.holder or 'the total'} has spent is less than its charges cost."
                    )

        self.dataset.lines()  # the chain itself
        self._database.read(check)

    def _holding(self, ledger: Transaction, holder: str) -> QuotaBalance:
        """Read a holding and add the lines that were written since, by whomever."""
        found = self._stored(ledger, holder)
        if not found:
            raise BudgetExceededError(
                f"'{holder}' has no quota of the budget '{self.name}'. Nothing was charged."
                if holder
                else f"The budget '{self.name}' is not shared; SharedBudget.create makes one.",
                spent=0.0,
                asked=0.0,
                left=0.0,
            )
        held = found[0]
        return held.after(ledger_store.charges(ledger, self.name, held.position + 1))

    def _stored(self, ledger: Transaction, holder: str | None = None) -> list[QuotaBalance]:
        where, values = "budget = ?", [self.name]
        if holder is not None:
            where, values = f"{where} AND holder = ?", [self.name, holder]
        rows = ledger.run(f"SELECT {_FIELDS} FROM sfumato_filters WHERE {where}", values)  # noqa: S608
        stored = []
        for who, kind, epsilon, delta, order, until, position, amount, failure in rows:
            a = None if order is None else float(order)
            rule = PrivacyFilter(kind, float(epsilon), float(delta), a)
            cost = Cost(Fraction(amount), Fraction(failure))
            stored.append(QuotaBalance(who, rule, until, position, cost))
        return stored

    def _keep_new(self, held: QuotaBalance) -> None:
        def keep(ledger: Transaction) -> None:
            if ledger.is_server:
                ledger.run("SELECT pg_advisory_xact_lock(7315821)")
            ledger.run(_TABLE)
            ledger_store.budget(ledger, self.name, lock=True)
            self._write(ledger, held.after(ledger_store.charges(ledger, self.name)))

        self._database.write(keep)

    def _write(self, ledger: Transaction, held: QuotaBalance) -> None:
        key, rule = (self.name, held.holder), held.filter
        order = None if rule.order is None else repr(rule.order)
        ledger.run("DELETE FROM sfumato_filters WHERE budget = ? AND holder = ?", key)
        ledger.run(
            f"INSERT INTO sfumato_filters (budget, {_FIELDS}) "  # noqa: S608 - names of columns
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(self.name, held.holder, rule.kind, repr(rule.epsilon), repr(rule.delta), order),
                *(held.until, held.position, str(held.cost.amount), str(held.cost.failure)),
            ),
        )


def _refuse(name: str, held: QuotaBalance, asked: Cost) -> None:
    if held.has_ended:
        raise BudgetExceededError(
            f"The quota of '{held.holder}' of the budget '{name}' ended on {held.until}. Nothing "
            "was charged.",
            spent=held.spent,
            asked=0.0,
            left=0.0,
        )
    if held.filter.admits(asked):
        return
    whose = f"The quota of '{held.holder}' of" if held.holder else "The shared budget"
    spent, left = held.spent, held.left
    raise BudgetExceededError(
        f"{whose} '{name}' refuses this charge: spent {spent:.6g} of epsilon "
        f"{held.filter.epsilon:.6g} at delta {held.filter.delta:g}, a single release of at most "
        f"{left:.6g} still fits. Nothing was charged and nothing drawn.",
        spent=spent,
        asked=held.filter.spent(Cost(asked.amount - held.cost.amount)),
        left=left,
    )


def _moment(text: str) -> datetime:
    """Read a date (its last moment) or a time."""
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"'until' must be a date such as 2027-01-31. Got {text!r}."
        ) from None
    if len(text) == 10:
        moment = moment.replace(hour=23, minute=59, second=59, microsecond=999999)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
