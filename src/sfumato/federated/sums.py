"""A party's answers about sums: what it holds, what it agrees to pay for, and each sum once.

Phases of a task, in this order: ``sums.describe`` (public facts, nothing is paid), ``sums.check``
(would it agree, nothing is paid), ``sums.begin`` (it pays for all sums of the task), then for each
sum either ``sums.release`` (noise of its own) or the five steps of a secure sum. Requests were
read by `sfumato.federated.schema` before they come here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import FederationError
from sfumato.federated import hulls
from sfumato.federated.messages import Reply, Request
from sfumato.federated.release_store import ReleaseStore
from sfumato.federated.schema import Asked, packed, public_estimator, require_safe
from sfumato.federated.secure import Agreement, Identity, Journal, Member
from sfumato.federated.secure.agreement import digest
from sfumato.federated.terms import Terms
from sfumato.ledger.receipt import Receipt, prepay
from sfumato.mechanisms.gaussian import GaussianShareMechanism
from sfumato.models.base import Reader
from sfumato.privacy.composition import epsilon_spent
from sfumato.privacy.events import Event, event_from_dict, flatten
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.sums.grid import MAX_ROWS_SECRET_N
from sfumato.sums.opening import all_missing_record
from sfumato.sums.reading import BatchReader
from sfumato.sums.records import ArrayRecords, Records
from sfumato.sums.statistics import Statistic
from sfumato.tables.bounds import Bounds
from sfumato.tables.schema import TableBounds

DESCRIBE, CHECK, BEGIN, RELEASE = "sums.describe", "sums.check", "sums.begin", "sums.release"


class PartySums:
    """The part of a party that answers about sums.

    name: The party.
    load: Gives rows and labels.
    store: Where replies are kept.
    ledger (DatasetBudget or None): Who pays.
    terms: What the party agreed to.
    identity: Its key, for secure sums; by default a new one.
    registered: Keys of the other parties; by default those of the agreement are believed, which is
        for simulations only.
    table: Gives the table itself, where the party has one.
    """

    def __init__(
        self,
        name: str,
        load: Callable[[], tuple[NDArray[Any], NDArray[Any]]],
        store: ReleaseStore,
        ledger: Any,
        terms: Terms,
        identity: Identity | None = None,
        registered: Mapping[str, str] | None = None,
        table: Callable[[], Any] | None = None,
    ) -> None:
        self.table = table
        self.name, self.load, self.store, self.ledger, self.terms = name, load, store, ledger, terms
        self.registered = registered
        self._identity = identity
        self._journal = Journal(store.folder / "journal")
        self._members: dict[str, Member] = {}
        self._kept: tuple[str, Records] | None = None  # records as a task has mapped them

    @property
    def identity(self) -> Identity:
        """The key of the party, made when it is first needed."""
        if self._identity is None:
            self._identity = Identity()
        return self._identity

    def answer(self, asked: Asked) -> Reply:
        """Answer one request of a phase that begins with "sums."."""
        with np.errstate(all="ignore"):  # no warning tells of a row
            return self._answer(asked)

    def _answer(self, asked: Asked) -> Reply:
        if asked.phase == DESCRIBE:
            return self._describe(asked.settings)
        if asked.phase == CHECK:
            events, relation = self._check_terms(asked.settings)
            begun = self.store.earlier(asked.request, BEGIN)
            if begun is None and hasattr(self.ledger, "ask"):
                self.ledger.ask(*events, unit=Unit.RECORD, relation=relation)
            return Reply(self.name)
        if asked.phase == BEGIN:
            return self.store.released(asked.request, lambda: self._begin(asked))
        if asked.phase == RELEASE:
            return self.store.released(asked.request, lambda: self._release(asked))
        return self._secure_step(asked)

    # What the party holds and pays ------------------------------------------------------------

    def _describe(self, settings: Mapping[str, Any]) -> Reply:
        is_public = settings["relation"] is Relation.REPLACE_ONE
        if is_public and self._n_is_secret:
            raise FederationError(f"{self.name} does not reveal the number of its rows.")
        rows = self._table() if settings["table"] else self.load()[0]
        facts: dict[str, Any] = {"width": 0 if settings["table"] else int(rows.shape[1])}
        if is_public:
            facts["n_rows"] = len(rows)
        if settings["trust"] == "secure":
            facts["key"] = self.identity.public
        return Reply(self.name, facts)

    @cached_property
    def _width(self) -> int:
        """Numbers of a row, which is public."""
        return int(self.load()[0].shape[1])

    def _table(self) -> Any:
        if self.table is None:
            raise FederationError(f"{self.name} has rows of numbers, and no table.")
        return self.table()

    @property
    def _n_is_secret(self) -> bool:
        """Whether its terms, or its ledger, make the number of rows a secret."""
        agreed = self.terms.relation
        if agreed is None and hasattr(self.ledger, "total"):
            agreed = self.ledger.total.relation
        return agreed is not None and Relation(agreed) is Relation.ADD_OR_REMOVE_ONE

    def _check_terms(self, settings: Mapping[str, Any]) -> tuple[tuple[Event, ...], Relation]:
        """Return the events of a task and its relation, or refuse them; nothing is paid."""
        events, relation = settings["events"], settings["relation"]
        most, delta = self.terms.max_epsilon, min(self.terms.max_delta, 0.5)
        self.terms.require(
            self.name,
            bounds=settings["bounds"],
            unit=Unit.RECORD,
            relation=relation,
            epsilon=epsilon_spent(events, delta, relation, enough=most),
        )
        return events, relation

    def _begin(self, asked: Asked) -> Reply:
        events, relation = self._check_terms(asked.settings)
        self.store.require_free(asked.request, hulls.FIT)
        prepay(self.ledger, *events, unit=Unit.RECORD, relation=relation)  # [Y1] all at once
        facts = {"events": [each.to_dict() for each in events]}
        return Reply(self.name, {**facts, "agreed": _agreed(asked.request.settings)})

    def _begun(self, request: Request) -> Reply:
        begun = self.store.earlier(request, BEGIN)
        if begun is None:
            raise FederationError(f"{self.name} has not agreed to the task '{request.task}'.")
        return begun

    def _paid(self, request: Request, number: int, event: Event) -> tuple[Receipt, dict[str, Any]]:
        """Return the receipt of a sum, and all events that are drawn then; it is drawn once."""
        used: dict[Event, int] = {}
        if number > 0:
            before = self.store.earlier(request, f"{RELEASE}.{number - 1}")
            if before is None:
                raise FederationError(f"Sum {number - 1} comes before sum {number}.")
            used = {event_from_dict(each): times for each, times in before.fact("used")}
        used[event] = used.get(event, 0) + 1
        paid = flatten(event_from_dict(each) for each in self._begun(request).fact("events"))
        if used[event] > paid.get(event, 0):  # [Y2] no more draws of an event than were paid for
            raise FederationError(f"{self.name} was not asked to pay for sum {number}.")
        facts = {"used": [[each.to_dict(), times] for each, times in used.items()]}
        return Receipt((event,)), facts

    # Sums ---------------------------------------------------------------------------------------

    def _check_sum(
        self, request: Request, asked: Mapping[str, Any], given: Mapping[str, Any]
    ) -> tuple[Reader | BatchReader | None, int]:
        """Refuse a sum by public facts alone; return how rows are read, and their maximum."""
        if _agreed(given) != self._begun(request).fact("agreed"):  # [Y10] what was paid for
            raise FederationError(f"The task '{request.task}' was begun on other terms.")
        bounds, relation, reader = asked["bounds"], asked["relation"], _reader(asked)
        maps, statistic, mechanism = asked["maps"], asked["statistic"], asked["mechanism"]
        is_table = isinstance(bounds, TableBounds)
        if reader is None and is_table:
            raise FederationError("A table must be read before it is added up.")
        columns = list(bounds.types()) if is_table else self._width
        row, n_classes = _made_up(reader, bounds, columns)  # [Y9]
        agreed = self.terms.bounds if reader is None else None
        require_safe(maps, statistic, relation=relation, n_classes=n_classes, agreed=agreed)  # [Y3]
        _rehearse(maps, statistic, row, n_classes)
        max_rows = MAX_ROWS_SECRET_N
        if relation is Relation.REPLACE_ONE:
            max_rows = len(self._table() if is_table else self.load()[0])
        needed = (statistic.sensitivity(relation, n) for n in (asked["max_rows"], max_rows))
        if mechanism.sensitivity < max(needed):  # [Y4]
            raise FederationError("The noise is made for a smaller sensitivity than the sum has.")
        mechanism.for_size(statistic.size)
        return reader, max_rows

    def _mapped(
        self, task: str, asked: Mapping[str, Any], reader: Reader | BatchReader | None
    ) -> Records:
        """Return the rows as maps make them; a descent asks for the same ones again and again."""
        bounds, relation, kept = asked["bounds"], asked["relation"], asked["kept"]
        arrays: dict[str, NDArray[Any]] = {}
        about = {each: packed(asked[each], arrays) for each in ("maps", "bounds", "reader")}
        name = Request(task, kept, {**about, "relation": str(relation)}, arrays).fingerprint()
        if self._kept is not None and self._kept[0] == name:
            return self._kept[1]
        if reader is not None:  # [Y9] each record by itself, as the estimator reads it
            whole = self._table() if isinstance(bounds, TableBounds) else (*self.load(), None)
            rows, codes = _read(reader, whole)[:2]
        else:
            rows, labels = self.load()
            codes = None if bounds.labels is None else bounds.clip_labels(np.asarray(labels))[0]
        records: Records = ArrayRecords(np.asarray(rows), codes, relation=relation)
        for each in asked["maps"]:
            records = records.mapped(each)
        if kept:
            records = records.cache() if kept == "rows" else records.cache_float32()
        self._kept = name, records
        return records

    def _release(self, asked: Asked) -> Reply:
        request, settings = asked.request, asked.settings
        statistic, mechanism = settings["statistic"], settings["mechanism"]
        reader, _ = self._check_sum(request, settings, request.settings)
        receipt, facts = self._paid(request, asked.number, mechanism.event())
        records = self._mapped(request.task, settings, reader)  # no row is read before
        noisy = records.release(statistic, mechanism, receipt)  # [Y5] noise of its own
        if statistic.is_symmetric:
            noisy = noisy[..., *np.triu_indices(noisy.shape[-1])]
        return Reply(self.name, facts, {"released": noisy})

    def _secure_step(self, asked: Asked) -> Reply:
        agreement: Agreement = asked.settings["agreement"]
        if (agreement.task, agreement.number) != (asked.request.task, asked.number):
            raise FederationError("The agreement is about another sum.")
        session = digest([agreement.digest(), asked.settings["session"]])
        member = self._member(agreement, session)
        reply = self._answered(member, asked)
        if self._is_durable:
            with atomic_write(self._session_file(session)) as file:
                file.write(json.dumps(member.state()).encode())
        return reply

    @property
    def _is_durable(self) -> bool:
        """Whether a session may go on in another process: a party with a key of its own file."""
        return self.registered is not None

    def _session_file(self, session: str) -> Path:
        folder = self.store.folder / "sessions"
        folder.mkdir(mode=0o700, exist_ok=True)  # it holds keys of sums that are being made
        return folder / f"{session[:32]}.json"

    def _member(self, agreement: Agreement, session: str) -> Member:
        if agreement.colluding < self.terms.colluding:  # [Y7] a promise against so many
            raise FederationError(
                f"{self.name} refuses: the sum tolerates {agreement.colluding} colluding parties, "
                f"{self.terms.colluding} are required."
            )
        if session not in self._members:
            known = agreement.parties if self.registered is None else self.registered
            member = Member(self.name, self.identity, agreement, known, self._journal)
            if self._is_durable and self._session_file(session).exists():
                member.resume(json.loads(self._session_file(session).read_text()))
            self._members = {session: member}  # one sum at a time
        return self._members[session]

    def _answered(self, member: Member, asked: Asked) -> Reply:
        settings = asked.settings
        if asked.phase == "sums.advertise":
            return Reply(self.name, {"advert": member.advertise()})
        if asked.phase == "sums.share":
            return Reply(self.name, {"boxes": member.share(settings["adverts"])})
        if asked.phase == "sums.mask":
            cells = self._noisy_cells(asked, member.agreement)
            return Reply(self.name, {}, {"words": member.mask(settings["boxes"], cells)})
        if asked.phase == "sums.confirm":
            return Reply(self.name, {"signature": member.confirm(settings["included"])})
        return Reply(self.name, {"shares": member.reveal(settings["signatures"])})

    def _noisy_cells(self, asked: Asked, agreement: Agreement) -> NDArray[np.int64]:
        """Return the party's sum with its share of the noise: drawn once, in whatever session."""
        given, arrays = asked.request.settings["sum"], asked.request.arrays
        if sum_digest(given, arrays) != agreement.statistic:
            raise FederationError("The agreement is about another sum.")
        wanted = Request(
            agreement.task,
            f"{RELEASE}.{agreement.number}",
            {**given, "agreement": agreement.to_dict()},
            arrays,
        )

        def make() -> Reply:
            settings = asked.settings["sum"]
            statistic, mechanism = settings["statistic"], settings["mechanism"]
            reader, max_rows = self._check_sum(wanted, settings, given)
            if agreement.size != sent_size(statistic):
                raise FederationError("The sum has another size than was agreed on.")
            share = GaussianShareMechanism(mechanism, agreement.noisy_parties)  # [Y6] enough shares
            # [Y8] a bound that its numbers could pass would be a question about them
            public = share.largest(statistic.size, statistic.max_term * max_rows)
            if agreement.largest < public:
                raise FederationError("The agreed bound on numbers is below the public one.")
            receipt, facts = self._paid(wanted, agreement.number, share.event())
            records = self._mapped(wanted.task, settings, reader)
            return Reply(self.name, facts, {"cells": records.release(statistic, share, receipt)})

        return self.store.released(wanted, make).array("cells", (agreement.size,), "i")


def _reader(asked: Mapping[str, Any]) -> Reader | BatchReader | None:
    """Return how a sum asks to read the party's table, by the agreed bounds."""
    given, bounds = asked["reader"], asked["bounds"]
    if given is None:
        return None
    if "as_cells" in given:
        facts = bounds.target if isinstance(bounds, TableBounds) else bounds
        declared = None if facts is None or given["target"] is not None else facts.labels
        known = None if declared is None else Bounds(norm=1.0, labels=declared)
        classes = None if known is None else known.label_set(np.asarray(declared))
        return Reader(bounds, classes=classes, **given)
    target = given["target_bounds"]
    estimator = public_estimator(
        given["estimator"],
        bounds=bounds,
        relation=str(asked["relation"]),
        **({} if target is None else {"target_bounds": target}),
    )
    return BatchReader(estimator, given["method"], None, None)


def _read(reader: Reader | BatchReader, batch: Any) -> tuple[Any, ...]:
    """Return rows, codes and, if there are labels, the label set."""
    if isinstance(reader, Reader):
        return *reader(batch), *(() if reader.classes is None else (reader.classes,))
    return reader.of(reader.at_party(batch))


def _made_up(
    reader: Reader | BatchReader | None, bounds: Any, columns: Any
) -> tuple[NDArray[Any], int]:
    """Return one row of which nothing is known, and how many classes the records have."""
    if reader is None:
        labels = bounds.labels
        n_labels = 1 if labels is None else len(bounds.label_set(np.asarray(labels)))
        return np.zeros((1, columns)), n_labels
    rows, _, *facts = _read(reader, all_missing_record(columns))
    return rows[:1], len(facts[0]) if facts and facts[0] is not None else 1


def _rehearse(maps: tuple[Any, ...], statistic: Any, row: NDArray[Any], n_classes: int) -> None:
    """Refuse what fails before a row is read: what fails later could tell which rows there are."""
    rows: Any = np.repeat(row, n_classes, axis=0)
    try:
        for each in maps:
            rows = each(rows)
        fits = statistic.add_up(rows, np.arange(n_classes)).shape == statistic.shape  # [Y12]
    except Exception:
        fits = False
    if not fits:
        raise FederationError("The sum does not fit the classes, or the columns, of the rows.")


def sent_size(statistic: Statistic) -> int:
    """Return how many numbers of a sum are sent: half of a symmetric one."""
    width = statistic.shape[-1]
    return statistic.size // width * (width + 1) // 2 if statistic.is_symmetric else statistic.size


def sum_digest(given: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the digest of what a sum is about: maps, statistic, mechanism, bounds, relation."""
    return Request("sum", "sum", given, arrays).fingerprint()


def _agreed(given: Mapping[str, Any]) -> str:
    """Return the digest of what a sum must have in common with the beginning of its task."""
    return digest([given["bounds"], given["relation"]])
