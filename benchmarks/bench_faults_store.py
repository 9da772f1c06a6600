"""Fault campaigns on a function store in a SQLite file: interrupts and kills of answers."""

from __future__ import annotations

import contextlib
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

import numpy as np

from benchmarks.bench_faults_ledger import FORK, MEMORY, alarms, record_of, seconds
from sfumato import Bounds
from sfumato.functions import OnlineFunction, release_function
from sfumato.kernels import ExponentialKernel
from sfumato.mechanisms import GaussianProcessMechanism

Record = dict[str, Any]

INTERRUPTS = 2_000
KILLS = 200
MECHANISM = GaussianProcessMechanism.calibrate(sensitivity=0.1, epsilon=1.0, delta=1e-5)


def store(share: float) -> list[Record]:
    """Ctrl-C and kill -9 at random moments of answers; none may be told twice otherwise."""
    wanted = int(INTERRUPTS * share / 2)
    places = {"on a disk": None, "in memory": next(filter(os.path.isdir, MEMORY), None)}
    found = [_interrupts(name, folder, wanted) for name, folder in places.items()]
    return [*found, _kills(int(KILLS * share))]


def _wave(X: Any) -> Any:
    return np.sin(6 * X[:, 0])


@contextmanager
def _store(folder: str | None = None) -> Iterator[tuple[Path, OnlineFunction]]:
    with tempfile.TemporaryDirectory(dir=folder) as made:
        path = Path(made) / "answers.db"
        yield (
            path,
            release_function(
                _wave,
                kernel=ExponentialKernel(5.0),
                mechanism=MECHANISM,
                form="online",
                domain=Bounds(lower=0.0, upper=1.0),
                store=path,
                name="wave",
            ),
        )


def _resumed(path: Path) -> OnlineFunction:
    return OnlineFunction.resume(_wave, store=path, name="wave")


def _interrupts(name: str, folder: str | None, wanted: int) -> Record:
    draws, outcomes, told = random.Random(0), Counter[str](), dict[float, float]()
    with _store(folder) as (path, function), alarms():
        times = [seconds(lambda: function([draws.random()])) for _ in range(9)]
        longest, done = 1.2 * statistics.median(times), 0
        while done < wanted:
            x = draws.random()
            error = _interrupted(function, x, draws.uniform(1e-5, longest), told)
            done += error is not None
            outcomes[_outcome(path, error)] += 1
            if draws.random() < 0.1:  # whatever became of it, there is one answer from here on
                told[x] = float(function([x])[0])
        again = dict(zip(told, _resumed(path)(list(told)).tolist(), strict=True))
        outcomes["lost"] += sum(again[x] != answer for x, answer in told.items())
    tried = sum(outcomes.values())
    return record_of(f"Ctrl-C during an answer {name}", tried, outcomes, told=len(told))


def _interrupted(
    function: OnlineFunction, x: float, after: float, told: dict[float, float]
) -> BaseException | None:
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        answer = float(function([x])[0])
        signal.setitimer(signal.ITIMER_REAL, 0)
        told[x] = answer
    except BaseException as error:
        return error
    return None


def _outcome(path: Path, error: BaseException | None) -> str:
    try:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return "lock left"
    if error is None:
        return "answered"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else "raw exception"


def _kills(tried: int) -> Record:
    draws, outcomes, told = random.Random(1), Counter[str](), dict[float, float]()
    with _store() as (path, _):
        for session in range(tried):
            here, there = FORK.Pipe(duplex=False)
            child = FORK.Process(target=_ask_and_tell, args=(path, session, there))
            child.start()
            there.close()
            answers = [here.recv()]
            time.sleep(draws.uniform(0.0, 0.06))
            os.kill(child.pid or 0, signal.SIGKILL)
            child.join()
            with contextlib.suppress(EOFError):
                while True:
                    answers.append(here.recv())
            here.close()
            kept = _resumed(path)([x for x, _ in answers]).tolist()
            is_kept = kept == [answer for _, answer in answers]
            outcomes["all told is kept" if is_kept else "lost"] += 1
            told.update(answers)
        outcomes["lost"] += _resumed(path)(list(told)).tolist() != list(told.values())
    return record_of("kill -9 during answers", tried, outcomes, told=len(told))


def _ask_and_tell(path: Path, seed: int, told: Any) -> None:
    function, draws = _resumed(path), random.Random(seed)
    while True:
        x = draws.random()
        told.send((x, float(function([x])[0])))
