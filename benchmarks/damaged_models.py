"""Campaigns on stored models and function stores: altered, flipped, killed while saved, disk full.

The alterations are those of tests/storage/stored_models.py, here all of them.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sfumato import LinearClassifier, load, save
from sfumato.exceptions import FileNotWrittenError, SfumatoError, StoredModelError
from sfumato.storage.atomic_file import ASIDE
from tests.storage.stored_models import (
    MODELS,
    alterations,
    answers,
    fitted,
    members_of,
    reseal,
    verdict,
)

Record = dict[str, Any]

FLIPPED = 20_000
KILLS = 1_000
FULL = 1_000
GOOD = {"refused": "refused by name", "answers": "answers numbers", "refused when asked": "refused"}


def damaged_models(share: float) -> list[Record]:
    """Run all campaigns on files of models and stores."""
    with tempfile.TemporaryDirectory() as folder:
        found = [_altered(Path(folder), share), _flipped(Path(folder), share)]
        found.append(_full_disk(Path(folder), share))
    with tempfile.TemporaryDirectory() as folder:
        return [*found, _killed(Path(folder), share)]


def _record(fault: str, outcomes: Counter[str]) -> Record:
    return {"fault": fault, "tried": sum(outcomes.values()), "outcomes": dict(outcomes)}


def _altered(folder: Path, share: float) -> Record:
    """Alter every number of every model, one at a time, and seal the file again."""
    outcomes: Counter[str] = Counter()
    path = folder / "model.sfumato"
    step = max(1, round(1 / share))
    for name, *_ in MODELS:
        model, rows = fitted(name)
        save(model, path)
        members = members_of(path)
        for number, (_, make) in enumerate(alterations(members)):
            if number % step == 0:
                reseal(path, make())
                outcomes[_told(verdict(path, rows))] += 1
    return _record("model altered and sealed again", outcomes)


def _told(verdict_of_file: str) -> str:
    if verdict_of_file in GOOD:
        return GOOD[verdict_of_file]
    return "hang" if verdict_of_file == "slow" else "raw exception"


def _flipped(folder: Path, share: float) -> Record:
    """Flip bytes of model files, cut them, or put bytes in."""
    rng, outcomes = random.Random(0), Counter()
    path = folder / "flipped.sfumato"
    for name in ("linear", "gaussian", "kernel classifier", "transfer"):
        model, rows = fitted(name)
        save(model, path)
        whole, wanted = path.read_bytes(), [np.asarray(a) for a in _plain(answers(model, rows))]
        for _ in range(round(share * FLIPPED / 4)):
            path.write_bytes(_damaged(whole, rng))
            outcomes[_as_before(path, rows, wanted)] += 1
    return _record("model file damaged", outcomes)


def _damaged(whole: bytes, rng: random.Random) -> bytes:
    data = bytearray(whole)
    place, kind = rng.randrange(len(data)), rng.random()
    if kind < 0.7:
        data[place] ^= 1 << rng.randrange(8)
    elif kind < 0.85:
        del data[place:]
    else:
        data[place:place] = rng.randbytes(rng.randrange(1, 9))
    return bytes(data)


def _as_before(path: Path, rows: np.ndarray, wanted: list[np.ndarray]) -> str:
    try:
        found = [np.asarray(a) for a in _plain(answers(load(path), rows))]
    except StoredModelError:
        return "refused by name"
    except Exception:
        return "raw exception"
    same = all(
        a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(found, wanted, strict=True)
    )
    return "as before" if same else "silent change"


def _plain(found: list[Any]) -> list[Any]:
    return [v for each in found for v in (each.values() if isinstance(each, dict) else [each])]


@contextmanager
def _room_for(n_bytes: int) -> Iterator[None]:
    """Let the system refuse to write more than so many bytes into a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def _writers() -> list[tuple[str, Callable[[Path], Any]]]:
    import pyarrow as pa

    from sfumato.report import Report, Result
    from sfumato.tables.files import write_table

    model, _ = fitted("gaussian")
    table = pa.table({"a": list(range(2000)), "b": ["x"] * 2000})
    page = Report(title="Faults", results=[Result("model", model.guarantee_, {}, ())])
    tables = [(suffix, lambda path: write_table(table, path)) for suffix in (".csv", ".parquet")]
    return [(".sfumato", lambda path: save(model, path)), (".html", page.write), *tables]


def _full_disk(folder: Path, share: float) -> Record:
    """Stop every writer after a random number of bytes."""
    rng, outcomes = random.Random(2), Counter()
    for suffix, write in _writers():
        path = folder / f"old{suffix}"
        write(path)
        old = path.read_bytes()
        for _ in range(round(share * FULL / 4)):
            with _room_for(rng.randrange(len(old))):
                outcomes[_refused_whole(write, path, old)] += 1
    return _record("disk full while written", outcomes)


def _refused_whole(write: Callable[[Path], Any], path: Path, old: bytes) -> str:
    try:
        write(path)
    except FileNotWrittenError as error:
        named = str(path) in str(error)
        whole = path.read_bytes() == old and not list(path.parent.glob(ASIDE.format("*")))
        return "refused by name, old file whole" if named and whole else "lost"
    except Exception:
        return "raw exception"
    return "written"


def _killed(folder: Path, share: float) -> Record:
    """Kill a process that saves all the time; the file must be whole, and nothing lie about."""
    rng, outcomes = random.Random(3), Counter()
    path, most_left = folder / "model.sfumato", 0
    model = LinearClassifier().fit(np.eye(3), [0, 1, 1])
    model.n_features_in_, model.coef_ = 200_000, np.zeros((1, 200_000))
    save(model, path)
    for _ in range(round(share * KILLS)):
        child = os.fork()
        if not child:
            _save_for_ever(model, path)
        time.sleep(rng.uniform(0.002, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        most_left = max(most_left, len(list(folder.glob(ASIDE.format("*")))))
        try:
            load(path)
            outcomes["file whole"] += 1
        except SfumatoError:
            outcomes["lost"] += 1
    save(model, path)
    left = len(list(folder.glob(ASIDE.format("*"))))
    record = _record("killed while a model is saved", outcomes)
    return record | {"most_files_beside": most_left, "files_beside_after_the_next_save": left}


def _save_for_ever(model: Any, path: Path) -> None:
    try:
        while True:
            save(model, path)
    finally:
        os._exit(1)
