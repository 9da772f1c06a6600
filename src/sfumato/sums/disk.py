"""Rows on disk where memory is short: a file without a name, gone with the process."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import IO, Self

import numpy as np

from sfumato.sums.singles import SingleRows

__all__ = ["RowsOnDisk"]


class RowsOnDisk:
    """Blocks of rows in single precision, in a file that has no name in any folder.

    The system frees it when the last block is let go, also after a crash: no row survives a fit.
    It lies in the folder for temporary files (``TMPDIR``), which must hold 4 bytes per number.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:  # blocks stay readable: each has mapped its part
            self._file.close()

    def held(self, block: SingleRows) -> SingleRows:
        """Write a block and give it with its rows read from the file.

        Parameters
        ----------
        block : SingleRows
            Rows in memory.

        Returns
        -------
        SingleRows
            The same numbers.

        Raises
        ------
        OSError
            If the disk is full.
        """
        if not block.rows.size:
            return block
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        start = self._file.seek(0, 2)
        self._file.write(np.ascontiguousarray(block.rows).data)
        self._file.flush()
        rows = np.memmap(self._file, np.float32, "r", start, block.rows.shape)
        return replace(block, rows=rows)
