"""A shared budget: total and quotas in one transaction, by any number of analysts at once."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from sfumato import Ledger
from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    LedgerTamperedError,
    UnsupportedEventError,
)
from sfumato.ledger.shared_budget import SharedBudget
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, NonPrivateEvent, PureEvent


@pytest.fixture
def budget() -> SharedBudget:
    shared = SharedBudget.create(Ledger(), "patients", epsilon=1.0, delta=0.0)
    shared.set_quota("bob", epsilon=0.6)
    shared.set_quota("ada", epsilon=0.6)
    return shared


def pay(budget: SharedBudget, epsilon: float, by: str) -> None:
    budget.charge(PureEvent(epsilon), by=by, purpose="a test")


def test_a_quota_ends_before_the_total_and_the_total_before_two_quotas(
    budget: SharedBudget,
) -> None:
    pay(budget, 0.6, "ada")
    with pytest.raises(BudgetExceededError, match="quota of 'ada'"):
        pay(budget, 0.1, "ada")
    with pytest.raises(BudgetExceededError, match="'patients' refuses"):
        pay(budget, 0.5, "bob")
    pay(budget, 0.4, "bob")
    assert [one.spent for one in budget.holdings()] == [1.0, 0.6, 0.4]
    assert [one.holder for one in budget.holdings()] == ["", "ada", "bob"]
    budget.verify()


def test_who_has_no_quota_or_an_ended_one_pays_nothing(budget: SharedBudget) -> None:
    with pytest.raises(BudgetExceededError, match="no quota"):
        pay(budget, 0.1, "eve")
    budget.set_quota("bob", epsilon=0.6, until="2020-01-01")
    with pytest.raises(BudgetExceededError, match="ended on 2020-01-01"):
        pay(budget, 0.1, "bob")
    with pytest.raises(InvalidInputError, match="until"):
        budget.set_quota("bob", epsilon=0.6, until="soon")
    assert budget.dataset.lines() == []


def test_a_new_quota_remembers_what_was_spent(budget: SharedBudget) -> None:
    pay(budget, 0.5, "ada")
    budget.set_quota("ada", epsilon=0.55)
    with pytest.raises(BudgetExceededError):
        pay(budget, 0.1, "ada")
    budget.set_quota("ada", epsilon=0.7)
    pay(budget, 0.1, "ada")
    assert budget.holdings()[1].spent == pytest.approx(0.6)


def test_a_charge_past_the_quotas_is_counted_in_the_total(budget: SharedBudget) -> None:
    budget.dataset.charge(LaplaceEvent(0.7))
    assert budget.holdings()[0].spent == 0.7
    with pytest.raises(BudgetExceededError, match="'patients' refuses"):
        pay(budget, 0.4, "ada")
    pay(budget, 0.3, "ada")
    budget.verify()


def interrupt(_: object) -> None:
    raise KeyboardInterrupt


def test_nobody_draws_on_the_interrupted_charge_of_another(
    budget: SharedBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ada's charge is written, then interrupted; the same events asked for by Bob are his own."""
    pay(budget, 0.4, "bob")
    with monkeypatch.context() as patch:
        patch.setattr(budget.dataset, "_remember", interrupt)
        with pytest.raises(KeyboardInterrupt):
            pay(budget, 0.3, "ada")
    with pytest.raises(BudgetExceededError, match="quota of 'bob'"):
        pay(budget, 0.3, "bob")
    with pytest.raises(BudgetExceededError, match="no quota"):
        pay(budget, 0.3, "eve")
    pay(budget, 0.3, "ada")  # their own, made again: counted once
    assert [one.spent for one in budget.holdings()] == [0.7, 0.3, 0.4]
    budget.verify()


def test_one_event_that_has_no_price_refuses_all(budget: SharedBudget) -> None:
    with pytest.raises((UnsupportedEventError, BudgetExceededError)):
        budget.charge(PureEvent(0.1), NonPrivateEvent(), by="ada", purpose="a test")
    assert budget.dataset.lines() == []
    assert budget.holdings()[0].spent == 0


def test_the_filter_refuses_what_loss_distributions_would_admit() -> None:
    """In mu² a pure release is dear; the ledger's own rule would take two of them."""
    shared = SharedBudget.create(Ledger(), "patients", epsilon=1.0, delta=1e-6)
    shared.set_quota("ada", epsilon=1.0)
    pay(shared, 0.15, "ada")
    with pytest.raises(BudgetExceededError, match="shared budget 'patients'"):
        pay(shared, 0.15, "ada")
    shared.dataset.ask(PureEvent(0.15))
    assert len(shared.dataset.lines()) == 1


def test_a_changed_sum_is_found(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    shared = SharedBudget.create(Ledger(path), "patients", epsilon=1.0, delta=0.0)
    shared.set_quota("ada", epsilon=0.6)
    pay(shared, 0.5, "ada")
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE sfumato_filters SET amount = '0' WHERE holder = 'ada'")
    with pytest.raises(LedgerTamperedError, match="ada"):
        shared.verify()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE sfumato_filters SET amount = '3/10' WHERE holder = 'ada'")
    with pytest.raises(LedgerTamperedError, match="ada"):
        shared.verify()


def test_twenty_analysts_at_once_spend_no_more_than_there_is(tmp_path: Path) -> None:
    address = tmp_path / "ledger.db"
    shared = SharedBudget.create(Ledger(address), "patients", epsilon=2.0, delta=1e-6)
    for place in range(20):
        shared.set_quota(f"analyst {place}", epsilon=0.5)

    def ask(number: int) -> bool:
        try:
            SharedBudget(Ledger(address), "patients").charge(
                GaussianEvent(10.0), by=f"analyst {number % 20}", purpose="a test"
            )
        except BudgetExceededError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        accepted = sum(pool.map(ask, range(40)))
    total, *analysts = shared.holdings()
    assert 0 < accepted < 40
    assert len(shared.dataset.lines()) == accepted
    assert total.filter.admits(total.cost)
    assert not total.filter.admits(total.cost.plus(total.filter.cost([GaussianEvent(10.0)])))
    assert all(one.filter.admits(one.cost) for one in analysts)
    shared.verify()
