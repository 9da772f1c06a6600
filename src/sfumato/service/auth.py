"""What both doors share: who asks, limits, headers, and one form of error."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    LedgerTamperedError,
    SfumatoError,
    UnsupportedEventError,
)
from sfumato.service.access import (
    ForbiddenError,
    Limiter,
    Person,
    UnknownPersonError,
    person_of,
)
from sfumato.service.office import ServiceApi
from sfumato.service.store import NotFoundError

log = logging.getLogger("sfumato.service")

MAX_BYTES = 2**20
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
    (SfumatoError, 503, "not available"),
]


def office_of(request: Request) -> ServiceApi:
    """Return the office that the app was made with."""
    office: ServiceApi = request.app.state.office
    return office


def allowed(*roles: str, writes: bool = True) -> Callable[[Request], Person]:
    """Return the dependency of a route: a bearer token of one of `roles`."""

    def checked(request: Request) -> Person:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            raise UnknownPersonError("Sign in with a valid token.")
        who = person_of(office_of(request).store, token.strip())
        limiter: Limiter = request.app.state.limiter
        if not limiter.admits(f"person {who.name}"):
            raise HTTPException(429, "Too many requests. Try again in a few seconds.")
        who.require(*roles, writes=writes)
        return who

    checked.roles = roles  # type: ignore[attr-defined]
    checked.writes = writes  # type: ignore[attr-defined]
    return checked


async def in_turn(request: Request) -> AsyncIterator[None]:
    """Let few requests that compute and write run at once, so that others are answered meanwhile.

    They wait here and not in a thread, of which all requests share a few.
    """
    async with request.app.state.turns:
        yield


class BodyLimit:
    """Refuse bodies that are too large before they are read as a whole."""

    def __init__(self, app: ASGIApp, most: int = MAX_BYTES) -> None:
        self.app = app
        self.most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the bytes of a body as they come."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        seen = 0
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self.most:
            await _too_large()(scope, receive, send)
            return

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.most:
                raise HTTPException(413, "The body is too large.")
            return message

        await self.app(scope, counted, send)


def _too_large() -> JSONResponse:
    return JSONResponse({"error": "too large", "message": "The body is too large."}, 413, HEADERS)


def install(app: FastAPI) -> None:
    """Add the headers, the limits and the handlers of errors to an app."""
    app.add_middleware(BodyLimit)

    @app.middleware("http")
    async def with_headers(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        response = await call_next(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    async def told(request: Request, error: Exception) -> Response:
        status, word = next((s, w) for kind, s, w in TABLE if isinstance(error, kind))
        if status == 401 and not request.url.path.startswith("/api/"):
            return RedirectResponse("/sign-in", 303, HEADERS)
        return answer(request, status, word, str(error))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        message = f"{place}: {first['msg']}." if place else f"{first['msg']}."
        return answer(request, 422, "invalid request", message)

    async def plain(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
        return answer(request, error.status_code, "refused", str(error.detail))

    async def unexpected(request: Request, error: Exception) -> Response:
        log.error("unexpected %s", type(error).__name__)
        return answer(request, 500, "fault", "A fault of the service; no details are shown.")

    app.add_exception_handler(SfumatoError, told)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, plain)
    app.add_exception_handler(Exception, unexpected)


def answer(request: Request, status: int, word: str, message: str) -> Response:
    """Return an error as JSON to programs and as a page to people."""
    if request.url.path.startswith("/api/") or not hasattr(request.app.state, "error_page"):
        record: dict[str, Any] = {"error": word, "message": message}
        return JSONResponse(record, status, HEADERS)
    page: str = request.app.state.error_page(request, status, word, message)
    return HTMLResponse(page, status, HEADERS)
