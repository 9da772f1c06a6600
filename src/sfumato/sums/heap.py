"""Memory of the C library while a part is added up on a worker of Dask.

Dask starts its workers with MALLOC_TRIM_THRESHOLD_=65536, so that memory goes back to the system
at once. Adding up takes and frees the same few megabytes for every block, and with that setting
each of them is mapped and cleared anew: more than half of the time of a pass.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NAME = "MALLOC_TRIM_THRESHOLD_"
TRIM, MAP = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc
PLENTY, DEFAULT_MAP = 2**25, 2**17
_running, _lock = [0], threading.Lock()


@contextmanager
def reused_memory() -> Iterator[None]:
    """Let freed blocks be used again in here, and give all of them back at the end.

    Nothing happens where nobody asked glibc to return memory at once, and on other systems.
    """
    library = _glibc()
    if library is None:
        yield
        return
    with _lock:
        _running[0] += 1
        for option in (TRIM, MAP):
            library.mallopt(option, PLENTY)
    try:
        yield
    finally:
        with _lock:
            _running[0] -= 1
            if not _running[0]:  # no other thread adds up
                library.mallopt(TRIM, int(os.environ[NAME]))
                library.mallopt(MAP, DEFAULT_MAP)
                library.malloc_trim(0)


def _glibc() -> Any:
    if not os.environ.get(NAME, "").isdigit():
        return None
    try:
        library = ctypes.CDLL(None)
    except OSError:
        return None
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
