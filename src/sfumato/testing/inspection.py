"""Looking inside fitted objects and saved files."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.bounds import Bounds
from sfumato.kernels.arrays import is_foreign, to_numpy

__all__ = ["equal_to_the_bit", "file_content", "holds_a_row", "leaves"]


def leaves(value: Any, path: str = "model") -> Iterator[tuple[str, Any]]:
    """Walk everything that an object holds."""
    if isinstance(value, np.ndarray):
        yield path, value
    elif is_foreign(value):
        yield path, to_numpy(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from leaves(item, f"{path}[{i}]")
    elif hasattr(value, "__dict__") and not isinstance(value, type | Bounds):
        for name, item in sorted(vars(value).items()):
            yield from leaves(item, f"{path}.{name}")
    else:
        yield path, value


def equal_to_the_bit(a: Any, b: Any) -> bool:
    """Compare two leaves; arrays by their bytes."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.tobytes() == b.tobytes()
    return bool(a is b or a == b)


def holds_a_row(value: Any, rows: np.ndarray) -> bool:
    """Whether a row stands in an array, scaled or not."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return False
    if value.shape[-1:] != rows.shape[1:]:
        return False
    found = _directions(value.reshape(-1, rows.shape[1]))
    return bool(np.any(found @ _directions(rows).T > 1 - 1e-14))


def _directions(rows: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, np.inf))


def file_content(path: Path) -> bytes:
    """Give all members of a saved model, unpacked, one after the other."""
    with zipfile.ZipFile(path) as archive:
        return b"".join(archive.read(name) for name in archive.namelist())
