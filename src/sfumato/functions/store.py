"""The answers of online releases on disk, chained by hashes, so that damage is seen.

``h_0 = H(header)`` and ``h_i = H(h_(i-1), i, point, answer)`` with SHA-256. The header row keeps
the number of answers and the last hash, so that a removed tail is seen as well. Everything in the
store was released: points that were asked, answers that were told. The raw function never enters.
Answers drawn from seeded noise, which promise nothing, come with a mark: one more link of the
chain, whose point is the word "testing".
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import numpy as np

from sfumato.exceptions import InvalidInputError, StoredModelError
from sfumato.functions.domain import Key
from sfumato.functions.store_database import StoreDatabase, Transaction

__all__ = ["AnswerBook", "AnswerStore"]

FORMAT = 1
MARK = "testing"
_TABLES = (
    "CREATE TABLE IF NOT EXISTS sfumato_functions (name TEXT PRIMARY KEY, header TEXT NOT NULL, "
    "count BIGINT NOT NULL, head TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS sfumato_answers (name TEXT NOT NULL, position BIGINT NOT NULL, "
    "point TEXT NOT NULL, answer DOUBLE PRECISION NOT NULL, hash TEXT NOT NULL, "
    "PRIMARY KEY (name, position), UNIQUE (name, point))",
)


class AnswerStore:
    """The online releases kept in one database.

    Parameters
    ----------
    path_or_url : str or Path
        A SQLite file, made when it is not there, or a postgresql:// URL.
    timeout : float, default=60.0
        Seconds to wait for another writer.
    """

    def __init__(self, path_or_url: str | os.PathLike[str], *, timeout: float = 60.0) -> None:
        self._database = StoreDatabase(path_or_url, timeout)

    def require_new(self, name: str) -> None:
        """Refuse a name that cannot be used, or that a release has already."""
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise InvalidInputError("'name' must be a text of printable characters, not empty.")
        with self._database.writing(create=True) as transaction:
            _make_tables(transaction)
            if _row_of(transaction, name) is not None:
                raise InvalidInputError(
                    f"The store holds a release named '{name}' already. Go on with it by "
                    "OnlineFunction.resume, or give the new release a name of its own."
                )

    def create(self, name: str, header: dict[str, Any]) -> AnswerBook:
        """Write down a new release, with nothing answered yet."""
        text = json.dumps({"format": FORMAT, "name": name, **header}, default=_plain)
        with self._database.writing() as transaction:
            transaction.run(
                "INSERT INTO sfumato_functions VALUES (?, ?, ?, ?)", (name, text, 0, _hash(text))
            )
        return AnswerBook(self._database, name)

    def open(self, name: str) -> AnswerBook:
        """Open a release that was written down before."""
        return AnswerBook(self._database, name)


class AnswerBook:
    """The answers of one release, read and extended inside write transactions.

    Parameters
    ----------
    database : StoreDatabase
        Where it is kept.
    name : str
        The release.
    """

    def __init__(self, database: StoreDatabase, name: str) -> None:
        self._database = database
        self.name = name
        self.forget()

    def forget(self) -> None:
        """Forget what was read, so that everything is read and checked again."""
        self._count = 0
        self._head = ""
        self._testing = False

    def header(self) -> dict[str, Any]:
        """Give what was written down when the release began; its status as it is now."""
        with self._database.writing() as transaction:
            text, count, head = self._current(transaction)
            first = self._rows(transaction, 0, most=1)
            marked = transaction.run(
                "SELECT 1 FROM sfumato_answers WHERE name = ? AND point = ?", (self.name, MARK)
            )
        seals = [_seal(_hash(text), *row[:3]) for row in first] or [_hash(text)]
        if seals != ([row[3] for row in first] or [head]) or bool(first) != bool(count):
            raise self._damaged(0)
        header: dict[str, Any] = json.loads(text)
        if header.get("format") != FORMAT or header.get("name") != self.name:
            raise StoredModelError(
                f"The release '{self.name}' was written by a newer Sfumato, or was renamed."
            )
        return header | ({"status": MARK} if marked else {})

    @contextmanager
    def extending(self) -> Iterator[Extension]:
        """Give the answers that are new since the last time, and the right to add more.

        Other writers of this release wait until the block ends. What was added is safe on disk
        then; after an exception nothing of it is.
        """
        try:
            with self._database.writing() as transaction:
                text, count, head = self._current(transaction)
                seen = self._head or _hash(text)
                fresh = self._read_on(transaction, seen, count, head)
                extension = Extension(fresh, testing=self._testing)
                yield extension
                if extension.added:
                    links = _links(extension, marked=self._testing)
                    self._append(transaction, links, count, head)
                    self._testing = extension.testing
        except BaseException:
            self.forget()
            raise

    def _current(self, transaction: Transaction) -> tuple[str, int, str]:
        try:
            found = _row_of(transaction, self.name)
        except Exception as error:
            if "no such table" in str(error) or getattr(error, "sqlstate", "") == "42P01":
                found = None
            else:
                raise
        if found is None:
            raise StoredModelError(f"The store holds no release named '{self.name}'.")
        return found

    def _read_on(
        self, transaction: Transaction, seen: str, count: int, head: str
    ) -> list[tuple[Key, float]]:
        rows = self._rows(transaction, self._count) if count != self._count else []
        fresh = []
        for expected, (position, point, answer, seal) in enumerate(rows, start=self._count + 1):
            if position != expected or seal != _seal(seen, position, point, answer):
                raise self._damaged(expected)
            seen = seal
            if point == MARK:
                self._testing = True
            else:
                fresh.append((_key(point), answer))
        if self._count + len(rows) != count or seen != head:
            raise self._damaged(self._count + len(rows))
        self._count, self._head = count, head
        return fresh

    def _rows(
        self, transaction: Transaction, after: int, most: int = 2**62
    ) -> list[tuple[Any, ...]]:
        return transaction.run(
            "SELECT position, point, answer, hash FROM sfumato_answers "
            "WHERE name = ? AND position > ? ORDER BY position LIMIT ?",
            (self.name, after, most),
        )

    def _append(
        self, transaction: Transaction, links: list[tuple[str, float]], count: int, head: str
    ) -> None:
        rows = []
        for position, (point, answer) in enumerate(links, start=count + 1):
            head = _seal(head, position, point, answer)
            rows.append((self.name, position, point, answer, head))
        transaction.run_many("INSERT INTO sfumato_answers VALUES (?, ?, ?, ?, ?)", rows)
        transaction.run(
            "UPDATE sfumato_functions SET count = ?, head = ? WHERE name = ?",
            (count + len(rows), head, self.name),
        )
        self._count, self._head = count + len(rows), head

    def _damaged(self, position: int) -> StoredModelError:
        return StoredModelError(
            f"The store does not hold: release '{self.name}', answer {position} is missing, was "
            "changed or was put back to an older state. Stop answering and compare with a copy."
        )


class Extension:
    """Answers given elsewhere since the last look, and answers to add; whether any is of a seed."""

    def __init__(self, fresh: list[tuple[Key, float]], *, testing: bool) -> None:
        self.fresh = fresh
        self.added: list[tuple[Key, float]] = []
        self.testing = testing


def _links(extension: Extension, *, marked: bool) -> list[tuple[str, float]]:
    """Give what is added to the chain: answers, and before them a mark that they need."""
    mark = [(MARK, 0.0)] if extension.testing and not marked else []
    return mark + [(",".join(map(str, key)), answer) for key, answer in extension.added]


def _make_tables(transaction: Transaction) -> None:
    if transaction.is_server:  # CREATE TABLE IF NOT EXISTS alone may race
        transaction.run("SELECT pg_advisory_xact_lock(7315822)")
    for statement in _TABLES:
        transaction.run(statement)


def _row_of(transaction: Transaction, name: str) -> tuple[str, int, str] | None:
    lock = " FOR UPDATE" if transaction.is_server else ""
    statement = f"SELECT header, count, head FROM sfumato_functions WHERE name = ?{lock}"  # noqa: S608
    rows = transaction.run(statement, (name,))
    return (str(rows[0][0]), int(rows[0][1]), str(rows[0][2])) if rows else None


def _key(point: str) -> Key:
    return tuple(int(part) for part in point.split(","))


def _seal(previous: str, position: int, point: str, answer: float) -> str:
    number = answer.hex() if isinstance(answer, float) and math.isfinite(answer) else "damaged"
    return _hash(f"{previous}|{position}|{point}|{number}")


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"A header cannot hold a {type(value).__name__}.")
