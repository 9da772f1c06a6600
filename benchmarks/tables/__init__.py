"""Rebuild benchmarks/README.md from the JSON of the last runs: ``python -m benchmarks.tables``.

One file for each family of sections; a section is an entry of its SECTIONS.
"""

from __future__ import annotations

import json

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
from benchmarks.tables.page import HEAD, Sections, section

FAMILIES = (
    *(peers, foundations, hulls, margins, fabrication, mappings, functions, federated, auditing),
    *(faults, additive, spending, persons, service, engines),
)
SECTIONS: Sections = {name: entry for family in FAMILIES for name, entry in family.SECTIONS.items()}


def rebuild() -> None:
    """Write the page from the results that are there."""
    parts = [HEAD]
    for name, (title, text) in SECTIONS.items():
        path = RESULTS / f"{name}.json"
        if path.is_file():
            parts.append(section(title, text, json.loads(path.read_text())))
    (RESULTS.parent / "README.md").write_text("\n".join(parts))
