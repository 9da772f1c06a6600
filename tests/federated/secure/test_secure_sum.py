"""The secure sum is the plain sum, to the bit; beyond the threshold there is none."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sfumato.exceptions import FederationError
from sfumato.federated.secure import secure_sum
from sfumato.federated.secure.identity import add_mask
from sfumato.federated.secure.member import Member, pair_mask_key, transcript_of
from sfumato.federated.secure.shamir import PRIME, rebuilt, shares_of
from tests.every import for_each
from tests.federated.secure.sessions import Group, masked, shared


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


def test_sparse_neighbours_give_the_same_sum() -> None:
    group = Group(30)
    agreement = group.agreement(dropouts=2, neighbours=4)
    assert {len(agreement.neighbours_of(name)) for name in group.names} == {4}
    staying = group.names[1:-1]
    cells = {name: group.cells[name] for name in staying}
    assert np.array_equal(secure_sum(group.members(agreement), cells), group.plain(staying))


def test_neighbours_stay_in_one_piece_without_those_who_may_be_lost() -> None:
    group = Group(9)
    agreement = group.agreement(colluding=1, dropouts=2, neighbours=4)
    for lost in itertools.combinations(group.names, 3):
        left = set(group.names) - set(lost)
        reached, edge = set(), {min(left)}
        while edge:
            reached |= edge
            edge = {n for name in edge for n in agreement.neighbours_of(name)} & left - reached
        assert reached == left
    with pytest.raises(FederationError, match="needs 4 to 8 neighbours"):
        group.agreement(colluding=1, dropouts=2, neighbours=3)


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


def test_one_reply_is_hidden_even_when_all_pair_masks_are_known() -> None:
    group = Group(3, size=64)
    members = group.members(group.agreement())
    session = masked(group, members)
    first, transcript = group.names[0], transcript_of(session.agreement, session.adverts)
    words = session.masked[first].copy()
    for other in group.names[1:]:
        key = pair_mask_key(members[other]._mask_secret, session.adverts, transcript, other, first)
        add_mask(words, key, subtract=True)
    assert np.abs(words.view(np.int64) - group.cells[first]).min() > 2**20


def test_masks_differ_from_session_to_session() -> None:
    group = Group(2)
    agreement = group.agreement()
    one, other = masked(group, group.members(agreement)), masked(group, group.members(agreement))
    for name in group.names:
        assert not np.any(one.masked[name] == other.masked[name])  # false alarm: 14 * 2**-64


def test_an_agreement_refuses_what_cannot_be_kept() -> None:
    group = Group(4)
    with pytest.raises(FederationError, match="cannot tolerate 2 dropouts"):
        group.agreement(dropouts=2)
    with pytest.raises(FederationError, match="cannot tolerate 1 dropouts and 2 colluding"):
        group.agreement(dropouts=1, colluding=2)
    with pytest.raises(FederationError, match="wrap around"):
        group.agreement(largest=2**61)
    with pytest.raises(FederationError, match="two parties"):
        group.agreement(parties={"one": "key"})
    with pytest.raises(FederationError, match="same key"):
        group.agreement(parties={"one": "key", "two": "key"})


def test_a_session_goes_on_in_another_process() -> None:
    group = Group(3)
    agreement = group.agreement()
    members = group.members(agreement)
    states = {name: member.state() for name, member in members.items()}
    resumed = {
        name: member.resume(states[name]) for name, member in group.members(agreement).items()
    }
    session = shared(members)
    for name in group.names:  # the shares are drawn anew, so both take those of the first
        resumed[name].resume(members[name].state())
    session.masked = {
        name: resumed[name].mask(session.boxes_for(name), group.cells[name]) for name in group.names
    }
    signatures = {name: resumed[name].confirm(session.included()) for name in group.names}
    again = {n: m.resume(resumed[n].state()) for n, m in group.members(agreement).items()}
    total = session.total({name: again[name].reveal(signatures) for name in group.names})
    assert np.array_equal(total, group.plain(group.names))
    assert isinstance(again[group.names[0]], Member)


def test_shares_give_the_secret_and_fewer_say_nothing() -> None:
    secret = bytes(range(32))
    shares = dict(enumerate(shares_of(secret, threshold=3, places=5), start=1))
    for places in itertools.combinations(shares, 3):
        assert rebuilt({place: shares[place] for place in places}, threshold=3) == secret
    assert rebuilt(shares, threshold=3) == secret
    with pytest.raises(FederationError, match="2 shares were given, 3 are needed"):
        rebuilt({1: shares[1], 2: shares[2]}, threshold=3)
    # Two shares fit every secret: with any third value at 0 there is a polynomial through them.
    for guess in (0, 1, PRIME - 1):
        line = {place: int.from_bytes(shares[place], "big") for place in (1, 2)}
        # through (0, guess), (1, a), (2, b): c2 = (b - 2 a + guess) / 2
        c2 = (line[2] - 2 * line[1] + guess) * pow(2, -1, PRIME) % PRIME
        c1 = (line[1] - guess - c2) % PRIME
        assert [(guess + c1 * x + c2 * x * x) % PRIME for x in (1, 2)] == [line[1], line[2]]


def test_damaged_shares_are_noticed_where_there_are_more_than_needed() -> None:
    shares = dict(enumerate(shares_of(bytes(32), threshold=2, places=3), start=1))
    shares[3] = bytes(65) + b"\x01"
    with pytest.raises(FederationError, match="do not agree"):
        rebuilt(shares, threshold=2)
