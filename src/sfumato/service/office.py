"""What is true of the data sets of a service: what is declared, what is stored, who sees what."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sfumato.exceptions import InvalidInputError, LedgerError, LedgerTamperedError
from sfumato.ledger.ledger import Ledger
from sfumato.ledger.shared_budget import QuotaBalance, SharedBudget
from sfumato.privacy.events import Event
from sfumato.service.access import Person
from sfumato.service.config import OWNER, Dataset, Settings
from sfumato.service.store import NotFoundError, Store, now

FACTS = {"target", "person", "unit", "relation", "protected", "why", "epsilon", "delta", "kind"}
FACTS |= {"auto_approve"}


class Office:
    """Settings, store and ledger of a service."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = Store(settings.store_address)
        self.store.prepare()
        self.ledger = Ledger(settings.ledger_address, keep_open=True)

    def dataset(self, name: str) -> dict[str, Any]:
        """Return a data set as declared and stored."""
        stored = self.store.get("data set", name)
        found = self.settings.config.datasets.get(name, Dataset(path="no longer declared"))
        facts = {**found.model_dump(include=FACTS), **stored}
        person = facts["person"] or (facts["bounds"] or {}).get("person")
        return {**facts, "unit": facts["unit"] or ("person" if person else "record")}

    def budget(self, dataset: Mapping[str, Any]) -> SharedBudget:
        """Return the budget of an open data set."""
        return SharedBudget(self.ledger, dataset["budget"])

    def budgets(self) -> list[str]:
        """List the budgets of the data sets that were opened."""
        return sorted({one["budget"] for one in self.store.find("data set") if one.get("opened")})

    def has_budget(self, name: str) -> bool:
        """Return whether the ledger has a budget of this name."""
        try:
            return name in self.ledger.datasets()
        except LedgerError:  # there is none yet
            return False

    def verify(self) -> dict[str, Any]:
        """Check every line of the ledger, all sums, every release, and the audit log."""
        named, heads = self.budgets(), {}
        if self.settings.witness.exists():  # what was the newest line is still in its chain
            heads = json.loads(self.settings.witness.read_text())["heads"]
        checked = self.ledger.verify(heads) if named or heads else None
        paid: set[str | None] = set()
        for name in named:
            budget = SharedBudget(self.ledger, name)
            budget.verify()
            paid |= {line.note.reference for line in budget.dataset.lines()}
        for one in self.store.find("release", None):
            if one["id"] not in paid:
                raise LedgerTamperedError(
                    f"The ledger has no charge for the release {one['id']}: it was replaced by an "
                    "older copy. Stop releasing and restore the newest one."
                )
        return {
            "time": now(),
            "charges": 0 if checked is None else checked.charges,
            "heads": {} if checked is None else dict(checked.heads),
            "audit_head": self.store.verify_audit(),
        }

    def sees(self, who: Person, name: str) -> bool:
        """Return whether a person may see a data set."""
        declared = self.settings.config.datasets.get(name)
        if who.has("officer", "auditor"):
            return True
        is_held = declared is not None and who.name in declared.quotas
        states = ("open", "retired")
        return is_held and self.store.get("data set", name)["state"] in states

    def found(self, who: Person, name: str, *, is_open: bool = False) -> dict[str, Any]:
        """Return a data set that a person may see, and ask if it is to be open."""
        found = self.dataset(name)
        if not self.sees(who, name):
            raise NotFoundError(f"There is no data set {name!r}.")
        if is_open and found["state"] != "open":
            raise InvalidInputError(f"The data set {name!r} is {found['state']}, not open.")
        return found

    def shown_to(self, who: Person, name: str) -> dict[str, Any]:
        """Return public facts and budgets of a data set, to officers also what is proposed."""
        # A hash of the rows would be a release without noise.
        hidden = {"fingerprint"} if who.has("officer") else {"fingerprint", "notes", "reason"}
        told = {k: v for k, v in self.found(who, name).items() if k not in hidden}
        if not who.has("officer") and not told.get("opened"):
            told |= {"bounds": None, "n_rows": None}  # read off the rows, not declared yet
        return {**told, "holdings": [one.to_dict() for one in self.holdings(who, told)]}

    def holdings(self, who: Person, dataset: Mapping[str, Any]) -> list[QuotaBalance]:
        """Return the total and the quotas of a budget, to analysts theirs."""
        sees_all = who.has("officer", "auditor")
        held = self.budget(dataset).holdings() if dataset.get("opened") else []
        return [one for one in held if sees_all or one.holder in ("", who.name)]

    def costs(
        self, person: str, dataset: Mapping[str, Any], events: Sequence[Event]
    ) -> list[dict[str, Any]]:
        """Return the total and a quota before and after what would be charged."""
        told, holders = [], {"", "" if self.settings.is_studio else person}
        for held in self.budget(dataset).holdings():
            cost = held.filter.cost(events)
            after = replace(held, cost=held.cost.plus(cost))
            was = {"before": held.spent, "left_before": held.left}
            asked = {"alone": held.filter.spent(cost), "share_asked": held.filter.share(cost)}
            if held.holder in holders:
                fits = held.filter.admits(after.cost)
                told.append({**after.to_dict(), **was, **asked, "fits": fits})
        return told

    def needs_approval(self, dataset: Mapping[str, Any], epsilon: float, delta: float) -> bool:
        """Whether an officer decides: with a large delta, epsilon says little of the cost."""
        is_small = epsilon <= dataset["auto_approve"] and delta <= dataset["delta"]
        return not (is_small or self.settings.is_studio)

    def queue(
        self,
        person: str,
        name: str,
        task: Mapping[str, Any],
        purpose: str,
        *,
        state: str = "queued",
        key: str | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Write a job or a chore down for the workers."""
        record = {
            "id": secrets.token_hex(8),
            "dataset": name,
            "person": person,
            "purpose": purpose,
            "epsilon": 0.0,
            "delta": 0.0,
            "task": dict(task),
            "created": now(),
            "state": state,
            **more,
        }
        is_request = state == "queued"
        most = self.settings.config.service.max_jobs if is_request else None
        words: Any = {"detail": {"kind": task["kind"]}, "key": key, "max_open": most}
        return self.store.add(person if is_request else None, "job", "submit", record, **words)

    def sync(self) -> list[str]:
        """Bring store and ledger to what is declared; return what cannot be."""
        problems, config = [], self.settings.config
        stored = {one["name"]: one for one in self.store.find("data set")}
        for name, declared in config.datasets.items():
            if name not in stored:
                record: Any = {"id": name, "name": name, "budget": declared.budget or name}
                record |= {"bounds": None, "state": "describing", "created": ""}
                self.store.add("operator", "data set", "register", record)
                self.queue("operator", name, {"kind": "describe"}, "bounds", state="asked")
                continue
            found = stored[name]
            if found["state"] == "retired" and not declared.retired:
                problems.append(f"The data set {name!r} is retired permanently.")
            if found["state"] == "open":
                problems += self._set_quotas(found, declared)
        for name, found in stored.items():
            kept = config.datasets.get(name)
            if found["state"] != "retired" and (kept is None or kept.retired):
                for state in ("waiting", "queued"):
                    for job in self.store.find("job", None, dataset=name, state=state):
                        self.store.cancel("operator", job["id"], "The data set is retired.")
                self.store.change("operator", "data set", name, "retire", state="retired")
        return problems

    def _set_quotas(self, found: Mapping[str, Any], declared: Dataset) -> list[str]:
        """Set quotas as declared; a total is never changed."""
        budget = self.budget(found)
        total, *others = budget.holdings()
        given = found.get("epsilon", declared.epsilon), found.get("delta", declared.delta)
        if found["budget"] == found["name"] and given != (total.filter.epsilon, total.filter.delta):
            return [
                f"The total of {found['name']!r} is epsilon {total.filter.epsilon:g}, delta "
                f"{total.filter.delta:g} and cannot change; 'service.toml' says otherwise."
            ]
        known = {one.holder: one.filter.epsilon for one in others}
        whole = {OWNER: total.filter.epsilon}
        for person, limit in (whole if self.settings.is_studio else declared.quotas).items():
            if known.get(person) != limit:
                budget.set_quota(person, epsilon=limit)
                detail = {"person": person, "epsilon": limit}
                self.store.note("operator", "set quota", found["name"], detail)
        return []
