"""Workers: the only processes that read rows.

One process claims jobs from the store and forks a child for each, with limits on memory and time.
A child charges, draws, writes the release aside, renames it, and only then marks the job as
released. What a crash leaves behind is settled at the next start: charged or not is a fact of the
ledger.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import logging
import math
import os
import resource
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sfumato.exceptions import (
    BudgetExceededError,
    SfumatoError,
    UnsupportedEventError,
)
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.receipt import Receipt
from sfumato.ledger.shared_budget import Payer, SharedBudget
from sfumato.privacy.events import Event
from sfumato.service import tasks
from sfumato.service.settings import Settings
from sfumato.service.sources import DATABASE, files_behind, opened_source
from sfumato.service.store import DatasetState, JobState, ServiceError, Store, now
from sfumato.tables.schema import TableBounds
from sfumato.tables.stores import place_of

log = logging.getLogger("sfumato.service")

PAUSE = 0.1  # seconds between looks at the queue
ENDED_EARLY = "The job ended before its charge. Nothing was charged."
CHARGED_AND_LOST = (
    "The job was charged and ended before its result was stored. Nothing was shown; the charge "
    "stands."
)
UNREADABLE = "The table could not be read. Look at it with 'sfumato describe' on the server."


class _NotedPayer:
    """A payer that remembers that it has paid."""

    def __init__(self, payer: Payer) -> None:
        self._payer = payer
        self.budget = payer.budget
        self.has_paid = False

    def charge(
        self, *events: Event, unit: str | None = None, relation: str | None = None
    ) -> Receipt:
        self.has_paid = True  # also where the answer is lost: settled by the ledger
        try:
            return self._payer.charge(*events, unit=unit, relation=relation)
        except (BudgetExceededError, UnsupportedEventError):
            self.has_paid = False
            raise


def run_job(settings: Settings, job: Mapping[str, Any]) -> None:
    """Make one release, in a process of its own; whatever happens, the job gets a state."""
    store = Store(settings.store_address)
    dataset = store.dataset(job["dataset"])
    if job["task"]["kind"] in CHORES:
        CHORES[job["task"]["kind"]](settings, store, dataset)
        store.move_job("worker", job["id"], JobState.RELEASED)
        return
    budget = SharedBudget(Ledger(settings.ledger_address), dataset["budget"])
    payer = _NotedPayer(budget.payer(job["person"], job["purpose"], job["id"]))
    aside = settings.releases / f".{job['id']}.part"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o770)  # the web process may be of the same group
    try:
        state, reason, record = _attempt(settings, dataset, job, payer, aside)
        if record is not None:  # stored before anybody can see it: files, folder, then the row
            told = ("id", "dataset", "person", "purpose", "epsilon", "delta", "task")
            times = {"created": now(), "shown": _shown(settings)}
            release = {**{name: job[name] for name in told}, **record, **times}
            (aside / "release.json").write_text(json.dumps(release))
            for path in aside.iterdir():
                _sync(path)
            aside.rename(settings.releases / job["id"])
            _sync(settings.releases)
            _store_release(store, release)
            return
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    store.move_job("worker", job["id"], state, reason=reason, shown=_shown(settings))


def _attempt(
    settings: Settings,
    dataset: Mapping[str, Any],
    job: Mapping[str, Any],
    payer: _NotedPayer,
    aside: Path,
) -> tuple[JobState, str, dict[str, Any] | None]:
    """Rehearse and make a release; errors of the rehearsal read no row and are told in full."""
    try:
        tasks.rehearsed(dataset, job, aside)
    except SfumatoError as error:
        return JobState.FAILED, f"{error} Nothing was charged.", None
    except Exception:  # of dummy rows alone, and told in one way
        return JobState.FAILED, ENDED_EARLY, None
    try:
        bounds = TableBounds.from_record(dataset["bounds"])
        key = settings.key_of_workers()
        with opened_source(settings, dataset["path"], bounds) as table:
            record = tasks.make_release(dataset, job, table, payer, aside, key)
    except (BudgetExceededError, UnsupportedEventError) as error:
        if not payer.has_paid:
            return JobState.REFUSED, str(error), None
        return JobState.LOST, CHARGED_AND_LOST, None
    except BaseException:  # rows were read: one text, whatever it was
        if payer.has_paid and payer.budget.is_charged(job["id"]):
            return JobState.LOST, CHARGED_AND_LOST, None
        return JobState.FAILED, ENDED_EARLY, None
    return JobState.RELEASED, "", record


def _store_release(store: Store, release: Mapping[str, Any]) -> None:
    store.move_job(
        "worker", release["id"], JobState.RELEASED, release=release, shown=release["shown"]
    )


def _describe(settings: Settings, store: Store, dataset: Mapping[str, Any]) -> None:
    name = dataset["name"]
    try:
        with opened_source(settings, dataset["path"]) as table:
            found = tasks.describe(table, dataset.get("target"), dataset.get("person"))
    except Exception:  # rows were read: one text
        store.change_dataset(
            *("worker", name, {"reason": UNREADABLE}),
            action="describe failed",
            state=DatasetState.UNREADABLE,
        )
        return
    is_public = dataset["relation"] == "replace_one" and dataset["unit"] != "person"
    changes = {
        "bounds": found["bounds"],
        "notes": found["notes"],
        "n_rows": found["n_rows"] if is_public else None,
    }
    store.change_dataset("worker", name, changes, action="describe", state=DatasetState.PROPOSED)


def _delete(settings: Settings, store: Store, dataset: Mapping[str, Any]) -> None:
    """Delete the rows of a retired data set, unless another one is made of them.

    Tables inside of databases are not ours to delete; the audit log says so.
    """
    path = files_behind(settings, dataset["path"])
    if path is None:
        store.note("worker", "rows stay in the database", dataset["name"], {})
        return
    for other in store.datasets():
        is_gone = other["state"] == DatasetState.RETIRED or DATABASE.fullmatch(other["path"])
        if other["name"] == dataset["name"] or is_gone:
            continue
        place = settings.table(str(place_of(other["path"])[0]))
        if path == place or path in place.parents or place in path.parents:
            store.note("worker", "rows stay for another data set", dataset["name"], {})
            return
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    store.note("worker", "delete rows", dataset["name"], {})


# What is done without a charge, and without a result of its own.
CHORES = {"describe": _describe, "delete": _delete}


def settle(settings: Settings, store: Store, job: Mapping[str, Any], *, again: bool) -> None:
    """Assign a job whose process is gone the state that the ledger and the disk say."""
    place = settings.releases / job["id"] / "release.json"
    if place.exists():  # stored in full, and the row was not written
        _store_release(store, json.loads(place.read_text()))
        return
    shutil.rmtree(settings.releases / f".{job['id']}.part", ignore_errors=True)
    budget = SharedBudget(Ledger(settings.ledger_address), store.dataset(job["dataset"])["budget"])
    attempts = job.get("attempts", 0)
    state, reason = JobState.FAILED, ENDED_EARLY
    if "estimator" in job["task"] and budget.is_charged(job["id"]):
        state, reason = JobState.LOST, CHARGED_AND_LOST
    elif job.get("cancel"):
        state, reason = JobState.CANCELLED, ""
    elif again and attempts < 3:
        store.move_job("worker", job["id"], JobState.QUEUED, attempts=attempts + 1)
        return
    store.move_job("worker", job["id"], state, reason=reason, shown=_shown(settings))


def _shown(settings: Settings) -> str:
    """Return the time from which a result is shown: now, or the next fixed time."""
    if not settings.show_every:
        return now()
    step = settings.show_every
    moment = math.ceil(time.time() / step) * step
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def _sync(path: Path) -> None:
    place = os.open(path, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


class Workers:
    """The process that claims jobs and forks a child for each."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings.prepared()
        self.store = Store(settings.store_address)
        self._children: dict[int, tuple[dict[str, Any], float]] = {}
        self._ends = False

    def run(self) -> None:
        """Work until a signal ends it, and its jobs, which are settled at the next start."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(self, "_ends", True))
        with (self.settings.state / "workers.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # a second set of workers waits
            self.store.prepare()
            import sfumato.tables.proposal  # noqa: F401 - what jobs need: a child starts at once

            for name in {name for names in tasks.ESTIMATORS.values() for name in names}:
                tasks.settings_of(name)
            for job in self.store.jobs(state=JobState.RUNNING):
                settle(self.settings, self.store, job, again=True)
            while not self._ends:
                with contextlib.suppress(ServiceError):  # a database that comes back
                    self.step()
                time.sleep(PAUSE)
            for child in self._children:
                os.kill(child, signal.SIGKILL)
        self.store.close()

    def step(self) -> None:
        """Look after the children, and start new ones."""
        for child, (job, start) in list(self._children.items()):
            ended, _ = os.waitpid(child, os.WNOHANG)
            current = self.store.job(job["id"])
            if not ended:
                is_late = time.monotonic() - start > self.settings.seconds
                if is_late or current.get("cancel"):
                    os.kill(child, signal.SIGKILL)
                continue
            del self._children[child]
            if current["state"] == JobState.RUNNING:
                settle(self.settings, self.store, current, again=False)
            log.info("job %s ended", job["id"])
        while len(self._children) < self.settings.workers:
            claimed = self.store.claim_job()
            if claimed is None:
                return
            log.info("job %s started", claimed["id"])
            self._children[self._forked(claimed)] = (claimed, time.monotonic())

    def _forked(self, job: dict[str, Any]) -> int:
        parent = os.getpid()
        with warnings.catch_warnings():  # this process has one thread of Python's own
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child:
            return child
        code = 1
        try:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            end_with_parent(parent)
            os.nice(5)  # people who wait for a page come first
            limit = self.settings.memory * 2**20
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no image of rows on the disk
            run_job(self.settings, job)
            code = 0
        finally:
            os._exit(code)


def end_with_parent(parent: int) -> None:
    """Let the kernel end this process when its parent ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
