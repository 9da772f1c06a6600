"""Densities, curves and transfer on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from sfumato import Ledger
from sfumato.tables.files import TableFile, write_table
from tests.cli.running import confirmed, done, patients, refused, run

USUAL = ("--epsilon", "5", "--delta", "1e-5")


@pytest.fixture
def bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return confirmed(patients(tmp_path).relative_to(tmp_path))


def test_a_density_is_released_and_asked(bounds: Path) -> None:
    words = ("release", "density", "patients.csv", *USUAL, "--bounds", bounds, "--columns", "age")
    print_lines = json.loads(done(*words, "-o", "age.sfumato", "--grid", "age.csv", "--json"))
    assert print_lines["class"] == "PrivateDensity"
    assert TableFile("age.csv").count_rows() == 50
    assert (
        json.loads(done("guarantee", "age.csv", "--json"))["guarantee"] == print_lines["guarantee"]
    )
    done("predict", "age.sfumato", "patients.csv", "-o", "answers.parquet")
    assert list(TableFile("answers.parquet").columns) == ["age", "density"]
    assert "columns of numbers" in refused(*words, "--columns", "ward", "-o", "ward.sfumato")


def test_a_curve_is_released_and_asked(bounds: Path) -> None:
    write_table(pa.table({str(i): [i / 10, i / 9, i / 8] * 30 for i in range(9)}), Path("c.csv"))
    known = confirmed(Path("c.csv"), target=None)
    words = ("release", "curve", "c.csv", *USUAL, "--bounds", known, "-o", "mean.sfumato")
    assert "PrivateMeanCurve" in done(*words, "--grid", "mean.csv", "--grid-size", "17")
    assert TableFile("mean.csv").count_rows() == 17
    assert "17 predictions" in done("predict", "mean.sfumato", "mean.csv", "-o", "again.csv")


def test_transfer(bounds: Path, tmp_path: Path) -> None:
    patients(tmp_path, "clinic.csv", n=120, ill=None)
    words = ("transfer", "patients.csv", "clinic.csv", *USUAL, "--bounds", bounds)
    print_lines = done(*words, "-o", "clinic.sfumato", "--set", "schedule=[3]")
    assert "PrivateTransferClassifier" in print_lines
    assert "CONDITIONAL" in print_lines
    assert "the rows and labels of the target are not protected" in print_lines
    assert "The target is not protected" in run(*words, "-o", "clinic.sfumato", "--force").stderr
    assert "120 predictions" in done("predict", "clinic.sfumato", "clinic.csv", "-o", "out.csv")
    assert "no file" in refused(
        "transfer", "patients.csv", "no.csv", *USUAL, "--bounds", bounds, "-o", "x.sfumato"
    )


def test_transfer_to_a_protected_target(bounds: Path, tmp_path: Path) -> None:
    patients(tmp_path, "clinic.csv", n=120, ill=None)
    for name in ("ward", "clinic"):
        done("budget", "create", f"{name}.db", name, "--epsilon", "9", "--delta", "1e-4")
    words = ("transfer", "patients.csv", "clinic.csv", *USUAL, "--bounds", bounds)
    words = (*words, "-o", "clinic.sfumato", "--force")
    guarded = (*words, "--protect-target", "--target-epsilon", "8")
    for wrong, sentence in (
        ((*words, "--target-ledger", "clinic.db"), "--protect-target"),
        ((*guarded, "--ledger", "ward.db"), "--target-ledger"),
        ((*guarded, "--target-dataset", "clinic"), "--target-ledger"),
        ((*words, "--set", "protect_target=true"), "--protect-target"),
    ):
        assert sentence in refused(*wrong)
    paid = (*guarded, "--ledger", "ward.db", "--target-ledger", "clinic.db")
    assert "'clinic'" in refused(*paid, "--target-epsilon", "15", code=3)
    assert [Ledger(f"{n}.db").dataset(n).spent() for n in ("ward", "clinic")] == [0.0, 0.0]
    print_lines = json.loads(done(*paid, "--json"))
    figures = [print_lines[f"{name}guarantee"]["epsilon"] for name in ("", "source_", "target_")]
    assert figures == [8.0, 5.0, 8.0]
    assert json.loads(done("guarantee", "clinic.sfumato", "--json"))["guarantee"]["epsilon"] == 8.0
    spent = [Ledger(f"{n}.db").dataset(n).spent() for n in ("ward", "clinic")]
    assert 3 < spent[0] <= 5.0 < spent[1] <= 8.0  # at the budgets' delta, 1e-4
    result = run(*guarded)
    assert "For a record of the target: Proved" in result.stdout
    assert "the release of the target is not recorded" in result.stderr
