"""A checksum over every byte of a table, inside of the table: for formats that carry metadata.

Neither Feather nor the end of a Parquet file has checksums of its own, so a flipped bit there could
change cells, types or the guarantee unseen. The tables that Sfumato writes carry the SHA-256 of
their bytes, with the places of the checksum itself filled with zeros. It stands under two names, so
that damage to one of them does not hide it.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Mapping
from pathlib import Path

__all__ = ["BLANKS", "found_in", "holds", "with_checksum"]

_WORD = b"sha256 of this file, these digits as zeros: "
_BLANK = _WORD + b"0" * 64
BLANKS = {b"sfumato-checksum": _BLANK, b"checksum-of-sfumato": _BLANK}  # metadata to be written


def found_in(metadata: Mapping[bytes, bytes] | None) -> set[bytes]:
    """Give the checksums that stand in metadata."""
    return {(metadata or {})[key] for key in BLANKS if key in (metadata or {})}


def with_checksum(content: bytes) -> bytes:
    """Put the checksum into all places that were left blank for it."""
    return content.replace(_BLANK, _WORD + hashlib.sha256(content).hexdigest().encode())


def holds(path: Path, checksum: bytes) -> bool:
    """Tell whether a file is, byte by byte, the one that the checksum was made of."""
    if len(checksum) != len(_BLANK):  # damaged itself
        return False
    digest = hashlib.sha256()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = 0
        while (place := content.find(checksum, start)) >= 0:
            digest.update(memoryview(content)[start:place])
            digest.update(_BLANK)
            start = place + len(checksum)
        digest.update(memoryview(content)[start:])
    return checksum == _WORD + digest.hexdigest().encode()
