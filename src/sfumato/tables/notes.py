"""The note beside a table of text, which cannot carry its guarantee itself; with a checksum."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfumato.exceptions import InvalidInputError

CHECKSUM = "sha256 of the rest"


def metadata_beside(path: str | os.PathLike[str]) -> Path:
    """Name the file that carries the guarantee of a table of text."""
    return Path(path).with_name(Path(path).name + ".guarantee.json")


def note_of(metadata: Mapping[str, Any]) -> bytes:
    """Write a note."""
    plain = {name: value for name, value in metadata.items() if name != CHECKSUM}
    return (json.dumps({**plain, CHECKSUM: _checksum(plain)}, indent=2) + "\n").encode()


def read_note(path: Path) -> dict[str, Any]:
    """Read a note; one that was changed would promise something else."""
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidInputError(f"'{path}' is no note of a guarantee, or is damaged.")
    if found.pop(CHECKSUM, None) != _checksum(found):
        raise InvalidInputError(f"The file '{path}' is damaged: its checksum does not match.")
    return dict(found)


def _checksum(plain: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
