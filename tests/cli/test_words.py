"""What the command line says beside results: deltas, weak promises, few rows, interrupted runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sfumato import Ledger
from tests.cli.running import confirmed, done, patients, run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    patients(tmp_path)
    confirmed(Path("patients.csv"))
    done("budget", "create", "budget.db", "ward", "--epsilon", "20", "--delta", "1e-5")
    return tmp_path


def fitted(*more: object, table: str = "patients.csv", bounds: str = "patients.toml") -> Any:
    words = (
        "fit",
        table,
        "--model",
        "gaussian",
        "--bounds",
        bounds,
        "-o",
        "model.sfumato",
        "--force",
    )
    return run(*words, *more)


def test_a_smaller_delta_counts_as_less_at_that_of_the_budget(folder: Path) -> None:
    told = fitted("--epsilon", 1, "--delta", 1e-6, "--ledger", "budget.db").stdout
    spent = Ledger("budget.db").dataset("ward").spent()
    assert 0.8 < spent < 0.9
    assert f"counts as {spent:.3g} at the budget's delta 1e-05" in " ".join(told.split())
    same = fitted("--epsilon", 1, "--delta", 1e-5, "--ledger", "budget.db").stdout
    assert "counts as" not in same


@pytest.mark.parametrize(("epsilon", "is_told"), [(9, True), (8, False)])
def test_a_weak_promise_is_called_so(folder: Path, epsilon: float, is_told: bool) -> None:
    result = fitted("--epsilon", epsilon, "--delta", 1e-5)
    assert result.exit_code == 0
    told = " ".join(result.stderr.split())
    assert ("is above 8: the guarantee says little about a record" in told) is is_told


def test_few_records_are_called_so_only_where_their_number_is_public(folder: Path) -> None:
    patients(folder, "few.csv", n=20)
    bounds = str(confirmed(Path("few.csv")))
    few = {"table": "few.csv", "bounds": bounds}
    public = fitted("--epsilon", 1, "--relation", "replace_one", **few)
    assert "The table has 20 records, which is public here" in " ".join(public.stderr.split())
    secret = fitted("--epsilon", 1, "--relation", "add_or_remove_one", **few)
    assert secret.exit_code == 0
    assert "20 records" not in secret.stderr
    many = fitted("--epsilon", 8, "--relation", "replace_one")
    assert "outweigh" not in many.stderr
