"""The first two pages, for the person who signs: who, how much, what for, what is left, what not.

Every number carries its source, a place in the JSON of the same report, or a rule that is stated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from sfumato.accounting.attacker import FALSE_ALARMS, percent
from sfumato.guarantee import Guarantee, Status
from sfumato.report import svg
from sfumato.report.chart import number
from sfumato.report.words import protected_unit

if TYPE_CHECKING:
    from sfumato.report.parts import LedgerExtract
    from sfumato.report.report import Report

__all__ = ["Office", "first_pages", "signal"]

GREEN, AMBER = 3.0, 8.0
RULE = (
    "Green: proved, epsilon at most 3 and delta at most 1 / number of records. Amber: "
    "conditional, or epsilon above 3. Red: epsilon above 8, delta above 1 / number of "
    "records, or nothing proved. These limits are a convention of this report, not of any law."
)
NOT_COVERED = (
    "What is true of everybody: a finding about smokers says something about each smoker.",
    "What was declared public, below; and copies of the records themselves.",
    "Releases outside this ledger; groups of records, such as a family, beyond the unit above.",
)


@dataclass(frozen=True)
class Office:
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

    def to_dict(self) -> dict[str, Any]:
        """Give the names as plain JSON values.

        Returns
        -------
        dict
            Plain values.
        """
        return asdict(self)


def signal(
    guarantees: Sequence[Guarantee], epsilon: float | None, delta: float, n_records: int | None
) -> str:
    """Give the colour of all releases together, by the rule that the page states."""
    if epsilon is None or not all(g.is_private for g in guarantees):
        return "red"
    if epsilon > AMBER or (n_records and delta > 1 / n_records):
        return "red"
    conditional = any(g.status is not Status.PROVED for g in guarantees)
    return "amber" if epsilon > GREEN or conditional else "green"


def first_pages(report: Report) -> str:
    """Give the two pages before the appendix; nothing where nothing was released."""
    if not report.results:
        return ""
    total = _Total.of(report)
    blocks = (
        ("who", "Who is protected, and from what?", _who(report, total)),
        ("how-much", "How much was spent?", _how_much(report, total)),
        ("what-for", "What was released, and what for?", _what_for(report)),
        ("left", "What is left?", _left(report)),
        ("not-covered", "What is not covered?", _list(NOT_COVERED)),
    )
    first = "".join(_block(*block) for block in blocks)
    second = (
        _block("public", "What was declared public?", _public(report))
        + _block("criteria", "Singling out, linkability, inference", _criteria(total))
        + _block("nist", "By the items of NIST SP 800-226", _nist(report))
        + _block("signature", "Signature", _signature(report))
    )
    return f'<div class="officer">{first}</div><div class="officer second">{second}</div>'


@dataclass(frozen=True)
class _Total:
    """What all releases cost together, and where in the JSON that stands."""

    epsilon: float | None
    delta: float
    guesses_right: float
    finds: float
    place: str
    odds: str

    @classmethod
    def of(cls, report: Report) -> _Total:
        ledger = report.ledger
        if ledger is not None and ledger.attacker is not None:
            found = ledger.attacker
            right, finds = found["guesses_right"], found["finds"]
            return cls(ledger.spent, ledger.delta, right, finds, "ledger.spent", "ledger.attacker")
        together = report.together()
        if together is not None:
            odds = together.attacker
            place = "together.epsilon"
            return cls(
                together.epsilon, together.delta, odds.guesses_right, odds.finds, place, "attacker"
            )
        worst = max(range(len(report.results)), key=lambda i: _figure(report, i))
        guarantee = report.results[worst].guarantee
        odds, start = guarantee.attacker, f"results.{worst}"
        return cls(
            guarantee.epsilon,
            guarantee.delta,
            odds.guesses_right,
            odds.finds,
            f"{start}.guarantee.epsilon",
            f"{start}.attacker",
        )


def _figure(report: Report, place: int) -> float:
    epsilon = report.results[place].guarantee.epsilon
    return math.inf if epsilon is None else epsilon


def _who(report: Report, total: _Total) -> str:
    guarantees = [result.guarantee for result in report.results]
    units = dict.fromkeys(protected_unit(each) for each in guarantees)
    n_records = None if report.office is None else report.office.n_records
    colour = signal(guarantees, total.epsilon, total.delta, n_records)
    if not all(each.is_private for each in guarantees):
        odds = "<p>At least one release promises nothing: no odds can be stated for it.</p>"
    else:
        odds = (
            "<p>Somebody who knows all records but one, and everything that was released, and who "
            "guesses whether a given one is in the data, is right at most "
            f"{_cited(percent(total.guesses_right), f'{total.odds}.guesses_right')} of the time; a "
            f"coin is right {_cited('50 %', 'rule')}. If he may be wrong about "
            f"{_cited(percent(FALSE_ALARMS), 'rule')} of those who are not in the data, he finds "
            f"at most {_cited(percent(total.finds), f'{total.odds}.finds')} of those who are.</p>"
            + _hundred(total)
        )
    return (
        f'<p><span class="light {colour}">{colour}</span> Protected: '
        f"{escape('; '.join(units))}.</p>{odds}"
        f'<p class="quiet small" data-source="rule">{RULE}</p>'
    )


def _hundred(total: _Total) -> str:
    """Draw a hundred guesses: right by chance, right because of the releases, wrong."""
    n_right = min(100, math.ceil(100 * total.guesses_right - 1e-9))
    said = f"Of 100 guesses, at most {n_right} are right; a coin flip would give 50"
    parts = [svg.opening("A hundred guesses", (520, 62), said, "hundred")]
    for place in range(100):
        x, y = 8 + 10.4 * (place % 50), 14 + 16 * (place // 50)
        style = "chance" if place < 50 else "gained" if place < n_right else "wrong"
        parts.append(f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
    legend = "first row: right by chance; filled below: right because of the releases"
    parts.append(svg.text(4, 54, legend, "faint"))
    source = f"{total.odds}.guesses_right"
    return f'<figure data-source="{source}">{"".join(parts)}</svg></figure>'


def _how_much(report: Report, total: _Total) -> str:
    ledger = report.ledger
    shown = "nothing is proved" if total.epsilon is None else number(total.epsilon)
    delta = "ledger.delta" if total.place.startswith("ledger") else total.place[:-7] + "delta"
    told = (
        f"<p>All releases together: epsilon {_cited(shown, total.place)} at delta "
        f"{_cited(f'{total.delta:g}', delta)}.</p>"
    )
    if ledger is None:
        return told + "<p>No ledger was given: nobody vouches that these are all releases.</p>"
    return told + _bar(ledger)


def _bar(ledger: LedgerExtract) -> str:
    share = min(1.0, ledger.spent / ledger.epsilon)
    told = f"Spent {number(ledger.spent)} of {number(ledger.epsilon)}"
    width = 500 * share
    return (
        '<figure data-source="ledger.spent">'
        + svg.opening("The budget", (520, 44), told, "budget")
        + '<rect class="whole" x="4" y="6" width="500" height="14"/>'
        + f'<rect class="used" x="4" y="6" width="{width:.1f}" height="14"/>'
        + svg.text(4, 38, f"{told}; left {number(ledger.left)}", "faint")
        + "</svg></figure>"
    )


def _what_for(report: Report) -> str:
    ledger = report.ledger
    files = {result.key: result.file or result.name for result in report.results}
    rows = []
    if ledger is not None:
        for place, paid in enumerate(ledger.releases):
            rows.append(
                (
                    _cited(paid["time"][:16].replace("T", " "), f"ledger.releases.{place}.time"),
                    escape(paid["by"] or "not stated"),
                    escape(paid["purpose"] or "not stated"),
                    escape(files.get(paid["key"], "elsewhere")),
                    _cited(number(paid["epsilon"]), f"ledger.releases.{place}.epsilon"),
                )
            )
    else:
        for place, result in enumerate(report.results):
            epsilon = result.guarantee.epsilon
            shown = "none" if epsilon is None else number(epsilon)
            cell = _cited(shown, f"results.{place}.guarantee.epsilon")
            name = escape(result.file or result.name)
            rows.append(("not stated", "not stated", "not stated", name, cell))
    return _table(("When (UTC)", "By whom", "Purpose", "File", "Epsilon alone"), rows)


def _left(report: Report) -> str:
    ledger = report.ledger
    if ledger is None:
        return "<p>Without a ledger there is no budget, and nothing limits further releases.</p>"
    return (
        f"<p>Epsilon {_cited(number(ledger.left), 'ledger.left')} of "
        f"{_cited(number(ledger.epsilon), 'ledger.epsilon')} for “{escape(ledger.name)}”. The "
        "ledger refuses a release that does not fit, before it is made. It was unchanged up to "
        f'<code data-source="ledger.head">{escape(ledger.head[:16])}</code>.</p>'
    )


def _public(report: Report) -> str:
    confirmed = None if report.office is None else report.office.confirmed_by
    facts = dict.fromkeys(fact for result in report.results for fact in result.guarantee.public)
    first: dict[tuple[str, str], int] = {}  # where a fact is stated first: models share most
    for i, result in enumerate(report.results):
        for each in result.declared.items():
            first.setdefault(each, i)
    rows = [
        (escape(name), f'<span data-source="results.{i}.declared">{escape(value)}</span>')
        for (name, value), i in first.items()
    ][:24]
    named = f"Assumed to be public: {'; '.join(facts)}."
    listed = f'<p data-source="results.0.guarantee.public">{escape(named)}</p>'
    values = _table(("Declared", "Value"), rows) if rows else ""
    return f"{listed}{values}<p>Confirmed by: {escape(confirmed or 'not stated')}.</p>"


def _criteria(total: _Total) -> str:
    right = _cited(percent(total.guesses_right), f"{total.odds}.guesses_right")
    finds = _cited(percent(total.finds), f"{total.odds}.finds")
    rows = (
        (
            "Singling out",
            f"Whether a given record is in the data is guessed right at most {right} of the time; "
            f"at most {finds} are found at the stated rate of false alarms.",
            "That nobody can be described by public facts alone.",
        ),
        (
            "Linkability",
            "The same odds apply whatever other data are linked to the releases: the guarantee "
            "does not depend on what an attacker knows.",
            "Releases from the same records that are not in this ledger.",
        ),
        (
            "Inference",
            "What can be inferred about a person through that person’s record changes by no more "
            "than these odds allow.",
            "What is true of everybody, and so of that person too.",
        ),
    )
    return _table(("Criterion", "What the figures say", "What they do not say"), rows)


def _nist(report: Report) -> str:
    guarantee = report.results[0].guarantee
    audit = "see the appendix" if report.audit is not None else "not part of this report"
    composed = "by the ledger" if report.ledger is not None else "each release by itself"
    rows = (
        ("Unit of privacy", escape(protected_unit(guarantee)), "Guarantees"),
        ("Privacy parameters", "epsilon and delta above; loss curve in the certificate", "Results"),
        ("Trust model", "central: the person who runs the software sees the records", "-"),
        ("Composition", composed, "What was released when"),
        ("Mechanisms, floating point", "exact noise from the operating system", "Guarantees"),
        ("Timing and side channels", "not measured; keep run times private", "-"),
        ("Utility and bias", f"measured where rows were given; audit {audit}", "How well it does"),
        ("Data collection, access", "outside this software: the controller answers", "Signature"),
    )
    return _table(("Item", "What was done", "Where in this report"), rows)


def _signature(report: Report) -> str:
    office = report.office or Office()
    pairs = (
        ("Controller", office.controller),
        ("Prepared by", office.prepared_by),
        ("Retention", office.retention),
    )
    told = "".join(
        f"<div><dt>{name}</dt><dd>{escape(value or 'not stated')}</dd></div>"
        for name, value in pairs
    )
    lines = "".join(
        f'<p class="line">{name}</p>' for name in ("Privacy officer", "Place and date", "Signature")
    )
    return f'<dl>{told}</dl><div class="sign">{lines}</div>'


def _block(key: str, title: str, body: str) -> str:
    return (
        f'<section aria-labelledby="{key}"><h2 id="{key}" data-source="rule">{escape(title)}</h2>'
        f"{body}</section>"
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Give a table whose rows become cards on a phone; cells are HTML."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-name="{escape(name)}"><div>{cell}</div></td>'
            for name, cell in zip(heads, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f'<table class="cards"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _list(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


def _cited(text: str, source: str) -> str:
    return f'<span class="number" data-source="{escape(source)}">{escape(text)}</span>'
