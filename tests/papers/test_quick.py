"""Every entry runs on embedded data: finite figures, JSON and a picture."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from sfumato.papers import Entry, Setting, entries_of, keep, reproduce

# What a table is there to show, where a quick run shows it with overwhelming probability.
SURE = {
    ("hulls", "table-5"): ["accuracy grows with epsilon"],
    ("hulls", "figure-4"): None,
    ("hulls", "figure-6"): None,
    ("hulls", "figure-8"): None,
    ("hulls", "figure-12"): ["accuracy grows with epsilon"],
    ("hulls", "figure-13"): None,
    ("functions", "figure-1"): None,
    ("functions", "figure-2"): None,
    ("mappings", "table-3"): None,
}


@pytest.fixture(scope="module")
def setting() -> Setting:
    return Setting(quick=True, runs=1)


def grouped(entry: Entry) -> Any:
    """Let one worker run the entries that share measurements."""
    marks = [pytest.mark.xdist_group("reproduce-hulls")] if entry.paper == "hulls" else []
    return pytest.param(entry, marks=marks, id=f"{entry.paper}-{entry.name}")


@pytest.mark.parametrize("entry", [grouped(entry) for entry in entries_of("all")])
def test_a_quick_run_gives_finite_figures_and_files(
    entry: Entry, setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    found = reproduce(entry, setting)
    files = keep(found, tmp_path)
    kept = json.loads(files[0].read_text())
    assert kept["verdict"] == "quick run, too small to judge"
    assert kept["comparisons"] or kept["claims"]
    ours = [row[name] for row in kept["comparisons"] for name in ("paper", "strict")]
    assert all(math.isfinite(value) for value in ours if value is not None)
    assert not kept["comparisons"] or any(value is not None for value in ours)
    assert files[1].read_bytes().startswith(b"\x89PNG")
    assert_shown(entry, kept["claims"])


def assert_shown(entry: Entry, claims: dict[str, Any]) -> None:
    key = entry.paper, entry.name
    for claim in (SURE[key] or claims) if key in SURE else []:
        assert claims[claim], claim
