"""Every step of a charge and a save fails once; what is left is named and whole.

A step is a line of Sfumato's own code, at which memory runs out, or a statement of the database,
which fails before or after it has done its work.
"""

from __future__ import annotations

import linecache
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from sfumato import Bounds, Ledger, PrivatePCA, load, save
from sfumato.core import databases
from sfumato.exceptions import LedgerError, SfumatoError
from sfumato.privacy.events import PureEvent

PACKAGES = ("sfumato.core", "sfumato.ledger", "sfumato.privacy", "sfumato.models")
SAVING = (
    "sfumato.core",
    *(f"sfumato.models.{m}" for m in ("saving", "stored_values", "container")),
)
SPREAD, LAST = 30, 9  # steps that fail: some of all, and those from the last write on
COMMITTED = "is_done = True"  # the line after the commit


class FailingLine:
    """A trace in which line number `fails` of our own rooms finds no memory.

    Lines are counted from the start, or from the line that reads `since` on.
    """

    def __init__(self, fails: int, rooms: tuple[str, ...] = PACKAGES, since: str = "") -> None:
        self.lines, self.fails, self.rooms, self.since = 0, fails, rooms, since

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not str(frame.f_globals.get("__name__", "")).startswith(self.rooms):
            return None
        if event == "line" and frame.f_code.co_name != "__del__":  # nobody hears it there
            if self.since and self._reads(frame) == self.since:
                self.since = ""
            # Leaving a block is a step of the trace at its `with`; nothing can run out there.
            self.lines += not self.since and not self._reads(frame).startswith("with ")
            if self.lines == self.fails:
                self.fails = 0
                raise MemoryError
        return self

    def _reads(self, frame: FrameType) -> str:
        return linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()

    @contextmanager
    def armed(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self)
        try:
            yield
        finally:
            sys.settrace(before)


def failing_lines(
    call: Callable[[], Any], rooms: tuple[str, ...] = PACKAGES
) -> Iterator[FailingLine]:
    """Count the lines of a call, and return traces that fail at some of them."""
    count = FailingLine(0, rooms)
    with count.armed():
        call()
    assert count.lines > 20
    for fails in range(1, count.lines * 9 // 10, max(1, count.lines // SPREAD)):
        yield FailingLine(fails, rooms)
    for fails in range(1, 1 + LAST if rooms is PACKAGES else 1):
        yield FailingLine(fails, rooms, COMMITTED)


def lock_is_free(path: Path) -> None:
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")


def test_every_line_of_a_charge_may_fail(tmp_path: Path) -> None:
    """What is left: nothing charged, or the charge without a receipt, which a retry finds."""
    path = tmp_path / "budget.db"
    budget = Ledger(path).create("rows", epsilon=1.0, delta=0.0)
    left = {"nothing charged": 0, "charged, nothing drawn": 0}
    for number, line in enumerate(failing_lines(lambda: budget.charge(PureEvent(1e-6)))):
        event, before = PureEvent(1e-5 * (1 + number)), Ledger(path).verify().charges
        with pytest.raises(MemoryError), line.armed():
            budget.charge(event)
        lock_is_free(path)
        for lock in (databases.write_lock, databases.fork_safe_lock):
            assert not lock._is_owned()  # type: ignore[attr-defined]
        charged = Ledger(path).verify().charges - before
        assert charged in (0, 1)
        left["charged, nothing drawn" if charged else "nothing charged"] += 1
        assert budget.charge(event).unused() == (event,)  # paid once, whatever became of the first
        assert Ledger(path).verify().charges == before + 1
    assert all(left.values()), left


class FailingConnection:
    """A connection to SQLite whose statement number `fails` fails, before or after its work."""

    def __init__(self, connection: sqlite3.Connection, plan: Plan) -> None:
        self._connection, self._plan = connection, plan

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._connection, name)
        return self._plan.counted(found) if name in ("execute", "executemany") else found


class Plan:
    def __init__(self, fails: int = 0, *, is_after: bool = False) -> None:
        self.fails, self.is_after, self.statements = fails, is_after, list[str]()

    def counted(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def counted(statement: str, *values: Any) -> Any:
            self.statements.append(statement)
            if len(self.statements) != self.fails:
                return run(statement, *values)
            if self.is_after:
                run(statement, *values)
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorname = "SQLITE_FULL"  # type: ignore[misc]
            raise error

        return counted


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Plan], None]:
    connect = databases._sqlite

    def arm(plan: Plan) -> None:
        def opened(uri: str, timeout: float) -> Any:
            return FailingConnection(connect(uri, timeout), plan)

        monkeypatch.setattr(databases, "_sqlite", opened)

    return arm


def outcomes(
    failing: Callable[[Plan], None], call: Callable[[], Any], error: type[SfumatoError]
) -> Iterator[tuple[str, bool]]:
    """Fail at each statement of a call, before and after its work; return what has failed."""
    whole = Plan()
    failing(whole)
    call()
    for number in range(1, len(whole.statements) + 1):
        for is_after in (False, True):
            failing(Plan(number, is_after=is_after))
            with pytest.raises(error, match="the disk is full or failing"):
                call()
            failing(Plan())
            yield whole.statements[number - 1], is_after


def test_every_statement_of_a_fit_s_charge_may_fail(
    tmp_path: Path, failing: Callable[[Plan], None]
) -> None:
    """A fit charges all or nothing, and promises nothing after a failure."""
    path = tmp_path / "budget.db"
    budget = Ledger(path).create("rows", epsilon=100.0, delta=1e-3)
    rows, made = np.random.default_rng(0).uniform(size=(50, 3)), list[PrivatePCA]()

    def fit() -> None:
        bounds = Bounds(lower=0.0, upper=1.0)
        made.append(PrivatePCA(1, delta=1e-5, bounds=bounds, ledger=budget))
        made[-1].fit(rows)

    charged = {}
    before = 0
    for statement, is_after in outcomes(failing, fit, LedgerError):
        lock_is_free(path)
        now = Ledger(path).verify().charges
        before = before or 1  # the fit that counted the statements
        charged[statement, is_after] = now - before
        before = now
        assert not hasattr(made[-1], "guarantee_")
    # Only a commit that was made and then not confirmed leaves its charge; the same fit finds it.
    assert {key for key, more in charged.items() if more} <= {("COMMIT", True)}
    fit()
    assert Ledger(path).verify().charges - before <= 1
    assert made[-1].guarantee_.epsilon == 1.0


# Files that the garbage collector must close tell of it, and nobody hears them.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_every_line_of_a_save_may_fail(tmp_path: Path) -> None:
    """What is left: the older file, or the new one; nothing beside it after the next save."""
    path, bounds = tmp_path / "model", Bounds(lower=0.0, upper=1.0)
    models = [
        PrivatePCA(k, delta=1e-5, bounds=bounds).fit(np.random.default_rng(k).uniform(size=(50, 3)))
        for k in (1, 2)
    ]
    save(models[0], path)
    found = set()
    for line in failing_lines(lambda: save(models[0], path), SAVING):
        save(models[0], path)
        with pytest.raises(MemoryError), line.armed():
            save(models[1], path)
        found.add(len(load(path).components_))
        save(models[1], path)
        assert len(load(path).components_) == 2
        assert list(tmp_path.iterdir()) == [path]
    assert found == {1}  # those of the last lines are in test_atomic_file.py
