"""A coordinator that asks twice, replays, swaps keys, lies about lists, or has friends inside."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.exceptions import FederationError
from sfumato.federated.secure import Identity, Journal, Member, secure_sum
from sfumato.federated.secure.identity import add_mask
from sfumato.federated.secure.member import pair_mask_key, seed_mask_key, transcript_of
from tests.federated.secure.sessions import Group, masked, shared


def test_asking_twice_with_other_parties_is_refused() -> None:
    """Differencing: the total without one party would lay that party bare."""
    group = Group(4)
    secure_sum(group.members(group.agreement()), group.cells)
    fewer = {name: group.registered[name] for name in group.names[:3]}
    again = group.members(group.agreement(parties=fewer))
    with pytest.raises(FederationError, match="agreed on with other parties or on other terms"):
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
    spare._journal = Journal()  # a party that forgets what it has signed
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


def test_an_agreement_with_keys_that_nobody_registered_is_refused() -> None:
    group = Group(3)
    mallory = Identity()
    parties = {**group.registered, group.names[1]: mallory.public}
    with pytest.raises(FederationError, match="has not registered this key"):
        Member(
            group.names[0],
            group.identities[group.names[0]],
            group.agreement(parties=parties),
            group.registered,
            Journal(),
        )


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


def test_different_transcripts_do_not_fit_together() -> None:
    group = Group(4)
    agreement = group.agreement(dropouts=1)
    members = group.members(agreement)
    other = group.members(agreement)[group.names[3]]
    adverts = {name: member.advertise() for name, member in members.items()}
    lied = {**adverts, group.names[3]: other.advertise()}
    boxes = {
        name: members[name].share(lied if name == group.names[0] else adverts)
        for name in group.names
    }
    received = {
        name: each[group.names[0]] for name, each in boxes.items() if name != group.names[0]
    }
    with pytest.raises(FederationError, match="changed on their way"):
        members[group.names[0]].mask(received, group.cells[group.names[0]])


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


NO_MESSAGES: list[Any] = [None, 7, "text", "00" * 32, b"\xff", [], {}, {"x": 1}, float("nan")]


def test_messages_of_another_form_are_refused_in_our_own_words() -> None:
    """Of a lying coordinator, or of a lying party to the coordinator."""
    group = Group(4)
    members = group.members(group.agreement(dropouts=1))
    first = members["party-00"]
    session = shared(members)
    for odd in NO_MESSAGES:
        for adverts in (odd, {**session.adverts, "party-01": odd}, {**session.adverts, None: odd}):
            with pytest.raises(FederationError):
                first.share(adverts)
        boxes = session.boxes_for("party-00")
        for given in (odd, {**boxes, "party-01": odd}, {**boxes, 3: odd}):
            with pytest.raises(FederationError):
                first.mask(given, group.cells["party-00"])
    session = masked(group, members)
    listed = session.included()
    for odd in NO_MESSAGES:
        with pytest.raises(FederationError):
            first.confirm(odd)
    signatures = {name: member.confirm(listed) for name, member in members.items()}
    shares = {name: member.reveal(signatures) for name, member in members.items()}
    for odd in NO_MESSAGES:
        with pytest.raises(FederationError):
            first.reveal(odd)
        for given in (odd, {**shares, "party-09": odd}, {**shares, "party-01": {"seeds": odd}}):
            with contextlib.suppress(FederationError):  # enough others may have given theirs
                assert np.array_equal(session.total(given), group.plain(listed))
    for odd in NO_MESSAGES:
        session.masked["party-03"] = odd
        with pytest.raises(FederationError):
            session.included()


def test_steps_out_of_order_are_refused() -> None:
    group = Group(3)
    member = group.members(group.agreement())[group.names[0]]
    with pytest.raises(FederationError, match="before 'share'"):
        member.mask({}, group.cells[member.name])
    with pytest.raises(FederationError, match="before 'mask'"):
        member.confirm(group.names)
    with pytest.raises(FederationError, match="before 'confirm'"):
        member.reveal({})


def test_numbers_beyond_the_agreed_bound_are_not_masked() -> None:
    group = Group(2)
    members = group.members(group.agreement(largest=10))
    session = shared(members)
    name = group.names[0]
    with pytest.raises(FederationError, match="larger than was agreed"):
        members[name].mask(session.boxes_for(name), np.full(7, 11))
    with pytest.raises(FederationError, match="another size"):
        members[name].mask(session.boxes_for(name), np.full(6, 1))


def test_more_colluding_parties_than_stated_are_not_covered() -> None:
    """Both neighbours of a party collude where one may: its numbers are bare."""
    group = Group(9)
    members = group.members(group.agreement(colluding=1, neighbours=2))
    session = masked(group, members)
    included, alone = session.included(), group.names[4]
    signatures = {name: members[name].confirm(included) for name in included}
    shares = {name: members[name].reveal(signatures) for name in included}
    transcript = transcript_of(session.agreement, session.adverts)
    words = session.masked[alone].copy()
    seed = session._rebuilt(shares, "seeds", alone)
    add_mask(words, seed_mask_key(seed, transcript, alone), subtract=True)
    for other in session.agreement.neighbours_of(alone):
        secret = members[other]._mask_secret
        key = pair_mask_key(secret, session.adverts, transcript, other, alone)
        add_mask(words, key, subtract=alone < other)
    assert np.array_equal(words.view(np.int64), group.cells[alone])


def test_decisions_outlive_the_process(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.decide("which list", "this one", "no")
    journal.decide("which list", "this one", "no")
    with pytest.raises(FederationError, match="signed before"):
        Journal(tmp_path).decide("which list", "that one", "signed before")
    assert [path.suffix for path in tmp_path.iterdir()] == [".decision"]


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


def test_a_key_is_read_from_its_file(tmp_path: Path) -> None:
    from sfumato.report.certificate import new_key

    public = new_key(tmp_path / "key.pem")
    assert Identity.read(tmp_path / "key.pem").public == public
    (tmp_path / "other").write_text("no key")
    for name in ("other", "missing"):
        with pytest.raises(FederationError, match="does not contain an Ed25519 key"):
            Identity.read(tmp_path / name)
