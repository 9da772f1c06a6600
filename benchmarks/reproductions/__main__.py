"""``python -m benchmarks.reproductions``."""

from benchmarks.reproductions import rebuild

rebuild()
