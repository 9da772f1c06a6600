"""The two tables of a ledger, read and written inside a transaction of `LedgerDatabase`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sfumato.accounting.ledger_chain import Charge
from sfumato.exceptions import LedgerError

__all__ = [
    "add_budget",
    "append",
    "budget",
    "budgets",
    "charged_names",
    "charges",
    "check_pages",
    "create_tables",
]

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


def create_tables(connection: Connection) -> None:
    """Make the tables where there are none."""
    if connection.dialect.name == "postgresql":  # CREATE TABLE IF NOT EXISTS alone may race
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7315821)")
    if not sa.inspect(connection).has_table(_charges.name):
        _tables.create_all(connection)
        for statement in _APPEND_ONLY[connection.dialect.name]:
            connection.exec_driver_sql(statement)


def budgets(connection: Connection) -> list[Mapping[str, Any]]:
    """Read all budget rows, by name."""
    query = sa.select(_budgets).order_by(_budgets.c.name)
    return [dict(row) for row in connection.execute(query).mappings()]


def budget(connection: Connection, name: str, *, lock: bool = False) -> Mapping[str, Any] | None:
    """Read one budget row; `lock` keeps other writers from it until the transaction ends."""
    query = sa.select(_budgets).where(_budgets.c.name == name)
    if lock:  # no more than a remark to SQLite, where the whole file is locked
        query = query.with_for_update()
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else dict(row)


def charges(connection: Connection, name: str, start: int | None = None) -> list[Charge]:
    """Read the charges of a dataset, all or from position `start` on, in order."""
    query = sa.select(_charges).where(_charges.c.dataset == name).order_by(_charges.c.position)
    if start is not None:
        query = query.where(_charges.c.position >= start)
    return [Charge(**row) for row in connection.execute(query).mappings()]


def charged_names(connection: Connection) -> set[str]:
    """List the datasets that have charges, whether or not they have a budget."""
    return set(connection.execute(sa.select(_charges.c.dataset).distinct()).scalars())


def add_budget(connection: Connection, record: Mapping[str, Any]) -> None:
    """Write a new budget row."""
    row = {**record, "count": 0, "head": record["genesis"]}
    connection.execute(sa.insert(_budgets), row)


def append(connection: Connection, charges: Sequence[Charge]) -> None:
    """Write new lines at the end of a chain and move the budget's count and head."""
    # [L3] all lines of a charge, inside its transaction
    last = charges[-1]
    connection.execute(sa.insert(_charges), [asdict(charge) for charge in charges])
    connection.execute(
        sa.update(_budgets)
        .where(_budgets.c.name == last.dataset)
        .values(count=last.position, head=last.hash)
    )


def check_pages(connection: Connection) -> None:
    """Let SQLite look through the whole file for damage; PostgreSQL watches its own."""
    if connection.dialect.name == "sqlite":
        found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        if found != "ok":
            raise LedgerError("The ledger file is damaged; stop releasing and restore a copy.")
