"""Statistics and scores on the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sfumato import Ledger, TableBounds
from sfumato.tables.files import TableFile
from tests.cli.running import confirmed, done, patients, refused

GIVEN = ("--epsilon", "5", "--delta", "1e-5")


@pytest.fixture
def bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return confirmed(patients(tmp_path).relative_to(tmp_path))


def test_statistics_are_released_reported_and_certified(bounds: Path) -> None:
    Ledger("budget.db").create("patients", epsilon=9.0, delta=0.0)
    given = ("patients.csv", "--epsilon", "1", "--bounds", bounds, "--ledger", "budget.db")
    told = done("release", "counts", *given, "--by", "ward", "--analyst", "Ada", "-o", "counts.csv")
    assert "error bar" in told
    assert "spent 1 of epsilon 9" in told
    assert list(TableFile("counts.csv").columns) == ["ward", "count", "low", "high"]
    for words in (
        ("mean", "--column", "age", "--by", "ward"),
        ("sum", "--column", "age"),
        ("variance", "--column", "age"),
        ("quantile", "--column", "age", "--at", "0.5"),
        ("histogram", "--column", "age", "--bins", "5"),
        ("histogram", "--column", "age", "--ranges", "all"),
    ):
        assert json.loads(done("release", words[0], *given, *words[1:], "--json"))["rows"]
    done("report", "counts.csv", "--ledger", "budget.db", "-o", "report.html")
    assert Path("report.html").read_text().count("counts.csv") >= 1
    done("certificate", "counts.csv", "--key", "k.pem", "--new-key", "-o", "c.json", *given[-2:])
    assert "holds" in done("verify", "c.json", "--of", "counts.csv", "--key", "k.pem.pub")
    words = ("--column", "age", "--ranges", "0:17,18:64")
    ranges = json.loads(done("release", "histogram", *given, *words, "--json"))["rows"]
    assert [(row["from"], row["to"]) for row in ranges] == [(0, 17), (18, 64)]
    for wrong in (("mean", "--by", "ward"), ("sum", *words), ("sum", *words[:2], "--at", "0.5")):
        assert "takes" in refused("release", wrong[0], *given, *wrong[1:])


def test_a_search_chooses_among_values_for_one_charge(bounds: Path) -> None:
    Ledger("budget.db").create("patients", epsilon=9.0, delta=1e-4)
    replace(TableBounds.read(bounds), confirmed_by="Eva").write(bounds)
    given = ("fit", "patients.csv", *GIVEN, "--bounds", bounds, "--ledger", "budget.db")
    asked = (*given, "--model", "linear", "-o", "m.sfumato")
    assert "must list values" in refused(*asked, "--search", "n_steps=5")
    told = done(*asked, "--search", "n_steps=[2,3]", "--search", "whiten=[false]")
    assert "Chosen: n_steps = " in told
    assert Ledger("budget.db").dataset("patients").history()[0].events[0].kind == "selection"
    done("report", "m.sfumato", "--ledger", "budget.db", "-o", "report.json")
    assert json.loads(Path("report.json").read_text())["office"]["confirmed_by"] == "Eva"


def test_a_model_is_scored_on_public_and_on_secret_rows(bounds: Path) -> None:
    given = ("fit", "patients.csv", *GIVEN, "--bounds", bounds)
    done(*given, "-o", "m.sfumato", "--set", "n_steps=20")
    public = json.loads(done("score", "m.sfumato", "patients.csv", "--json"))
    assert 0.4 < public["accuracy"] <= 1
    assert "auc" in public
    secret = done("score", "m.sfumato", "patients.csv", "--private", "--epsilon", "1")
    assert "Proved" in secret
    assert "--private" in refused("score", "m.sfumato", "patients.csv", "--epsilon", "1")
    kept = done("predict", "m.sfumato", "patients.csv", "-o", "p.csv", "--keep", "ill")
    assert f"accuracy: {public['accuracy']:.4g}" in kept
