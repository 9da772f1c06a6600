"""Densities and curves on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from sfumato.tables.files import TableFile, write_table
from tests.cli.running import confirmed, done, patients, refused

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
