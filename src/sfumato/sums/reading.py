"""How an estimator reads a batch of a table that lies elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.tables.cells import column_names, columns_of
from sfumato.tables.schema import TableBounds


@dataclass(frozen=True)
class BatchReader:
    """How an estimator reads a batch of a table that lies elsewhere, each record by itself.

    estimator (PrivateEstimator): Unfitted, without a ledger.
    method: Its method that gives rows and codes.
    y, groups: Names of the columns of the target and of IDs.
    """

    estimator: Any
    method: str
    y: str | None
    groups: str | None

    def __call__(self, batch: Any) -> tuple[Any, ...]:
        """Return rows and codes, and IDs where persons are the unit."""
        rows, codes, *_ = self.of(batch)
        codes = np.zeros(len(rows), dtype=np.intp) if codes is None else codes
        ids = () if self.estimator.person_unit is None else (self.ids_of(batch),)
        return (rows, codes, *ids)

    def of(self, batch: Any) -> tuple[Any, ...]:
        """Return rows, codes and public facts."""
        found: tuple[Any, ...] = getattr(self.estimator, self.method)(*self._divided(batch))
        return found

    def at_party(self, batch: Any) -> Any:
        """Return what a party holds as it is read: labels that no bounds list are left out."""
        labelled = self.method.startswith("_labelled")
        if isinstance(batch, tuple) and labelled and self.estimator.array_bounds.labels is None:
            return batch[0], None, None
        return batch

    def ids_of(self, batch: Any) -> Any:
        """Return the IDs of persons."""
        if isinstance(batch, tuple):
            return self.estimator._groups(batch[0], batch[2])
        if isinstance(self.estimator.bounds, TableBounds) or self.groups is None:
            return self.estimator._groups(batch, self.groups)
        return columns_of(batch, [self.groups])[self.groups]

    def _divided(self, batch: Any) -> tuple[Any, Any]:
        if isinstance(batch, tuple):
            return batch[0], batch[1]
        if isinstance(self.estimator.bounds, TableBounds):
            return batch, self.estimator._target(batch, self.y)
        left_out = [name for name in (self.y, self.groups) if name is not None]
        names = [name for name in column_names(batch) if name not in left_out]
        target = None if self.y is None else columns_of(batch, [self.y])[self.y]
        return batch.select(names) if hasattr(batch, "select") else batch[names], target
