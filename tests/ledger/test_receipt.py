import copy
import os
import pickle

import pytest

from sfumato.exceptions import InvalidInputError, LedgerError, UnsupportedModeError
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.receipt import Receipt, prepay
from sfumato.privacy.events import GaussianEvent, PureEvent, RepeatedEvent

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


def test_a_part_can_be_handed_on():
    outer = Receipt([A, A, B], unit="record", relation="replace_one")
    inner = prepay(outer, A, B, unit="record", relation="replace_one")
    inner.charge(B)
    assert (outer.unused(), inner.unused()) == ((A,), (A,))


def test_prepay_charges_the_budget_once_in_one_go():
    budget = Ledger().create("rows", epsilon=1.0)
    receipt = prepay(budget, A, A, unit="record", relation="replace_one")
    receipt.charge(A)
    receipt.charge(A)
    assert budget.events() == (A, A)


def test_prepay_without_ledger_still_checks_what_is_drawn():
    receipt = prepay(None, A, unit="entry", relation="replace_one")
    with pytest.raises(LedgerError):
        receipt.charge(B)


@pytest.mark.parametrize("wrong", [Ledger(), "budget.db", 3])
def test_prepay_refuses_what_is_no_budget(wrong):
    with pytest.raises(InvalidInputError, match="dataset"):
        prepay(wrong, A)


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
