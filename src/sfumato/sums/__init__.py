"""Rows become a sum in one way, wherever they are.

A *statistic* is a public description of what is added up, one term per record on an exact grid.
*Records* are where rows live. ``records.release(statistic, mechanism, receipt)`` is the only way
in which a sum leaves them.
"""

from sfumato.sums.batches import BatchRecords
from sfumato.sums.counts import CountTables
from sfumato.sums.records import ArrayRecords, Records
from sfumato.sums.statistics import (
    ClassCounts,
    ClassMoments,
    MeanAndSquares,
    SecondMoment,
    Statistic,
)
