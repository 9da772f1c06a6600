"""The pages: each takes a session, calls the function of a route, and renders a template.

A form carries a token of its session (CSRF); the cookie is for this site only. No page needs
JavaScript to work.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.responses import FileResponse, JSONResponse, Response

from sfumato.exceptions import InvalidInputError, SfumatoError
from sfumato.privacy.guarantee import Guarantee
from sfumato.report.words import LIMITS, facts
from sfumato.service import api, bodies
from sfumato.service.access import Person
from sfumato.service.api import Office
from sfumato.service.office import ServiceApi
from sfumato.service.store import now
from sfumato.service.studio.drawing import drawn
from sfumato.service.studio.forms import TYPES, column_facts, columns_to_confirm, new_job
from sfumato.service.studio.sessions import (
    Analyst,
    Anybody,
    Form,
    Officer,
    Overseer,
    Spender,
    page,
    router,
    to,
    told,
)
from sfumato.service.tasks import ESTIMATORS, settings_of

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


# Data sets ----------------------------------------------------------------------------------------


@router.get("/")
def home(who: Anybody, office: Office, request: Request) -> Response:
    """Data sets with their budgets."""
    return page(request, "home.html", who, datasets=api.datasets(who, office))


@router.get("/datasets/new")
def new_dataset_page(who: Officer, office: Office, request: Request) -> Response:
    """Begin the wizard."""
    return _wizard(request, who, office, {})


def _wizard(
    request: Request, who: Person, office: ServiceApi, given: Mapping[str, str], problem: str = ""
) -> Response:
    names = ("name", "path", "target", "person", "protected", "unit", "relation", "epsilon")
    return page(
        request,
        "new_dataset.html",
        who,
        status=422 if problem else 200,
        files=api.files(who, office),
        budgets=list(api.budgets(who, office)),
        given={key: given.get(key, "") for key in (*names, "delta", "auto_approve", "why")},
        problem=problem,
    )


@router.post("/datasets/new")
def register(who: Officer, office: Office, form: Form, request: Request) -> Response:
    """Register a data set."""
    try:
        asked = bodies.NewDataset(**{key: value for key, value in form.items() if value != ""})
        api.register(who, asked, office)
    except (SfumatoError, ValueError) as error:
        return _wizard(request, who, office, form, told(error))
    return to(f"/datasets/{asked.name}")


@router.get("/datasets/{name}")
def dataset_page(who: Anybody, office: Office, name: str, request: Request) -> Response:
    """Public facts, budget and releases of a data set."""
    found, released = api.dataset(who, name, office), api.releases(who, office, name)
    analysts = [one["name"] for one in office.store.people() if one["role"] == "analyst"]
    pictures = [
        picture
        for one in released[:8]
        for picture in drawn(office.settings.releases / one["id"], one)[:2]
    ]
    return page(
        request,
        "dataset.html",
        who,
        dataset={"reason": "", "n_rows": None, **found},
        releases=released,
        analysts=analysts if who.role == "officer" else [],
        pictures=pictures,
    )


@router.get("/datasets/{name}/confirm")
def confirm_page(who: Officer, office: Office, name: str, request: Request) -> Response:
    """Read the proposed bounds, column by column."""
    return _confirm(request, who, office, name)


def _confirm(
    request: Request, who: Person, office: ServiceApi, name: str, problem: str = ""
) -> Response:
    found = api.dataset(who, name, office)
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
def confirm_column(
    who: Officer, office: Office, name: str, form: Form, request: Request
) -> Response:
    """Confirm one column."""
    column = form.get("column", "")
    try:
        stated = bodies.ColumnFacts(**column_facts(api.dataset(who, name, office), column, form))
        api.confirm_column(who, name, column, stated, office)
    except (InvalidInputError, ValueError) as error:
        return _confirm(request, who, office, name, told(error))
    return to(f"/datasets/{name}/confirm")


@router.post("/datasets/{name}/format")
def confirm_format(
    who: Officer, office: Office, name: str, form: Form, request: Request
) -> Response:
    """Confirm how the file is written."""
    names = ("delimiter", "decimal", "thousands", "encoding")
    words = [line.strip() for line in form.get("words", "").splitlines() if line.strip()]
    stated: dict[str, Any] = {key: form[key] for key in names if form.get(key)}
    try:
        api.confirm_format(who, name, bodies.FileFormat(**stated, missing=words), office)
    except (InvalidInputError, ValueError) as error:
        return _confirm(request, who, office, name, told(error))
    return to(f"/datasets/{name}/confirm")


@router.post("/datasets/{name}/open")
def open_dataset(who: Officer, office: Office, name: str, form: Form, request: Request) -> Response:
    """Open a data set."""
    body = bodies.OpenDataset(one_row_per_person="one_row_per_person" in form)
    try:
        api.open_dataset(who, name, body, office)
    except InvalidInputError as error:
        return _confirm(request, who, office, name, str(error))
    return to(f"/datasets/{name}")


@router.post("/datasets/{name}/quota")
def set_quota(who: Officer, office: Office, name: str, form: Form) -> Response:
    """Set a quota."""
    asked = {"epsilon": form.get("epsilon"), "until": form.get("until") or None}
    body = bodies.Quota.model_validate(asked)
    api.set_quota(who, name, form.get("analyst", ""), body, office)
    return to(f"/datasets/{name}")


@router.post("/datasets/{name}/automatic")
def set_automatic(who: Officer, office: Office, name: str, form: Form) -> Response:
    """Set the limit of automatic approval."""
    body = bodies.AutoApproval.model_validate({"epsilon": form.get("epsilon")})
    api.set_auto_approval(who, name, body, office)
    return to(f"/datasets/{name}")


@router.post("/datasets/{name}/retire")
def retire(who: Officer, office: Office, name: str, form: Form) -> Response:
    """Retire a data set, if its name was typed."""
    if form.get("sure") != name:
        raise InvalidInputError("Type the name of the data set to retire it.")
    api.retire(who, name, office)
    return to(f"/datasets/{name}")


@router.get("/datasets/{name}/dummy")
def dummy(who: Anybody, office: Office, name: str) -> Response:
    """Return dummy rows as a file."""
    return api.dummy_rows(who, name, office)


# Requests and releases ----------------------------------------------------------------------------


@router.get("/datasets/{name}/ask")
def ask_page(who: Analyst, office: Office, name: str, request: Request) -> Response:
    """Show the request form."""
    return _ask(request, who, office, name, {})


def _ask(
    request: Request,
    who: Person,
    office: ServiceApi,
    name: str,
    given: Mapping[str, str],
    problem: str = "",
) -> Response:
    words = ("kind", "estimator", "grid", "columns", "rows", "epsilon", "purpose", "parameters")
    return page(
        request,
        "ask.html",
        who,
        status=422 if problem else 200,
        dataset=api.dataset(who, name, office),
        kinds=KINDS,
        estimators=ESTIMATORS["fit"],
        settings={one: ", ".join(sorted(settings_of(one))) for one in ESTIMATORS["search"]},
        given={key: given.get(key, "") for key in words},
        key=secrets.token_hex(16),
        problem=problem,
    )


@router.get("/datasets/{name}/cost")
def cost(
    who: Anybody,
    office: Office,
    name: str,
    request: Request,
    epsilon: str = "",
    kind: bodies.Kind = "fit",
) -> Response:
    """Return what a request would cost, as a part of its page."""
    try:
        asked = bodies.Quota.model_validate({"epsilon": epsilon}).epsilon
        planned = api.plan(who, name, office, asked, None, kind)
    except (SfumatoError, ValueError) as error:
        return page(request, "cost.html", who, problem=told(error))
    return page(request, "cost.html", who, plan=planned, kind=kind)


@router.post("/datasets/{name}/ask")
def submit(who: Analyst, office: Office, name: str, form: Form, request: Request) -> Response:
    """Submit a request; loading the page again submits nothing new."""
    try:
        asked = bodies.NewJob(**new_job(form))
        job = api.submit(who, None, name, asked, office, form.get("key"))
    except (SfumatoError, ValueError) as error:
        return _ask(request, who, office, name, form, told(error))
    return to(f"/jobs/{job['id']}")


@router.get("/jobs")
def jobs(who: Anybody, office: Office, request: Request) -> Response:
    """List requests."""
    asked = [one for one in api.jobs(who, office) if "estimator" in one["task"]]
    return page(request, "jobs.html", who, jobs=asked)


@router.get("/jobs/{identity}")
def job_page(who: Anybody, office: Office, identity: str, request: Request) -> Response:
    """Show one request, and follow it."""
    found = {"reason": "", **api.job(who, identity, office)}
    task = {"estimator": None, "parameters": None, "grid": None, **found["task"]}
    return page(request, "job.html", who, job={**found, "task": task}, words=STATES)


@router.post("/jobs/{identity}/decide")
def decide(who: Officer, office: Office, identity: str, form: Form) -> Response:
    """Approve or decline."""
    verb = api.approve if form.get("decision") == "approve" else api.decline
    verb(who, identity, bodies.Decision(reason=form.get("reason", "")[:400]), office)
    return to("/inbox")


@router.post("/jobs/{identity}/cancel")
def cancel(who: Spender, office: Office, identity: str, form: Form) -> Response:
    """Cancel."""
    api.cancel(who, identity, office)
    return to(f"/jobs/{identity}")


@router.get("/releases/{identity}")
def release_page(who: Anybody, office: Office, identity: str, request: Request) -> Response:
    """Show a release: guarantee, pictures, files."""
    found = api.release(who, identity, office)
    guarantee = Guarantee.from_dict(found["guarantee"])
    return page(
        request,
        "release.html",
        who,
        release=found,
        dataset=api.dataset(who, found["dataset"], office),
        sentence=str(guarantee),
        facts=facts(guarantee),
        limits=LIMITS,
        pictures=drawn(office.settings.releases / found["id"], found),
    )


@router.get("/releases/{identity}/files/{file}")
def release_file(who: Anybody, office: Office, identity: str, file: str) -> Response:
    """Return one file."""
    return api.release_file(who, identity, file, office)


@router.get("/inbox")
def inbox(who: Officer, office: Office, request: Request) -> Response:
    """List requests that wait for an officer."""
    return page(request, "inbox.html", who, jobs=office.store.jobs(state="waiting"))


# People, audit ------------------------------------------------------------------------------------


@router.get("/people")
def people(who: Officer, office: Office, request: Request) -> Response:
    """List people and tokens."""
    return _people(request, who, office)


def _people(request: Request, who: Person, office: ServiceApi, **more: Any) -> Response:
    tokens = [one for one in office.store.tokens() if one["scope"] in ("all", "read")]
    values = {"token": None, "people": office.store.people(), "tokens": tokens, "now": now()}
    return page(request, "people.html", who, **{**values, **more})


@router.post("/people")
def add_person(who: Officer, office: Office, form: Form, request: Request) -> Response:
    """Add a person."""
    try:
        api.add_person(who, bodies.NewPerson(**form), office)
    except (InvalidInputError, ValueError) as error:
        return _people(request, who, office, status=422, problem=told(error))
    return to("/people")


@router.post("/people/{name}/token")
def give_token(who: Officer, office: Office, name: str, form: Form, request: Request) -> Response:
    """Make a token and show it once."""
    made = api.make_token(who, name, bodies.NewToken(label="by the page"), office)
    return _people(request, who, office, token=made)


@router.post("/tokens/{identity}/revoke")
def revoke(who: Officer, office: Office, identity: str, form: Form) -> Response:
    """End a token."""
    api.revoke_token(who, identity, office)
    return to("/people")


@router.get("/audit")
def audit(who: Overseer, office: Office, request: Request) -> Response:
    """Verify everything and show who did what."""
    problem, checked = "", None
    try:
        checked = api.verify(who, office)
    except SfumatoError as error:
        problem = str(error)
    names = {one["budget"]: one["name"] for one in office.store.datasets()}
    charges = [(b, one) for b, name in names.items() for one in api.charges(who, name, office)]
    return page(
        request,
        "audit.html",
        who,
        checked=checked,
        problem=problem,
        budgets=api.budgets(who, office),
        charges=sorted(charges, key=lambda pair: pair[1]["time"], reverse=True)[:500],
        lines=office.store.audit(last=200),
    )


@router.get("/audit/statement")
def statement(who: Overseer, office: Office) -> Response:
    """Return the signed statement as a file."""
    headers = {"Content-Disposition": 'attachment; filename="statement.json"'}
    return JSONResponse(api.statement(who, office), headers=headers)


@router.get("/assets/{name}")
def asset(name: str) -> Response:
    """Return one of the listed assets."""
    if name not in ASSETS:
        return Response(status_code=404)
    headers = {"Cache-Control": "public, max-age=3600"}
    place = Path(__file__).parent / "assets" / name
    return FileResponse(place, media_type=ASSETS[name], headers=headers)
