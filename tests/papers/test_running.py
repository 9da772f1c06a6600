"""An entry is run, judged and kept."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.exceptions import InvalidInputError, RefutedGuaranteeWarning
from sfumato.papers import Comparison, Entry, Outcome, Setting, keep, reproduce, running

ROWS = (Comparison("a row", 0.9, 0.91, None, within=0.02), Comparison("another", None, 0.5, 0.4))


def an_entry(outcome: Outcome, **about: Any) -> Entry:
    return Entry("kahm", "table-1", "A table", lambda _: outcome, **about)


def test_the_outcome_is_judged_and_timed() -> None:
    found = reproduce(an_entry(Outcome(ROWS)))
    assert found.verdict == "reproduced"
    assert found.seconds >= 0
    quick = reproduce(an_entry(Outcome(ROWS)), Setting(quick=True))
    assert quick.verdict == "quick run, too small to judge"


def test_the_entry_gets_the_setting() -> None:
    seen = []

    def run(setting: Setting) -> Outcome:
        setting.tell("half way")
        return Outcome((Comparison("runs", 1.0, float(setting.runs), None),))

    entry = Entry("kahm", "table-1", "A table", run)
    found = reproduce(entry, Setting(runs=7, tell=seen.append))
    assert found.outcome.comparisons[0].paper == 7.0
    assert seen == ["half way"]


def test_fewer_than_one_run_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"'runs' must be at least 1\. Got 0"):
        reproduce(an_entry(Outcome(ROWS)), Setting(runs=0))


def test_the_verdict_stands_for_the_warning_of_a_refuted_guarantee() -> None:
    def run(_: Setting) -> Outcome:
        warnings.warn("keeps no promise", RefutedGuaranteeWarning, stacklevel=1)
        return Outcome(ROWS)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reproduce(Entry("kahm", "table-1", "A table", run, broken="It fails."))


def test_what_is_kept_can_be_read_again(tmp_path: Path) -> None:
    series = {"x": np.arange(3.0), "n": np.int64(2), "name": "curve"}
    outcome = Outcome(ROWS, {"it grows": True}, series, remarks=("A note.",))
    found = reproduce(an_entry(outcome, broken="It fails."))
    files = keep(found, tmp_path / "new" / "folder")
    assert [file.name for file in files] == ["kahm-table-1.json", "kahm-table-1.png"]
    kept = json.loads(files[0].read_text())
    assert kept["verdict"] == found.verdict
    assert kept["comparisons"][0]["agrees"] is True
    assert kept["comparisons"][1]["printed"] is None
    assert kept["series"] == {"x": [0.0, 1.0, 2.0], "n": 2, "name": "curve"}
    assert kept["claims"] == {"it grows": True}
    assert {"machine", "seconds", "versions", "remarks", "broken", "data"} <= set(kept)
    assert files[1].read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_not_kept(tmp_path: Path, value: float) -> None:
    found = reproduce(an_entry(Outcome((Comparison("a row", 0.9, value, None),))))
    with pytest.raises(ValueError, match="JSON"):
        keep(found, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_picture_that_fails_leaves_the_older_one(tmp_path: Path) -> None:
    def broken(figure: Any, series: Mapping[str, Any]) -> None:
        raise RuntimeError("no picture")

    good, bad = (
        reproduce(an_entry(Outcome(ROWS))),
        reproduce(an_entry(Outcome(ROWS, draw=broken))),
    )
    _, picture = keep(good, tmp_path)
    before = picture.read_bytes()
    with pytest.raises(RuntimeError, match="no picture"):
        keep(bad, tmp_path)
    assert picture.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def test_without_matplotlib_the_numbers_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "can_draw", lambda: False)
    files = keep(reproduce(an_entry(Outcome(ROWS))), tmp_path)
    assert [file.suffix for file in files] == [".json"]


def test_an_entry_without_figures_still_gets_its_picture(tmp_path: Path) -> None:
    def draw(figure: Any, series: Mapping[str, Any]) -> None:
        figure.add_subplot().plot(series["x"])

    outcome = Outcome((), {"it grows": True}, {"x": [1, 2]}, draw)
    _, picture = keep(reproduce(an_entry(outcome)), tmp_path)
    assert picture.stat().st_size > 1000
