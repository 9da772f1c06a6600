"""A party's answers about sums: what it holds, what it agrees to pay for, and each sum once.

Phases of a task, in this order: ``sums.describe`` (public facts, nothing is paid), ``sums.check``
(would it agree, nothing is paid), ``sums.begin`` (it pays for all sums of the task), then for each
sum either ``sums.release`` (noise of its own) or the five steps of a secure sum.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.receipt import Receipt, prepay
from sfumato.engines.opening import unknown_record
from sfumato.engines.reading import BatchReader
from sfumato.events import Event, event_from_dict, flatten
from sfumato.exceptions import FederationError
from sfumato.federated import hulls
from sfumato.federated.messages import Reply, Request
from sfumato.federated.release_store import ReleaseStore
from sfumato.federated.safety import require_safe
from sfumato.federated.secure import Agreement, Identity, Journal, Member
from sfumato.federated.secure.agreement import digest
from sfumato.federated.terms import Terms
from sfumato.federated.wire import unpacked
from sfumato.guarantee import Relation, Unit
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.shares import GaussianShareMechanism
from sfumato.storage.atomic_file import atomic_write
from sfumato.sums.records import ArrayRecords, Records
from sfumato.tables.bounds import Bounds
from sfumato.tables.schema import TableBounds

__all__ = ["BEGIN", "CHECK", "DESCRIBE", "RELEASE", "STEPS", "PartySums", "sum_digest"]

DESCRIBE, CHECK, BEGIN, RELEASE = "sums.describe", "sums.check", "sums.begin", "sums.release"
STEPS = ("advertise", "share", "mask", "confirm", "reveal")


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

    def answer(self, request: Request) -> Reply:
        """Answer one request.

        request: Of a phase that begins with "sums.".
        """
        settings = request.settings
        if request.phase == DESCRIBE:
            return self._describe(settings)
        if request.phase == CHECK:
            events = self._check_terms(settings)
            if self.store.earlier(request, BEGIN) is None and hasattr(self.ledger, "ask"):
                self.ledger.ask(*events, unit=settings["unit"], relation=settings["relation"])
            return Reply(self.name)
        if request.phase == BEGIN:
            return self.store.released(request, lambda: self._begin(request))
        if request.phase.startswith(RELEASE):
            return self.store.released(request, lambda: self._release(request))
        step = request.phase.partition(".")[2].partition(".")[0]
        if step in STEPS:
            return self._secure_step(step, request)
        raise FederationError(f"The phase '{request.phase}' is not known here.")

    # What the party holds and pays ------------------------------------------------------------

    def _describe(self, settings: Mapping[str, Any]) -> Reply:
        is_public = Relation(settings["relation"]) is Relation.REPLACE_ONE
        if is_public and self._hides_number:
            raise FederationError(f"{self.name} does not reveal the number of its rows.")
        facts: dict[str, Any] = {"width": 0}
        if settings.get("table"):
            number = len(self._table())
        else:
            rows, _ = self.load()
            number = len(rows)
            facts["width"] = int(rows.shape[1])
        if is_public:
            facts["n_rows"] = number
        if settings.get("trust") == "secure":
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
    def _hides_number(self) -> bool:
        """Whether its terms, or its ledger, make the number of rows a secret."""
        agreed = self.terms.relation
        if agreed is None and hasattr(self.ledger, "total"):
            agreed = self.ledger.total.relation
        return agreed is not None and Relation(agreed) is Relation.ADD_OR_REMOVE_ONE

    def _check_terms(self, settings: Mapping[str, Any]) -> tuple[Event, ...]:
        """Give the events of a task, or refuse them; nothing is paid."""
        events = tuple(event_from_dict(each) for each in settings["events"])
        bounds = unpacked(settings["bounds"], {})
        self.terms.require_sums(
            events, bounds, Unit(settings["unit"]), Relation(settings["relation"]), self.name
        )
        return events

    def _begin(self, request: Request) -> Reply:
        settings = request.settings
        events = self._check_terms(settings)
        self.store.require_free(request, hulls.FIT)
        relation = Relation(settings["relation"])
        prepay(self.ledger, *events, unit=settings["unit"], relation=relation)  # [Y1] all at once
        agreed = digest([settings[name] for name in AGREED])
        return Reply(self.name, {"events": list(settings["events"]), "agreed": agreed})

    def _begun(self, request: Request) -> Reply:
        begun = self.store.earlier(request, BEGIN)
        if begun is None:
            raise FederationError(f"{self.name} has not agreed to the task '{request.task}'.")
        return begun

    def _paid(self, request: Request, number: int, event: Event) -> Receipt:
        """Give the receipt of sum `number`: paid for at the beginning, and drawn once."""
        left = flatten(event_from_dict(each) for each in self._begun(request).fact("events"))
        if number > 0:
            before = self.store.earlier(request, f"{RELEASE}.{number - 1}")
            if before is None:
                raise FederationError(f"Sum {number - 1} comes before sum {number}.")
            for used, times in before.fact("used"):
                left[event_from_dict(used)] -= times
        if left.get(event, 0) < 1:  # [Y2] no more draws of an event than were paid for
            raise FederationError(f"{self.name} was not asked to pay for sum {number}.")
        return Receipt((event,))

    def _used(self, request: Request, number: int, event: Event) -> list[Any]:
        """List the events that were drawn, this one included."""
        used: list[Any] = []
        if number > 0:
            before = self.store.earlier(request, f"{RELEASE}.{number - 1}")
            used = [] if before is None else [list(each) for each in before.fact("used")]
        name = event.to_dict()
        for each in used:
            if each[0] == name:
                each[1] += 1
                return used
        return [*used, [name, 1]]

    # Sums ---------------------------------------------------------------------------------------

    def _records(self, request: Request) -> tuple[Records, Any, GaussianMechanism]:
        """Give the mapped records, the statistic and the mechanism that were asked for."""
        settings, arrays = request.settings, request.arrays
        maps = unpacked(settings["maps"], arrays)
        statistic = unpacked(settings["statistic"], arrays)
        mechanism = unpacked(settings["mechanism"], arrays)
        bounds = unpacked(settings["bounds"], {})
        relation = Relation(settings["relation"])
        begun = self._begun(request).fact("agreed")
        if digest([settings[name] for name in AGREED]) != begun:  # [Y10] what was paid for
            raise FederationError(f"The task '{request.task}' was begun on other terms.")
        reader = unpacked(settings.get("reader"), arrays)
        if reader is None and not isinstance(bounds, Bounds):
            raise FederationError("A table must be read before it is added up.")
        agreed = self.terms.bounds if reader is None else None  # a reader has its own, see below
        columns = list(bounds.types()) if isinstance(bounds, TableBounds) else self._width
        row, n_classes = _made_up(reader, bounds, relation, columns)  # [Y9]
        require_safe(  # [Y3]
            maps, statistic, bounds=agreed, relation=relation, n_classes=n_classes
        )
        _rehearse(maps, statistic, row, n_classes)
        if not isinstance(mechanism, GaussianMechanism) or mechanism.noise_multiplier == 0:
            raise FederationError("Sums among parties are released with Gaussian noise.")
        records = self._mapped(request, bounds, relation, maps, reader)
        needed = statistic.sensitivity(relation, int(settings["most_rows"]))
        if mechanism.sensitivity < max(needed, records.sensitivity(statistic)):  # [Y4]
            raise FederationError("The noise is made for a smaller sensitivity than the sum has.")
        return records, statistic, mechanism.for_size(statistic.size)

    def _mapped(
        self,
        request: Request,
        bounds: Any,
        relation: Relation,
        maps: tuple[Any, ...],
        reader: BatchReader | None,
    ) -> Records:
        wanted = str(request.settings["kept"])
        places = [request.settings.get(name) for name in ("maps", "bounds", "reader")]
        used = sorted(n for n in request.arrays if f'"{n}"' in str(places).replace("'", '"'))
        name = digest([request.task, *places, wanted, [_array_digest(request, n) for n in used]])
        if self._kept is not None and self._kept[0] == name:
            return self._kept[1]
        if reader is not None:  # [Y9] each record by itself, as the estimator reads it
            whole = self._table() if isinstance(bounds, TableBounds) else (*self.load(), None)
            rows, codes = reader(reader.at_party(whole))
        else:
            rows, labels = self.load()
            codes = None if bounds.labels is None else bounds.clip_labels(np.asarray(labels))[0]
        records: Records = ArrayRecords(np.asarray(rows), codes, relation=relation)
        for each in maps:
            records = records.mapped(each)
        if wanted == "rows":
            records = records.kept()
        if wanted == "singles":
            records = records.kept_in_singles()
        self._kept = name, records
        return records

    def _release(self, request: Request) -> Reply:
        number = request.settings["number"]
        if type(number) is not int or number < 0 or request.phase != f"{RELEASE}.{number}":
            raise FederationError(f"The phase '{request.phase}' is not that of one sum.")  # [Y11]
        records, statistic, mechanism = self._records(request)
        event = mechanism.event()
        receipt = self._paid(request, number, event)
        noisy = records.release(statistic, mechanism, receipt)  # [Y5] noise of its own
        if statistic.is_symmetric:
            noisy = noisy[..., *np.triu_indices(noisy.shape[-1])]
        facts = {"used": self._used(request, number, event)}
        return Reply(self.name, facts, {"released": noisy})

    def _secure_step(self, step: str, request: Request) -> Reply:
        agreement = Agreement.from_dict(request.settings["agreement"])
        session = digest([agreement.digest(), str(request.settings["session"])])
        member = self._member(agreement, session)
        reply = self._answered(member, step, request, agreement)
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

    def _answered(self, member: Member, step: str, request: Request, agreement: Agreement) -> Reply:
        settings = request.settings
        if step == "advertise":
            return Reply(self.name, {"advert": member.advertise()})
        if step == "share":
            return Reply(self.name, {"boxes": member.share(settings["adverts"])})
        if step == "mask":
            cells = self._noisy_cells(request, agreement)
            return Reply(self.name, {}, {"words": member.mask(settings["boxes"], cells)})
        if step == "confirm":
            return Reply(self.name, {"signature": member.confirm(settings["included"])})
        return Reply(self.name, {"shares": member.reveal(settings["signatures"])})

    def _noisy_cells(self, request: Request, agreement: Agreement) -> NDArray[np.int64]:
        """Give the party's sum with its share of the noise: drawn once, in whatever session."""
        wanted = Request(
            request.task,
            f"{RELEASE}.{agreement.number}",
            {**request.settings["sum"], "agreement": agreement.to_dict()},
            request.arrays,
        )
        return self.store.released(wanted, lambda: self._share_of_sum(wanted, agreement)).array(
            "cells", (agreement.size,), "i"
        )

    def _share_of_sum(self, request: Request, agreement: Agreement) -> Reply:
        is_other = agreement.task != request.task
        if is_other or sum_digest(request.settings, request.arrays) != agreement.statistic:
            raise FederationError("The agreement is about another sum.")
        records, statistic, mechanism = self._records(request)
        share = GaussianShareMechanism(mechanism, agreement.noisy_parties)  # [Y6] enough shares
        # [Y8] a bound that its numbers could pass would be a question about them
        public = statistic.largest_term * records.most_rows
        if agreement.largest < share.largest(statistic.size, public):
            raise FederationError("The agreed bound on numbers is below the public one.")
        event = share.event()
        receipt = self._paid(request, agreement.number, event)
        cells = records.release(statistic, share, receipt)
        facts = {"used": self._used(request, agreement.number, event)}
        return Reply(self.name, facts, {"cells": cells})


def _made_up(
    reader: BatchReader | None, bounds: Any, relation: Relation, columns: Any
) -> tuple[NDArray[Any], int]:
    """Give one row of which nothing is known, and how many classes the records have."""
    if reader is None:
        labels = bounds.labels
        n_labels = 1 if labels is None else len(bounds.label_set(np.asarray(labels)))
        return np.zeros((1, columns)), n_labels
    asked = reader.estimator
    if asked.bounds != bounds or Relation(asked.relation) is not relation:
        raise FederationError("The estimator reads by other bounds than were agreed on.")
    if Unit(asked.unit) is not Unit.RECORD:
        raise FederationError("Sums among parties protect records.")
    rows, _, *facts = reader.of(reader.at_party(unknown_record(columns)))
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


def sum_digest(settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Digest of what a sum is about: maps, statistic, mechanism, bounds, relation."""
    about = {name: settings.get(name) for name in SUM_SETTINGS}
    return Request("sum", "sum", about, arrays).fingerprint()


AGREED = ("bounds", "relation")  # what a sum must have in common with the beginning of its task
SUM_SETTINGS = (
    "number",
    "maps",
    "statistic",
    "mechanism",
    "bounds",
    "relation",
    "most_rows",
    "kept",
    "reader",
)


def _array_digest(request: Request, name: str) -> str:
    return Request("array", name, {}, {name: request.arrays[name]}).fingerprint()
