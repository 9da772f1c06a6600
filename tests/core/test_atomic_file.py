"""A reader finds the old file or the new one, and a writer that fails leaves nothing behind."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sfumato.core.atomic_file import atomic_write
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


def names(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def write(path: Path, data: bytes, then: Callable[[], None] = lambda: None) -> None:
    with atomic_write(path) as file:
        file.write(data)
        then()


def test_a_writer_that_is_killed_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model"
    write(path, b"old")
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        process.kill()
    assert path.read_bytes() == b"old"
    write(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("step", ["open", "write", "fsync", "replace", "folder"])
def test_every_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "model"
    write(path, b"old")

    def fail(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    places = {
        "open": (Path, "open"),
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
