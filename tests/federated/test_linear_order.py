"""Two rounds of one task: in order, one at a time, on one estimator, checked before paid."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import Bounds, Ledger, PrivateLinearClassifier
from sfumato.accounting.composition import epsilon_spent
from sfumato.federated import HullTask, LinearTask, Party, Terms
from sfumato.federated.messages import Reply
from sfumato.guarantee import Guarantee
from tests.federated.federations import hulls

N_FEATURES, KEPT = 6, 3
BALL = Bounds(norm=1.0, labels=range(2))
BASIS = np.eye(N_FEATURES)[:, :KEPT]


def linear(**changes: Any) -> PrivateLinearClassifier:
    settings = {"algorithm": "output", "n_components": KEPT, "epsilon": 1.0, "delta": 1e-5}
    return PrivateLinearClassifier(**settings | {"bounds": BALL} | changes)


def rows(n_features: int = N_FEATURES) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.normal(size=(60, n_features)) / 3, generator.integers(0, 2, 60)


def party_in(folder: Path, epsilon: float = 3.0, **rights: Any) -> Party:
    budget = Ledger(folder / "ledger.db").create("rows", epsilon=epsilon, delta=1e-5)
    return Party.of_rows("a", *rows(), folder / "store", ledger=budget, **rights)


def released(*replies: Reply) -> float:
    """Epsilon of all that was sent, from the events stated, each counted once."""
    events = {
        event
        for reply in replies
        if reply.refusal is None
        for event in Guarantee.from_dict(reply.facts["guarantee"]).events
    }
    return epsilon_spent(list(events), 1e-5, "replace_one")


def test_the_classifier_is_not_answered_before_the_subspace(tmp_path: Path) -> None:
    party, task = party_in(tmp_path), LinearTask("t", linear())
    early = party.answer(task.classifier_request(BASIS))
    assert "before" in early.refusal
    assert party.ledger.spent() == 0.0
    first = party.answer(task.subspace_request())
    second = party.answer(task.classifier_request(BASIS))
    promised = task.guarantees([first], [second])["a"]
    assert promised.epsilon >= party.ledger.spent() * (1 - 1e-9)
    assert promised.epsilon == pytest.approx(1.0, rel=1e-3)


def test_phases_asked_at_once_with_other_shares_keep_the_limit(tmp_path: Path) -> None:
    """While the first round reads its rows, the second one is asked for with all of the budget."""
    cheap, dear = LinearTask("t", linear(pca_share=0.999)), LinearTask("t", linear(pca_share=0.001))
    replies: dict[str, Reply] = {}
    rival: list[threading.Thread] = []

    def answer(name: str, request: Any) -> None:
        replies[name] = party.answer(request)

    def load() -> tuple[np.ndarray, np.ndarray]:
        if not rival:
            rival.append(
                threading.Thread(target=answer, args=("second", dear.classifier_request(BASIS)))
            )
            rival[0].start()
            rival[0].join(0.5)  # time enough to pass, if nothing holds it
        return rows()

    party = Party("a", load, tmp_path / "store", terms=Terms(max_epsilon=1.0))
    answer("first", cheap.subspace_request())
    rival[0].join()
    assert released(*replies.values()) <= 1.0
    assert "same estimator" in replies["second"].refusal


def test_a_name_serves_one_kind_of_task(tmp_path: Path) -> None:
    """`max_epsilon` is for a task: hulls and a linear classifier under one name would double it."""
    party = party_in(tmp_path, epsilon=40.0)
    assert party.answer(LinearTask("t", linear()).subspace_request()).refusal is None
    spent = party.ledger.spent()
    asked = HullTask("t", hulls(unit="record", bounds=Bounds(lower=0.0, upper=1.0, labels=[0, 1])))
    assert "same estimator" in party.answer(asked.request()).refusal
    assert party.ledger.spent() == spent


@pytest.mark.parametrize("algorithm", ["objective", "output", "noisy-gd"])
@pytest.mark.parametrize(
    "basis",
    [
        np.eye(N_FEATURES)[:, : KEPT - 1],
        np.eye(N_FEATURES)[:, : KEPT + 1],
        np.eye(N_FEATURES - 1)[:, :KEPT],
        np.eye(N_FEATURES)[:, :KEPT].astype(complex),
        np.eye(N_FEATURES)[:, :KEPT].astype(object),
    ],
)
def test_a_basis_of_wrong_shape_costs_nothing(tmp_path: Path, basis: Any, algorithm: str) -> None:
    party, task = party_in(tmp_path), LinearTask("t", linear(algorithm=algorithm, n_steps=3))
    assert party.answer(task.subspace_request()).refusal is None
    spent = party.ledger.spent()
    reply = party.answer(task.classifier_request(basis))
    assert "basis" in reply.refusal
    assert party.ledger.spent() == spent
    assert party.answer(task.classifier_request(BASIS)).refusal is None


@pytest.mark.parametrize(
    ("changes", "n_features"),
    [
        (
            {"algorithm": "objective", "loss": "hinge"},
            N_FEATURES,
        ),  # only the second round would see
        ({"algorithm": "no-such"}, N_FEATURES),
        ({"algorithm": "noisy-gd", "n_steps": 0}, N_FEATURES),
        ({"n_components": N_FEATURES}, N_FEATURES),
        ({"regularization": 1e-9, "algorithm": "objective"}, N_FEATURES),
        ({"bounds": Bounds(lower=[0.0] * 4, upper=[1.0] * 4, labels=[0, 1])}, N_FEATURES),
        ({"bounds": Bounds(norm=1.0, labels=[0])}, N_FEATURES),
    ],
)
def test_what_either_round_refuses_is_refused_before_the_first_charge(
    tmp_path: Path, changes: dict[str, Any], n_features: int
) -> None:
    party = party_in(tmp_path)
    party.load = lambda: rows(n_features)
    reply = party.answer(LinearTask("t", linear(**changes)).subspace_request())
    assert reply.refusal is not None
    assert party.ledger.spent() == 0.0


def test_a_budget_that_holds_the_first_round_only_is_not_charged(tmp_path: Path) -> None:
    """Half a task is of no use to anybody, and would be paid for."""
    party, task = party_in(tmp_path, epsilon=0.8), LinearTask("t", linear())
    refusal = party.answer(task.subspace_request()).refusal
    assert "The budget of 'rows' refuses" in refusal
    assert party.ledger.spent() == 0.0
    alone = Ledger(tmp_path / "other.db").create("rows", epsilon=0.8, delta=1e-5)
    (tmp_path / "whole").mkdir()
    other = party_in(tmp_path / "whole")  # the first round alone would have fitted
    other.answer(task.subspace_request())
    alone.charge(*other.ledger.events())


def test_an_unknown_aggregate_costs_nothing(tmp_path: Path) -> None:
    party, task = party_in(tmp_path), LinearTask("t", linear())
    request = task.subspace_request()
    object.__setattr__(request, "settings", {"aggregate": "median"})
    assert "aggregate" in party.answer(request).refusal
    assert party.ledger.spent() == 0.0
