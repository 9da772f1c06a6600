"""The page of kept results is what the results say."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.papers import Comparison, Entry, Outcome, entries_of, keep, reproduce, unrun_of

pages = pytest.importorskip("benchmarks.reproductions")
from benchmarks.reproductions import page as words, recorded as kept  # noqa: E402


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


def test_a_kept_run_is_read_as_it_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (Comparison("a row", 0.9, 0.95, 0.8, 0.1, "higher", "mis"),)
    outcome = Outcome(rows, {"it grows": True}, remarks=("A note.",))
    entry = Entry("kahm", "table-1", "A table", lambda _: outcome)
    file, *_ = keep(reproduce(entry), tmp_path)
    file.rename(tmp_path / "reproduce_kahm_table-1.json")
    for module in (pages, kept):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    found = pages.result_of(entry)
    assert found.comparisons == rows
    assert found.claims == {"it grows": True}
    assert found.remarks == ("A note.",)
    assert found.sources == ("reproduce_kahm_table-1",)
    assert words.summary([(entry, found)]).count("| reproduced |") == 1


def test_an_entry_without_results_says_so() -> None:
    entry = Entry("large-margin", "table-99", "A table", lambda _: Outcome(()))
    assert pages.result_of(entry) is None
    assert "no full run is kept" in words.summary([(entry, None)])


def test_a_figure_that_strict_mode_misses_is_marked() -> None:
    def shown(*figures: float | None) -> str:
        return words._met(Comparison("a row", *figures, within=0.01))

    assert shown(0.9, 0.9, 0.9) == "yes"
    assert shown(0.9, 0.9, 0.8) == "paper mode"
    assert shown(0.9, 0.8, 0.9) == "no"
    assert shown(None, 0.9, 0.9) == ""


def test_what_only_a_part_was_run_of_says_how_much() -> None:
    entry = entries_of("kahm")[0]
    found = pages.result_of(entry)
    assert found.covers in words.summary([(entry, found)])
