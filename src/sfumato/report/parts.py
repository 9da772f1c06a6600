"""Parts of a report: ledger, marginals of fabricated rows, an audit, parties, who signs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.chain import decode_event
from sfumato.ledger.dataset_budget import DatasetBudget
from sfumato.privacy.composition import epsilon_spent
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
        releases = tuple(
            {
                "time": past.time,
                "by": past.by,
                "purpose": past.purpose,
                "epsilon": past.epsilon,
                "mark": past.mark,
            }
            for past in budget.history()
        )
        total, events, odds = budget.total, budget.events(), None
        if events and total.unit is not Unit.ENTRY:  # against all charges together
            epsilon = epsilon_spent(events, total.delta, total.relation)
            about: dict[str, Any] = {
                "unit": total.unit,
                "relation": total.relation,
                "events": events,
            }
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
class Roc:
    """True against false positive rates of one attack."""

    name: str
    false_positive_rate: tuple[float, ...]
    true_positive_rate: tuple[float, ...]


@dataclass(frozen=True)
class Histogram:
    """Counts of one score, among members and non-members."""

    name: str
    edges: tuple[float, ...]
    members: tuple[float, ...]
    non_members: tuple[float, ...]


@dataclass(frozen=True)
class Audit:
    """What an audit has measured; made from its JSON by `from_dict`.

    Parameters
    ----------
    title : str
        What was attacked.
    verdict : str
        The finding in a sentence.
    consistent : bool or None
        False where a promise was refuted, None where none was tried.
    figures : mapping of str to float
        Figures by name.
    rocs : tuple of Roc
        Curves of attacks.
    histograms : tuple of Histogram
        Scores of members and others.
    notes : tuple of str
        What to bear in mind.
    """

    title: str
    verdict: str
    consistent: bool | None
    figures: Mapping[str, float]
    rocs: tuple[Roc, ...]
    histograms: tuple[Histogram, ...]
    notes: tuple[str, ...]

    @classmethod
    def from_dict(cls, record: Any) -> Audit:
        """Read the JSON of an audit; keys that a report does not show are passed over.

        Parameters
        ----------
        record : mapping
            What `AuditReport.to_dict` gave.
        """
        try:
            rocs, histograms = [], []
            for each in record.get("rocs", ()):
                false, true = (
                    _numbers(each[f"{k}_positive_rate"], 0, 1) for k in ("false", "true")
                )
                if len(false) != len(true) or len(false) < 2:
                    raise ValueError("rates of different length")
                rocs.append(Roc(str(each["name"]), false, true))
            for each in record.get("histograms", ()):
                edges = _numbers(each["edges"], -math.inf, math.inf)
                counts = [_numbers(each[k], 0, math.inf) for k in ("members", "non_members")]
                if not len(edges) - 1 == len(counts[0]) == len(counts[1]) > 0:
                    raise ValueError("counts and edges do not fit")
                histograms.append(Histogram(str(each["name"]), edges, *counts))
            return cls(
                title=str(record["title"]),
                verdict=str(record["verdict"]),
                consistent=record.get("consistent"),
                figures={str(k): float(v) for k, v in record.get("figures", {}).items()},
                rocs=tuple(rocs),
                histograms=tuple(histograms),
                notes=tuple(str(note) for note in record.get("notes", ())),
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InvalidInputError(
                "The audit must be the JSON that `sfumato audit --output` writes: an object with "
                "'title' and 'verdict'."
            ) from None

    def to_dict(self) -> dict[str, Any]:
        """Return the audit as plain JSON values.

        Returns
        -------
        dict
            Plain values, which `from_dict` reads.
        """
        figures = {k: v if math.isfinite(v) else str(v) for k, v in self.figures.items()}
        return {**asdict(self), "figures": figures}


def _numbers(values: Sequence[Any], low: float, high: float) -> tuple[float, ...]:
    found = tuple(float(value) for value in values)
    if not all(math.isfinite(value) and low <= value <= high for value in found):
        raise ValueError("a number out of range")
    return found


PARTY_HEADS = ("Party", "Rows", "Sums", "Megabytes sent", "Epsilon paid", "Seen of it alone")


def parties_of(federation: Mapping[str, Any]) -> tuple[str, list[tuple[str, ...]]]:
    """Return what the coordinator of a federation could see, and a line for each party."""
    try:
        trust, colluding = str(federation["trust"]), int(federation["colluding"])
        epsilon = federation["total"]["epsilon"]
        paid = "infinite" if epsilon is None else f"{float(epsilon):.4g}"
        sums = federation["sums"]
        lines: list[tuple[str, ...]] = []
        for name, party in federation["parties"].items():
            own = [each for each in sums if name in each["included"]]
            seen = str(own[0]["seen"]) if own and trust != "secure" else "nothing"
            rows = "secret" if party["rows"] is None else str(party["rows"])
            sent = f"{sum(int(each['sent']) for each in own) / 2**20:.2f}"
            lines.append((str(name), rows, f"{len(own)} of {len(sums)}", sent, paid, seen))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidInputError(
            "'federation' must be what Federation.to_dict gives, or the content of a "
            "federation.json about sums."
        ) from None
    if trust == "secure":
        return (
            "The coordinator saw the noisy total of each sum and nothing else about any party, "
            f"even if {colluding} of the parties had worked with it.",
            lines,
        )
    return "The coordinator saw each party's sums, every one with all of its noise.", lines


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
