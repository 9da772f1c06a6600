"""What officers, analysts and auditors may do. Both doors, `api` and `studio`, call only this.

Nothing here reads a row: rows belong to `workers`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.cli.jobs.dummies import dummy_table
from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    LedgerTamperedError,
)
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.shared_budget import QuotaBalance, SharedBudget
from sfumato.models.saving import load
from sfumato.privacy.events import Event
from sfumato.privacy.filters import Cost
from sfumato.report.certificate import new_key, signed
from sfumato.service.access import ROLES, ForbiddenError, Person, make_token
from sfumato.service.curation import as_tuples, check_name, columns_of
from sfumato.service.plans import default_delta, epsilon_of_a_run, planned_event
from sfumato.service.settings import Settings
from sfumato.service.states import ENDED, DatasetState, JobState
from sfumato.service.store import NotFoundError, Store, now
from sfumato.service.tasks import checked_task
from sfumato.tables.schema import TableBounds

HIDDEN = ("path", "notes")  # of a data set, from those who are no officers


class ServiceApi:
    """The verbs of the service, each for a person with a role."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings.prepared()
        self.store = Store(settings.store_address)
        self.store.prepare()
        self.ledger = Ledger(settings.ledger_address, keep_open=True)
        if not settings.signing_key.exists():
            with suppress(ImportError, InvalidInputError):  # else nothing is signed
                new_key(settings.signing_key)

    # People ---------------------------------------------------------------------------------------

    def first_officer(self) -> str | None:
        """Return a one-time code of an officer, if none of them can sign in by now."""
        officers = [one["name"] for one in self.store.people() if one["role"] == "officer"]
        if not officers:
            self.store.add_person("service", "officer", "officer")
            officers = ["officer"]
        for token in self.store.tokens():
            is_good = not token["revoked"] and token["expires"] > now()
            if is_good and token["person"] in officers and token["scope"] in ("all", "session"):
                return None
        return make_token(
            self.store, "service", officers[0], hours=1, scope="one time", label="start"
        )

    def add_person(self, who: Person, name: str, role: str) -> dict[str, Any]:
        """Add a person (officers)."""
        who.require("officer")
        check_name("name", name)
        if role not in ROLES:
            raise InvalidInputError(f"'role' must be one of {', '.join(ROLES)}.")
        self.store.add_person(who.name, name, role)
        return self.store.person(name)

    def people(self, who: Person) -> list[dict[str, Any]]:
        """List people and roles (officers and auditors)."""
        who.require("officer", "auditor", writes=False)
        return self.store.people()

    def make_token(
        self, who: Person, person: str, *, days: float, scope: str, label: str
    ) -> dict[str, Any]:
        """Make a token (officers for anybody; others for themselves, to read, no longer than now).

        Whoever could make herself a longer or a stronger one would outlive her permission.
        """
        who.require("officer", "analyst")
        if scope not in ("all", "read"):
            raise InvalidInputError("'scope' must be 'all' or 'read'.")
        hours = 24 * days
        if who.role != "officer":
            if person != who.name or scope != "read":
                raise ForbiddenError("You may make reading tokens for yourself; ask an officer.")
            own = self.store.token(who.token) or {"expires": now()}
            left = datetime.fromisoformat(own["expires"]) - datetime.now(UTC)
            hours = min(hours, left.total_seconds() / 3600)
        text = make_token(self.store, who.name, person, hours=hours, scope=scope, label=label)
        return {"token": text, "person": person, "scope": scope}

    def tokens(self, who: Person) -> list[dict[str, Any]]:
        """List tokens (officers and auditors all, analysts their own)."""
        return self.store.tokens(None if who.role in ("officer", "auditor") else who.name)

    def revoke_token(self, who: Person, identity: str) -> None:
        """End a token (officers any, analysts their own)."""
        found = self.store.token(identity)
        if found is None or (who.role != "officer" and found["person"] != who.name):
            raise NotFoundError(f"There is no token {identity!r}.")
        who.require("officer", "analyst")
        self.store.revoke_token(who.name, identity)

    # Data sets ----------------------------------------------------------------------------------

    def files(self, who: Person) -> list[str]:
        """List what may be registered: files and folders in the data folder (officers)."""
        who.require("officer", writes=False)
        root = Path(self.settings.data)
        found = (path.relative_to(root) for path in root.rglob("*"))
        return sorted(str(path) for path in found if not path.name.startswith("."))[:1000]

    def datasets(self, who: Person) -> list[dict[str, Any]]:
        """List the data sets that a person may see."""
        return [self._seen(who, one) for one in self.store.datasets() if self._sees(who, one)]

    def dataset(self, who: Person, name: str) -> dict[str, Any]:
        """Return one data set: public facts and budgets, to officers also what is proposed."""
        found = self.store.dataset(name)
        if not self._sees(who, found):
            raise NotFoundError(f"There is no data set {name!r}.")
        return self._seen(who, found)

    def dummy_rows(self, who: Person, name: str, n_rows: int) -> Any:
        """Return rows made from the bounds alone, to try code out; nothing is charged."""
        found = self._open(who, name)
        return dummy_table(TableBounds.from_record(as_tuples(found["bounds"])), n_rows)

    def plan(
        self, who: Person, name: str, epsilon: float, delta: float | None, kind: str = "fit"
    ) -> dict[str, Any]:
        """Return what a request would cost, and what is left after it; nothing is read or charged.

        The cost is that of a Gaussian release of this epsilon and delta, which most tasks are, or
        of a search of such; the charge itself is made by what is released.
        """
        found = self._open(who, name)
        delta, event, steps = self._steps(who, found, kind, epsilon, delta)
        after = [
            {
                **later.to_dict(),
                "fits": _admits(later),
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

    def _steps(
        self,
        who: Person,
        found: Mapping[str, Any],
        kind: str,
        epsilon: float,
        delta: float | None,
    ) -> tuple[float, Event, list[tuple[QuotaBalance, QuotaBalance]]]:
        """Return delta and event of a request, and total and own quota before and after it."""
        total, *others = SharedBudget(self.ledger, found["budget"]).holdings()
        delta = default_delta(kind, total.filter) if delta is None else delta
        event = planned_event(kind, epsilon, delta)
        before = [total, *(one for one in others if one.holder == who.name)]
        after = [replace(one, cost=one.cost.plus(one.filter.cost([event]))) for one in before]
        return delta, event, list(zip(before, after, strict=True))

    # Jobs -----------------------------------------------------------------------------------------

    def submit(
        self, who: Person, name: str, asked: Mapping[str, Any], key: str | None
    ) -> dict[str, Any]:
        """Ask for a release (analysts); a repeated key gives the job that was submitted with it."""
        who.require("analyst")
        found = self._open(who, name)
        digest = sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()
        if key is not None:  # before the budget, which the job itself may have spent
            key = f"{who.name} {found['name']} {key}"
            if (job := self.store.repeated_job(key, digest)) is not None:
                return self._shown(job)
        task = checked_task(_with_usual_model(found, asked))
        epsilon = asked["epsilon"]
        delta, _, steps = self._steps(who, found, task["kind"], epsilon, asked.get("delta"))
        if not all(_admits(later) for _, later in steps):
            ended = [f" It ended on {held.until}." for held, _ in steps if held.has_ended]
            raise BudgetExceededError(
                "The budget or your quota does not allow a release of this epsilon."
                f"{''.join(ended)} Nothing was charged.",
                spent=steps[-1][0].spent,
                asked=epsilon,
                left=0.0,
            )
        state = JobState.WAITING if epsilon > found["auto_approve"] else JobState.QUEUED
        return self.queue(
            *(who, name, task, asked["purpose"], epsilon, delta),
            state=state,
            key=key,
            digest=digest,
        )

    def jobs(self, who: Person) -> list[dict[str, Any]]:
        """List jobs: an analyst's own, or all."""
        person = who.name if who.role == "analyst" else None
        found = self.store.jobs(person=person)
        return [self._shown(job) for job in found]

    def job(self, who: Person, identity: str) -> dict[str, Any]:
        """Return one job."""
        found = self.store.job(identity)
        if who.role == "analyst" and found["person"] != who.name:
            raise NotFoundError(f"There is no job {identity!r}.")
        return self._shown(found)

    def decide(self, who: Person, identity: str, *, approved: bool, reason: str) -> dict[str, Any]:
        """Approve or decline a request that waits (officers)."""
        who.require("officer")
        state = JobState.QUEUED if approved else JobState.DECLINED
        return self.store.move_job(who.name, identity, state, reason=reason, decided_by=who.name)

    def cancel(self, who: Person, identity: str) -> dict[str, Any]:
        """End a job; what was charged stays charged."""
        who.require("officer", "analyst")
        self.job(who, identity)
        return self._shown(self.store.cancel_job(who.name, identity))

    # Releases -------------------------------------------------------------------------------------

    def releases(self, who: Person, dataset: str | None = None) -> list[dict[str, Any]]:
        """List releases of the data sets that a person may see."""
        names = {one["name"] for one in self.store.datasets() if self._sees(who, one)}
        return [one for one in self.store.releases(dataset) if one["dataset"] in names]

    def release(self, who: Person, identity: str) -> dict[str, Any]:
        """Return one release."""
        found = self.store.release(identity)
        if not self._sees(who, self.store.dataset(found["dataset"])):
            raise NotFoundError(f"There is no release {identity!r}.")
        return found

    def release_file(self, who: Person, identity: str, file: str) -> Path:
        """Return the place of one file of a release."""
        found = self.release(who, identity)
        place = self.settings.releases / str(found["id"])
        if file not in found["files"]:
            raise NotFoundError(f"The release has no file {file!r}.")
        return place / file

    def ask(self, who: Person, identity: str, points: list[list[float]]) -> dict[str, Any]:
        """Return values of a released density or curve, computed from released numbers alone."""
        model = load(self.release_file(who, identity, "model.sfumato"))
        width = 1 if hasattr(model, "curve") else getattr(model, "n_features_in_", 0)
        is_function = hasattr(model, "curve") or hasattr(model, "density")
        is_right = all(len(one) == width and np.isfinite(one).all() for one in points)
        if not is_function or not is_right:
            raise InvalidInputError(
                "Only densities and curves can be queried, at finite points with "
                "one number per axis."
            )
        asked = np.asarray(points, dtype=np.float64)
        values = model.curve(asked[:, 0]) if hasattr(model, "curve") else model.density(asked)
        return {"points": points, "values": np.asarray(values).tolist()}

    # Audit ----------------------------------------------------------------------------------------

    def audit(self, who: Person, last: int = 500) -> list[dict[str, Any]]:
        """List what was done, by whom (officers and auditors)."""
        who.require("officer", "auditor", writes=False)
        return self.store.audit(last=last)

    def verify(self, who: Person) -> dict[str, Any]:
        """Check the chain of the ledger, all sums, and the audit log (officers and auditors)."""
        who.require("officer", "auditor", writes=False)
        budgets = {one["budget"] for one in self.store.datasets()}
        checked = self.ledger.verify() if budgets else None
        paid: set[str | None] = set()
        for name in sorted(budgets):
            budget = SharedBudget(self.ledger, name)
            budget.verify()
            paid |= {line.note.reference for line in budget.dataset.lines()}
        for release in self.store.releases():
            if release["id"] not in paid:
                raise LedgerTamperedError(
                    f"The ledger has no charge for the release {release['id']}: it was replaced "
                    "by an older copy. Stop releasing and restore the newest one."
                )
        return {
            "time": now(),
            "charges": 0 if checked is None else checked.charges,
            "heads": {} if checked is None else dict(checked.heads),
            "audit_head": self.store.verify_audit(),
        }

    def statement(self, who: Person) -> dict[str, Any]:
        """Return what was spent, the charges and the heads, signed (officers and auditors)."""
        checked = self.verify(who)
        content = {
            **checked,
            "budgets": self.budgets(who),
            "charges_by_budget": {
                name: [one.to_dict() for one in self.ledger.dataset(name).history()]
                for name in checked["heads"]
            },
            "by": who.name,
        }
        if not self.settings.signing_key.exists():
            return content
        return signed(content, self.settings.signing_key)

    def charges(self, who: Person, name: str) -> list[dict[str, Any]]:
        """List the charges of a data set's budget (officers and auditors)."""
        who.require("officer", "auditor", writes=False)
        budget = self.ledger.dataset(self.store.dataset(name)["budget"])
        return [one.to_dict() for one in budget.history()]

    def budgets(self, who: Person) -> dict[str, list[dict[str, Any]]]:
        """Return total and quotas of each budget that a person may see; an analyst, their own."""
        names = {one["budget"] for one in self.store.datasets() if self._sees(who, one)}
        return {name: self._holdings(who, name) for name in sorted(names)}

    # Parts ----------------------------------------------------------------------------------------

    def queue(
        self,
        who: Person,
        name: str,
        task: Mapping[str, Any],
        purpose: str,
        epsilon: float,
        delta: float,
        *,
        state: JobState = JobState.QUEUED,
        key: str | None = None,
        digest: str | None = None,
    ) -> dict[str, Any]:
        """Write a job down for the workers, or for an officer first."""
        record = {
            "id": secrets.token_hex(8),
            "dataset": name,
            "person": who.name,
            "purpose": purpose,
            "epsilon": epsilon,
            "delta": delta,
            "task": dict(task),
            "digest": digest,
            "created": now(),
        }
        return self.store.add_job(record, state, key)

    def _shown(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Return a job as it may be seen by now: an end is shown at its fixed time."""
        if job["state"] in ENDED and job.get("shown", "") > now():
            hidden = ("reason", "changed", "shown", "values")
            return {k: v for k, v in job.items() if k not in hidden} | {"state": "running"}
        return dict(job)

    def _open(self, who: Person, name: str) -> dict[str, Any]:
        found = self.store.dataset(name)
        if not self._sees(who, found):
            raise NotFoundError(f"There is no data set {name!r}.")
        if found["state"] != DatasetState.OPEN:
            raise InvalidInputError(f"The data set {name!r} is {found['state']}, not open.")
        return found

    def _sees(self, who: Person, dataset: Mapping[str, Any]) -> bool:
        if who.role in ("officer", "auditor"):
            return True
        is_ready = dataset["state"] in (DatasetState.OPEN, DatasetState.RETIRED)
        return is_ready and SharedBudget(self.ledger, dataset["budget"]).is_held_by(who.name)

    def _seen(self, who: Person, dataset: Mapping[str, Any]) -> dict[str, Any]:
        shown = dict(dataset)
        if who.role != "officer":
            shown = {key: value for key, value in shown.items() if key not in HIDDEN}
        if who.role != "officer" and dataset["state"] == DatasetState.PROPOSED:
            shown |= {"bounds": None, "n_rows": None}  # read off the rows, and not declared yet
        if shown.get("bounds"):
            bounds = TableBounds.from_record(as_tuples(shown["bounds"]))
            shown["columns"] = columns_of(bounds)
        return {**shown, "holdings": self._holdings(who, dataset["budget"])}

    def _holdings(self, who: Person, budget: str) -> list[dict[str, Any]]:
        held: list[QuotaBalance] = SharedBudget(self.ledger, budget).holdings()
        return [
            one.to_dict() for one in held if who.role != "analyst" or one.holder in ("", who.name)
        ]


def _admits(held: QuotaBalance) -> bool:
    return not held.has_ended and held.filter.admits(held.cost)


def _with_usual_model(dataset: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Take the model of an explanation by the target, where none is named."""
    target = dataset["bounds"].get("target") or {}
    if asked.get("kind") == "explanation" and not asked.get("estimator") and "lower" in target:
        return {**asked, "estimator": "PrivateAdditiveRegressor"}
    return dict(asked)
