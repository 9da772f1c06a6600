"""Transactions on a SQLite file, a PostgreSQL server, or the memory of one process.

`Database.read` gives one consistent view, `Database.write` excludes other writers until it ends;
both take the work as a function. That is on purpose: an interrupt may come between any two steps of
a Python function, also inside the exit of a context manager, and only a ``finally`` in the same
function is sure to be reached. No connection outlives its transaction, so a forked child never
inherits one, and closing it undoes what was not committed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from sfumato.accounting.waiting import take_turn
from sfumato.exceptions import InvalidInputError, SfumatoError

__all__ = ["Database", "Transaction", "Words"]

T = TypeVar("T")

_MEMORY = ":memory:"
GRACE = 2.0  # seconds beyond the timeout after which a silent server is given up

# SQLite's locks belong to the process, and a fork in the midst of a transaction of another thread
# would hand the child a connection that believes it holds them. So a fork waits for this lock.
_one_transaction = threading.RLock()
os.register_at_fork(
    before=_one_transaction.acquire,
    after_in_parent=_one_transaction.release,
    after_in_child=_one_transaction.release,
)


@dataclass(frozen=True)
class Words:
    """How trouble is told: the `thing` that is kept, what was `undone`, and the errors raised.

    `uncertain` is raised where the commit was sent and no answer came.
    """

    thing: str
    undone: str
    maker: str
    error: type[SfumatoError]
    uncertain: type[SfumatoError]


class Transaction:
    """Statements inside one transaction; parameters are marked ``?`` for both databases."""

    def __init__(self, connection: Any, patience: float | None) -> None:
        self._connection = connection
        self._patience = patience
        self._watching = threading.Lock()
        self._is_waiting = False
        self.is_server = patience is not None
        self.was_cut = False

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement and give its rows."""
        if not self.is_server:
            return list(self._connection.execute(statement, values))
        with self._watched():
            cursor = self._connection.execute(statement.replace("?", "%s"), values or None)
            return list(cursor.fetchall()) if cursor.description is not None else []

    def run_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for each row of values."""
        if not self.is_server:
            self._connection.executemany(statement, rows)
            return
        with self._watched(), self._connection.cursor() as cursor:
            cursor.executemany(statement.replace("?", "%s"), rows)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Cut the connection when the server keeps silent: its own timeouts may be frozen too."""
        watch = threading.Timer(self._patience or 0.0, self._cut)
        watch.daemon = self._is_waiting = True
        watch.start()
        try:
            yield
        finally:
            with self._watching:
                self._is_waiting = False
            watch.cancel()

    def _cut(self) -> None:
        with self._watching, contextlib.suppress(Exception):  # it may be gone already
            if self._is_waiting:
                self.was_cut = True
                with socket.socket(fileno=os.dup(self._connection.fileno())) as line:
                    line.shutdown(socket.SHUT_RDWR)


class Database:
    """A place that gives transactions.

    Parameters
    ----------
    path_or_url : str, Path or None
        None or ":memory:", a file, or a URL such as "postgresql://user@host/database".
    timeout : float
        Seconds to wait for another writer, and for a server that does not answer.
    words : Words
        How trouble is told.
    """

    def __init__(
        self, path_or_url: str | os.PathLike[str] | None, timeout: float, words: Words
    ) -> None:
        self.timeout = timeout
        self.path: Path | None = None
        self.is_server = False
        self._words = words
        self._process = os.getpid()
        self._memory: sqlite3.Connection | None = None
        if path_or_url is None or path_or_url == _MEMORY:
            self.address = self.shown = f"{_MEMORY}{uuid.uuid4().hex}"
            self._memory = _sqlite(_MEMORY, timeout)
        elif "://" in os.fspath(path_or_url):
            self.is_server = True
            url = _checked_url(os.fspath(path_or_url))
            self.address, self.shown = url.geturl(), _without_password(url)
            self._require_driver()
        else:
            self.path = _checked_path(path_or_url)
            self.address = self.shown = str(self.path)

    @property
    def in_memory(self) -> bool:
        """Whether everything ends with this process."""
        return self._memory is not None

    def ticket(self) -> tuple[str, float]:
        """Give what another process needs to open the same place."""
        if self.in_memory:
            raise self._words.error(
                f"An in-memory {self._words.thing} cannot be pickled or sent to another process, "
                f"where what it is told would be lost. Use a file: {self._words.maker}."
            )
        return self.address, self.timeout

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on one consistent view of the tables.

        Parameters
        ----------
        work : callable
            Takes a `Transaction`; what it returns is returned.
        """
        if self.is_server:
            return self._on_server(work, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return self._on_file(work, "BEGIN", "rw")

    def write(self, work: Callable[[Transaction], T], *, create: bool = False) -> T:
        """Run `work` with the right to write; commit at the end, undo on any exception.

        Parameters
        ----------
        work : callable
            Takes a `Transaction`; what it returns is returned after the commit.
        create : bool, default=False
            Make the file if there is none.
        """
        if self.is_server:
            return self._on_server(work, "BEGIN ISOLATION LEVEL READ COMMITTED")
        return self._on_file(work, "BEGIN IMMEDIATE", "rwc" if create else "rw")

    def _on_file(self, work: Callable[[Transaction], T], begin: str, mode: str) -> T:
        self._refuse_other_process()
        try:
            with _one_transaction:
                if self.path is not None:
                    return self._in_file(self.path, work, begin, mode)
                return self._in_memory(work, begin)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorname", "") in _PERHAPS_WRITTEN:
                raise self._words.uncertain(self._unknown("")) from error
            raise self._words.error(self._explained(error)) from error
        except UnicodeDecodeError as error:  # SQLite quotes damaged names in its own messages
            raise self._words.error(
                f"The {self._words.thing} at {self.shown} {_DAMAGED}"
            ) from error

    def _in_memory(self, work: Callable[[Transaction], T], begin: str) -> T:
        connection: Any = self._memory  # kept open: closing it would lose everything
        try:
            connection.execute(begin)
            answer = work(Transaction(connection, None))
            connection.execute("COMMIT")
        except BaseException:
            connection.rollback()
            raise
        return answer

    def _in_file(self, path: Path, work: Callable[[Transaction], T], begin: str, mode: str) -> T:
        deadline, turn = time.monotonic() + self.timeout, None
        if begin == "BEGIN IMMEDIATE" and path.exists():
            turn = take_turn(path, deadline)
        try:
            rest = max(0.0, deadline - time.monotonic())
            connection = _sqlite(f"{path.as_uri()}?mode={mode}", rest)
            try:
                # The journal's directory entry is synced too: what was told survives a power cut.
                connection.execute("PRAGMA synchronous=EXTRA")
                connection.execute(begin)
                answer = work(Transaction(connection, None))
                connection.execute("COMMIT")
            finally:
                connection.close()
        finally:
            if turn is not None:
                turn.close()
        return answer

    def _on_server(self, work: Callable[[Transaction], T], begin: str) -> T:
        import psycopg

        self._refuse_other_process()
        transaction, is_committing = None, False
        try:
            connection = self._connected()
            try:
                transaction = Transaction(connection, self.timeout + GRACE)
                transaction.run(begin)
                wait, work_time = int(1000 * self.timeout), int(1000 * (self.timeout + GRACE))
                transaction.run(f"SET LOCAL lock_timeout = {max(1, wait)}")
                transaction.run(f"SET LOCAL statement_timeout = {work_time}")
                answer = work(transaction)
                is_committing = True
                transaction.run("COMMIT")
            finally:
                connection.close()
        except psycopg.Error as error:
            was_cut = transaction is not None and transaction.was_cut
            if is_committing and error.sqlstate is None:  # no answer: neither yes nor no
                why = f" within {self.timeout + GRACE:g} s" if was_cut else ""
                raise self._words.uncertain(self._unknown(why)) from error
            told = self._silent() if was_cut else self._explained(error)
            raise self._words.error(told) from error
        return answer

    def _connected(self) -> Any:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        patience = max(1, int(self.timeout + GRACE))
        waits: dict[str, Any] = {
            "connect_timeout": max(2, int(self.timeout)),
            "keepalives_idle": patience,
            "keepalives_interval": max(1, patience // 3),
            "keepalives_count": 3,
            "tcp_user_timeout": 1000 * patience,
        }
        given = conninfo_to_dict(self.address)
        chosen = {name: value for name, value in waits.items() if name not in given}
        return psycopg.connect(self.address, autocommit=True, **chosen)

    def _require_driver(self) -> None:
        try:
            import psycopg  # noqa: F401
        except ModuleNotFoundError as error:
            raise self._words.error(
                f"A PostgreSQL {self._words.thing} needs the package '{error.name}': "
                "pip install 'sfumato[postgres]'."
            ) from None

    def _refuse_other_process(self) -> None:
        if self.in_memory and os.getpid() != self._process:
            raise self._words.error(
                f"An in-memory {self._words.thing} belongs to the process that made it; a forked "
                f"child would count on its own copy. Use a file: {self._words.maker}."
            )

    def _silent(self) -> str:
        return (
            f"The {self._words.thing} at {self.shown} did not answer within "
            f"{self.timeout + GRACE:g} s; {self._words.undone}. Try again when the server is well."
        )

    def _unknown(self, why: str) -> str:
        return (
            f"The {self._words.thing} at {self.shown} did not confirm the commit{why}. Unknown "
            "whether it was written: verify before you retry. The same, made again with the same "
            "handle, is not counted twice."
        )

    def _explained(self, error: BaseException | None) -> str:
        code = getattr(error, "sqlite_errorname", "") or ""
        state = getattr(error, "sqlstate", "") or ""
        text = str(error).strip().partition("\n")[0]
        thing, undone = self._words.thing, self._words.undone
        if state == "42P01" or "no such table" in text or self._is_missing(code):
            return f"There is no {thing} at {self.shown} yet; {thing.title()}.create makes one."
        for sign, trouble in _TROUBLE.items():
            if code.startswith(sign) or state == sign:
                told = trouble.format(timeout=self.timeout, undone=undone, thing=thing)
                return f"The {thing} at {self.shown} {told}"
        return f"The {thing} at {self.shown} could not be read or written: {text}"

    def _is_missing(self, code: str) -> bool:
        return (
            code == "SQLITE_CANTOPEN"
            and self.path is not None
            and self.path.parent.is_dir()
            and not self.path.exists()
        )


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
    "SQLITE_CANTOPEN": "cannot be opened: is there such a directory, and may you write in it?",
    "SQLITE_NOTADB": "is not a {thing}: the file is no SQLite database, or is damaged.",
    "SQLITE_CORRUPT": _DAMAGED,
}


def _sqlite(uri: str, timeout: float) -> sqlite3.Connection:
    return sqlite3.connect(
        uri,
        uri=uri != _MEMORY,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
    )


def _checked_path(path: str | os.PathLike[str]) -> Path:
    if not os.fspath(path):
        raise InvalidInputError("'path_or_url' must be a file path, a URL or None. Got ''.")
    return Path(path).expanduser().resolve()


def _checked_url(text: str) -> SplitResult:
    try:
        url = urlsplit(text)
        _ = url.port
    except ValueError:
        raise InvalidInputError("'path_or_url' is not a database URL that can be read.") from None
    backend = url.scheme.partition("+")[0]
    if backend not in ("postgresql", "postgres"):
        raise InvalidInputError(
            "'path_or_url' must be a file path (SQLite) or a postgresql:// URL. "
            f"Got a URL of '{backend}' instead."
        )
    return url._replace(scheme="postgresql")


def _without_password(url: SplitResult) -> str:
    if url.password is None:
        return url.geturl()
    user, _, place = url.netloc.rpartition("@")
    return url._replace(netloc=f"{user.partition(':')[0]}:***@{place}").geturl()
