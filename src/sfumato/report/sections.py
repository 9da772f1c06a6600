"""Sections of the page: the promise in large type, ledger, raw data, audit, limits."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from sfumato.report.bars import paired_bars, roc_curves
from sfumato.report.chart import Point, draw, number
from sfumato.report.explanations import explanation_article
from sfumato.report.federation import Parties, parties_article
from sfumato.report.parts import Audit, LedgerExtract, Marginal
from sfumato.report.words import LIMITS, RAW, sensitive_figures, standing, unbroken

if TYPE_CHECKING:
    from sfumato.report.report import Report, Result

__all__ = [
    "audit_section",
    "curve_section",
    "explanation_section",
    "ledger_section",
    "limits_section",
    "marginals_section",
    "metrics_section",
    "parties_section",
    "promise_in_large",
]

MOST_IN_LARGE = 3


def promise_in_large(report: Report) -> str:
    """Give the sentences of the guarantees in large type, with their status; none of many."""
    if len(report.results) > MOST_IN_LARGE:
        return ""
    if len(report.results) == 1:
        return _in_large(report.results[0])
    return "".join(_in_large(result, n) for n, result in enumerate(report.results, start=1))


def _in_large(result: Result, number: int | None = None) -> str:
    """Give one of them; results may have one name, so that their places tell them apart."""
    tone = "" if result.warning is None else " unproved"
    name = "" if number is None else f" {escape(result.name)}"
    label = "The guarantee" if number is None else f"Guarantee {number}:{name}"
    return (
        f'<section class="hero{tone}" aria-label="{label}"><p>'
        f'<span class="chip{tone}">{standing(result.guarantee)}</span>{name}</p>'
        f'<p class="sentence">{unbroken(escape(str(result.guarantee)))}</p></section>'
    )


def ledger_section(extract: LedgerExtract | None) -> str:
    """Show what was released when, and what is left of the budget."""
    if extract is None:
        return ""
    rows = "".join(
        f"<tr><td data-name='When'>{escape(time[:16].replace('T', ' '))}</td>"
        f"<td data-name='Release'>{escape(kind)}</td>"
        f"<td data-name='Parameters'>{escape(parameters)}</td></tr>"
        for time, kind, parameters in extract.lines
    )
    table = (
        '<table class="events ledger"><thead><tr><th scope="col">When (UTC)</th>'
        '<th scope="col">Release</th>'
        f'<th scope="col">Parameters</th></tr></thead><tbody>{rows}</tbody></table>'
    )
    summary = (
        f"Budget of “{escape(extract.name)}”: epsilon {number(extract.epsilon)} at delta "
        f"{extract.delta:g}, unit {escape(extract.unit)}, relation {escape(extract.relation)}. "
        f"Spent {number(extract.spent)}, left {number(extract.left)}."
    )
    return _section(
        "ledger",
        "What was released when",
        f"<p>{summary}</p>{table if rows else '<p>Nothing yet.</p>'}"
        f'<p class="quiet">Head of the chain: <code>{escape(extract.head)}</code>. Note it '
        "elsewhere; <code>sfumato budget verify</code> checks it.</p>",
    )


def explanation_section(report: Report) -> str:
    """Show what models say about their columns; from released numbers, so it may be handed on."""
    articles = [
        explanation_article(result.name, result.explanation, f"explained-{i}")
        for i, result in enumerate(report.results)
        if result.explanation is not None
    ]
    return _section("explained", "What the model says", "".join(articles)) if articles else ""


def parties_section(report: Report) -> str:
    """Show who took part, what left each party, and what the coordinator could see."""
    articles = [
        parties_article(Parties.of(result.federation), f"parties-{i}")
        for i, result in enumerate(report.results)
        if result.federation is not None
    ]
    return _section("federation", "The federation", "".join(articles)) if articles else ""


def curve_section(report: Report) -> str:
    """Draw a metric against the budget: models that were made for this picture and thrown away."""
    figures = []
    for number_of, (metric, values) in enumerate(report.curve.items()):
        points = [Point("at other budgets", epsilon, value) for epsilon, value in values]
        points += [point for own in report.points(metric).values() for point in own]
        drawn = (
            f'<div class="{kind}">'
            + draw(
                points,
                metric=metric,
                ceiling=report.ceiling.get(metric),
                width=width,
                key=f"curve-{number_of}-{kind}",
            )
            + "</div>"
            for kind, width in (("wide", 720), ("narrow", 340))
        )
        figures.append(
            f"<figure>{''.join(drawn)}<figcaption>The same model at other budgets; made for this "
            "picture and thrown away, so charged to no ledger.</figcaption></figure>"
        )
    return _sensitive("curve", "What another budget would give", "".join(figures))


def metrics_section(report: Report, charts: list[str]) -> str:
    """Show metrics that were measured on rows that are not public, and draw them."""
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f'<td class="n">{escape(value)}</td>' for value in values)
        + "</tr>"
        for name, *values in sensitive_figures(report)
    )
    if not rows:
        return ""
    head = "".join(f'<th scope="col" class="n">{escape(name)}</th>' for name in report.metric_names)
    table = (
        f'<table><thead><tr><th scope="col">Release</th>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table>"
    )
    return _sensitive("metrics", "How well it does", table + "".join(charts))


def marginals_section(marginals: tuple[Marginal, ...]) -> str:
    """Draw real and fabricated shares of each column."""
    pictures = "".join(
        "<figure>"
        + paired_bars(
            each.column,
            each.labels,
            each.fabricated,
            each.real,
            names=("fabricated", "real"),
            key=f"marginal-{i}",
        )
        + f"<figcaption>Distance {number(each.distance, '.3f')}</figcaption></figure>"
        for i, each in enumerate(marginals)
    )
    if not pictures:
        return ""
    note = (
        '<p class="quiet">Filled: fabricated. Outline: real. Distance: half the sum of the '
        "differences, 0 for equal shares and 1 for disjoint ones.</p>"
    )
    return _sensitive(
        "marginals", "Fabricated against real", f'{note}<div class="gallery">{pictures}</div>'
    )


def audit_section(audit: Audit | None) -> str:
    """Show what an audit has measured."""
    if audit is None:
        return ""
    style = "warning" if audit.consistent is False else "calm"
    figures = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="n">{number(value)}</td></tr>'
        for name, value in audit.figures.items()
    )
    pictures = [
        paired_bars(
            each.name,
            [number(edge) for edge in each.edges[:-1]],
            _shares(each.members),
            _shares(each.non_members),
            names=("members", "non-members"),
            key=f"audit-{i}",
        )
        for i, each in enumerate(audit.histograms)
    ]
    if audit.rocs:
        curves = [(r.name, r.false_positive_rate, r.true_positive_rate) for r in audit.rocs]
        pictures.append(roc_curves(curves, key="audit-roc"))
    notes = "".join(f"<li>{escape(note)}</li>" for note in audit.notes)
    drawn = "".join(f"<figure>{picture}</figure>" for picture in pictures)
    legend = '<p class="quiet">Filled: members. Outline: non-members. Dashed: guessing.</p>'
    return _sensitive(
        "audit",
        audit.title,
        f'<p class="{style}">{escape(audit.verdict)}</p>'
        + (f"<table><tbody>{figures}</tbody></table>" if figures else "")
        + (f'{legend}<div class="gallery">{drawn}</div>' if drawn else "")
        + (f"<ul>{notes}</ul>" if notes else ""),
    )


def _shares(counts: tuple[float, ...]) -> list[float]:
    total = sum(counts) or 1.0
    return [count / total for count in counts]


def limits_section() -> str:
    """Say plainly what no guarantee here covers."""
    items = "".join(f"<li>{escape(limit)}</li>" for limit in LIMITS)
    return _section("limits", "What this does not protect", f"<ul>{items}</ul>")


def _sensitive(key: str, title: str, body: str) -> str:
    return _section(key, title, f'<p class="raw">{RAW}</p>{body}') if body else ""


def _section(key: str, title: str, body: str) -> str:
    return f'<section aria-labelledby="{key}"><h2 id="{key}">{escape(title)}</h2>{body}</section>'
