"""Parts of a report: ledger, marginals of fabricated rows, who signs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.chain import decode_event
from sfumato.ledger.dataset_budget import DatasetBudget
from sfumato.privacy.composition import epsilon_spent
from sfumato.privacy.events import flatten
from sfumato.privacy.guarantee import Guarantee, Unit
from sfumato.report.words import event_rows


@dataclass(frozen=True)
class LedgerExtract:
    """What was released when, as the ledger has it; `lines` are time, kind and parameters.

    Parameters
    ----------
    name : str
        The dataset.
    epsilon : float
        Its budget.
    delta : float
        The delta of its budget.
    unit : str
        What one change may touch.
    relation : str
        Its neighbours.
    spent : float
        Epsilon of all charges together.
    left : float
        Budget minus spent.
    head : str
        The last hash of the chain.
    lines : tuple of tuple of str
        Time, kind and parameters of each charge.
    releases : tuple of mapping
        Time, person, purpose, epsilon alone and mark of each charge.
    attacker : mapping of str to float, optional
        What the best attacker can do against all releases together, by the noise that was drawn.
    """

    name: str
    epsilon: float
    delta: float
    unit: str
    relation: str
    spent: float
    left: float
    head: str
    lines: tuple[tuple[str, str, str], ...]
    releases: tuple[Mapping[str, Any], ...] = ()
    attacker: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, budget: DatasetBudget) -> LedgerExtract:
        """Read the budget of a dataset, its chain checked, and every charge.

        Parameters
        ----------
        budget : DatasetBudget
            Whose charges are read.
        """
        statement = budget.statement().to_dict()
        lines = []
        for charge in budget.lines():
            (row,) = event_rows(Guarantee(epsilon=0.0, events=(decode_event(charge),)))
            times = "" if row[2] == "1" else f", {row[2]} times"
            lines.append((charge.time.partition(" ")[0], row[0], row[1] + times))
        kept = {name: value for name, value in statement.items() if name != "charges"}
        words = {name: str(kept[name]) for name in ("unit", "relation")}
        told = ("time", "by", "purpose", "epsilon", "mark")
        releases = tuple({n: getattr(past, n) for n in told} for past in budget.history())
        total, events, odds = budget.total, budget.events(), None
        if events:  # against all charges together; entries are of one bound
            epsilon = epsilon_spent(events, total.delta, total.relation)
            bound = getattr(next(iter(flatten(events))), "entry_bound", None) or 1.0
            about: dict[str, Any] = {"entry_bound": bound if total.unit is Unit.ENTRY else None}
            about |= {"unit": total.unit, "relation": total.relation, "events": events}
            odds = Guarantee(epsilon, total.delta, **about).attacker.to_dict()
        return cls(**{**kept, **words}, lines=tuple(lines), releases=releases, attacker=odds)


@dataclass(frozen=True)
class Marginal:
    """Shares of the values of one column, among real rows and among fabricated ones.

    Parameters
    ----------
    column : str
        The column.
    labels : tuple of str
        Its values, or their ranges.
    real : tuple of float
        Their shares among real rows.
    fabricated : tuple of float
        Their shares among fabricated rows.
    """

    column: str
    labels: tuple[str, ...]
    real: tuple[float, ...]
    fabricated: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.labels) == len(self.real) == len(self.fabricated) > 0:
            raise InvalidInputError(
                f"The marginal of {self.column!r} needs one share for each of its labels."
            )

    @property
    def distance(self) -> float:
        """Total variation distance of the two."""
        pairs = zip(self.real, self.fabricated, strict=True)
        return sum(abs(a - b) for a, b in pairs) / 2

    def to_dict(self) -> dict[str, Any]:
        """Return the shares as plain JSON values.

        Returns
        -------
        dict
            Plain values.
        """
        return {**asdict(self), "distance": self.distance}


@dataclass(frozen=True)
class SignatureBlock:
    """Who answers for the data, as the signature block names them.

    Parameters
    ----------
    controller : str, optional
        Who decides on the data.
    prepared_by : str, optional
        Who made the report.
    confirmed_by : str, optional
        Who confirmed what is declared public.
    retention : str, optional
        How long releases are kept.
    n_records : int, optional
        The number of records, where it is public.
    """

    controller: str | None = None
    prepared_by: str | None = None
    confirmed_by: str | None = None
    retention: str | None = None
    n_records: int | None = None
