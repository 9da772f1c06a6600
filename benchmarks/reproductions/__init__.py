"""Rebuild docs/reproductions/ from kept results: ``python -m benchmarks.reproductions``.

A full run of an entry is kept as ``results/reproduce_<paper>_<entry>.json``, the file that
``sfumato reproduce`` writes. Where a benchmark measured the same experiment, a module named like
the paper says in its ``RECORDED`` how the numbers of that benchmark fill the entry.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from benchmarks.recording import RESULTS
from benchmarks.reproductions.page import block_of, figures
from benchmarks.reproductions.recorded import Recorded, from_run
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
