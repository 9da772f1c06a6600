"""Files of version 0.1.0 in the form of today: models, bounds, ledgers and stores of functions.

A model or a file of bounds that is written differently today is written aside and renamed, and the
old file is kept beside it. Ledgers and stores of functions have the same form as in version 0.1.0:
every line of their chains is checked and none is changed, so nothing is priced anew.
"""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sfumato.accounting.ledger import Ledger
from sfumato.exceptions import InvalidInputError, SfumatoError
from sfumato.functions.store import AnswerStore
from sfumato.storage.atomic_file import atomic_write
from sfumato.storage.models import load, stored_bytes
from sfumato.tables.schema import LAYOUT, TableBounds

__all__ = ["Migration", "migrate_file"]

BACKUP = ".before-migration"
_MODEL, _DATABASE = b"PK\x03\x04", b"SQLite format 3\0"
_LAYOUT_LINE = re.compile(rb"^version\s*=\s*\d+", re.MULTILINE)


@dataclass(frozen=True)
class Migration:
    """What was done with one file: its `kind`, whether it was `changed`, and `facts` to print."""

    path: str
    kind: str
    changed: bool
    facts: tuple[str, ...] = ()
    backup: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give plain JSON values."""
        return asdict(self)


def migrate_file(path: str | os.PathLike[str]) -> Migration:
    """Bring one file to the form of today; do nothing where it has that form already.

    Parameters
    ----------
    path : path-like
        A model (.sfumato), a file of bounds (.toml), a ledger or a store of functions (SQLite).

    Returns
    -------
    Migration
        What was done.

    Raises
    ------
    StoredModelError
        The model or the store is damaged, or is one that this version does not read.
    LedgerTamperedError
        A chain of the ledger is broken. Nothing is changed.
    InvalidInputError
        The file is of none of the four kinds, or an earlier copy of it stands in the way.
    """
    file = Path(path)
    try:
        with file.open("rb") as opened:
            start = opened.read(len(_DATABASE))
        if start == _DATABASE:
            return _checked_database(file)
        if start.startswith(_MODEL):
            return _replaced(file, "model", file.read_bytes(), stored_bytes(load(file)))
        if file.suffix.lower() == ".toml":
            return _replaced(file, "bounds", file.read_bytes(), _bounds_of_today(file))
    except OSError as error:
        if isinstance(error, SfumatoError):
            raise
        raise InvalidInputError(f"'{file}' cannot be read: {error.strerror}.") from error
    raise InvalidInputError(
        f"'{file}' is not a file that Sfumato writes: a model (.sfumato), bounds (.toml), a "
        "ledger or a store of functions (SQLite)."
    )


def _bounds_of_today(file: Path) -> bytes:
    """Give the text with the number of today's layout; comments and order stay."""
    TableBounds.read(file)  # refuses what cannot be read
    return _LAYOUT_LINE.sub(f"version = {LAYOUT}".encode(), file.read_bytes(), count=1)


def _replaced(file: Path, kind: str, old: bytes, new: bytes) -> Migration:
    """Write the new bytes in place of the old ones, which are kept beside them."""
    if new == old:
        return Migration(str(file), kind, changed=False)
    backup = file.with_name(file.name + BACKUP)
    if backup.exists() and backup.read_bytes() != old:
        raise InvalidInputError(
            f"'{backup}' is an earlier copy. Move it away, then migrate '{file}' again."
        )
    for target, content in ((backup, old), (file, new)):
        with atomic_write(target) as written:
            written.write(content)
    return Migration(str(file), kind, changed=True, backup=str(backup))


def _checked_database(file: Path) -> Migration:
    """Check every line of a ledger, of a store of functions, or of both in one file."""
    tables = _tables_of(file)
    kinds, facts = [], list[str]()
    if "sfumato_budgets" in tables:
        kinds.append("ledger")
        facts += _ledger_facts(Ledger(file))
    if "sfumato_functions" in tables:
        kinds.append("store of functions")
        answers = AnswerStore(file).verify()
        facts += [f"'{name}' has {count} answers" for name, count in answers.items()]
    if not kinds:
        raise InvalidInputError(f"'{file}' is a database, but not one of Sfumato's.")
    return Migration(str(file), " and ".join(kinds), changed=False, facts=tuple(facts))


def _tables_of(file: Path) -> set[str]:
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
            return {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error as error:
        raise InvalidInputError(f"The database '{file}' cannot be read: {error}.") from error


def _ledger_facts(ledger: Ledger) -> list[str]:
    ledger.verify()
    statements = [ledger.dataset(name).statement() for name in ledger.datasets()]
    return [
        f"'{each.budget.name}' has spent epsilon {each.spent:.6g} of {each.budget.epsilon:g} "
        f"at delta {each.budget.delta:g} in {each.charges} charges"
        for each in statements
    ]
