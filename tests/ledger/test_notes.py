"""Purpose and person of a charge: in the chain, in copies of a handle, and in old ledgers."""

from __future__ import annotations

import json
import pickle
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from sfumato import Bounds, Ledger, PrivateMoments
from sfumato.exceptions import InvalidInputError, LedgerTamperedError
from sfumato.ledger.chain import encode_event
from sfumato.privacy.events import GaussianEvent, PureEvent


def test_an_estimator_charges_with_a_note(tmp_path: Path) -> None:
    budget = Ledger(tmp_path / "b.db").create("patients", epsilon=2.0, delta=1e-5)
    noted = budget.noted(purpose="mean age", by="Ada")
    for handle in (noted, pickle.loads(pickle.dumps(noted))):
        model = PrivateMoments(epsilon=0.5, delta=1e-6, bounds=Bounds(norm=1.0), ledger=handle)
        model.fit(np.zeros((9, 2)))
    assert [(c.purpose, c.by) for c in budget.history()] == [("mean age", "Ada")] * 2
    assert noted == budget
    assert 0.3 < budget.history()[0].epsilon < 0.5  # at the budget's larger delta


def test_charges_of_several_lines_are_one(tmp_path: Path) -> None:
    budget = Ledger(tmp_path / "b.db").create("patients", epsilon=9.0, delta=1e-5)
    for _ in range(20):  # over a checkpoint
        budget.charge(PureEvent(0.1), GaussianEvent(90.0), purpose="both")
    assert len(budget.history()) == 20
    assert all(len(charge.events) == 2 for charge in budget.history())


def test_a_changed_note_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    budget = Ledger(path).create("patients", epsilon=2.0)
    budget.charge(PureEvent(0.5), purpose="triage", by="Ada")
    with sqlite3.connect(path) as database:
        database.execute("DROP TRIGGER sfumato_charges_no_update")
        database.execute("UPDATE sfumato_charges SET event = replace(event, 'Ada', 'Bob')")
    with pytest.raises(LedgerTamperedError):
        Ledger(path).verify()


def test_a_line_without_a_note_has_the_bytes_of_before() -> None:
    assert json.loads(encode_event(PureEvent(0.5))) == PureEvent(0.5).to_dict()
    budget = Ledger().create("patients", epsilon=2.0)
    budget.charge(PureEvent(0.5))
    assert budget.history()[0].purpose is None
    assert budget.events() == (PureEvent(0.5),)


@pytest.mark.parametrize("wrong", ["", "two\nlines", 7, "x" * 501])
def test_a_wrong_note_charges_nothing(wrong: object) -> None:
    budget = Ledger().create("patients", epsilon=2.0)
    if wrong == "":
        budget.charge(PureEvent(0.5), purpose="")  # as none
        return
    with pytest.raises(InvalidInputError, match="purpose"):
        budget.charge(PureEvent(0.5), purpose=wrong)  # type: ignore[arg-type]
    assert budget.spent() == 0
