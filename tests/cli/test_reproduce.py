"""``sfumato reproduce`` from outside."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from sfumato.cli import reproduce as command
from sfumato.papers import Entry, Outcome, Reproduction, Setting, entries_of, reproduce as run_entry
from tests.cli.running import done, refused

CELL = ("reproduce", "kahm", "--table", "5", "--quick", "--cell")
QUICK = ("reproduce", "kahm", "--figure", "13", "--quick")


def test_the_figures_of_a_full_run_are_kept(tmp_path: Path) -> None:
    """A quick run is replaced by any other, a full one only if that is asked for."""
    done(*QUICK, "-o", tmp_path)
    done(*QUICK, "-o", tmp_path)
    kept = tmp_path / "kahm-figure-13.json"
    kept.write_text(kept.read_text().replace('"quick": true', '"quick": false'))
    assert "exists. Choose another name" in refused(*QUICK, "-o", tmp_path)
    assert '"quick": false' in kept.read_text()
    done(*QUICK, "-o", tmp_path, "--force")
    assert '"quick": true' in kept.read_text()


def test_wrong_names_are_answered_with_what_there_is(tmp_path: Path) -> None:
    assert "one of kahm, functions" in refused("reproduce", "hull")
    assert "no table-99 of 'kahm'. There are: table-3" in refused(
        "reproduce", "kahm", "--table", "99", "-o", tmp_path
    )
    assert "docs/reproductions/large-margin.md" in refused("reproduce", "large-margin")
    assert "named by eps, n. Got 'm'" in refused(*CELL, "m=1", "-o", tmp_path)
    assert "There are: eps=1,n=20;" in refused(*CELL, "eps=1,n=7", "-o", tmp_path)
    cell = "at=0.1 to 10, more large,data=X"
    assert "no such cell" in refused("reproduce", "feddpdr", "--figure", 5, "--cell", cell)
    assert "'--cell' must have the form" in refused("reproduce", "kahm", "--cell", "eps")
    assert list(tmp_path.iterdir()) == []


PAGE = Path(__file__).parents[2] / "docs" / "howto" / "reproduce.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_commands_of_the_page_choose_what_the_page_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without running them: some take hours."""
    chosen: list[tuple[int, bool]] = []

    def note(entry: Entry, setting: Setting) -> Reproduction:
        chosen.append((entry.paper == "kahm", setting.quick))
        return run_entry(replace(entry, run=lambda _: Outcome(())), setting)

    monkeypatch.setattr(command, "run_entry", note)
    monkeypatch.setattr(command, "keep", lambda found, folder: [])
    counts = []
    for line in blocks("console")[0].splitlines():
        chosen.clear()
        done(*shlex.split(line.removeprefix("$ sfumato "), comments=True), "-o", tmp_path)
        counts.append((len(chosen), {quick for _, quick in chosen}))
    whole = len(entries_of("all"))
    full = [(n, {False}) for n in (1, 1, 3)]
    exec(blocks("python")[0], {})
    assert counts == [(0, set()), (1, {True}), *full, (whole, {True})]
