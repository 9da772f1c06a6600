"""Rows on disk where memory is short: a file without a name, gone with the process."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import IO, Any, Self

import numpy as np

from sfumato.memory import fits_in_memory
from sfumato.sums.singles import SingleRows

__all__ = ["RowsOnDisk"]


class RowsOnDisk:
    """Blocks of rows in single precision, in a file that has no name in any folder.

    The system frees it when the last block is let go, also after a crash: no row survives a fit.
    It lies in the folder for temporary files (``TMPDIR``), which must hold 4 bytes per number.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._n_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:  # blocks stay readable: each has mapped its part
            self._file.close()

    def held(self, block: Any) -> Any:
        """Give a block as it is, or with its rows in the file where memory is short.

        block (SingleRows or array): Rows in memory; those on another device stay there.
        Returns (SingleRows or array): The same numbers.
        Raises OSError: If the disk is full.
        """
        if not isinstance(block, SingleRows):
            return block
        self._n_bytes += block.rows.nbytes
        if not block.rows.size or fits_in_memory(self._n_bytes):
            return block
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        start = self._file.seek(0, 2)
        self._file.write(np.ascontiguousarray(block.rows).data)
        self._file.flush()
        rows = np.memmap(self._file, np.float32, "r", start, block.rows.shape)
        return replace(block, rows=rows)
