"""Ctrl-C at any moment of a charge: no lock stays, no strange error comes, nothing is lost."""

import random
import signal
import sqlite3
import time
from contextlib import closing

import pytest

from sfumato.accounting.ledger import Ledger
from sfumato.events import PureEvent

TINY = PureEvent(1e-6)
INTERRUPTS = 150


@pytest.fixture
def interrupted_after():
    """Run a call and interrupt it after so many seconds; give what came of it."""

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)

    def run(call, seconds):
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            call()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except BaseException as error:
            return error  # kept, with all its frames: nothing is cleaned up by chance
        return None

    yield run
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_no_lock_stays_after_an_interrupt(tmp_path, interrupted_after):
    path = tmp_path / "budget.db"
    budget = Ledger(path, timeout=5).create("rows", epsilon=1.0)
    begun = time.perf_counter()
    for _ in range(5):
        budget.charge(TINY)
    longest = 1.2 * (time.perf_counter() - begun) / 5
    draws, told, kept = random.Random(0), 5, []
    for _ in range(INTERRUPTS):
        error = interrupted_after(lambda: budget.charge(TINY), draws.uniform(1e-5, longest))
        kept.append(error)
        told += error is None
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # as another process would, without waiting
        assert (path.parent / f"{path.name}-queue").stat().st_size == 0
    assert {type(error) for error in kept} <= {type(None), KeyboardInterrupt}
    assert sum(error is not None for error in kept) > INTERRUPTS / 4
    made = Ledger(path).verify().charges
    assert told <= made <= told + INTERRUPTS
    budget.charge(TINY)


def test_a_charge_that_was_interrupted_after_its_commit_is_not_paid_twice(tmp_path, monkeypatch):
    budget = Ledger(tmp_path / "budget.db").create("rows", epsilon=1.0)
    remember, stops = budget._remember, [True]

    def stop_once(history):
        if stops.pop() if stops else False:
            raise KeyboardInterrupt
        remember(history)

    monkeypatch.setattr(budget, "_remember", stop_once)
    with pytest.raises(KeyboardInterrupt):
        budget.charge(PureEvent(0.6))
    assert len(budget.events()) == 1
    receipt = budget.charge(PureEvent(0.6))  # the same again: paid, and never drawn on
    assert receipt.unused() == (PureEvent(0.6),)
    assert (budget.spent(), len(budget.events())) == (0.6, 1)
    budget.charge(PureEvent(0.4))
    assert budget.spent() == 1.0


def test_a_fork_does_not_draw_on_what_its_parent_has_paid(tmp_path, monkeypatch, in_child):
    budget = Ledger(tmp_path / "budget.db").create("rows", epsilon=1.0)
    with monkeypatch.context() as patch:
        patch.setattr(budget, "_remember", lambda _: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            budget.charge(PureEvent(0.3))
    in_child(lambda: budget.charge(PureEvent(0.3)))
    assert len(budget.events()) == 2
    budget.charge(PureEvent(0.3))
    assert len(budget.events()) == 2
