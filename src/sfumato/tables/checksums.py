"""A checksum over every byte of a table, inside of the table: for formats that carry metadata.

Neither Feather nor the end of a Parquet file has checksums of its own, so a flipped bit there could
change cells, types or the guarantee unseen. The tables that Sfumato writes carry the SHA-256 of
their bytes, with the places of the checksum itself filled with zeros. It stands under two names, so
that damage to one of them does not hide it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

BLOCK_BYTES = 2**22
_WORD = b"sha256 of this file, these digits as zeros: "
_BLANK = _WORD + b"0" * 64
BLANKS = {b"sfumato-checksum": _BLANK, b"checksum-of-sfumato": _BLANK}  # metadata to be written


def found_in(metadata: Mapping[bytes, bytes] | None) -> set[bytes]:
    """Return the checksums that stand in metadata."""
    return {(metadata or {})[key] for key in BLANKS if key in (metadata or {})}


def with_checksum(content: bytes) -> bytes:
    """Put the checksum into all places that were left blank for it."""
    return content.replace(_BLANK, _WORD + hashlib.sha256(content).hexdigest().encode())


def holds(path: Path, checksum: bytes) -> bool:
    """Return whether a file is, byte by byte, the one that the checksum was made of."""
    if len(checksum) != len(_BLANK):  # damaged itself
        return False
    digest, seen = hashlib.sha256(), b""
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            seen = (seen + block).replace(checksum, _BLANK)
            sure = max(0, len(seen) - len(checksum) + 1)  # beyond it, one may have begun
            digest.update(seen[:sure])
            seen = seen[sure:]
    digest.update(seen)
    return checksum == _WORD + digest.hexdigest().encode()
