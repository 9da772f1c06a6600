"""The web process: it answers people and programs, and cannot read rows."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import os
import secrets
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from anyio import CapacityLimiter
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.sessions import SessionMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.staticfiles import StaticFiles

from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    LedgerTamperedError,
    SfumatoError,
    UnsupportedEventError,
)
from sfumato.service import routes
from sfumato.service.access import Limiter, admit
from sfumato.service.config import Settings
from sfumato.service.office import Office
from sfumato.service.pages import page
from sfumato.service.store import BusyError, NotFoundError

log = logging.getLogger("sfumato.service")
request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="")

ABOUT = """One privacy budget that officers, analysts and auditors share.

Send your token in the header Authorization, after the word Bearer. Errors have a word, "error", and
a sentence, "message"; they never depend on rows. A submit with an Idempotency-Key may be repeated.
"""
MAX_BYTES, BODY_SECONDS, SESSION_SECONDS = 2**20, 20, 12 * 3600
STALE, MAX_QUEUE_AGE = 15.0, 3600.0  # of a healthy service
WRITERS = 4  # requests that write at once; the others' threads are for readers
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# The first class that fits gives the status and the word.
TABLE: list[tuple[type[Exception] | tuple[type[Exception], ...], int, str]] = [
    (NotFoundError, 404, "not found"),
    (BudgetExceededError, 409, "budget exceeded"),
    (UnsupportedEventError, 409, "budget cannot hold this"),
    (BusyError, 429, "too many requests"),
    (LedgerTamperedError, 500, "ledger integrity check failed"),
    ((InvalidInputError, RequestValidationError, ValidationError), 422, "invalid request"),
    (HTTPException, 0, "refused"),
    (Exception, 500, "fault"),
]


def create_app(settings: Settings) -> FastAPI:
    """Make the app of a service; nothing is done before."""
    import sfumato

    app = FastAPI(
        title="Sfumato service",
        version=sfumato.__version__,
        description=ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.state.office = office = Office(settings)
    app.state.limiter = Limiter(settings.config.service.requests_per_second)
    app.state.plans, app.state.writers = {}, CapacityLimiter(WRITERS)
    registry = CollectorRegistry()
    lasted = Histogram("sfumato_request_seconds", "Answers", ["status"], registry=registry)
    gauge = Gauge("sfumato_service", "State of the service", ["what"], registry=registry)

    @app.middleware("http")
    async def guarded(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Refuse what is too large, too slow, or from another site, before it is answered."""
        start, mark = time.perf_counter(), secrets.token_hex(8)
        request_id.set(mark)
        try:
            await _check(request)
            response = await call_next(request)
        except HTTPException as error:
            response = await refused(request, error)
        lasted.labels(str(response.status_code)).observe(time.perf_counter() - start)
        if request.url.path.startswith("/assets/"):
            response.headers["Cache-Control"] = "public, max-age=3600"
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers["X-Request-ID"] = mark
        if settings.is_secure:
            response.headers["Strict-Transport-Security"] = "max-age=31536000"
        return response

    place = sha256(str(settings.state).encode()).hexdigest()[:8]
    app.add_middleware(
        SessionMiddleware,
        secret_key=settings.secret(),
        # Cookies know no ports: two studios of one person would share a name.
        session_cookie="__Host-sfumato" if settings.is_secure else f"sfumato-{place}",
        max_age=SESSION_SECONDS,
        same_site="lax" if settings.is_studio else "strict",
        https_only=settings.is_secure,
    )
    if settings.is_studio:  # no other name leads here, whatever a name server says
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    for kind in (SfumatoError, RequestValidationError, ValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, refused)
    app.include_router(routes.api)
    app.include_router(routes.pages)

    @app.get("/api/health", tags=["service"])
    def health(request: Request) -> Response:
        """Whether store, ledger, workers, queue and disk are well."""
        admit(request)
        found = checkup(office)
        is_well = all(found.values())
        told = {"status": "ok" if is_well else "unwell", **found}
        return JSONResponse(told, 200 if is_well else 503)

    @app.get(
        "/metrics",
        include_in_schema=False,
        dependencies=[Depends(routes.allowed("officer", "auditor", writes=False))],
    )
    def metrics() -> Response:
        """Return figures for Prometheus, to a token of an officer or auditor."""
        counts, oldest = office.store.counts()
        figures = {f"jobs {state}": float(number) for state, number in counts.items()}
        figures["queue seconds"] = _age(oldest)
        figures["disk free bytes"] = float(shutil.disk_usage(settings.state).free)
        figures |= {f"{name} ok": float(is_well) for name, is_well in checkup(office).items()}
        gauge.clear()
        for what, value in figures.items():
            gauge.labels(what).set(value)
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

    app.mount("/assets", StaticFiles(directory=Path(__file__).parent / "assets"))
    return app


async def _check(request: Request) -> None:
    """Refuse a body that is too large or too slow, and a form of another site."""
    declared = request.headers.get("content-length", "0")
    if (
        not declared.isdecimal()
        or int(declared) > MAX_BYTES
        or "transfer-encoding" in request.headers
    ):
        raise HTTPException(413, "The body is too large.")
    if any(ord(one) < 32 for one in unquote(f"{request.url.path}{request.url.query}")):
        raise HTTPException(404, "There is no such page.")
    if request.method in ("GET", "HEAD", "OPTIONS"):
        return
    try:
        await asyncio.wait_for(request.body(), BODY_SECONDS)
    except TimeoutError:
        raise HTTPException(408, "The body of the request did not arrive in time.") from None
    if not request.headers.get("authorization", "").lower().startswith("bearer "):
        site = request.headers.get("sec-fetch-site")
        origin = request.headers.get("origin", "").split("://")[-1]
        if site != "same-origin" and (site is not None or origin != request.headers.get("host")):
            raise HTTPException(403, "The form is not from this site.")


async def refused(request: Request, error: Exception) -> Response:
    """Return an error as JSON to programs and as a page to people."""
    status, word = next(
        ((s, w) for k, s, w in TABLE if isinstance(error, k)), (503, "not available")
    )
    message = told(error)
    if isinstance(error, HTTPException):
        status, message = error.status_code, str(error.detail)
    elif isinstance(error, SfumatoError) and word == "fault":
        status, word, message = 503, "not available", "The store does not answer. Try again."
        log.error("the store does not answer: %s", error)
    elif word == "fault":
        log.error("fault at %s", request.scope.get("path"), exc_info=error)
        message = "The service failed. The log on the server says why."
    wants_json = "application/json" in request.headers.get("accept", "")
    shown: Response
    if request.url.path.startswith("/api/") or wants_json:
        shown = JSONResponse({"error": word, "message": message}, status)
    elif status == 401 and request.url.path == "/sign-in":
        shown = page(request, "sign_in.html", status=401, problem=message)
    elif status == 401:
        shown = RedirectResponse("/sign-in", 303)
    else:
        shown = page(request, "error.html", status=status, word=word, message=message)
    shown.headers.update(HEADERS)  # a fault does not pass the middleware
    return shown


def told(error: Exception) -> str:
    """Return what is wrong with a form or a body."""
    if not hasattr(error, "errors"):  # of pydantic
        return str(error)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    words = first["msg"].removeprefix("Value error, ")
    return f"{place}: {words}." if place else f"{words}."


def checkup(office: Office) -> dict[str, bool]:
    """Look at store, ledger, workers, the age of the queue and the disk."""
    settings, found = office.settings, dict.fromkeys(("store", "ledger", "queue"), False)
    try:
        _, oldest = office.store.counts()
        found |= {"store": True, "queue": _age(oldest) < MAX_QUEUE_AGE}
        found["ledger"] = not office.budgets() or bool(office.ledger.datasets())
    except SfumatoError:
        pass
    alive = settings.state / "workers.alive"
    found["workers"] = alive.exists() and time.time() - alive.stat().st_mtime < STALE
    found["disk"] = settings.has_space
    return found


def _age(oldest: str | None) -> float:
    if oldest is None:
        return 0.0
    return (datetime.now(UTC) - datetime.fromisoformat(oldest)).total_seconds()


def forbid_reading(settings: Settings) -> None:
    """Refuse, in this process and for good, that Python opens a file that holds rows."""
    forbidden: set[str] = set()

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | bytes):
            declared = settings.in_force.datasets.values()  # also by a file that was read again
            forbidden.update(str(settings.source(one)[1]) for one in declared)
            if os.path.realpath(os.fsdecode(arguments[0])) in forbidden:
                raise PermissionError("The web process does not read rows.")

    sys.addaudithook(refuse)


class JsonLines(logging.Formatter):
    """Log lines as JSON, with the request to which they belong."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "message": record.getMessage(),
        }
        if request_id.get():
            line["request"] = request_id.get()
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)
