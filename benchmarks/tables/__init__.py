"""Rebuild the pages from the JSON of the last runs: ``python -m benchmarks.tables``.

benchmarks/README.md is the first page, benchmarks/measured/ has one for each chapter. A chapter is
the SECTIONS of one file here, a section the numbers of one results file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
from benchmarks.tables.page import HEAD, Picture, Sections, chapter, opening, section

# A page for each: name of the page, its sections, its title, what it measures.
CHAPTERS = (
    ("peers", peers, "Other packages", "The same rows, bounds and epsilon for everyone."),
    ("tables", additive, "Models of tables", "Additive and linear models of columns."),
    ("linear", margins, "Linear and large-margin classifiers", "Accuracy, mostly on images."),
    ("fabrication", fabrication, "Synthetic rows", "What can be learned from fabricated rows."),
    ("functions", functions, "Densities, curves, kernel machines", "Released functions."),
    ("hulls", hulls, "Kernel affine hulls", "Without privacy: accuracy and speed."),
    ("transfer", mappings, "Membership mappings and transfer", "From a source with many labels."),
    ("parties", federated, "Several parties", "Sums and models over parties."),
    ("persons", persons, "Several rows per person", "Protecting all rows of a person."),
    ("search", spending, "Search for settings", "One charge for all settings; runs of others."),
    ("auditing", auditing, "Audits and attacks", "What attacks find, and what they miss."),
    ("engines", engines, "Large tables", "Tables larger than memory, and many workers."),
    ("foundations", foundations, "Noise, moments, reading the code", "What the rest stands on."),
    ("service", service, "The service", "Load, memory and sudden deaths."),
    ("faults", faults, "Faults", "Interrupts, kills and damaged files."),
)
SECTIONS: Sections = {
    name: entry for _, family, *_ in CHAPTERS for name, entry in family.SECTIONS.items()
}
FRONT_CHARTS = 1  # of each chapter on the first page


def rebuild() -> None:
    """Write the first page, the pages of the chapters and their charts from the results."""
    root = RESULTS.parent
    for name, kind in (("charts", "*.svg"), ("measured", "*.md")):
        (root / name).mkdir(exist_ok=True)
        for old in (root / name).glob(kind):
            old.unlink()
    parts = [HEAD]
    for page, family, title, about in CHAPTERS:
        there = {name: entry for name, entry in family.SECTIONS.items() if _path(name).is_file()}
        drawn = {name: _draw(name) for name in there}
        sections = [section(there[name], _record(name), drawn[name]) for name in there]
        titles = [title for title, _ in there.values()]
        (root / "measured" / f"{page}.md").write_text(chapter(title, about, titles, sections))
        pictures = [picture for pictures in drawn.values() for picture in pictures]
        parts.append(opening(page, title, about, titles, pictures[:FRONT_CHARTS]))
    (root / "README.md").write_text("\n".join(parts))


def _draw(name: str) -> list[Picture]:
    """Draw the charts of a result and keep them."""
    pictures = []
    for number, drawn in enumerate(charts(name, _record(name)["numbers"]), 1):
        file = RESULTS.parent / "charts" / f"{name}-{number}.svg"
        file.write_text(drawn)
        pictures.append((title_of(drawn), file.name))
    return pictures


def _record(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(_path(name).read_text())
    return record


def _path(name: str) -> Path:
    return RESULTS / f"{name}.json"
