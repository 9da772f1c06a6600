"""What one secure sum is about: the same text for all who take part, hashed into every key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, wraps
from typing import Any, ParamSpec, TypeVar

from sfumato.exceptions import FederationError

P = ParamSpec("P")
T = TypeVar("T")

MODULUS_BITS = 64
GRACEFUL_NEIGHBOURS = 16  # a party has masks with so many others, or with all if there are fewer


@dataclass(frozen=True)
class Agreement:
    """The public terms of one secure sum.

    Parameters
    ----------
    task : str
        Name of the task.
    number : int
        Which sum of the task this is; each is made once.
    parties : mapping of str to str
        Who takes part, and the public key by which each signs.
    size : int
        Numbers that each party adds.
    largest : int
        No party's number is larger in magnitude, its noise included: so the total never wraps.
    statistic : str
        Digest of what is added up, over which rows, on which grid.
    colluding : int, default=1
        Parties that may work with the coordinator without breaking the promise.
    dropouts : int, default=0
        Parties that may vanish before the end.
    neighbours : int, optional
        Others with whom a party shares masks; by default 16, or more where the promise needs it.

    Notes
    -----
    A list of parties is signed by ``threshold = P - dropouts`` of them. Two different lists would
    need an honest party that signs twice if ``2 threshold > P + colluding``; anything else is
    refused. Neighbours form a ring in which each party is joined to the next ones on both sides:
    such a graph stays in one piece when fewer parties are taken away than each has neighbours, so
    that nothing but the total of the honest ones can be told from their masked numbers.
    """

    task: str
    number: int
    parties: Mapping[str, str]
    size: int
    largest: int
    statistic: str = ""
    colluding: int = 1
    dropouts: int = 0
    neighbours: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parties", dict(sorted(self.parties.items())))
        n_parties, lost = len(self.parties), self.colluding + self.dropouts
        whole = (self.number, self.size, self.largest, self.colluding, self.dropouts)
        if not all(isinstance(each, int) and each >= 0 for each in whole) or self.size < 1:
            raise FederationError("The numbers of a secure sum must be whole and not negative.")
        if n_parties < 2:
            raise FederationError("A secure sum needs two parties at least.")
        if len(set(self.parties.values())) != n_parties:
            raise FederationError("Two parties of a secure sum have the same key.")
        if 2 * self.threshold <= n_parties + self.colluding or lost >= n_parties:
            raise FederationError(
                f"{n_parties} parties cannot tolerate {self.dropouts} dropouts and "
                f"{self.colluding} colluding: more than (parties + colluding) / 2 must "
                "stay to the end."
            )
        if n_parties * self.largest >= 2 ** (MODULUS_BITS - 1):
            raise FederationError("The total of so many parties could wrap around the modulus.")
        if self.neighbours is None:
            wanted = max(GRACEFUL_NEIGHBOURS, lost + 1)
            object.__setattr__(self, "neighbours", min(wanted, n_parties - 1))
        if not min(lost + 1, n_parties - 1) <= (self.neighbours or 0) <= n_parties - 1:
            raise FederationError(
                f"A party needs {min(lost + 1, n_parties - 1)} to {n_parties - 1} neighbours."
            )

    @property
    def names(self) -> list[str]:
        """Names of the parties, in order."""
        return list(self.parties)

    @property
    def threshold(self) -> int:
        """Parties that must stay to the end, sign one list and give shares."""
        return len(self.parties) - self.dropouts

    @property
    def noisy_parties(self) -> int:
        """Parties whose noise is counted on."""
        return len(self.parties) - self.dropouts - self.colluding

    def place(self, name: str) -> int:
        """Return the place of a party's shares.

        Parameters
        ----------
        name : str
            The party.

        Returns
        -------
        int
            At least 1.
        """
        return self.names.index(name) + 1

    def neighbours_of(self, name: str) -> list[str]:
        """Return the parties with whom a party shares masks: the next ones on both sides.

        Parameters
        ----------
        name : str
            The party.

        Returns
        -------
        list of str
            Its neighbours.
        """
        names, half = self.names, -(-(self.neighbours or 0) // 2)
        here = names.index(name)
        near = {names[(here + step) % len(names)] for step in range(-half, half + 1)}
        return sorted(near - {name})

    def to_dict(self) -> dict[str, Any]:
        """Return the agreement as plain JSON.

        Returns
        -------
        dict
            Its fields.
        """
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}

    def digest(self) -> str:
        """Digest of all of it.

        Returns
        -------
        str
            SHA-256, in hexadecimal digits.
        """
        return self._digest

    @cached_property
    def _digest(self) -> str:
        """Computed once: a hundred parties ask for it a hundred times each."""
        return digest(self.to_dict())


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def canonical(value: Any) -> bytes:
    """Return the one text of a JSON value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest(value: Any) -> str:
    """Digest of a JSON value."""
    return hashlib.sha256(canonical(value)).hexdigest()


def step(function: Callable[P, T]) -> Callable[P, T]:
    """Let a step of the protocol refuse messages that have not the form of one."""

    @wraps(function)
    def refusing(*args: P.args, **options: P.kwargs) -> T:
        try:
            return function(*args, **options)
        except (TypeError, ValueError, AttributeError, LookupError, OverflowError) as error:
            if isinstance(error, FederationError):
                raise
            raise FederationError(
                f"What was sent for '{function.__name__}' is not a message of a secure sum."
            ) from None

    return refusing
