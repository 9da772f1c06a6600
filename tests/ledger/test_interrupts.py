"""Ctrl-C at any moment of a charge: no lock stays, no strange error comes, nothing is lost."""

import random
import signal
import sqlite3
import statistics
import time
from collections import deque
from contextlib import closing

import pytest

from sfumato.ledger.ledger import Ledger
from sfumato.privacy.events import PureEvent

TINY = PureEvent(1e-6)
INTERRUPTS = 120


@pytest.fixture
def interrupted_after():
    """Run a call and interrupt it after so many seconds; return what came of it."""

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


# An interrupt inside a callback of the garbage collector, of the test tools say, is dropped there.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_lock_stays_after_an_interrupt(tmp_path, interrupted_after):
    path = tmp_path / "budget.db"
    budget = Ledger(path, timeout=60).create("rows", epsilon=1.0)
    draws, whole, kept, told = random.Random(0), deque([0.02], maxlen=5), [], 0
    for i in range(4 * INTERRUPTS):
        event, begun = PureEvent(1e-6 * (1 + i)), time.perf_counter()
        wait = draws.uniform(1e-5, 1.2 * statistics.median(whole))
        error = interrupted_after(lambda event=event: budget.charge(event), wait)
        if error is None:  # as long as a charge takes at present, on a busy machine too
            whole.append(time.perf_counter() - begun)
            told += 1
        else:
            kept.append(error)
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # as another process would, without waiting
        if len(kept) == INTERRUPTS:
            break
    assert len(kept) > INTERRUPTS / 2
    assert {type(error) for error in kept} == {KeyboardInterrupt}
    assert told <= Ledger(path).verify().charges <= told + len(kept)
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
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    budget = Ledger(tmp_path / "budget.db").create("rows", epsilon=1.0)
    with monkeypatch.context() as patch:
        patch.setattr(budget, "_remember", lambda _: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            budget.charge(PureEvent(0.3))
    in_child(lambda: budget.charge(PureEvent(0.3)))
    assert len(budget.events()) == 2
    budget.charge(PureEvent(0.3))
    assert len(budget.events()) == 2
