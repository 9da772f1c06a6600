"""Where a ledger is kept: a SQLite file, PostgreSQL, or the memory of one process.

A transaction is the whole interface: `Store.reading` gives one consistent view, `Store.writing`
excludes every other writer until it ends. No connection outlives its transaction, so a forked
child never inherits one. Errors of the database come out as `LedgerError`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.pool import NullPool, StaticPool

from sfumato.accounting.ledger_chain import Charge
from sfumato.exceptions import InvalidInputError, LedgerError

__all__ = ["MEMORY", "Store"]

MEMORY = ":memory:"

_tables = sa.MetaData()
_budgets = sa.Table(
    "sfumato_budgets",
    _tables,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("epsilon", sa.Text, nullable=False),
    sa.Column("delta", sa.Text, nullable=False),
    sa.Column("unit", sa.Text, nullable=False),
    sa.Column("relation", sa.Text, nullable=False),
    sa.Column("created", sa.Text, nullable=False),
    sa.Column("format", sa.Integer, nullable=False),
    sa.Column("genesis", sa.Text, nullable=False),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("head", sa.Text, nullable=False),
)
_charges = sa.Table(
    "sfumato_charges",
    _tables,
    sa.Column("dataset", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
)

# Append-only against mistakes. Against malice stands the chain: who can drop a trigger can
# rewrite a line, and verify() sees it.
_APPEND_ONLY = {
    "sqlite": [
        f"CREATE TRIGGER sfumato_charges_no_{verb} BEFORE {verb} ON sfumato_charges "
        "BEGIN SELECT RAISE(ABORT, 'charges are append-only'); END"
        for verb in ("update", "delete")
    ],
    "postgresql": [
        "CREATE OR REPLACE FUNCTION sfumato_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN RAISE EXCEPTION ''charges are append-only''; END'",
        "CREATE TRIGGER sfumato_charges_append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
        "ON sfumato_charges FOR EACH STATEMENT EXECUTE FUNCTION sfumato_append_only()",
    ],
}
for _dialect, _statements in _APPEND_ONLY.items():
    for _statement in _statements:
        sa.event.listen(
            _charges, "after_create", sa.DDL(_statement).execute_if(dialect=_dialect)
        )

# SQLite's locks belong to the process, and a fork in the midst of a transaction of another thread
# would hand the child a connection that believes it holds them. So a fork waits for this lock.
_one_transaction = threading.RLock()
os.register_at_fork(
    before=_one_transaction.acquire,
    after_in_parent=_one_transaction.release,
    after_in_child=_one_transaction.release,
)


class Store:
    """The two tables of a ledger behind transactions.

    Parameters
    ----------
    path_or_url : str, Path or None
        None or ":memory:", a file, or a URL such as "postgresql+psycopg://user@host/database".
    timeout : float
        Seconds to wait for another writer.
    """

    def __init__(self, path_or_url: str | os.PathLike[str] | None, timeout: float) -> None:
        self.timeout = timeout
        self.path: Path | None = None
        self._process = os.getpid()
        if path_or_url is None or path_or_url == MEMORY:
            self.address = self.shown = f"{MEMORY}{uuid.uuid4().hex}"
            self._engine = _sqlite_engine(MEMORY, timeout, StaticPool)
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
        return self.address.startswith(MEMORY)

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
        """Give the tables with the right to write, and make the file and the tables if needed."""
        engine = self._engine
        if self.path is not None:
            engine = _sqlite_engine(f"{self.path.as_uri()}?mode=rwc", self.timeout, NullPool)
        with self._transaction(engine, "BEGIN IMMEDIATE", "READ COMMITTED") as connection:
            if engine.dialect.name == "postgresql":  # CREATE TABLE IF NOT EXISTS alone may race
                connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7315821)")
            _tables.create_all(connection)
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
        except sa.exc.DBAPIError as error:
            raise LedgerError(self._explained(error.orig)) from error

    def _refuse_unusable(self) -> None:
        if self.in_memory and os.getpid() != self._process:
            raise LedgerError(
                "An in-memory ledger belongs to the process that made it; a forked child would "
                "count on its own copy. Use a file: Ledger('budget.db')."
            )

    def budgets(self, connection: Connection) -> list[Mapping[str, Any]]:
        """Read all budget rows, by name."""
        query = sa.select(_budgets).order_by(_budgets.c.name)
        return [dict(row) for row in connection.execute(query).mappings()]

    def budget(self, connection: Connection, name: str) -> Mapping[str, Any] | None:
        """Read one budget row; in a writing transaction it stays locked until the end."""
        query = sa.select(_budgets).where(_budgets.c.name == name)
        if connection.get_isolation_level() == "READ COMMITTED":
            query = query.with_for_update()
        row = connection.execute(query).mappings().one_or_none()
        return None if row is None else dict(row)

    def charges(self, connection: Connection, name: str, start: int = 1) -> list[Charge]:
        """Read the charges of a dataset from position `start` on, in order."""
        query = (
            sa.select(_charges)
            .where(_charges.c.dataset == name, _charges.c.position >= start)
            .order_by(_charges.c.position)
        )
        return [Charge(**row) for row in connection.execute(query).mappings()]

    def charged_names(self, connection: Connection) -> set[str]:
        """List the datasets that have charges, whether or not they have a budget."""
        return set(connection.execute(sa.select(_charges.c.dataset).distinct()).scalars())

    def add_budget(self, connection: Connection, record: Mapping[str, Any]) -> None:
        """Write a new budget row."""
        row = {**record, "count": 0, "head": record["genesis"]}
        connection.execute(sa.insert(_budgets), row)

    def append(self, connection: Connection, charges: Sequence[Charge]) -> None:
        """Write new lines at the end of a chain and move the budget's count and head."""
        last = charges[-1]
        connection.execute(sa.insert(_charges), [asdict(charge) for charge in charges])
        connection.execute(
            sa.update(_budgets)
            .where(_budgets.c.name == last.dataset)
            .values(count=last.position, head=last.hash)
        )

    def check_pages(self, connection: Connection) -> None:
        """Let SQLite look through the whole file for damage; PostgreSQL watches its own."""
        if connection.dialect.name == "sqlite":
            found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
            if found != "ok":
                raise LedgerError(f"The ledger at {self.shown} {_TROUBLE['SQLITE_CORRUPT']}")

    def _explained(self, error: BaseException | None) -> str:
        code = getattr(error, "sqlite_errorname", "") or ""
        state = getattr(error, "sqlstate", "") or ""
        text = str(error).strip().partition("\n")[0]
        if state == "42P01" or "no such table" in text:
            return f"There is no ledger at {self.shown} yet; Ledger.create makes one."
        for sign, trouble in _TROUBLE.items():
            if code.startswith(sign) or state == sign:
                return f"The ledger at {self.shown} " + trouble.format(timeout=self.timeout)
        return f"The ledger at {self.shown} could not be read or written: {text}"


_LOCKED = (
    "stayed locked by another process for {timeout:g} s; nothing was charged. Try again, or give "
    "the ledger a longer timeout."
)
_FULL = (
    "could not be written, the disk is full or failing. Nothing was charged, and what was "
    "charged before is kept."
)
_TROUBLE = {
    "SQLITE_BUSY": _LOCKED,
    "55P03": _LOCKED,
    "SQLITE_FULL": _FULL,
    "SQLITE_IOERR": _FULL,
    "53100": _FULL,
    "SQLITE_READONLY": "is read-only for this user; nothing was charged.",
    "25006": "is read-only for this user; nothing was charged.",
    "SQLITE_CANTOPEN": "cannot be opened: is there such a directory, and may you write in it?",
    "SQLITE_NOTADB": "is not a ledger: the file is no SQLite database, or is damaged.",
    "SQLITE_CORRUPT": "is damaged; stop releasing and restore it from a copy.",
}


def _checked_path(path: str | os.PathLike[str]) -> Path:
    if not os.fspath(path):
        raise InvalidInputError("'path_or_url' must be a file path, a URL or None. Got ''.")
    return Path(path).expanduser().resolve()


def _checked_url(text: str) -> URL:
    try:
        url = make_url(text)
    except sa.exc.ArgumentError:
        raise InvalidInputError("'path_or_url' is not a database URL that can be read.") from None
    if url.get_backend_name() != "postgresql":
        raise InvalidInputError(
            "'path_or_url' must be a file path (SQLite) or a postgresql:// URL. "
            f"Got a URL of '{url.get_backend_name()}' instead."
        )
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def _postgresql_engine(url: URL, timeout: float) -> Engine:
    wait = {"connect_timeout": max(2, int(timeout))}
    try:
        return sa.create_engine(url, poolclass=NullPool, connect_args=wait)
    except ModuleNotFoundError as error:
        raise LedgerError(
            f"A PostgreSQL ledger needs the package '{error.name}': pip install 'sfumato[postgres]'."
        ) from None


def _sqlite_engine(uri: str, timeout: float, pool: type[sa.pool.Pool]) -> Engine:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
        )
        # The journal's directory entry is synced too: a charge survives a power cut.
        connection.execute("PRAGMA synchronous=EXTRA")
        return connection

    engine = sa.create_engine("sqlite+pysqlite://", creator=connect, poolclass=pool)

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options()["sfumato_begin"])

    return engine
