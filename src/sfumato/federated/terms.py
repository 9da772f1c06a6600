"""What a party agreed to: a request on other terms is refused before any row is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sfumato.accounting.composition import epsilon_spent
from sfumato.events import Event
from sfumato.exceptions import FederationError
from sfumato.guarantee import Relation, Unit
from sfumato.private import PrivateEstimator
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds
from sfumato.tables.schema import TableBounds

__all__ = ["Terms", "labels_of"]


@dataclass(frozen=True)
class Terms:
    """What a party gives at most, and to whom the words unit and relation are bound.

    Parameters
    ----------
    bounds : Bounds, optional
        The public bounds on which the parties agreed; None takes those of the task. Either way
        they must list the labels, at every unit: no label set is ever read off a party's data.
    max_epsilon : float, default=16.0
        Largest epsilon of one task. Infinity is refused unless it stands here.
    max_delta : float, default=1e-3
        Largest delta of one task.
    unit, relation : str, optional
        The only ones accepted; None leaves them to the ledger.
    entry_bound : float, optional
        With unit "entry": the smallest change that must be protected. None asks for any change
        inside the box.
    colluding : int, default=1
        Secure sums must bear so many parties that work with the coordinator, at least: the noise
        of all others is then enough.
    table : TableBounds, optional
        The public facts of a table on which the parties agreed; `bounds` are those of its rows.
    """

    bounds: Bounds | None = None
    max_epsilon: float = 16.0
    max_delta: float = 1e-3
    unit: str | None = None
    relation: str | None = None
    entry_bound: float | None = None
    colluding: int = 1
    table: TableBounds | None = None

    def require(self, estimator: PrivateEstimator, party: str) -> None:
        """Raise unless a task's estimator keeps the terms.

        Parameters
        ----------
        estimator : PrivateEstimator
            The estimator of a request.
        party : str
            Whose terms they are, for the message.
        """
        for holds, why in self._checks(estimator):
            if not holds:
                raise FederationError(f"{party} refuses: {why}")

    def require_sums(
        self, events: tuple[Event, ...], bounds: Any, unit: Unit, relation: Relation, party: str
    ) -> None:
        """Raise unless the sums of a task keep the terms.

        Parameters
        ----------
        events : tuple of Event
            All that the task would release.
        bounds : Bounds
            Public bounds of the rows.
        unit, relation : str
            What the releases would protect.
        party : str
            Whose terms they are, for the message.
        """
        cost = epsilon_spent(events, min(self.max_delta, 0.5), relation, enough=self.max_epsilon)
        checks = [
            (
                isinstance(bounds, Bounds | TableBounds) and labels_of(bounds) != PUBLIC_LABELS,
                "the labels must be listed, not taken from the data.",
            ),
            (
                bounds == (self.table if isinstance(bounds, TableBounds) else self.bounds)
                or (self.bounds is None and self.table is None),
                "the task's bounds are not those that were agreed on.",
            ),
            (
                cost <= self.max_epsilon,
                f"the task costs epsilon {cost:g} at delta {self.max_delta:g}, given is at most "
                f"{self.max_epsilon:g}.",
            ),
            (unit is Unit.RECORD, "sums among parties protect records."),
            (
                self.unit is None or unit == Unit(self.unit),
                f"the unit must be '{self.unit}'.",
            ),
            (
                self.relation is None or relation == Relation(self.relation),
                f"the relation must be '{self.relation}'.",
            ),
        ]
        for holds, why in checks:
            if not holds:
                raise FederationError(f"{party} refuses: {why}")

    def _checks(self, asked: Any) -> list[tuple[bool, str]]:
        protected = getattr(asked, "entry_bound", None)
        # A party that agreed to bounds without labels has agreed to nothing about them.
        labels = None if asked.bounds is None else asked.array_bounds.labels
        return [
            (
                labels is not None and labels != PUBLIC_LABELS,
                "the labels must be listed, not taken from the data.",
            ),
            (
                self.bounds is None or asked.array_bounds == self.bounds,
                "the task's bounds are not those that were agreed on.",
            ),
            (
                asked.epsilon <= self.max_epsilon and not math.isnan(asked.epsilon),
                f"the task asks for epsilon {asked.epsilon:g}, given is at most "
                f"{self.max_epsilon:g}.",
            ),
            (
                asked.delta <= self.max_delta,
                f"the task asks for delta {asked.delta:g}, given is at most {self.max_delta:g}.",
            ),
            (
                self.unit is None or Unit(asked.unit) == Unit(self.unit),
                f"the unit must be '{self.unit}'.",
            ),
            (
                self.relation is None or Relation(asked.relation) == Relation(self.relation),
                f"the relation must be '{self.relation}'.",
            ),
            (
                protected is None
                or (self.entry_bound is not None and protected >= self.entry_bound),
                "the task would protect smaller changes of an entry than were agreed on.",
            ),
        ]


def labels_of(bounds: Bounds | TableBounds) -> Any:
    """Give the label set that bounds declare, None without one.

    bounds: Of rows or of a table.
    Returns (sequence, "public" or None): The labels.
    """
    if isinstance(bounds, Bounds):
        return bounds.labels
    return None if bounds.target is None else bounds.target.labels
