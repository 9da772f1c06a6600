"""Tokens, data sets, jobs, releases and the audit log, in one database.

Each is a record: JSON, with the few fields beside it that are searched by. Every change is a
transaction of `sfumato.core.databases`, and writes its line of the audit log in the same one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, TypeVar

from sfumato.core.databases import Database, ErrorTexts, Transaction
from sfumato.exceptions import InvalidInputError, SfumatoError

T = TypeVar("T")
Record = dict[str, Any]


class ServiceError(SfumatoError):
    """The store of the service cannot be read or written."""


class NotFoundError(InvalidInputError):
    """There is no such thing, or the person who asks may not see it."""


class BusyError(SfumatoError):
    """The person has too many requests that are not done."""


STEPS: dict[str, dict[str, set[str]]] = {
    "token": {"good": {"revoked"}},
    "data set": {
        "describing": {"proposed", "unreadable", "retired"},  # a worker reads it for its bounds
        "unreadable": {"describing", "retired"},
        "proposed": {"describing", "proposed", "open", "retired"},  # an officer confirms them
        "open": {"retired"},  # for good; the ledger stays
    },
    "job": {
        "waiting": {"queued", "declined", "cancelled"},  # for an officer
        "queued": {"running", "cancelled"},
        "asked": {"running", "cancelled"},  # a chore: no release comes of it
        # Refused, failed and cancelled cost nothing; lost was charged, and nothing was shown. To an
        # officer after the rehearsal; back only where nothing was charged.
        "running": {"released", "refused", "failed", "lost", "waiting", "cancelled", "queued"},
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
FORMAT = 3
GENESIS = sha256(b"sfumato service audit 1").hexdigest()
LOCK = "SELECT pg_advisory_xact_lock(7315823)"  # writers take turns, as on a file
_TABLES = (
    "CREATE TABLE service_about (format INTEGER NOT NULL)",
    """CREATE TABLE service_audit (
        position INTEGER NOT NULL PRIMARY KEY, time TEXT NOT NULL, person TEXT NOT NULL,
        action TEXT NOT NULL, subject TEXT NOT NULL, detail TEXT NOT NULL, hash TEXT NOT NULL)""",
    """CREATE TABLE service_records (
        kind TEXT NOT NULL, id TEXT NOT NULL, state TEXT NOT NULL, dataset TEXT, person TEXT,
        created TEXT NOT NULL, idempotency TEXT UNIQUE, record TEXT NOT NULL,
        PRIMARY KEY (kind, id))""",
    "CREATE INDEX service_records_by_state ON service_records (kind, state, created)",
)
_FOUND = "SELECT state, record FROM service_records WHERE kind = ?"
OPEN_JOBS = ("waiting", "queued", "running")


def now() -> str:
    """Return the time: UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Store:
    """Records of four kinds, token, data set, job and release, and the audit log."""

    def __init__(self, address: str) -> None:
        self._database = Database(address, 60.0, WORDS, keep_open=True)

    def prepare(self) -> None:
        """Make the tables where there are none; refuse those of another version."""

        def make(store: Transaction) -> None:
            catalogue = "pg_tables" if store.is_server else "sqlite_master"
            word = "tablename" if store.is_server else "name"
            if not store.run(f"SELECT 1 FROM {catalogue} WHERE {word} = 'service_about'"):  # noqa: S608
                for statement in _TABLES:
                    store.run(statement)
                store.run("INSERT INTO service_about (format) VALUES (?)", (FORMAT,))
            (found,) = store.run("SELECT format FROM service_about")[0]
            if found != FORMAT:
                raise ServiceError(f"The store has format {found}; this Sfumato uses {FORMAT}.")

        self._write(make)

    def close(self) -> None:
        """Close the connections; the next transaction opens another."""
        self._database.close()

    def get(self, kind: str, identity: str) -> Record:
        """Return one record, with its state."""
        return self._database.read(lambda store: _one(store, kind, identity), is_one=True)

    def find(self, kind: str, most: int | None = 1000, **fields: str | None) -> list[Record]:
        """Return the records whose fields have these values, the newest first."""
        asked = {name: value for name, value in fields.items() if value is not None}
        statement = " AND ".join([_FOUND, *(f"{name} = ?" for name in asked)])
        statement += " ORDER BY created DESC, id" + (f" LIMIT {most}" if most else "")
        return [_read(row) for row in self._rows(statement, (kind, *asked.values()))]

    def add(
        self,
        by: str | None,
        kind: str,
        action: str,
        record: Mapping[str, Any],
        *,
        detail: Mapping[str, Any] | None = None,
        key: str | None = None,
        max_open: int | None = None,
    ) -> Record:
        """Keep a new record, or return the one that was added with the same key."""

        def add(store: Transaction) -> Record:
            for row in store.run(f"{_FOUND} AND idempotency = ?", (kind, key)):
                found = _read(row)
                if found["digest"] != record["digest"]:
                    raise InvalidInputError(
                        "The Idempotency-Key belongs to another request. Use a new one."
                    )
                return found
            asked = "SELECT count(*) FROM service_records WHERE kind = ? AND person = ? AND state "
            asked += "IN ('waiting', 'queued', 'running')"
            if max_open and store.run(asked, (kind, record["person"]))[0][0] >= max_open:
                raise BusyError(f"You have {max_open} unfinished requests. Wait, or cancel one.")
            _insert(store, kind, record, key)
            if by is not None:
                _note(store, by, action, record["id"], detail or {})
            return dict(record)

        return self._write(add)

    def change(
        self,
        by: str | None,
        kind: str,
        identity: str,
        action: str = "",
        *,
        state: str | None = None,
        only: str | None = None,
        detail: Mapping[str, Any] | None = None,
        release: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> Record:
        """Change fields of a record, take it a step that it may go, and keep what it released."""

        def change(store: Transaction) -> Record:
            found = _one(store, kind, identity)
            steps = STEPS[kind].get(only or found["state"], ())
            if state is not None and (state not in steps or only not in (None, found["state"])):
                raise InvalidInputError(f"A {kind} that is {found['state']} cannot become {state}.")
            found |= {**changes, "state": (state or found["state"])}
            _save(store, kind, found)
            if release is not None:
                _insert(store, "release", release)
            if by is not None:
                _note(store, by, action, identity, detail or {})
            return found

        return self._write(change)

    def cancel(self, by: str, identity: str, reason: str = "") -> Record:
        """End a job that no worker has yet, or mark a running one for the workers to end."""

        def cancel(store: Transaction) -> Record:
            job = {**_one(store, "job", identity), "cancel": True, "reason": reason}
            if job["state"] not in OPEN_JOBS:
                raise InvalidInputError(f"A job that is {job['state']} cannot be cancelled.")
            if job["state"] != "running":
                job |= {"state": "cancelled", "changed": now()}
            _save(store, "job", job)
            _note(store, by, "cancel", identity, {})
            return job

        return self._write(cancel)

    def claim(self, state: str = "queued") -> Record | None:
        """Take the oldest job of the person who has the fewest running, for one worker."""

        def claim(store: Transaction) -> Record | None:
            rows = store.run(
                "SELECT state, record FROM service_records j WHERE kind = 'job' AND state = ? "
                "ORDER BY (SELECT count(*) FROM service_records r WHERE r.kind = 'job' AND "
                "r.person = j.person AND r.state = 'running'), created LIMIT 1",
                (state,),
            )
            if not rows:
                return None
            job = {**_read(rows[0]), "started": now(), "state": "running"}
            _save(store, "job", job)
            return job

        return self._write(claim) if self.find("job", 1, state=state) else None

    def counts(self) -> tuple[dict[str, int], str | None]:
        """Return the number of jobs in each state, and since when the oldest one is queued."""
        asked = "SELECT state, count(*), min(created) FROM service_records WHERE kind = 'job' "
        rows = self._rows(f"{asked} GROUP BY state")
        oldest = [since for state, _, since in rows if state == "queued"]
        return {state: count for state, count, _ in rows}, oldest[0] if oldest else None

    def delete_before(self, moment: str) -> list[str]:
        """Delete releases and ended jobs that are older; the ledger and the audit log stay."""

        def delete(store: Transaction) -> list[str]:
            old = "kind IN ('job', 'release') AND created < ? AND state NOT IN ('waiting', "
            old += "'queued', 'running')"
            rows = store.run(f"SELECT id, kind FROM service_records WHERE {old}", (moment,))  # noqa: S608
            store.run(f"DELETE FROM service_records WHERE {old}", (moment,))  # noqa: S608
            releases = [identity for identity, kind in rows if kind == "release"]
            for identity in releases:
                _note(store, "worker", "delete release", identity, {"before": moment})
            return releases

        return self._write(delete)

    def forget(self, identity: str) -> None:
        """Delete a preview, which is nobody's request."""
        asked = "DELETE FROM service_records WHERE kind = 'job' AND id = ?"
        self._write(lambda store: store.run(asked, (identity,)))

    def note(self, person: str, action: str, subject: str, detail: Mapping[str, Any]) -> None:
        """Write one line of the audit log."""
        self._write(lambda store: _note(store, person, action, subject, detail))

    def audit(self, most: int | None = None) -> list[Record]:
        """Return the audit log, the newest first."""
        names = ("position", "time", "person", "action", "subject", "detail", "hash")
        asked = f"SELECT {', '.join(names)} FROM service_audit ORDER BY position DESC"  # noqa: S608
        asked += f" LIMIT {most}" if most else ""
        found = [dict(zip(names, row, strict=True)) for row in self._rows(asked)]
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

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._database.read(lambda store: store.run(statement, values), is_one=True)

    def _write(self, work: Callable[[Transaction], T]) -> T:
        def locked(store: Transaction) -> T:
            if store.is_server:
                store.run(LOCK)
            return work(store)

        return self._database.write(locked, create=True)


def _read(row: tuple[Any, ...]) -> Record:
    return {**json.loads(row[1]), "state": row[0]}


def _one(store: Transaction, kind: str, identity: str) -> Record:
    rows = store.run(f"{_FOUND} AND id = ?", (kind, identity))
    if not rows:
        raise NotFoundError(f"There is no {kind} {identity!r}.")
    return _read(rows[0])


def _insert(
    store: Transaction, kind: str, record: Mapping[str, Any], key: str | None = None
) -> None:
    fields = (record["state"], record.get("dataset"), record.get("person"), record["created"])
    store.run(
        "INSERT INTO service_records (kind, id, state, dataset, person, created, idempotency, "
        "record) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (kind, record["id"], *fields, key, _text(record)),
    )


def _save(store: Transaction, kind: str, record: Mapping[str, Any]) -> None:
    store.run(
        "UPDATE service_records SET state = ?, record = ? WHERE kind = ? AND id = ?",
        (record["state"], _text(record), kind, record["id"]),
    )


def _note(
    store: Transaction, person: str, action: str, subject: str, detail: Mapping[str, Any]
) -> None:
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
