"""Workers: the only processes that read rows.

One process claims jobs from the store and forks a child for each, with limits on memory and time.
A child rehearses the job on dummy rows, charges, draws, writes the release aside, renames it, and
only then marks the job as released. What a crash leaves behind is settled at the next start:
charged or not is a fact of the ledger.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import logging
import os
import resource
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import file_digest
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from sfumato.core.atomic_file import atomic_write, sync_folder
from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    SfumatoError,
    UnsupportedEventError,
)
from sfumato.ledger.shared_budget import Payer
from sfumato.privacy.events import Event, flatten
from sfumato.privacy.guarantee import Guarantee
from sfumato.service import tasks
from sfumato.service.config import OWNER, Config, Settings
from sfumato.service.office import Office
from sfumato.service.store import NotFoundError, ServiceError, now
from sfumato.tables.files import TableFile
from sfumato.tables.schema import TableBounds

log = logging.getLogger("sfumato.service")

PAUSE = 0.1  # seconds between looks at the queue
PATIENCE = 10.0  # seconds for the processes of a killed service to be gone
MAX_ATTEMPTS = 3  # of a job that is killed each time: it may be what kills
CHORES_AT_ONCE = 2  # beside the jobs, so that a preview does not wait for one
REHEARSAL_SECONDS, PLAN_SECONDS, SEARCH_SECONDS = 30, 20, 10.0  # the first two of a processor
ENDED_EARLY = "The job ended before its charge. Nothing was charged."
TOO_SLOW = (
    f"On {tasks.REHEARSED_ROWS} dummy rows these settings exceeded the time or memory of a "
    "rehearsal. Choose smaller settings. Nothing was charged."
)
DOES_NOT_FIT = "It costs more than is left. Nothing was charged."
NO_QUOTA = "You have no quota. Nothing was charged."
CHARGED_AND_LOST = (
    "The job was charged and ended before its result was stored. Nothing was shown; the charge "
    "stands."
)
UNREADABLE = "The table could not be read. Look at it with 'sfumato describe' on the server."


def run_job(office: Office, job: Mapping[str, Any]) -> None:
    """Do one job, in a process of its own; whatever happens, the job gets a state.

    The office is that of the workers, whose ledger remembers what it has read: one that is put back
    to an older copy meanwhile is refused.
    """
    settings, kind = office.settings, job["task"]["kind"]
    if kind == "describe":
        _describe(office, job["dataset"])
        _end(office, job["id"], "released")
        return
    if kind == "plan":
        signal.setitimer(signal.ITIMER_PROF, PLAN_SECONDS)  # the kernel ends what takes longer
        plan = _plan(office, job)
        office.store.change(None, "job", job["id"], state="released", plan=plan)
        return
    dataset = office.dataset(job["dataset"])
    payer = office.budget(dataset).payer(job["person"], job["purpose"], job["id"])
    aside = settings.releases / f".{job['id']}.part"
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o770)  # the web process may be of the same group
    try:
        state, reason, record = _attempt(office, dataset, job, payer, aside)
        if record is not None and state == "released":
            names = ("id", "dataset", "person", "purpose", "epsilon", "delta", "task")
            told = {"shown": now(), "approved_by": job.get("decided_by")}
            release = {**{name: job[name] for name in names}, **record, **told}
            # Stored before anybody can see it: files, folder, then the row.
            (aside / "release.json").write_text(json.dumps(release))
            for path in aside.iterdir():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
            aside.rename(settings.releases / job["id"])
            sync_folder(settings.releases / job["id"])
            _store_release(office, release)
            return
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    _end(office, job["id"], state, reason, **(record or {}))


def _end(office: Office, identity: str, state: str, reason: str = "", **changes: Any) -> None:
    """Take a job a step, and say so in the audit log."""
    told: Any = {"state": state, "detail": {"reason": reason} if reason else {}}
    told |= {"reason": reason, "changed": now(), **changes}
    office.store.change("worker", "job", identity, f"job {state}", **told)


def _attempt(
    office: Office, dataset: Mapping[str, Any], job: Mapping[str, Any], payer: Payer, aside: Path
) -> tuple[str, str, dict[str, Any] | None]:
    """Rehearse and make a release; errors of the rehearsal read no row and are told in full."""
    declared = office.settings.config.datasets.get(job["dataset"])
    may_ask = job["person"] == OWNER or (declared and job["person"] in declared.quotas)
    if declared is None or dataset["state"] != "open" or not may_ask:
        return "refused", "The data set is no longer open to you. Nothing was charged.", None
    if "cost" not in job:
        signal.setitimer(signal.ITIMER_PROF, REHEARSAL_SECONDS)
        try:
            events = tasks.rehearse(dataset, job)
            costs = office.costs(job["person"], dataset, events)
        except SfumatoError as error:
            return "failed", f"{error} Nothing was charged.", None
        except Exception:  # of dummy rows alone
            log.exception("the rehearsal of job %s failed", job["id"])
            return "failed", ENDED_EARLY, None
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        told = {"cost": costs, **_odds(job, dataset, events)}
        if not costs or not all(one["fits"] for one in costs):
            return "refused", DOES_NOT_FIT if costs else NO_QUOTA, told
        if office.needs_approval(dataset, job["epsilon"], job["delta"]):
            return "waiting", "", told
        office.store.change(None, "job", job["id"], phase="fitting", **told)
    if not office.settings.has_space:  # it would be charged and lost
        return "failed", "The disk of the service is full. Nothing was charged.", None
    try:
        bounds = TableBounds.from_record(dataset["bounds"])
        key = office.settings.key_for("workers")
        # Declared from the start: types that are guessed first could make one record an error.
        table = TableFile(office.settings.source(declared)[0], bounds.types(), bounds.text)
        record = tasks.make_release(dataset, job, table, payer, aside, key)
    except BaseException as error:
        if payer.budget.is_charged(job["id"]):
            return "lost", CHARGED_AND_LOST, None
        if isinstance(error, BudgetExceededError | UnsupportedEventError):
            return "refused", str(error), None
        return "failed", ENDED_EARLY, None  # rows were read: one text, whatever it was
    return "released", "", record


def _plan(office: Office, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a request would cost by its mechanism, and the largest epsilon that fits."""
    dataset, start = office.dataset(job["dataset"]), time.monotonic()

    def priced(epsilon: float) -> tuple[tuple[Event, ...], list[dict[str, Any]]]:
        asked = {**job, "epsilon": epsilon, "task": job["task"]["of"]}
        events = tasks.rehearse(dataset, asked, to_the_end=False)
        return events, office.costs(job["person"], dataset, events)

    try:
        events, costs = priced(job["epsilon"])
        fits = bool(costs) and all(one["fits"] for one in costs)
        low, high = (job["epsilon"], 2 * dataset["epsilon"]) if fits else (0.0, job["epsilon"])
        # First what the ledger has left for one Gaussian release, which is nearly always it.
        tries = [
            share * min((one["left_before"] for one in costs), default=0) for share in (1, 1.01)
        ]
        while time.monotonic() - start < SEARCH_SECONDS and high - low > 0.01 * high:
            middle = tries.pop(0) if tries else (low + high) / 2
            if low < middle < high:
                is_small = all(one["fits"] for one in priced(middle)[1])
                low, high = (middle, high) if is_small else (low, middle)
        return {
            "after": costs,
            "fits": fits,
            "largest": low,
            "has_ended_early": high - low > 0.01 * high,  # then more than `largest` may fit
            **_odds(job, dataset, events),
        }
    except SfumatoError as error:  # of dummy rows alone
        return {"problem": str(error)}


def _odds(
    job: Mapping[str, Any], dataset: Mapping[str, Any], events: tuple[Event, ...]
) -> dict[str, Any]:
    """Return the mechanisms of a release, and what the best attacker could do with it."""
    words = {name: dataset[name] for name in ("unit", "relation")}
    promised = Guarantee(job["epsilon"], job["delta"], events=events, **words)
    names = {type(one).__name__.removesuffix("Event") for one in flatten(events)}
    return {"mechanisms": sorted(names), "attacker": promised.attacker.to_dict()}


def _describe(office: Office, name: str) -> None:
    """Propose bounds; what is proposed is for officers only."""
    declared = office.settings.config.datasets[name]
    dataset, (place, file) = office.dataset(name), office.settings.source(declared)
    try:
        found = tasks.describe(TableFile.sniffed(place), dataset["target"], dataset["person"])
        with file.open("rb") as opened:  # by which a copy or a link is known; retired ones too
            mark = f"{file_digest(opened, 'sha256').hexdigest()} {str(place)[len(str(file)) :]}"
        # Written before the others' are read: of two at once, one sees the other.
        office.store.change(None, "data set", name, fingerprint=mark)
        is_public = dataset["relation"] == "replace_one" and dataset["unit"] != "person"
        changes = {**found, "n_rows": found["n_rows"] if is_public else None}
        state = "proposed"
        for other in office.store.find("data set"):
            is_own = other["name"] == name or other["budget"] == dataset["budget"]
            is_first = other["state"] != "describing" or other["name"] < name
            if not is_own and other.get("fingerprint") == mark and is_first:
                words = f"The file has the content of the data set {other['name']!r}"
                changes, state = {"reason": f"{words}: share its budget."}, "unreadable"
    except Exception as error:  # rows were read: one text, but to the one who owns them
        log.error("the table of %s cannot be described: %s", name, type(error).__name__)
        told = f"The table could not be read: {error}" if office.settings.is_studio else UNREADABLE
        changes, state = {"reason": told}, "unreadable"
    office.store.change("worker", "data set", name, "describe", state=state, **changes)


def _store_release(office: Office, release: Mapping[str, Any]) -> None:
    kept = {**release, "created": release["shown"], "state": "released"}
    _end(office, release["id"], "released", release=kept)


def settle(office: Office, job: Mapping[str, Any], *, again: bool) -> None:
    """Assign a job whose process is gone the state that the ledger and the disk say."""
    settings = office.settings
    place = settings.releases / job["id"] / "release.json"
    if place.exists():  # stored in full, and the row was not written
        _store_release(office, json.loads(place.read_text()))
        return
    shutil.rmtree(settings.releases / f".{job['id']}.part", ignore_errors=True)
    attempts, is_release = job.get("attempts", 0), "estimator" in job["task"]
    state, reason = "failed", ENDED_EARLY if "cost" in job or again else TOO_SLOW
    if is_release and office.budget(office.dataset(job["dataset"])).is_charged(job["id"]):
        state, reason = "lost", CHARGED_AND_LOST
    elif job.get("cancel"):
        state, reason = "cancelled", ""
    elif again and attempts < MAX_ATTEMPTS:
        _end(office, job["id"], "queued", attempts=attempts + 1)
        return
    elif job["task"]["kind"] == "describe":
        told: Any = {"state": "unreadable", "reason": UNREADABLE}
        office.store.change("worker", "data set", job["dataset"], "describe failed", **told)
    _end(office, job["id"], state, reason)


class Workers:
    """The process that claims jobs and forks a child for each."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.office = settings, Office(settings)
        self.store = self.office.store
        self._children: dict[BaseProcess, tuple[dict[str, Any], float]] = {}
        self._ends, self._swept = False, 0.0
        self._config: Config | None = None

    def run(self, answer: Callable[[], None] | None = None) -> None:
        """Work until a signal ends it, and its jobs, which are settled at the next start.

        With `answer`, that runs in a web process of its own, with which the workers end too.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(self, "_ends", True))
        with (self.settings.state / "workers.lock").open("w") as file:
            self._lock(file, may_wait=answer is None)
            import sfumato.tables.proposal  # noqa: F401 - what jobs need: a child starts at once

            for name in {name for names in tasks.ESTIMATORS.values() for name in names}:
                tasks.settings_of(name)
            for job in self.store.find("job", None, state="running"):
                settle(self.office, job, again=True)
            web = None if answer is None else forked(answer)
            if web is not None:
                (self.settings.state / "web.pid").write_text(str(web.pid))
            while not self._ends and (web is None or web.is_alive()):
                try:
                    self.step()
                except ServiceError as error:  # a database that comes back
                    log.error("the workers wait for the store: %s", error)
                    time.sleep(1)
                time.sleep(PAUSE)
            for child in [*self._children, *([] if web is None else [web])]:
                child.kill()
        self.store.close()
        if web is not None and not self._ends:
            raise ServiceError(f"The web process ended with {web.exitcode}: see the log.")

    def _lock(self, file: Any, *, may_wait: bool) -> None:
        """Be the only workers of this state; a whole service does not wait for another one."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            if not may_wait and time.monotonic() > deadline:
                raise InvalidInputError(f"Another service works in '{self.settings.state}'.")
            time.sleep(PAUSE)

    def step(self) -> None:
        """Look after the children, start new ones, and follow what is declared."""
        (self.settings.state / "workers.alive").touch()
        config = self.settings.config
        if config is not self._config:
            self._config = config
            for problem in self.office.sync():
                log.error("%s", problem)
        for child, (job, start) in list(self._children.items()):
            is_running = child.is_alive()
            try:
                current = self.store.get("job", job["id"])
            except NotFoundError:  # a preview that nobody waits for
                current = {**job, "state": "released"}
            if is_running:
                is_late = time.monotonic() - start > config.service.seconds
                if is_late:
                    self.store.change(None, "job", job["id"], attempts=MAX_ATTEMPTS)
                if is_late or current.get("cancel"):
                    child.kill()
                continue
            del self._children[child]
            if current["state"] == "running":
                # Killed by nobody of ours: it is tried again, as after a kill of everything.
                was_killed = (child.exitcode or 0) < 0 and child.exitcode != -signal.SIGPROF
                settle(self.office, current, again=was_killed)
            if "estimator" in job["task"]:
                log.info("job %s ended", job["id"])
                self._note_heads()
        if time.monotonic() - self._swept > 600:
            self._sweep()
        chores = sum("estimator" not in job["task"] for job, _ in self._children.values())
        for state, left in (
            ("asked", CHORES_AT_ONCE - chores),
            ("queued", config.service.workers - len(self._children) + chores),
        ):
            while left > 0 and (claimed := self.store.claim(state)) is not None:
                self._children[forked(self._work, claimed)] = (claimed, time.monotonic())
                left -= 1

    def _note_heads(self) -> None:
        """Write down the newest line of every chain, for the next start."""
        heads = {name: self.office.ledger.dataset(name).head() for name in self.office.budgets()}
        with atomic_write(self.settings.witness) as file:
            file.write(json.dumps({"heads": heads}).encode())

    def _sweep(self) -> None:
        """Delete what is older than it is kept."""
        self._swept = time.monotonic()
        days = self.settings.config.service.keep_days
        if days is not None:
            moment = datetime.now(UTC) - timedelta(days=days)
            for identity in self.store.delete_before(moment.isoformat(timespec="milliseconds")):
                shutil.rmtree(self.settings.releases / identity, ignore_errors=True)

    def _work(self, job: dict[str, Any]) -> None:
        os.nice(5)  # people who wait for a page come first
        limit = self.settings.config.service.memory * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # no image of rows on the disk
        run_job(self.office, job)


def forked(work: Callable[..., None], *arguments: Any) -> BaseProcess:
    """Run a function in a child that starts at once, and ends when its parent ends (Linux)."""
    parent = os.getpid()

    def run() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
        try:
            work(*arguments)
        except Exception:
            log.exception("a child failed")
            raise SystemExit(1) from None

    child = get_context("fork").Process(target=run)
    with warnings.catch_warnings():  # this process has one thread of Python's own
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    return child
