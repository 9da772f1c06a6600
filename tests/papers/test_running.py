"""An entry is run, judged and kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sfumato.papers import Comparison, Entry, Outcome, Setting, keep, reproduce

ROWS = (Comparison("a row", 0.9, 0.91, None, within=0.02), Comparison("another", None, 0.5, 0.4))


def test_what_is_kept_can_be_read_again(tmp_path: Path) -> None:
    series = {"a panel": {"curve": np.arange(4.0).reshape(2, 2)}}
    outcome = Outcome(ROWS, {"it grows": True}, series, remarks=("A note.",))
    setting = Setting(runs=2, cell={"eps": "1"})
    about = {"broken": "It fails.", "cells": ("eps",)}
    found = reproduce(Entry("kahm", "table-1", "A table", lambda _: outcome, **about), setting)
    files = keep(found, tmp_path / "new" / "folder")
    assert [file.name for file in files] == ["kahm-table-1-eps-1.json", "kahm-table-1-eps-1.png"]
    kept = json.loads(files[0].read_text())
    assert kept["command"] == "sfumato reproduce kahm --table 1 --cell eps=1 --runs 2"
    assert (kept["verdict"], kept["runs"]) == (found.verdict, 2)
    assert kept["comparisons"][0]["agrees"] is True
    assert kept["comparisons"][1]["printed"] is None
    assert kept["series"] == {"a panel": {"curve": [[0.0, 1.0], [2.0, 3.0]]}}
    assert kept["claims"] == {"it grows": True}
    assert {"machine", "seconds", "versions", "remarks", "broken", "data"} <= set(kept)
    assert files[1].read_bytes().startswith(b"\x89PNG")
