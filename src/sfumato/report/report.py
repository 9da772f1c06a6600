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
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.models.additive import Explanation
from sfumato.privacy.guarantee import Guarantee, Status
from sfumato.report import charts, words
from sfumato.report.charts import Point
from sfumato.report.pages import render, write_form
from sfumato.report.parts import (
    PARTY_HEADS,
    Audit,
    LedgerExtract,
    Marginal,
    SignatureBlock,
    parties_of,
)

GREEN, AMBER = 3.0, 8.0


@dataclass(frozen=True)
class Result:
    """One row of a report: what was released, under which guarantee, and how good it is.

    Parameters
    ----------
    name : str
        The model or method; rows of one name at several epsilons become one line of the chart.
    guarantee : Guarantee
        What is promised; ``Guarantee(epsilon=float("inf"))`` where nothing is.
    metrics : mapping of str to float
        Measured figures such as ``{"accuracy": 0.93}``.
    notes : sequence of str
        Anything a reader should know about this row.
    explanation : Explanation, optional
        What the model says about its columns: released numbers only.
    file : str, optional
        The file that holds it.
    declared : mapping of str to str
        What was declared public, with values: the range or the values of each column.
    federation : mapping, optional
        What `Federation.to_dict` gave: who took part, what left each party, what was seen.
    """

    name: str
    guarantee: Guarantee
    metrics: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    explanation: Explanation | None = None
    file: str | None = None
    declared: Mapping[str, str] = field(default_factory=dict)
    federation: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.guarantee, Guarantee):
            raise InvalidInputError(
                "'guarantee' must be a Guarantee; for a result without privacy give "
                f"Guarantee(epsilon=float('inf')). Got a {type(self.guarantee).__name__} instead."
            )
        object.__setattr__(self, "name", str(self.name))
        object.__setattr__(self, "metrics", _figures("metrics", self.metrics))
        notes = (self.notes,) if isinstance(self.notes, str) else map(str, self.notes)
        object.__setattr__(self, "notes", tuple(notes))
        if self.federation is not None:
            parties_of(self.federation)  # refuses what cannot be shown
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
            "metrics": {name: _json_number(value) for name, value in self.metrics.items()},
            "notes": list(self.notes),
            "file": self.file,
            "declared": dict(self.declared),
            **({} if self.explanation is None else {"explanation": self.explanation.to_dict()}),
            **({} if self.federation is None else {"federation": dict(self.federation)}),
        }


@dataclass(frozen=True)
class Report:
    """A frozen record of private work: what was promised, what was achieved, with what.

    Parameters
    ----------
    title : str
        What was done, in the words of the reader.
    results : tuple of Result
        One row per release; a single one may be given alone.
    ceiling : mapping of str to float
        The same metrics without privacy, on the same task: what privacy is measured against.
    settings : mapping
        Parameters worth knowing; shown as text.
    ledger : LedgerExtract, optional
        What was released when, and what is left of the budget.
    curve : mapping of str to sequence of (epsilon, value)
        Metrics of the same model at other budgets. Sensitive.
    marginals : tuple of Marginal
        Columns of fabricated rows beside those of real ones. Sensitive.
    audit : Audit, optional
        What an audit has measured. Sensitive.
    office : Office, optional
        Who answers for the data, for the signature block.
    sensitive_metrics : bool, default=False
        Whether metrics and ceiling were measured on rows that are not public; they then stand
        under the mark of what is sensitive, and nowhere else.
    versions : mapping of str to str, optional
        Software; by default Sfumato, Python, NumPy and scikit-learn as they run now.
    when : datetime, optional
        With a time zone; by default now.

    Notes
    -----
    Metrics, the ceiling and what is called sensitive above are measured on rows and are covered by
    no guarantee; every form of the report says so.

    Examples
    --------
    >>> from sfumato import Guarantee
    >>> from sfumato.report import Report, Result
    >>> row = Result("hulls", Guarantee(epsilon=1.0), {"accuracy": 0.93})
    >>> report = Report("Heart data", [row], ceiling={"accuracy": 0.95})
    >>> report.warnings
    ()
    >>> "Heart data" in report.to_html()
    True
    """

    title: str
    results: tuple[Result, ...] = ()
    ceiling: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    ledger: LedgerExtract | None = None
    curve: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    marginals: tuple[Marginal, ...] = ()
    audit: Audit | None = None
    office: SignatureBlock | None = None
    sensitive_metrics: bool = False
    versions: Mapping[str, str] = field(default_factory=lambda: _running_versions())
    when: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        rows = tuple(self.results) if isinstance(self.results, Iterable) else (self.results,)
        if not all(isinstance(row, Result) for row in rows):
            raise InvalidInputError("'results' must be a sequence of Result.")
        object.__setattr__(self, "title", str(self.title))
        object.__setattr__(self, "results", rows)
        object.__setattr__(self, "ceiling", _figures("ceiling", self.ceiling))
        object.__setattr__(self, "curve", _curves(self.curve))
        object.__setattr__(self, "marginals", tuple(self.marginals))
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

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Every metric of any result or of the ceiling, in order of first mention."""
        rows = [*(result.metrics for result in self.results), self.ceiling]
        return tuple(dict.fromkeys(name for row in rows for name in row))

    def points(self, metric: str) -> dict[str, list[Point]]:
        """Return the results that can be drawn, by what their epsilon protects.

        Parameters
        ----------
        metric : str
            The figure on the other axis.

        Returns
        -------
        dict of str to list of Point
            Points of a chart.
        """
        groups: dict[str, list[Point]] = {}
        for result in self.results:
            epsilon, value = result.guarantee.epsilon, result.metrics.get(metric, math.nan)
            if epsilon is not None and _drawable(epsilon) and _drawable(value):
                point = Point(result.name, epsilon, value, proved=result.warning is None)
                groups.setdefault(words.protection(result.guarantee), []).append(point)
        return groups

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
        results = [result.to_dict() for result in self.results]
        ceiling = {name: _json_number(value) for name, value in self.ceiling.items()}
        metrics = {"metrics": [result["metrics"] for result in results], "ceiling": ceiling}
        if self.sensitive_metrics:
            results = [{**result, "metrics": {}} for result in results]
        record = {
            "title": self.title,
            "when": self.when.isoformat(),
            "warnings": list(self.warnings),
            "results": results,
            "together": None if together is None else together.to_dict(),
            "attacker": None if together is None else together.attacker.to_dict(),
            "ceiling": {} if self.sensitive_metrics else metrics["ceiling"],
            "settings": dict(self.settings),
            "ledger": None if self.ledger is None else asdict(self.ledger),
            "office": None if self.office is None else asdict(self.office),
            "sensitive": {
                **(metrics if self.sensitive_metrics else {}),
                "curve": {name: [list(point) for point in own] for name, own in self.curve.items()},
                "marginals": [each.to_dict() for each in self.marginals],
                "audit": None if self.audit is None else self.audit.to_dict(),
            },
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
        drawn: list[tuple[Any, str, bool]] = []
        for metric in self.metric_names:  # one a unit and relation: other epsilons do not compare
            ceiling = self.ceiling.get(metric)
            if ceiling is not None and not _drawable(ceiling):
                ceiling = None
            # Of a metric with a curve, the points are drawn there.
            groups = {} if metric in self.curve else self.points(metric)
            for protection, points in groups.items():
                options: dict[str, Any] = {"metric": metric, "ceiling": ceiling}
                chart = charts.against_epsilon(points, key=f"chart-{len(drawn)}", **options)
                drawn.append((chart, protection, all(point.proved for point in points)))
        return render(
            "report.html",
            title=self.title,
            report=self,
            total=total,
            colour=total and signal(guarantees, total["epsilon"], total["delta"], self.office),
            units=list(dict.fromkeys(map(words.protected_unit, guarantees))),
            files={mark: r.file or r.name for r in self.results for mark in r.guarantee.charges},
            declared=list(declared.items())[:24],
            parties=[parties_of(r.federation) for r in self.results if r.federation is not None],
            party_heads=PARTY_HEADS,
            charts=drawn,
            curves=[
                (
                    metric,
                    [Point("at other budgets", epsilon, value) for epsilon, value in values]
                    + [point for own in self.points(metric).values() for point in own],
                    self.ceiling.get(metric),
                )
                for metric, values in self.curve.items()
            ],
            draw=charts,
        )

    def _total(self) -> dict[str, Any] | None:
        """What all releases cost together, and where in the JSON that is stated."""
        if not self.results:
            return None
        guarantee, ledger = self.together(), self.ledger
        epsilon: float | None
        odds: Mapping[str, Any]
        places: tuple[str, ...]
        if ledger is not None and ledger.attacker is not None:
            places = "ledger.spent", "ledger.delta", "ledger.attacker"
            epsilon, delta, odds = ledger.spent, ledger.delta, ledger.attacker
        else:
            places = "together.epsilon", "together.delta", "attacker"
            if guarantee is None:
                costs = [result.guarantee.epsilon for result in self.results]
                known = [math.inf if cost is None else cost for cost in costs]
                worst = known.index(max(known))
                guarantee, start = self.results[worst].guarantee, f"results.{worst}"
                places = tuple(
                    f"{start}.{n}" for n in ("guarantee.epsilon", "guarantee.delta", "attacker")
                )
            epsilon, delta, odds = guarantee.epsilon, guarantee.delta, guarantee.attacker.to_dict()
        found = {"epsilon": epsilon, "delta": delta, "odds": odds}
        return found | {f"{n}_place": p for n, p in zip(found, places, strict=True)}

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
    conditional = any(g.status is not Status.PROVED for g in guarantees)
    return "amber" if epsilon > GREEN or conditional else "green"


def _drawable(value: float) -> bool:
    """Return whether a number can be drawn: not infinite or missing, and no scale overflows."""
    return abs(value) < 1e100


def _figures(name: str, values: Mapping[str, Any]) -> Mapping[str, float]:
    try:
        return MappingProxyType({str(key): float(value) for key, value in values.items()})
    except (AttributeError, TypeError, ValueError):
        raise InvalidInputError(
            f"'{name}' must map names to numbers, such as {{'accuracy': 0.93}}."
        ) from None


def _curves(curves: Mapping[str, Any]) -> Mapping[str, tuple[tuple[float, float], ...]]:
    try:
        found = {
            str(name): tuple((float(epsilon), float(value)) for epsilon, value in own)
            for name, own in curves.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise InvalidInputError(
            "'curve' must map names to pairs, such as {'accuracy': [(1.0, 0.9), (3.0, 0.93)]}."
        ) from None
    if not all(math.isfinite(number) for own in found.values() for pair in own for number in pair):
        raise InvalidInputError("'curve' must contain finite numbers.")
    return MappingProxyType(found)


def _json_number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _running_versions() -> dict[str, str]:
    packages = {"Sfumato": "sfumato", "NumPy": "numpy", "scikit-learn": "scikit-learn"}
    found = {name: metadata.version(package) for name, package in packages.items()}
    return {**found, "Python": platform.python_version()}
