"""The report on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato import load
from sfumato.report.words import LIMITS
from tests.cli.running import confirmed, done, patients
from tests.report.test_report import Reader


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a paid model and private rows."""
    monkeypatch.chdir(tmp_path)
    bounds = confirmed(patients(tmp_path).relative_to(tmp_path))
    done("budget", "create", "budget.db", "ward", "--epsilon", "60", "--delta", "1e-5")
    defaults = ("--epsilon", "20", "--delta", "1e-6", "--bounds", bounds, "--ledger", "budget.db")
    done(
        "fit",
        "patients.csv",
        "--model",
        "additive",
        "--set",
        "n_steps=20",
        *defaults,
        "-o",
        "model.sfumato",
    )
    done("fabricate", "patients.csv", *defaults, "-o", "private.parquet")
    return tmp_path


def test_a_report_has_promise_ledger_and_limits_only(folder: Path) -> None:
    words = ("report", "model.sfumato", "private.parquet", "--ledger", "budget.db")
    assert "report on model.sfumato" in done(*words, "--title", "Our ward", "-o", "report.html")
    page = Path("report.html").read_text()
    text = Reader(page).plain
    assert "Our ward" in text
    assert text.count("Proved: replacing any one record") == 4  # large, and in detail
    assert "Budget of “ward”: epsilon 60" in text
    assert "docs/guarantees/additive.md" in text
    assert all(limit in text for limit in LIMITS)
    assert "accuracy" not in text.lower()
    curves = load("model.sfumato").explain().curves  # released numbers, drawn
    assert page.count("<polygon") == sum(curve.is_number for curve in curves)
    assert all(curve.name in text for curve in curves)
