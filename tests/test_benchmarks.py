"""Every number in the benchmark page comes from a kept JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

# Kept as evidence of how a rule was chosen; the pages that speak of them name the file.
NOT_SHOWN = {"margins_heldout"}
REPRODUCTIONS = "reproduce_"  # shown on a page of their own


def test_the_page_is_what_the_results_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = pytest.importorskip("benchmarks.tables")
    page = tables.RESULTS.parent / "README.md"
    kept = page.read_text()
    results = tmp_path / "results"
    results.mkdir()
    for path in tables.RESULTS.glob("*.json"):
        (results / path.name).write_text(path.read_text())
    monkeypatch.setattr(tables, "RESULTS", results)
    tables.rebuild()
    assert (tmp_path / "README.md").read_text() == kept
    shown = [name for name in tables.SECTIONS if (results / f"{name}.json").exists()]
    assert kept.count("## ") == len(shown)


def test_every_result_is_shown() -> None:
    tables = pytest.importorskip("benchmarks.tables")
    paths = tables.RESULTS.glob("*.json")
    kept = {path.stem for path in paths if not path.stem.startswith(REPRODUCTIONS)}
    assert kept <= set(tables.SECTIONS) | NOT_SHOWN
