"""How an officer brings a data set in, declares its bounds, opens and retires it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.shared_budget import SharedBudget
from sfumato.service.access import Person
from sfumato.service.sources import checked_source, hold_same_rows
from sfumato.service.states import DatasetState, JobState
from sfumato.service.store import NotFoundError, now
from sfumato.tables.schema import Column, TableBounds, Target
from sfumato.tables.text import TextFormat

if TYPE_CHECKING:
    from sfumato.service.office import ServiceApi

NAME = "letters, digits, '-', '_', '.' and '@', at most 64"


def register(office: ServiceApi, who: Person, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Register a data set, and let a worker propose its bounds (officers)."""
    who.require("officer")
    name = asked["name"]
    check_name("name", name)
    if any(one["name"] == name for one in office.store.datasets()):
        raise InvalidInputError(f"There is a data set {name!r} already.")
    source = checked_source(office.settings, asked["path"])  # a worker looks whether it is there
    budget = asked.get("budget") or name
    _refuse_two_budgets(office, source, budget)
    if asked.get("budget"):  # people who are in both data sets have one budget
        total = office.ledger.dataset(budget).total
        words = {"unit": str(total.unit), "relation": str(total.relation)}
    else:
        if asked.get("epsilon") is None:
            raise InvalidInputError("State 'epsilon', or the 'budget' of another data set.")
        words = {"unit": asked["unit"], "relation": asked["relation"]}
        SharedBudget.create(
            office.ledger,
            budget,
            epsilon=asked["epsilon"],
            delta=asked["delta"],
            kind=asked.get("kind"),
            **words,
        )
    record = {
        **{key: asked.get(key) for key in ("name", "target", "person", "protected", "why")},
        **words,
        "path": source,
        "budget": budget,
        "auto_approve": asked.get("auto_approve") or 0.0,
        "bounds": None,
        "confirmed": [],
        "created": now(),
        "by": who.name,
    }
    office.store.add_dataset(who.name, record, DatasetState.DESCRIBING)
    office.queue(who, name, {"kind": "describe"}, "to propose bounds", 0.0, 0.0)
    return office.dataset(who, name)


def _refuse_two_budgets(office: ServiceApi, source: str, budget: str) -> None:
    """Refuse the same rows under a second budget: it would count them as other people."""
    for one in office.store.datasets():
        if one["state"] == DatasetState.RETIRED or one["budget"] == budget:
            continue
        if hold_same_rows(office.settings, one["path"], source):
            raise InvalidInputError(
                f"The data set {one['name']!r} is made of some of the same rows: share its budget, "
                f"{one['budget']!r}."
            )


def confirm_column(
    office: ServiceApi, who: Person, name: str, column: str, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Declare what is public about one column (officers)."""
    who.require("officer")
    found = office.store.dataset(name)
    bounds = _proposed(found)
    is_target = bounds.target is not None and bounds.target.name == column
    record = dict(found["bounds"])
    facts = {key: value for key, value in facts.items() if value is not None}
    if facts and column != bounds.person and not facts.get("type"):
        raise InvalidInputError("State the 'type' too: the proposed one was taken from the rows.")
    if is_target:
        record["target"] = {"column": column, **facts} if facts else record["target"]
        Target.from_record(as_tuples(record["target"]))
    elif column == bounds.person:
        record |= {key: facts[key] for key in ("person_rows", "per_person") if key in facts}
        TableBounds.from_record(as_tuples(record))
    else:
        if column not in record["columns"]:
            raise NotFoundError(f"The data set {name!r} has no column {column!r}.")
        changed = dict(facts) if facts else record["columns"][column]
        Column.from_record(column, as_tuples(changed))
        record["columns"] = {**record["columns"], column: changed}
    confirmed = sorted({*found["confirmed"], column})
    office.store.change_dataset(
        *(who.name, name, {"bounds": record, "confirmed": confirmed}),
        action="confirm column",
        detail={"column": column, "facts": dict(facts)},
    )
    return office.dataset(who, name)


def confirm_format(
    office: ServiceApi, who: Person, name: str, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Declare how the file is written, all of it (officers); empty: as proposed.

    Words for "missing" are proposed from cells, so they are confirmed like columns.
    """
    who.require("officer")
    found = office.store.dataset(name)
    _proposed(found)
    record = dict(found["bounds"])
    if facts:
        record["file"] = {key: value for key, value in facts.items() if value is not None}
        TextFormat.from_record(as_tuples(record["file"]))
    office.store.change_dataset(
        *(who.name, name, {"bounds": record, "format_confirmed": True}),
        action="confirm format",
        detail=dict(facts),
    )
    return office.dataset(who, name)


def open_dataset(
    office: ServiceApi, who: Person, name: str, *, one_row_per_person: bool
) -> dict[str, Any]:
    """Open a data set whose columns are all confirmed (officers)."""
    who.require("officer")
    found = office.store.dataset(name)
    bounds = _proposed(found)
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
    if one_row_per_person:
        record["one_row_per_person"] = True
    TableBounds.from_record(as_tuples(record)).require_confirmed()
    record.pop("looks_like_ids", None)  # read off the rows, and answered by now
    office.store.change_dataset(
        *(who.name, name, {"bounds": record, "notes": {}}),
        action="open",
        state=DatasetState.OPEN,
    )
    return office.dataset(who, name)


def set_quota(
    office: ServiceApi, who: Person, name: str, analyst: str, *, epsilon: float, until: str | None
) -> dict[str, Any]:
    """Set what an analyst may spend on a data set's budget (officers)."""
    who.require("officer")
    found = office.store.dataset(name)
    if office.store.person(analyst)["role"] != "analyst":
        raise InvalidInputError(f"{analyst!r} is not an analyst.")
    SharedBudget(office.ledger, found["budget"]).set_quota(analyst, epsilon=epsilon, until=until)
    detail = {"analyst": analyst, "epsilon": epsilon, "until": until}
    office.store.note(who.name, "set quota", name, detail)
    return office.dataset(who, name)


def set_auto_approval(office: ServiceApi, who: Person, name: str, epsilon: float) -> dict[str, Any]:
    """Approve requests up to an epsilon without an officer (officers)."""
    who.require("officer")
    office.store.change_dataset(
        *(who.name, name, {"auto_approve": epsilon}),
        action="set automatic approval",
        detail={"epsilon": epsilon},
    )
    return office.dataset(who, name)


def retire(office: ServiceApi, who: Person, name: str) -> dict[str, Any]:
    """End a data set: no more releases, its rows deleted by a worker, the ledger kept."""
    who.require("officer")
    for job in office.store.jobs(dataset=name):
        if job["state"] in (JobState.WAITING, JobState.QUEUED):
            office.store.move_job(who.name, job["id"], JobState.CANCELLED, reason="retired")
    office.store.change_dataset(
        who.name, name, {"auto_approve": 0.0}, action="retire", state=DatasetState.RETIRED
    )
    office.queue(who, name, {"kind": "delete"}, "to delete its rows", 0.0, 0.0)
    return office.dataset(who, name)


def _proposed(found: Mapping[str, Any]) -> TableBounds:
    if found["state"] != DatasetState.PROPOSED:
        raise InvalidInputError(
            f"The data set {found['name']!r} is {found['state']}; bounds are confirmed before "
            "it is opened and never changed afterwards."
        )
    return TableBounds.from_record(as_tuples(found["bounds"]))


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


def check_name(what: str, name: str) -> None:
    """Refuse a name that would not be safe in an address."""
    is_plain = name.isascii() and all(one.isalnum() or one in "-_.@" for one in name)
    if not is_plain or not 0 < len(name) <= 64 or name.startswith("."):
        raise InvalidInputError(
            f"'{what}' must consist of {NAME} characters, and not begin with a dot."
        )
