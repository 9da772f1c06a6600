"""Parties of a secure sum, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.federated.secure import Agreement, Identity, Journal, Member, SumCoordinator

LARGEST = 2**40


class Group:
    """Parties that have registered one another's keys."""

    def __init__(self, n_parties: int, size: int = 7) -> None:
        self.names = [f"party-{number:02}" for number in range(n_parties)]
        self.identities = {name: Identity() for name in self.names}
        self.registered = {name: each.public for name, each in self.identities.items()}
        self.journals = {name: Journal() for name in self.names}
        rng = np.random.RandomState(n_parties)
        self.cells = {name: rng.randint(-(2**39), 2**39, size=size) for name in self.names}
        self.size = size

    def agreement(self, **terms: Any) -> Agreement:
        given: dict[str, Any] = {
            "task": "a task",
            "number": 0,
            "parties": self.registered,
            "size": self.size,
            "largest": LARGEST,
            "colluding": 0,
        }
        return Agreement(**{**given, **terms})

    def members(self, agreement: Agreement) -> dict[str, Member]:
        return {
            name: Member(
                name, self.identities[name], agreement, self.registered, self.journals[name]
            )
            for name in agreement.parties
        }

    def plain(self, names: Mapping[str, Any] | list[str]) -> NDArray[np.int64]:
        return np.sum([self.cells[name] for name in names], axis=0)


def shared(members: Mapping[str, Member]) -> SumCoordinator:
    """A session whose parties have sent keys and shares."""
    session = SumCoordinator(next(iter(members.values())).agreement)
    session.adverts = {name: member.advertise() for name, member in members.items()}
    session.boxes = {name: member.share(session.adverts) for name, member in members.items()}
    return session


def masked(group: Group, members: Mapping[str, Member], gone: int = 0) -> SumCoordinator:
    """A session to which all but the last parties have sent their numbers."""
    session = shared(members)
    staying = list(members)[: len(members) - gone]
    session.masked = {
        name: members[name].mask(session.boxes_for(name), group.cells[name]) for name in staying
    }
    return session
