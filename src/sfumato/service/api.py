"""The API: every verb of the service is one route here, with its roles; the pages call the same.

Nothing here reads a row: rows belong to `workers`.
"""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request
from fastapi.responses import FileResponse, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from sfumato.cli.jobs.dummies import dummy_table
from sfumato.exceptions import BudgetExceededError, InvalidInputError, LedgerTamperedError
from sfumato.ledger.shared_budget import SharedBudget
from sfumato.models.saving import load
from sfumato.privacy.filters import Cost
from sfumato.report.certificate import signed
from sfumato.service import access, bodies
from sfumato.service.access import ROLES, ForbiddenError, Person, person_of
from sfumato.service.office import ServiceApi, as_tuples, columns_of, office_of, shown
from sfumato.service.sources import checked_source, hold_same_rows
from sfumato.service.store import DatasetState, JobState, NotFoundError, now
from sfumato.service.tasks import checked_task, epsilon_of_a_run
from sfumato.tables.schema import Column, TableBounds, Target
from sfumato.tables.text import TextFormat

COOKIE = "sfumato_session"
PROBLEMS = {
    401: "No token, or one that is wrong, expired or revoked.",
    403: "Your role or the scope of your token does not allow this.",
    404: "It does not exist, or you may not see it.",
    409: "The budget or your quota does not allow it. Nothing was charged.",
    422: "Something in the request is wrong; `message` says what.",
    429: "Too many requests of yours. Try again in a few seconds.",
    503: "The store does not answer. Try again; a submit with a key is counted once.",
}
TOKEN = HTTPBearer(auto_error=False, description="A token, as an officer has given it.")
router = APIRouter(
    prefix="/api/v1",
    dependencies=[Depends(TOKEN)],  # says so in the description; `allowed` checks it
    responses={n: {"model": bodies.Problem, "description": text} for n, text in PROBLEMS.items()},
)


def allowed(*roles: str, writes: bool = True, page: bool = False) -> Callable[[Request], Person]:
    """Return the dependency of a route, or of a page: a token or session of one of `roles`."""

    def checked(request: Request) -> Person:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        scopes: tuple[str, ...] = ("all", "read")
        if page:
            kind, token, scopes = "bearer", request.cookies.get(COOKIE, ""), ("session",)
        token = token.strip() if kind.lower() == "bearer" else ""
        who = person_of(office_of(request).store, token, scopes=scopes)
        if not request.app.state.limiter.admits(who.name):
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


Record = dict[str, Any]
Officer = Annotated[Person, Depends(allowed("officer"))]
Analyst = Annotated[Person, Depends(allowed("analyst"))]
Spender = Annotated[Person, Depends(allowed("officer", "analyst"))]
Overseer = Annotated[Person, Depends(allowed("officer", "auditor", writes=False))]
ReadingOfficer = Annotated[Person, Depends(allowed("officer", writes=False))]
Anybody = Annotated[Person, Depends(allowed(*ROLES, writes=False))]
Office = Annotated[ServiceApi, Depends(office_of)]
Turn = Annotated[None, Depends(in_turn)]  # after who asks is known
Key = Annotated[str | None, Header(max_length=200, alias="Idempotency-Key")]


# People -------------------------------------------------------------------------------------------


@router.get("/me", tags=["people"])
def me(who: Anybody) -> Record:
    """Who you are by your token, and what it may do."""
    return {"name": who.name, "role": who.role, "scope": who.scope}


@router.get("/people", tags=["people"])
def people(who: Overseer, office: Office) -> list[Record]:
    """All people and their roles."""
    return office.store.people()


@router.post("/people", tags=["people"], status_code=201)
def add_person(who: Officer, body: bodies.NewPerson, office: Office) -> Record:
    """Add a person."""
    office.store.add_person(who.name, body.name, body.role)
    return {"name": body.name, "role": body.role}


@router.post("/people/{name}/tokens", tags=["people"], status_code=201)
def make_token(who: Spender, name: str, body: bodies.NewToken, office: Office) -> Record:
    """Make a token; its text is shown only once and not stored.

    Officers make them for anybody; others for themselves, to read, and no longer than their own.
    """
    hours = 24 * body.days
    if who.role != "officer":
        if name != who.name or body.scope != "read":
            raise ForbiddenError("You may make reading tokens for yourself; ask an officer.")
        own = office.store.token(who.token) or {"expires": now()}
        left = datetime.fromisoformat(own["expires"]) - datetime.now(UTC)
        hours = min(hours, left.total_seconds() / 3600)
    text = access.make_token(
        office.store, who.name, name, hours=hours, scope=body.scope, label=body.label
    )
    return {"token": text, "person": name, "scope": body.scope}


@router.get("/tokens", tags=["people"])
def tokens(who: Anybody, office: Office) -> list[Record]:
    """Tokens, without their texts; of analysts, their own."""
    return office.store.tokens(who.name if who.role == "analyst" else None)


@router.delete("/tokens/{identity}", tags=["people"], status_code=204)
def revoke_token(who: Spender, identity: str, office: Office) -> None:
    """End a token now."""
    found = office.store.token(identity)
    if found is None or (who.role != "officer" and found["person"] != who.name):
        raise NotFoundError(f"There is no token {identity!r}.")
    office.store.revoke_token(who.name, identity)


# Data sets ----------------------------------------------------------------------------------------


@router.get("/files", tags=["data sets"])
def files(who: ReadingOfficer, office: Office) -> list[str]:
    """Files and folders of the data folder, by name."""
    root = Path(office.settings.data)
    found = (path.relative_to(root) for path in root.rglob("*"))
    return sorted(str(path) for path in found if not path.name.startswith("."))[:1000]


@router.get("/datasets", tags=["data sets"])
def datasets(who: Anybody, office: Office) -> list[Record]:
    """The data sets that you may see, with what is spent and left."""
    return [office.shown_to(who, one) for one in office.store.datasets() if office.sees(who, one)]


@router.post("/datasets", tags=["data sets"], status_code=201)
def register(who: Officer, body: bodies.NewDataset, office: Office) -> Record:
    """Register a data set; a worker then proposes its bounds."""
    name, budget = body.name, body.budget or body.name
    source = checked_source(office.settings, body.path)  # a worker looks whether it is there
    for one in office.store.datasets():
        if one["name"] == name:
            raise InvalidInputError(f"There is a data set {name!r} already.")
        if one["state"] == DatasetState.RETIRED or one["budget"] == budget:
            continue
        if hold_same_rows(office.settings, one["path"], source):  # they would count as others
            raise InvalidInputError(
                f"The data set {one['name']!r} is made of some of the same rows: share its budget, "
                f"{one['budget']!r}."
            )
    words: Record
    if body.budget:  # people who are in both data sets have one budget
        total = office.ledger.dataset(budget).total
        words = {"unit": str(total.unit), "relation": str(total.relation)}
    elif body.epsilon is None:
        raise InvalidInputError("State 'epsilon', or the 'budget' of another data set.")
    else:
        words = body.model_dump(include={"unit", "relation"})
        told = body.model_dump(include={"epsilon", "delta", "kind"})
        SharedBudget.create(office.ledger, budget, **told, **words)
    record = {
        **body.model_dump(include={"name", "target", "person", "protected", "why", "auto_approve"}),
        **words,
        "path": source,
        "budget": budget,
        "bounds": None,
        "confirmed": [],
        "created": now(),
        "by": who.name,
    }
    office.store.add_dataset(who.name, record, DatasetState.DESCRIBING)
    office.queue(who, name, {"kind": "describe"}, "to propose bounds")
    return office.shown_to(who, office.found(who, name))


@router.get("/datasets/{name}", tags=["data sets"])
def dataset(who: Anybody, name: str, office: Office) -> Record:
    """Schema, public facts and budget of a data set; never a row.

    Returns `bounds` (what is public of each column), who is `protected`, `unit` and `relation`, and
    `holdings`: the total and your quota, with `epsilon`, `spent` and `left`.
    """
    return office.shown_to(who, office.found(who, name))


@router.put("/datasets/{name}/columns/{column:path}", tags=["data sets"])
def confirm_column(
    who: Officer, name: str, column: str, body: bodies.ColumnFacts, office: Office
) -> Record:
    """Declare what is public about one column."""
    facts = body.model_dump(exclude_none=True, exclude_unset=True)
    found, bounds = _proposed(office, name)
    record = dict(found["bounds"])
    if facts and column != bounds.person and not facts.get("type"):
        raise InvalidInputError("State the 'type' too: the proposed one was taken from the rows.")
    if bounds.target is not None and bounds.target.name == column:
        record["target"] = {"column": column, **facts} if facts else record["target"]
        Target.from_record(as_tuples(record["target"]))
    elif column == bounds.person:
        record |= {key: facts[key] for key in ("person_rows", "per_person") if key in facts}
        TableBounds.from_record(as_tuples(record))
    else:
        if column not in record["columns"]:
            raise NotFoundError(f"The data set {name!r} has no column {column!r}.")
        changed = facts or record["columns"][column]
        Column.from_record(column, as_tuples(changed))
        record["columns"] = {**record["columns"], column: changed}
    confirmed = sorted({*found["confirmed"], column})
    office.store.change_dataset(
        *(who.name, name, {"bounds": record, "confirmed": confirmed}),
        action="confirm column",
        detail={"column": column, "facts": facts},
    )
    return office.shown_to(who, office.found(who, name))


@router.put("/datasets/{name}/format", tags=["data sets"])
def confirm_format(who: Officer, name: str, body: bodies.FileFormat, office: Office) -> Record:
    """Declare how the file is written, its words for "missing" among it."""
    facts = body.model_dump(exclude_unset=True)
    found, _ = _proposed(office, name)
    record = dict(found["bounds"])
    if facts:
        record["file"] = {key: value for key, value in facts.items() if value is not None}
        TextFormat.from_record(as_tuples(record["file"]))
    office.store.change_dataset(
        *(who.name, name, {"bounds": record, "format_confirmed": True}),
        action="confirm format",
        detail=facts,
    )
    return office.shown_to(who, office.found(who, name))


@router.post("/datasets/{name}/open", tags=["data sets"])
def open_dataset(who: Officer, name: str, body: bodies.OpenDataset, office: Office) -> Record:
    """Open a data set whose columns are all confirmed."""
    found, bounds = _proposed(office, name)
    missing = [one for one in columns_of(bounds) if one not in found["confirmed"]]
    if bounds.text is not None and not found.get("format_confirmed"):
        missing.append("how the file is written")
    if missing:
        raise InvalidInputError(f"Not confirmed yet: {', '.join(missing)}.")
    if found["unit"] == "person" and bounds.person is None:
        raise InvalidInputError(
            "Unit 'person' needs the column of IDs. Register the data set again with 'person', "
            "and share this budget."
        )
    record = {**found["bounds"], "confirmed": True}
    if body.one_row_per_person:
        record["one_row_per_person"] = True
    TableBounds.from_record(as_tuples(record)).require_confirmed()
    record.pop("looks_like_ids", None)  # read off the rows, and answered by now
    office.store.change_dataset(
        *(who.name, name, {"bounds": record, "notes": {}}), action="open", state=DatasetState.OPEN
    )
    return office.shown_to(who, office.found(who, name))


@router.put("/datasets/{name}/quotas/{analyst}", tags=["data sets"])
def set_quota(who: Officer, name: str, analyst: str, body: bodies.Quota, office: Office) -> Record:
    """Set what an analyst may spend, and until when; what was spent stays counted."""
    budget = SharedBudget(office.ledger, office.store.dataset(name)["budget"])
    if office.store.person(analyst)["role"] != "analyst":
        raise InvalidInputError(f"{analyst!r} is not an analyst.")
    budget.set_quota(analyst, epsilon=body.epsilon, until=body.until)
    office.store.note(who.name, "set quota", name, {"analyst": analyst, **body.model_dump()})
    return office.shown_to(who, office.found(who, name))


@router.put("/datasets/{name}/automatic-approval", tags=["data sets"])
def set_auto_approval(who: Officer, name: str, body: bodies.AutoApproval, office: Office) -> Record:
    """Set the epsilon up to which a request needs no officer."""
    office.store.change_dataset(
        *(who.name, name, {"auto_approve": body.epsilon}),
        action="set automatic approval",
        detail={"epsilon": body.epsilon},
    )
    return office.shown_to(who, office.found(who, name))


@router.post("/datasets/{name}/retire", tags=["data sets"])
def retire(who: Officer, name: str, office: Office) -> Record:
    """End a data set: its rows are deleted, its ledger is kept."""
    for job in office.store.jobs(dataset=name):
        if job["state"] in (JobState.WAITING, JobState.QUEUED):
            office.store.move_job(who.name, job["id"], JobState.CANCELLED, reason="retired")
    office.store.change_dataset(
        who.name, name, {"auto_approve": 0.0}, action="retire", state=DatasetState.RETIRED
    )
    office.queue(who, name, {"kind": "delete"}, "to delete its rows")
    return office.shown_to(who, office.found(who, name))


def _proposed(office: ServiceApi, name: str) -> tuple[Record, TableBounds]:
    found = office.store.dataset(name)
    if found["state"] != DatasetState.PROPOSED:
        raise InvalidInputError(
            f"The data set {name!r} is {found['state']}; bounds are confirmed before it is opened "
            "and never changed afterwards."
        )
    return found, TableBounds.from_record(as_tuples(found["bounds"]))


@router.get("/datasets/{name}/charges", tags=["data sets"])
def charges(who: Overseer, name: str, office: Office) -> list[Record]:
    """Who spent what, when and for which purpose."""
    budget = office.ledger.dataset(office.store.dataset(name)["budget"])
    return [one.to_dict() for one in budget.history()]


@router.get("/datasets/{name}/dummy", tags=["data sets"], response_class=Response)
def dummy_rows(
    who: Anybody, name: str, office: Office, rows: Annotated[int, Query(ge=1, le=10_000)] = 200
) -> Response:
    """Rows made from the bounds alone, as CSV: try your code out before you spend."""
    from pyarrow import csv

    bounds = TableBounds.from_record(as_tuples(office.found(who, name, is_open=True)["bounds"]))
    buffer = io.BytesIO()
    csv.write_csv(dummy_table(bounds, rows), buffer)
    named = {"Content-Disposition": f'attachment; filename="{name}-dummy.csv"'}
    return Response(buffer.getvalue(), media_type="text/csv", headers=named)


# Jobs ---------------------------------------------------------------------------------------------


@router.get("/datasets/{name}/plan", tags=["jobs"])
def plan(
    who: Anybody,
    name: str,
    office: Office,
    epsilon: Annotated[float, Query(gt=0, le=100, allow_inf_nan=False)],
    delta: Annotated[float | None, Query(ge=0, lt=0.1, allow_inf_nan=False)] = None,
    kind: bodies.Kind = "fit",
) -> Record:
    """What a request would cost and leave; nothing is read or charged.

    Returns whether it `fits`, whether it `needs_approval`, and what total and quota are `after` it.
    One run of a search has `epsilon_of_a_run` for its model. The cost is that of a Gaussian release
    of this epsilon and delta, which most tasks are; the charge is made by what is released.
    """
    found = office.found(who, name, is_open=True)
    delta, event, steps = office.steps(who, found, kind, epsilon, delta)
    after = [
        {
            **later.to_dict(),
            "fits": not later.has_ended and later.filter.admits(later.cost),
            "has_ended": later.has_ended,
            "costs": later.filter.share(Cost(later.cost.amount - held.cost.amount)),
        }
        for held, later in steps
    ]
    return {
        "epsilon": epsilon,
        "delta": delta,
        "after": after,
        "fits": all(one["fits"] for one in after) and (len(steps) > 1 or who.role != "analyst"),
        "needs_approval": epsilon > found["auto_approve"],
        "epsilon_of_a_run": epsilon if kind != "search" else epsilon_of_a_run(event, delta),
    }


@router.post("/datasets/{name}/jobs", tags=["jobs"], status_code=202)
def submit(
    who: Analyst,
    _turn: Turn,
    name: str,
    body: bodies.NewJob,
    office: Office,
    idempotency_key: Key = None,
) -> Record:
    """Ask for a release. With an Idempotency-Key a retry gives the same job.

    Returns the job: its `id`, and its `state`, waiting (for an officer) or queued (for a worker).
    It is rehearsed on dummy rows, charged, drawn and stored; only then its state is released, and
    `GET /releases/{id}` gives the release.
    """
    asked = body.model_dump()
    found = office.found(who, name, is_open=True)
    digest = sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    key = None if idempotency_key is None else f"{who.name} {name} {idempotency_key}"
    if key and (job := office.store.repeated_job(key, digest)):  # it may have spent the budget
        return shown(job)
    if body.kind == "explanation" and "lower" in (found["bounds"].get("target") or {}):
        asked["estimator"] = body.estimator or "PrivateAdditiveRegressor"
    task = checked_task(asked)
    delta, _, steps = office.steps(who, found, body.kind, body.epsilon, body.delta)
    if not all(not one.has_ended and one.filter.admits(one.cost) for _, one in steps):
        ended = [f" It ended on {held.until}." for held, _ in steps if held.has_ended]
        raise BudgetExceededError(
            "The budget or your quota does not allow a release of this epsilon."
            f"{''.join(ended)} Nothing was charged.",
            spent=steps[-1][0].spent,
            asked=body.epsilon,
            left=0.0,
        )
    state = JobState.WAITING if body.epsilon > found["auto_approve"] else JobState.QUEUED
    record = {"epsilon": body.epsilon, "delta": delta, "digest": digest}
    return office.queue(who, name, task, body.purpose, state=state, key=key, **record)


@router.get("/jobs", tags=["jobs"])
def jobs(who: Anybody, office: Office) -> list[Record]:
    """Your jobs; officers and auditors see all."""
    return [
        shown(one) for one in office.store.jobs(person=who.name if who.role == "analyst" else None)
    ]


@router.get("/jobs/{identity}", tags=["jobs"])
def job(who: Anybody, identity: str, office: Office) -> Record:
    """One job; its `state` says where it stands, its `reason` why it has ended.

    Waiting, queued and running go on. Released has a release. Declined, cancelled, refused (by the
    budget) and failed cost nothing. Lost was charged, and then nothing was shown.
    """
    found = office.store.job(identity)
    if who.role == "analyst" and found["person"] != who.name:
        raise NotFoundError(f"There is no job {identity!r}.")
    return shown(found)


@router.post("/jobs/{identity}/approve", tags=["jobs"])
def approve(who: Officer, identity: str, body: bodies.Decision, office: Office) -> Record:
    """Let a request go on to the workers."""
    return office.store.move_job(
        who.name, identity, JobState.QUEUED, reason=body.reason, decided_by=who.name
    )


@router.post("/jobs/{identity}/decline", tags=["jobs"])
def decline(who: Officer, identity: str, body: bodies.Decision, office: Office) -> Record:
    """Decline a request; nothing is charged."""
    return office.store.move_job(
        who.name, identity, JobState.DECLINED, reason=body.reason, decided_by=who.name
    )


@router.post("/jobs/{identity}/cancel", tags=["jobs"])
def cancel(who: Spender, identity: str, office: Office) -> Record:
    """End a job; what was charged stays charged."""
    job(who, identity, office)
    return shown(office.store.cancel_job(who.name, identity))


# Releases -----------------------------------------------------------------------------------------


@router.get("/releases", tags=["releases"])
def releases(who: Anybody, office: Office, dataset: str | None = None) -> list[Record]:
    """Releases of the data sets that you may see."""
    names = {one["name"] for one in office.store.datasets() if office.sees(who, one)}
    return [one for one in office.store.releases(dataset) if one["dataset"] in names]


@router.get("/releases/{identity}", tags=["releases"])
def release(who: Anybody, identity: str, office: Office) -> Record:
    """One release: its `guarantee`, and its `files` with what each of them is."""
    found = office.store.release(identity)
    if not office.sees(who, office.store.dataset(found["dataset"])):
        raise NotFoundError(f"There is no release {identity!r}.")
    return found


@router.get("/releases/{identity}/files/{file}", tags=["releases"], response_class=FileResponse)
def release_file(who: Anybody, identity: str, file: str, office: Office) -> FileResponse:
    """One file of a release: model, table, guarantee or certificate."""
    if file not in release(who, identity, office)["files"]:
        raise NotFoundError(f"The release has no file {file!r}.")
    return FileResponse(office.settings.releases / identity / file, filename=f"{identity}-{file}")


@router.post("/releases/{identity}/ask", tags=["releases"])
def ask(who: Anybody, identity: str, body: bodies.Points, office: Office) -> Record:
    """Ask a released density or curve at points; computed from released numbers, for free."""
    model = load(Path(release_file(who, identity, "model.sfumato", office).path))
    is_curve = hasattr(model, "curve")
    width = 1 if is_curve else getattr(model, "n_features_in_", 0)
    is_right = all(len(one) == width and np.isfinite(one).all() for one in body.points)
    if not (is_curve or hasattr(model, "density")) or not is_right:
        raise InvalidInputError(
            "Only densities and curves can be queried, at finite points with one number per axis."
        )
    asked = np.asarray(body.points, dtype=np.float64)
    values = model.curve(asked[:, 0]) if is_curve else model.density(asked)
    return {"points": body.points, "values": np.asarray(values).tolist()}


# Audit --------------------------------------------------------------------------------------------


@router.get("/budgets", tags=["audit"])
def budgets(who: Anybody, office: Office) -> Record:
    """Totals and quotas; of analysts, their own."""
    names = {one["budget"] for one in office.store.datasets() if office.sees(who, one)}
    return {name: office.holdings(who, name) for name in sorted(names)}


@router.get("/audit", tags=["audit"])
def audit(
    who: Overseer, office: Office, last: Annotated[int, Query(ge=1, le=10_000)] = 500
) -> list[Record]:
    """What was done, by whom, the newest first."""
    return office.store.audit(last=last)


@router.get("/audit/verify", tags=["audit"])
def verify(who: Overseer, office: Office) -> Record:
    """Check every line of the ledger, all sums, and the audit log; gives the heads to note."""
    named = sorted({one["budget"] for one in office.store.datasets()})
    checked = office.ledger.verify() if named else None
    paid: set[str | None] = set()
    for name in named:
        budget = SharedBudget(office.ledger, name)
        budget.verify()
        paid |= {line.note.reference for line in budget.dataset.lines()}
    for one in office.store.releases():
        if one["id"] not in paid:
            raise LedgerTamperedError(
                f"The ledger has no charge for the release {one['id']}: it was replaced by an "
                "older copy. Stop releasing and restore the newest one."
            )
    return {
        "time": now(),
        "charges": 0 if checked is None else checked.charges,
        "heads": {} if checked is None else dict(checked.heads),
        "audit_head": office.store.verify_audit(),
    }


@router.get("/audit/statement", tags=["audit"])
def statement(who: Overseer, office: Office) -> Record:
    """Everything that was spent, and the heads, signed."""
    checked = verify(who, office)
    histories = {name: office.ledger.dataset(name).history() for name in checked["heads"]}
    content = {
        **checked,
        "budgets": budgets(who, office),
        "charges_by_budget": {n: [one.to_dict() for one in h] for n, h in histories.items()},
        "by": who.name,
    }
    key = office.settings.signing_key
    return signed(content, key) if key.exists() else content


for one in router.routes:  # who may use a route is part of its description
    if isinstance(one, APIRoute):
        guards = [each.call for each in one.dependant.dependencies if hasattr(each.call, "roles")]
        one.openapi_extra = {"x-roles": [role for guard in guards for role in guard.roles]}
