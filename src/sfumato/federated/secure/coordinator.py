"""The coordinator's side of a secure sum: it carries messages and takes masks off the total."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import FederationError
from sfumato.federated.secure.agreement import Agreement, step
from sfumato.federated.secure.identity import add_mask, public_of
from sfumato.federated.secure.member import (
    Advert,
    Member,
    Words,
    pair_mask_key,
    seed_mask_key,
    transcript_of,
)
from sfumato.federated.secure.shamir import rebuilt


class SumCoordinator:
    """All that a coordinator holds in one session.

    Parameters
    ----------
    agreement : Agreement
        What is summed.
    """

    def __init__(self, agreement: Agreement) -> None:
        self.agreement = agreement
        self.adverts: dict[str, Advert] = {}
        self.boxes: dict[str, Mapping[str, str]] = {}  # by sender, then by recipient
        self.masked: dict[str, Words] = {}

    def boxes_for(self, name: str) -> dict[str, str]:
        """Return the sealed shares that were sent to a party, by sender.

        Parameters
        ----------
        name : str
            The party.

        Returns
        -------
        dict of str to str
            What `Member.mask` takes.
        """
        self._require(self.boxes, "sent shares")
        return {sender: boxes[name] for sender, boxes in self.boxes.items() if sender != name}

    @step
    def included(self) -> list[str]:
        """Return the parties whose masked numbers have come.

        Returns
        -------
        list of str
            What `Member.confirm` takes.
        """
        self._require(self.masked, "sent numbers")
        for name, words in self.masked.items():
            if words.shape != (self.agreement.size,) or words.dtype != np.uint64:
                raise FederationError(f"{name} sent numbers of another shape or type.")
        return sorted(self.masked)

    @step
    def total(self, shares: Mapping[str, Mapping[str, Any]]) -> NDArray[np.int64]:
        """Take the masks off.

        Parameters
        ----------
        shares : mapping
            What `Member.reveal` gave, by party.

        Returns
        -------
        ndarray of int64
            The exact total over the parties in the list.
        """
        agreement, included = self.agreement, self.included()
        self._require(shares, "gave shares")
        transcript = transcript_of(agreement, self.adverts)
        total = np.zeros(agreement.size, dtype=np.uint64)
        for name in included:
            total += self.masked[name]
        for name in included:
            seed = self._rebuilt(shares, "seeds", name)
            add_mask(total, seed_mask_key(seed, transcript, name), subtract=True)
        for gone in sorted(set(self.boxes) - set(included)):
            secret = self._rebuilt(shares, "keys", gone)
            if public_of(secret) != self.adverts[gone]["mask"]:
                raise FederationError(f"The shares of the key of {gone} do not give it.")
            for other in set(included) & set(agreement.neighbours_of(gone)):
                key = pair_mask_key(secret, self.adverts, transcript, gone, other)
                add_mask(total, key, subtract=gone > other)  # what `other` did, undone
        return total.view(np.int64)

    def _rebuilt(self, shares: Mapping[str, Mapping[str, Any]], kind: str, owner: str) -> bytes:
        given = {
            self.agreement.place(name): bytes.fromhex(found[kind][owner])
            for name, found in shares.items()
            if owner in found.get(kind, {})
        }
        return rebuilt(given, threshold=self.agreement.threshold)

    def _require(self, found: Mapping[str, Any], what: str) -> None:
        if len(found) < self.agreement.threshold:
            raise FederationError(
                f"{len(found)} of {len(self.agreement.parties)} parties {what}, "
                f"{self.agreement.threshold} are needed. Nothing of the sum is revealed."
            )


def secure_sum(
    members: Mapping[str, Member], cells: Mapping[str, NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Run all steps in this process: simulations and tests.

    Parameters
    ----------
    members : mapping of str to Member
        The parties, all of one agreement.
    cells : mapping of str to ndarray
        Their numbers; a party without numbers vanishes after it has sent its shares.

    Returns
    -------
    ndarray of int64
        The total.
    """
    session = SumCoordinator(next(iter(members.values())).agreement)
    session.adverts = {name: member.advertise() for name, member in members.items()}
    session.boxes = {name: member.share(session.adverts) for name, member in members.items()}
    session.masked = {
        name: members[name].mask(session.boxes_for(name), numbers)
        for name, numbers in cells.items()
    }
    included = session.included()
    signatures = {name: members[name].confirm(included) for name in included}
    return session.total({name: members[name].reveal(signatures) for name in included})
