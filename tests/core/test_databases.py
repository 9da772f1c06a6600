"""Transactions of several threads."""

import threading
from pathlib import Path

import pytest

from sfumato.core.databases import Database, ErrorTexts
from sfumato.exceptions import LedgerError

WORDS = ErrorTexts(
    "shelf", "nothing was changed", "a test", "look first.", LedgerError, LedgerError
)


@pytest.fixture
def shelf(tmp_path: Path) -> Database:
    made = Database(tmp_path / "shelf.db", 60.0, WORDS, keep_open=True)
    made.write(lambda store: store.run("CREATE TABLE books (name TEXT)"), create=True)
    return made


def read(shelf: Database) -> list[tuple[str]]:
    return shelf.read(lambda store: store.run("SELECT name FROM books"))


def test_writers_of_one_process_take_turns(shelf: Database) -> None:
    def add(name: str) -> None:
        for _ in range(10):
            shelf.write(lambda store: store.run("INSERT INTO books (name) VALUES (?)", (name,)))

    threads = [threading.Thread(target=add, args=(str(place),)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read(shelf)) == 40
