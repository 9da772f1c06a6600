"""Whether memory will do, asked before a ledger is charged and answered from public numbers."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path

from sfumato.exceptions import NotEnoughMemoryError

NUMBER = 8  # bytes of a double
# Copies of a statistic that exist at once while it is summed, released and taken apart: 6.6 were
# measured for matrices and 4.2 for vectors (tests/test_memory.py).
RELEASED_COPIES = 7
# Bytes that a fit may take whatever its rows are: blocks of rows, and features that are kept so
# that they need not be computed on every pass. Beyond it, a fit takes at most 1.5 times the memory
# of its rows, and what it releases (tests/test_memory.py, benchmarks/bench_memory.py).
WORKING_SET = 2**28
MEMORY_OF_SYSTEM = Path("/proc/meminfo")
PAGES_OF_PROCESS = Path("/proc/self/statm")
GROUP = Path("/sys/fs/cgroup")


def require_memory(n_numbers: float, what: str) -> None:
    """Refuse what needs more memory than is free, before anything is charged."""
    needed, free = NUMBER * n_numbers, free_memory()
    if needed > free:
        raise NotEnoughMemoryError(
            f"{what} needs about {needed / 1e9:,.3g} GB of memory, and {free / 1e9:,.3g} GB is "
            "free. Nothing was charged. Use fewer features, classes or components, or more memory."
        )


def fits_in_memory(n_bytes: float) -> bool:
    """Return whether this much may be kept to save time; it changes no number and no error."""
    return n_bytes <= free_memory() / 2


def free_memory() -> float:
    """Return the bytes that this process may still take: of the system, its group and its limit."""
    free = [float("inf")]
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = MEMORY_OF_SYSTEM.read_text().splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        free.append(1024 * int(line.split()[1]))
    with contextlib.suppress(OSError, ValueError):
        most, used = ((GROUP / name).read_text() for name in ("memory.max", "memory.current"))
        free.append(int(most) - int(used))  # "max", not a number, where there is no limit
    for kind, field in ((resource.RLIMIT_AS, 0), (resource.RLIMIT_DATA, 5)):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            with contextlib.suppress(OSError, ValueError):
                pages = int(PAGES_OF_PROCESS.read_text().split()[field])
                free.append(limit - pages * resource.getpagesize())
    return max(0.0, min(free))
