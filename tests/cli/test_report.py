"""The report on the command line: what goes in by itself, and what only on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sfumato.report.words import LIMITS, RAW
from tests.cli.running import confirmed, done, patients, refused
from tests.report.test_report import Reader, an_audit


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a paid model, private rows, later rows and an audit."""
    monkeypatch.chdir(tmp_path)
    bounds = confirmed(patients(tmp_path).relative_to(tmp_path))
    patients(tmp_path, "later.csv", n=150)
    done("budget", "create", "budget.db", "ward", "--epsilon", "60", "--delta", "1e-5")
    usual = ("--epsilon", "20", "--delta", "1e-6", "--bounds", bounds, "--ledger", "budget.db")
    done("fit", "patients.csv", "--model", "gaussian", *usual, "-o", "model.sfumato")
    done("fabricate", "patients.csv", *usual, "-o", "private.parquet")
    Path("audit.json").write_text(json.dumps(an_audit("Membership")))
    return tmp_path


def test_an_ordinary_report_has_promise_ledger_and_limits_only(folder: Path) -> None:
    words = ("report", "model.sfumato", "private.parquet", "--ledger", "budget.db")
    assert "report on model.sfumato" in done(*words, "--title", "Our ward", "-o", "report.html")
    text = Reader(Path("report.html").read_text()).plain
    assert "Our ward" in text
    assert text.count("Proved: replacing any one record") == 4  # large, and in detail
    assert "Budget of “ward”: epsilon 60" in text
    assert "docs/guarantees/gaussian-classifier.md" in text
    assert all(limit in text for limit in LIMITS)
    assert RAW not in text
    assert "accuracy" not in text.lower()


def test_what_is_sensitive_needs_the_word(folder: Path) -> None:
    for words in (("--test", "later.csv"), ("--train", "patients.csv"), ("--audit", "audit.json")):
        line = refused("report", "model.sfumato", "-o", "report.html", *words)
        assert "--sensitive" in line
    assert not Path("report.html").exists()


def test_a_sensitive_report_measures_and_says_so(folder: Path) -> None:
    files = ("model.sfumato", "private.parquet")
    raw = ("--test", "later.csv", "--train", "patients.csv", "--audit", "audit.json")
    output = done("report", *files, "--sensitive", *raw, "-o", "report.json")
    assert "not for release" in output
    record = json.loads(Path("report.json").read_text())
    assert [result["metrics"] for result in record["results"]] == [{}, {}]
    assert record["ceiling"] == {}
    model, rows = record["sensitive"]["metrics"]
    assert model["accuracy"] > 0.7
    assert record["sensitive"]["ceiling"]["accuracy"] > 0.8
    assert [epsilon for epsilon, _ in record["sensitive"]["curve"]["accuracy"]] == [0.3, 1, 3, 10]
    columns = [each["column"] for each in record["sensitive"]["marginals"]]
    assert columns == ["age", "pressure", "ward", "smoker", "ill"]
    assert record["sensitive"]["audit"]["title"] == "Membership"
    assert rows == {}
    done("report", *files, "--sensitive", *raw, "-o", "report.html")
    assert Path("report.html").read_text().count(RAW) == 4
