import sqlite3

import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.events import PureEvent


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "budget.db")


def run(*words):
    return CliRunner().invoke(app, ["budget", *words])


def refusal(result, code):
    """Return the one line of an error, after checking that it is all there is."""
    assert result.exit_code == code
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert result.stderr.startswith("sfumato: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_create_makes_the_budget_that_python_sees(path):
    result = run("create", path, "patients", "--epsilon", "2", "--delta", "1e-5")
    assert result.exit_code == 0
    assert "epsilon 2 at delta 1e-05, unit record, relation replace_one" in result.stdout
    total = Ledger(path).dataset("patients").total
    assert (total.epsilon, total.delta, total.unit) == (2.0, 1e-5, "record")


@pytest.fixture
def spent(path):
    ledger = Ledger(path)
    ledger.create("patients", epsilon=2.0).charge(PureEvent(0.5), PureEvent(0.25))
    ledger.create("[red]staff", epsilon=1.0)
    return path


def test_verify_prints_the_heads_and_accepts_them_later(spent):
    result = run("verify", spent)
    assert result.exit_code == 0
    sentence, *heads = result.stdout.splitlines()
    assert sentence == "The chain is intact: 2 datasets, 2 lines."
    assert "NOT checked: whether the newest charges of [red]staff, patients" in result.stderr
    Ledger(spent).dataset("patients").charge(PureEvent(0.1))
    noted = [word for head in heads for word in ("--head", head)]
    assert run("verify", spent, *noted).exit_code == 0
    assert "'patients'" in refusal(run("verify", spent, "--head", "patients=beef"), 3)


def test_a_tampered_ledger_ends_with_3(spent):
    connection = sqlite3.connect(spent)
    connection.execute("UPDATE sfumato_budgets SET epsilon = '9.0' WHERE name = 'patients'")
    connection.commit()
    connection.close()
    for command in ("verify", "show"):
        assert "'patients', position 0" in refusal(run(command, spent), 3)
