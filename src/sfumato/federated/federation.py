"""Federated records: rows at parties, of which only noisy sums can be had, wherever they are."""

from __future__ import annotations

import copy
import math
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, Self, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import FederationError, InvalidInputError
from sfumato.federated.messages import ReleaseStore, Reply, Request
from sfumato.federated.party import Party, labels_of, sent_size, sum_digest
from sfumato.federated.schema import pack
from sfumato.federated.secure import Agreement, SumCoordinator
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms.gaussian import GaussianMechanism, GaussianShareMechanism, symmetric_from
from sfumato.models.base import Reader
from sfumato.privacy.guarantee import Guarantee, Relation
from sfumato.sums.maps import RowMap
from sfumato.sums.records import Block, Records, RemoteRecords
from sfumato.sums.statistics import Statistic
from sfumato.tables.bounds import PUBLIC_LABELS, Bounds
from sfumato.tables.schema import TableBounds

TRUST = ("noisy", "secure")
ONE_PARTY_EACH = "each person has records at one party only"
SECURE_CONDITIONS = (
    "at most {colluding} parties work with the coordinator",
    "the others follow the protocol and have one another's true keys",
    "X25519, HKDF-SHA-256, AES-256 and Ed25519 are secure",
)


@runtime_checkable
class Carrier(Protocol):
    """Who carries requests to parties and brings their replies; those who vanish are left out."""

    names: Sequence[str]
    conditions: Sequence[str]

    def ask(self, requests: Mapping[str, Request]) -> dict[str, Reply]:
        """Carry a request to each of the parties named."""


class InThisProcess:
    """Parties of a simulation, which answer one after another."""

    def __init__(self, parties: Iterable[Party]) -> None:
        listed = list(parties)
        self._parties = {party.name: party for party in listed}
        if not listed or len(self._parties) != len(listed):
            raise InvalidInputError("A federation needs parties, each with a name of its own.")
        self.names: Sequence[str] = list(self._parties)
        told = [each for party in listed for each in party.conditions]
        self.conditions: Sequence[str] = list(dict.fromkeys(told))

    def ask(self, requests: Mapping[str, Request]) -> dict[str, Reply]:
        """Let each party answer."""
        return {name: self._parties[name].answer(each) for name, each in requests.items()}


@dataclass(frozen=True)
class SumRound:
    """One sum: what was added up, and by whom.

    Parameters
    ----------
    statistic : str
        Name of what was added up.
    size : int
        Numbers that each party sent.
    included : tuple of str
        Whose records are in it.
    seen : str
        What the coordinator could see of a single party.
    """

    statistic: str
    size: int
    included: tuple[str, ...]
    seen: str


@dataclass
class _Shared:
    """What all views of a federation have in common."""

    rows: dict[str, int | None]
    keys: dict[str, str]
    active: list[str]
    runs: WeakKeyDictionary[Receipt, str] = field(default_factory=WeakKeyDictionary)
    n_sums: dict[str, int] = field(default_factory=dict)  # of each run
    rounds: list[SumRound] = field(default_factory=list)
    released: list[NDArray[np.float64]] = field(default_factory=list)


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
    totals : path-like, optional
        Folder for released totals: a fit of the same `task` that was interrupted goes on there,
        and no sum is made a second time. Its readers learn what the model may tell.
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
        totals: str | os.PathLike[str] | None = None,
        watch: Callable[[SumRound], Any] | None = None,
    ) -> None:
        if trust not in TRUST:
            raise InvalidInputError(f"'trust' must be one of {TRUST}. Got {trust!r} instead.")
        labels = labels_of(bounds)
        if labels == PUBLIC_LABELS:
            raise InvalidInputError("The labels of a federation must be listed in its bounds.")
        self.trust, self.bounds = trust, bounds
        self.task = secrets.token_hex(8) if task is None else task
        self.colluding = colluding if trust == "secure" else 0
        self.dropouts = dropouts
        here = None if isinstance(parties, Carrier) else InThisProcess(parties)
        self._carrier: Carrier = here or parties  # type: ignore[assignment]
        self._shared = _Shared({}, {}, [])
        hello = describe_request(self.task, relation, trust, bounds)
        replies = self._ask(list(self._carrier.names), hello, may_miss=0)
        widths = {reply.fact("width", int) for reply in replies.values()}
        if len(widths) != 1:
            raise FederationError(f"The parties have rows of different widths: {sorted(widths)}.")
        is_public = Relation(relation) is Relation.REPLACE_ONE
        rows = {n: r.fact("n_rows", int) if is_public else None for n, r in replies.items()}
        keys = {n: str(r.facts.get("key", "")) for n, r in replies.items()}
        self._shared = _Shared(rows, keys, sorted(replies))
        classes = None if labels is None else Bounds(labels=labels).clip_labels(())[1]
        self._reader = Reader(bounds, as_cells=True, classes=classes)  # rows as they are
        self._maps: tuple[RowMap, ...] = ()
        self._cached_as = ""
        self._watch = watch
        self._totals = None if totals is None else ReleaseStore(totals)
        if trust == "secure":
            self._agreement("", 0, 1, 0)  # refuses numbers of parties that prove nothing
        number = sum(count for count in rows.values() if count) if is_public else None
        super().__init__(widths.pop(), relation, number)

    @property
    def rounds(self) -> tuple[SumRound, ...]:
        """What happened, sum by sum."""
        return tuple(self._shared.rounds)

    @property
    def released(self) -> list[NDArray[np.float64]]:
        """The noisy totals, in their order."""
        return [total.copy() for total in self._shared.released]

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
        """Return the variance that the noise of all parties together has in a released sum."""
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

    def read_by(self, reader: Reader, width: int) -> Records:
        """Return the records as each party reads its own table, or its rows, by public facts."""
        if reader.bounds != self.bounds:
            raise FederationError("The bounds of the estimator are not the ones agreed on.")
        return self._view(_reader=reader, width=width)

    def mapped(self, row_map: RowMap) -> Records:
        """Return the records seen through a public map, which is computed at the parties."""
        return self._view(_maps=(*self._maps, row_map), _cached_as="", width=row_map.width)

    def cache(self, *, in_singles: bool = False) -> Records:
        """Return the records with their maps computed once and kept at the parties."""
        return self._view(_cached_as="singles" if in_singles else "rows")

    def _view(self, **changes: Any) -> Self:
        view = copy.copy(self)
        vars(view).update(changes)
        return view

    def _blocks(self) -> Iterator[Block]:
        raise InvalidInputError("Rows of parties stay where they are; only sums leave them.")

    def release(
        self, statistic: Statistic, mechanism: Any, receipt: Receipt, *, on_device: bool = False
    ) -> NDArray[np.float64]:
        """Let the parties add up a statistic, and return the noisy total.

        The total carries the noise of the mechanism at least; each party pays what the receipt
        says from its own ledger.
        """
        is_noisy = isinstance(mechanism, GaussianMechanism) and mechanism.noise_multiplier > 0
        if on_device or not is_noisy:
            raise InvalidInputError(
                "Parties release sums with Gaussian noise; this fit needs "
                f"{type(mechanism).__name__}. Choose settings without it."
            )
        if mechanism.sensitivity < self.sensitivity(statistic):
            raise InvalidInputError("The noise is calibrated for a smaller sensitivity.")
        shared, run = self._shared, self._run(receipt)
        number = shared.n_sums[run]
        arrays: dict[str, NDArray[Any]] = {}
        settings = pack(
            {
                "maps": self._maps,
                "statistic": statistic,
                "mechanism": mechanism,
                "relation": self.relation,
                "max_rows": self.max_rows,
                "kept": self._cached_as,
                "reader": self._reader,
            },
            arrays,
        )
        receipt.charge(mechanism.event())

        def make() -> Reply:
            total_of = self._noisy_total if self.trust == "noisy" else self._secure_total
            request = Request(run, f"sums.release.{number}", settings, arrays)
            total = total_of(request, statistic, mechanism)
            return Reply("total", asdict(shared.rounds[-1]), {"total": total})

        # A secure sum is made once: its parties sign one list and reveal once. So that a
        # coordinator that was killed need not begin a new task, which would cost its budget again,
        # each total is stored under what was asked for, and a fit of the same name takes it.
        terms = {"trust": self.trust, "parties": sorted(shared.rows), "colluding": self.colluding}
        terms |= {"dropouts": self.dropouts, "sum": settings}
        asked = Request(run, f"total.{number}", terms, arrays)
        found = make() if self._totals is None else self._totals.release_once(asked, make)
        noted = SumRound(**{**found.facts, "included": tuple(found.fact("included"))})
        if noted not in shared.rounds:  # of a fit that was interrupted
            shared.rounds.append(noted)
            shared.active = [each for each in shared.active if each in noted.included]
        total = found.array("total", statistic.shape)
        shared.n_sums[run] += 1
        receipt.only_if(*self.conditions)
        shared.released.append(total)
        return total.copy()

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

    # Requests -------------------------------------------------------------------------------------

    def _ask(
        self, names: Sequence[str], request: Request | Mapping[str, Request], *, may_miss: int
    ) -> dict[str, Reply]:
        """Ask parties, and leave out those that vanish; a refusal ends the run."""
        requests = dict.fromkeys(names, request) if isinstance(request, Request) else request
        replies = self._carrier.ask(requests)
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

    def _run(self, receipt: Receipt) -> str:
        """Return the name of a fit; its first sum lets every party agree and pay."""
        shared = self._shared
        run = shared.runs.get(receipt)
        if run is None:
            run = shared.runs[receipt] = f"{self.task}/{len(shared.n_sums)}"
            shared.n_sums[run] = 0
            settings = {
                "events": pack(receipt.events, {}),
                "bounds": pack(self.bounds, {}),
                "relation": str(self.relation),
            }
            for phase in ("sums.check", "sums.begin"):
                self._ask(shared.active, Request(run, phase, settings), may_miss=0)
        return run

    def _noisy_total(
        self, request: Request, statistic: Statistic, mechanism: GaussianMechanism
    ) -> NDArray[np.float64]:
        replies = self._ask(self._shared.active, request, may_miss=self.dropouts)
        shape = statistic.shape
        if statistic.is_symmetric:
            shape = (*shape[:-2], shape[-1] * (shape[-1] + 1) // 2)
        sums = [reply.array("released", shape) for reply in replies.values()]
        most = statistic.max_term * self.max_rows + 50 * math.sqrt(mechanism.variance())
        for name, each in zip(replies, sums, strict=True):
            if np.abs(each).max(initial=0.0) > most:
                raise FederationError(f"{name} sent numbers to which no records add up.")
        self._note(statistic, sums[0].size, replies, "its noisy sum")
        total = np.asarray(np.sum(sums, axis=0))  # post-processing of what everybody may see
        return symmetric_from(total, statistic.shape) if statistic.is_symmetric else total

    def _agreement(
        self, task: str, number: int, size: int, largest: int, about: str = ""
    ) -> Agreement:
        shared = self._shared
        return Agreement(
            task=task,
            number=number,
            parties={name: shared.keys[name] for name in shared.active},
            size=size,
            largest=largest,
            statistic=about,
            colluding=self.colluding,
            dropouts=self.dropouts - (len(shared.rows) - len(shared.active)),
        )

    def _secure_total(
        self, release: Request, statistic: Statistic, mechanism: GaussianMechanism
    ) -> NDArray[np.float64]:
        """Carry the five messages of a secure sum to each party."""
        run, settings, arrays = release.task, release.settings, release.arrays
        number = self._shared.n_sums[run]
        share = GaussianShareMechanism(mechanism, self._n_shares)
        size = sent_size(statistic)
        largest = share.largest(statistic.size, statistic.max_term * self.max_rows)
        about = sum_digest(settings, arrays)

        def step(phase: str, names: Iterable[str], **more: Any) -> dict[str, Reply]:
            """Carry one step; what is a function is asked for by name."""
            asked = {"agreement": pack(agreement, {}), "session": session}
            brought = arrays if phase == "mask" else {}
            requests = {}
            for name in names:
                own = {key: each(name) if callable(each) else each for key, each in more.items()}
                phase_of_sum = f"sums.{phase}.{number}"
                requests[name] = Request(run, phase_of_sum, {**asked, **own}, brought)
            lost = len(agreement.parties) - len(requests)
            return self._ask(list(requests), requests, may_miss=agreement.dropouts - lost)

        for _ in range(self.dropouts + 1):
            agreement = self._agreement(run, number, size, largest, about)
            sums, session = SumCoordinator(agreement), secrets.token_hex(8)
            found = step("advertise", agreement.parties)
            sums.adverts = {name: reply.fact("advert") for name, reply in found.items()}
            if len(found) == len(agreement.parties):
                break
            self._shared.active = sorted(found)  # nothing was added up: agree without the others
        found = step("share", sums.adverts, adverts=sums.adverts)
        sums.boxes = {name: reply.fact("boxes", dict) for name, reply in found.items()}
        found = step("mask", found, boxes=sums.boxes_for, sum=settings)
        sums.masked = {name: reply.array("words", (size,), "u") for name, reply in found.items()}
        included = sums.included()
        found = step("confirm", included, included=included)
        signatures = {name: reply.fact("signature") for name, reply in found.items()}
        found = step("reveal", found, signatures=signatures)
        shares = {name: reply.fact("shares") for name, reply in found.items()}
        try:
            cells = sums.total(shares)
        except FederationError:
            raise
        except (TypeError, ValueError, AttributeError, LookupError):
            raise FederationError("A party sent an invalid message of a secure sum.") from None
        self._note(statistic, size, included, "nothing but the total")
        return share.total(cells, statistic.shape, symmetric=statistic.is_symmetric)

    def _note(self, statistic: Statistic, size: int, included: Iterable[str], seen: str) -> None:
        """Write a sum down; those who vanished in it are not asked again."""
        shared = self._shared
        shared.active = sorted(included)
        kind, names = type(statistic).__name__, tuple(shared.active)
        shared.rounds.append(SumRound(kind, size, names, seen))
        if self._watch is not None:
            self._watch(shared.rounds[-1])


def describe_request(
    task: str, relation: str, trust: str, bounds: Bounds | TableBounds | None
) -> Request:
    """Return the first request to a party: who is there, and what is public about its rows."""
    is_table = isinstance(bounds, TableBounds)
    settings = {"relation": str(Relation(relation)), "trust": trust, "table": is_table}
    return Request(task, "sums.describe", settings)
