"""The words and tables of docs/reproductions.md."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.reproductions.recorded import Recorded
from sfumato.papers import Comparison, Entry, Outcome, Unrun, verdict_of

HEAD = """# What the papers print and what we measure

Built by `python -m benchmarks.reproductions` from the files under `benchmarks/results/`; run any of
it again with `sfumato reproduce` ({doc}`howto/reproduce`).

*Printed* is the figure of the paper. *Paper mode* runs the algorithm as printed, *strict mode* the
same task under a guarantee that is proved. An entry is **reproduced** if every printed figure is
met within the stated tolerance and every claim holds, and if nothing that breaks the printed
guarantee is needed for it: either the guarantee stands, or strict mode meets the figures too.
Where only a part of an entry was run, the verdict is about that part and says how much it is.
"""


def summary(found: Sequence[tuple[Entry, Recorded | None]]) -> str:
    """Make the table of a paper: one line an entry."""
    lines = ["| entry | what | verdict | took | from |", "|---|---|---|---|---|"]
    for entry, known in found:
        if known is None:
            lines.append(
                f"| {entry.name} | {entry.title} | no full run is kept | {entry.minutes} | |"
            )
            continue
        outcome = Outcome(known.comparisons, known.claims)
        verdict = verdict_of(entry, outcome, quick=False)
        verdict += f" ({known.covers})" if known.covers else ""
        sources = ", ".join(f"`{name}.json`" for name in known.sources)
        lines.append(f"| {entry.name} | {entry.title} | {verdict} | {known.time} | {sources} |")
    return "\n".join(lines) + "\n"


def entry_part(entry: Entry, known: Recorded) -> str:
    """Show the figures of an entry, what it claims and what a reader must know."""
    lines = [f"### {entry.paper}: {entry.name}\n", f"{entry.title}. Data: {entry.data}.\n"]
    if known.comparisons:
        lines += [_figures(known.comparisons)]
    lines += [
        f"- {'holds' if holds else '**fails**'}: {what}" for what, holds in known.claims.items()
    ]
    lines += [f"- {remark}" for remark in known.remarks]
    if entry.broken is not None:
        lines.append(f"- On the printed guarantee: {entry.broken}")
    lines.append(f"- Machine: {known.machine}.\n")
    return "\n".join(lines)


def _figures(rows: Sequence[Comparison]) -> str:
    lines = ["| | unit | printed | paper mode | strict mode | met |", "|---|---|--:|--:|--:|---|"]
    for row in rows:
        figures = " | ".join(_number(v, row.unit) for v in (row.printed, row.paper, row.strict))
        lines.append(f"| {row.what} | {row.unit} | {figures} | {_met(row)} |")
    return "\n".join(lines) + "\n"


def _met(row: Comparison) -> str:
    if row.agrees is None:
        return ""
    if row.agrees and row.agrees_strictly is False:
        return "paper mode"
    return "yes" if row.agrees else "no"


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if unit == "accuracy" else f"{value:.4g}"


def unrun_part(lacking: Sequence[Unrun]) -> str:
    """List what cannot be run, with the nearest public data."""
    if not lacking:
        return ""
    lines = [
        "Not run, since the data are not public:\n",
        "| entry | why | nearest |",
        "|---|---|---|",
    ]
    lines += [f"| {each.name} | {each.why} | {each.nearest} |" for each in lacking]
    return "\n".join(lines) + "\n"
