"""The web process: it answers people and programs, and cannot read rows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    LedgerTamperedError,
    SfumatoError,
    UnsupportedEventError,
)
from sfumato.service import api
from sfumato.service.access import ForbiddenError, Limiter, UnknownPersonError
from sfumato.service.office import ServiceApi
from sfumato.service.settings import Settings
from sfumato.service.store import NotFoundError
from sfumato.service.studio import pages
from sfumato.service.studio.sessions import page, told

log = logging.getLogger("sfumato.service")

ABOUT = """One privacy budget that officers, analysts and auditors share.

Send your token in the header Authorization, after the word Bearer. Errors have a word, "error", and
a sentence, "message"; they never depend on rows. A submit with an Idempotency-Key may be repeated.
"""
AT_ONCE = 2  # submits
MAX_BYTES = 2**20
TAGS = {
    "people": "Who may do what: people, roles and tokens.",
    "data sets": "What may be asked: public facts, budgets and quotas; never a row.",
    "jobs": "Requests for releases: planned, submitted, approved, followed.",
    "releases": "What was released: models, tables, guarantees, certificates, functions to ask.",
    "audit": "Who spent what, and whether every line is intact.",
    "service": "Whether the service answers.",
}
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
TABLE: list[tuple[type[Exception], int, str]] = [
    (UnknownPersonError, 401, "unknown person"),
    (ForbiddenError, 403, "forbidden"),
    (NotFoundError, 404, "not found"),
    (BudgetExceededError, 409, "budget exceeded"),
    (UnsupportedEventError, 409, "budget cannot hold this"),
    (LedgerTamperedError, 500, "ledger integrity check failed"),
    (InvalidInputError, 422, "invalid request"),
    (RequestValidationError, 422, "invalid request"),
    (ValidationError, 422, "invalid request"),  # of a form
    (SfumatoError, 503, "not available"),
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
        openapi_tags=[{"name": name, "description": text} for name, text in TAGS.items()],
    )
    app.state.office = ServiceApi(settings)
    app.state.turns = asyncio.Semaphore(AT_ONCE)
    app.state.limiter = Limiter(settings.requests_per_second)
    app.state.secret = settings.secret()

    @app.middleware("http")
    async def guarded(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Refuse bodies that are too large, or do not say how large, before they are read."""
        declared = request.headers.get("content-length", "0")
        is_bounded = declared.isdigit() and int(declared) <= MAX_BYTES
        if is_bounded and "transfer-encoding" not in request.headers:
            response = await call_next(request)
        else:
            response = await refused(request, HTTPException(413, "The body is too large."))
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    errors = (SfumatoError, RequestValidationError, ValidationError, HTTPException, Exception)
    for kind in errors:
        app.add_exception_handler(kind, refused)
    app.include_router(api.router)
    app.include_router(pages.router)

    @app.get("/api/health", tags=["service"])
    def health() -> dict[str, str]:
        """Whether the service and its store answer."""
        app.state.office.store.people()
        return {"status": "ok"}

    return app


async def refused(request: Request, error: Exception) -> Response:
    """Return an error as JSON to programs and as a page to people."""
    status, word = next((s, w) for kind, s, w in TABLE if isinstance(error, kind))
    is_api, message = request.url.path.startswith("/api/"), told(error)
    if isinstance(error, HTTPException):
        status, message = error.status_code, str(error.detail)
    elif word == "fault":
        log.error("unexpected %s", type(error).__name__)
        message = "A fault of the service; no details are shown."
    if is_api:
        return JSONResponse({"error": word, "message": message}, status, HEADERS)
    if status == 401:
        return RedirectResponse("/sign-in", 303, HEADERS)
    shown = page(request, "error.html", status=status, word=word, message=message)
    shown.headers.update(HEADERS)  # a fault does not pass the middleware
    return shown
