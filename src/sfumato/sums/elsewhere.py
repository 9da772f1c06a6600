"""Records of tables that are read where they lie, by whoever holds them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from sfumato.sums.records import Records


class RemoteRecords(Records):
    """Records whose exact sums nobody has in one place, such as those of several parties."""

    has_exact_sums: ClassVar[bool] = False
    is_elsewhere: ClassVar[bool] = True  # no table in memory: see `is_out_of_core`

    @property
    @abstractmethod
    def columns(self) -> Sequence[str] | int:
        """Names of the columns of tables, or the number of columns of arrays."""

    @abstractmethod
    def read_by(self, reader: Any, width: int) -> Records:
        """Return the records as a reader makes rows of what lies there.

        Parameters
        ----------
        reader : Reader
            Makes rows and codes of a table, each record by itself.
        width : int
            Numbers of a row that it makes.

        Returns
        -------
        Records
            The rows.
        """


def is_row_dataset(X: object) -> bool:
    """Return whether `X` are records of rows; tables must be read by an estimator first."""
    if isinstance(X, RemoteRecords):
        return isinstance(X.columns, int)
    return isinstance(X, Records)
