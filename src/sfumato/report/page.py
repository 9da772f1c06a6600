"""The page of a report: one HTML file, readable on paper, on a phone and by a screen reader."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from sfumato.report.chart import Point, draw, drawable, number
from sfumato.report.officer import first_pages
from sfumato.report.sections import (
    audit_section,
    curve_section,
    explanation_section,
    ledger_section,
    limits_section,
    marginals_section,
    metrics_section,
    parties_section,
    promise_in_large,
)
from sfumato.report.words import (
    coverage,
    event_rows,
    facts,
    figure_names,
    figures,
    standing,
    together_sentence,
    unbroken,
)

if TYPE_CHECKING:
    from sfumato.report.report import Report, Result

__all__ = ["page"]

_PARTS = ("html", "css")
_ALL_PROVED = "Every guarantee in this report is proved."


def page(report: Report) -> str:
    """Give the whole HTML page."""
    body = [
        _header(report),
        _banner(report),
        first_pages(report),
        '<div class="appendix"><h2 class="part">Appendix</h2></div>' if report.results else "",
        promise_in_large(report),
        _results(report),
        *(() if report.sensitive_metrics else _charts(report)),
        explanation_section(report),
        parties_section(report),
        ledger_section(report.ledger),
        metrics_section(report, _charts(report)),
        curve_section(report),
        marginals_section(report.marginals),
        audit_section(report.audit),
        '<section aria-labelledby="guarantees"><h2 id="guarantees">Guarantees</h2>',
        *(_guarantee(result) for result in report.results),
        "</section>",
        limits_section(),
        _pairs_section("Settings", report.settings),
        _pairs_section("Software", report.versions),
    ]
    # No script, no network, light and dark, screen and paper.
    frame, style = ((files("sfumato.report") / f"page.{kind}").read_text() for kind in _PARTS)
    return frame.format(title=escape(report.title), style=style, body="\n".join(filter(None, body)))


def _header(report: Report) -> str:
    stamp = f"{report.when:%d %B %Y, %H:%M} {report.when.tzname() or ''}".strip()
    return (
        f'<header><p class="kicker">Privacy report</p><h1>{escape(report.title)}</h1>'
        f'<p class="quiet"><time datetime="{report.when.isoformat()}">{escape(stamp)}</time></p>'
        "</header>"
    )


def _banner(report: Report) -> str:
    warned = [r for r in report.results if r.warning]
    if not warned:
        return f'<p class="calm">{_ALL_PROVED}</p>' if report.results else ""
    items = "".join(
        f"<li><strong>{escape(r.name)}</strong>{_at(r)}: {escape(r.warning or '')}</li>"
        for r in warned
    )
    return (
        '<aside class="warning" role="note" aria-label="Warning"><h2>Not everything here is '
        f"proved</h2><ul>{items}</ul></aside>"
    )


def _at(result: Result) -> str:
    epsilon = result.guarantee.epsilon
    return "" if epsilon is None or math.isinf(epsilon) else f" at epsilon {number(epsilon)}"


def _results(report: Report) -> str:
    table = figures(report)
    if not table:
        return ""
    names = figure_names(report)
    head = "".join(f'<th scope="col" class="n">{escape(name)}</th>' for name in names)
    heads = [f"{escape(result.name)} {_chip(result)}" for result in report.results]
    lines = [
        _result_row(head, cells, names)
        for head, cells in zip([*heads, "Without privacy"], table, strict=False)
    ]
    body, foot = "".join(lines[: len(heads)]), "".join(lines[len(heads) :])
    notes = filter(None, (together_sentence(report), coverage(report)))
    return (
        '<section aria-labelledby="results"><h2 id="results">Results</h2>'
        f'<table class="results"><thead><tr><th scope="col">Release</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody><tfoot>{foot}</tfoot></table>"
        + "".join(f'<p class="quiet">{escape(note)}</p>' for note in notes)
        + "</section>"
    )


def _result_row(head: str, cells: Sequence[str], names: Sequence[str]) -> str:
    shown = "".join(
        f'<td class="n" data-name="{escape(name)}">{escape(cell)}</td>'
        for name, cell in zip(names, cells, strict=True)
    )
    return f'<tr><th scope="row">{head}</th>{shown}</tr>'


def _chip(result: Result) -> str:
    style = "chip unproved" if result.warning else "chip"
    return f'<span class="{style}">{standing(result.guarantee)}</span>'


def _charts(report: Report) -> list[str]:
    """Draw one chart a metric, and one a unit and relation: other epsilons do not compare."""
    drawn: list[str] = []
    for metric in report.metric_names:
        if metric in report.curve:  # drawn there, with these points in it
            continue
        for protection, points in report.points(metric).items():
            key = f"chart-{len(drawn)}"
            drawn.append(_figure(points, metric, report.ceiling.get(metric), protection, key))
    return drawn


def _figure(
    points: list[Point], metric: str, ceiling: float | None, protection: str, key: str
) -> str:
    if ceiling is not None and not drawable(ceiling):
        ceiling = None
    charts = (
        f'<div class="{kind}">'
        + draw(points, metric=metric, ceiling=ceiling, width=width, key=f"{key}-{kind}")
        + "</div>"
        for kind, width in (("wide", 720), ("narrow", 340))
    )
    hollow = " Hollow points are not proved." if not all(p.proved for p in points) else ""
    return (
        f"<figure>{''.join(charts)}<figcaption>Epsilon protects {escape(protection)}. Smaller is "
        f"more private.{hollow}</figcaption></figure>"
    )


def _guarantee(result: Result) -> str:
    guarantee = result.guarantee
    tone = "promise" if result.warning is None else "promise unproved"
    events = "".join(
        f'<tr><td>{escape(kind)}</td><td>{escape(told)}</td><td class="n">{count}</td></tr>'
        for kind, told, count in event_rows(guarantee)
    )
    table = (
        '<table class="events"><thead><tr><th scope="col">Kind</th><th scope="col">Parameters'
        f'</th><th scope="col" class="n">Times</th></tr></thead><tbody>{events}</tbody></table>'
    )
    return (
        f"<article><h3>{escape(result.name)}{_at(result)} {_chip(result)}</h3>"
        f'<p class="{tone}">{unbroken(escape(str(guarantee)))}</p>{_pairs(facts(guarantee))}'
        + _list("Conditions", guarantee.conditions, "None.")
        + _list("Assumed public", guarantee.public, "Nothing is recorded.")
        + f"<h4>Events</h4>{table if events else '<p>None are recorded.</p>'}"
        + (_list("Notes", result.notes, "") if result.notes else "")
        + "</article>"
    )


def _list(title: str, items: Sequence[str], empty: str) -> str:
    shown = "".join(f"<li>{escape(str(item))}</li>" for item in items)
    return f"<h4>{title}</h4>" + (f"<ul>{shown}</ul>" if shown else f"<p>{empty}</p>")


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in pairs)
    return f"<dl>{rows}</dl>"


def _pairs_section(title: str, values: Mapping[str, str]) -> str:
    return f"<section><h2>{title}</h2>{_pairs(values.items())}</section>" if values else ""
