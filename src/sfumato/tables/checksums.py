"""A checksum over every byte of a table, inside of the table: for formats that carry metadata.

Neither Feather nor the end of a Parquet file has checksums of its own, so a flipped bit there could
change cells, types or the guarantee unseen. The tables that Sfumato writes carry the SHA-256 of
their bytes, with the place of the checksum itself filled with zeros.
"""

from __future__ import annotations

import hashlib
import mmap
from pathlib import Path

__all__ = ["BLANK", "KEY", "holds", "with_checksum"]

KEY = b"sfumato-checksum"
_WORD = b"sha256 of this file, these digits as zeros: "
BLANK = _WORD + b"0" * 64  # to be written as metadata under `KEY`


def with_checksum(content: bytes) -> bytes:
    """Put the checksum into all places that were left blank for it."""
    return content.replace(BLANK, _WORD + hashlib.sha256(content).hexdigest().encode())


def holds(path: Path, checksum: bytes) -> bool:
    """Tell whether a file is, byte by byte, the one that the checksum was made of."""
    if len(checksum) != len(BLANK):  # damaged itself
        return False
    digest = hashlib.sha256()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = 0
        while (place := content.find(checksum, start)) >= 0:
            digest.update(memoryview(content)[start:place])
            digest.update(BLANK)
            start = place + len(checksum)
        digest.update(memoryview(content)[start:])
    return checksum == _WORD + digest.hexdigest().encode()
