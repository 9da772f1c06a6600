from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from sfumato import Guarantee
from sfumato.exceptions import InvalidInputError, SfumatoError, UnsupportedEventError
from sfumato.mechanisms import EntryMechanism
from sfumato.privacy import compose, mu_from_budget
from sfumato.privacy.events import (
    EntryEvent,
    GaussianEvent,
    NonPrivateEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedEvent,
    event_from_dict,
    flatten,
)
from sfumato.privacy.guarantee import RecordReading, Status

GUARANTEES = st.builds(
    Guarantee,
    epsilon=st.floats(0, 50) | st.just(math.inf),
    delta=st.floats(0, 0.3),
    relation=st.sampled_from(["replace_one", "add_or_remove_one"]),
    status=st.sampled_from(["proved", "conditional", "testing"]),
    public=st.sampled_from([("bounds",), ("bounds", "labels")]),
    conditions=st.sampled_from([(), ("rows in the unit ball",)]),
    events=st.sampled_from([(), (GaussianEvent(2.0), RepeatedEvent(PureEvent(0.1), 3))]),
)


@given(GUARANTEES)
def test_round_trip_through_json(guarantee: Guarantee) -> None:
    record = json.loads(json.dumps(guarantee.to_dict(), allow_nan=False))
    assert Guarantee.from_dict(record) == guarantee


@given(GUARANTEES, GUARANTEES)
def test_composition_promises_no_more_than_its_parts(a: Guarantee, b: Guarantee) -> None:
    if a.relation != b.relation:
        with pytest.raises(InvalidInputError, match="do not compose"):
            a + b
        return
    total = a + b
    order = list(Status)
    assert order.index(total.status) == max(order.index(a.status), order.index(b.status))
    for part in (a, b):
        assert set(part.conditions) <= set(total.conditions)
        assert set(part.public) <= set(total.public)
    assert total.epsilon == a.epsilon + b.epsilon
    assert total.delta == a.delta + b.delta
    assert compose(a, b).epsilon <= total.epsilon


def test_composition_by_events_is_tighter() -> None:
    one = Guarantee(epsilon=1.0, delta=1e-5, events=(GaussianEvent(1 / mu_from_budget(1.0, 1e-5)),))
    assert compose(*[one] * 10).epsilon < 5 < 10


def test_events_that_do_not_explain_a_guarantee_do_not_stand_for_it() -> None:
    """A guarantee may be weaker than its events, for example because raw rows were read too."""
    one = Guarantee(epsilon=1.0, delta=1e-5, events=(PureEvent(1.0),))
    weak = Guarantee(epsilon=math.inf, delta=1e-5, events=(PureEvent(0.1),))
    assert compose(weak).epsilon == math.inf
    assert compose(weak, one).epsilon == math.inf
    half = Guarantee(epsilon=50.0, events=(PureEvent(0.1),))
    assert compose(half, one).epsilon == 51.0


def test_a_refuted_guarantee_never_shows_an_epsilon() -> None:
    with pytest.raises(InvalidInputError, match="claimed_epsilon"):
        Guarantee(epsilon=1.0, status="refuted")
    printed = Guarantee(epsilon=None, status="refuted", claimed_epsilon=0.1)
    assert "NO PRIVACY" in str(printed)
    assert "(claimed: 0.1)" in str(printed)
    assert not printed.is_private
    total = printed + Guarantee(epsilon=1.0)
    assert total.epsilon is None
    assert total.status is Status.REFUTED
    assert "refuted" in repr(printed)
    assert Guarantee(epsilon=1.0, delta=0.5) + Guarantee(epsilon=1.0, delta=0.5) == Guarantee(
        epsilon=math.inf
    )
    with pytest.raises(TypeError):
        printed + 1  # type: ignore[operator]


def test_weakness_is_said_in_the_sentence() -> None:
    assert str(Guarantee(epsilon=math.inf)).startswith("NO PRIVACY")
    testing = Guarantee(epsilon=1.0, status="testing")
    assert "not for release" in str(testing)
    assert not testing.is_private
    conditional = Guarantee(epsilon=1.0, status="conditional", conditions=("rows are clipped",))
    assert "Only if: rows are clipped" in str(conditional)
    removed = Guarantee(epsilon=1.0, relation="add_or_remove_one")
    assert "adding or removing any one record" in str(removed)


def test_the_sentence_says_what_is_proved() -> None:
    """The factor is exceeded more often than with probability delta, so delta is added."""
    mixed = str(Guarantee(epsilon=1.0, delta=1e-5))
    assert "more than 2.72 times as likely (epsilon 1), plus 1e-05 in probability." in mixed
    assert "except with probability" not in mixed
    assert "2.72 times as likely (epsilon 1). From even odds" in str(Guarantee(epsilon=1.0))
    noise = GaussianEvent(1 / mu_from_budget(1.0, 1e-5))
    known = str(Guarantee(epsilon=1.0, delta=1e-5, events=(noise,)))
    assert "whether a given record is in the data at most 55.4 % of the time" in known
    assert "accused wrongly, at most 20 in 1,000 inside it are accused correctly" in known
    assert "at most 73.2 % of the time" in mixed


def test_a_notebook_shows_what_is_promised_and_runs_no_column_name() -> None:
    guarantee = Guarantee(epsilon=1.0, delta=1e-5, public=("<script>", "n_rows"))
    shown = guarantee._repr_html_()
    assert "&lt;script&gt;; n_rows" in shown
    assert "<script>" not in shown
    assert all(str(part) in shown for part in (guarantee.unit, guarantee.relation))


def test_a_stored_sentence_is_not_believed() -> None:
    """A file may hold one that promises too much."""
    guarantee = Guarantee(epsilon=1.0, delta=1e-5)
    old = {**guarantee.to_dict(), "sentence": "at most a factor e, except with probability 1e-05."}
    assert Guarantee.from_dict(old) == guarantee
    assert Guarantee.from_dict(old).to_dict()["sentence"] == str(guarantee)


def test_entry_guarantee_tells_of_the_whole_record() -> None:
    guarantee = EntryMechanism(entry_bound=1.0, epsilon=0.1, delta=1e-5).guarantee(n_entries=784)
    reading = guarantee.record_reading
    assert isinstance(reading, RecordReading)
    assert reading.pure_epsilon == pytest.approx(78.4)
    assert reading.epsilon == pytest.approx(14.9, abs=0.05)
    assert reading.atom_probability == pytest.approx(0.00781, abs=1e-5)
    assert "whole record of 784 numbers" in str(guarantee)
    assert "exactly with probability 0.0079" in str(guarantee)
    assert Guarantee.from_dict(guarantee.to_dict()) == guarantee
    assert (guarantee + guarantee).record_reading.pure_epsilon == pytest.approx(156.8)


@pytest.mark.parametrize(
    "arguments",
    [
        {"epsilon": -1.0},
        {"epsilon": None},
        {"epsilon": math.nan},
        {"epsilon": 1.0, "delta": 1.0},
        {"epsilon": 1.0, "delta": -1e-9},
        {"epsilon": 1.0, "unit": "household"},
        {"epsilon": 1.0, "relation": "swap"},
        {"epsilon": 1.0, "status": "surely"},
        {"epsilon": 1.0, "unit": "entry"},
        {"epsilon": 1.0, "unit": "entry", "entry_bound": math.inf},
    ],
)
def test_bad_guarantees_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        Guarantee(**arguments)  # type: ignore[arg-type]


def test_events_count_and_refuse_the_unknown() -> None:
    events = [
        PureEvent(0.1),
        RepeatedEvent(RepeatedEvent(PureEvent(0.1), 2), 5),
        GaussianEvent(1.0),
    ]
    assert flatten(events) == {PureEvent(0.1): 11, GaussianEvent(1.0): 1}
    assert event_from_dict(events[1].to_dict()) == events[1]
    assert event_from_dict(NonPrivateEvent().to_dict()) == NonPrivateEvent()
    with pytest.raises(UnsupportedEventError, match="telepathy"):
        event_from_dict({"kind": "telepathy"})
    for bad in (lambda: GaussianEvent(0.0), lambda: EntryEvent(1.0, 1.0), lambda: PureEvent(-1.0)):
        with pytest.raises(InvalidInputError):
            bad()


def test_a_record_that_was_changed_is_refused_in_our_own_words() -> None:
    record = Guarantee(epsilon=1.0, delta=1e-5, events=(GaussianEvent(4.0),)).to_dict()
    damages: list[dict[str, Any]] = [
        {**record, "epsilom": 1.0},
        {key: value for key, value in record.items() if key != "epsilon"},
        {**record, "events": [7]},
        {**record, "events": [{"kind": "gaussiam"}]},
        {**record, "events": [{"kind": "gaussian", "noise": 1.0}]},
        {**record, "delta": "x"},
        {**record, "record_reading": 3},
    ]
    for damaged in damages:
        with pytest.raises(SfumatoError):
            Guarantee.from_dict(damaged)
    assert Guarantee.from_dict(record).epsilon == 1.0


def test_parts_of_a_composition_are_added_and_ranges_are_named() -> None:
    one = EntryMechanism(entry_bound=1.0, epsilon=0.1, delta=1e-5).guarantee(n_entries=784)
    assert (one + one).record_reading.delta == pytest.approx(2 * one.record_reading.delta)
    assert "changing one number of one record by at most 1, in the units" in str(one)
    chance = 1 - (1 - one.record_reading.atom_probability) ** 2
    assert (one + one).record_reading.atom_probability == pytest.approx(chance)
    assert (one + replace(one, record_reading=None)).record_reading is None
    assert "more than exp(20) times" in str(Guarantee(epsilon=20.0))
    whole = replace(one, whole_range=True)
    assert "one record to any other within its public range" in str(whole)
    for epsilon in (-1.0, math.nan, math.inf):
        with pytest.raises(InvalidInputError):
            RandomizedResponseEvent(epsilon, 3)
