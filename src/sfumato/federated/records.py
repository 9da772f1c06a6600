"""Federated records: rows at parties, of which only noisy sums can be had, wherever they are."""

from __future__ import annotations

import copy
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import FederationError, InvalidInputError
from sfumato.federated.carrying import Carrier, InThisProcess, SumRound, Traffic, described
from sfumato.federated.coordination import ONE_PARTY_EACH
from sfumato.federated.messages import Reply, Request
from sfumato.federated.party import Party
from sfumato.federated.schema import READERS, packed
from sfumato.federated.secure import Agreement, SumCoordinator
from sfumato.federated.sums import BEGIN, CHECK, RELEASE, sent_size, sum_digest
from sfumato.federated.terms import labels_of
from sfumato.federated.totals import TotalsFolder
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms.gaussian import GaussianMechanism, GaussianShareMechanism
from sfumato.models.base import Reader
from sfumato.privacy.guarantee import Guarantee, Relation
from sfumato.sums.elsewhere import RemoteRecords
from sfumato.sums.maps import RowMap
from sfumato.sums.reading import BatchReader
from sfumato.sums.records import Block, Records
from sfumato.sums.statistics import Statistic
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds
from sfumato.tables.schema import TableBounds

TRUST = ("noisy", "secure")
SECURE_CONDITIONS = (
    "at most {colluding} parties work with the coordinator",
    "the others follow the protocol and have one another's true keys",
    "X25519, HKDF-SHA-256, AES-256 and Ed25519 are secure",
)


@dataclass
class _Run:
    """What a federation knows of one receipt: one fit."""

    name: str
    number: int = 0


@dataclass
class _Session:
    """One attempt at a secure sum."""

    sums: SumCoordinator
    name: str = field(default_factory=lambda: secrets.token_hex(8))


@dataclass
class _Shared:
    """What all views of a federation have in common."""

    rows: dict[str, int | None]
    keys: dict[str, str]
    active: list[str]
    runs: WeakKeyDictionary[Receipt, _Run] = field(default_factory=WeakKeyDictionary)
    n_runs: int = 0
    rounds: list[SumRound] = field(default_factory=list)
    released: list[NDArray[np.float64]] = field(default_factory=list)
    traffic: Traffic = field(default_factory=Traffic)


class Federation(RemoteRecords):
    """Records at parties that share no rows: any estimator that learns from sums can be fitted.

    Each party adds up its own rows. With trust "noisy" it adds all of the noise and sends the sum,
    so that nothing is assumed about the coordinator; with "secure" it adds a share of the noise and
    sends the sum under masks, so that the coordinator sees only the total.

    Parameters
    ----------
    parties : sequence of Party, or Carrier
        Who takes part; deployed, what carries requests to parties and brings their replies.
    bounds : Bounds or TableBounds
        Public bounds on which the parties agreed, of their rows or of their tables; they list the
        labels, if there are any.
    trust : {"noisy", "secure"}, default="noisy"
        What a coordinator can see: each party's noisy sum, or the noisy total.
    task : str, optional
        Name of the work: each party makes the sums of one name once, and a run of the same name
        gets the same sums. By default a new name.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    colluding : int, default=1
        With "secure": parties that may work with the coordinator without breaking the promise.
    dropouts : int, default=0
        Parties that may vanish in the middle.
    n_jobs : int, optional
        Threads in which parties answer in a simulation, see joblib.
    totals : path-like, optional
        Folder for released totals: a fit of the same `task` that was interrupted goes on there,
        and no sum is made a second time.
    watch : callable, optional
        Is told of each sum as it is made.

    Attributes
    ----------
    rounds : tuple of SumRound
        What happened in the last fits.

    Privacy
    -------
    Unit and relation : record; those of the estimator.
    Released : per sum, each party's sum with noise ("noisy"), or the total with noise ("secure").
    Sensitivity : of the statistic, over all parties: one change moves one party's sum.
    Guarantee : that of the estimator, on condition that each person has records at one party only;
        with "secure" also on the conditions that the guarantee lists.
    Assumptions and numerics : proof sheets "federated-sums", "secure-sums", "noise-in-shares".

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_digits
    >>> from sfumato import Bounds, PrivateGaussianClassifier
    >>> from sfumato.federated import Federation, make_parties
    >>> X, y = load_digits(return_X_y=True)
    >>> bounds = Bounds(norm=64.0, labels=range(10))
    >>> model = PrivateGaussianClassifier(epsilon=8.0, delta=1e-5, bounds=bounds)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parties = make_parties(X, y, folder, n_parties=5, random_state=0)
    ...     model = model.fit(Federation(parties, bounds=bounds, trust="secure"))
    >>> bool(model.score(X, y) > 0.8), model.guarantee_.status.value
    (True, 'conditional')
    """

    def __init__(
        self,
        parties: Sequence[Party] | Carrier,
        *,
        bounds: Bounds | TableBounds,
        trust: str = "noisy",
        task: str | None = None,
        relation: str = "replace_one",
        colluding: int = 1,
        dropouts: int = 0,
        n_jobs: int | None = None,
        totals: str | os.PathLike[str] | None = None,
        watch: Callable[[SumRound], Any] | None = None,
    ) -> None:
        if trust not in TRUST:
            raise InvalidInputError(f"'trust' must be one of {TRUST}. Got {trust!r} instead.")
        if labels_of(bounds) == PUBLIC_LABELS:
            raise InvalidInputError("The labels of a federation must be listed in its bounds.")
        self.trust, self.bounds = trust, bounds
        self.task = secrets.token_hex(8) if task is None else task
        self.colluding = colluding if trust == "secure" else 0
        self.dropouts = dropouts
        here = None if isinstance(parties, Carrier) else InThisProcess(parties, n_jobs)
        self._carrier: Carrier = here or parties  # type: ignore[assignment]
        replies = self._described(relation)
        widths = {int(reply.fact("width")) for reply in replies.values()}
        if len(widths) != 1:
            raise FederationError(f"The parties have rows of different widths: {sorted(widths)}.")
        is_public = Relation(relation) is Relation.REPLACE_ONE
        rows = {n: int(r.fact("n_rows")) if is_public else None for n, r in replies.items()}
        keys = {n: str(r.facts.get("key", "")) for n, r in replies.items()}
        self._shared = _Shared(rows, keys, sorted(replies))
        self._maps: tuple[RowMap, ...] = ()
        self._held = ""
        self._reader: dict[str, Any] | None = None
        self._watch = watch
        self._totals = None if totals is None else TotalsFolder(totals)
        if trust == "secure":
            self._agreement("", 0, 1, 0)  # refuses numbers of parties that prove nothing
        number = sum(count for count in rows.values() if count) if is_public else None
        super().__init__(widths.pop(), relation, number)

    @property
    def parties(self) -> list[str]:
        """Names of those who still take part."""
        return list(self._shared.active)

    @property
    def rounds(self) -> tuple[SumRound, ...]:
        """What happened, sum by sum."""
        return tuple(self._shared.rounds)

    @property
    def public_rows(self) -> int | None:
        """Records of those who still take part, where their number is public."""
        if self.relation is not Relation.REPLACE_ONE:
            return None
        return sum(self._shared.rows[name] or 0 for name in self._shared.active)

    @public_rows.setter
    def public_rows(self, number: int | None) -> None:
        """Follow from the parties: what is set is what they say."""

    def variance_of(self, mechanism: Any) -> float:
        """Variance that the noise of all parties together has in a released sum.

        mechanism (GaussianMechanism): The mechanism of the release.
        """
        enough = self._n_shares if self.trust == "secure" else 1
        return float(mechanism.variance()) * len(self._shared.active) / enough

    @property
    def _n_shares(self) -> int:
        """Parties whose noise is counted on."""
        return len(self._shared.rows) - self.dropouts - self.colluding

    @property
    def columns(self) -> Sequence[str] | int:
        """Names of the columns of the parties' tables, or the number of columns of their rows."""
        return list(self.bounds.types()) if isinstance(self.bounds, TableBounds) else self.width

    def read_by(self, reader: Reader | BatchReader, width: int) -> Records:
        """Let each party read its own table, or its rows, as an estimator would.

        reader: How it reads.
        width: Numbers of a row that it makes.
        Returns: The same records, read.
        """
        bounds = reader.bounds if isinstance(reader, Reader) else reader.estimator.bounds
        if bounds != self.bounds:
            raise FederationError("The estimator reads by other bounds than were agreed on.")
        if isinstance(reader, Reader):
            how = {"scaled": reader.scaled, "as_cells": reader.as_cells, "target": reader.target}
            return self._seen(reader=how, width=width)
        name = type(reader.estimator).__name__
        if reader.method not in READERS.get(name, ()):
            raise FederationError(f"Parties do not read as {name} does.")
        target = getattr(reader.estimator, "target_bounds", None)
        given = {"estimator": name, "method": reader.method, "target_bounds": target}
        return self._seen(reader=given, width=width)

    def mapped(self, row_map: RowMap) -> Records:
        """Return the records seen through a public map, which is computed at the parties."""
        return self._seen(maps=(*self._maps, row_map), held="", width=row_map.width)

    def cache(self) -> Records:
        """Return the records with their maps computed once and kept at the parties.

        Returns: The same records.
        """
        return self._seen(held="rows")

    def cache_float32(self) -> Records:
        """Do the same on the grid of `Float32Rows`.

        Returns: The same records.
        """
        return self._seen(held="singles")

    def release(
        self, statistic: Statistic, mechanism: Any, receipt: Receipt
    ) -> NDArray[np.float64]:
        """Let the parties add up a statistic, and return the noisy total.

        statistic: What is added up.
        mechanism (GaussianMechanism): Whose noise the total carries, at least.
        receipt: What the fit has to pay for; each party pays it from its own ledger.
        """
        if not isinstance(mechanism, GaussianMechanism) or mechanism.noise_multiplier == 0:
            raise InvalidInputError(
                "Parties release sums with Gaussian noise; this fit needs "
                f"{type(mechanism).__name__}. Choose settings without it."
            )
        if mechanism.sensitivity < self.sensitivity(statistic):
            raise InvalidInputError("The mechanism is made for a smaller sensitivity.")
        run = self._run(receipt)
        settings, arrays = self._asked(statistic, mechanism)
        receipt.charge(mechanism.event())
        self._shared.traffic = Traffic()
        asked = [run.name, run.number, self.trust, sum_digest(settings, arrays)]
        asked += [sorted(self._shared.rows), self.colluding, self.dropouts]
        total = self._released_before(asked, statistic)
        if total is None:
            total = (
                self._noisy_total(run, settings, arrays, statistic)
                if self.trust == "noisy"
                else self._secure_total(run, settings, arrays, statistic, mechanism)
            )
            if self._totals is not None:
                self._totals.keep(asked, total, asdict(self._shared.rounds[-1]))
        run.number += 1
        receipt.only_if(*self.conditions)
        self._shared.released.append(total)
        return total.copy()

    def _released_before(
        self, asked: Sequence[Any], statistic: Statistic
    ) -> NDArray[np.float64] | None:
        """Return the total of a fit that was interrupted: it is the release, and no second one."""
        found = None if self._totals is None else self._totals.find(asked, statistic.shape)
        if found is None:
            return None
        total, facts = found
        noted = SumRound(**{**facts, "included": tuple(facts["included"])})
        self._shared.active = [each for each in self._shared.active if each in noted.included]
        self._shared.rounds.append(noted)
        return total

    @property
    def released(self) -> list[NDArray[np.float64]]:
        """The noisy totals, in their order."""
        return [total.copy() for total in self._shared.released]

    def to_dict(self, guarantee: Guarantee) -> dict[str, Any]:
        """Return what happened as plain JSON: who took part, what was seen, who paid what.

        Parameters
        ----------
        guarantee : Guarantee
            Of the model that was fitted: each party has paid for its events.

        Returns
        -------
        dict
            For `sfumato.report`.
        """
        return {
            "federation": self.task,
            "trust": self.trust,
            "colluding": self.colluding,
            "dropouts": self.dropouts,
            "total": guarantee.to_dict(),
            "sentence": str(guarantee),
            "parties": {
                name: {"rows": rows, "to_the_end": name in self._shared.active}
                for name, rows in self._shared.rows.items()
            },
            "sums": [asdict(each) for each in self._shared.rounds],
        }

    @property
    def conditions(self) -> tuple[str, ...]:
        """What must hold for the promise of a fit."""
        first = (ONE_PARTY_EACH,) if len(self._shared.active) > 1 else ()
        if self.trust == "noisy":
            return (*first, *self._carrier.conditions)
        of_sums = (each.format(colluding=self.colluding) for each in SECURE_CONDITIONS)
        return (*first, *of_sums, *self._carrier.conditions)

    # Requests ---------------------------------------------------------------------------------

    def _described(self, relation: str) -> dict[str, Reply]:
        request = described(self.task, relation, self.trust, self.bounds)
        return self._answers(list(self._carrier.names), request, may_miss=0)

    def _answers(
        self, names: Sequence[str], request: Request | Mapping[str, Request], *, may_miss: int
    ) -> dict[str, Reply]:
        """Ask parties, and leave out those that vanish; a refusal ends the run."""
        requests = dict.fromkeys(names, request) if isinstance(request, Request) else request
        replies = self._carrier.ask(requests)
        if hasattr(self, "_shared"):
            self._shared.traffic.note(requests, replies)
        refused = {n: r.refusal for n, r in replies.items() if r.refusal is not None}
        if refused:
            said = "; ".join(f"{name}: {why}" for name, why in sorted(refused.items()))
            raise FederationError(f"Not all parties agree. {said}")
        missing = sorted(set(names) - set(replies))
        if len(missing) > may_miss:
            raise FederationError(
                f"{', '.join(missing)} did not answer; at most {may_miss} may be missing here."
            )
        return {name: replies[name] for name in names if name in replies}

    def _run(self, receipt: Receipt) -> _Run:
        """Return what is known of a fit; its first sum lets every party agree and pay."""
        shared = self._shared
        run = shared.runs.get(receipt)
        if run is None:
            run = shared.runs[receipt] = _Run(f"{self.task}/{shared.n_runs}")
            shared.n_runs += 1
            settings = {
                "events": packed(receipt.events, {}),
                "bounds": packed(self.bounds, {}),
                "relation": str(self.relation),
            }
            names = shared.active
            self._answers(names, Request(run.name, CHECK, settings), may_miss=0)
            self._answers(names, Request(run.name, BEGIN, settings), may_miss=0)
        return run

    def _asked(
        self, statistic: Statistic, mechanism: GaussianMechanism
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        arrays: dict[str, NDArray[Any]] = {}
        asked = {
            "maps": self._maps,
            "statistic": statistic,
            "mechanism": mechanism,
            "bounds": self.bounds,
            "relation": self.relation,
            "max_rows": self.max_rows,
            "kept": self._held,
            "reader": self._reader,
        }
        return packed(asked, arrays), arrays

    def _noisy_total(
        self, run: _Run, settings: dict[str, Any], arrays: dict[str, Any], statistic: Statistic
    ) -> NDArray[np.float64]:
        request = Request(run.name, f"{RELEASE}.{run.number}", settings, arrays)
        replies = self._answers(self._shared.active, request, may_miss=self.dropouts)
        shape = statistic.shape
        if statistic.is_symmetric:
            shape = (*shape[:-2], shape[-1] * (shape[-1] + 1) // 2)
        sums = [reply.array("released", shape) for reply in replies.values()]
        self._note(statistic, sums[0].size, replies, "its noisy sum")
        total = np.sum(sums, axis=0)  # post-processing of what everybody may see
        return _mirrored(total, statistic.shape) if statistic.is_symmetric else total

    def _agreement(
        self, task: str, number: int, size: int, largest: int, about: str = ""
    ) -> Agreement:
        shared = self._shared
        gone = len(shared.rows) - len(shared.active)
        return Agreement(
            task=task,
            number=number,
            parties={name: shared.keys[name] for name in shared.active},
            size=size,
            largest=largest,
            statistic=about,
            colluding=self.colluding,
            dropouts=self.dropouts - gone,
        )

    def _secure_total(
        self,
        run: _Run,
        settings: dict[str, Any],
        arrays: dict[str, Any],
        statistic: Statistic,
        mechanism: GaussianMechanism,
    ) -> NDArray[np.float64]:
        share = GaussianShareMechanism(mechanism, self._n_shares)
        size = sent_size(statistic)
        largest = share.largest(statistic.size, statistic.max_term * self.max_rows)
        about = sum_digest(settings, arrays)
        for _ in range(self.dropouts + 1):
            agreement = self._agreement(run.name, run.number, size, largest, about)
            session, staying = self._begun(run, agreement)
            if len(staying) == len(agreement.parties):
                break
            self._shared.active = staying  # nothing was added up: agree anew without the others
        cells, included = self._masked_total(run, session, settings, arrays)
        self._note(statistic, size, included, "nothing but the total")
        return share.total(cells, statistic.shape, symmetric=statistic.is_symmetric)

    def _step(
        self, run: _Run, session: _Session, step: str, names: Iterable[str], **more: Any
    ) -> dict[str, Reply]:
        """Carry one step of a secure sum; what is a function is asked for by name."""
        agreement, arrays = session.sums.agreement, more.pop("arrays", {})
        about = {"agreement": packed(agreement, {}), "session": session.name}
        requests = {}
        for name in names:
            own = {key: each(name) if callable(each) else each for key, each in more.items()}
            phase = f"sums.{step}.{run.number}"
            requests[name] = Request(run.name, phase, {**about, **own}, arrays)
        lost = len(agreement.parties) - len(requests)
        return self._answers(list(requests), requests, may_miss=agreement.dropouts - lost)

    def _begun(self, run: _Run, agreement: Agreement) -> tuple[_Session, list[str]]:
        """Begin a session: everybody's keys, or the names of those who still answer."""
        session = _Session(SumCoordinator(agreement))
        found = self._step(run, session, "advertise", agreement.names)
        session.sums.adverts = {name: reply.fact("advert") for name, reply in found.items()}
        return session, sorted(found)

    def _masked_total(
        self, run: _Run, session: _Session, asked: dict[str, Any], arrays: dict[str, Any]
    ) -> tuple[NDArray[np.int64], list[str]]:
        """Carry the other messages of a secure sum."""
        sums = session.sums
        found = self._step(run, session, "share", sums.adverts, adverts=sums.adverts)
        sums.boxes = {name: reply.fact("boxes") for name, reply in found.items()}
        found = self._step(
            run, session, "mask", found, boxes=sums.boxes_for, sum=asked, arrays=arrays
        )
        size = (sums.agreement.size,)
        sums.masked = {name: reply.array("words", size, "u") for name, reply in found.items()}
        included = sums.included()
        found = self._step(run, session, "confirm", included, included=included)
        signatures = {name: reply.fact("signature") for name, reply in found.items()}
        found = self._step(run, session, "reveal", found, signatures=signatures)
        total = sums.total({name: reply.fact("shares") for name, reply in found.items()})
        return total, included

    def _note(self, statistic: Statistic, size: int, included: Iterable[str], seen: str) -> None:
        """Write a sum down; those who vanished in it are not asked again."""
        self._shared.active = sorted(included)
        self._shared.rounds.append(
            SumRound(
                type(statistic).__name__,
                size,
                tuple(self._shared.active),
                seen,
                **self._shared.traffic.most(),
            )
        )
        if self._watch is not None:
            self._watch(self._shared.rounds[-1])

    def _seen(self, **changes: Any) -> Self:
        view = copy.copy(self)
        view._maps = changes.get("maps", self._maps)
        view._held = changes.get("held", self._held)
        view._reader = changes.get("reader", self._reader)
        view.width = changes.get("width", self.width)
        return view

    def _blocks(self) -> Iterator[Block]:
        raise InvalidInputError("Rows of parties stay where they are; only sums leave them.")


def _mirrored(triangles: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    rows, columns = np.triu_indices(shape[-1])
    matrices = np.zeros(shape)
    matrices[..., rows, columns] = triangles
    matrices[..., columns, rows] = triangles
    return matrices
