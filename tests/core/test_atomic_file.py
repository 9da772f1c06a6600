"""A reader finds the old file or the new one, and a writer that fails leaves nothing behind."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sfumato.core.atomic_file import ASIDE, atomic_write
from sfumato.exceptions import FileNotWrittenError

WRITER = """
import sys
from sfumato.core.atomic_file import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write(b"new")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
"""


def asides(folder: Path) -> list[Path]:
    return list(folder.glob(ASIDE.format("*")))


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def writer(path: Path) -> subprocess.Popen[bytes]:
    """Start a process that is in the middle of writing."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    return process


def write(path: Path, data: bytes, then: Callable[[], None] = lambda: None) -> None:
    with atomic_write(path) as file:
        file.write(data)
        then()


def test_killed_writers_leave_nothing_after_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "model"
    write(path, b"old")
    process = writer(path)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert path.read_bytes() == b"old"
    assert len(asides(tmp_path)) == 1
    write(path, b"new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == {"model"}


def test_a_living_writer_is_not_disturbed(tmp_path: Path) -> None:
    path = tmp_path / "model"
    process = writer(path)
    write(path, b"other")
    write(tmp_path / "neighbour", b"other")
    assert len(asides(tmp_path)) == 1
    process.communicate(b"")  # goes on
    assert process.returncode == 0
    assert path.read_bytes() == b"new"
    assert asides(tmp_path) == []


def test_a_file_taken_for_abandoned_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    real, removed = fcntl.flock, []

    def late(file, how):
        if how == fcntl.LOCK_EX and not removed:
            removed.extend(asides(tmp_path))
            removed[0].unlink()
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    write(tmp_path / "model", b"new")
    assert removed
    assert (tmp_path / "model").read_bytes() == b"new"
    assert names(tmp_path) == {"model"}


@pytest.mark.parametrize("step", ["open", "flock", "write", "fsync", "replace", "folder"])
def test_every_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "model"
    write(path, b"old")

    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    places = {
        "open": (Path, "open"),
        "flock": (fcntl, "flock"),
        "fsync": (os, "fsync"),
        "replace": (Path, "replace"),
        "folder": (os, "open"),
    }
    if step in places:
        monkeypatch.setattr(*places[step], fail)
    said = "was written, but" if step == "folder" else "could not be written"
    with pytest.raises(FileNotWrittenError, match=f"{said}.*No space left") as caught:
        write(path, b"new", fail if step == "write" else lambda: None)
    monkeypatch.undo()
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == (b"new" if step == "folder" else b"old")  # renamed, not yet synced
    assert names(tmp_path) == {"model"}
