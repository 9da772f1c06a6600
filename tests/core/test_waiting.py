"""First come, first served, whatever becomes of those who wait."""

import multiprocessing
import os
import signal
import time

import pytest

from sfumato.core import waiting
from sfumato.core.waiting import acquire_write_lock
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.events import PureEvent


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "budget.db"
    path.touch()
    return path


def _wait_and_say(database, name, said, come):
    draw = waiting._draw_ticket

    def draw_and_tell(queue):
        ticket = draw(queue)
        come.send(name)
        return ticket

    waiting._draw_ticket = draw_and_tell  # in this child alone
    turn = acquire_write_lock(database, time.monotonic() + 600)
    said.put(name)
    turn.close()


@pytest.fixture
def queue_up(start_child, database):
    """Start a child that waits for its turn, and be sure that it stands in the queue."""
    said = multiprocessing.get_context("fork").SimpleQueue()
    children = []

    def start(name):
        here, there = multiprocessing.Pipe(duplex=False)
        children.append(start_child(_wait_and_say, database, name, said, there))
        here.recv()
        return children[-1]

    yield start, said
    for child in children:
        child.join(600)


def test_those_who_came_first_go_first(database, queue_up):
    start, said = queue_up
    mine = acquire_write_lock(database, time.monotonic() + 600)
    for name in range(4):
        start(name)
    assert said.empty()
    mine.close()
    assert [said.get() for _ in range(4)] == [0, 1, 2, 3]


def test_who_is_killed_in_the_queue_holds_nobody_up(database, queue_up):
    start, said = queue_up
    mine = acquire_write_lock(database, time.monotonic() + 600)
    children = [start(name) for name in range(3)]
    os.kill(children[0].pid, signal.SIGKILL)
    mine.close()
    assert [said.get() for _ in range(2)] == [1, 2]


def test_who_does_not_move_is_passed_in_the_end(database, queue_up, monkeypatch):
    start, said = queue_up
    monkeypatch.setattr(waiting, "PATIENCE", 0.3)
    mine = acquire_write_lock(database, time.monotonic() + 600)
    start(0)
    assert said.get() == 0  # although mine is still held
    mine.close()


def test_the_order_is_a_courtesy(tmp_path, database, monkeypatch):
    assert acquire_write_lock(tmp_path / "nowhere" / "budget.db", time.monotonic() + 1) is None

    def refuse(*_):
        raise OSError("no locks here")

    path = tmp_path / "ledger.db"
    budget = Ledger(path).create("rows", epsilon=1.0)
    monkeypatch.setattr(waiting.fcntl, "lockf", refuse)
    assert acquire_write_lock(database, time.monotonic() + 1) is None
    budget.charge(PureEvent(0.1))
    assert budget.spent() == 0.1
