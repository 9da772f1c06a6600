"""Rebuild docs/reproductions/ from kept results: ``python -m benchmarks.reproductions``.

A full run of an entry is kept as ``results/reproduce_<paper>_<entry>.json``, the file that
``sfumato reproduce`` writes, or by cells as ``results/reproduce_<paper>_<entry>-<cell>.json``.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.recording import RESULTS
from benchmarks.reproductions.page import block_of, curves, figures
from benchmarks.reproductions.recorded import Recorded, from_runs
from sfumato.papers import PAPERS, Entry, entries_of

PAGES = Path(__file__).parents[2] / "docs" / "reproductions"
BEGIN, END = "<!-- results: python -m benchmarks.reproductions -->", "<!-- end of results -->"


def rebuild(folder: Path = PAGES) -> None:
    """Write the results on each paper's page, and a table of its figures."""
    for paper in PAPERS:
        found = [(entry, result_of(entry)) for entry in entries_of(paper)]
        if not found:  # a paper without tables and figures
            (folder / f"{paper}.md").write_text((PAGES / f"{paper}.md").read_text())
            continue
        above, rest = (PAGES / f"{paper}.md").read_text().split(BEGIN)
        page = f"{above}{BEGIN}\n{block_of(found)}\n{END}{rest.partition(END)[2]}"
        (folder / f"{paper}.md").write_text(page)
        (folder / f"{paper}.csv").write_text(figures(found))
        if paper == "feddpdr":
            (folder / "feddpdr_curves.csv").write_text(curves(found))


def result_of(entry: Entry) -> Recorded | None:
    """Return the kept result of an entry: its full run, and runs of some of its cells."""
    run = f"reproduce_{entry.paper}_{entry.name}"
    found = [path.stem for path in RESULTS.glob(f"{run}*.json")]
    found = sorted(name for name in found if name == run or name.startswith(f"{run}-"))
    return from_runs(*found) if found else None
