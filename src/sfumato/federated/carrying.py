"""Who carries requests about sums to parties, and what is written down of each sum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sfumato.bounds import Bounds
from sfumato.federated.messages import Reply, Request
from sfumato.federated.party import Party, check_parties
from sfumato.federated.sums import DESCRIBE
from sfumato.guarantee import Relation
from sfumato.parallel import map_in_parallel
from sfumato.tables.schema import TableBounds

__all__ = ["Carrier", "InThisProcess", "SumRound", "described"]


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
        self.names = list(self._parties)
        listed = [each for party in self._parties.values() for each in party.conditions]
        self.conditions = list(dict.fromkeys(listed))

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
    sent : int
        Bytes that the largest reply of a party had.
    """

    statistic: str
    size: int
    included: tuple[str, ...]
    seen: str
    sent: int


def described(task: str, relation: str, trust: str, bounds: Bounds | TableBounds | None) -> Request:
    """Give the first request to a party: who is there, and what is public about its rows.

    Parameters
    ----------
    task : str
        Name of the work.
    relation : str
        The neighbours.
    trust : str
        What the coordinator may see.
    bounds : Bounds or TableBounds
        Of rows, or of tables.

    Returns
    -------
    Request
        It costs nothing.
    """
    is_table = isinstance(bounds, TableBounds)
    settings = {"relation": str(Relation(relation)), "trust": trust, "table": is_table}
    return Request(task, DESCRIBE, settings)
