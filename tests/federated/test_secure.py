"""Secure sums: the plain sum to the bit, and a coordinator that lies gets none."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sfumato.exceptions import FederationError
from sfumato.federated.secure import (
    PRIME,
    Agreement,
    Identity,
    Journal,
    Member,
    SumCoordinator,
    rebuild,
    shares_of,
)
from tests.every import for_each

LARGEST = 2**40


class Group:
    """Parties that have registered one another's keys."""

    def __init__(self, n_parties: int, size: int = 7) -> None:
        self.names = [f"party-{number:02}" for number in range(n_parties)]
        self.identities = {name: Identity() for name in self.names}
        self.registered = {name: each.public for name, each in self.identities.items()}
        self.journals = {name: Journal(tempfile.mkdtemp()) for name in self.names}
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


def secure_sum(
    members: Mapping[str, Member], cells: Mapping[str, NDArray[np.int64]]
) -> NDArray[np.int64]:
    """Run all steps; a party without numbers vanishes after it has sent its shares."""
    session = shared(members)
    session.masked = {
        name: members[name].mask(session.boxes_for(name), numbers)
        for name, numbers in cells.items()
    }
    included = session.included()
    signatures = {name: members[name].confirm(included) for name in included}
    return session.total({name: members[name].reveal(signatures) for name in included})


@for_each([*range(2, 11), 20, 50])
def test_the_secure_sum_is_the_plain_sum(n_parties: int) -> None:
    group = Group(n_parties)
    members = group.members(group.agreement())
    assert np.array_equal(secure_sum(members, group.cells), group.plain(group.names))


@for_each([0, 1, 2])
def test_any_parties_may_vanish_up_to_the_threshold(n_gone: int) -> None:
    for gone in itertools.combinations(range(5), n_gone):
        group = Group(5, size=3)
        staying = [name for place, name in enumerate(group.names) if place not in gone]
        cells = {name: group.cells[name] for name in reversed(staying)}  # in any order
        members = group.members(group.agreement(dropouts=2))
        assert np.array_equal(secure_sum(members, cells), group.plain(staying))


def test_a_party_may_vanish_at_any_step() -> None:
    group = Group(7)
    members = group.members(group.agreement(dropouts=3))
    session = shared(members)
    del session.boxes[group.names[0]]  # before its shares have come
    session.masked = {
        name: members[name].mask(session.boxes_for(name), group.cells[name])
        for name in group.names[2:]  # the second one before its numbers have come
    }
    included = session.included()
    signatures = {name: members[name].confirm(included) for name in included}
    shares = {name: members[name].reveal(signatures) for name in included[1:]}  # and one later
    assert np.array_equal(session.total(shares), group.plain(group.names[2:]))


def test_beyond_the_threshold_nothing_is_revealed() -> None:
    group = Group(5, size=64)
    small = {name: cells % 1000 for name, cells in group.cells.items()}
    group.cells = small
    members = group.members(group.agreement(dropouts=1))
    session = masked(group, members, gone=2)
    with pytest.raises(FederationError, match="3 of 5 parties sent numbers, 4 are needed"):
        session.included()
    for member in members.values():
        if member.name in session.masked:
            with pytest.raises(FederationError, match="3 parties are left, 4 are needed"):
                member.confirm(sorted(session.masked))


def test_what_the_coordinator_holds_before_the_end_does_not_unmask() -> None:
    """With all numbers but one share too few of the last seed, the rest is uniform."""
    group = Group(5, size=64)
    group.cells = {name: cells % 1000 for name, cells in group.cells.items()}
    members = group.members(group.agreement(dropouts=1))
    session = masked(group, members)
    included = session.included()
    signatures = {name: members[name].confirm(included) for name in included}
    revealed = {name: members[name].reveal(signatures) for name in included}
    few = dict(list(revealed.items())[:3])
    with pytest.raises(FederationError, match="3 of 5 parties gave shares, 4 are needed"):
        session.total(few)
    session.agreement = group.agreement(dropouts=2)  # a coordinator that tries with three
    with pytest.raises(FederationError):
        session.total(few)
    for subset in itertools.combinations(group.names, 3):  # and any sum of masked numbers
        words = np.sum([session.masked[name] for name in subset], axis=0).view(np.int64)
        assert np.abs(words).min() > 2**20  # false alarm: 64 * 2**-43
    session.agreement = group.agreement(dropouts=1)
    assert np.array_equal(session.total(revealed), group.plain(group.names))


def test_shares_give_the_secret_and_fewer_say_nothing() -> None:
    secret = bytes(range(32))
    shares = dict(enumerate(shares_of(secret, threshold=3, places=5), start=1))
    for places in itertools.combinations(shares, 3):
        assert rebuild({place: shares[place] for place in places}, threshold=3) == secret
    assert rebuild(shares, threshold=3) == secret
    with pytest.raises(FederationError, match="2 shares were given, 3 are needed"):
        rebuild({1: shares[1], 2: shares[2]}, threshold=3)
    # Two shares fit every secret: with any third value at 0 there is a polynomial through them.
    for guess in (0, 1, PRIME - 1):
        line = {place: int.from_bytes(shares[place], "big") for place in (1, 2)}
        # through (0, guess), (1, a), (2, b): c2 = (b - 2 a + guess) / 2
        c2 = (line[2] - 2 * line[1] + guess) * pow(2, -1, PRIME) % PRIME
        c1 = (line[1] - guess - c2) % PRIME
        assert [(guess + c1 * x + c2 * x * x) % PRIME for x in (1, 2)] == [line[1], line[2]]


def test_asking_twice_with_other_parties_is_refused() -> None:
    """Differencing: the total without one party would lay that party bare."""
    group = Group(4)
    secure_sum(group.members(group.agreement()), group.cells)
    fewer = {name: group.registered[name] for name in group.names[:3]}
    again = group.members(group.agreement(parties=fewer))
    with pytest.raises(FederationError, match="agreed on with different parties or terms"):
        secure_sum(again, {name: group.cells[name] for name in fewer})


def test_asking_twice_with_another_list_is_refused() -> None:
    group = Group(5)
    agreement = group.agreement(dropouts=2)
    everybody = secure_sum(group.members(agreement), group.cells)
    assert np.array_equal(everybody, group.plain(group.names))
    fewer = {name: group.cells[name] for name in group.names[:3]}
    with pytest.raises(FederationError, match="has signed a list"):
        secure_sum(group.members(agreement), fewer)


def test_two_lists_at_once_do_not_both_find_enough_signatures() -> None:
    """Half of the parties get one list and half another: neither is revealed."""
    group = Group(5)
    members = group.members(group.agreement(dropouts=2))
    session = masked(group, members)
    lists = [group.names[:4], group.names[1:]]
    signatures: list[dict[str, str]] = [{}, {}]
    for place, name in enumerate(group.names):
        which = 0 if place < 2 else 1
        signatures[which][name] = members[name].confirm(lists[which])
    with pytest.raises(FederationError, match="2 parties have signed this list, 3 are needed"):
        members[group.names[0]].reveal({**signatures[0], **signatures[1]})
    shares = {name: members[name].reveal(signatures[1]) for name in group.names[2:]}
    session.masked = {name: session.masked[name] for name in lists[0]}
    with pytest.raises(FederationError):  # nobody gave a share of the seed of the first party
        session.total(shares)


def test_colluding_parties_that_sign_twice_do_not_reach_two_lists() -> None:
    group = Group(7)
    members = group.members(group.agreement(colluding=1, dropouts=2))
    masked(group, members)
    lists = [group.names[:6], group.names[1:]]
    colluding = group.names[3]
    spare = group.members(members[colluding].agreement)[colluding].resume(
        members[colluding].state()
    )
    spare._journal = Journal(tempfile.mkdtemp())  # a party that forgets what it has signed
    first = {name: members[name].confirm(lists[0]) for name in group.names[:4]}
    second = {name: members[name].confirm(lists[1]) for name in group.names[4:]}
    second[colluding] = spare.confirm(lists[1])
    assert (len(first), len(second)) == (4, 4)  # of five that are needed
    for name, signatures in ((group.names[0], first), (group.names[5], second)):
        with pytest.raises(FederationError, match="4 parties have signed this list, 5 are needed"):
            members[name].reveal(signatures)


def test_swapped_keys_are_refused() -> None:
    group = Group(3)
    members = group.members(group.agreement())
    adverts = {name: member.advertise() for name, member in members.items()}
    forged = {**adverts, group.names[1]: {**adverts[group.names[1]], "mask": "00" * 32}}
    with pytest.raises(FederationError, match="did not sign its keys"):
        members[group.names[0]].share(forged)
    swapped = {**adverts, group.names[1]: adverts[group.names[2]]}
    with pytest.raises(FederationError, match="did not sign its keys"):
        members[group.names[0]].share(swapped)
    assert members[group.names[0]].share(adverts)  # a refusal leaves the session as it was


def test_keys_of_an_earlier_session_are_refused() -> None:
    group = Group(3)
    agreement = group.agreement()
    old = {name: member.advertise() for name, member in group.members(agreement).items()}
    members = group.members(agreement)
    adverts = {name: member.advertise() for name, member in members.items()}
    first, second = group.names[:2]
    replayed = {**adverts, second: old[second]}  # signed by its owner, in another session
    boxes = members[first].share(replayed)
    with pytest.raises(FederationError, match="its own keys were changed"):
        members[second].share(replayed)
    members[second].share(adverts)
    with pytest.raises(FederationError, match="changed on their way"):  # other keys for all
        members[second].mask(
            {first: boxes[second], group.names[2]: boxes[second]}, group.cells[second]
        )


def test_a_replayed_step_gives_the_same_answer_and_no_other() -> None:
    group = Group(4)
    members = group.members(group.agreement(dropouts=1))
    session = shared(members)
    first = members[group.names[0]]
    words = first.mask(session.boxes_for(first.name), group.cells[first.name])
    again = first.mask(session.boxes_for(first.name), group.cells[first.name] + 5)
    assert np.array_equal(words, again)  # other numbers are not masked with the same masks
    fewer = dict(list(session.boxes_for(first.name).items())[:2])
    with pytest.raises(FederationError, match="answered before, differently"):
        first.mask(fewer, group.cells[first.name])


def test_a_dropout_that_is_a_lie_lays_nothing_bare() -> None:
    """The coordinator has the reply of a party and says that it has not."""
    group = Group(5, size=64)
    members = group.members(group.agreement(dropouts=1))
    session = masked(group, members)
    liar = group.names[2]
    included = [name for name in session.included() if name != liar]
    with pytest.raises(FederationError, match="its own numbers were left out"):
        members[liar].confirm(included)
    signatures = {name: members[name].confirm(included) for name in included}
    shares = {name: members[name].reveal(signatures) for name in included}
    assert all(liar in each["keys"] and liar not in each["seeds"] for each in shares.values())
    held = session.masked.pop(liar)
    total = session.total(shares)
    assert np.array_equal(total, group.plain(included))
    # Its pair masks are known now; its own mask is not, and nobody gives it any more.
    with pytest.raises(FederationError, match="answered before, differently"):
        members[included[0]].confirm(group.names)
    difference = held.view(np.int64) - group.cells[liar]
    assert np.abs(difference).min() > 2**20


def test_signatures_of_strangers_do_not_count() -> None:
    group = Group(4)
    members = group.members(group.agreement(dropouts=1))
    session = masked(group, members)
    included = session.included()
    one = members[group.names[0]].confirm(included)
    forged = dict.fromkeys(group.names, one) | {f"stranger-{i}": one for i in range(9)}
    with pytest.raises(FederationError, match="1 parties have signed"):
        members[group.names[0]].reveal(forged)


def test_numbers_beyond_the_agreed_bound_are_not_masked() -> None:
    group = Group(2)
    members = group.members(group.agreement(largest=10))
    session = shared(members)
    name = group.names[0]
    with pytest.raises(FederationError, match="larger than was agreed"):
        members[name].mask(session.boxes_for(name), np.full(7, 11))
    with pytest.raises(FederationError, match="agreed size"):
        members[name].mask(session.boxes_for(name), np.full(6, 1))


def test_decisions_outlive_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noting(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noting)
    Journal(tmp_path).decide("which list", "this one", "no")
    assert len(synced) == 2
    assert synced[-1] == str(tmp_path.resolve())  # the name, after the content
