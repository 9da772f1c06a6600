"""Bad input: one clear line, no half-written output, and the ledger's charge is kept."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato import Ledger, load
from sfumato.tables.files import write_table
from tests.cli.running import confirmed, done, patients, refused


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    patients(tmp_path)
    confirmed(Path("patients.csv"))
    done("budget", "create", "budget.db", "ward", "--epsilon", "9", "--delta", "1e-5")
    return tmp_path


def fitted(table: str, bounds: str = "patients.toml") -> tuple[Any, ...]:
    usual = ("fit", table, "--model", "gaussian", "--epsilon", "1")  # which charges, then reads
    words = (*usual, "--bounds", bounds, "-o", "model.sfumato")
    return (*words, "--ledger", "budget.db", "--force")


def spent() -> float:
    return Ledger("budget.db").dataset("ward").spent()


def nothing_was_written() -> bool:
    names = {path.name for path in Path().iterdir()}
    return not {name for name in names if name.endswith((".sfumato", ".part"))}


# The command line with sums so slow that nobody waits for their end. A job that a shell started in
# the background would ignore Ctrl-C, and its children with it.
SLOW_SUMS = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from sfumato.cli.main import app
from sfumato.models.budget import Budget
Budget.draw = lambda *_, **__: time.sleep(600)
app(sys.argv[1:])
"""


def test_ctrl_c_in_the_middle(folder: Path) -> None:
    rng = np.random.default_rng(0)
    table = {f"x{i}": rng.random(500) for i in range(4)} | {"ill": rng.choice(["no", "yes"], 500)}
    write_table(pa.table(table), Path("rows.parquet"))
    bounds = confirmed(Path("rows.parquet"))
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_SUMS, *map(str, fitted("rows.parquet", bounds))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while spent() == 0:  # the charge comes before the draw
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=900)
    assert process.returncode == 130, errors
    assert output == ""
    assert errors.splitlines()[-1].startswith("sfumato: interrupted")
    assert "Traceback" not in errors
    assert spent() > 0
    assert nothing_was_written()
    assert "The chain is intact: 1 dataset" in done("budget", "verify", "budget.db")


def test_a_full_disk_is_refused_before_the_charge(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1e6))
    assert "1.0 MB free" in refused(*fitted("patients.csv"))
    assert spent() == 0
    assert nothing_was_written()


def test_what_was_paid_for_is_written_elsewhere_if_its_own_place_fails(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    real = Path.replace

    def full(self: Path, target: Path) -> Path:
        if Path(target).name == "model.sfumato":
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", full)
    line = refused(*fitted("patients.csv"))
    assert "No space left" in line
    assert "rescued-model.sfumato" in line
    assert spent() > 0
    assert load(home / "rescued-model.sfumato").guarantee_.epsilon == 1.0
    assert nothing_was_written()
