"""Fault campaigns on a SQLite ledger: interrupts, kills, long histories, many processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import sqlite3
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sfumato.accounting.dataset_budget import DatasetBudget
from sfumato.accounting.ledger import Ledger
from sfumato.events import Event, GaussianEvent, LaplaceEvent, PureEvent
from sfumato.storage import databases

Record = dict[str, Any]

INTERRUPTS = 10_000
KILLS = 1_000
LENGTHS = (10, 100, 1_000, 10_000, 100_000)
PROCESSES, CHARGES = 32, 25
TIMED = 41  # charges timed at each length, more than from one checkpoint to the next
TINY = PureEvent(1e-9)
MEMORY = ("/dev/shm",)
FORK = multiprocessing.get_context("fork")


def interrupts(share: float) -> list[Record]:
    """Ctrl-C at a random moment of a charge; then look at the lock, with all frames kept.

    Half of them on a disk, where most come while it syncs, and half in memory, where most come
    between two steps of the program.
    """
    wanted = int(INTERRUPTS * share / 2)
    places = {"on a disk": None, "in memory": next(filter(os.path.isdir, MEMORY), None)}
    return [_interrupts(name, folder, wanted) for name, folder in places.items()]


def _interrupts(name: str, folder: str | None, wanted: int) -> Record:
    draws, outcomes = random.Random(0), Counter[str]()
    with _ledger(folder=folder) as (path, budget), alarms():
        budget.charge(TINY)
        longest = 1.2 * statistics.median(seconds(lambda: budget.charge(TINY)) for _ in range(9))
        done = 0
        while done < wanted:
            before = _count(path)
            event = PureEvent(1e-9 * draws.random())  # a repeated one would be paid already
            error = _interrupted(budget, event, draws.uniform(1e-5, longest))
            done += error is not None
            outcomes[_outcome(path, error, before)] += 1
            del error
        held = Ledger(path).verify().charges == _count(path)
    tried = sum(outcomes.values())
    return record_of(f"Ctrl-C during a charge {name}", tried, outcomes, chain_holds=held)


def _interrupted(budget: DatasetBudget, event: Event, seconds: float) -> BaseException | None:
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        budget.charge(event)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except BaseException as error:
        return error
    return None


def _outcome(path: Path, error: BaseException | None, before: int) -> str:
    try:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return "lock left"
    is_written = _count(path) > before
    if error is None:
        return "charged" if is_written else "lost"
    if not isinstance(error, KeyboardInterrupt):
        return "raw exception"
    return "interrupted after the commit" if is_written else "interrupted, nothing charged"


@contextmanager
def alarms() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def kills(share: float) -> list[Record]:
    """Kill -9 a process that charges and tells; what it told must be there, and no lock."""
    draws, outcomes = random.Random(1), Counter[str]()
    tried = int(KILLS * share)
    with _ledger() as (path, budget):
        for _ in range(tried):
            before = _count(path)
            here, there = FORK.Pipe(duplex=False)
            child = FORK.Process(target=_charge_and_tell, args=(budget, there))
            child.start()
            there.close()
            here.recv_bytes()
            time.sleep(draws.uniform(0.0, 0.06))
            os.kill(child.pid or 0, signal.SIGKILL)
            child.join()
            told = 1 + _rest(here)
            held = _count(path) - before
            outcomes[_kept(path, told, held)] += 1
        sound = Ledger(path).verify().charges == _count(path)
    return [record_of("kill -9 during charges", tried, outcomes, chain_holds=sound)]


def _charge_and_tell(budget: DatasetBudget, told: Any) -> None:
    while True:
        budget.charge(TINY)
        told.send_bytes(b"x")


def _rest(pipe: Any) -> int:
    count = 0
    with contextlib.suppress(EOFError):
        while True:
            pipe.recv_bytes()
            count += 1
    pipe.close()
    return count


def _kept(path: Path, told: int, held: int) -> str:
    try:
        Ledger(path, timeout=0.5).dataset("rows").charge(TINY)
    except Exception:
        return "lock left"
    if held < told:
        return "lost"
    return "all told is kept" if held == told else "one more, never told"


def latency(share: float) -> list[Record]:
    """Time a charge after so many: warm and new handle, beside a plain transaction."""
    records = []
    for kind in ("Gaussian", "mixed, all different"):
        draws = random.Random(2)
        with _ledger(epsilon=4.0, delta=1e-6) as (path, budget):
            for length in LENGTHS:
                if length > max(1_000, LENGTHS[-1] * share):
                    break
                while (missing := length - budget.statement().charges) > 0:
                    budget.charge(*(_event(kind, draws) for _ in range(min(missing, 500))))
                for handle in ("warm", "new"):
                    records.append(
                        {"kind": kind, "handle": handle, "charges": length}
                        | _timed(path, budget, kind, draws, is_new=handle == "new")
                    )
    return records


def _timed(
    path: Path, budget: DatasetBudget, kind: str, draws: random.Random, *, is_new: bool
) -> dict[str, float]:
    wall, cpu, plain = [], [], []
    for _ in range(TIMED):
        event = _event(kind, draws)
        plain.append(seconds(lambda: _plain_transaction(path)))
        begun, used = time.perf_counter(), time.process_time()
        (Ledger(path).dataset("rows") if is_new else budget).charge(event)
        wall.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - used)
    beyond = [a - b for a, b in zip(wall, plain, strict=True)]
    return {
        "cpu_ms": round(1e3 * statistics.median(cpu), 2),
        "slowest_cpu_ms": round(1e3 * max(cpu), 2),
        "wall_ms": round(1e3 * statistics.median(wall), 2),
        "plain_transaction_ms": round(1e3 * statistics.median(plain), 2),
        "beyond_sync_ms": round(1e3 * statistics.median(beyond), 2),
    }


def _plain_transaction(path: Path) -> None:
    """The disk's own time: one line into a file of the same kind, synced the same way."""
    with closing(sqlite3.connect(path.with_suffix(".plain"), isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=EXTRA")
        connection.execute("CREATE TABLE IF NOT EXISTS lines (text TEXT)")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO lines VALUES (?)", ("x" * 400,))
        connection.execute("COMMIT")


def _event(kind: str, draws: random.Random) -> Event:
    size = draws.uniform(0.5, 1.5)
    events = (GaussianEvent(1000 * size), LaplaceEvent(0.001 * size), PureEvent(0.001 * size))
    return events[0] if kind == "Gaussian" else draws.choice(events)


def crowd(share: float) -> list[Record]:
    """Let many processes charge at once, and compare the longest wait with the median."""
    in_order, lottery = "in order of arrival", "SQLite's own waiting"
    return [_crowd(in_order, share), _crowd(lottery, share)]


def _crowd(how: str, share: float) -> Record:
    processes = max(4, int(PROCESSES * min(1.0, 10 * share)))
    queue = databases.take_turn
    if how != "in order of arrival":
        databases.take_turn = lambda *_: None
    try:
        with _ledger() as (path, budget):
            answers, ready = FORK.SimpleQueue(), FORK.Barrier(processes)
            children = [
                FORK.Process(target=_crowding, args=(budget, ready, answers))
                for _ in range(processes)
            ]
            for child in children:
                child.start()
            waits = sorted(wait for _ in children for wait in answers.get())
            for child in children:
                child.join()
            made = Ledger(path).verify().charges
    finally:
        databases.take_turn = queue
    middle, slowest = statistics.median(waits), waits[-1]
    return {
        "waiting": how,
        "processes": processes,
        "charges": made,
        "median_s": round(middle, 3),
        "slowest_s": round(slowest, 3),
        "slowest_over_median": round(slowest / middle, 2),
    }


def _crowding(budget: DatasetBudget, ready: Any, answers: Any) -> None:
    ready.wait()
    answers.put([seconds(lambda: budget.charge(TINY)) for _ in range(CHARGES)])


@contextmanager
def _ledger(
    epsilon: float = 1.0, delta: float = 0.0, folder: str | None = None
) -> Iterator[tuple[Path, DatasetBudget]]:
    with tempfile.TemporaryDirectory(dir=folder) as made:
        path = Path(made) / "budget.db"
        yield path, Ledger(path).create("rows", epsilon=epsilon, delta=delta)


def _count(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count FROM sfumato_budgets").fetchone()[0])


def seconds(task: Any) -> float:
    begun = time.perf_counter()
    task()
    return time.perf_counter() - begun


def record_of(fault: str, tried: int, outcomes: Counter[str], **more: Any) -> Record:
    return {"fault": fault, "tried": tried, "outcomes": dict(outcomes), **more}
