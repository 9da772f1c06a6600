"""Transactions on a SQLite file, a PostgreSQL server, or the memory of one process.

`Database.read` gives one consistent view, `Database.write` excludes other writers until it ends;
both take the work as a function. That is on purpose: an interrupt may come between any two steps of
a Python function, also inside the exit of a context manager, and only a ``finally`` in the same
function is sure to be reached. A connection is closed after its transaction, which undoes what was
not committed. Where opening one costs more than the work, it is kept until a transaction fails or
the process forks: a child never inherits one.
"""

from __future__ import annotations

import os
import select
import sqlite3
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from sfumato.exceptions import InvalidInputError, SfumatoError

T = TypeVar("T")

_MEMORY, _READ = ":memory:", "BEGIN"
GRACE = 2.0  # seconds beyond the timeout that a statement on a server may take
MAX_CACHED = 8  # connections that wait for the next transaction

# SQLite's locks belong to the process, and a fork in the midst of a transaction of another thread
# would hand the child a connection that believes it holds them. So a fork waits for writers, which
# take turns, and for readers, which hold their lock only to begin: no reader waits for a writer.
write_lock, fork_safe_lock = threading.RLock(), threading.RLock()
_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_readers: weakref.WeakSet[_Reader] = weakref.WeakSet()


class _Reader:
    """A thread that reads, as long as this lives: also an interruption ends it."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()


def _before_fork() -> None:
    write_lock.acquire()
    fork_safe_lock.acquire()
    while any(one.thread != threading.get_ident() for one in list(_readers)):
        time.sleep(0.001)
    for database in list(_databases):
        database.close()


def _after_fork() -> None:
    fork_safe_lock.release()
    write_lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


@dataclass(frozen=True)
class ErrorTexts:
    """How trouble is reported: what is kept, undone, made or tried again, and the errors raised."""

    thing: str
    undone: str
    creation: str
    retry: str
    error: type[SfumatoError]
    uncertain: type[SfumatoError]


class Transaction:
    """Statements inside one transaction; parameters are marked ``?`` for both databases."""

    def __init__(self, connection: Any, is_server: bool) -> None:
        self._connection, self.is_server = connection, is_server

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and return its rows."""
        if not self.is_server:
            return list(self._connection.execute(statement, values))
        cursor = self._connection.execute(statement.replace("?", "%s"), values or None)
        return list(cursor.fetchall()) if cursor.description is not None else []

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of values."""
        statement = statement.replace("?", "%s") if self.is_server else statement
        self._connection.cursor().executemany(statement, rows)


class Database:
    """A place that gives transactions.

    The place is None or ":memory:", a file, or a URL such as "postgresql://user@host/database".
    `timeout` is for another writer, and for a server that does not answer. With `keep_open`,
    connections are kept for the next transactions, and a SQLite file is in WAL mode: one synced
    write per commit. The files next to a file in WAL mode belong to it.
    """

    def __init__(
        self,
        path_or_url: str | os.PathLike[str] | None,
        timeout: float,
        words: ErrorTexts,
        *,
        keep_open: bool = False,
    ) -> None:
        self.timeout = timeout
        self.path: Path | None = None
        self.is_server = self.in_memory = False
        self._words = words
        self._keep_open = keep_open
        self._process = os.getpid()
        self._use_a_file = f"Use a file: {words.thing.title()}('{words.thing}.db')."
        self._kept: list[Any] = []  # connections that are kept open; of a file or memory one
        if path_or_url is None or path_or_url == _MEMORY:
            self.in_memory = True
            self.address = self.shown = f"{_MEMORY}{uuid.uuid4().hex}"
            self._kept.append(_sqlite(_MEMORY, timeout))
        elif "://" in os.fspath(path_or_url):
            self.is_server = True
            self.address, self.shown = _addresses(os.fspath(path_or_url), words.thing)
            try:
                import psycopg  # noqa: F401
            except ModuleNotFoundError as error:
                raise words.error(
                    f"A PostgreSQL {words.thing} needs the package '{error.name}': "
                    "pip install 'sfumato[postgres]'."
                ) from None
        elif not os.fspath(path_or_url):
            raise InvalidInputError(
                f"The location of a {words.thing} must be a file path or a URL. Got ''."
            )
        else:
            self.path = Path(path_or_url).expanduser().resolve()
            self.address = self.shown = str(self.path)
        _databases.add(self)
        weakref.finalize(self, _close_all, self._kept)

    def connection_args(self) -> tuple[str, float]:
        """Return what another process needs to open the same place."""
        if self.in_memory:
            raise self._words.error(
                f"An in-memory {self._words.thing} cannot be pickled or sent to another process, "
                f"where what it records would be lost. {self._use_a_file}"
            )
        return self.address, self.timeout

    def read(self, work: Callable[[Transaction], T], *, is_one: bool = False) -> T:
        """Run `work` on one consistent view of the tables; one statement has it by itself."""
        if self.is_server:
            begin = "" if is_one else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
            return self._on_server(work, begin)
        return self._on_file(work, _READ, "rw")

    def write(self, work: Callable[[Transaction], T], *, create: bool = False) -> T:
        """Run `work` with the right to write; commit at the end, undo on any exception."""
        if self.is_server:
            return self._on_server(work, "BEGIN ISOLATION LEVEL READ COMMITTED")
        return self._on_file(work, "BEGIN IMMEDIATE", "rwc" if create else "rw")

    def close(self) -> None:
        """Close a connection that was kept open; the next transaction opens another."""
        with fork_safe_lock:
            if not self.in_memory:  # closing that one would lose everything
                _close_all(self._kept)

    def _on_file(self, work: Callable[[Transaction], T], begin: str, mode: str) -> T:
        if self.in_memory and os.getpid() != self._process:
            raise self._words.error(
                f"An in-memory {self._words.thing} belongs to the process that made it; a forked "
                f"child would count on its own copy. {self._use_a_file}"
            )
        try:
            if self.in_memory or begin != _READ:
                with write_lock:
                    return self._in_file(work, begin, mode)
            with fork_safe_lock:
                _readers.add(reader := _Reader())
            try:
                return self._in_file(work, begin, mode)
            finally:
                del reader
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorname", "") in _PERHAPS_WRITTEN:
                raise self._words.uncertain(self._unknown()) from error
            raise self._words.error(self._explained(error)) from error
        except UnicodeDecodeError as error:  # SQLite quotes damaged names in its own messages
            raise self._words.error(
                f"The {self._words.thing} at {self.shown} {_DAMAGED}"
            ) from error

    def _in_file(self, work: Callable[[Transaction], T], begin: str, mode: str) -> T:
        connection = self._kept_connection() or self._open_file(mode)
        is_done = False
        try:
            connection.execute(begin)
            answer = work(Transaction(connection, is_server=False))
            connection.execute("COMMIT")
            is_done = True
        finally:
            if self.in_memory:
                connection.rollback()  # nothing to undo after a commit
            # Whether a transaction ended is unknown after a failed commit: a new one will tell.
            self._put_back(connection, is_done or self.in_memory)
        return answer

    def _kept_connection(self) -> Any:
        with suppress(IndexError):  # as one step, for threads
            return self._kept.pop()
        return None

    def _put_back(self, connection: Any, is_well: bool) -> None:
        if is_well and (self._keep_open or self.in_memory) and len(self._kept) < MAX_CACHED:
            self._kept.append(connection)
        else:
            connection.close()

    def _open_file(self, mode: str) -> sqlite3.Connection:
        """Open a file, but no hard link: SQLite looks for a journal next to that name."""
        assert self.path is not None  # noqa: S101 - a database in memory is always open
        with suppress(OSError):  # no file yet, or one that SQLite will complain about
            if self.path.is_file() and self.path.stat().st_nlink > 1:
                raise self._words.error(
                    f"The {self._words.thing} at {self.shown} has another name too, by a hard "
                    "link: after a crash, what was written under one name could be lost under "
                    "the other. Remove the other name; a symbolic link does no harm."
                )
        connection = _sqlite(f"{self.path.as_uri()}?mode={mode}", self.timeout)
        try:
            # Commits survive a power cut; of a file alone, the journal's directory entry too.
            if self._keep_open:
                connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={'FULL' if self._keep_open else 'EXTRA'}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _on_server(self, work: Callable[[Transaction], T], begin: str) -> T:
        import psycopg

        wait, work_time = int(1000 * self.timeout), int(1000 * (self.timeout + GRACE))
        limits = f"SET LOCAL lock_timeout = {max(1, wait)}"
        limits = f"{limits}; SET LOCAL statement_timeout = {work_time}"
        is_committing = False
        try:
            connection = self._connected()
            is_done = False
            try:
                transaction = Transaction(connection, is_server=True)
                if begin:
                    transaction.run(f"{begin}; {limits}")
                answer = work(transaction)
                is_committing = True
                if begin:
                    transaction.run("COMMIT")
                is_done = True
            finally:
                with fork_safe_lock:
                    self._put_back(connection, is_done)
        except psycopg.Error as error:
            if is_committing and error.sqlstate is None:  # no answer: neither yes nor no
                raise self._words.uncertain(self._unknown()) from error
            raise self._words.error(self._explained(error)) from error
        return answer

    def _connected(self) -> Any:
        """Return a connection to the server that was kept and still stands, or a new one."""
        import psycopg

        with fork_safe_lock:  # a fork closes all that are kept, and nobody hands one in meanwhile
            while (connection := self._kept_connection()) is not None:
                heard = select.poll()
                if not connection.closed:
                    heard.register(connection.fileno(), select.POLLIN)
                    if not heard.poll(0):
                        return connection
                connection.close()  # an idle server has nothing to say but its end
        patience = max(1, int(self.timeout + GRACE))
        waits: dict[str, Any] = {
            "client_encoding": "utf8",  # else a database in SQL_ASCII answers with bytes
            "connect_timeout": max(2, int(self.timeout)),
            "keepalives_idle": patience,
            "keepalives_interval": max(1, patience // 3),
            "keepalives_count": 3,
            "tcp_user_timeout": 1000 * patience,
        }
        given = psycopg.conninfo.conninfo_to_dict(self.address)
        chosen = {name: value for name, value in waits.items() if name not in given}
        # Statements are not prepared: several in one message cannot be, and some poolers refuse it.
        return psycopg.connect(self.address, autocommit=True, prepare_threshold=None, **chosen)

    def _unknown(self) -> str:
        return (
            f"The {self._words.thing} at {self.shown} did not confirm the commit. It is not known "
            f"whether it was written: {self._words.retry}"
        )

    def _explained(self, error: BaseException | None) -> str:
        code = getattr(error, "sqlite_errorname", "") or ""
        state = getattr(error, "sqlstate", "") or ""
        text = str(error).strip().partition("\n")[0]
        thing, undone, path = self._words.thing, self._words.undone, self.path
        could_be = path is not None and path.parent.is_dir() and not path.exists()
        is_missing = code == "SQLITE_CANTOPEN" and could_be
        if state == "42P01" or "no such table" in text or is_missing:
            return f"There is no {thing} at {self.shown} yet; {self._words.creation} makes one."
        for sign, trouble in _TROUBLE.items():
            if code.startswith(sign) or state == sign:
                told = trouble.format(timeout=self.timeout, undone=undone, thing=thing)
                return f"The {thing} at {self.shown} {told}"
        return f"The {thing} at {self.shown} could not be read or written: {text}"


_LOCKED = (
    "stayed locked by another process for {timeout:g} s; {undone}. Try again, or give "
    "the {thing} a longer timeout."
)
_FULL = (
    "could not be written, the disk is full or failing; {undone}, and what was written before is "
    "kept."
)
_READ_ONLY = "is read-only for this user; {undone}."
# Raised when the journal is gone already, and with it the way back.
_PERHAPS_WRITTEN = {"SQLITE_IOERR_DIR_FSYNC", "SQLITE_IOERR_DELETE"}
_DAMAGED = "is damaged; stop releasing and restore it from a copy."
_TROUBLE = {
    "SQLITE_BUSY": _LOCKED,
    "55P03": _LOCKED,
    "57014": "did not finish a statement in time; {undone}. Give the {thing} a longer timeout.",
    "SQLITE_FULL": _FULL,
    "SQLITE_IOERR": _FULL,
    "53100": _FULL,
    "SQLITE_READONLY": _READ_ONLY,
    "25006": _READ_ONLY,
    "42501": _READ_ONLY,
    "SQLITE_CANTOPEN": "cannot be opened: does its directory exist, and can you write to it?",
    "SQLITE_NOTADB": "is not a {thing}: the file is not a SQLite database, or is damaged.",
    "SQLITE_CORRUPT": _DAMAGED,
}


def _sqlite(uri: str, timeout: float) -> sqlite3.Connection:
    return sqlite3.connect(
        uri, uri=uri != _MEMORY, timeout=timeout, isolation_level=None, check_same_thread=False
    )


def _close_all(connections: list[Any]) -> None:
    while connections:
        with suppress(Exception):  # what was not committed is to be lost
            connections.pop().close()


def _addresses(text: str, thing: str) -> tuple[str, str]:
    """Return the URL of a server, and the same without its password."""
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError:
        raise InvalidInputError(
            f"The location of a {thing} is a URL that cannot be read."
        ) from None
    backend = url.scheme.partition("+")[0]
    if backend not in ("postgresql", "postgres"):
        raise InvalidInputError(
            f"The location of a {thing} must be a file path (SQLite) or a postgresql:// URL. Got "
            f"a URL of '{backend}' instead."
        )
    url = url._replace(scheme="postgresql")
    user, _, place = url.netloc.rpartition("@")
    shown = url._replace(netloc=f"{user.partition(':')[0]}:***@{place}")
    return url.geturl(), (url if url.password is None else shown).geturl()
