"""A party: its rows, its ledger, its store of releases, and the right to say no.

Phases of sums, in this order: ``sums.describe`` (public facts, nothing is paid), ``sums.check``
(would it agree, nothing is paid), ``sums.begin`` (it pays for all sums of the task), then for each
sum either ``sums.release`` (noise of its own) or the five steps of a secure sum. Requests are read
by `federated/schema.py` before anything else.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import FederationError, SfumatoError
from sfumato.federated.messages import ReleaseStore, Reply, Request
from sfumato.federated.schema import Asked, pack, read_request, require_safe
from sfumato.federated.secure import Agreement, Identity, Journal, Member, digest_of
from sfumato.ledger.receipt import Receipt, prepay
from sfumato.mechanisms.gaussian import GaussianShareMechanism
from sfumato.privacy.composition import epsilon_spent
from sfumato.privacy.events import Event, event_from_dict, flatten
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.sums.grid import MAX_ROWS_SECRET_N
from sfumato.sums.records import ArrayRecords, Records
from sfumato.sums.statistics import Statistic
from sfumato.sums.table_parts import all_missing_record
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.schema import TableBounds

Rows = tuple[NDArray[Any], NDArray[Any]]

_log = logging.getLogger("sfumato.federated")


@dataclass(frozen=True)
class Terms:
    """What a party gives at most: a request on other terms is refused before any row is read.

    Parameters
    ----------
    bounds : Bounds, optional
        The public bounds on which the parties agreed; None takes those of the task. Either way
        they must list the labels, at every unit: no label set is ever read off a party's data.
    max_epsilon : float, default=16.0
        Largest epsilon of one task. Infinity is refused unless it stands here.
    max_delta : float, default=1e-3
        Largest delta of one task.
    unit, relation : str, optional
        The only ones accepted; None leaves them to the ledger.
    entry_bound : float, optional
        With unit "entry": the smallest change that must be protected. None asks for any change
        inside the box.
    colluding : int, default=1
        Secure sums must tolerate at least this many parties that work with the coordinator: the
        noise of all others is then enough.
    table : TableBounds, optional
        The public facts of a table on which the parties agreed; `bounds` are those of its rows.
    """

    bounds: Bounds | None = None
    max_epsilon: float = 16.0
    max_delta: float = 1e-3
    unit: str | None = None
    relation: str | None = None
    entry_bound: float | None = None
    colluding: int = 1
    table: TableBounds | None = None

    def _require(
        self,
        party: str,
        *,
        bounds: Bounds | TableBounds | None,
        unit: str,
        relation: str,
        epsilon: float,
        delta: float = 0.0,
        entry_bound: float | None = None,
    ) -> None:
        """Raise unless a task of these public facts keeps the terms of `party`."""
        agreed, allowed = (self.bounds, self.table), self.entry_bound
        why = {
            "the labels must be listed, not taken from the data.": (
                bounds is None or labels_of(bounds) == PUBLIC_LABELS
            ),
            "the task's bounds are not the ones agreed on.": (
                agreed != (None, None) and bounds not in agreed
            ),
            f"the task costs epsilon {epsilon:g}, at most {self.max_epsilon:g} is allowed.": (
                not epsilon <= self.max_epsilon
            ),
            f"the task asks for delta {delta:g}, at most {self.max_delta:g} is allowed.": (
                not delta <= self.max_delta
            ),
            f"the unit must be '{self.unit}'.": self.unit not in (None, unit),
            f"the relation must be '{self.relation}'.": self.relation not in (None, relation),
            "the task would protect smaller changes of an entry than were agreed on.": (
                entry_bound is not None and (allowed is None or not entry_bound >= allowed)
            ),
        }
        for reason, is_so in why.items():
            if is_so:
                raise FederationError(f"{party} refuses: {reason}")


def labels_of(bounds: Bounds | TableBounds) -> Any:
    """Return the labels that bounds list, the word "public", or None without any."""
    return getattr(bounds if isinstance(bounds, Bounds) else bounds.target, "labels", None)


class Party:
    """One owner of rows in a federation.

    Parameters
    ----------
    name : str
        How the others know it.
    load : callable
        Returns rows and labels; called only when a release is made.
    store : path-like
        Folder of the party's releases and of its log of messages.
    ledger : DatasetBudget, optional
        Pays for every release; a federation in earnest always has one.
    terms : Terms, optional
        What the party agreed to; a request on other terms is refused.
    conditions : sequence of str, optional
        What else must hold for a promise about its rows, such as how a simulation dealt them.
    identity : Identity, optional
        Its key for secure sums; by default a new one, for simulations.
    registered : mapping of str to str, optional
        Public keys of the other parties, by name; by default those that a coordinator sends are
        believed, for simulations.
    table : callable, optional
        Returns the table itself, for sums over tables; see `of_table`.
    """

    def __init__(
        self,
        name: str,
        load: Callable[[], Rows],
        store: str | os.PathLike[str],
        *,
        ledger: Any = None,
        terms: Terms | None = None,
        conditions: Sequence[str] = (),
        identity: Identity | None = None,
        registered: Mapping[str, str] | None = None,
        table: Callable[[], Any] | None = None,
    ) -> None:
        self.name, self.load, self.table, self.ledger = name, load, table, ledger
        self.store = ReleaseStore(store)
        self.terms = Terms() if terms is None else terms
        self.conditions = tuple(conditions)
        self.registered = registered
        self._identity = identity
        self._journal = Journal(self.store.folder / "journal")
        self._members: dict[str, Member] = {}
        self._kept: tuple[str, Records] | None = None  # records as a task has mapped them

    @classmethod
    def of_rows(
        cls, name: str, X: ArrayLike, y: ArrayLike, store: str | os.PathLike[str], **rights: Any
    ) -> Party:
        """Make a party of rows in memory, for simulations.

        Parameters
        ----------
        name : str
            The party.
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.
        store : path-like
            Where it keeps its releases.
        **rights : object
            Other fields of the party, such as `ledger` and `terms`.
        """
        rows, labels = np.asarray(X), np.asarray(y)
        return cls(name, lambda: (rows, labels), store, **rights)

    @classmethod
    def of_table(
        cls,
        name: str,
        table: Any,
        store: str | os.PathLike[str],
        *,
        bounds: TableBounds,
        **rights: Any,
    ) -> Party:
        """Make a party of a table.

        Parameters
        ----------
        name : str
            The party.
        table : table or callable
            Of pandas, polars or Arrow, with the columns that the bounds declare; or what returns
            one.
        store : path-like
            Where it keeps its releases.
        bounds : TableBounds
            Public facts about the table.
        **rights : object
            Other fields of the party, such as `ledger` and `terms`.
        """
        encoder = TableEncoder(bounds)
        rights.setdefault("terms", Terms(encoder.row_bounds(), table=bounds))
        read = table if callable(table) else lambda: table

        def load() -> Rows:
            found = read()
            return encoder.transform(found), np.asarray(bounds.target_of(found))

        return cls(name, load, store, table=read, **rights)

    def fit_hulls(self, hulls: Any) -> Any:
        """Fit private class hulls to the party's rows, on its terms and charged to its ledger.

        Parameters
        ----------
        hulls : EntryHullClassifier or PrivateAffineHullClassifier
            Not fitted; a clone of it is.

        Returns
        -------
        estimator
            Fitted, and private: it may leave the party.
        """
        if hulls.bounds is None or labels_of(hulls.bounds) is None:
            raise FederationError(f"{self.name} refuses: the labels must be listed in the bounds.")
        self.terms._require(
            self.name,
            bounds=hulls.bounds,
            unit=hulls.protected_unit,
            relation=hulls.relation,
            epsilon=hulls.epsilon,
            delta=hulls.delta,
            entry_bound=getattr(hulls, "entry_bound", None),
        )
        model = clone(hulls).set_params(ledger=self.ledger)
        return model.fit(*self._data(table=False))

    def answer(self, request: Request) -> Reply:
        """Answer a request, or refuse it in a sentence; never with an unknown error's text.

        Parameters
        ----------
        request : Request
            What a coordinator asks.

        Returns
        -------
        Reply
            The release, the stored one if it was made before, or a refusal.
        """
        try:
            asked = read_request(request, self.terms.table)
            with np.errstate(all="ignore"):  # no warning tells of a row
                reply = self._answer(asked)
        except SfumatoError as error:
            reply = Reply(self.name, refusal=str(error))
        except Exception:
            # Its text may hold values of rows, so it stays here.
            _log.exception("%s could not answer a request", self.name)
            reply = Reply(
                self.name, refusal="An error that the party keeps to itself; see its log."
            )
        self.store.log(request, reply)
        return reply

    def _answer(self, asked: Asked) -> Reply:
        request, settings, store = asked.request, asked.settings, self.store
        if asked.phase == "sums.describe":
            return self._describe(settings)
        if asked.phase == "sums.check":
            self._require_terms(settings)
            if store.earlier(request, "sums.begin") is None and hasattr(self.ledger, "ask"):
                relation = settings["relation"]
                self.ledger.ask(*settings["events"], unit=Unit.RECORD, relation=relation)
            return Reply(self.name)
        if asked.phase == "sums.begin":
            return store.release_once(request, lambda: self._begin(asked))
        if asked.phase == "sums.release":
            return store.release_once(request, lambda: self._release(asked))
        return self._secure_step(asked)

    def _data(self, *, table: bool) -> Any:
        """Return the table, or rows and labels; errors do not say what is wrong with them."""
        load = self.table if table else self.load
        if load is None:
            raise FederationError(f"{self.name} has rows of numbers, and no table.")
        try:
            return load()
        except Exception:
            _log.exception("%s could not read its rows", self.name)
            raise FederationError(f"{self.name} cannot read its rows; see its log.") from None

    # What the party holds and pays ----------------------------------------------------------------

    def _describe(self, settings: Mapping[str, Any]) -> Reply:
        is_public, table = settings["relation"] is Relation.REPLACE_ONE, settings["table"]
        agreed = self.terms.relation
        if agreed is None and hasattr(self.ledger, "total"):
            agreed = self.ledger.total.relation
        if is_public and agreed is not None and Relation(agreed) is Relation.ADD_OR_REMOVE_ONE:
            raise FederationError(f"{self.name} does not reveal the number of its rows.")
        rows = self._data(table=True) if table else self._data(table=False)[0]
        facts: dict[str, Any] = {"width": 0 if table else int(rows.shape[1])}
        if is_public:
            facts["n_rows"] = len(rows)
        if settings["trust"] == "secure":
            facts["key"] = self.identity.public
        return Reply(self.name, facts)

    @property
    def identity(self) -> Identity:
        """The key of the party, made when it is first needed."""
        if self._identity is None:
            self._identity = Identity()
        return self._identity

    def _require_terms(self, settings: Mapping[str, Any]) -> None:
        """Refuse a task on other terms; nothing is paid."""
        most, delta = self.terms.max_epsilon, min(self.terms.max_delta, 0.5)
        relation = settings["relation"]
        self.terms._require(
            self.name,
            bounds=settings["bounds"],
            unit=Unit.RECORD,
            relation=relation,
            epsilon=epsilon_spent(settings["events"], delta, relation, enough=most),
        )

    def _begin(self, asked: Asked) -> Reply:
        settings, given = asked.settings, asked.request.settings
        self._require_terms(settings)
        events = settings["events"]
        prepay(self.ledger, *events, unit=Unit.RECORD, relation=settings["relation"])  # [Y1]
        facts = {"events": [each.to_dict() for each in events]}
        agreed = digest_of([given["bounds"], given["relation"]])
        return Reply(self.name, {**facts, "agreed": agreed})

    def _receipt(
        self, request: Request, number: int, event: Event
    ) -> tuple[Receipt, dict[str, Any]]:
        """Return the receipt of a sum, and all events that are drawn then; it is drawn once."""
        used: dict[Event, int] = {}
        if number > 0:
            before = self.store.earlier(request, f"sums.release.{number - 1}")
            if before is None:
                raise FederationError(f"Sum {number - 1} comes before sum {number}.")
            used = {event_from_dict(each): times for each, times in before.fact("used")}
        used[event] = used.get(event, 0) + 1
        begun = self.store.earlier(request, "sums.begin")
        listed = () if begun is None else begun.fact("events")
        paid = flatten(event_from_dict(each) for each in listed)
        if used[event] > paid.get(event, 0):  # [Y2] no more draws of an event than were paid for
            raise FederationError(f"{self.name} was not charged for sum {number}.")
        return Receipt((event,)), {"used": [[each.to_dict(), n] for each, n in used.items()]}

    # Sums -----------------------------------------------------------------------------------------

    def _check_sum(
        self, request: Request, asked: Mapping[str, Any], given: Mapping[str, Any]
    ) -> int:
        """Refuse a sum by public facts alone; return the most rows that it may have."""
        begun = self.store.earlier(request, "sums.begin")
        if begun is None:
            raise FederationError(f"{self.name} has not agreed to the task '{request.task}'.")
        (read_by,) = given["reader"].values()
        if digest_of([read_by["bounds"], given["relation"]]) != begun.fact("agreed"):  # [Y10]
            raise FederationError(f"The task '{request.task}' was begun on different terms.")
        relation, reader = asked["relation"], asked["reader"]
        maps, statistic, mechanism = asked["maps"], asked["statistic"], asked["mechanism"]
        is_table = isinstance(reader.bounds, TableBounds)
        data = self._data(table=is_table)
        n_rows = len(data if is_table else data[0])
        columns = list(reader.bounds.types()) if is_table else int(data[0].shape[1])
        # [Y9] one record of which nothing is known, read as all are
        row = reader(all_missing_record(columns))[0][:1]
        n_classes = 1 if reader.classes is None else len(reader.classes)
        require_safe(maps, statistic, relation=relation, n_classes=n_classes)  # [Y3]
        try:  # what fails later could tell which rows there are
            rows: Any = np.repeat(row, n_classes, axis=0)
            for each in maps:
                rows = each(rows)
            fits = statistic.add_up(rows, np.arange(n_classes)).shape == statistic.shape  # [Y12]
        except Exception:
            fits = False
        if not fits:
            raise FederationError("The sum does not fit the classes, or the columns, of the rows.")
        max_rows = n_rows if relation is Relation.REPLACE_ONE else MAX_ROWS_SECRET_N
        needed = (statistic.sensitivity(relation, n) for n in (asked["max_rows"], max_rows))
        if mechanism.sensitivity < max(needed):  # [Y4]
            raise FederationError("The noise is calibrated for a smaller sensitivity.")
        mechanism.for_size(statistic.size)
        return max_rows

    def _records(self, task: str, asked: Mapping[str, Any]) -> Records:
        """Return the rows as maps make them; a descent asks for the same ones again and again."""
        relation, kept, reader = asked["relation"], asked["kept"], asked["reader"]
        arrays: dict[str, NDArray[Any]] = {}
        about = {each: pack(asked[each], arrays) for each in ("maps", "reader")}
        name = Request(task, kept, {**about, "relation": str(relation)}, arrays).fingerprint()
        if self._kept is not None and self._kept[0] == name:
            return self._kept[1]
        is_table = isinstance(reader.bounds, TableBounds)
        whole = self._data(table=is_table)
        rows, codes = reader(whole if is_table else (*whole, None))  # [Y9] each record on its own
        records: Records = ArrayRecords(rows, codes, relation=relation)
        for each in asked["maps"]:
            records = records.mapped(each)
        if kept:
            records = records.cache(in_singles=kept != "rows")
        self._kept = name, records
        return records

    def _release(self, asked: Asked) -> Reply:
        request, settings = asked.request, asked.settings
        statistic, mechanism = settings["statistic"], settings["mechanism"]
        self._check_sum(request, settings, request.settings)
        receipt, facts = self._receipt(request, asked.number, mechanism.event())
        records = self._records(request.task, settings)  # no row is read before
        noisy = records.release(statistic, mechanism, receipt)  # [Y5] noise of its own
        if statistic.is_symmetric:
            noisy = noisy[..., *np.triu_indices(noisy.shape[-1])]
        return Reply(self.name, facts, {"released": noisy})

    def _secure_step(self, asked: Asked) -> Reply:
        settings, agreement = asked.settings, asked.settings["agreement"]
        if (agreement.task, agreement.number) != (asked.request.task, asked.number):
            raise FederationError("The agreement is about a different sum.")
        if agreement.colluding < self.terms.colluding:  # [Y7] a promise against this many
            raise FederationError(
                f"{self.name} refuses: the sum tolerates {agreement.colluding} colluding parties, "
                f"{self.terms.colluding} are required."
            )
        session = digest_of([agreement.digest, settings["session"]])
        # A party with registered keys may go on in another process; in a simulation none does.
        file = None
        if self.registered is not None:
            folder = self.store.folder / "sessions"
            folder.mkdir(mode=0o700, exist_ok=True)  # it holds keys of sums that are being made
            file = folder / f"{session[:32]}.json"
        if session not in self._members:
            known = agreement.parties if self.registered is None else self.registered
            member = Member(self.name, self.identity, agreement, known, self._journal)
            if file is not None and file.exists():
                member.resume(json.loads(file.read_text()))
            self._members = {session: member}  # one sum at a time
        member = self._members[session]
        if asked.phase == "sums.advertise":
            reply = Reply(self.name, {"advert": member.advertise()})
        elif asked.phase == "sums.share":
            reply = Reply(self.name, {"boxes": member.share(settings["adverts"])})
        elif asked.phase == "sums.mask":
            words = member.mask(settings["boxes"], self._noisy_cells(asked, agreement))
            reply = Reply(self.name, {}, {"words": words})
        elif asked.phase == "sums.confirm":
            reply = Reply(self.name, {"signature": member.confirm(settings["included"])})
        else:
            reply = Reply(self.name, {"shares": member.reveal(settings["signatures"])})
        if file is not None:
            with atomic_write(file) as stored:
                stored.write(json.dumps(member.state()).encode())
        return reply

    def _noisy_cells(self, asked: Asked, agreement: Agreement) -> NDArray[np.int64]:
        """Return the party's sum with its share of the noise: drawn once, in whatever session."""
        given, arrays = asked.request.settings["sum"], asked.request.arrays
        if sum_digest(given, arrays) != agreement.statistic:
            raise FederationError("The agreement is about a different sum.")
        terms = {**given, "agreement": pack(agreement, {})}
        wanted = Request(agreement.task, f"sums.release.{agreement.number}", terms, arrays)

        def make() -> Reply:
            settings = asked.settings["sum"]
            statistic, mechanism = settings["statistic"], settings["mechanism"]
            max_rows = self._check_sum(wanted, settings, given)
            if agreement.size != sent_size(statistic):
                raise FederationError("The sum does not have the agreed size.")
            share = GaussianShareMechanism(mechanism, agreement.noisy_parties)  # [Y6] enough shares
            # [Y8] a bound that its numbers could pass would be a question about them
            public = share.largest(statistic.size, statistic.max_term * max_rows)
            if agreement.largest < public:
                raise FederationError("The agreed bound on numbers is below the public one.")
            receipt, facts = self._receipt(wanted, agreement.number, share.event())
            records = self._records(wanted.task, settings)
            return Reply(self.name, facts, {"cells": records.release(statistic, share, receipt)})

        return self.store.release_once(wanted, make).array("cells", (agreement.size,), "i")


def sent_size(statistic: Statistic) -> int:
    """Return how many numbers of a sum are sent: half of a symmetric one."""
    width = statistic.shape[-1]
    return statistic.size // width * (width + 1) // 2 if statistic.is_symmetric else statistic.size


def sum_digest(given: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return the digest of what a sum is about: maps, statistic, mechanism, bounds, relation."""
    return Request("sum", "sum", given, arrays).fingerprint()
