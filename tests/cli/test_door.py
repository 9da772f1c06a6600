"""What a newcomer meets: questions about bounds, files that are kept, Ctrl-C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sfumato import Ledger, TableBounds
from tests.cli.running import done, patients, refused, run, typed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    patients(tmp_path)
    done("describe", "patients.csv", "--target", "ill", "-o", "bounds.toml")
    return tmp_path


# Confirming -----------------------------------------------------------------------------------


def test_yes_to_all_confirms_what_was_proposed(folder: Path) -> None:
    before = TableBounds.read("bounds.toml")
    answer = typed("confirm", "bounds.toml", "--by", "A. Meier")
    assert answer.exit_code == 0, answer.output
    assert answer.stdout == "bounds.toml: confirmed.\n"
    after = TableBounds.read("bounds.toml")
    assert after.confirmed
    assert after.columns == before.columns
    assert after.target == before.target
    assert after.text == before.text
    assert "by A. Meier" in Path("bounds.toml").read_text()
    assert "already" in refused("confirm", "bounds.toml")
    told = run("fit", "patients.csv", "--epsilon", "1", "-b", "bounds.toml", "-o", "m.sfumato")
    assert "With only 400 records (their number is public here)" in " ".join(told.stderr.split())


def test_what_is_known_replaces_what_was_proposed(folder: Path) -> None:
    # labels, age, pressure (after three mistakes), ward (after one), smoker, the last word
    answers = ["yes", "0 120", "40", "a b", "0 to 40.000", "0.5 to 250"]
    answers += ["leave out", "north, east", "out", "yes"]
    answer = typed("confirm", "bounds.toml", answers="\n".join(answers) + "\n")
    assert answer.exit_code == 0, answer.output
    assert "Columns used: " in answer.stderr
    assert answer.stderr.count("such as 0 to 120.") >= 3
    assert "two values or more" in answer.stderr
    assert "Noted: " in answer.stderr
    columns = {each.name: each for each in TableBounds.read("bounds.toml").columns}
    assert (columns["age"].lower, columns["age"].upper) == (0, 120)
    assert (columns["pressure"].lower, columns["pressure"].upper) == (0.5, 250.0)
    assert columns["ward"].categories == ("north", "east")
    assert columns["smoker"].left_out


# Files that exist -----------------------------------------------------------------------------


def test_a_file_that_exists_is_kept_without_force(folder: Path) -> None:
    typed("confirm", "bounds.toml")
    done("budget", "create", "budget.db", "ward", "--epsilon", "9", "--delta", "1e-5")
    fit = ("fit", "patients.csv", "--model", "gaussian", "--epsilon", "1", "--ledger", "budget.db")
    fit = (*fit, "--bounds", "bounds.toml", "-o", "m.sfumato")
    done(*fit)
    model, spent = Path("m.sfumato").read_bytes(), Ledger("budget.db").dataset("ward").spent()
    assert "'m.sfumato' exists" in refused(*fit)
    assert Path("m.sfumato").read_bytes() == model
    assert Ledger("budget.db").dataset("ward").spent() == spent
    for words in (
        ("describe", "patients.csv", "-o", "bounds.toml"),
        ("datasets", "fetch", "breast-cancer", "-o", "patients.csv"),
    ):
        assert "--force" in refused(*words)
    rows = Path("patients.csv").read_bytes()
    for words in (
        ("predict", "m.sfumato", "patients.csv", "-o", "patients.csv"),
        ("fabricate", "patients.csv", "-e", "1", "-b", "bounds.toml", "-o", "patients.csv"),
    ):
        assert "is also an input" in refused(*words)
        assert "is also an input" in refused(*words, "--force")
    assert Path("patients.csv").read_bytes() == rows
    done(*fit, "--force")
    assert Path("m.sfumato").read_bytes() != model
    assert "'m.sfumato' exists" in refused(*fit)  # force is forgotten


# Ctrl-C ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["save", "options.print_release"])
def test_an_interruption_says_what_was_charged_and_what_exists(
    folder: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    typed("confirm", "bounds.toml")
    done("budget", "create", "budget.db", "ward", "--epsilon", "9", "--delta", "1e-5")
    monkeypatch.setattr(f"sfumato.cli.fit.{when}", interrupted)
    fit = ("fit", "patients.csv", "--model", "gaussian", "--epsilon", "1", "--ledger", "budget.db")
    ended = run(*fit, "--bounds", "bounds.toml", "-o", "m.sfumato")
    assert ended.exit_code == 130
    last = ended.stderr.splitlines()[-1]
    assert "What was charged stays charged: 'ward' was charged epsilon" in last
    assert ("Written: m.sfumato." in last) == (when != "save")
    assert ("No output was written." in last) == (when == "save")
    assert Path("m.sfumato").exists() == (when != "save")
