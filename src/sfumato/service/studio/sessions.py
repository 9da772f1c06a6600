"""The way in and out, sessions of people at the pages, and how templates are rendered."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from sfumato.service.access import (
    ROLES,
    ForbiddenError,
    Person,
    UnknownPersonError,
    csrf_token,
    make_token,
    person_of,
)
from sfumato.service.api import COOKIE, allowed
from sfumato.service.office import office_of

SESSION_HOURS = 12.0
router = APIRouter(include_in_schema=False)


def _figure(value: Any) -> str:
    """Write a number short."""
    return "–" if value is None else f"{float(value):.4g}"


def _declared(record: Mapping[str, Any]) -> str:
    """Return what is public about a column."""
    if record.get("left_out"):
        return "left out"
    values = record.get("categories") or record.get("labels")
    if values:
        shown = values if isinstance(values, str) else ", ".join(str(one) for one in values[:12])
        return shown if isinstance(values, str) or len(values) <= 12 else f"{shown}, …"
    return f"{record.get('lower', 'false')} to {record.get('upper', 'true')}"


_templates = Environment(
    loader=PackageLoader("sfumato.service.studio"),
    autoescape=select_autoescape(default=True),
    undefined=StrictUndefined,
    trim_blocks=True,
)
_templates.filters |= {"figure": _figure, "facts": _declared}

Anybody = Annotated[Person, Depends(allowed(*ROLES, page=True))]
Officer = Annotated[Person, Depends(allowed("officer", page=True))]
Analyst = Annotated[Person, Depends(allowed("analyst", page=True))]
Spender = Annotated[Person, Depends(allowed("officer", "analyst", page=True))]
Overseer = Annotated[Person, Depends(allowed("officer", "auditor", page=True))]


async def checked_form(request: Request, who: Anybody) -> dict[str, str]:
    """Return the fields of a form that was made for this session."""
    given = {key: str(value) for key, value in (await request.form()).items()}
    expected = csrf_token(request.app.state.secret, who.token)
    if not hmac.compare_digest(given.pop("csrf", "").encode(), expected.encode()):
        raise ForbiddenError("The form is not from this session. Load the page again.")
    return given


Form = Annotated[dict[str, str], Depends(checked_form)]


def page(
    request: Request, name: str, who: Person | None = None, *, status: int = 200, **values: Any
) -> HTMLResponse:
    """Render a template for a person."""
    shared: dict[str, Any] = {"who": who, "csrf": "", "waiting": 0, "problem": ""}
    if who is not None:
        shared["csrf"] = csrf_token(request.app.state.secret, who.token)
        if who.role == "officer":
            shared["waiting"] = len(office_of(request).store.jobs(state="waiting"))
    return HTMLResponse(_templates.get_template(name).render(**{**shared, **values}), status)


def to(path: str) -> RedirectResponse:
    """Send the browser on after a form."""
    return RedirectResponse(path, 303)


def told(error: Exception) -> str:
    """Return what is wrong with a form or a body."""
    if not hasattr(error, "errors"):  # of pydantic
        return str(error)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part != "body")
    return f"{place}: {first['msg']}." if place else f"{first['msg']}."


@router.get("/sign-in")
def sign_in_page(request: Request) -> Response:
    """Show the form; the code of a link stands behind '#' and does not come here."""
    return page(request, "sign_in.html")


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Change a token, or a one-time code, for a session."""
    token = str((await request.form()).get("token", "")).strip()
    origin = request.headers.get("origin")
    office = office_of(request)
    try:
        who = person_of(office.store, token, scopes=("all", "one time"))  # a session may write
    except UnknownPersonError as error:  # nobody guesses 256 bits, however fast
        return page(request, "sign_in.html", status=401, problem=str(error))
    if origin is not None and origin.split("://")[-1] != request.headers.get("host"):
        raise ForbiddenError("The form is not from this site.")
    if who.scope == "one time":
        office.store.revoke_token(who.name, who.token)
    session = make_token(
        office.store, who.name, who.name, hours=SESSION_HOURS, scope="session", label="studio"
    )
    response = to("/")
    response.set_cookie(
        COOKIE,
        session,
        max_age=int(3600 * SESSION_HOURS),
        httponly=True,
        samesite="lax",
        secure=office.settings.secure_cookies,
    )
    return response


@router.post("/sign-out")
def sign_out(who: Anybody, form: Form, request: Request) -> Response:
    """End the session."""
    office_of(request).store.revoke_token(who.name, who.token)
    response = to("/sign-in")
    response.delete_cookie(COOKIE)
    return response
