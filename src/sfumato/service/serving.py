"""The processes of a service: the web process, the workers, and one that keeps both alive.

The keeper checks everything that can be wrong at a start, binds the port, imports everything once
and forks its parts, so that a part that has ended is back in a moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import ssl
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from sfumato.exceptions import InvalidInputError
from sfumato.service.config import Settings
from sfumato.service.office import Office
from sfumato.service.web import JsonLines, create_app, forbid_reading
from sfumato.service.workers import Workers, end_with_parent

PARTS = ("web", "workers")
PAUSE = 0.1
SWITCH = 0.0005  # seconds: an answer of a millisecond is not to wait for ten threads' turns
PATIENCE = 10.0  # seconds for a part to end
MAX_ENDS = 5  # of one part in a minute, before the keeper gives up
HEADER_SECONDS, MAX_CONNECTIONS = 15.0, 1000
LOOPBACK = ("127.0.0.1", "::1", "localhost")

log = logging.getLogger("sfumato.service")


def serve_parts(
    settings: Settings,
    parts: Sequence[str] = PARTS,
    *,
    host: str | None = None,
    port: int | None = None,
    ready: Callable[[str], None],
) -> None:
    """Run the parts of a service, and start one again that has ended, until a signal comes."""
    import uvicorn  # noqa: F401 - before the fork

    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    service = settings.config.service
    host, port = host or service.host, service.port if port is None else port
    office = Office(settings)
    office.verify()  # a ledger that has lost charges is not served
    settings.key_for("web")
    problems = office.sync()
    office.store.close()
    if problems:
        raise InvalidInputError(" ".join(problems))
    bound, app = None, None
    if "web" in parts:
        bound, app = _bound(settings, host, port), create_app(settings)
        scheme = "https" if service.certificate else "http"
        ready(f"{scheme}://{host}:{bound.getsockname()[1]}")
    ends: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ends.append(1))
    gc.freeze()  # a collection in a part would copy the pages that it shares
    running = {part: _forked(part, settings, app, bound) for part in parts}
    failures: list[float] = []
    while not ends:
        time.sleep(PAUSE)
        for part, process in running.items():
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended and not ends:
                code = os.waitstatus_to_exitcode(status)
                log.error("the part %s ended with status %s and is started again", part, code)
                failures = [one for one in failures if time.monotonic() - one < 60]
                failures.append(time.monotonic())
                if code > 0 and len(failures) > MAX_ENDS:
                    _ended(each for each in running.values() if each != process)
                    raise InvalidInputError(f"The part {part!r} ends again and again: see the log.")
                time.sleep(PAUSE)
                running[part] = _forked(part, settings, app, bound)
    _ended(running.values())


def _bound(settings: Settings, host: str, port: int) -> socket.socket:
    """Check the address and the certificate, and take the port before anything is promised."""
    service = settings.config.service
    if host not in LOOPBACK and not settings.is_secure:
        raise InvalidInputError(
            f"'{host}' can be reached by others, who would send tokens in the clear: state "
            "'certificate' and 'key', or 'behind_proxy = true' for a proxy that handles HTTPS."
        )
    if service.certificate and service.key:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(
                settings.folder / service.certificate, settings.folder / service.key
            )
        except (OSError, ssl.SSLError) as error:
            raise InvalidInputError(f"The certificate or its key is unusable: {error}.") from None
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


def _forked(part: str, settings: Settings, app: Any, bound: socket.socket | None) -> int:
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
        if part == "workers":
            Workers(settings).run()
        elif bound is not None:
            _answer(settings, app, bound)
        code = 0
    except BaseException:
        log.exception("the part %s failed", part)
    finally:
        os._exit(code)


def _answer(settings: Settings, app: Any, bound: socket.socket) -> None:
    """Run the web process."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Patient(H11Protocol):
        """A connection that is closed if no request comes; half-open ones take no place."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            asyncio.get_running_loop().call_later(HEADER_SECONDS, self._close_if_idle)

        def _close_if_idle(self) -> None:
            if self.cycle is None:
                self.transport.close()

    sys.setswitchinterval(SWITCH)
    service = settings.config.service
    forbid_reading([settings.source(one)[1] for one in settings.config.datasets.values()])
    config = uvicorn.Config(
        app,
        http=Patient,
        ssl_certfile=service.certificate and str(settings.folder / service.certificate),
        ssl_keyfile=service.key and str(settings.folder / service.key),
        proxy_headers=service.behind_proxy,
        access_log=False,  # paths name data sets and people
        server_header=False,
        log_config=None,
        log_level="warning",
        timeout_keep_alive=10,
        limit_concurrency=MAX_CONNECTIONS,
    )
    uvicorn.Server(config).run([bound])
