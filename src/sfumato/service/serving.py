"""The processes of a service: the workers' is the first, and starts the web process.

Everything that can be wrong at a start is checked, and the port is taken, before anything is
promised. `--part` runs one of the two alone, where two users or containers keep rows from the web.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.service.config import Settings
from sfumato.service.office import Office
from sfumato.service.web import JsonLines, create_app, forbid_reading
from sfumato.service.workers import Workers

SWITCH = 0.0005  # seconds: an answer of a millisecond is not to wait for ten threads' turns
HEADER_SECONDS, MAX_CONNECTIONS = 15.0, 1000
LOOPBACK = ("127.0.0.1", "::1", "localhost")

log = logging.getLogger("sfumato.service")


def serve_parts(settings: Settings, ready: Callable[[str], None], part: str = "") -> None:
    """Run a service, or one part of it, until a signal comes."""
    import uvicorn  # noqa: F401 - before the fork

    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    office = Office(settings)
    office.verify()  # a ledger that has lost charges is not served
    settings.key_for("web")
    problems = office.sync()
    office.store.close()
    if problems:
        raise InvalidInputError(" ".join(problems))
    if part == "workers":
        Workers(settings).run()
        return
    bound, app = _bound(settings), create_app(settings)
    ready(f"http://{settings.config.service.host}:{bound.getsockname()[1]}")
    answer = partial(_answer, settings, app, bound)
    if part == "web":
        answer()
        return
    gc.freeze()  # a collection in the web process would copy the pages that it shares
    Workers(settings).run(answer)


def _bound(settings: Settings) -> socket.socket:
    """Check the address, and take the port before anything is promised."""
    host, port = settings.config.service.host, settings.config.service.port
    if host not in LOOPBACK and not settings.is_secure:
        raise InvalidInputError(
            f"'{host}' can be reached by others, who would send tokens in the clear: put a proxy "
            "in front that handles HTTPS, and state 'behind_proxy = true'."
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By its protocol asyncio knows TCP, and does not hold an answer's body back for 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(1024)
    except OSError as error:
        raise InvalidInputError(f"Cannot listen on {host}:{port}: {error.strerror}.") from None
    return bound


def _answer(settings: Settings, app: Any, bound: socket.socket) -> None:
    """Run the web process."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Patient(H11Protocol):
        """A connection that is closed if no request comes; half-open ones take no place."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            asyncio.get_running_loop().call_later(HEADER_SECONDS, self._look, None)

        def _look(self, last: Any) -> None:
            if self.cycle is last and (last is None or last.response_complete):
                self.transport.close()
            if not self.transport.is_closing():
                asyncio.get_running_loop().call_later(HEADER_SECONDS, self._look, self.cycle)

    sys.setswitchinterval(SWITCH)
    forbid_reading(settings)
    config = uvicorn.Config(
        app,
        http=Patient,
        ws="none",
        proxy_headers=settings.is_secure,
        access_log=False,  # paths name data sets and people
        server_header=False,
        log_config=None,
        log_level="warning",
        timeout_keep_alive=10,
        limit_concurrency=MAX_CONNECTIONS,
    )
    uvicorn.Server(config).run([bound])
