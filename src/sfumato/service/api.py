"""The API: every route with its roles; all of them call `Office`."""

from __future__ import annotations

import io
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import FileResponse, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from sfumato.service import bodies, curation
from sfumato.service.access import Person
from sfumato.service.auth import allowed, in_turn, office_of

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

Record = dict[str, Any]
Officer = Annotated[Person, Depends(allowed("officer"))]
Analyst = Annotated[Person, Depends(allowed("analyst"))]
Spender = Annotated[Person, Depends(allowed("officer", "analyst"))]
Overseer = Annotated[Person, Depends(allowed("officer", "auditor", writes=False))]
ReadingOfficer = Annotated[Person, Depends(allowed("officer", writes=False))]
Anybody = Annotated[Person, Depends(allowed("officer", "analyst", "auditor", writes=False))]
Turn = Annotated[None, Depends(in_turn)]  # after who asks is known
Key = Annotated[str | None, Header(max_length=200, alias="Idempotency-Key")]


@router.get("/me", tags=["people"])
def me(who: Anybody) -> Record:
    """Who you are by your token, and what it may do."""
    return {"name": who.name, "role": who.role, "scope": who.scope}


@router.get("/people", tags=["people"])
def people(who: Overseer, request: Request) -> list[Record]:
    """All people and their roles."""
    return office_of(request).people(who)


@router.post("/people", tags=["people"], status_code=201)
def add_person(who: Officer, body: bodies.NewPerson, request: Request) -> Record:
    """Add a person."""
    return office_of(request).add_person(who, body.name, body.role)


@router.post("/people/{name}/tokens", tags=["people"], status_code=201)
def make_token(who: Spender, name: str, body: bodies.NewToken, request: Request) -> Record:
    """Make a token; its text is shown only once and not stored."""
    return office_of(request).make_token(who, name, **body.model_dump())


@router.get("/tokens", tags=["people"])
def tokens(who: Anybody, request: Request) -> list[Record]:
    """Tokens, without their texts."""
    return office_of(request).tokens(who)


@router.delete("/tokens/{identity}", tags=["people"], status_code=204)
def revoke_token(who: Spender, identity: str, request: Request) -> None:
    """End a token now."""
    office_of(request).revoke_token(who, identity)


@router.get("/files", tags=["data sets"])
def files(who: ReadingOfficer, request: Request) -> list[str]:
    """Files and folders of the data folder, by name."""
    return office_of(request).files(who)


@router.get("/datasets", tags=["data sets"])
def datasets(who: Anybody, request: Request) -> list[Record]:
    """The data sets that you may see, with what is spent and left."""
    return office_of(request).datasets(who)


@router.post("/datasets", tags=["data sets"], status_code=201)
def register(who: Officer, body: bodies.NewDataset, request: Request) -> Record:
    """Register a data set; a worker then proposes its bounds."""
    return curation.register(office_of(request), who, body.model_dump())


@router.get("/datasets/{name}", tags=["data sets"])
def dataset(who: Anybody, name: str, request: Request) -> Record:
    """Schema, public facts and budget of a data set; never a row.

    Returns `bounds` (what is public of each column), who is `protected`, `unit` and `relation`, and
    `holdings`: the total and your quota, with `epsilon`, `spent` and `left`.
    """
    return office_of(request).dataset(who, name)


@router.put("/datasets/{name}/columns/{column:path}", tags=["data sets"])
def confirm_column(
    who: Officer, name: str, column: str, body: bodies.ColumnFacts, request: Request
) -> Record:
    """Declare what is public about one column."""
    return curation.confirm_column(office_of(request), who, name, column, body.given())


@router.put("/datasets/{name}/format", tags=["data sets"])
def confirm_format(who: Officer, name: str, body: bodies.FileFormat, request: Request) -> Record:
    """Declare how the file is written, its words for "missing" among it."""
    return curation.confirm_format(office_of(request), who, name, body.given())


@router.post("/datasets/{name}/open", tags=["data sets"])
def open_dataset(who: Officer, name: str, body: bodies.OpenDataset, request: Request) -> Record:
    """Open a data set whose columns are all confirmed."""
    return curation.open_dataset(
        office_of(request), who, name, one_row_per_person=body.one_row_per_person
    )


@router.put("/datasets/{name}/quotas/{analyst}", tags=["data sets"])
def set_quota(
    who: Officer, name: str, analyst: str, body: bodies.Quota, request: Request
) -> Record:
    """Set what an analyst may spend, and until when; what was spent stays counted."""
    return curation.set_quota(
        office_of(request), who, name, analyst, epsilon=body.epsilon, until=body.until
    )


@router.put("/datasets/{name}/automatic-approval", tags=["data sets"])
def set_auto_approval(
    who: Officer, name: str, body: bodies.AutoApproval, request: Request
) -> Record:
    """Set the epsilon up to which a request needs no officer."""
    return curation.set_auto_approval(office_of(request), who, name, body.epsilon)


@router.post("/datasets/{name}/retire", tags=["data sets"])
def retire(who: Officer, name: str, request: Request) -> Record:
    """End a data set: its rows are deleted, its ledger is kept."""
    return curation.retire(office_of(request), who, name)


@router.get("/datasets/{name}/charges", tags=["data sets"])
def charges(who: Overseer, name: str, request: Request) -> list[Record]:
    """Who spent what, when and for which purpose."""
    return office_of(request).charges(who, name)


@router.get("/datasets/{name}/dummy", tags=["data sets"], response_class=Response)
def dummy_rows(
    who: Anybody, name: str, request: Request, rows: Annotated[int, Query(ge=1, le=10_000)] = 200
) -> Response:
    """Rows made from the bounds alone, as CSV: try your code out before you spend."""
    from pyarrow import csv

    buffer = io.BytesIO()
    csv.write_csv(office_of(request).dummy_rows(who, name, rows), buffer)
    return Response(buffer.getvalue(), media_type="text/csv")


@router.get("/datasets/{name}/plan", tags=["jobs"])
def plan(
    who: Anybody,
    name: str,
    request: Request,
    epsilon: Annotated[float, Query(gt=0, le=100, allow_inf_nan=False)],
    delta: Annotated[float | None, Query(ge=0, lt=0.1, allow_inf_nan=False)] = None,
    kind: bodies.Kind = "fit",
) -> Record:
    """What a request would cost and leave; nothing is read or charged.

    Returns whether it `fits`, whether it `needs_approval`, and what total and quota are `after` it.
    One run of a search has `epsilon_of_a_run` for its model.
    """
    return office_of(request).plan(who, name, epsilon, delta, kind)


@router.post("/datasets/{name}/jobs", tags=["jobs"], status_code=202)
def submit(
    who: Analyst,
    _turn: Turn,
    name: str,
    body: bodies.NewJob,
    request: Request,
    idempotency_key: Key = None,
) -> Record:
    """Ask for a release. With an Idempotency-Key a retry gives the same job.

    Returns the job: its `id`, and its `state`, waiting (for an officer) or queued (for a worker).
    It is rehearsed on dummy rows, charged, drawn and stored; only then its state is released, and
    `GET /releases/{id}` gives the release.
    """
    return office_of(request).submit(who, name, body.model_dump(), idempotency_key)


@router.get("/jobs", tags=["jobs"])
def jobs(who: Anybody, request: Request) -> list[Record]:
    """Your jobs; officers and auditors see all."""
    return office_of(request).jobs(who)


@router.get("/jobs/{identity}", tags=["jobs"])
def job(who: Anybody, identity: str, request: Request) -> Record:
    """One job; its `state` says where it stands, its `reason` why it has ended.

    Waiting, queued and running go on. Released has a release. Declined, cancelled, refused (by the
    budget) and failed cost nothing. Lost was charged, and then nothing was shown.
    """
    return office_of(request).job(who, identity)


@router.post("/jobs/{identity}/approve", tags=["jobs"])
def approve(who: Officer, identity: str, body: bodies.Decision, request: Request) -> Record:
    """Let a request go on to the workers."""
    return office_of(request).decide(who, identity, approved=True, reason=body.reason)


@router.post("/jobs/{identity}/decline", tags=["jobs"])
def decline(who: Officer, identity: str, body: bodies.Decision, request: Request) -> Record:
    """Decline a request; nothing is charged."""
    return office_of(request).decide(who, identity, approved=False, reason=body.reason)


@router.post("/jobs/{identity}/cancel", tags=["jobs"])
def cancel(who: Spender, identity: str, request: Request) -> Record:
    """End a job; what was charged stays charged."""
    return office_of(request).cancel(who, identity)


@router.get("/releases", tags=["releases"])
def releases(who: Anybody, request: Request, dataset: str | None = None) -> list[Record]:
    """Releases of the data sets that you may see."""
    return office_of(request).releases(who, dataset)


@router.get("/releases/{identity}", tags=["releases"])
def release(who: Anybody, identity: str, request: Request) -> Record:
    """One release: its `guarantee`, and its `files` with what each of them is."""
    return office_of(request).release(who, identity)


@router.get("/releases/{identity}/files/{file}", tags=["releases"], response_class=FileResponse)
def release_file(who: Anybody, identity: str, file: str, request: Request) -> FileResponse:
    """One file of a release: model, table, guarantee or certificate."""
    place = office_of(request).release_file(who, identity, file)
    return FileResponse(place, filename=f"{identity}-{file}")


@router.post("/releases/{identity}/ask", tags=["releases"])
def ask(who: Anybody, identity: str, body: bodies.Points, request: Request) -> Record:
    """Ask a released density or curve at points; costs nothing."""
    return office_of(request).ask(who, identity, body.points)


@router.get("/budgets", tags=["audit"])
def budgets(who: Anybody, request: Request) -> Record:
    """Totals and quotas."""
    return office_of(request).budgets(who)


@router.get("/audit", tags=["audit"])
def audit(
    who: Overseer, request: Request, last: Annotated[int, Query(ge=1, le=10_000)] = 500
) -> list[Record]:
    """What was done, by whom, the newest first."""
    return office_of(request).audit(who, last)


@router.get("/audit/verify", tags=["audit"])
def verify(who: Overseer, request: Request) -> Record:
    """Check every line of the ledger, all sums, and the audit log; gives the heads to note."""
    return office_of(request).verify(who)


@router.get("/audit/statement", tags=["audit"])
def statement(who: Overseer, request: Request) -> Record:
    """Everything that was spent, and the heads, signed."""
    return office_of(request).statement(who)


for one in router.routes:  # who may use a route is part of its description
    if isinstance(one, APIRoute):
        guards = [each.call for each in one.dependant.dependencies if hasattr(each.call, "roles")]
        one.openapi_extra = {"x-roles": [role for guard in guards for role in guard.roles]}
