"""What ``sfumato doctor`` finds on this machine, and what it misses."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from sfumato.mechanisms.entropy import drawing_from, seeded
from tests.cli.running import run


def told() -> tuple[int, dict[str, tuple[str, str]]]:
    ended = run("doctor", "--json")
    rows = json.loads(ended.stdout)
    return ended.exit_code, {row["subject"]: (row["state"], row["found"]) for row in rows}


def test_it_tells_what_is_missing_and_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SFUMATO_DATA", raising=False)
    real = metadata.version

    def without_duckdb(name: str) -> Any:
        if name == "duckdb":
            raise metadata.PackageNotFoundError
        return real(name)

    monkeypatch.setattr(metadata, "version", without_duckdb)
    with drawing_from(None):
        code, found = told()
    assert code == 0
    assert found["numpy"] == ("ok", real("numpy"))
    assert found["duckdb"] == ("absent", "pip install 'sfumato[duckdb]'")
    assert found["data folder"][0] == "absent"
    assert found["random numbers"][0] == found["ledger"][0] == "ok"
    assert "ruff" not in found
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("SFUMATO_DATA", str(tmp_path / "nowhere"))
    with seeded(0):
        code, found = told()
    assert code == 2
    assert {name for name, (state, _) in found.items() if state == "wrong"} == {
        "random numbers",
        "data folder",
    }
