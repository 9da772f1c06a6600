"""Totals over parties by their law: one table, with the noise that the total of parties has.

The noisy total of P parties is the exact sum over all rows with Gaussian noise of P times the
variance (trust "noisy"), or of P / (P - dropouts - colluding) times it (trust "secure"): that masks
and shares leave just this is what `tests/federated` and the proof sheets "federated-sums" and
"noise-in-shares" say. A benchmark of accuracy may use it where hundreds of sums among a hundred
parties would take hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np

from sfumato.ledger.receipt import Receipt, prepay
from sfumato.sums.maps import RowMap
from sfumato.sums.records import ArrayRecords, Block, Records, RemoteRecords
from sfumato.sums.statistics import Statistic


def times_the_variance(trust: str, n_parties: int, colluding: int = 1) -> float:
    """Return the variance of the total by that of one release."""
    if trust == "central":
        return 1.0
    return n_parties if trust == "noisy" else n_parties / (n_parties - colluding)


class TotalsByLaw(RemoteRecords):
    """Records in one place that release sums with more noise, as several parties would."""

    def __init__(self, records: Records, times: float) -> None:
        super().__init__(records.width, records.relation, records.public_rows)
        self._records, self._times = records, times

    @classmethod
    def of(cls, rows: Any, codes: Any, times: float) -> Self:
        """Return the records of arrays."""
        return cls(ArrayRecords(rows, np.asarray(codes, np.intp), relation="replace_one"), times)

    def release(self, statistic: Statistic, mechanism: Any, receipt: Receipt) -> Any:
        """Release a sum with the noise of the total."""
        receipt.charge(mechanism.event())
        more = replace(mechanism, noise_multiplier=mechanism.noise_multiplier * self._times**0.5)
        return self._records.release(statistic, more, prepay(None, more.event()))

    @property
    def columns(self) -> int:
        """Numbers of a row."""
        return self.width

    def read_by(self, reader: Any, width: int) -> Self:  # noqa: ARG002 - rows are encoded
        """Return the records as they are."""
        return self

    def variance_of(self, mechanism: Any) -> float:
        """Variance of the noise of a total."""
        return float(mechanism.variance()) * self._times

    def mapped(self, row_map: RowMap) -> Records:
        """Map rows."""
        return type(self)(self._records.mapped(row_map), self._times)

    def cache(self, *, in_singles: bool = False) -> Records:
        """Keep mapped rows."""
        return type(self)(self._records.cache(in_singles=in_singles), self._times)

    def _blocks(self) -> Iterator[Block]:
        yield from self._records._blocks()
