"""What can go wrong with a file: always an error of our own, and nothing lost."""

import os
import resource
import shutil
import sqlite3
import tempfile
from contextlib import closing
from multiprocessing import Pipe
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from sfumato.exceptions import LedgerError, SfumatoError
from sfumato.ledger.ledger import Ledger
from sfumato.privacy.events import PureEvent

CENT = PureEvent(0.01)


@pytest.fixture
def path(tmp_path):
    """A ledger file with three charges."""
    path = tmp_path / "budget.db"
    Ledger(path).create("rows", epsilon=1.0, delta=0.0).charge(CENT, CENT, CENT)
    return path


def charges(path):
    return Ledger(path).verify().charges


def test_no_connection_is_kept(path):
    budget = Ledger(path).dataset("rows")
    budget.charge(CENT)
    budget.statement()
    held = [str(f.readlink()) for f in Path("/proc/self/fd").iterdir() if f.is_symlink()]
    assert not any(name.startswith(str(path)) for name in held)


@pytest.mark.parametrize("begin", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_ledger_that_stays_locked(path, begin):
    budget = Ledger(path, timeout=0.05).dataset("rows")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(begin)
        with pytest.raises(LedgerError, match=r"stayed locked .* 0.05 s"):
            budget.charge(CENT)
        other.execute("ROLLBACK")
    assert charges(path) == 3
    budget.charge(CENT)
    assert charges(path) == 4


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "letter.txt"
    path.write_text("Dear auditor, " * 100)
    before = path.read_bytes()
    for use in (Ledger.datasets, Ledger.verify, lambda x: x.create("rows", epsilon=1.0, delta=0.0)):
        with pytest.raises(LedgerError, match="is not a ledger"):
            use(Ledger(path))
    assert path.read_bytes() == before


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 5 * 4096), st.binary(min_size=1, max_size=48))
def test_damage_anywhere_is_reported_or_harmless(place, rubbish):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "budget.db"
        budget = Ledger(path).create("rows", epsilon=1.0, delta=0.0)
        budget.charge(CENT, CENT, CENT)
        head = budget.head()
        with path.open("r+b") as file:
            file.seek(min(place, path.stat().st_size - len(rubbish)))
            file.write(rubbish)
        try:
            heads = Ledger(path).verify().heads
        except SfumatoError:
            return
        assert heads == {"rows": head}


def _fill(path, answers):
    """Charge until the file may not grow, and say how often it went well and how it ended."""
    limit = path.stat().st_size + 4 * 4096
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    budget, done = Ledger(path).dataset("rows"), 0
    try:
        for _ in range(1000):
            budget.charge(PureEvent(0.0001))
            done += 1
    except LedgerError as error:
        answers.send((done, str(error)))


def test_a_full_disk_refuses_the_charge_and_keeps_the_others(path, start_child):
    here, there = Pipe()
    child = start_child(_fill, path, there)
    done, message = here.recv()
    child.join()
    assert "the disk is full" in message
    assert done > 5
    assert charges(path) == 3 + done
    Ledger(path).dataset("rows").charge(CENT)
    assert charges(path) == 4 + done


@pytest.fixture
def open_folder():
    """A folder that an unprivileged user can reach; pytest's own is private to root."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def _as_nobody(call):
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    return call()


@pytest.mark.parametrize(("file_mode", "folder_mode"), [(0o444, 0o755), (0o444, 0o555)])
def test_a_read_only_ledger_can_be_read_and_not_charged(
    open_folder, in_child, file_mode, folder_mode
):
    path = open_folder / "budget.db"
    budget = Ledger(path).create("rows", epsilon=1.0, delta=0.0)
    budget.charge(CENT)
    path.chmod(file_mode)
    open_folder.chmod(folder_mode)
    answer = in_child(lambda: _as_nobody(lambda: budget.charge(CENT)))
    assert answer.startswith("LedgerError")
    assert "read-only" in answer
    assert in_child(lambda: _as_nobody(budget.spent)) == "0.01"
    assert charges(path) == 1


def test_a_second_name_is_refused_while_it_is_there(tmp_path):
    """SQLite would not find the journal of a killed writer under it, and could undo charges."""
    path, link, other = (tmp_path / name for name in ("budget.db", "link.db", "other.db"))
    Ledger(path).create("rows", epsilon=1.0, delta=0.0).charge(CENT)
    link.symlink_to(path)
    Ledger(link).dataset("rows").charge(CENT)
    os.link(path, other)
    for place in (path, link, other):
        with pytest.raises(LedgerError, match="hard link"):
            Ledger(place).dataset("rows").charge(CENT)
    other.unlink()
    assert Ledger(path).dataset("rows").spent() == pytest.approx(0.02)
