"""Receipts: a charge is paid once, in one transaction, and each draw of noise ticks off its part.

An estimator with several releases charges all of them first (`prepay`), so that either the whole
fit is paid for or nothing was drawn. The receipt then stands in for the ledger: a mechanism calls
``ledger.charge(event)`` whatever it was given.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import NoReturn, Protocol, Self, runtime_checkable

from sfumato.exceptions import InvalidInputError, LedgerError, UnsupportedModeError
from sfumato.privacy.events import Event, flatten
from sfumato.privacy.guarantee import Relation, Unit


@runtime_checkable
class Chargeable(Protocol):
    """What an estimator or a mechanism takes as `ledger`: a dataset's budget, or a receipt."""

    def charge(
        self, *events: Event, unit: str | None = None, relation: str | None = None
    ) -> Receipt:
        """Pay for `events`, or raise before anything is drawn."""


class Receipt:
    """Proof that events were charged; good for one draw each.

    Parameters
    ----------
    events : sequence of Event
        What was paid for, as charged.
    unit, relation : str, optional
        The unit and relation they were charged under; None where they were not stated.
    charges : tuple of str
        Marks of the ledger's charges.

    Notes
    -----
    A receipt is spent by drawing, so a copy of it would pay twice: copying gives the same object,
    and pickling it or using it in a forked child is refused. A repeated event pays for each of
    its repetitions, one by one or together.

    Examples
    --------
    >>> from sfumato.ledger.receipt import prepay
    >>> from sfumato.privacy.events import PureEvent
    >>> receipt = prepay(None, PureEvent(0.5), PureEvent(0.5), unit="record",
    ...                  relation="replace_one")
    >>> receipt.charge(PureEvent(0.5)).events
    (PureEvent(epsilon=0.5, law='unnamed'),)
    >>> len(receipt.unused())
    1
    """

    def __init__(
        self,
        events: Sequence[Event],
        *,
        unit: str | None = None,
        relation: str | None = None,
        charges: tuple[str, ...] = (),
    ) -> None:
        self.events = tuple(events)
        self.charges = charges
        self.unit = None if unit is None else Unit(unit)
        self.relation = None if relation is None else Relation(relation)
        self.conditions: tuple[str, ...] = ()
        self._unused = flatten(self.events)
        self._process = os.getpid()
        self._lock = threading.Lock()

    def charge(
        self, *events: Event, unit: str | None = None, relation: str | None = None
    ) -> Receipt:
        """Tick `events` off the paid ones; the receipt returned covers just these."""
        # [L2] only what was charged can be drawn
        if not self.is_of_this_process:
            raise LedgerError(
                "This receipt was made in another process and cannot be used in this one, "
                "because one payment could then cover two draws. Charge the ledger in "
                "the process that draws the noise."
            )
        check_same_unit_and_adjacency("receipt", self.unit, self.relation, unit, relation)
        with self._lock:
            left = dict(self._unused)
            for event, times in flatten(events).items():
                left[event] = left.get(event, 0) - times
                if left[event] < 0:
                    raise LedgerError(
                        f"The receipt does not cover {times} x {event!r}: "
                        f"{self._unused.get(event, 0)} left unused. Every draw must be charged "
                        "before it is made; charge all releases of a fit together."
                    )
            self._unused = left
        return Receipt(events, unit=self.unit, relation=self.relation, charges=self.charges)

    def only_if(self, *conditions: str) -> None:
        """Note under which conditions a draw was made; a guarantee of the draws lists them."""
        self.conditions = tuple(dict.fromkeys((*self.conditions, *conditions)))

    def unused(self) -> tuple[Event, ...]:
        """List the paid events whose draw has not been made."""
        return tuple(event for event, times in self._unused.items() for _ in range(times))

    @property
    def is_untouched(self) -> bool:
        """Whether no draw at all has been made on it."""
        return self._unused == flatten(self.events)

    @property
    def is_of_this_process(self) -> bool:
        """Whether it can be drawn on here."""
        return os.getpid() == self._process

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise LedgerError(
            "A receipt cannot be pickled: a copy would pay twice for one charge. Pass the "
            "dataset's budget (Ledger.dataset) to the worker instead."
        )

    def __repr__(self) -> str:
        return f"Receipt({len(self.events)} events, {sum(self._unused.values())} draws unused)"


def prepay(
    ledger: Chargeable | None, *events: Event, unit: str | None = None, relation: str | None = None
) -> Receipt:
    """Charge `events` in one transaction and return the receipt that their releases draw on."""
    if ledger is None:
        return Receipt(events, unit=unit, relation=relation)
    if not isinstance(ledger, Chargeable):
        raise InvalidInputError(
            "'ledger' must be a dataset's budget, as in Ledger('budget.db').dataset('patients'), "
            f"a receipt, or None. Got {type(ledger).__name__} instead."
        )
    return ledger.charge(*events, unit=unit, relation=relation)


def check_same_unit_and_adjacency(
    holder: str,
    unit: str | None,
    relation: str | None,
    asked_unit: str | None,
    asked_relation: str | None,
) -> None:
    """Refuse a charge for another unit or relation than the `holder` counts in."""
    words = (("unit", unit, asked_unit), ("relation", relation, asked_relation))
    for name, kept, asked in words:
        if kept is not None and asked is not None and str(kept) != str(asked):
            raise UnsupportedModeError(
                f"The {holder} counts {name} '{kept}', the release is for {name} '{asked}', and "
                f"they do not compose. Create a budget for it, `sfumato budget create ... --{name} "
                f"{asked}`, or release with {name}='{kept}', which is another promise."
            )
