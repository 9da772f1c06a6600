"""The tables of a ledger, read and written inside a `Transaction`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

from sfumato.core.databases import Transaction
from sfumato.exceptions import LedgerError
from sfumato.ledger.chain import Charge

_COLUMNS = "name, epsilon, delta, unit, relation, created, format, genesis, count, head"
_FIELDS = _COLUMNS.split(", ")
_BUDGETS = f"SELECT {_COLUMNS} FROM sfumato_budgets"  # noqa: S608 - names of columns
_CHARGES = "SELECT dataset, position, time, event, previous, hash FROM sfumato_charges"
_TABLES = [
    """CREATE TABLE sfumato_budgets (
        name TEXT NOT NULL PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
        unit TEXT NOT NULL, relation TEXT NOT NULL, created TEXT NOT NULL,
        format INTEGER NOT NULL, genesis TEXT NOT NULL, count INTEGER NOT NULL, head TEXT NOT NULL)
    """,
    """CREATE TABLE sfumato_charges (
        dataset TEXT NOT NULL, position INTEGER NOT NULL, time TEXT NOT NULL, event TEXT NOT NULL,
        previous TEXT NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (dataset, position))
    """,
    """CREATE TABLE sfumato_checkpoints (
        dataset TEXT NOT NULL PRIMARY KEY, position INTEGER NOT NULL, state {bytes} NOT NULL)
    """,
]

# Append-only against mistakes. Against malice stands the chain: who can drop a trigger can
# rewrite a line, and verify() sees it.
_APPEND_ONLY_IN_A_FILE = [
    f"CREATE TRIGGER sfumato_charges_no_{verb} BEFORE {verb} ON sfumato_charges "
    "BEGIN SELECT RAISE(ABORT, 'charges are append-only'); END"
    for verb in ("update", "delete")
]
_APPEND_ONLY_ON_A_SERVER = [
    "CREATE OR REPLACE FUNCTION sfumato_append_only() RETURNS trigger LANGUAGE plpgsql AS "
    "'BEGIN RAISE EXCEPTION ''charges are append-only''; END'",
    "CREATE TRIGGER sfumato_charges_append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
    "ON sfumato_charges FOR EACH STATEMENT EXECUTE FUNCTION sfumato_append_only()",
]


def create_tables(ledger: Transaction) -> None:
    """Make the tables where there are none."""
    if ledger.is_server:  # two that begin at once would both find nothing
        ledger.run("SELECT pg_advisory_xact_lock(7315821)")
    query = "SELECT 1 FROM sqlite_master WHERE name = ?"
    if ledger.is_server:
        query = "SELECT 1 WHERE to_regclass(?) IS NOT NULL"
    if not ledger.run(query, ("sfumato_charges",)):
        triggers = _APPEND_ONLY_ON_A_SERVER if ledger.is_server else _APPEND_ONLY_IN_A_FILE
        for statement in _TABLES:
            ledger.run(statement.format(bytes="BYTEA" if ledger.is_server else "BLOB"))
        for statement in triggers:
            ledger.run(statement)


def budgets(ledger: Transaction) -> list[Mapping[str, Any]]:
    """Read all budget rows, by name."""
    rows = ledger.run(f"{_BUDGETS} ORDER BY name")
    return [dict(zip(_FIELDS, row, strict=True)) for row in rows]


def budget(ledger: Transaction, name: str, *, lock: bool = False) -> Mapping[str, Any] | None:
    """Read one budget row; `lock` keeps other writers from it until the transaction ends."""
    end = " FOR UPDATE" if lock and ledger.is_server else ""  # in a file everything is locked
    rows = ledger.run(f"{_BUDGETS} WHERE name = ?{end}", (name,))
    return dict(zip(_FIELDS, rows[0], strict=True)) if rows else None


def charges(
    ledger: Transaction, name: str, start: int | None = None, stop: int | None = None
) -> list[Charge]:
    """Read the charges of a dataset, all or from position `start` to `stop`, in order."""
    where, values = ["dataset = ?"], list[Any]([name])
    bounds = {"position >= ?": start, "position <= ?": stop}
    for condition, bound in bounds.items():
        if bound is not None:
            where.append(condition)
            values.append(bound)
    rows = ledger.run(f"{_CHARGES} WHERE {' AND '.join(where)} ORDER BY position", values)
    return [Charge(*row) for row in rows]


def charged_names(ledger: Transaction) -> set[str]:
    """List the datasets that have charges, whether or not they have a budget."""
    return {name for (name,) in ledger.run("SELECT DISTINCT dataset FROM sfumato_charges")}


def add_budget(ledger: Transaction, record: Mapping[str, Any]) -> None:
    """Write a new budget row."""
    row = {**record, "count": 0, "head": record["genesis"]}
    ledger.run(
        f"INSERT INTO sfumato_budgets ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        [row[field] for field in _FIELDS],
    )
    ledger.run("DELETE FROM sfumato_checkpoints WHERE dataset = ?", (record["name"],))  # lost ones


def append(ledger: Transaction, charges: Sequence[Charge]) -> None:
    """Write new lines at the end of a chain and move the budget's count and head."""
    # [L3] all lines of a charge, inside its transaction
    last = charges[-1]
    ledger.run_many(
        "INSERT INTO sfumato_charges (dataset, position, time, event, previous, hash) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        [astuple(charge) for charge in charges],
    )
    ledger.run(
        "UPDATE sfumato_budgets SET count = ?, head = ? WHERE name = ?",
        (last.position, last.hash, last.dataset),
    )


def check_pages(ledger: Transaction) -> None:
    """Let SQLite look through the whole file for damage; PostgreSQL watches its own."""
    if not ledger.is_server:
        found = ledger.run("PRAGMA quick_check(1)")
        if found != [("ok",)]:
            raise LedgerError("The ledger file is damaged; stop releasing and restore a copy.")


def checkpoint(ledger: Transaction, name: str) -> tuple[int, bytes] | None:
    """Read the last checkpoint of a dataset, where there is one."""
    rows = ledger.run("SELECT position, state FROM sfumato_checkpoints WHERE dataset = ?", (name,))
    return (rows[0][0], bytes(rows[0][1])) if rows else None


def keep_checkpoint(ledger: Transaction, name: str, position: int, state: bytes) -> None:
    """Write the checkpoint of a dataset in place of the one before."""
    ledger.run(
        "INSERT INTO sfumato_checkpoints (dataset, position, state) VALUES (?, ?, ?) "
        "ON CONFLICT (dataset) DO UPDATE SET position = excluded.position, state = excluded.state",
        (name, position, state),
    )
