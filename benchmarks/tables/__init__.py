"""Rebuild benchmarks/README.md from the JSON of the last runs: ``python -m benchmarks.tables``.

One file for each family of sections; a section is an entry of its SECTIONS.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.drawing import title_of
from benchmarks.recording import RESULTS
from benchmarks.tables import (
    additive,
    auditing,
    engines,
    fabrication,
    faults,
    federated,
    foundations,
    functions,
    hulls,
    mappings,
    margins,
    peers,
    persons,
    service,
    spending,
)
from benchmarks.tables.charts import charts
from benchmarks.tables.page import HEAD, Sections, contents, section

FAMILIES = (
    *(peers, foundations, hulls, margins, fabrication, mappings, functions, federated, auditing),
    *(faults, additive, spending, persons, service, engines),
)
SECTIONS: Sections = {name: entry for family in FAMILIES for name, entry in family.SECTIONS.items()}


def rebuild() -> None:
    """Write the page and its charts from the results that are there."""
    folder = RESULTS.parent / "charts"
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    there = {name: title for name, (title, _) in SECTIONS.items() if _path(name).is_file()}
    parts = [HEAD, contents(list(there.values()))]
    for name, (title, text) in SECTIONS.items():
        if name in there:
            record = json.loads(_path(name).read_text())
            pictures = []
            for number, drawn in enumerate(charts(name, record["numbers"]), 1):
                file = folder / f"{name}-{number}.svg"
                file.write_text(drawn)
                pictures.append(f"![{title_of(drawn)}](charts/{file.name})")
            parts.append(section(title, text, record, pictures))
    (RESULTS.parent / "README.md").write_text("\n".join(parts))


def _path(name: str) -> Path:
    return RESULTS / f"{name}.json"
