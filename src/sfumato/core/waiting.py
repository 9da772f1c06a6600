"""First come, first served: an order among the processes that want to write the same file.

SQLite's own waiting is a lottery in which one process may lose again and again. Here everybody who
comes locks one byte of a file beside the database, at the offset that the clock shows, and waits
until nobody holds an earlier byte. The kernel lets go of a byte when its holder ends, in whatever
way. The order is a courtesy: what excludes other writers is the lock of the database itself, so a
file that cannot be used, or somebody ahead who does not move, costs the order and nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from io import FileIO
from pathlib import Path

SUFFIX = "-queue"
PATIENCE = 10.0  # seconds behind somebody who does not move, stopped by a debugger say
POLLS = (0.001,) * 8 + (0.004,)  # seconds between two looks, the last again and again


class Turn(FileIO):
    """A place in the queue; closing it lets the next one go on."""

    def __del__(self) -> None:  # an interrupt may drop it before anybody could close it
        self.close()


def acquire_write_lock(database: Path, deadline: float) -> Turn | None:
    """Wait for those who came before, at the longest until `deadline` of the monotonic clock."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        mode = database.stat().st_mode & 0o666
        place = os.open(f"{database}{SUFFIX}", flags, mode)
    except OSError:
        return None
    with contextlib.suppress(OSError):  # made by somebody else, who has seen to it
        if os.fstat(place).st_mode & 0o666 != mode:
            os.fchmod(place, mode)
    queue = Turn(place, "r+")
    try:
        ticket = _draw_ticket(queue)
        last = min(deadline, time.monotonic() + PATIENCE)
        looks = 0
        while time.monotonic() < last:
            try:
                fcntl.lockf(queue, fcntl.LOCK_SH | fcntl.LOCK_NB, ticket, 0)
                break  # nobody holds an earlier byte
            except BlockingIOError:
                time.sleep(POLLS[min(looks, len(POLLS) - 1)])
                looks += 1
    except OSError:  # a file system without locks
        queue.close()
        return None
    except BaseException:
        queue.close()
        raise
    return queue


def _draw_ticket(queue: FileIO) -> int:
    while True:
        ticket = time.monotonic_ns()  # one clock for all processes of the machine
        try:
            fcntl.lockf(queue, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, ticket)
        except BlockingIOError:
            continue
        return ticket
