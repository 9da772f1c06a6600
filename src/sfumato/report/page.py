"""The page of a report: one HTML file, and the words and numbers that Markdown shares with it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from sfumato.events import flatten
from sfumato.guarantee import Guarantee, Relation, Unit
from sfumato.report.chart import Point, aligned, draw, number

if TYPE_CHECKING:
    from sfumato.report.report import Report, Result

__all__ = ["COVERAGE", "event_rows", "facts", "figures", "page", "standing", "together_sentence"]

COVERAGE = (
    "A guarantee covers what was released, not the metrics: those, and the figures without "
    "privacy, are measured on rows and can themselves reveal something about them."
)
_ALL_PROVED = "Every guarantee in this report is proved."
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


# Words and numbers ----------------------------------------------------------------------------


def figures(report: Report) -> list[list[str]]:
    """Give the numbers of the table: epsilon, delta and metrics of each result, then the ceiling.

    The row of the ceiling is there only if the report has one.
    """
    guarantees = [result.guarantee for result in report.results]
    rows = [*(result.metrics for result in report.results), report.ceiling]
    columns = [
        aligned([*(g.epsilon for g in guarantees), math.inf]),
        ["–" if g.epsilon is None else _scientific(g.delta) for g in guarantees] + ["–"],
        *(aligned([row.get(name) for row in rows]) for name in report.metric_names),
    ]
    table = [list(row) for row in zip(*columns, strict=True)]
    return table if report.ceiling else table[:-1]


def _scientific(value: float) -> str:
    """Write a small probability: 1e-05 as 10⁻⁵."""
    mantissa, _, exponent = f"{value:.3g}".partition("e")
    if not exponent:
        return mantissa
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPTS)
    return power if mantissa == "1" else f"{mantissa}\u00a0×\u00a0{power}"


def facts(guarantee: Guarantee) -> list[tuple[str, str]]:
    """Give the figures of a guarantee as pairs of name and text."""
    epsilon = "none proved" if guarantee.epsilon is None else number(guarantee.epsilon)
    found = [("Epsilon", epsilon)]
    if guarantee.claimed_epsilon is not None:
        found.append(("Epsilon as printed, not proved", number(guarantee.claimed_epsilon)))
    found += [("Delta", _scientific(guarantee.delta)), ("Protects", _unit(guarantee))]
    found.append(("Neighbouring data sets", _RELATIONS[guarantee.relation]))
    reading = guarantee.record_reading
    if reading is not None:
        found.append(
            (
                f"For a whole record of {reading.n_entries} numbers",
                f"epsilon {number(reading.epsilon)}, delta {_scientific(reading.delta)}",
            )
        )
    return [*found, ("Status", standing(guarantee))]


def standing(guarantee: Guarantee) -> str:
    """Give the status in a word; an infinite epsilon is never called proved."""
    infinite = guarantee.epsilon is not None and math.isinf(guarantee.epsilon)
    return "no privacy" if infinite else str(guarantee.status)


_RELATIONS = {
    Relation.REPLACE_ONE: "one record replaced; the number of records is public",
    Relation.ADD_OR_REMOVE_ONE: "one record added or removed",
}


def _unit(guarantee: Guarantee) -> str:
    if guarantee.unit is Unit.ENTRY:
        return f"one number of one record, up to a change of {guarantee.entry_bound:g}"
    return "one whole record"


def event_rows(guarantee: Guarantee) -> list[tuple[str, str, str]]:
    """Give kind, parameters and count of every different event."""
    rows = []
    for event, count in flatten(guarantee.events).items():
        values = {k: v for k, v in event.to_dict().items() if k != "kind"}
        told = ", ".join(f"{k.replace('_', ' ')} {_plain(v)}" for k, v in values.items())
        rows.append((event.kind.replace("_", " "), told or "–", str(count)))
    return rows


def _plain(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def together_sentence(report: Report) -> str | None:
    """Say what all results promise together, if they were made from the same rows."""
    if len(report.results) < 2:
        return None
    opening = "Each guarantee stands for its own release. Releases from the same rows add up"
    total = report.together()
    if total is None or not total.is_private:
        return f"{opening}; no common guarantee can be stated for these."
    return (
        f"{opening}: all {len(report.results)} together have at most epsilon "
        f"{number(total.epsilon)} and delta {_scientific(total.delta)} (plain sums; a ledger may "
        "show less)."
    )


# The page -------------------------------------------------------------------------------------


def page(report: Report) -> str:
    """Give the whole HTML page."""
    body = [
        _header(report),
        _banner(report),
        _results(report),
        *_charts(report),
        '<section aria-labelledby="guarantees"><h2 id="guarantees">Guarantees</h2>',
        *(_guarantee(result) for result in report.results),
        "</section>",
        _pairs_section("Settings", report.settings),
        _pairs_section("Software", report.versions),
    ]
    return _PAGE.format(
        title=escape(report.title), style=_STYLE, body="\n".join(filter(None, body))
    )


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
    names = ["ε", "δ", *report.metric_names]
    head = "".join(f'<th scope="col" class="n">{escape(name)}</th>' for name in names)
    heads = [f"{escape(result.name)} {_chip(result)}" for result in report.results]
    lines = [
        _result_row(head, cells, names)
        for head, cells in zip([*heads, "Without privacy"], table, strict=False)
    ]
    body, foot = "".join(lines[: len(heads)]), "".join(lines[len(heads) :])
    notes = filter(None, (together_sentence(report), COVERAGE))
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
        groups: dict[str, list[Point]] = {}
        for result in report.results:
            epsilon, value = result.guarantee.epsilon, result.metrics.get(metric, math.nan)
            if epsilon is not None and _drawable(epsilon) and _drawable(value):
                point = Point(result.name, epsilon, value, proved=result.warning is None)
                groups.setdefault(_protection(result.guarantee), []).append(point)
        for protection, points in groups.items():
            key = f"chart-{len(drawn)}"
            drawn.append(_figure(points, metric, report.ceiling.get(metric), protection, key))
    return drawn


def _drawable(value: float) -> bool:
    return abs(value) < 1e100  # neither infinite nor missing, and no scale overflows


def _protection(guarantee: Guarantee) -> str:
    return f"{_unit(guarantee)}; {_RELATIONS[guarantee.relation].partition(';')[0]}"


def _figure(
    points: list[Point], metric: str, ceiling: float | None, protection: str, key: str
) -> str:
    if ceiling is not None and not _drawable(ceiling):
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
        f'<p class="{tone}">{_unbroken(escape(str(guarantee)))}</p>{_pairs(facts(guarantee))}'
        + _list("Conditions", guarantee.conditions, "None.")
        + _list("Assumed public", guarantee.public, "Nothing is recorded.")
        + f"<h4>Events</h4>{table if events else '<p>None are recorded.</p>'}"
        + (_list("Notes", result.notes, "") if result.notes else "")
        + "</article>"
    )


def _unbroken(text: str) -> str:
    # A browser would break the line after the minus sign of 1e-05.
    return re.sub(r"[0-9.]+e-[0-9]+", r'<span class="number">\g<0></span>', text)


def _list(title: str, items: Sequence[str], empty: str) -> str:
    shown = "".join(f"<li>{escape(str(item))}</li>" for item in items)
    return f"<h4>{title}</h4>" + (f"<ul>{shown}</ul>" if shown else f"<p>{empty}</p>")


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in pairs)
    return f"<dl>{rows}</dl>"


def _pairs_section(title: str, values: Mapping[str, str]) -> str:
    return f"<section><h2>{title}</h2>{_pairs(values.items())}</section>" if values else ""


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="Sfumato">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""

_STYLE = """
:root {
  --paper: #fbfaf7; --ink: #20242a; --quiet: #5f6671; --rule: #e4e0d8; --accent: #0d676d;
  --warn: #b45f06; --warn-ink: #6b3600; --warn-paper: #fdf0db;
  --serif: "Iowan Old Style", Charter, "Source Serif 4", Georgia, "Liberation Serif", serif;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #15171b; --ink: #e7e4de; --quiet: #a3a9b3; --rule: #31353c; --accent: #74c7c5;
    --warn: #e39a3b; --warn-ink: #ffdcab; --warn-paper: #33240f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: anywhere;
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
}
main { max-width: 47rem; margin: 0 auto; padding: clamp(2rem, 7vw, 5rem) 1.25rem 5rem; }
h1, h2, h3 { font-family: var(--serif); font-weight: 600; line-height: 1.2; text-wrap: balance; }
h1 { font-size: clamp(1.8rem, 5vw, 2.6rem); margin: 0 0 .6rem; letter-spacing: -.01em; }
h2 { font-size: 1.45rem; margin: 0 0 1.25rem; }
h3 { font-size: 1.15rem; margin: 0 0 .75rem; }
h4 { font-size: .875rem; font-weight: 600; margin: 1.5rem 0 .4rem; }
p { margin: 0 0 1rem; }
section, figure { margin: 4rem 0 0; }
article { padding: 2rem 0; border-top: 1px solid var(--rule); }
ul { margin: 0; padding-left: 1.15rem; }
li + li { margin-top: .3rem; }
.kicker { color: var(--accent); font-weight: 600; font-size: .875rem; margin: 0 0 .75rem; }
.quiet, figcaption { color: var(--quiet); font-size: .9rem; }
.calm { margin: 2rem 0 0; padding-left: 1rem; border-left: 3px solid var(--accent); }
.warning {
  margin: 2.25rem 0 0; padding: 1.25rem 1.4rem; border: 1px solid var(--warn);
  border-left-width: 6px; border-radius: 6px; background: var(--warn-paper);
  color: var(--warn-ink);
}
.warning h2 { font-size: 1.15rem; margin: 0 0 .6rem; }
.chip {
  display: inline-block; padding: 0 .55em; border: 1px solid var(--accent); border-radius: 1em;
  color: var(--accent); font: 600 .75rem/1.55 system-ui, "Liberation Sans", sans-serif;
  white-space: nowrap; vertical-align: .1em;
}
.chip.unproved { color: var(--warn-ink); border-color: var(--warn); background: var(--warn-paper); }
.promise {
  font-family: var(--serif); font-size: 1.12rem; line-height: 1.55; margin: 0 0 1.5rem;
  padding-left: 1.1rem; border-left: 3px solid var(--accent);
}
.promise.unproved { border-color: var(--warn); }
table { width: 100%; border-collapse: collapse; font-size: .95rem; margin: 0 0 1.25rem; }
th, td { text-align: left; padding: .6rem 0 .6rem 1.25rem; border-top: 1px solid var(--rule);
  vertical-align: baseline; }
th:first-child, td:first-child { padding-left: 0; }
thead th { border-top: 0; color: var(--quiet); font-weight: 500; font-size: .875rem; }
tbody th, tfoot th { font-weight: 500; }
tfoot th, tfoot td { border-top-color: var(--quiet); color: var(--quiet); }
.n { text-align: right; font-variant-numeric: tabular-nums lining-nums; white-space: nowrap; }
.number { white-space: nowrap; }
.events { margin: 0; }
.events td:first-child { white-space: nowrap; }
dl { margin: 0; font-size: .95rem; }
dl div { display: grid; grid-template-columns: minmax(9rem, 15rem) 1fr; gap: 1.25rem;
  padding: .45rem 0; border-top: 1px solid var(--rule); }
dt { color: var(--quiet); }
dd { margin: 0; font-variant-numeric: tabular-nums lining-nums; }
svg { display: block; max-width: 100%; height: auto; overflow: visible; }
svg text { font: 12.5px system-ui, "Liberation Sans", sans-serif; fill: var(--ink);
  font-variant-numeric: tabular-nums; }
svg .tick, svg .axis-name, svg .faint { fill: var(--quiet); }
svg .label { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }
svg .grid { stroke: var(--rule); }
svg .base { stroke: var(--quiet); }
svg .ceiling { stroke: var(--quiet); stroke-width: 1.5; stroke-dasharray: 6 5; }
svg .line { fill: none; stroke: var(--accent); stroke-width: 2; stroke-linejoin: round; }
svg .mark { fill: var(--accent); stroke: var(--paper); stroke-width: 1.5; }
svg .mark.unproved { fill: var(--paper); stroke: var(--warn); stroke-width: 2.5; }
figcaption { margin-top: .75rem; }
.narrow { display: none; }
@media (max-width: 640px) {
  .wide { display: none; }
  .narrow { display: block; }
  .results thead { display: none; }
  .results tr { display: block; padding: 1rem 0; border-top: 1px solid var(--rule); }
  .results tfoot tr { border-top-color: var(--quiet); }
  .results th, .results td { padding: 0; border: 0; }
  .results th { display: block; padding-bottom: .35rem; }
  .results td { display: flex; justify-content: space-between; gap: 1rem; }
  .results td::before { content: attr(data-name); color: var(--quiet); white-space: normal;
    text-align: left; }
  .events th + th, .events td + td { padding-left: .9rem; }
  dl div { grid-template-columns: 1fr; gap: 0; }
}
@media print {
  :root { --paper: #fff; }
  main { max-width: none; padding: 0; }
  article, figure, .warning, tr { break-inside: avoid; }
  .warning, .chip { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
