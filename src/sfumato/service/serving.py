"""The processes of a service: the web process, the workers, and one that keeps both alive.

The keeper imports everything once and forks its parts, so that a part that has ended is back in a
moment.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato.service.office import ServiceApi
from sfumato.service.settings import Settings, forbid_reading
from sfumato.service.web import create_app
from sfumato.service.workers import Workers, end_with_parent

PARTS = ("web", "workers")
PAUSE = 0.1
SWITCH = 0.0005  # seconds: an answer of a millisecond is not to wait for ten threads' turns
M_ARENA_MAX = -8  # of malloc.h
PATIENCE = 10.0  # seconds for a part to end


def first_link(settings: Settings, address: str) -> str | None:
    """Return the one-time link of a first start, or None where people are known."""
    code = ServiceApi(settings).first_officer()
    return None if code is None else f"{address}/sign-in#{code}"


def serve_parts(settings: Settings, options: dict[str, Any], parts: Sequence[str] = PARTS) -> None:
    """Run the parts of a service, and start one again that has ended, until a signal comes."""
    import uvicorn  # noqa: F401 - before the fork

    if "web" in parts:  # made once: a child that is forked again answers in a moment
        options = {**options, "app": create_app(settings)}
    ends: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ends.append(1))
    running = {part: _forked(part, settings, options) for part in parts}
    while not ends:
        time.sleep(PAUSE)
        for part, process in running.items():
            if os.waitpid(process, os.WNOHANG)[0] and not ends:
                time.sleep(PAUSE)
                running[part] = _forked(part, settings, options)
    _ended(running.values())


def _ended(processes: Any) -> None:
    """End the parts, those that do not listen by force."""
    left = set(processes)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while left:
        for process in list(left):
            with contextlib.suppress(ChildProcessError):
                if not os.waitpid(process, os.WNOHANG)[0]:
                    continue
            left.remove(process)
        if left and time.monotonic() > deadline:
            for process in left:
                os.kill(process, signal.SIGKILL)
        time.sleep(PAUSE if left else 0)


def _forked(part: str, settings: Settings, options: dict[str, Any]) -> int:
    import uvicorn

    parent = os.getpid()
    with warnings.catch_warnings():  # this process has one thread of Python's own
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        (settings.state / f"{part}.pid").write_text(str(child))
        return child
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        end_with_parent(parent)
        logging.basicConfig(format="%(asctime)s %(name)s %(message)s", level=logging.INFO)
        logging.getLogger("httpx").setLevel(logging.WARNING)
        if part == "workers":
            Workers(settings).run()
        else:
            sys.setswitchinterval(SWITCH)
            with contextlib.suppress(OSError, AttributeError):  # of glibc
                # Threads take memory from two places: each would keep the most it ever needed.
                ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)
            forbid_reading(Path(settings.data))
            uvicorn.run(
                options["app"],
                host=options["host"],
                port=options["port"],
                ssl_certfile=options.get("certificate"),
                ssl_keyfile=options.get("key"),
                access_log=False,  # paths name data sets and people
                server_header=False,
                log_level="warning",
                timeout_keep_alive=10,
                limit_concurrency=200,
            )
        code = 0
    finally:
        os._exit(code)
