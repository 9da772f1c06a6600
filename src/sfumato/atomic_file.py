"""Write a file so that a reader finds the old one or the new one, never half of one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sfumato.exceptions import InvalidInputError

__all__ = ["written_aside"]


@contextmanager
def written_aside(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file beside `path` for writing, and rename it to `path` once it is safe on disk.

    If the body raises, the file beside is removed and `path` is as it was before.
    """
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise InvalidInputError(
            f"'path' must name a file in a folder that exists. Got '{target}' instead."
        )
    aside = target.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with aside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        aside.replace(target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    # The new name is an entry of the folder, and that must reach the disk too.
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
