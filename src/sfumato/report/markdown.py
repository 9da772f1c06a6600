"""The report as Markdown."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from sfumato.report.chart import number
from sfumato.report.explanations import HEADS, summary_rows
from sfumato.report.federation import PARTY_HEADS, Parties, party_rows
from sfumato.report.officer import first_pages
from sfumato.report.parts import LedgerExtract
from sfumato.report.words import (
    LIMITS,
    RAW,
    coverage,
    event_rows,
    facts,
    figure_names,
    figures,
    sensitive_figures,
    standing,
    together_sentence,
)

if TYPE_CHECKING:
    from sfumato.report.report import Report, Result

__all__ = ["markdown", "officer_lines"]

LINE = "________________"


def _md(text: str) -> str:
    """Make text mean itself in Markdown: one line, no markup, no HTML."""
    line = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"([\\`*_\[\]|#~!])", r"\\\1", line)


def markdown(report: Report) -> str:
    """Give the whole report."""
    results = [line for result in report.results for line in _guarantee_lines(result)]
    lines = [
        *(f"# {_md(report.title)}", "", f"Privacy report, {report.when.isoformat()}", ""),
        *_warning_lines(report),
        *officer_lines(report, _md),
        *_result_lines(report),
        *_explanation_lines(report),
        *_party_lines(report),
        *_ledger_lines(report.ledger),
        *_sensitive_lines(report),
        *("## Guarantees", "", *results),
        *_declared_lines(report),
        *("## What this does not protect", "", *(f"- {_md(limit)}" for limit in LIMITS), ""),
        *_pair_lines("Settings", report.settings),
        *_pair_lines("Software", report.versions),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _declared_lines(report: Report) -> list[str]:
    """Give what was declared public, with values."""
    facts = dict.fromkeys(each for result in report.results for each in result.declared.items())
    if not facts:
        return []
    rows = [f"| {_md(name)} | {_md(value)} |" for name, value in facts]
    return ["## What was declared, in full", "", "| Declared | Value |", "|---|---|", *rows, ""]


def _explanation_lines(report: Report) -> list[str]:
    """Give what models say about their columns: released numbers only."""
    lines: list[str] = []
    for result in report.results:
        if result.explanation is not None:
            about = f"What each column adds to {result.explanation.scores[-1]}."
            rows = [_row(row) for row in summary_rows(result.explanation)]
            rule = "|---|" + "---:|" * (len(HEADS) - 1)
            lines += [f"### {_md(result.name)}", "", _md(about), "", _row(HEADS), rule, *rows, ""]
            lines += [_md(result.explanation.note), ""]
    return ["## What the model says", "", *lines] if lines else []


def _party_lines(report: Report) -> list[str]:
    """Give who took part in a federation, and what was seen."""
    lines: list[str] = []
    for result in report.results:
        if result.federation is not None:
            parties = Parties.of(result.federation)
            table = [_row(PARTY_HEADS), "|" + "---|" * len(PARTY_HEADS)]
            table += [_row(line) for line in party_rows(parties)]
            lines += [_md(parties.sentence), "", *table, ""]
    return ["## The federation", "", *lines] if lines else []


def _ledger_lines(extract: LedgerExtract | None) -> list[str]:
    if extract is None:
        return []
    figures = (
        f"Budget of {_md(extract.name)}: epsilon {number(extract.epsilon)} at delta "
        f"{extract.delta:g}, spent {number(extract.spent)}, left {number(extract.left)}."
    )
    rows = [_row(line) for line in extract.lines]
    table = ["| When (UTC) | Release | Parameters |", "|---|---|---|", *rows] if rows else []
    return ["## What was released when", "", figures, "", *table, ""]


def _sensitive_lines(report: Report) -> list[str]:
    """Give what was measured on raw rows, under a heading that says so."""
    lines = [
        f"- {_md(name)}: " + ", ".join(map(_md, _named(report.metric_names, values)))
        for name, *values in sensitive_figures(report)
    ]
    lines += [
        f"- {_md(metric)} at epsilon {number(epsilon)}: {number(value)}"
        for metric, points in report.curve.items()
        for epsilon, value in points
    ]
    lines += [
        f"- {_md(each.column)}: distance of fabricated and real {number(each.distance, '.3f')}"
        for each in report.marginals
    ]
    if report.audit is not None:
        lines.append(f"- {_md(report.audit.title)}: {_md(report.audit.verdict)}")
        lines += [f"- {_md(k)}: {number(v)}" for k, v in report.audit.figures.items()]
    return ["## Sensitive", "", f"**{RAW}**", "", *lines, ""] if lines else []


def _named(names: Sequence[str], values: Sequence[str]) -> list[str]:
    return [f"{name} {value}" for name, value in zip(names, values, strict=True)]


def _warning_lines(report: Report) -> list[str]:
    if not report.warnings:
        return []
    warned = [f"> - {_md(warning)}" for warning in report.warnings]
    return ["> **WARNING: not everything here is proved**", ">", *warned, ""]


def _result_lines(report: Report) -> list[str]:
    heads = [[result.name, standing(result.guarantee)] for result in report.results]
    heads.append(["Without privacy", "–"])
    lines = [_row([*head, *cells]) for head, cells in zip(heads, figures(report), strict=False)]
    names = ["Release", "Status", *figure_names(report)]
    rule = "|---|---|" + "---:|" * (len(names) - 2)
    notes = [
        line
        for note in (together_sentence(report), coverage(report))
        if note
        for line in (note, "")
    ]
    return ["## Results", "", _row(names), rule, *lines, "", *notes]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_md, cells)) + " |"


def _guarantee_lines(result: Result) -> list[str]:
    guarantee = result.guarantee
    lines = [f"### {_md(result.name)}", "", f"> {_md(str(guarantee))}", ""]
    lines += [f"- {name}: {_md(value)}" for name, value in facts(guarantee)]
    for title, items in (
        ("Conditions", guarantee.conditions),
        ("Assumed public", guarantee.public),
        ("Notes", result.notes),
    ):
        lines += [f"- {title}: {_md(str(item))}" for item in items]
    events = [_row(row) for row in event_rows(guarantee)]
    table = ["| Event | Parameters | Times |", "|---|---|---:|", *events] if events else []
    return [*lines, "", *table, ""]


def _pair_lines(title: str, values: Mapping[str, str]) -> list[str]:
    pairs = [f"- {_md(name)}: {_md(value)}" for name, value in values.items()]
    return [f"## {title}", "", *pairs, ""] if pairs else []


# The officer's pages: the same words as on the page, read off its HTML --------------------------


def officer_lines(report: Report, plain: Callable[[str], str]) -> list[str]:
    """Give the lines of the first two pages; pictures are left out, their text says the same.

    plain: Makes text mean itself in Markdown.
    """
    reader = _Reader(plain)
    reader.feed(first_pages(report))
    return reader.lines


class _Reader(HTMLParser):
    """Reads the few elements that the pages are made of."""

    def __init__(self, plain: Callable[[str], str]) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._plain = plain
        self._text: list[str] = []
        self._cells: list[str] = []
        self._hidden = 0  # depth inside of pictures
        self._is_line = False
        self._after = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element."""
        if tag == "figure":
            self._hidden += 1
        if tag in ("h2", "p", "li", "th", "td", "dt"):
            self._text = []
            self._is_line = ("class", "line") in attrs
        if tag == "tr":
            self._cells = []
        if tag == "dd":
            self._text.append(": ")
        if tag == "span" and ("class", "number") not in attrs and dict(attrs).get("class"):
            self._text.append("Signal: ")
            self._after = "."

    def handle_data(self, data: str) -> None:
        """Take its text."""
        if not self._hidden:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        """Write it as a line, a row or a heading."""
        if tag == "figure":
            self._hidden -= 1
            return
        if tag == "span":
            self._text.append(self._after)
            self._after = ""
            return
        said = self._plain("".join(self._text))
        if tag == "h2":
            self.lines += [f"## {said}", ""]
        elif tag == "p":
            self.lines += [f"{said}: {LINE}" if self._is_line else said, ""]
        elif tag in ("li", "dd"):
            self.lines.append(f"- {said}")
        elif tag in ("ul", "dl", "table"):
            self.lines.append("")
        elif tag in ("th", "td"):
            self._cells.append(said)
        elif tag == "tr":
            self.lines.append("| " + " | ".join(self._cells) + " |")
        elif tag == "thead":
            self.lines.append("|" + "---|" * len(self._cells))
