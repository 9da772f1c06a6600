"""What one person may see of the service: the rules that all routes and pages share."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fastapi import Request

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.shared_budget import QuotaBalance, SharedBudget
from sfumato.privacy.events import Event
from sfumato.report.certificate import new_key
from sfumato.service.access import Person, make_token
from sfumato.service.settings import Settings
from sfumato.service.store import ENDED, DatasetState, JobState, NotFoundError, Store, now
from sfumato.service.tasks import planned_event
from sfumato.tables.schema import TableBounds


class ServiceApi:
    """Store, ledger and settings of a service, and who sees what of them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings.prepared()
        self.store = Store(settings.store_address)
        self.store.prepare()
        self.ledger = Ledger(settings.ledger_address, keep_open=True)
        if not settings.signing_key.exists():
            with suppress(ImportError, InvalidInputError):  # else nothing is signed
                new_key(settings.signing_key)

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

    def sees(self, who: Person, dataset: Mapping[str, Any]) -> bool:
        """Return whether a person may see a data set."""
        if who.role in ("officer", "auditor"):
            return True
        is_ready = dataset["state"] in (DatasetState.OPEN, DatasetState.RETIRED)
        return is_ready and SharedBudget(self.ledger, dataset["budget"]).is_held_by(who.name)

    def found(self, who: Person, name: str, *, is_open: bool = False) -> dict[str, Any]:
        """Return a data set that a person may see, and ask if it is to be open."""
        found = self.store.dataset(name)
        if not self.sees(who, found):
            raise NotFoundError(f"There is no data set {name!r}.")
        if is_open and found["state"] != DatasetState.OPEN:
            raise InvalidInputError(f"The data set {name!r} is {found['state']}, not open.")
        return found

    def shown_to(self, who: Person, dataset: Mapping[str, Any]) -> dict[str, Any]:
        """Return public facts and budgets of a data set, to officers also what is proposed."""
        told = dict(dataset)
        if who.role != "officer":
            told = {key: value for key, value in told.items() if key not in ("path", "notes")}
            if dataset["state"] == DatasetState.PROPOSED:
                told |= {"bounds": None, "n_rows": None}  # read off the rows, not declared yet
        if told.get("bounds"):
            told["columns"] = columns_of(TableBounds.from_record(as_tuples(told["bounds"])))
        return {**told, "holdings": self.holdings(who, dataset["budget"])}

    def holdings(self, who: Person, budget: str) -> list[dict[str, Any]]:
        """Return the total and the quotas of a budget; to an analyst, the own one."""
        held = SharedBudget(self.ledger, budget).holdings()
        return [
            one.to_dict() for one in held if who.role != "analyst" or one.holder in ("", who.name)
        ]

    def steps(
        self, who: Person, found: Mapping[str, Any], kind: str, epsilon: float, delta: float | None
    ) -> tuple[float, Event, list[tuple[QuotaBalance, QuotaBalance]]]:
        """Return delta and event of a request, and total and own quota before and after it."""
        total, *others = SharedBudget(self.ledger, found["budget"]).holdings()
        delta, event = planned_event(kind, epsilon, delta, total.filter)
        before = [total, *(one for one in others if one.holder == who.name)]
        after = [replace(one, cost=one.cost.plus(one.filter.cost([event]))) for one in before]
        return delta, event, list(zip(before, after, strict=True))

    def queue(
        self,
        who: Person,
        name: str,
        task: Mapping[str, Any],
        purpose: str,
        *,
        state: JobState = JobState.QUEUED,
        key: str | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Write a job down for the workers, or for an officer first."""
        record = {
            "id": secrets.token_hex(8),
            "dataset": name,
            "person": who.name,
            "purpose": purpose,
            "epsilon": 0.0,
            "delta": 0.0,
            "task": dict(task),
            "created": now(),
            **more,
        }
        return self.store.add_job(record, state, key)


def office_of(request: Request) -> ServiceApi:
    """Return the office that the app was made with."""
    office: ServiceApi = request.app.state.office
    return office


def shown(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job as it may be seen by now: an end is shown at its fixed time."""
    if job["state"] in ENDED and job.get("shown", "") > now():
        hidden = ("reason", "changed", "shown", "values")
        return {k: v for k, v in job.items() if k not in hidden} | {"state": "running"}
    return dict(job)


def columns_of(bounds: TableBounds) -> list[str]:
    """List what an officer confirms: columns, IDs of persons, target."""
    names = [column.name for column in bounds.columns]
    extra = [bounds.person, None if bounds.target is None else bounds.target.name]
    return [*names, *(name for name in extra if name is not None)]


def as_tuples(value: Any) -> Any:
    """Return lists as tuples, as bounds have them."""
    if isinstance(value, Mapping):
        return {key: as_tuples(part) for key, part in value.items()}
    return tuple(as_tuples(part) for part in value) if isinstance(value, list) else value
