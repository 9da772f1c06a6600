import sqlite3

import pytest

from sfumato.ledger.ledger import Ledger
from sfumato.privacy.events import PureEvent
from tests.cli.running import refused, run


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "budget.db")


def test_create_makes_the_budget_that_python_sees(path):
    result = run("budget", "create", path, "patients", "--epsilon", "2", "--delta", "1e-5")
    assert result.exit_code == 0
    assert "epsilon 2 at delta 1e-05, unit record, relation replace_one" in result.stdout
    total = Ledger(path).dataset("patients").total
    assert (total.epsilon, total.delta, total.unit) == (2.0, 1e-5, "record")


@pytest.fixture
def spent(path):
    ledger = Ledger(path)
    ledger.create("patients", epsilon=2.0, delta=0.0).charge(PureEvent(0.5), PureEvent(0.25))
    ledger.create("[red]staff", epsilon=1.0, delta=0.0)
    return path


def test_verify_prints_the_heads_and_accepts_them_later(spent):
    result = run("budget", "verify", spent)
    assert result.exit_code == 0
    sentence, *heads = result.stdout.splitlines()
    assert sentence == "The chain is intact: 2 datasets, 2 lines."
    assert "NOT checked: whether the newest charges of [red]staff, patients" in result.stderr
    Ledger(spent).dataset("patients").charge(PureEvent(0.1))
    noted = [word for head in heads for word in ("--head", head)]
    assert run("budget", "verify", spent, *noted).exit_code == 0
    assert "'patients'" in refused("budget", "verify", spent, "--head", "patients=beef", code=3)


def test_a_tampered_ledger_ends_with_3(spent):
    connection = sqlite3.connect(spent)
    connection.execute("UPDATE sfumato_budgets SET epsilon = '9.0' WHERE name = 'patients'")
    connection.commit()
    connection.close()
    for command in ("verify", "show"):
        assert "'patients', position 0" in refused("budget", command, spent, code=3)
