"""Write a file so that a reader finds the old one or the new one, never half of one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from sfumato.exceptions import FileNotWrittenError, InvalidInputError, SfumatoError

ASIDE = ".sfumato-{}.part"


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file next to `path`, and rename it to `path` once it is safe on disk.

    If the body raises, the temporary file is removed and `path` is as it was before. A process that
    is killed leaves it behind.
    """
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise InvalidInputError(
            f"'path' must name a file in a folder that exists. Got '{target}' instead."
        )
    aside = target.parent / ASIDE.format(uuid.uuid4().hex)
    try:
        try:
            with aside.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                aside.replace(target)
        except BaseException:
            with suppress(OSError):
                aside.unlink(missing_ok=True)
            raise
    except OSError as error:
        if isinstance(error, SfumatoError):
            raise
        raise _not_written(
            error,
            f"'{path}' could not be written: {{}}. An older file of that name is as it was. Free "
            "some space or choose another folder, and write again.",
        ) from error
    sync_folder(target)


def sync_folder(target: Path) -> None:
    """Let a new name reach the disk too: it is an entry of its folder."""
    try:
        handle = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise _not_written(
            error,
            f"'{target}' was written, but the disk did not confirm it: {{}}. It may be lost in a "
            "power cut; write it again.",
        ) from error


def _not_written(error: OSError, words: str) -> FileNotWrittenError:
    failed = FileNotWrittenError(words.format(error.strerror or str(error) or type(error).__name__))
    failed.errno = error.errno
    return failed
