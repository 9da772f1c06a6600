"""Every verb of the service, once: a route of the API, and with a template a page of the same.

`verb` registers a function under ``/api/v1``, where it takes and answers JSON, and a page under the
same path without that prefix. Both take a token or a session. Nothing here reads a row.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.shared_budget import SharedBudget
from sfumato.models.saving import load
from sfumato.privacy.guarantee import Guarantee
from sfumato.report import LedgerExtract, Report, Result, SignatureBlock
from sfumato.report.certificate import signed
from sfumato.report.words import LIMITS, at_most, facts
from sfumato.service import charts
from sfumato.service.access import ROLES, Person, admit, person_of, signed_in
from sfumato.service.config import Delta, Epsilon, Line, decimal_point
from sfumato.service.office import Office
from sfumato.service.pages import page
from sfumato.service.store import NotFoundError, now
from sfumato.service.tasks import ESTIMATORS, check_task, settings_of
from sfumato.tables.columns import arrow_kind
from sfumato.tables.schema import TableBounds
from sfumato.tables.text import IN_THOUSANDS

Record = dict[str, Any]
KINDS = {
    "fit": "Model that predicts the target",
    "statistic": "Counts, means and other statistics",
    "fabricate": "Fabricated (synthetic) rows",
    "density": "Density of a column",
}
TYPES = {
    "double": "number",
    "int64": "whole number",
    "string": "text",
    "bool": "true or false",
    "date32[day]": "date",
    "timestamp[s]": "date and time",
}
TYPED = {"lower", "upper", "fill", "categories", "labels"}
PLAN_PATIENCE = 60.0  # seconds
REPORT_CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox allow-downloads"


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    @model_validator(mode="before")
    @classmethod
    def _is_unicode(cls, body: Any) -> Any:
        json.dumps(body, ensure_ascii=False).encode()  # a lone surrogate could never be shown
        return body


class NewJob(_Body):
    """A request for a release."""

    kind: Literal["statistic", "fit", "fabricate", "density"] = "fit"
    estimator: str | None = Field(None, max_length=64, description="By default chosen by kind.")
    parameters: dict[str, Any] = Field({}, max_length=40, description="Settings, by name.")
    columns: list[Line] = Field([], max_length=100, description="For a density or a statistic.")
    by: list[Line] = Field([], max_length=8, description="Groups, for a statistic.")
    rows: int | None = Field(None, ge=1, le=10**6, description="Rows to fabricate.")
    epsilon: Epsilon = Field(description="Epsilon of this release alone.")
    delta: Delta | None = Field(None, description="By default the delta of the budget.")
    purpose: Line = Field(min_length=3, description="Officers and the ledger read it.")


class Opening(_Body):
    """All that is public about a table, confirmed at once."""

    columns: dict[Line, Record] = Field(max_length=10_000, description="As in a bounds file.")
    target: Record | None = None
    file: Record | None = Field(None, description="How the table's file is written.")
    person_rows: int | None = Field(None, ge=1, le=10**6, description="Of one person.")
    per_person: Literal["average", "sum"] | None = None
    one_row_per_person: bool = Field(False, description="No person has a second row.")
    epsilon: Epsilon | None = Field(None, description="In a studio: the total.")
    protected: Line | None = Field(None, description="In a studio: who is protected.")


class Decision(_Body):
    """Whether a request is approved, and why."""

    approve: bool
    reason: Line = Field(default="", description="Shown to the analyst and kept.")


class Proposal(_Body):
    """Of which column the values are to be predicted."""

    target: Line | None = None


@dataclass(frozen=True)
class Asked:
    """A request: who asks, which the guard of the route finds, and of which office."""

    request: Request

    @property
    def office(self) -> Office:
        office: Office = self.request.app.state.office
        return office

    @property
    def who(self) -> Person:
        who: Person = self.request.state.who
        return who


async def asked(request: Request) -> Asked:
    """Return the request; a class would be called in a thread."""
    return Asked(request)


Call = Annotated[Asked, Depends(asked)]
api = APIRouter(prefix="/api/v1")
pages = APIRouter(include_in_schema=False)


def allowed(*roles: str, writes: bool) -> Callable[[Request], None]:
    """Return the guard of a route: a token or a session of one of `roles`."""

    def guard(request: Request) -> None:
        office: Office = request.app.state.office
        who = signed_in(request, office.settings, office.store)
        if not who.has(*roles) or (writes and who.scope != "write"):
            raise HTTPException(403, "Your role or the scope of your token does not allow it.")
        request.state.who = who

    return guard


def verb(
    method: str,
    path: str,
    *roles: str,
    template: str | None = None,
    in_api: bool = True,
    tag: str = "data sets",
    status: int = 200,
    at: str | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a route of the API, and what it returns as a page or a file."""
    guard = allowed(*(roles or ROLES), writes=method != "GET")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def shown(call: Asked, result: Any) -> Any:
            if template is None or isinstance(result, Response) or not _is_page(call):
                return result
            return page(call.request, template, call.who, **result)

        @functools.wraps(function)
        async def answer(*positional: Any, call: Asked, **named: Any) -> Any:
            if inspect.iscoroutinefunction(function):
                return shown(call, await function(*positional, call=call, **named))

            def work() -> Any:  # one turn of one thread
                if method == "GET":
                    guard(call.request)
                return shown(call, function(*positional, call=call, **named))

            # Writers wait for each other, and are not to take the threads of readers.
            limit = call.request.app.state.writers if method == "POST" else None
            return await to_thread.run_sync(work, limiter=limit)

        # Of a body, nothing is said to strangers.
        guards = [Depends(guard)] if method == "POST" else []
        words: Any = {"methods": [method], "dependencies": guards, "response_model": None}
        if in_api:
            extra = {"x-roles": list(roles or ROLES)}
            api.add_api_route(
                path, answer, tags=[tag], status_code=status, openapi_extra=extra, **words
            )
        if template is not None or method == "GET":
            pages.add_api_route(at or path, answer, **words)
        return function

    return register


def _is_page(call: Asked) -> bool:
    return not call.request.url.path.startswith(api.prefix)


def as_typed(name: str, facts: Record) -> Record:
    """Return what is declared about a column in the types of the column; forms send texts."""
    kind = arrow_kind(facts["type"]) if facts.get("type") in TYPES else ""

    def typed(value: Any) -> Any:
        if isinstance(value, list):
            return [typed(one) for one in value]
        if not isinstance(value, str) or not kind:
            return value
        if kind == "b":
            return value.lower() in ("true", "1", "yes")
        if IN_THOUSANDS.fullmatch(value):
            bare = re.sub("[.,]", "", value)
            raise InvalidInputError(f"{name}: {value!r} may be {bare} or {value}0. Write it so.")
        try:
            found = float(decimal_point(value))
        except ValueError:
            raise InvalidInputError(f"{name}: {value!r} is not a number.") from None
        return int(found) if kind in ("i", "u") and found.is_integer() else found

    if facts.get("left_out"):
        return {"type": facts.get("type"), "left_out": True}
    told = {key: typed(facts[key]) for key in facts.keys() & TYPED}
    return {**facts, **told}


# Data sets ----------------------------------------------------------------------------------------


@verb("GET", "/me", tag="people")
def me(call: Call) -> Record:
    """Who you are by your token, and what it may do."""
    return {"name": call.who.name, "role": call.who.role, "scope": call.who.scope}


@verb("GET", "/datasets", template="home.html", at="/")
def datasets(call: Call) -> Any:
    """The data sets that you may see, with what is spent and left."""
    names = [one["name"] for one in call.office.store.find("data set")]
    found = [
        call.office.shown_to(call.who, one) for one in names if call.office.sees(call.who, one)
    ]
    if call.office.settings.is_studio and found and _is_page(call):
        return RedirectResponse(f"/datasets/{found[0]['name']}", 303)
    return {"datasets": found}


@verb("GET", "/datasets/{name}", template="dataset.html")
def dataset(call: Call, name: str) -> Any:
    """Schema, public facts, budget and releases of a data set; never a row."""
    found = call.office.shown_to(call.who, name)
    is_proposed = found["state"] == "proposed"
    if is_proposed and call.office.settings.is_studio and _is_page(call):
        return RedirectResponse(f"/datasets/{name}/confirm", 303)
    exact = None
    if call.who.has("officer", "auditor") and found["holdings"]:
        exact = call.office.budget(found).dataset.spent()
    return {"dataset": found, "releases": releases(call, name)["releases"], "exact": exact}


@verb("GET", "/datasets/{name}/confirm", "officer", template="confirm.html", in_api=False)
def confirm(call: Call, name: str) -> Any:
    """Read the proposed bounds of all columns."""
    found = call.office.shown_to(call.who, name)
    if found["state"] != "proposed":
        return RedirectResponse(f"/datasets/{name}", 303)
    return {"dataset": found, "types": TYPES}


@verb("POST", "/datasets/{name}/describe", "officer")
def describe(call: Call, name: str, body: Proposal) -> Record:
    """Propose bounds anew, in a studio with another column to predict."""
    found = call.office.found(call.who, name)
    changes: Record = {"reason": "", "state": "describing"}
    if call.office.settings.is_studio:
        changes["target"] = body.target or None
    call.office.store.change(call.who.name, "data set", name, "describe again", **changes)
    task = {"kind": "describe"}
    call.office.queue(call.who.name, found["name"], task, "bounds", state="asked")
    return {"name": name}


@verb("POST", "/datasets/{name}/open", "officer")
def open_dataset(call: Call, name: str, body: Opening) -> Record:
    """Confirm all bounds and open the data set; they are never changed afterwards."""
    office, found = call.office, call.office.found(call.who, name)
    if found["state"] != "proposed":
        raise InvalidInputError(f"The data set {name!r} is {found['state']}; nothing is changed.")
    proposed = found["bounds"]
    if set(body.columns) != set(proposed["columns"]):
        raise InvalidInputError("State all columns of the table, and no others.")
    if proposed.get("file") and body.file is None:
        raise InvalidInputError("'file' must say how missing cells are written.")
    target = proposed.get("target")
    columns = {column: as_typed(column, facts) for column, facts in body.columns.items()}
    record = {**proposed, "columns": columns, "confirmed": True}
    if target is not None:
        facts = as_typed(target["column"], body.target or {})
        record["target"] = {**facts, "column": target["column"]}
    if body.file is not None:
        record["file"] = {key: value for key, value in body.file.items() if value not in (None, "")}
    about_persons = {"person_rows", "per_person", "one_row_per_person"}
    record |= body.model_dump(include=about_persons, exclude_defaults=True)
    record["confirmed_by"] = call.who.name
    bounds = TableBounds.from_record(record)
    bounds.require_confirmed()
    if found["unit"] == "person" and bounds.person is None:
        raise InvalidInputError("Unit 'person' needs the column of IDs: 'person' in service.toml.")
    record["seal"] = bounds.seal
    record.pop("looks_like_ids", None)  # read off the rows, and answered by now
    changes: Record = {"bounds": record, "notes": {}, "opened": True, "confirmed_by": call.who.name}
    if office.settings.is_studio:
        changes |= {"epsilon": body.epsilon or found["epsilon"]}
        changes |= {"protected": body.protected or found["protected"]}
    facts_of = {**found, **changes}
    budget = found["budget"]
    if budget == name and not office.has_budget(name):  # else a start was cut short
        asked = {key: facts_of[key] for key in ("epsilon", "delta", "unit", "relation", "kind")}
        SharedBudget.create(office.ledger, budget, **asked)
    elif budget != name and budget not in office.budgets():
        raise InvalidInputError(f"Open the data set {budget!r} first: its budget is shared.")
    words: Record = {"state": "open", "detail": {"bounds": record}}
    office.store.change(call.who.name, "data set", name, "open", **words, **changes)
    office.sync()
    return {"name": name}


# Requests -----------------------------------------------------------------------------------------


@verb("GET", "/datasets/{name}/ask", "analyst", template="ask.html", in_api=False)
def ask_page(call: Call, name: str) -> Record:
    """Show the request form."""
    found = call.office.found(call.who, name, is_open=True)
    is_number = "lower" in (found["bounds"].get("target") or {})
    ends = ("Regressor",) if is_number else ("Classifier",)
    fits = [one for one in ESTIMATORS["fit"] if one.endswith(ends)]
    has_target = bool(found["bounds"].get("target"))
    columns = TableBounds.from_record(found["bounds"]).used
    dates = [f"{one.name}.{part}" for one in columns for part in one.parts or ()]
    target = [found["bounds"]["target"]["column"]] if has_target else []
    plain = [one.name for one in columns if not one.parts]
    return {
        "statistics": ESTIMATORS["statistic"],
        "numbers": [one.name for one in columns if one.categories is None and not one.parts],
        "groups": [*plain, *target, *dates],
        "dataset": call.office.shown_to(call.who, name),
        "kinds": {k: v for k, v in KINDS.items() if has_target or k != "fit"},
        "estimators": fits,
        "settings": {one: ", ".join(sorted(settings_of(one))) for one in fits},
        "key": secrets.token_hex(16),
    }


def _task(found: Record, body: NewJob) -> tuple[Record, float]:
    """Return the checked task and the delta of a request."""
    task = body.model_dump(exclude={"epsilon", "delta", "purpose"})
    is_number = "lower" in (found["bounds"].get("target") or {})
    default = "PrivateAdditiveRegressor" if is_number else ESTIMATORS["fit"][0]
    default = default if body.kind == "fit" else ESTIMATORS[body.kind][0]
    task["estimator"] = body.estimator or default
    check_task(task)
    return task, found["delta"] if body.delta is None else body.delta


@verb("POST", "/datasets/{name}/plan", "analyst", template="cost.html", tag="jobs")
async def plan(call: Call, name: str, body: NewJob) -> Record:
    """What a request would cost by its own mechanism, and leave; no row is read.

    Returns whether it `fits`, what total and quota are `after` it, the `largest` epsilon that still
    fits, what the best `attacker` could do, and whether it `needs_approval`.
    """
    office, who = call.office, call.who
    found = await asyncio.to_thread(office.found, who, name, is_open=True)
    task, delta = _task(found, body)
    if call.request.app.state.plans.get(who.name, 0) >= 3:
        raise HTTPException(429, "Three of your previews are still running. Try again in a moment.")
    call.request.app.state.plans[who.name] = call.request.app.state.plans.get(who.name, 0) + 1
    try:
        words: Any = {"epsilon": body.epsilon, "delta": delta, "state": "asked"}
        wanted = {"kind": "plan", "of": task}
        job = await asyncio.to_thread(office.queue, who.name, name, wanted, "preview", **words)
        for _ in range(int(PLAN_PATIENCE / 0.05)):
            await asyncio.sleep(0.05)
            job = await asyncio.to_thread(office.store.get, "job", job["id"])
            if job["state"] not in ("asked", "running"):
                break
        await asyncio.to_thread(office.store.forget, job["id"])
    finally:
        call.request.app.state.plans[who.name] -= 1
    told = job.get("plan") or {"problem": job.get("reason") or "The workers are busy. Try again."}
    if "problem" in told:
        raise InvalidInputError(told["problem"])
    told["needs_approval"] = office.needs_approval(found, body.epsilon, delta)
    told["unit"] = found["unit"]
    return {"epsilon": body.epsilon, "delta": delta, **told}


@verb("POST", "/datasets/{name}/jobs", "analyst", tag="jobs", status=202)
def submit(call: Call, name: str, body: NewJob) -> Record:
    """Ask for a release. With an Idempotency-Key a retry gives the same job.

    It is rehearsed on dummy rows, which says what it costs; then it waits for an officer or goes on
    at once. It is charged, drawn and stored; only then its state is released.
    """
    found = call.office.found(call.who, name, is_open=True)
    task, delta = _task(found, body)
    given = call.request.headers.get("idempotency-key") or call.request.query_params.get("key")
    key = None if not given else f"{call.who.name} {name} {given[:200]}"
    text = json.dumps([task, body.epsilon, delta, body.purpose], sort_keys=True)
    digest = sha256(text.encode()).hexdigest()
    record: Any = {"epsilon": body.epsilon, "delta": delta, "digest": digest}
    return call.office.queue(call.who.name, name, task, body.purpose, key=key, **record)


@verb("GET", "/jobs", template="jobs.html", tag="jobs")
def jobs(call: Call, state: str | None = None) -> Record:
    """Your jobs; officers and auditors see all."""
    sees_all = call.who.has("officer", "auditor")
    find, person = call.office.store.find, None if sees_all else call.who.name
    found = find("job", None if state else 1000, person=person, state=state)
    told = [one for one in found if "estimator" in one["task"]]
    waiting = find("job", None, state="waiting") if call.who.has("officer") else []
    return {"jobs": told, "waiting": waiting}


@verb("GET", "/jobs/{identity}", template="job.html", tag="jobs")
def job(call: Call, identity: str) -> Record:
    """One job; its `state` says where it stands, its `reason` why it has ended.

    Waiting, queued and running go on. Released has a release. Declined, cancelled, refused (by the
    budget) and failed cost nothing. Lost was charged, and then nothing was shown.
    """
    found = call.office.store.get("job", identity)
    is_own = call.who.has("officer", "auditor") or found["person"] == call.who.name
    if not is_own or "estimator" not in found["task"]:
        raise NotFoundError(f"There is no job {identity!r}.")
    told = {"reason": "", "cost": None, "phase": None, **found}
    return told | {"about": call.office.dataset(found["dataset"])} if _is_page(call) else told


@verb("POST", "/jobs/{identity}/decide", "officer", tag="jobs")
def decide(call: Call, identity: str, body: Decision) -> Record:
    """Approve a request that waits, or decline it; a declined one costs nothing."""
    state = "queued" if body.approve else "declined"
    store, who = call.office.store, call.who
    found = store.get("job", identity)
    if found["person"] == who.name and who.role != "owner":
        raise HTTPException(403, "You cannot decide on your own request.")
    words: Record = {"reason": body.reason, "decided_by": who.name, "changed": now()}
    words["only"] = "waiting"  # one that runs must not be queued a second time
    return store.change(who.name, "job", identity, f"job {state}", state=state, **words)


@verb("POST", "/jobs/{identity}/cancel", "officer", "analyst", tag="jobs")
def cancel(call: Call, identity: str) -> Record:
    """End a job; what was charged stays charged."""
    job(call, identity)
    return call.office.store.cancel(call.who.name, identity)


# Releases -----------------------------------------------------------------------------------------


@verb("GET", "/releases", tag="releases")
def releases(call: Call, dataset: str | None = None) -> Record:
    """Releases of the data sets that you may see."""
    found = call.office.store.find("release", dataset=dataset)
    seen = {name: call.office.sees(call.who, name) for name in {one["dataset"] for one in found}}
    return {"releases": [one for one in found if seen[one["dataset"]]]}


@verb("GET", "/releases/{identity}", template="release.html", tag="releases")
def release(call: Call, identity: str) -> Record:
    """One release: its `guarantee`, its `files`, and the numbers of its `charts`."""
    found = _release(call, identity)
    told = {"note": "", "columns": [], "preview": [], **_charts(call, identity)}
    promised = Guarantee.from_dict(found["guarantee"])
    return {
        **found,
        **told,
        "specs": [charts.spec({"": one}) for one in told["charts"] if one["rows"]],
        "sentence": str(promised),
        "facts": facts(promised),
        "limits": list(LIMITS),
        "protected": call.office.dataset(found["dataset"])["protected"],
    }


def _release(call: Asked, identity: str) -> Record:
    found = call.office.store.get("release", identity)
    if not call.office.sees(call.who, found["dataset"]):
        raise NotFoundError(f"There is no release {identity!r}.")
    return found


def _charts(call: Asked, identity: str) -> Record:
    path = call.office.settings.releases / identity / "charts.json"
    found: Record = json.loads(path.read_text()) if path.exists() else {"charts": []}
    return found


@verb("GET", "/compare", template="compare.html", in_api=False)
def compare(call: Call, release: Annotated[list[str], Query(max_length=6)] = []) -> Record:  # noqa: B006
    """Releases side by side: settings, guarantees, and their curves in one chart each."""
    found = [_release(call, identity) for identity in dict.fromkeys(release)]
    by_title: dict[tuple[str, str], dict[str, Any]] = {}
    for place, one in enumerate(found, 1):
        name = f"{place}. {one['purpose'][:40]} (ε {at_most(one['guarantee']['epsilon'])})"
        for chart in _charts(call, one["id"])["charts"]:
            if chart["rows"]:
                by_title.setdefault((chart["title"], chart["form"]), {})[name] = chart
    rows = [{**one, "facts": dict(facts(Guarantee.from_dict(one["guarantee"])))} for one in found]
    return {"releases": rows, "specs": [charts.spec(one) for one in by_title.values()]}


@verb("GET", "/releases/{identity}/files/{file}", tag="releases")
def release_file(call: Call, identity: str, file: str) -> FileResponse:
    """One file of a release: model, table, guarantee or certificate."""
    if file not in _release(call, identity)["files"]:
        raise NotFoundError(f"The release has no file {file!r}.")
    path = call.office.settings.releases / identity / file
    return FileResponse(path, filename=f"{identity}-{file}")


# Audit --------------------------------------------------------------------------------------------


@verb("GET", "/datasets/{name}/report", "officer", "auditor", tag="audit")
def report(call: Call, name: str) -> Response:
    """The privacy report of all releases of a data set, to read, print and sign."""
    found, rows = call.office.found(call.who, name), []
    for one in reversed(releases(call, name)["releases"]):
        path = call.office.settings.releases / one["id"] / "model.sfumato"
        model = load(path) if "explanation.json" in one["files"] else None
        approver = one.get("approved_by") or "the rule of automatic approval"
        notes = (f"{one['class']} for {one['person']}", f"approved by {approver}")
        promised = Guarantee.from_dict(one["guarantee"])
        explained = None if model is None else model.explain()
        rows.append(Result(one["purpose"], promised, notes, explained, f"{one['id']}.sfumato"))
    service, budget = call.office.settings.config.service, call.office.budget(found)
    total, composed = budget.holdings()[0], f"epsilon {at_most(budget.dataset.spent())}"
    left = max(total.filter.epsilon - total.spent, 0.0)
    kept = None if service.keep_days is None else f"{service.keep_days} days"
    written = Report(
        f"Privacy report of {name}",
        tuple(rows),
        settings={
            "protected": found["protected"],
            "why this budget": found["why"],
            "composed, had all releases been fixed in advance": composed,
        },
        ledger=replace(LedgerExtract.of(budget.dataset), spent=total.spent, left=left),
        office=SignatureBlock(
            service.controller, call.who.name, found.get("confirmed_by"), kept, found.get("n_rows")
        ),
    )
    return HTMLResponse(written.to_html(), headers={"Content-Security-Policy": REPORT_CSP})


@verb("GET", "/datasets/{name}/dpia", "officer", "auditor", template="dpia.html", in_api=False)
def dpia(call: Call, name: str) -> Record:
    """Answers to the questions of an impact assessment (GDPR, Art. 35), from released facts."""
    found = call.office.shown_to(call.who, name)
    return {
        "dataset": found,
        "releases": releases(call, name)["releases"],
        "service": call.office.settings.config.service,
        "limits": list(LIMITS),
    }


@verb("GET", "/audit", "officer", "auditor", template="audit.html", tag="audit")
def audit(call: Call, last: Annotated[int, Query(ge=1, le=10_000)] = 200) -> Record:
    """Whether every line is intact, who spent what, and what was done, the newest first."""
    office = call.office
    budgets = {name: SharedBudget(office.ledger, name) for name in office.budgets()}
    key = office.settings.key_for("web")
    public = None if key is None else Path(f"{key}.pub").read_text().strip()
    return {
        "checked": office.verify(),
        "holdings": {b: [one.to_dict() for one in s.holdings()] for b, s in budgets.items()},
        "charges": {b: [one.to_dict() for one in s.dataset.history()] for b, s in budgets.items()},
        "lines": office.store.audit(last),
        "public_key": public,
        "key_fingerprint": public and sha256(public.encode()).hexdigest(),
    }


@verb("GET", "/audit/statement", "officer", "auditor", tag="audit")
def statement(call: Call) -> Response:
    """Everything that was spent, and the heads, signed."""
    told = audit(call)
    content = {**told["checked"], "budgets": told["holdings"], "by": call.who.name}
    content["charges_by_budget"] = told["charges"]
    key = call.office.settings.key_for("web")
    headers = {"Content-Disposition": 'attachment; filename="statement.json"'}
    return JSONResponse(content if key is None else signed(content, key), headers=headers)


# The way in and out -------------------------------------------------------------------------------


@pages.get("/sign-in")
def sign_in_page(request: Request, token: str = "") -> Response:
    """Show the form; a studio's own link signs its one person in."""
    admit(request)
    office: Office = request.app.state.office
    if office.settings.is_studio and token:
        request.session["token"] = person_of(office.settings, office.store, token).token
        return RedirectResponse("/", 303)
    return page(request, "sign_in.html")


@pages.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Change a token for a session, which may do what the token may, as long as it may."""
    admit(request)
    token = str((await request.form()).get("token", "")).strip()
    office: Office = request.app.state.office
    who = await asyncio.to_thread(person_of, office.settings, office.store, token)
    request.session["token"] = who.token
    return RedirectResponse("/", 303)


@pages.post("/sign-out")
def sign_out(request: Request) -> Response:
    """End the session; the token stays good for the next one."""
    request.session.clear()
    return RedirectResponse("/sign-in", 303)
