"""The way in and out: tokens, one-time codes, sessions."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from sfumato.service.access import (
    ForbiddenError,
    UnknownPersonError,
    make_token,
    person_of,
)
from sfumato.service.auth import office_of
from sfumato.service.studio.sessions import COOKIE, Anybody, Form, page, to

SESSION_HOURS = 12.0

router = APIRouter(include_in_schema=False)


@router.get("/sign-in")
def sign_in_page(request: Request) -> Response:
    """Show the form; the code of a link stands behind '#' and does not come here."""
    return page(request, "sign_in.html")


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Change a token, or a one-time code, for a session."""
    token = str((await request.form()).get("token", "")).strip()
    origin = request.headers.get("origin")
    is_ours = origin is None or origin.split("://")[-1] == request.headers.get("host")
    office, client = office_of(request), request.client
    address = "address " + ("unknown" if client is None else client.host)
    try:
        who = person_of(office.store, token, scopes=("all", "one time"))  # a session may write
    except UnknownPersonError as error:
        if not request.app.state.failures.admits(address):  # a valid token passes all the same
            return page(request, "sign_in.html", status=429, problem="Too many tries.")
        return page(request, "sign_in.html", status=401, problem=str(error))
    if not is_ours:
        raise ForbiddenError("The form is not from this site.")
    if who.scope == "one time":
        office.store.revoke_token(who.name, who.token)
    return session_for(request, who.name)


def session_for(request: Request, name: str) -> Response:
    """Begin a session and go home."""
    office = office_of(request)
    token = make_token(
        office.store, name, name, hours=SESSION_HOURS, scope="session", label="studio"
    )
    response = to("/")
    response.set_cookie(
        COOKIE,
        token,
        max_age=int(3600 * SESSION_HOURS),
        httponly=True,
        samesite="lax",
        secure=office.settings.secure_cookies,
        path="/",
    )
    return response


@router.post("/sign-out")
def sign_out(who: Anybody, form: Form, request: Request) -> Response:
    """End the session."""
    del form
    office_of(request).store.revoke_token(who.name, who.token)
    response = to("/sign-in")
    response.delete_cookie(COOKIE, path="/")
    return response
