"""Federated hulls in simulation: merging, serving distances, refusals, budgets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sfumato import Bounds, Ledger
from sfumato.exceptions import FederationError, InvalidInputError
from sfumato.federated import HullTask, Party, Terms, make_parties, simulate
from sfumato.federated.hulls import run_task
from sfumato.federated.messages import Reply, Request, model_from
from tests.federated.federations import hulls


def test_distances_served_from_home_equal_the_merged_models(tmp_path, digits, hull_task) -> None:
    X, y, X_test, _ = digits
    parties = make_parties(X, y, tmp_path, scenario="two-per-class", random_state=1)
    merged = simulate(parties, hull_task).model
    # The same releases, under the name of another task: copied by hand from store to store.
    at_home = HullTask("at-home", hull_task.estimator, "distances")
    for party in parties:
        made = party.store.find(hull_task.request())
        party.store.release_once(at_home.request(), lambda made=made: made)
    remote = simulate(parties, at_home).model
    np.testing.assert_allclose(
        remote.distances(X_test), merged.distances(X_test), rtol=1e-5, atol=1e-4
    )
    np.testing.assert_array_equal(remote.predict(X_test), merged.predict(X_test))


def test_the_global_distance_is_the_smallest_of_the_parties(tmp_path, digits, hull_task) -> None:
    X, y, X_test, _ = digits
    parties = make_parties(X, y, tmp_path, scenario="random", n_parties=3, random_state=2)
    found = simulate(parties, hull_task)
    models = [
        model_from(party.store.find(hull_task.request()).arrays["model"]) for party in parties
    ]
    each = np.stack([model.distances(X_test) for model in models])
    np.testing.assert_allclose(found.model.distances(X_test), each.min(axis=0), rtol=1e-9)


def test_no_row_is_in_any_message(tmp_path, digits) -> None:
    X, y, X_test, _ = digits
    X = X + np.random.default_rng(0).random(X.shape) * 1e-3  # rows that occur nowhere by chance
    for serve in ("models", "distances"):
        party = Party.of_rows("a", X, y, tmp_path / serve)
        task = HullTask("t", hulls(), serve)
        replies = [party.answer(task.request())]
        if serve == "distances":
            replies.append(
                party.answer(Request("t", "hulls.distances", {"queries": "q"}, {"q": X_test[:20]}))
            )
        sent = b"".join(each.to_bytes() for each in replies)
        for row, kind in itertools.product(X[:300], (np.float64, np.float32)):
            assert row[20:24].astype(kind).tobytes() not in sent
            assert (row[20:24] / 16).astype(kind).tobytes() not in sent


# Rights of a party -------------------------------------------------------------------------------


def test_a_ledger_is_charged_once_for_a_retried_round(tmp_path, digits, hull_task) -> None:
    X, y, _, _ = digits
    budget = Ledger(tmp_path / "ledger.db").create("rows", epsilon=20.0, delta=1e-5, unit="entry")
    party = Party.of_rows("a", X, y, tmp_path / "a", ledger=budget)
    first = party.answer(hull_task.request())
    spent = budget.spent()
    assert 0 < spent <= 16
    again = party.answer(hull_task.request())
    assert budget.spent() == spent
    np.testing.assert_array_equal(first.arrays["model"], again.arrays["model"])


UNLABELLED = Bounds(lower=0.0, upper=16.0)


def untouchable() -> None:
    raise AssertionError("rows were read")


@pytest.mark.parametrize(
    ("changes", "terms", "sentence"),
    [
        ({}, Terms(Bounds(lower=0.0, upper=1.0, labels=range(10))), "bounds"),
        ({}, Terms(max_epsilon=15.0), "at most 15"),
        ({"epsilon": 17.0}, Terms(), "at most 16"),
        ({"epsilon": 1.0, "delta": 0.5}, Terms(), "delta 0.5"),
        ({"entry_bound": 1e-9}, Terms(), "smaller changes"),
        ({"entry_bound": 0.9}, Terms(entry_bound=1.0), "smaller changes"),
        ({}, Terms(unit="record"), "unit"),
        ({}, Terms(relation="add_or_remove_one"), "relation"),
        ({"bounds": Bounds(lower=0.0, upper=16.0, labels="public")}, Terms(), "listed"),
        ({"bounds": UNLABELLED}, Terms(), "listed"),
        ({"bounds": UNLABELLED}, Terms(UNLABELLED), "listed"),
        ({"bounds": None}, Terms(), "listed"),
    ],
)
def test_other_terms_are_refused_before_any_row_is_read(tmp_path, changes, terms, sentence) -> None:
    party = Party("a", untouchable, tmp_path, terms=terms)
    assert sentence in party.answer(HullTask("t", hulls(**changes)).request()).refusal


def test_of_an_estimator_only_the_listed_parameters_travel(tmp_path, digits) -> None:
    fitted = hulls(epsilon=12.0, hull_components=2).fit(digits[0][:60], digits[1][:60])
    request = HullTask("t", fitted.set_params(**hulls().get_params())).request()
    party = Party.of_rows("a", *digits[:2], tmp_path)
    assert model_from(party.answer(request).arrays["model"]).guarantee_.epsilon == 16.0
    (given,) = request.settings["estimator"].values()
    for more in ({"ledger": None}, {"device": "cuda"}, {"classes_": [0]}, {"verbose": True}):
        odd = {"serve": "models", "estimator": {"EntryHullClassifier": {**given, **more}}}
        assert "no others" in party.answer(Request("t2", "hulls.fit", odd)).refusal


def test_rows_that_cannot_be_read_are_told_in_one_fixed_sentence(tmp_path) -> None:
    def load() -> None:
        raise InvalidInputError("The file '/secret/t.csv': column 2 holds values not of its type.")

    refusal = Party("a", load, tmp_path).answer(HullTask("t", hulls()).request()).refusal
    assert refusal == "a cannot read its rows; see its log."


# The coordinator ---------------------------------------------------------------------------------


def garbage(party: str, kind: str, good: Reply) -> Reply:
    facts, arrays = dict(good.facts), dict(good.arrays)
    if kind == "bytes":
        arrays["model"] = np.frombuffer(b"nonsense" * 100, dtype=np.uint8)
    elif kind == "cut":
        arrays["model"] = arrays["model"][:-100]
    elif kind == "flipped":
        arrays["model"] = arrays["model"].copy()
        arrays["model"][2000] ^= 255
    elif kind == "text":
        facts["guarantee"] = "trust me"
    elif kind == "other unit":
        facts["guarantee"] = {**facts["guarantee"], "unit": "record", "entry_bound": None}
    elif kind == "cheaper":
        facts["guarantee"] = {**facts["guarantee"], "epsilon": 0.1}
    else:
        arrays = {}
    return Reply(party, facts, arrays)


@pytest.mark.parametrize(
    "kind", ["bytes", "cut", "flipped", "text", "cheaper", "other unit", "nothing"]
)
def test_garbage_of_one_party_does_not_touch_the_others(tmp_path, digits, hull_task, kind) -> None:
    X, y, X_test, y_test = digits
    good = make_parties(X, y, tmp_path, scenario="random", n_parties=2, random_state=0)

    def ask(request: Request) -> list[Reply]:
        replies = [party.answer(request) for party in good]
        return [*replies, garbage("villain", kind, replies[0])]

    found = run_task(hull_task, ask)
    assert list(found.rounds[0].refused) == ["villain"]
    assert set(found.guarantees) == {"party-0", "party-1"}
    assert found.model.score(X_test, y_test) > 0.9


def test_too_few_usable_replies_are_an_error(hull_task) -> None:
    with pytest.raises(FederationError, match="0 of at least 1"):
        run_task(hull_task, lambda request: [Reply("a", refusal="no")])
