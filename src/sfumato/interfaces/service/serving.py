"""The processes of a service: the web process, the workers, and one that keeps both alive."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato.interfaces.service.settings import Settings, forbid_reading
from sfumato.interfaces.service.workers import Workers, end_with_parent

__all__ = ["PARTS", "first_link", "main", "serve_parts"]

PARTS = ("web", "workers")
PAUSE = 0.2


def first_link(settings: Settings, address: str) -> str | None:
    """Give the one-time link of a first start, or None where people are known.

    Parameters
    ----------
    settings : Settings
        Of the service.
    address : str
        Where the pages are.

    Returns
    -------
    str or None
        The link, good for an hour and for one use.
    """
    from sfumato.interfaces.service.office import Office

    code = Office(settings).first_officer()
    return None if code is None else f"{address}/sign-in#{code}"


def serve_parts(settings: Settings, options: dict[str, Any], parts: Sequence[str] = PARTS) -> None:
    """Run the parts of a service, and start one again that has ended, until a signal comes.

    Parameters
    ----------
    settings : Settings
        Of the service.
    options : dict
        Host, port and TLS files of the web process.
    parts : sequence of str
        "web", "workers".
    """
    ends: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ends.append(1))
    text = json.dumps({"settings": settings.to_arguments(), "options": options})
    running = {part: _started(part, text) for part in parts}
    while not ends:
        for part, process in running.items():
            if process.poll() is not None:
                time.sleep(PAUSE)
                running[part] = _started(part, text)
        time.sleep(PAUSE)
    for process in running.values():
        process.terminate()
    for process in running.values():
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()


def _started(part: str, text: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "sfumato.interfaces.service.serving", part, str(os.getpid())]
    process = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603 - our own module
    assert process.stdin is not None  # noqa: S101 - piped
    process.stdin.write(text.encode())  # by the pipe: a URL may hold a password
    process.stdin.close()
    return process


def main(part: str, parent: int) -> None:
    """Be one part of a service; its settings come by standard input."""
    end_with_parent(parent)
    given = json.loads(sys.stdin.read())
    settings = Settings.from_arguments(given["settings"])
    logging.basicConfig(format="%(asctime)s %(name)s %(message)s", level=logging.INFO)
    if part == "workers":
        Workers(settings).run()
    else:
        _serve_web(settings, given["options"])


def _serve_web(settings: Settings, options: dict[str, Any]) -> None:
    import uvicorn

    from sfumato.interfaces.service.web import create_app

    app = create_app(settings)
    forbid_reading(Path(settings.data))
    uvicorn.run(
        app,
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


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
