"""Rebuild docs/reproductions.md from kept results: ``python -m benchmarks.reproductions``.

A full run of an entry is kept as ``results/reproduce_<paper>_<entry>.json``, the file that
``sfumato reproduce`` writes. Where a benchmark measured the same experiment, a module named like
the paper says in its ``RECORDED`` how the numbers of that benchmark fill the entry.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from benchmarks.recording import RESULTS
from benchmarks.reproductions.page import HEAD, entry_part, summary, unrun_part
from benchmarks.reproductions.recorded import Recorded, from_run
from sfumato.papers import PAPERS, Entry, entries_of, unrun_of

PAGE = Path(__file__).parents[2] / "docs" / "reproductions.md"


def rebuild(page: Path = PAGE) -> None:
    """Write the page from the results that are there."""
    parts = [HEAD]
    for paper, title in PAPERS.items():
        found = [(entry, result_of(entry)) for entry in entries_of(paper)]
        parts += [f"## {paper}\n", f"{title}.\n", summary(found)]
        parts += [entry_part(entry, known) for entry, known in found if known is not None]
        parts.append(unrun_part(unrun_of(paper)))
    page.write_text("\n".join(part for part in parts if part))


def result_of(entry: Entry) -> Recorded | None:
    """Return the kept result of an entry: its own run, or the benchmark that measured the same."""
    run = f"reproduce_{entry.paper}_{entry.name}"
    if (RESULTS / f"{run}.json").is_file():
        return from_run(run)
    name = f"benchmarks.reproductions.{entry.paper.replace('-', '_')}"
    try:
        fill = import_module(name).RECORDED.get(entry.name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None
    return None if fill is None else fill()
