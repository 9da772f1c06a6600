"""Sessions of people at the pages, the tokens of their forms, and how templates are rendered."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from sfumato.service.access import ROLES, ForbiddenError, Person, csrf_token, person_of
from sfumato.service.auth import office_of

COOKIE = "sfumato_session"


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


def signed_in(*roles: str, writes: bool = False) -> Callable[[Request], Person]:
    """Return the dependency of a page: a session of one of `roles`."""

    def checked(request: Request) -> Person:
        office = office_of(request)
        who = person_of(office.store, request.cookies.get(COOKIE, ""), scopes=("session",))
        if not request.app.state.limiter.admits(f"person {who.name}"):
            raise ForbiddenError("Too many requests. Try again in a few seconds.")
        who.require(*(roles or ROLES), writes=writes)
        return who

    checked.roles = roles or ROLES  # type: ignore[attr-defined]
    return checked


async def checked_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that was made for this session."""
    given = {key: str(value) for key, value in (await request.form()).items()}
    who = person_of(office_of(request).store, request.cookies.get(COOKIE, ""), scopes=("session",))
    expected = csrf_token(request.app.state.secret, who.token)
    if not hmac.compare_digest(given.pop("csrf", "").encode(), expected.encode()):
        raise ForbiddenError("The form is not from this session. Load the page again.")
    return given


Form = Annotated[dict[str, str], Depends(checked_form)]
Anybody = Annotated[Person, Depends(signed_in())]
Officer = Annotated[Person, Depends(signed_in("officer"))]
Analyst = Annotated[Person, Depends(signed_in("analyst"))]
Spender = Annotated[Person, Depends(signed_in("officer", "analyst"))]
Overseer = Annotated[Person, Depends(signed_in("officer", "auditor"))]


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
