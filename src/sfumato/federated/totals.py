"""Totals that were released, kept by a coordinator, so that a fit goes on where it was interrupted.

A secure sum is made once: its parties sign one list and reveal once. A coordinator that is killed
after some sums would have to begin a new task, which costs its budget again. So each total is
written down as soon as it is known, under what was asked; a fit of the same name takes it from
there. A total is a release: whoever reads the folder learns what the model may tell.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import FederationError

Found = tuple[NDArray[np.float64], dict[str, Any]]


class TotalsFolder:
    """A folder of released totals.

    folder: Made if it does not exist.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def find(self, asked: Sequence[Any], shape: tuple[int, ...]) -> Found | None:
        """Return the total that was released for exactly this, and what was written about it."""
        path = self._path(asked)
        if not path.exists():
            return None
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as members:
                total, facts = members["total"], json.loads(members["facts"].tobytes())
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            total, facts = np.empty(0), {}
        if total.shape != shape or not np.isfinite(total).all():
            raise FederationError(
                f"The stored total '{path}' is damaged. Remove it only if its sum can be made "
                "again; otherwise begin a task under another name."
            )
        return np.asarray(total, dtype=np.float64), dict(facts)

    def keep(self, asked: Sequence[Any], total: NDArray[np.float64], facts: dict[str, Any]) -> None:
        """Write a total down."""
        file = io.BytesIO()
        np.savez(file, total=total, facts=np.frombuffer(json.dumps(facts).encode(), np.uint8))
        with atomic_write(self._path(asked)) as stored:
            stored.write(file.getvalue())

    def _path(self, asked: Sequence[Any]) -> Path:
        text = json.dumps(list(asked), sort_keys=True, allow_nan=False).encode()
        return self.folder / f"{hashlib.sha256(text).hexdigest()[:32]}.npz"
