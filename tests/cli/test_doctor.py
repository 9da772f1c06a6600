"""What ``sfumato doctor`` finds on this machine, and what it misses."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run


@pytest.mark.parametrize(("package", "code"), [("duckdb", 0), ("scipy", 2)])
def test_it_tells_what_is_missing(
    package: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    real = metadata.version

    def without(name: str) -> Any:
        if name == package:
            raise metadata.PackageNotFoundError
        return real(name)

    monkeypatch.setattr(metadata, "version", without)
    ended = run("doctor", "--json")
    found = {row["subject"]: (row["state"], row["found"]) for row in json.loads(ended.stdout)}
    assert ended.exit_code == code
    assert found["numpy"] == ("ok", real("numpy"))
    state, needed = found[package]
    assert state == ("absent" if code == 0 else "wrong")
    assert needed == ("pip install 'sfumato[duckdb]'" if code == 0 else "pip install scipy")
    assert found["ledger"][0] == "ok"
    assert "ruff" not in found
    assert list(tmp_path.iterdir()) == []
