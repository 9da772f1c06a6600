"""Tokens, data sets, jobs, releases and the audit log, in one database.

Rows are JSON documents, with the few fields that are searched by as columns. Every change is a
transaction of `sfumato.core.databases`, and writes its line of the audit log in the same one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any

from sfumato.core.databases import Database, ErrorTexts, Transaction
from sfumato.exceptions import InvalidInputError, SfumatoError


class ServiceError(SfumatoError):
    """The store of the service cannot be read or written."""


class NotFoundError(InvalidInputError):
    """There is no such thing, or the person who asks may not see it."""


class BusyError(SfumatoError):
    """The person has too many requests that are not done."""


class DatasetState(StrEnum):
    """What can be done with a data set."""

    DESCRIBING = "describing"  # a worker reads it, to propose bounds
    UNREADABLE = "unreadable"  # it could not be read
    PROPOSED = "proposed"  # an officer confirms its bounds
    OPEN = "open"  # analysts may ask
    RETIRED = "retired"  # no more releases; the ledger stays


class JobState(StrEnum):
    """Where a request stands."""

    WAITING = "waiting"  # for an officer
    QUEUED = "queued"  # for a worker
    ASKED = "asked"  # a chore: to propose bounds, to price a request; no release comes of it
    RUNNING = "running"
    RELEASED = "released"
    DECLINED = "declined"  # by an officer; nothing was charged
    CANCELLED = "cancelled"  # before it was charged
    REFUSED = "refused"  # by the budget; nothing was charged
    FAILED = "failed"  # nothing was charged
    LOST = "lost"  # charged, and then nothing was shown: the charge stands


ENDED = {*JobState} - {JobState.WAITING, JobState.QUEUED, JobState.ASKED, JobState.RUNNING}

_DATASET_STEPS = {
    DatasetState.DESCRIBING: {DatasetState.PROPOSED, DatasetState.UNREADABLE, DatasetState.RETIRED},
    DatasetState.UNREADABLE: {DatasetState.DESCRIBING, DatasetState.RETIRED},
    DatasetState.PROPOSED: {*DatasetState} - {DatasetState.UNREADABLE},
    DatasetState.OPEN: {DatasetState.RETIRED},
    DatasetState.RETIRED: set(),
}
_JOB_STEPS = {
    JobState.WAITING: {JobState.QUEUED, JobState.DECLINED, JobState.CANCELLED},
    JobState.QUEUED: {JobState.RUNNING, JobState.CANCELLED},
    JobState.ASKED: {JobState.RUNNING, JobState.CANCELLED},
    JobState.RUNNING: {
        *(JobState.RELEASED, JobState.REFUSED, JobState.FAILED, JobState.LOST),
        # To an officer after the rehearsal; back only where nothing was charged.
        *(JobState.WAITING, JobState.CANCELLED, JobState.QUEUED),
    },
}


WORDS = ErrorTexts(
    thing="service store",
    undone="nothing was changed",
    creation="sfumato serve",
    retry="look before you repeat the request. A submit with the same key is counted once.",
    error=ServiceError,
    uncertain=ServiceError,
)
FORMAT = 2
GENESIS = sha256(b"sfumato service audit 1").hexdigest()
_TABLES = (
    "CREATE TABLE service_about (format INTEGER NOT NULL)",
    """CREATE TABLE service_tokens (
        id TEXT NOT NULL PRIMARY KEY, person TEXT NOT NULL, digest TEXT NOT NULL,
        scope TEXT NOT NULL, expires TEXT NOT NULL, revoked INTEGER NOT NULL)""",
    """CREATE TABLE service_datasets (
        name TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL, budget TEXT NOT NULL,
        record TEXT NOT NULL)""",
    """CREATE TABLE service_jobs (
        id TEXT NOT NULL PRIMARY KEY, dataset TEXT NOT NULL, person TEXT NOT NULL,
        state TEXT NOT NULL, created TEXT NOT NULL, idempotency TEXT UNIQUE,
        record TEXT NOT NULL)""",
    "CREATE INDEX service_jobs_by_state ON service_jobs (state, created)",
    """CREATE TABLE service_releases (
        id TEXT NOT NULL PRIMARY KEY, dataset TEXT NOT NULL, person TEXT NOT NULL,
        shown TEXT NOT NULL, record TEXT NOT NULL)""",
    """CREATE TABLE service_audit (
        position INTEGER NOT NULL PRIMARY KEY, time TEXT NOT NULL, person TEXT NOT NULL,
        action TEXT NOT NULL, subject TEXT NOT NULL, detail TEXT NOT NULL, hash TEXT NOT NULL)""",
)


def now() -> str:
    """Return the time: UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Store:
    """The tables of the service."""

    def __init__(self, address: str) -> None:
        self._database = Database(address, 60.0, WORDS, keep_open=True)

    def prepare(self) -> None:
        """Make the tables where there are none; refuse those of another version."""

        def make(store: Transaction) -> None:
            if store.is_server:
                store.run("SELECT pg_advisory_xact_lock(7315823)")
            catalogue = "pg_tables" if store.is_server else "sqlite_master"
            word = "tablename" if store.is_server else "name"
            asked = f"SELECT 1 FROM {catalogue} WHERE {word} = 'service_about'"  # noqa: S608
            if not store.run(asked):
                for statement in _TABLES:
                    store.run(statement)
                store.run("INSERT INTO service_about (format) VALUES (?)", (FORMAT,))
            (found,) = store.run("SELECT format FROM service_about")[0]
            if found != FORMAT:
                raise ServiceError(f"The store has format {found}; this Sfumato uses {FORMAT}.")

        self._database.write(make, create=True)

    def close(self) -> None:
        """Close the connection; the next transaction opens another."""
        self._database.close()

    # Tokens -----------------------------------------------------------------------------------

    def add_token(self, token: Mapping[str, Any]) -> None:
        """Keep the digest of a token, and what it is good for."""

        def add(store: Transaction) -> None:
            names = ("id", "person", "digest", "scope", "expires")
            store.run(
                "INSERT INTO service_tokens (id, person, digest, scope, expires, revoked) "
                "VALUES (?, ?, ?, ?, ?, 0)",
                tuple(token[name] for name in names),
            )
            detail = {"scope": token["scope"], "expires": token["expires"]}
            _note(store, "operator", "make token", f"{token['person']}/{token['id']}", detail)

        self._database.write(add)

    def token(self, identity: str) -> dict[str, Any] | None:
        """Return a token by its public part."""
        return next((one for one in self._tokens("WHERE id = ?", identity)), None)

    def tokens(self) -> list[dict[str, Any]]:
        """List tokens."""
        return self._tokens("ORDER BY person, expires")

    def _tokens(self, which: str, *values: Any) -> list[dict[str, Any]]:
        names = ("id", "person", "digest", "scope", "expires", "revoked")
        rows = self._read(f"SELECT {', '.join(names)} FROM service_tokens {which}", *values)  # noqa: S608
        return [dict(zip(names, row, strict=True)) for row in rows]

    def revoke_token(self, identity: str) -> None:
        """End a token, and every session that names it."""

        def end(store: Transaction) -> None:
            if not store.run("SELECT 1 FROM service_tokens WHERE id = ?", (identity,)):
                raise NotFoundError(f"There is no token {identity!r}.")
            store.run("UPDATE service_tokens SET revoked = 1 WHERE id = ?", (identity,))
            _note(store, "operator", "revoke token", identity, {})

        self._database.write(end)

    # Data sets --------------------------------------------------------------------------------

    def datasets(self) -> list[dict[str, Any]]:
        """List all data sets."""
        rows = self._read("SELECT state, record FROM service_datasets ORDER BY name")
        return [{**json.loads(text), "state": state} for state, text in rows]

    def dataset(self, name: str) -> dict[str, Any]:
        """Return one data set."""
        rows = self._read("SELECT state, record FROM service_datasets WHERE name = ?", name)
        if not rows:
            raise NotFoundError(f"There is no data set {name!r}.")
        return {**json.loads(rows[0][1]), "state": rows[0][0]}

    def add_dataset(self, by: str, record: Mapping[str, Any], state: str) -> None:
        """Register a data set."""

        def add(store: Transaction) -> None:
            if store.run("SELECT 1 FROM service_datasets WHERE name = ?", (record["name"],)):
                raise InvalidInputError(f"There is a data set {record['name']!r} already.")
            store.run(
                "INSERT INTO service_datasets (name, state, budget, record) VALUES (?, ?, ?, ?)",
                (record["name"], state, record["budget"], _text(record)),
            )
            _note(store, by, "register", record["name"], {"budget": record["budget"]})

        self._database.write(add)

    def change_dataset(
        self,
        by: str,
        name: str,
        changes: Mapping[str, Any],
        *,
        action: str,
        state: str | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Change fields of a data set, and its state where that is a step it may take."""

        def change(store: Transaction) -> None:
            lock = " FOR UPDATE" if store.is_server else ""
            rows = store.run(
                f"SELECT state, record FROM service_datasets WHERE name = ?{lock}",  # noqa: S608
                (name,),
            )
            if not rows:
                raise NotFoundError(f"There is no data set {name!r}.")
            if state is not None:
                _require_step(_DATASET_STEPS, "data set", rows[0][0], state)
            record = {**json.loads(rows[0][1]), **changes}
            store.run(
                "UPDATE service_datasets SET state = ?, record = ? WHERE name = ?",
                (state or rows[0][0], _text(record), name),
            )
            _note(store, by, action, name, detail or {})

        self._database.write(change)

    # Jobs -------------------------------------------------------------------------------------

    def add_job(
        self,
        record: Mapping[str, Any],
        state: JobState = JobState.QUEUED,
        *,
        idempotency: str | None = None,
        max_open: int | None = None,
    ) -> dict[str, Any]:
        """Queue a job, or return the one that was submitted with the same key."""

        def add(store: Transaction) -> dict[str, Any]:
            if store.is_server:
                store.run("SELECT pg_advisory_xact_lock(7315824)")
            rows = (
                []
                if idempotency is None
                else store.run(f"{_JOBS} WHERE idempotency = ?", (idempotency,))
            )
            if rows:
                found = _job(rows[0])
                if found["digest"] != record["digest"]:
                    raise InvalidInputError(
                        "The Idempotency-Key belongs to another request. Take a new one."
                    )
                return found
            person = record["person"]
            if max_open is not None:
                asked = (
                    "SELECT count(*) FROM service_jobs WHERE person = ? "
                    "AND state IN ('waiting', 'queued', 'running')"
                )
                if store.run(asked, (person,))[0][0] >= max_open:
                    raise BusyError(
                        f"You have {max_open} requests that are not done. Wait, or cancel one."
                    )
            row = (record["id"], record["dataset"], person, state.value)
            store.run(
                "INSERT INTO service_jobs (id, dataset, person, state, created, idempotency, "
                "record) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (*row, record["created"], idempotency, _text(record)),
            )
            if record["task"]["kind"] != "plan":
                _note(store, person, "submit", record["id"], {"kind": record["task"]["kind"]})
            return {**record, "state": state.value}

        return self._database.write(add)

    def job(self, identity: str) -> dict[str, Any]:
        """Return one job."""
        rows = self._read(f"{_JOBS} WHERE id = ?", identity)
        if not rows:
            raise NotFoundError(f"There is no job {identity!r}.")
        return _job(rows[0])

    def jobs(
        self, *, person: str | None = None, dataset: str | None = None, state: str | None = None
    ) -> list[dict[str, Any]]:
        """List jobs, the newest first: all of a state, or the newest thousand."""
        asked = {"person": person, "dataset": dataset, "state": state}
        chosen = {name: value for name, value in asked.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in chosen)
        order = f"ORDER BY created DESC{'' if state else ' LIMIT 1000'}"
        rows = self._read(f"{_JOBS} {'WHERE ' + where if where else ''} {order}", *chosen.values())
        return [_job(row) for row in rows]

    def counts(self) -> tuple[dict[str, int], str | None]:
        """Return the number of jobs in each state, and since when the oldest one is queued."""
        rows = self._read("SELECT state, count(*) FROM service_jobs GROUP BY state")
        oldest = self._read("SELECT min(created) FROM service_jobs WHERE state = 'queued'")
        return dict(rows), oldest[0][0]

    def claim_job(self, state: str = JobState.QUEUED) -> dict[str, Any] | None:
        """Take the oldest job of the person who has the fewest running, for one worker."""

        def claim(store: Transaction) -> dict[str, Any] | None:
            if store.is_server:  # one at a time: shares are counted and then changed
                store.run("SELECT pg_advisory_xact_lock(7315826)")
            rows = store.run(
                "SELECT id FROM service_jobs j WHERE state = ? ORDER BY (SELECT count(*) FROM "
                "service_jobs r WHERE r.person = j.person AND r.state = 'running'), created "
                "LIMIT 1",
                (str(state),),
            )
            if not rows:
                return None
            lock = " FOR UPDATE" if store.is_server else ""
            job = _job(store.run(f"{_JOBS} WHERE id = ?{lock}", rows[0])[0])
            if job["state"] != state:  # cancelled at this moment
                return None
            _set_job(store, {**job, "started": now()}, JobState.RUNNING)
            return {**job, "started": now(), "state": JobState.RUNNING.value}

        has_some = self._read("SELECT 1 FROM service_jobs WHERE state = ? LIMIT 1", str(state))
        return self._database.write(claim) if has_some else None

    def move_job(
        self,
        by: str,
        identity: str,
        state: str,
        *,
        reason: str = "",
        release: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> dict[str, Any]:
        """Take a job one step, with the release that it has made."""

        def move(store: Transaction) -> dict[str, Any]:
            job = _locked_job(store, identity)
            _require_step(_JOB_STEPS, "job", job["state"], state)
            job = {**job, **changes, "reason": reason, "changed": now()}
            _set_job(store, job, state)
            if release is not None:
                store.run(
                    "INSERT INTO service_releases (id, dataset, person, shown, record) "
                    "VALUES (?, ?, ?, ?, ?)",
                    (identity, job["dataset"], job["person"], release["shown"], _text(release)),
                )
            if job["task"]["kind"] != "plan":
                _note(store, by, f"job {state}", identity, {"reason": reason} if reason else {})
            return {**job, "state": state}

        return self._database.write(move)

    def set_phase(self, identity: str, phase: str, **changes: Any) -> None:
        """Note how far a running job is, and what it will cost."""

        def note(store: Transaction) -> None:
            job = {**_locked_job(store, identity), "phase": phase, **changes}
            _set_job(store, job, job["state"])

        self._database.write(note)

    def cancel_job(self, by: str, identity: str, reason: str = "") -> dict[str, Any]:
        """End a job that no worker has yet, or mark a running one for the workers to end."""

        def cancel(store: Transaction) -> dict[str, Any]:
            job = {**_locked_job(store, identity), "cancel": True, "reason": reason}
            if job["state"] != JobState.RUNNING:
                _require_step(_JOB_STEPS, "job", job["state"], JobState.CANCELLED)
                job |= {"state": JobState.CANCELLED.value, "changed": now()}
            _set_job(store, job, job["state"])
            _note(store, by, "cancel", identity, {})
            return job

        return self._database.write(cancel)

    def delete_before(self, moment: str) -> list[str]:
        """Delete releases and ended jobs that are older; the ledger and the audit log stay."""

        def delete(store: Transaction) -> list[str]:
            rows = store.run("SELECT id FROM service_releases WHERE shown < ?", (moment,))
            store.run("DELETE FROM service_releases WHERE shown < ?", (moment,))
            store.run(
                "DELETE FROM service_jobs WHERE created < ? "
                "AND state NOT IN ('waiting', 'queued', 'running')",
                (moment,),
            )
            for (identity,) in rows:
                _note(store, "worker", "delete release", identity, {"before": moment})
            return [identity for (identity,) in rows]

        return self._database.write(delete)

    def forget_plan(self, identity: str) -> None:
        """Delete a preview, which is not a request."""
        asked = "DELETE FROM service_jobs WHERE id = ?"
        self._database.write(lambda store: store.run(asked, (identity,)))

    # Releases and the audit log -----------------------------------------------------------------

    def releases(self, dataset: str | None = None) -> list[dict[str, Any]]:
        """List what was released and may be shown by now, the newest first."""
        where, values = "shown <= ?", [now()]
        if dataset is not None:
            where, values = f"{where} AND dataset = ?", [*values, dataset]
        rows = self._read(
            f"SELECT record FROM service_releases WHERE {where} "  # noqa: S608 - fixed words
            "ORDER BY shown DESC LIMIT 1000",
            *values,
        )
        return [json.loads(text) for (text,) in rows]

    def release(self, identity: str) -> dict[str, Any]:
        """Return one release that may be shown by now."""
        rows = self._read(
            "SELECT record FROM service_releases WHERE id = ? AND shown <= ?", identity, now()
        )
        if not rows:
            raise NotFoundError(f"There is no release {identity!r}.")
        found: dict[str, Any] = json.loads(rows[0][0])
        return found

    def note(self, person: str, action: str, subject: str, detail: Mapping[str, Any]) -> None:
        """Write one line of the audit log."""
        self._database.write(lambda store: _note(store, person, action, subject, detail))

    def audit(self, *, last: int | None = None) -> list[dict[str, Any]]:
        """List the audit log, the newest first."""
        limit = "" if last is None else f" LIMIT {int(last)}"
        rows = self._read(
            "SELECT position, time, person, action, subject, detail, hash "  # noqa: S608
            f"FROM service_audit ORDER BY position DESC{limit}"
        )
        names = ("position", "time", "person", "action", "subject", "detail", "hash")
        found = [dict(zip(names, row, strict=True)) for row in rows]
        return [{**line, "detail": json.loads(line["detail"])} for line in found]

    def verify_audit(self) -> str:
        """Check the chain of the audit log and return its head."""
        head = GENESIS
        for place, line in enumerate(reversed(self.audit()), start=1):
            fields = [line[k] for k in ("position", "time", "person", "action", "subject")]
            expected = _hash(head, *fields, _text(line["detail"]))
            if line["position"] != place or line["hash"] != expected:
                raise ServiceError(f"Audit log integrity check failed: line {place} was changed.")
            head = expected
        return head

    def _read(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._database.read(lambda store: store.run(statement, values))


_JOBS = "SELECT state, record FROM service_jobs"


def _job(row: tuple[Any, ...]) -> dict[str, Any]:
    return {**json.loads(row[1]), "state": row[0]}


def _require_step(steps: Mapping[Any, set[Any]], what: str, before: str, after: str) -> None:
    if after not in steps.get(before, set()):
        raise InvalidInputError(f"A {what} that is {before} cannot become {after}.")


def _locked_job(store: Transaction, identity: str) -> dict[str, Any]:
    """Return a job that no other process changes until the transaction ends."""
    lock = " FOR UPDATE" if store.is_server else ""
    rows = store.run(f"{_JOBS} WHERE id = ?{lock}", (identity,))
    if not rows:
        raise NotFoundError(f"There is no job {identity!r}.")
    return _job(rows[0])


def _set_job(store: Transaction, job: Mapping[str, Any], state: str) -> None:
    record = {name: value for name, value in job.items() if name != "state"}
    store.run(
        "UPDATE service_jobs SET state = ?, record = ? WHERE id = ?",
        (str(state), _text(record), job["id"]),
    )


def _note(
    store: Transaction, person: str, action: str, subject: str, detail: Mapping[str, Any]
) -> None:
    if store.is_server:  # lines are numbered without gaps
        store.run("SELECT pg_advisory_xact_lock(7315825)")
    rows = store.run("SELECT position, hash FROM service_audit ORDER BY position DESC LIMIT 1")
    position, head = (rows[0][0] + 1, rows[0][1]) if rows else (1, GENESIS)
    fields = (position, now(), person, action, subject, _text(detail))
    store.run(
        "INSERT INTO service_audit (position, time, person, action, subject, detail, hash) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*fields, _hash(head, *fields)),
    )


def _hash(*fields: Any) -> str:
    return sha256(json.dumps(fields, separators=(",", ":")).encode()).hexdigest()


def _text(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, separators=(",", ":"))
