"""Where the answers of online releases are kept: a SQLite file or PostgreSQL.

A write transaction is the whole interface. It excludes every other writer of the same release until
it ends, and when it has ended what it wrote survives a crash. One connection is kept open,
because opening one costs more than an answer; before a fork it is closed, so that no child
inherits it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.exceptions import InvalidInputError, StoredModelError

__all__ = ["StoreDatabase", "Transaction", "fork_safe_lock"]

# A fork waits for the thread that holds it, so that no child finds it taken or a write half done.
fork_safe_lock = threading.RLock()
_open_databases: weakref.WeakSet[StoreDatabase] = weakref.WeakSet()


def _before_fork() -> None:
    fork_safe_lock.acquire()
    for database in list(_open_databases):
        database.close()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=fork_safe_lock.release,
    after_in_child=fork_safe_lock.release,
)


class StoreDatabase:
    """A place that gives write transactions.

    Parameters
    ----------
    path_or_url : str or Path
        A file, or a URL such as "postgresql://user@host/database".
    timeout : float
        Seconds to wait for another writer.
    """

    def __init__(self, path_or_url: str | os.PathLike[str], timeout: float) -> None:
        self.timeout = timeout
        self._open: list[Any] = []  # the connection, where there is one
        text = os.fspath(path_or_url)
        if not text:
            raise InvalidInputError("'store' must be a file path or a postgresql:// URL. Got ''.")
        self.is_server = "://" in text
        if self.is_server and not text.startswith("postgresql://"):
            raise InvalidInputError("'store' must be a file path (SQLite) or a postgresql:// URL.")
        self.address = text if self.is_server else str(Path(text).expanduser().resolve())
        self.shown = "PostgreSQL" if self.is_server else self.address
        _open_databases.add(self)
        weakref.finalize(self, _close, self._open)

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[Transaction]:
        """Give a transaction with the right to write; commit at the end, undo on any exception.

        With `create`, a file that is not there is made.
        """
        with fork_safe_lock:
            try:
                connection = self._connect(create)
                transaction = Transaction(connection, self.is_server)
                transaction.run("BEGIN" if self.is_server else "BEGIN IMMEDIATE")
                if self.is_server:
                    transaction.run(f"SET LOCAL lock_timeout = {max(1, int(1000 * self.timeout))}")
                yield transaction
                transaction.run("COMMIT")
            except BaseException as error:
                # Whether the transaction ended is unknown after a failed commit or a lost server:
                # a new connection will tell.
                self.close()
                if isinstance(error, sqlite3.Error) or _is_of_psycopg(error):
                    raise StoredModelError(self._explained(error)) from error
                if isinstance(error, UnicodeDecodeError):  # SQLite quotes damaged names
                    raise StoredModelError(f"The store at {self.shown} {_DAMAGED}") from error
                raise

    def close(self) -> None:
        """Close the connection; the next transaction opens another."""
        with fork_safe_lock:
            _close(self._open)

    def _connect(self, create: bool) -> Any:
        if not self._open:
            self._open.append(self._server() if self.is_server else self._file(create))
        return self._open[0]

    def _file(self, create: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{Path(self.address).as_uri()}?mode={'rwc' if create else 'rw'}",
            uri=True,
            timeout=self.timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        try:  # one synced write a commit: an answer that was told survives a power cut
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _server(self) -> Any:
        try:
            import psycopg
        except ModuleNotFoundError:
            raise StoredModelError(
                "A PostgreSQL store needs the package 'psycopg': pip install 'sfumato[postgres]'."
            ) from None
        wait = max(2, int(self.timeout))
        return psycopg.connect(self.address, autocommit=True, connect_timeout=wait)

    def _explained(self, error: BaseException) -> str:
        code = getattr(error, "sqlite_errorname", "") or getattr(error, "sqlstate", "") or ""
        for sign, trouble in _TROUBLE.items():
            if code.startswith(sign):
                return f"The store at {self.shown} " + trouble.format(timeout=self.timeout)
        text = str(error).strip().partition("\n")[0]
        return f"The store at {self.shown} could not be read or written: {text}"


class Transaction:
    """Statements inside one transaction; parameters are marked ``?`` for both databases."""

    def __init__(self, connection: Any, is_server: bool) -> None:
        self._connection = connection
        self.is_server = is_server

    def run(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and give its rows."""
        if not self.is_server:
            return list(self._connection.execute(statement, values))
        cursor = self._connection.execute(statement.replace("?", "%s"), values)
        return list(cursor.fetchall()) if cursor.description is not None else []

    def run_many(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        """Run one statement for each row of values."""
        if not self.is_server:
            self._connection.executemany(statement, rows)
            return
        with self._connection.cursor() as cursor:
            cursor.executemany(statement.replace("?", "%s"), rows)


def _close(connections: list[Any]) -> None:
    while connections:
        with contextlib.suppress(Exception):  # what was not committed is to be lost
            connections.pop().close()


def _is_of_psycopg(error: BaseException) -> bool:
    return type(error).__module__.startswith("psycopg")


_LOCKED = "stayed locked by another process for {timeout:g} s; nothing was answered. Try again."
_FULL = "could not be written, the disk is full or failing; nothing was answered."
_DAMAGED = "is damaged; stop answering and restore it from a copy."
_TROUBLE = {
    "SQLITE_BUSY": _LOCKED,
    "55P03": _LOCKED,
    "SQLITE_FULL": _FULL,
    "SQLITE_IOERR": _FULL,
    "53100": _FULL,
    "SQLITE_READONLY": "is read-only for this user; nothing was answered.",
    "25006": "is read-only for this user; nothing was answered.",
    "SQLITE_CANTOPEN": "cannot be opened: is there such a file, and may you write to it?",
    "SQLITE_NOTADB": "is no SQLite database, or is damaged.",
    "SQLITE_CORRUPT": _DAMAGED,
}
