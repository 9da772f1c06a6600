"""The page of kept results is what the results say."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.papers import entries_of, unrun_of

pages = pytest.importorskip("benchmarks.reproductions")


def test_the_page_is_what_the_results_say(tmp_path: Path) -> None:
    pages.rebuild(tmp_path)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert made == {name: (pages.PAGES / name).read_text() for name in made}
    assert {path.name for path in pages.PAGES.iterdir()} == {*made, "index.md"}


def test_every_entry_and_every_kept_run_is_shown() -> None:
    shown = "".join(path.read_text() for path in pages.PAGES.glob("*.md"))
    for entry in entries_of("all"):
        assert f"| {entry.name} | {entry.title} |" in shown
    for each in unrun_of("all"):
        assert f"| {each.name} | {each.why} |" in shown
    runs = {path.stem for path in pages.RESULTS.glob("reproduce_*.json")}
    assert runs == {f"reproduce_{e.paper}_{e.name}" for e in entries_of("all")} & runs
    for name in runs:
        assert f"`{name}`" in shown
