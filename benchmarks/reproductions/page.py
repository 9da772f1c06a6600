"""The pages of docs/reproductions: a page and a table of figures per paper."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from benchmarks.reproductions.recorded import Recorded
from sfumato.papers import Comparison, Entry, Outcome, verdict_of

TABLE = "```{{csv-table}}\n:file: {}.csv\n:header-rows: 1\n```"
METHODS = ("FedDPDR-DPML, aligned", "FedDPDR-DPML", "DPDR-DPML", "DPML", "Non-Priv")
COLUMNS = (
    "entry",
    "what",
    "unit",
    "printed",
    "as printed",
    "±",
    "mended",
    "±",
    "met",
    "runs",
    "ran",
)


def block_of(found: Sequence[tuple[Entry, Recorded | None]]) -> str:
    """Return the part of a paper's page that the kept results write."""
    paper = found[0][0].paper
    table = TABLE.format(paper)
    opened = ":::{raw} html\n<details><summary>Show every figure</summary>\n:::"
    closed = ":::{raw} html\n</details>\n:::"
    lines = [TABLE.format(f"{paper}_curves")] if paper == "feddpdr" else []
    parts = [summary(found), *lines, *notes(found), "### Figures", opened, table, closed]
    return "\n\n".join(parts)


def summary(found: Sequence[tuple[Entry, Recorded | None]]) -> str:
    """Return the table of a paper: one line per entry."""
    lines = ["| entry | what | verdict | runs, CPU seconds | from |", "|---|---|---|---|---|"]
    for entry, known in found:
        if known is None:
            why = f"not run at full size; minutes: {entry.minutes}"
            lines.append(f"| {entry.name} | {entry.title} | {why} | | |")
            continue
        verdict: str = verdict_of(entry, Outcome(known.comparisons, known.claims), quick=False)
        judged = [row.agrees for row in known.comparisons if row.agrees is not None]
        verdict += f"; {sum(judged)} of {len(judged)} figures met" if judged else ""
        claims = known.claims.values()
        verdict += f"; {sum(claims)} of {len(claims)} claims hold" if claims else ""
        verdict += f" (cells {known.covers})" if known.covers else ""
        sources = ", ".join(f"`{name}`" for name in known.sources)
        lines.append(
            f"| {entry.name} | {entry.title} | {verdict} | {known.runs}, {known.cpu_seconds:.0f} "
            f"| {sources} |"
        )
    return "\n".join(lines)


def curves(found: Sequence[tuple[Entry, Recorded | None]]) -> str:
    """Return accuracies by method as CSV: one line per figure and data set, over the axis."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ("figure", "data", "runs", *METHODS[:0:-1], "signs aligned", "mended federation")
    )
    for entry, known in found:
        by: dict[tuple[str, int], dict[str, list[str]]] = {}
        for row, runs, _ in known.rows if known and entry.name.startswith("figure") else ():
            method = next(each for each in METHODS if row.what.endswith(each))
            shown = by.setdefault((row.what.partition(", ")[0], runs), {})
            shown.setdefault(method, []).append(f"{row.paper:.2f}")
            if method == METHODS[1]:
                shown.setdefault("mended", []).append(f"{row.strict:.2f}")
        for (data, runs), shown in by.items():
            cells = (" ".join(shown[each]) for each in (*METHODS[::-1], "mended"))
            writer.writerow((entry.name, data, runs, *cells))
    return text.getvalue()


def notes(found: Sequence[tuple[Entry, Recorded | None]]) -> list[str]:
    """Return what breaks the printed guarantee and what a reader must know, each once."""
    said: dict[str, list[str]] = {}
    for entry, known in found:
        broken = () if entry.broken is None else (f"**Printed guarantee.** {entry.broken}",)
        for remark in (*broken, *(known.remarks if known else ())):
            said.setdefault(remark, []).append(entry.name)
    lines = [
        f"- {text}" + ("" if len(names) == len(found) else f" ({', '.join(names)})")
        for text, names in said.items()
    ]
    return ["\n".join(lines)] * bool(lines)


def figures(found: Sequence[tuple[Entry, Recorded | None]]) -> str:
    """Return all figures and claims of a paper as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for entry, known in found:
        for row, *ran in known.rows if known else ():
            values = row.printed, row.paper, row.paper_sd, row.strict, row.strict_sd
            numbers = (_number(value, row.unit) for value in values)
            writer.writerow((entry.name, row.what, row.unit, *numbers, _met(row), *ran))
        for claim, holds in known.claims.items() if known else ():
            held = "yes" if holds else "no"
            writer.writerow((entry.name, claim, "claim", *[""] * 5, held, "", ""))
    return text.getvalue()


def _met(row: Comparison) -> str:
    if row.agrees is None:
        return ""
    if row.agrees and row.agrees_strictly is False:
        return "as printed"
    return "yes" if row.agrees else "no"


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if unit == "accuracy" else f"{value:.4g}"
