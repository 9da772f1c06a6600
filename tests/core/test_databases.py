"""Transactions of several threads: who waits for another process keeps no reader waiting."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sfumato.core.databases import Database, ErrorTexts
from sfumato.exceptions import LedgerError

WORDS = ErrorTexts(
    "shelf", "nothing was changed", "a test", "look first.", LedgerError, LedgerError
)
AHEAD = """
import sys, time
from pathlib import Path
from sfumato.core.waiting import acquire_write_lock
turn = acquire_write_lock(Path(sys.argv[1]), time.monotonic() + 60)
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def shelf(tmp_path: Path) -> Database:
    made = Database(tmp_path / "shelf.db", 60.0, WORDS, keep_open=True)
    made.write(lambda store: store.run("CREATE TABLE books (name TEXT)"), create=True)
    return made


def read(shelf: Database) -> list[tuple[str]]:
    return shelf.read(lambda store: store.run("SELECT name FROM books"))


def test_a_reader_goes_on_while_a_writer_waits_for_another_process(shelf: Database) -> None:
    assert shelf.path is not None
    command = [sys.executable, "-c", AHEAD, str(shelf.path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as ahead:
        assert ahead.stdout is not None
        assert ahead.stdout.readline() == "ready\n"
        write = threading.Thread(
            target=shelf.write,
            args=(lambda store: store.run("INSERT INTO books (name) VALUES (?)", ("one",)),),
        )
        write.start()
        reader = threading.Thread(target=read, args=(shelf,))
        reader.start()
        reader.join(8)  # the writer gives up its place behind others after ten seconds
        assert not reader.is_alive()
        assert write.is_alive()
        assert read(shelf) == []
        ahead.communicate("\n")
        write.join()
    assert read(shelf) == [("one",)]


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
