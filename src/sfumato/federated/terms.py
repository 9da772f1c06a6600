"""What a party agreed to: a request on other terms is refused before any row is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sfumato.exceptions import FederationError
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds
from sfumato.tables.schema import TableBounds


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

    def require(
        self,
        party: str,
        *,
        bounds: Bounds | TableBounds | None,
        unit: str,
        relation: str,
        epsilon: float,
        delta: float = 0.0,
        entry_bound: float | None = None,
    ) -> None:
        """Raise unless a task keeps the terms.

        Parameters
        ----------
        party : str
            Whose terms they are, for the message.
        bounds : Bounds, TableBounds or None
            Public bounds of the task.
        unit, relation : str
            What its releases would protect.
        epsilon, delta : float
            What they would cost.
        entry_bound : float, optional
            The largest protected change of an entry, if not any.
        """
        agreed = (self.bounds, self.table)
        for holds, why in (
            (
                bounds is not None and labels_of(bounds) != PUBLIC_LABELS,
                "the labels must be listed, not taken from the data.",
            ),
            (
                agreed == (None, None) or bounds in agreed,
                "the task's bounds are not those that were agreed on.",
            ),
            (
                epsilon <= self.max_epsilon,
                f"the task costs epsilon {epsilon:g}, given is at most {self.max_epsilon:g}.",
            ),
            (
                delta <= self.max_delta,
                f"the task asks for delta {delta:g}, given is at most {self.max_delta:g}.",
            ),
            (self.unit in (None, unit), f"the unit must be '{self.unit}'."),
            (self.relation in (None, relation), f"the relation must be '{self.relation}'."),
            (
                entry_bound is None
                or (self.entry_bound is not None and entry_bound >= self.entry_bound),
                "the task would protect smaller changes of an entry than were agreed on.",
            ),
        ):
            if not holds:
                raise FederationError(f"{party} refuses: {why}")


def labels_of(bounds: Bounds | TableBounds) -> Any:
    """Return the labels that bounds list, the word "public", or None without any."""
    if isinstance(bounds, Bounds):
        return bounds.labels
    return None if bounds.target is None else bounds.target.labels
