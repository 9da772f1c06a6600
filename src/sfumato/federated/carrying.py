"""Who carries requests about sums to parties, and what is written down of each sum."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from sfumato.core.parallel import map_in_parallel
from sfumato.federated.messages import Reply, Request
from sfumato.federated.party import Party, check_parties
from sfumato.federated.sums import DESCRIBE
from sfumato.privacy.guarantee import Relation
from sfumato.tables.bounds import Bounds
from sfumato.tables.schema import TableBounds


@runtime_checkable
class Carrier(Protocol):
    """Who carries requests to parties and brings their replies; those who vanish are left out."""

    names: Sequence[str]
    conditions: Sequence[str]

    def ask(self, requests: Mapping[str, Request]) -> dict[str, Reply]:
        """Carry a request to each of the parties named."""


class InThisProcess:
    """Parties of a simulation."""

    def __init__(self, parties: Iterable[Party], n_jobs: int | None) -> None:
        self._parties = {party.name: party for party in check_parties(parties)}
        self._n_jobs = n_jobs
        self.names: Sequence[str] = list(self._parties)
        listed = [each for party in self._parties.values() for each in party.conditions]
        self.conditions: Sequence[str] = list(dict.fromkeys(listed))

    def ask(self, requests: Mapping[str, Request]) -> dict[str, Reply]:
        """Let each party answer, in threads if there are several."""
        replies = map_in_parallel(
            lambda name: self._parties[name].answer(requests[name]),
            list(requests),
            n_jobs=self._n_jobs,
        )
        return dict(zip(requests, replies, strict=True))


@dataclass(frozen=True)
class SumRound:
    """One sum: what was added up, by whom, how long it took and how many bytes each party sent.

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
    sent, received : int
        Bytes that a party sent and was sent, keys and shares included, the most of all parties.
    seconds : float
        How long it took.
    """

    statistic: str
    size: int
    included: tuple[str, ...]
    seen: str
    sent: int
    received: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        sent = self.sent / 2**20
        return (
            f"{self.statistic}: {self.size} numbers of {len(self.included)} parties in "
            f"{self.seconds:.1f} s, {sent:.2f} MB from each at most"
        )


@dataclass
class Traffic:
    """Bytes that went to each party and came from it, and since when they are counted."""

    sent: dict[str, int] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)

    def note(self, requests: Mapping[str, Request], replies: Mapping[str, Reply]) -> None:
        """Count what was carried."""
        sizes: dict[int, int] = {}  # one request may go to all
        for name, request in requests.items():
            size = sizes.setdefault(id(request), _bytes_of(request.settings, request.arrays))
            self.received[name] = self.received.get(name, 0) + size
        for name, reply in replies.items():
            size = _bytes_of(reply.facts, reply.arrays)
            self.sent[name] = self.sent.get(name, 0) + size

    def most(self) -> dict[str, Any]:
        """Return the figures of a `SumRound`."""
        return {
            "sent": max(self.sent.values(), default=0),
            "received": max(self.received.values(), default=0),
            "seconds": round(time.monotonic() - self.since, 3),
        }


def _bytes_of(facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> int:
    return len(json.dumps(dict(facts))) + sum(each.nbytes for each in arrays.values())


def described(task: str, relation: str, trust: str, bounds: Bounds | TableBounds | None) -> Request:
    """Return the first request to a party: who is there, and what is public about its rows."""
    is_table = isinstance(bounds, TableBounds)
    settings = {"relation": str(Relation(relation)), "trust": trust, "table": is_table}
    return Request(task, DESCRIBE, settings)
