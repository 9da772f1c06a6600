"""Tables that are not in memory: in files, behind a query, or on the machines of a cluster.

`fit` takes them as they are. Whatever holds them becomes a `Partitions`, which applies a task to
each part where it lies; sums travel, rows stay, and the bits of a release do not change.
"""

from sfumato.engines.tables import FileParts, LocalParts, QueryParts
from sfumato.sums.partitions import PartitionedRecords, Partitions

__all__ = [
    "FileParts",
    "LocalParts",
    "PartitionedRecords",
    "Partitions",
    "QueryParts",
]
