"""The report: one piece of private work as a record that a person hands to a privacy officer."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import reduce
from importlib import metadata
from operator import add
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sfumato.exceptions import InvalidInputError
from sfumato.privacy.guarantee import Guarantee, Status, Unit, asked_of
from sfumato.report import charts, words
from sfumato.report.pages import render, write_form
from sfumato.report.parts import LedgerExtract, SignatureBlock

if TYPE_CHECKING:
    from sfumato.models.additive import Explanation

GREEN, AMBER = 3.0, 8.0
SHOWN = 24  # facts that were declared public, on the page


@dataclass(frozen=True)
class Result:
    """One row of a report: what was released, and under which guarantee.

    Parameters
    ----------
    name : str
        The model or method.
    guarantee : Guarantee
        What is promised; ``Guarantee(epsilon=float("inf"))`` where nothing is.
    notes : sequence of str
        Anything a reader should know about this row.
    explanation : Explanation, optional
        What the model says about its columns: released numbers only.
    file : str, optional
        The file that holds it.
    declared : mapping of str to str
        What was declared public, with values: the range or the values of each column.
    """

    name: str
    guarantee: Guarantee
    notes: tuple[str, ...] = ()
    explanation: Explanation | None = None
    file: str | None = None
    declared: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.guarantee, Guarantee):
            raise InvalidInputError(
                "'guarantee' must be a Guarantee; for a result without privacy give "
                f"Guarantee(epsilon=float('inf')). Got a {type(self.guarantee).__name__} instead."
            )
        object.__setattr__(self, "name", str(self.name))
        notes = (self.notes,) if isinstance(self.notes, str) else map(str, self.notes)
        object.__setattr__(self, "notes", tuple(notes))
        declared = {str(name): str(value) for name, value in dict(self.declared).items()}
        object.__setattr__(self, "declared", MappingProxyType(declared))

    @property
    def warning(self) -> str | None:
        """Why the guarantee is not an ordinary proved one, or None if it is."""
        guarantee = self.guarantee
        if guarantee.status is Status.REFUTED:
            return "no privacy guarantee. As printed, the method has no proved epsilon."
        if guarantee.status is Status.TESTING:
            return "not for release. The noise was seeded for testing and can be repeated."
        if guarantee.epsilon is None or math.isinf(guarantee.epsilon):
            return "no privacy. Epsilon is infinite."
        if guarantee.status is Status.CONDITIONAL:
            return "conditional. The guarantee is valid only under the conditions listed with it."
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain JSON values.

        Returns
        -------
        dict
            Plain values.
        """
        return {
            "name": self.name,
            "guarantee": self.guarantee.to_dict(),
            "attacker": self.guarantee.attacker.to_dict(),
            "warning": self.warning,
            "notes": list(self.notes),
            "file": self.file,
            "declared": dict(self.declared),
            **({} if self.explanation is None else {"explanation": self.explanation.to_dict()}),
        }


@dataclass(frozen=True)
class Report:
    """A frozen record of private work: what was promised and spent, by whom and with what.

    Nothing in it is measured on rows: all figures are released or follow from the guarantees.

    Parameters
    ----------
    title : str
        What was done, in the words of the reader.
    results : tuple of Result
        One row per release; a single one may be given alone.
    settings : mapping
        Parameters worth knowing; shown as text.
    ledger : LedgerExtract, optional
        What was released when, and what is left of the budget.
    office : SignatureBlock, optional
        Who answers for the data, for the signature block.
    versions : mapping of str to str, optional
        Software; by default Sfumato, Python, NumPy and scikit-learn as they run now.
    when : datetime, optional
        With a time zone; by default now.

    Examples
    --------
    >>> from sfumato import Guarantee
    >>> from sfumato.report import Report, Result
    >>> report = Report("Heart data", [Result("hulls", Guarantee(epsilon=1.0))])
    >>> report.warnings
    ()
    >>> "Heart data" in report.to_html()
    True
    """

    title: str
    results: tuple[Result, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    ledger: LedgerExtract | None = None
    office: SignatureBlock | None = None
    versions: Mapping[str, str] = field(default_factory=lambda: _running_versions())
    when: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        rows = tuple(self.results) if isinstance(self.results, Iterable) else (self.results,)
        if not all(isinstance(row, Result) for row in rows):
            raise InvalidInputError("'results' must be a sequence of Result.")
        object.__setattr__(self, "title", str(self.title))
        object.__setattr__(self, "results", rows)
        for name in ("settings", "versions"):
            texts = {str(key): str(value) for key, value in dict(getattr(self, name)).items()}
            object.__setattr__(self, name, MappingProxyType(texts))
        if not isinstance(self.when, datetime) or self.when.tzinfo is None:
            raise InvalidInputError(
                "'when' must be a datetime with a time zone, as datetime.now(UTC)."
            )

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence for every result whose guarantee is not an ordinary proved one."""
        return tuple(f"{r.name}: {r.warning}" for r in self.results if r.warning)

    def together(self) -> Guarantee | None:
        """Compose all results by adding epsilons and deltas, as if made from the same rows.

        None for fewer than two results, or where unit, relation or entry bound differ.

        Returns
        -------
        Guarantee or None
            What all results promise together.
        """
        if len(self.results) < 2:
            return None
        try:
            return reduce(add, (result.guarantee for result in self.results))
        except InvalidInputError:
            return None

    def to_json(self) -> str:
        """Return the report as JSON; infinite and missing numbers are strings.

        Returns
        -------
        str
            The text.
        """
        together = self.together()
        record = {
            "title": self.title,
            "when": self.when.isoformat(),
            "warnings": list(self.warnings),
            "results": [result.to_dict() for result in self.results],
            "together": None if together is None else together.to_dict(),
            "attacker": None if together is None else together.attacker.to_dict(),
            "settings": dict(self.settings),
            "ledger": None if self.ledger is None else asdict(self.ledger),
            "office": None if self.office is None else asdict(self.office),
            "versions": dict(self.versions),
        }
        return json.dumps(record, indent=2, allow_nan=False, default=float) + "\n"

    def to_html(self) -> str:
        """Return the report as one self-contained page: no script, no network, light and dark.

        Returns
        -------
        str
            The page.
        """
        total = self._total()
        guarantees = [result.guarantee for result in self.results]
        declared: dict[tuple[str, str], int] = {}  # where a fact is stated first
        for i, result in enumerate(self.results):
            for fact in result.declared.items():
                declared.setdefault(fact, i)
        return render(
            "report.html",
            title=self.title,
            report=self,
            total=total,
            colour=total and signal(guarantees, total["epsilon"], total["delta"], self.office),
            units=list(dict.fromkeys(map(words.protected_unit, guarantees))),
            asked=asked_of(guarantees[0].unit if guarantees else Unit.RECORD),
            files={mark: r.file or r.name for r in self.results for mark in r.guarantee.charges},
            declared=list(declared.items())[:SHOWN],
            n_more=max(len(declared) - SHOWN, 0),
            draw=charts,
        )

    def _total(self) -> dict[str, Any] | None:
        """What all releases cost together, where in the JSON that is; or why no figure holds."""
        if not self.results:
            return None
        guarantee, ledger, why = self.together(), self.ledger, ""
        epsilon: float | None = None
        delta = 0.0
        odds: Mapping[str, Any] = Guarantee(math.inf).attacker.to_dict()
        places: tuple[str, ...] = "ledger.spent", "ledger.delta", "ledger.attacker"
        if ledger is not None:
            others = [row.name for row in self.results if not _has_paid(ledger, row.guarantee)]
            if others:
                why = f"The budget has not paid for {', '.join(others)}."
            elif ledger.attacker is not None:
                epsilon, delta, odds = ledger.spent, ledger.delta, ledger.attacker
        elif guarantee is None and len(self.results) > 1:
            why = "They protect different units, or have different neighbouring data sets."
        else:
            places = "together.epsilon", "together.delta", "attacker"
            if guarantee is None:
                guarantee = self.results[0].guarantee
                names = "guarantee.epsilon", "guarantee.delta", "attacker"
                places = tuple(f"results.0.{name}" for name in names)
            epsilon, delta, odds = guarantee.epsilon, guarantee.delta, guarantee.attacker.to_dict()
        found = {"epsilon": epsilon, "delta": delta, "odds": odds, "why": why}
        return found | {f"{n}_place": p for n, p in zip(found, places, strict=False)}

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the report, in the form that the suffix names: .html or .json.

        Parameters
        ----------
        path : path-like
            The file to write; its suffix names the form.
        """
        write_form(path, {".html": self.to_html, ".json": self.to_json})


def signal(
    guarantees: Sequence[Guarantee],
    epsilon: float | None,
    delta: float,
    office: SignatureBlock | None,
) -> str:
    """Return the colour of all releases together, by the rule that the page states."""
    n_records = None if office is None else office.n_records
    if epsilon is None or not all(g.is_private for g in guarantees):
        return "red"
    if epsilon > AMBER or (n_records and delta > 1 / n_records):
        return "red"
    conditional = any(g.status is not Status.PROVED or g.unit is Unit.ENTRY for g in guarantees)
    return "amber" if epsilon > GREEN or conditional else "green"


def _has_paid(ledger: LedgerExtract, promised: Guarantee) -> bool:
    """Return whether all charges of a guarantee are in a ledger of its unit and relation."""
    paid = {past["mark"] for past in ledger.releases}
    counts_so = (ledger.unit, ledger.relation) == (promised.unit, promised.relation)
    return counts_so and bool(promised.charges) and paid.issuperset(promised.charges)


def _running_versions() -> dict[str, str]:
    packages = {"Sfumato": "sfumato", "NumPy": "numpy", "scikit-learn": "scikit-learn"}
    found = {name: metadata.version(package) for name, package in packages.items()}
    return {**found, "Python": platform.python_version()}
