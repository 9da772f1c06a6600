"""Rows become a sum in one way, wherever they are.

A *statistic* is a public description of what is added up, one term per record on an exact grid.
*Records* are where rows live. ``records.release(statistic, mechanism, receipt)`` is the only way
in which a sum leaves them. Read `grid`, `statistics`, `records`, `persons`, `maps`, `partitions`,
`table_parts`, then `gradients` (descents), `coded`, `dask` and `spark`.
"""

from sfumato.sums.records import ArrayRecords, Records
from sfumato.sums.statistics import SecondMoment, Statistic
