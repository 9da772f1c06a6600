"""Budgets, handles, receipts and notes: what a charge admits, refuses and remembers."""

from __future__ import annotations

import copy
import math
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato import Bounds, PrivateMoments
from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    LedgerError,
    UnsupportedEventError,
    UnsupportedModeError,
)
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.receipt import Receipt
from sfumato.privacy.events import Event, GaussianEvent, PureEvent, RepeatedEvent
from tests.privacy.events import EVERY_KIND


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.inf},
        {"epsilon": math.nan},
        {"epsilon": "much"},
        {"epsilon": None},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": -1e-9},
        {"epsilon": 1.0, "delta": math.nan},
        {"epsilon": 1.0, "unit": "family"},
        {"epsilon": 1.0, "relation": "swap"},
    ],
)
def test_a_budget_that_makes_no_sense_is_refused_before_the_file_is_made(path, wrong):
    with pytest.raises(InvalidInputError):
        Ledger(path).create("rows", **wrong)
    assert not path.exists()


@pytest.mark.parametrize("name", [3, "", " ", "a\nb"])
def test_a_name_is_a_printable_text(path, name):
    with pytest.raises(InvalidInputError, match="'name'"):
        Ledger(path).create(name, epsilon=1.0, delta=1e-5)


def test_a_budget_is_set_once(path):
    ledger = Ledger(path)
    ledger.create("rows", epsilon=1.0, delta=0.0)
    with pytest.raises(InvalidInputError, match="never changed"):
        Ledger(path).create("rows", epsilon=2.0, delta=0.0)
    assert ledger.dataset("rows").total.epsilon == 1.0


def test_everything_is_there_after_reopening(path):
    budget = Ledger(path).create("pa'ti%ents ü", epsilon=3.3, delta=1e-5, unit="entry")
    budget.charge(*EVERY_KIND, unit="entry")
    again = Ledger(str(path)).dataset("pa'ti%ents ü")
    assert again.events() == EVERY_KIND
    assert again.total == budget.total
    assert (again.total.epsilon, again.total.delta, again.total.unit) == (3.3, 1e-5, "entry")
    assert again.statement() == budget.statement()
    assert again.statement().charges == len(EVERY_KIND)


def test_the_handle_is_not_a_value(path, monkeypatch):
    ledger = Ledger(path, timeout=7)
    budget = ledger.create("rows", epsilon=1.0, delta=0.0)
    monkeypatch.chdir("/")  # a relative path must not move with the worker
    assert copy.copy(budget) is copy.deepcopy(budget) is budget
    assert copy.deepcopy(ledger) is copy.copy(ledger) is ledger
    sent = pickle.loads(pickle.dumps(budget))
    assert sent == budget == pickle.loads(pickle.dumps(ledger)).dataset("rows")
    assert hash(sent) == hash(budget)
    assert sent != ledger.create("other", epsilon=1.0, delta=0.0)
    assert budget != "rows"
    sent.charge(PureEvent(0.5))
    assert budget.spent() == 0.5
    assert repr(sent) == repr(budget) == f"Ledger({str(path)!r}).dataset('rows')"
    assert eval(repr(budget)) == budget


@settings(max_examples=40, deadline=None)
@given(
    limit=st.integers(1, 60),
    wishes=st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]), st.lists(st.integers(1, 30), min_size=1, max_size=3)
        ),
        max_size=25,
    ),
)
def test_no_interleaving_of_two_handles_passes_the_budget(limit, wishes):
    """Epsilons in hundredths, so that integers are the oracle; two handles take turns."""
    ledger = Ledger()
    first = ledger.create("rows", epsilon=limit / 100, delta=0.0)
    handles = {"a": first, "b": ledger.dataset("rows")}
    paid, lines = 0, 0
    for who, hundredths in wishes:
        events = [PureEvent(h / 100) for h in hundredths]
        if paid + sum(hundredths) <= limit:
            handles[who].charge(*events)
            paid, lines = paid + sum(hundredths), lines + len(events)
        else:
            with pytest.raises(BudgetExceededError):
                handles[who].charge(*events)
    assert first.spent() == paid / 100 <= limit / 100
    assert ledger.verify().charges == lines


def test_what_is_left_fits_and_not_a_hair_more():
    for spent in (0.1, 0.3, 1 / 3, 0.7123456789012345):
        budget = Ledger().create("rows", epsilon=1.0, delta=0.0)
        budget.charge(PureEvent(spent))
        left = budget.left()
        with pytest.raises(BudgetExceededError):
            budget.charge(PureEvent(left * (1 + 1e-14)))
        budget.charge(PureEvent(left))
        assert budget.spent() <= 1.0


def test_the_refusal_says_spent_asked_left_and_survives_pickling():
    budget = Ledger().create("rows", epsilon=1.0, delta=0.0)
    budget.charge(PureEvent(0.75))
    with pytest.raises(BudgetExceededError, match=r"spent 0.75 .*asked 0.5, left 0.25") as caught:
        budget.charge(PureEvent(0.5))
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.spent, error.asked, error.left) == (0.75, 0.5, 0.25)


@pytest.mark.parametrize("words", [{"unit": "entry"}, {"relation": "add_or_remove_one"}])
def test_another_unit_or_relation_is_refused(words):
    budget = Ledger().create("rows", epsilon=1.0, delta=0.0)
    with pytest.raises(UnsupportedModeError, match=next(iter(words.values()))):
        budget.charge(PureEvent(0.1), **words)
    budget.charge(PureEvent(0.1), unit="record", relation="replace_one")
    assert len(budget.events()) == 1


class UnheardOf(Event):
    kind = "unheard_of"


@pytest.mark.parametrize(
    ("thing", "error"),
    [(UnheardOf(), UnsupportedEventError), ("pure", InvalidInputError), (0.5, InvalidInputError)],
)
def test_what_could_not_be_read_back_is_never_written(path, thing, error):
    ledger = Ledger(path)
    budget = ledger.create("rows", epsilon=1.0, delta=0.0)
    with pytest.raises(error):
        budget.charge(PureEvent(0.1), thing)
    assert budget.events() == ()
    assert ledger.verify().charges == 0


def test_an_estimator_charges_with_a_note(tmp_path: Path) -> None:
    budget = Ledger(tmp_path / "b.db").create("patients", epsilon=2.0, delta=1e-5)
    noted = budget.noted(purpose="mean age", by="Ada")
    for handle in (noted, pickle.loads(pickle.dumps(noted))):
        model = PrivateMoments(epsilon=0.5, delta=1e-6, bounds=Bounds(norm=1.0), ledger=handle)
        model.fit(np.zeros((9, 2)))
    assert [(c.purpose, c.by) for c in budget.history()] == [("mean age", "Ada")] * 2
    assert noted == budget
    assert 0.3 < budget.history()[0].epsilon < 0.5  # at the budget's larger delta


@pytest.mark.parametrize("wrong", ["", "two\nlines", 7, "x" * 501])
def test_a_wrong_note_charges_nothing(wrong: object) -> None:
    budget = Ledger().create("patients", epsilon=2.0, delta=0.0)
    if wrong == "":
        budget.charge(PureEvent(0.5), purpose="")  # as none
        return
    with pytest.raises(InvalidInputError, match="purpose"):
        budget.charge(PureEvent(0.5), purpose=wrong)  # type: ignore[arg-type]
    assert budget.spent() == 0


A, B = PureEvent(0.25), GaussianEvent(3.0)


def test_each_paid_event_is_good_for_one_draw():
    receipt = Receipt([A, B, A])
    receipt.charge(A)
    receipt.charge(B)
    receipt.charge(A)
    with pytest.raises(LedgerError, match="does not cover"):
        receipt.charge(A)
    assert receipt.unused() == ()
    assert receipt.events == (A, B, A)


def test_an_event_that_was_not_paid_is_refused_and_nothing_is_ticked_off():
    receipt = Receipt([A])
    with pytest.raises(LedgerError):
        receipt.charge(A, B)
    assert receipt.unused() == (A,)


def test_a_repeated_event_pays_for_its_repetitions():
    receipt = Receipt([RepeatedEvent(A, 3)])
    receipt.charge(A)
    receipt.charge(RepeatedEvent(A, 2))
    with pytest.raises(LedgerError):
        receipt.charge(A)


@pytest.mark.parametrize("words", [{"unit": "entry"}, {"relation": "add_or_remove_one"}])
def test_other_unit_or_relation_is_refused(words):
    receipt = Receipt([A], unit="record", relation="replace_one")
    with pytest.raises(UnsupportedModeError, match=next(iter(words))):
        receipt.charge(A, **words)
    receipt.charge(A, unit="record", relation="replace_one")


def test_a_receipt_cannot_be_multiplied():
    receipt = Receipt([A])
    assert copy.copy(receipt) is receipt
    assert copy.deepcopy(receipt) is receipt
    with pytest.raises(LedgerError, match="pickled"):
        pickle.dumps(receipt)


def test_a_forked_child_cannot_draw_on_it(in_child):
    receipt = Receipt([A])
    assert "another process" in in_child(lambda: receipt.charge(A))
    assert receipt.unused() == (A,)
    assert os.getpid() == receipt._process


@pytest.mark.parametrize("timeout", [-1.0, math.inf, math.nan])
def test_a_wait_is_finite(path, timeout):
    with pytest.raises(InvalidInputError, match="timeout"):
        Ledger(path, timeout=timeout)
