"""Parallel composition: the weakest of the promises, for whoever is in one of the sets."""

from __future__ import annotations

import itertools

import pytest

from sfumato import Guarantee
from sfumato.exceptions import InvalidInputError
from sfumato.privacy import best_attacker
from sfumato.privacy.composition import epsilon_spent, parallel
from sfumato.privacy.events import Event, GaussianEvent, PureEvent
from sfumato.privacy.guarantee import Status


def promise(delta: float, *events: Event) -> Guarantee:
    return Guarantee(epsilon_spent(events, delta, "replace_one"), delta, events=events)


PROMISES = {
    "weak at a small delta": promise(1e-9, GaussianEvent(4.0)),
    "strong at a large delta": promise(1e-2, GaussianEvent(2.0)),
    "pure": promise(0.0, PureEvent(1.2)),
    "two Gaussians": promise(1e-6, GaussianEvent(5.0), GaussianEvent(6.0)),
    "no events": Guarantee(0.9, 1e-5),
    "events of a part": Guarantee(1.5, 1e-5, events=(GaussianEvent(40.0),)),
}


@pytest.mark.parametrize("pair", itertools.permutations(PROMISES, 2), ids="/".join)
def test_no_figure_is_below_that_of_a_set(pair: tuple[str, str]) -> None:
    parts = [PROMISES[name] for name in pair]
    total = parallel(*parts, condition="one set each")
    assert total.epsilon == max(part.epsilon for part in parts)
    assert total.delta == max(part.delta for part in parts)
    assert (total.status, total.conditions) == (Status.CONDITIONAL, ("one set each",))
    whole = best_attacker(total)
    for part in map(best_attacker, parts):
        assert whole.guesses_right >= part.guesses_right
        assert whole.finds >= part.finds
    if total.events:  # accounted again, they cost no more than is stated
        assert epsilon_spent(total.events, total.delta, total.relation) <= total.epsilon * (
            1 + 1e-9
        )


def test_one_set_is_itself_and_none_is_an_error() -> None:
    (alone,) = [PROMISES["pure"]]
    assert parallel(alone, condition="one set each") == alone
    assert parallel(alone, alone, condition="x").events == alone.events
    with pytest.raises(InvalidInputError):
        parallel(condition="one set each")
    other = Guarantee(1.0, relation="add_or_remove_one")
    with pytest.raises(InvalidInputError):
        parallel(alone, other, condition="one set each")


def test_a_worse_status_stays() -> None:
    seeded = Guarantee(1.0, status="testing")
    total = parallel(seeded, PROMISES["pure"], condition="one set each")
    assert total.status is Status.TESTING
    refuted = Guarantee(None, status="refuted")
    assert parallel(seeded, refuted, condition="one set each").epsilon is None
