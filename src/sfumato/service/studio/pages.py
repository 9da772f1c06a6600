"""The pages: each takes a session, calls `Office`, and renders a template.

A form carries a token of its session (CSRF); the cookie is for this site only. No page needs
JavaScript to work.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import FileResponse, JSONResponse, Response

from sfumato.exceptions import InvalidInputError, SfumatoError
from sfumato.privacy.guarantee import Guarantee
from sfumato.report.words import LIMITS, facts
from sfumato.service import curation
from sfumato.service.access import (
    Person,
)
from sfumato.service.api import dummy_rows
from sfumato.service.auth import office_of
from sfumato.service.bodies import NewDataset, NewJob
from sfumato.service.store import now
from sfumato.service.studio import login
from sfumato.service.studio.api_page import documented
from sfumato.service.studio.drawing import drawn
from sfumato.service.studio.forms import (
    TYPES,
    column_facts,
    columns_to_confirm,
    file_format,
    new_job,
)
from sfumato.service.studio.sessions import (
    Analyst,
    Anybody,
    Form,
    Officer,
    Overseer,
    Spender,
    page,
    to,
)
from sfumato.service.tasks import ESTIMATORS, settings_of

HERE = Path(__file__).parent
ASSETS = {
    "htmx.min.js": "text/javascript",
    "studio.js": "text/javascript",
    "studio.css": "text/css",
    "htmx-LICENSE.txt": "text/plain",
}
KINDS = {
    "fit": "A model that predicts the target",
    "explanation": "An explanation: what each column says about the target",
    "fabricate": "Fabricated rows that behave like the data",
    "density": "A density of some columns",
    "curve": "The mean of curves",
    "moments": "Means and covariances",
    "search": "A private search: the best of several settings",
}
STATES = {
    "waiting": "for an officer",
    "queued": "for a worker",
    "running": "a worker is at it",
    "released": "",
    "declined": "by an officer; nothing was charged",
    "cancelled": "nothing was charged",
    "refused": "by the budget; nothing was charged",
    "failed": "nothing was charged",
    "lost": "charged, and nothing was shown",
}

router = APIRouter(include_in_schema=False)


# Data sets ----------------------------------------------------------------------------------------


@router.get("/")
def home(who: Anybody, request: Request) -> Response:
    """Data sets with their budgets."""
    return page(request, "home.html", who, datasets=office_of(request).datasets(who))


@router.get("/datasets/new")
def new_dataset_page(who: Officer, request: Request) -> Response:
    """Begin the wizard."""
    return _wizard(request, who, {})


def _wizard(request: Request, who: Person, given: Mapping[str, str], problem: str = "") -> Response:
    office = office_of(request)
    names = ("name", "path", "target", "person", "protected", "unit", "relation", "epsilon")
    filled = {key: given.get(key, "") for key in (*names, "delta", "auto_approve", "why")}
    return page(
        request,
        "new_dataset.html",
        who,
        status=422 if problem else 200,
        files=office.files(who),
        budgets=list(office.budgets(who)),
        given=filled,
        problem=problem,
    )


@router.post("/datasets/new")
def register(who: Officer, form: Form, request: Request) -> Response:
    """Register a data set."""
    try:
        asked = NewDataset(**{key: value for key, value in form.items() if value != ""})
        curation.register(office_of(request), who, asked.model_dump())
    except (SfumatoError, ValueError) as error:
        return _wizard(request, who, form, told(error))
    return to(f"/datasets/{asked.name}")


@router.get("/datasets/{name}")
def dataset_page(who: Anybody, name: str, request: Request) -> Response:
    """Public facts, budget and releases of a data set."""
    office = office_of(request)
    found, released = office.dataset(who, name), office.releases(who, name)
    is_officer = who.role == "officer"
    return page(
        request,
        "dataset.html",
        who,
        dataset={"reason": "", "n_rows": None, **found},
        releases=released,
        analysts=[one["name"] for one in office.people(who) if one["role"] == "analyst"]
        if is_officer
        else [],
        pictures=[
            picture
            for one in released[:8]
            if one["task"]["kind"] in ("density", "curve") or "Additive" in one["class"]
            for picture in drawn(office.settings.releases / one["id"], one)[:2]
        ],
    )


@router.get("/datasets/{name}/confirm")
def confirm_page(who: Officer, name: str, request: Request, problem: str = "") -> Response:
    """Read the proposed bounds, column by column."""
    del problem  # never taken from a link
    return _confirm(request, who, name)


def _confirm(request: Request, who: Person, name: str, problem: str = "") -> Response:
    found = office_of(request).dataset(who, name)
    if found["state"] != "proposed":
        return to(f"/datasets/{name}")
    missing = [one for one in found["columns"] if one not in found["confirmed"]]
    written = found["bounds"].get("file")
    if written is not None and not found.get("format_confirmed"):
        missing.append("how the file is written")
    return page(
        request,
        "confirm.html",
        who,
        status=422 if problem else 200,
        dataset=found,
        columns=columns_to_confirm(found),
        types=TYPES,
        written=written,
        format_confirmed=bool(found.get("format_confirmed")),
        missing=missing,
        problem=problem,
    )


@router.post("/datasets/{name}/columns")
def confirm_column(who: Officer, name: str, form: Form, request: Request) -> Response:
    """Confirm one column."""
    office, column = office_of(request), form.get("column", "")
    try:
        stated = column_facts(office.dataset(who, name), column, form)
        curation.confirm_column(office, who, name, column, stated)
    except InvalidInputError as error:
        return _confirm(request, who, name, str(error))
    return to(f"/datasets/{name}/confirm")


@router.post("/datasets/{name}/format")
def confirm_format(who: Officer, name: str, form: Form, request: Request) -> Response:
    """Confirm how the file is written."""
    try:
        curation.confirm_format(office_of(request), who, name, file_format(form))
    except InvalidInputError as error:
        return _confirm(request, who, name, str(error))
    return to(f"/datasets/{name}/confirm")


@router.post("/datasets/{name}/open")
def open_dataset(who: Officer, name: str, form: Form, request: Request) -> Response:
    """Open a data set."""
    try:
        curation.open_dataset(
            office_of(request), who, name, one_row_per_person="one_row_per_person" in form
        )
    except InvalidInputError as error:
        return _confirm(request, who, name, str(error))
    return to(f"/datasets/{name}")


@router.post("/datasets/{name}/quota")
def set_quota(who: Officer, name: str, form: Form, request: Request) -> Response:
    """Set a quota."""
    curation.set_quota(
        office_of(request),
        who,
        name,
        form.get("analyst", ""),
        epsilon=_number("epsilon", form),
        until=form.get("until") or None,
    )
    return to(f"/datasets/{name}")


@router.post("/datasets/{name}/automatic")
def set_automatic(who: Officer, name: str, form: Form, request: Request) -> Response:
    """Set the limit of automatic approval."""
    curation.set_auto_approval(office_of(request), who, name, _number("epsilon", form))
    return to(f"/datasets/{name}")


@router.post("/datasets/{name}/retire")
def retire(who: Officer, name: str, form: Form, request: Request) -> Response:
    """Retire a data set, if its name was typed."""
    if form.get("sure") != name:
        raise InvalidInputError("Type the name of the data set to retire it.")
    curation.retire(office_of(request), who, name)
    return to(f"/datasets/{name}")


@router.get("/datasets/{name}/dummy")
def dummy(who: Anybody, name: str, request: Request) -> Response:
    """Return dummy rows as a file."""
    response = dummy_rows(who, name, request, 200)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}-dummy.csv"'
    return response


# Requests and releases ----------------------------------------------------------------------------


@router.get("/datasets/{name}/ask")
def ask_page(who: Analyst, name: str, request: Request) -> Response:
    """Show the request form."""
    return _ask(request, who, name, {})


def _ask(
    request: Request, who: Person, name: str, given: Mapping[str, str], problem: str = ""
) -> Response:
    words = ("kind", "estimator", "grid", "columns", "rows", "epsilon", "purpose", "parameters")
    return page(
        request,
        "ask.html",
        who,
        status=422 if problem else 200,
        dataset=office_of(request).dataset(who, name),
        kinds=KINDS,
        estimators=ESTIMATORS["fit"],
        settings={one: ", ".join(sorted(settings_of(one))) for one in ESTIMATORS["search"]},
        given={key: given.get(key, "") for key in words},
        key=secrets.token_hex(16),
        problem=problem,
    )


@router.get("/datasets/{name}/cost")
def cost(
    who: Anybody, name: str, request: Request, epsilon: str = "", kind: str = "fit"
) -> Response:
    """Return what a request would cost, as a part of its page."""
    office = office_of(request)
    try:
        value = _number("epsilon", {"epsilon": epsilon})
        planned = office.plan(who, name, value, None, kind)
    except SfumatoError as error:
        return page(request, "cost.html", who, problem=str(error))
    return page(request, "cost.html", who, plan=planned, kind=kind)


@router.post("/datasets/{name}/ask")
def submit(who: Analyst, name: str, form: Form, request: Request) -> Response:
    """Submit a request; loading the page again submits nothing new."""
    try:
        asked = NewJob(**new_job(form))
        job = office_of(request).submit(who, name, asked.model_dump(), form.get("key"))
    except (SfumatoError, ValueError) as error:
        return _ask(request, who, name, form, told(error))
    return to(f"/jobs/{job['id']}")


@router.get("/jobs")
def jobs(who: Anybody, request: Request) -> Response:
    """List requests."""
    asked = [one for one in office_of(request).jobs(who) if "estimator" in one["task"]]
    return page(request, "jobs.html", who, jobs=asked)


@router.get("/jobs/{identity}")
def job_page(who: Anybody, identity: str, request: Request) -> Response:
    """Show one request, and follow it."""
    found = {"reason": "", **office_of(request).job(who, identity)}
    task = {"estimator": None, "parameters": None, "grid": None, **found["task"]}
    return page(request, "job.html", who, job={**found, "task": task}, words=STATES)


@router.post("/jobs/{identity}/decide")
def decide(who: Officer, identity: str, form: Form, request: Request) -> Response:
    """Approve or decline."""
    office_of(request).decide(
        who,
        identity,
        approved=form.get("decision") == "approve",
        reason=form.get("reason", "")[:400],
    )
    return to("/inbox")


@router.post("/jobs/{identity}/cancel")
def cancel(who: Spender, identity: str, form: Form, request: Request) -> Response:
    """Cancel."""
    del form
    office_of(request).cancel(who, identity)
    return to(f"/jobs/{identity}")


@router.get("/releases/{identity}")
def release_page(who: Anybody, identity: str, request: Request) -> Response:
    """Show a release: guarantee, pictures, files."""
    office = office_of(request)
    found = office.release(who, identity)
    guarantee = Guarantee.from_dict(found["guarantee"])
    return page(
        request,
        "release.html",
        who,
        release=found,
        dataset=office.dataset(who, found["dataset"]),
        sentence=str(guarantee),
        facts=facts(guarantee),
        limits=LIMITS,
        pictures=drawn(office.settings.releases / found["id"], found),
    )


@router.get("/releases/{identity}/files/{file}")
def release_file(who: Anybody, identity: str, file: str, request: Request) -> Response:
    """Return one file."""
    place = office_of(request).release_file(who, identity, file)
    return FileResponse(place, filename=f"{identity}-{file}")


@router.get("/inbox")
def inbox(who: Officer, request: Request) -> Response:
    """List requests that wait for an officer."""
    waiting = [one for one in office_of(request).jobs(who) if one["state"] == "waiting"]
    return page(request, "inbox.html", who, jobs=waiting)


# People, audit, API -------------------------------------------------------------------------------


def _people(
    request: Request, who: Person, *, token: Mapping[str, Any] | None = None, problem: str = ""
) -> Response:
    office = office_of(request)
    tokens = [one for one in office.tokens(who) if one["scope"] in ("all", "read")]
    return page(
        request,
        "people.html",
        who,
        status=422 if problem else 200,
        people=office.people(who),
        tokens=tokens,
        token=token,
        problem=problem,
        now=now(),
    )


@router.get("/people")
def people(who: Officer, request: Request) -> Response:
    """List people and tokens."""
    return _people(request, who)


@router.post("/people")
def add_person(who: Officer, form: Form, request: Request) -> Response:
    """Add a person."""
    try:
        office_of(request).add_person(who, form.get("name", ""), form.get("role", ""))
    except InvalidInputError as error:
        return _people(request, who, problem=str(error))
    return to("/people")


@router.post("/people/{name}/token")
def give_token(who: Officer, name: str, form: Form, request: Request) -> Response:
    """Make a token and show it once."""
    del form
    made = office_of(request).make_token(who, name, days=30, scope="all", label="by the page")
    return _people(request, who, token=made)


@router.post("/tokens/{identity}/revoke")
def revoke(who: Officer, identity: str, form: Form, request: Request) -> Response:
    """End a token."""
    del form
    office_of(request).revoke_token(who, identity)
    return to("/people")


@router.get("/audit")
def audit(who: Overseer, request: Request) -> Response:
    """Verify everything and show who did what."""
    office, problem, checked = office_of(request), "", None
    try:
        checked = office.verify(who)
    except SfumatoError as error:
        problem = str(error)
    names = {one["budget"]: one["name"] for one in office.datasets(who)}
    charges = [(b, one) for b, name in names.items() for one in office.charges(who, name)]
    return page(
        request,
        "audit.html",
        who,
        checked=checked,
        problem=problem,
        budgets=office.budgets(who),
        charges=sorted(charges, key=lambda pair: pair[1]["time"], reverse=True)[:500],
        lines=office.audit(who, 200),
    )


@router.get("/audit/statement")
def statement(who: Overseer, request: Request) -> Response:
    """Return the signed statement as a file."""
    headers = {"Content-Disposition": 'attachment; filename="statement.json"'}
    return JSONResponse(office_of(request).statement(who), headers=headers)


@router.get("/api")
def api_page(who: Anybody, request: Request) -> Response:
    """Document the API, from its own description."""
    described = request.app.openapi()
    groups: dict[str, list[dict[str, Any]]] = {tag["name"]: [] for tag in described["tags"]}
    for path, methods in described["paths"].items():
        for method, about in methods.items():
            groups[about["tags"][0]].append(documented(described, method, path, about))
    address = str(request.base_url).rstrip("/")
    return page(request, "api.html", who, api=described, groups=groups, address=address)


@router.get("/assets/{name}")
def asset(name: str) -> Response:
    """Return one of the listed assets."""
    if name not in ASSETS:
        return Response(status_code=404)
    headers = {"Cache-Control": "public, max-age=3600"}
    return FileResponse(HERE / "assets" / name, media_type=ASSETS[name], headers=headers)


def told(error: Exception) -> str:
    """Return what is wrong with a form."""
    if hasattr(error, "errors"):  # of pydantic
        first = error.errors()[0]
        return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}."
    return str(error)


def _number(name: str, form: Mapping[str, str]) -> float:
    try:
        value = float(form.get(name, ""))
    except ValueError:
        value = float("nan")
    if not 0 <= value <= 100:
        raise InvalidInputError(f"'{name}' must be a number from 0 to 100.")
    return value


def install(app: FastAPI) -> None:
    """Add the pages to the app."""

    def error_page(request: Request, status: int, word: str, message: str) -> str:
        del status
        body = page(request, "error.html", None, word=word, message=message).body
        return bytes(body).decode()

    app.state.error_page = error_page
    app.include_router(login.router)
    app.include_router(router)
