"""What a model says about its columns, on the command line and in a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import sfumato
from tests.cli.running import confirmed, done, patients
from tests.report.test_report import Reader


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    bounds = confirmed(patients(tmp_path, n=200))
    usual = ("--epsilon", "20", "--bounds", bounds, "--set", "n_steps=20")
    done("fit", "patients.csv", *usual, "-o", "model.sfumato")
    return "model.sfumato"


def test_a_report_explains_without_raw_rows(model: str) -> None:
    Path("patients.csv").unlink()  # nothing but released numbers is there to be read
    for form in ("html", "json"):
        done("report", model, "-o", f"report.{form}")
    page = Path("report.html").read_text()
    text = Reader(page).plain
    assert "What the model says" in text
    curves = sfumato.load(model).explain().curves
    assert page.count("<polygon") == sum(curve.is_number for curve in curves)
    names = {curve.name for curve in curves}
    assert all(name in text for name in names)
    record = json.loads(Path("report.json").read_text())["results"][0]["explanation"]
    assert {each["name"] for each in record["curves"]} == names
