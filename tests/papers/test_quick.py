"""Every entry runs on embedded data: finite figures, JSON and a picture."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sfumato.papers import Entry, Setting, data, entries_of, keep, reproduce
from sfumato.papers.cdmma import office

# What a table is there to show, where a quick run shows it with overwhelming probability.
SURE = {
    ("kahm", "table-5"): ["accuracy grows with epsilon"],
    ("kahm", "figure-4"): None,
    ("kahm", "figure-6"): None,
    ("kahm", "figure-8"): None,
    ("kahm", "figure-12"): ["accuracy grows with epsilon"],
    ("kahm", "figure-13"): None,
    ("functions", "figure-1"): None,
    ("functions", "figure-2"): None,
    ("cdmma", "table-3"): None,
}


@pytest.fixture(scope="module")
def setting() -> Setting:
    return Setting(quick=True, runs=1)


def grouped(entry: Entry) -> Any:
    """Let one worker run the entries that share measurements."""
    marks = [pytest.mark.xdist_group("reproduce-kahm")] if entry.paper == "kahm" else []
    return pytest.param(entry, marks=marks, id=f"{entry.paper}-{entry.name}")


def of_a_family(entry: Entry) -> bool:
    """Whether this is one of the twelve pairs of domains that are one function."""
    return isinstance(entry.run, partial) and entry.run.func is office.pair


def chosen() -> list[Entry]:
    """All entries, and of the pairs of domains the first and the last."""
    family = [entry for entry in entries_of("all") if of_a_family(entry)]
    assert len(family) == 12
    return [e for e in entries_of("all") if e.paper not in ("kahm", "cdmma")]


@pytest.fixture(autouse=True)
def fewer_digits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the digits is enough where nothing is claimed of a quick run."""
    entry = request.node.callspec.params["entry"]
    if entry.paper in ("cdmma", "large-margin") and (entry.paper, entry.name) not in SURE:
        whole = data.digits()
        few = data.Split(whole.X[::4], whole.y[::4], whole.X_test[::4], whole.y_test[::4])
        for module in (data, office):
            monkeypatch.setattr(module, "digits", lambda: few)


@pytest.mark.parametrize("entry", [grouped(entry) for entry in chosen()])
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
