"""The answers of online releases on disk, chained by hashes, so that damage is seen.

``h_0 = H(header)`` and ``h_i = H(h_(i-1), i, point, answer)`` with SHA-256. The header row keeps
the number of answers and the last hash, so that a removed tail is seen as well. Everything in the
store was released: points that were asked, answers that were given. The raw function never enters.
Answers drawn from seeded noise, which promise nothing, come with a mark: one more link of the
chain, whose point is the word "testing".
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import numpy as np

from sfumato.exceptions import InvalidInputError, StoredModelError
from sfumato.functions.domain import Key
from sfumato.storage.databases import Database, Transaction, Words

__all__ = ["AnswerBook", "AnswerStore"]

FORMAT = 1
MARK = "testing"
Answers = list[tuple[Key, float]]
WORDS = Words(
    thing="store",
    undone="nothing was answered",
    creation="a release with store=",
    retry="ask again. An answer that was written is given as it is; it costs nothing more.",
    error=StoredModelError,
    uncertain=StoredModelError,
)
_TABLES = (
    "CREATE TABLE IF NOT EXISTS sfumato_functions (name TEXT PRIMARY KEY, header TEXT NOT NULL, "
    "count BIGINT NOT NULL, head TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS sfumato_answers (name TEXT NOT NULL, position BIGINT NOT NULL, "
    "point TEXT NOT NULL, answer DOUBLE PRECISION NOT NULL, hash TEXT NOT NULL, "
    "PRIMARY KEY (name, position), UNIQUE (name, point))",
)
_NAMES = "SELECT name FROM sfumato_functions ORDER BY name"


class AnswerStore:
    """The online releases kept in one database.

    path_or_url: A SQLite file, made when it is not there, or a postgresql:// URL.
    timeout: Seconds to wait for another writer.
    """

    def __init__(self, path_or_url: str | os.PathLike[str], *, timeout: float = 60.0) -> None:
        self._database = Database(path_or_url, timeout, WORDS, keep_open=True)

    def require_new(self, name: str) -> None:
        """Refuse a name that cannot be used, or that a release has already."""
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise InvalidInputError("'name' must be a text of printable characters, not empty.")

        def look(transaction: Transaction) -> None:
            _make_tables(transaction)
            if _row_of(transaction, name) is not None:
                raise InvalidInputError(
                    f"The store already contains a release named '{name}'. Continue it with "
                    "OnlineFunction.resume, or give the new release a name of its own."
                )

        self._database.write(look, create=True)

    def create(self, name: str, header: dict[str, Any]) -> AnswerBook:
        """Write down a new release, with nothing answered yet."""
        text = json.dumps({"format": FORMAT, "name": name, **header}, default=_plain)
        row = (name, text, 0, _hash(text))
        insert = "INSERT INTO sfumato_functions VALUES (?, ?, ?, ?)"
        self._database.write(lambda transaction: transaction.run(insert, row))
        return AnswerBook(self._database, name)

    def open(self, name: str) -> AnswerBook:
        """Open a release that was written down before."""
        return AnswerBook(self._database, name)

    def verify(self) -> dict[str, int]:
        """Check the chain of every release; give the number of answers by name."""
        rows = self._database.read(lambda transaction: transaction.run(_NAMES))
        return {name: self.open(name).verify() for (name,) in rows}


class AnswerBook:
    """The answers of one release, read and extended inside write transactions.

    database: Where it is kept.
    name: The release.
    """

    def __init__(self, database: Database, name: str) -> None:
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
        (text, count, head), first, marked = self._database.write(self._beginning)
        seals = [_seal(_hash(text), *row[:3]) for row in first] or [_hash(text)]
        if seals != ([row[3] for row in first] or [head]) or bool(first) != bool(count):
            raise self._damaged(0)
        header: dict[str, Any] = json.loads(text)
        if header.get("format") != FORMAT or header.get("name") != self.name:
            raise StoredModelError(
                f"The release '{self.name}' was written by a newer Sfumato, or was renamed."
            )
        return header | ({"status": MARK} if marked else {})

    def _beginning(self, transaction: Transaction) -> tuple[Any, ...]:
        mark = "SELECT 1 FROM sfumato_answers WHERE name = ? AND point = ?"
        current = self._current(transaction)
        first = self._rows(transaction, 0, most=1)
        return current, first, transaction.run(mark, (self.name, MARK))

    def verify(self) -> int:
        """Check the header and every answer; give the number of answers."""
        self.header()
        self.forget()
        self.extend(lambda _: ([], False))
        return self._count

    def answers(self) -> dict[Key, float]:
        """Give every answer that was given, by point; needs no function."""
        found: Answers = []

        def look(fresh: Answers) -> tuple[Answers, bool]:
            found.extend(fresh)
            return [], False

        self.forget()
        self.extend(look)
        return dict(found)

    def extend(self, answer: Callable[[Answers], tuple[Answers, bool]]) -> bool:
        """Add answers, and give whether any answer of this release is of a seed.

        Other writers of this release wait until it ends. What was added is safe on disk then;
        after an exception nothing of it is.

        answer: Takes the answers that are new since the last time, and gives those to add and
            whether they are of a seed.
        """

        def work(transaction: Transaction) -> bool:
            text, count, head = self._current(transaction)
            fresh = self._read_on(transaction, self._head or _hash(text), count, head)
            added, of_seed = answer(fresh)
            if added:
                links = _links(added, mark=of_seed and not self._testing)
                self._append(transaction, links, count, head)
                self._testing |= of_seed
            return self._testing

        try:
            return self._database.write(work)
        except BaseException:
            self.forget()
            raise

    def _current(self, transaction: Transaction) -> tuple[str, int, str]:
        found = _row_of(transaction, self.name)
        if found is None:
            raise StoredModelError(f"The store contains no release named '{self.name}'.")
        return found

    def _read_on(self, transaction: Transaction, seen: str, count: int, head: str) -> Answers:
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
            f"Store integrity check failed: release '{self.name}', answer {position} is missing, "
            "was changed or was restored to an older state. Stop answering and compare with a copy."
        )


def _links(added: Answers, *, mark: bool) -> list[tuple[str, float]]:
    """Give what is added to the chain: answers, and before them a mark that they need."""
    return [(MARK, 0.0)] * mark + [(",".join(map(str, key)), answer) for key, answer in added]


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
    raise TypeError(f"A header cannot contain a {type(value).__name__}.")
