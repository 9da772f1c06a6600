"""The command line with persons: what describe proposes, and what fit then obeys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sfumato
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.privacy.guarantee import Unit
from sfumato.tables import TableBounds
from sfumato.tables.files import TableFile
from sfumato.tables.proposal import describe_table
from tests.cli.running import run


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 90, 400)
    table = pd.DataFrame(
        {
            "patient_id": [f"P{each:05}" for each in rng.integers(0, 90, 400)],
            "age": age,
            "ill": np.where(age > 50, "yes", "no"),
        }
    )
    table.loc[7, "patient_id"] = None
    table.to_csv(tmp_path / "visits.csv", index=False)
    return tmp_path / "visits.csv"


def proposed(visits: Path) -> TableBounds:
    return describe_table(TableFile.sniffed(visits), "ill").bounds


def test_the_owner_must_say_who_a_row_belongs_to(visits: Path) -> None:
    bounds = replace(proposed(visits), confirmed=True)
    bounds.require_confirmed()
    assert TableBounds.from_record(bounds.to_record()) == bounds
    silent = replace(bounds, person=None, person_rows=None)
    with pytest.raises(MissingBoundsError, match="'patient_id' looks like a repeating ID"):
        silent.require_confirmed()
    replace(silent, one_row_per_person=True).require_confirmed()
    with pytest.raises(InvalidInputError, match="exclude"):
        replace(bounds, one_row_per_person=True)


@pytest.mark.parametrize("model", ["additive", "gaussian"])
def test_fit_obeys_the_file(visits: Path, model: str) -> None:
    path = visits.parent / "bounds.toml"
    run("describe", str(visits), "--target", "ill", "-o", str(path))
    replace(TableBounds.read(path), confirmed=True).write(path)
    output = visits.parent / "model.sfumato"
    words = ["--epsilon", "1", "--bounds", str(path), "-o", str(output), "--model", model]
    answer = run("fit", str(visits), *words)
    assert answer.exit_code == 0, answer.output
    assert "any one person, with all rows," in " ".join(answer.output.split())
    assert " records" not in answer.stderr  # their number is secret; that of persons is not
    fitted = sfumato.load(output)
    assert fitted.guarantee_.unit is Unit.PERSON
    content = output.read_bytes()
    assert b"P000" not in content
