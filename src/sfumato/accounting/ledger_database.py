"""Where a ledger is kept: a SQLite file, PostgreSQL, or the memory of one process.

A transaction is the whole interface: `reading` gives one consistent view, `writing` excludes every
other writer of the same budget until it ends. No connection outlives its transaction, so a forked
child never inherits one. Errors of the database come out as `LedgerError`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.pool import NullPool, StaticPool

from sfumato.exceptions import InvalidInputError, LedgerError

__all__ = ["LedgerDatabase"]

_MEMORY = ":memory:"

# SQLite's locks belong to the process, and a fork in the midst of a transaction of another thread
# would hand the child a connection that believes it holds them. So a fork waits for this lock.
_one_transaction = threading.RLock()
os.register_at_fork(
    before=_one_transaction.acquire,
    after_in_parent=_one_transaction.release,
    after_in_child=_one_transaction.release,
)


class LedgerDatabase:
    """A place that gives transactions.

    Parameters
    ----------
    path_or_url : str, Path or None
        None or ":memory:", a file, or a URL such as "postgresql://user@host/database".
    timeout : float
        Seconds to wait for another writer.
    """

    def __init__(self, path_or_url: str | os.PathLike[str] | None, timeout: float) -> None:
        self.timeout = timeout
        self.path: Path | None = None
        self._process = os.getpid()
        if path_or_url is None or path_or_url == _MEMORY:
            self.address = self.shown = f"{_MEMORY}{uuid.uuid4().hex}"
            self._engine = _sqlite_engine(_MEMORY, timeout, StaticPool)
            weakref.finalize(self, self._engine.dispose)
        elif "://" in os.fspath(path_or_url):
            url = _checked_url(os.fspath(path_or_url))
            self.address = url.render_as_string(hide_password=False)
            self.shown = url.render_as_string(hide_password=True)
            self._engine = _postgresql_engine(url, timeout)
        else:
            self.path = _checked_path(path_or_url)
            self.address = self.shown = str(self.path)
            self._engine = _sqlite_engine(f"{self.path.as_uri()}?mode=rw", timeout, NullPool)

    @property
    def in_memory(self) -> bool:
        """Whether the ledger ends with this process."""
        return self.address.startswith(_MEMORY)

    def ticket(self) -> tuple[str, float]:
        """Give what another process needs to open the same ledger."""
        if self.in_memory:
            raise LedgerError(
                "An in-memory ledger cannot be pickled or sent to another process, where charges "
                "would be lost. Use a file: Ledger('budget.db')."
            )
        return self.address, self.timeout

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give one consistent view of the tables."""
        with self._transaction(self._engine, "BEGIN", "REPEATABLE READ") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Give the tables with the right to write; commit at the end, undo on any exception."""
        with self._transaction(self._engine, "BEGIN IMMEDIATE", "READ COMMITTED") as connection:
            yield connection

    @contextmanager
    def creating(self) -> Iterator[Connection]:
        """Like `writing`, but a file that is not there is made."""
        engine = self._engine
        if self.path is not None:
            engine = _sqlite_engine(f"{self.path.as_uri()}?mode=rwc", self.timeout, NullPool)
        with self._transaction(engine, "BEGIN IMMEDIATE", "READ COMMITTED") as connection:
            yield connection

    @contextmanager
    def _transaction(self, engine: Engine, begin: str, isolation: str) -> Iterator[Connection]:
        self._refuse_unusable()
        try:
            if engine.dialect.name == "postgresql":
                with engine.connect() as connection:
                    connection.execution_options(isolation_level=isolation)
                    with connection.begin():
                        wait = f"SET LOCAL lock_timeout = {max(1, int(1000 * self.timeout))}"
                        connection.exec_driver_sql(wait)
                        yield connection
            else:
                with _one_transaction, engine.connect() as connection:
                    connection.execution_options(sfumato_begin=begin)
                    with connection.begin():
                        yield connection
        except sa.exc.SQLAlchemyError as error:
            raise LedgerError(self._explained(getattr(error, "orig", error))) from error
        except UnicodeDecodeError as error:  # SQLite quotes damaged names in its own messages
            raise LedgerError(f"The ledger at {self.shown} {_DAMAGED}") from error

    def _refuse_unusable(self) -> None:
        if self.in_memory and os.getpid() != self._process:
            raise LedgerError(
                "An in-memory ledger belongs to the process that made it; a forked child would "
                "count on its own copy. Use a file: Ledger('budget.db')."
            )

    def _explained(self, error: BaseException | None) -> str:
        code = getattr(error, "sqlite_errorname", "") or ""
        state = getattr(error, "sqlstate", "") or ""
        text = str(error).strip().partition("\n")[0]
        if state == "42P01" or "no such table" in text or self._is_missing(code):
            return f"There is no ledger at {self.shown} yet; Ledger.create makes one."
        for sign, trouble in _TROUBLE.items():
            if code.startswith(sign) or state == sign:
                return f"The ledger at {self.shown} " + trouble.format(timeout=self.timeout)
        return f"The ledger at {self.shown} could not be read or written: {text}"

    def _is_missing(self, code: str) -> bool:
        return (
            code == "SQLITE_CANTOPEN"
            and self.path is not None
            and self.path.parent.is_dir()
            and not self.path.exists()
        )


_LOCKED = (
    "stayed locked by another process for {timeout:g} s; nothing was charged. Try again, or give "
    "the ledger a longer timeout."
)
_FULL = (
    "could not be written, the disk is full or failing. Nothing was charged, and what was "
    "charged before is kept."
)
_READ_ONLY = "is read-only for this user; nothing was charged."
_DAMAGED = "is damaged; stop releasing and restore it from a copy."
_TROUBLE = {
    "SQLITE_BUSY": _LOCKED,
    "55P03": _LOCKED,
    "SQLITE_FULL": _FULL,
    "SQLITE_IOERR": _FULL,
    "53100": _FULL,
    "SQLITE_READONLY": _READ_ONLY,
    "25006": _READ_ONLY,
    "42501": _READ_ONLY,
    "SQLITE_CANTOPEN": "cannot be opened: is there such a directory, and may you write in it?",
    "SQLITE_NOTADB": "is not a ledger: the file is no SQLite database, or is damaged.",
    "SQLITE_CORRUPT": _DAMAGED,
}


def _checked_path(path: str | os.PathLike[str]) -> Path:
    if not os.fspath(path):
        raise InvalidInputError("'path_or_url' must be a file path, a URL or None. Got ''.")
    return Path(path).expanduser().resolve()


def _checked_url(text: str) -> URL:
    try:
        url = make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidInputError("'path_or_url' is not a database URL that can be read.") from None
    if url.get_backend_name() != "postgresql":
        raise InvalidInputError(
            "'path_or_url' must be a file path (SQLite) or a postgresql:// URL. "
            f"Got a URL of '{url.get_backend_name()}' instead."
        )
    return url.set(drivername="postgresql+psycopg")


def _postgresql_engine(url: URL, timeout: float) -> Engine:
    wait = {"connect_timeout": max(2, int(timeout))}
    try:
        return sa.create_engine(url, poolclass=NullPool, connect_args=wait)
    except ModuleNotFoundError as error:
        raise LedgerError(
            f"A PostgreSQL ledger needs the package '{error.name}': "
            "pip install 'sfumato[postgres]'."
        ) from None


def _sqlite_engine(uri: str, timeout: float, pool: type[sa.pool.Pool]) -> Engine:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
        )
        try:  # the journal's directory entry is synced too: a charge survives a power cut
            connection.execute("PRAGMA synchronous=EXTRA")
        except BaseException:
            connection.close()
            raise
        return connection

    engine = sa.create_engine("sqlite+pysqlite://", creator=connect, poolclass=pool)

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options()["sfumato_begin"])

    return engine
