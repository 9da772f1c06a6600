"""Federated linear classifiers: aggregation, budgets, and bases from strangers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from sfumato import Bounds, Ledger, PrivateLinearClassifier
from sfumato.accounting.composition import epsilon_spent
from sfumato.exceptions import InvalidInputError
from sfumato.federated import LinearTask, Party, make_parties, simulate
from sfumato.federated.coordination import run_task
from sfumato.federated.messages import Reply, Request, model_from, write_reply
from sfumato.mechanisms.base import taped
from sfumato.moments.pca import top_eigenvectors
from sfumato.sums.maps import IntoUnitBall
from sfumato.testing import seeded_noise

UNIT = Bounds(norm=1.0, labels=range(10))


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def linear(**changes: object) -> PrivateLinearClassifier:
    settings = {"algorithm": "objective", "n_components": 12, "epsilon": 8.0, "delta": 1e-5}
    return PrivateLinearClassifier(**settings | {"bounds": UNIT} | changes)


def test_without_noise_the_subspace_is_that_of_all_rows(tmp_path, rows) -> None:
    X, y = rows
    task = LinearTask("t", linear(epsilon=np.inf))
    parties = make_parties(X, y, tmp_path, n_parties=3, random_state=0)
    found = simulate(parties, task)
    units = IntoUnitBall(UNIT, X.shape[1])(X)
    expected = top_eigenvectors(units.T @ units, 12)[1]
    overlap = np.linalg.svd(found.model.projection_.T @ expected, compute_uv=False)
    np.testing.assert_allclose(overlap, 1, atol=1e-3)  # equal parties, so weights are equal too
    alone = linear(epsilon=np.inf).fit(X, y)
    assert found.model.score(X, y) > alone.score(X, y) - 0.02


def test_weights_are_averaged_by_rows(tmp_path, rows) -> None:
    X, y = rows
    task = LinearTask("t", linear())
    parties = make_parties(X, y, tmp_path, scenario="uneven", n_parties=3, random_state=0)
    found = simulate(parties, task)
    basis = found.model.projection_
    sent = [party.answer(task.classifier_request(basis)) for party in parties]  # stored releases
    models = [model_from(reply.arrays["model"]) for reply in sent]
    counts = np.array([len(party.load()[1]) for party in parties])
    for name in ("coef_", "intercept_"):
        parts = [n * getattr(m, name) for n, m in zip(counts, models, strict=True)]
        expected = sum(parts) / counts.sum()
        np.testing.assert_allclose(getattr(found.model, name), expected, rtol=1e-12)


def test_moments_are_added_in_proportion_to_rows(tmp_path, rows) -> None:
    X, y = rows
    task = LinearTask("t", linear())
    parties = make_parties(X, y, tmp_path, scenario="uneven", n_parties=3, random_state=0)
    replies = [party.answer(task.subspace_request()) for party in parties]
    total = np.zeros((64, 64))
    for reply in replies:
        moment = np.zeros((64, 64))
        moment[np.triu_indices(64)] = reply.arrays["moment"]
        total += reply.facts["n_rows"] * (moment + np.triu(moment, 1).T)
    expected = top_eigenvectors(total, 12)[1]
    np.testing.assert_allclose(np.abs(np.sum(task.basis(replies) * expected, axis=0)), 1)


@pytest.mark.parametrize("aggregate", ["moments", "projectors"])
def test_either_common_subspace_is_worth_classifying_in(tmp_path, rows, aggregate) -> None:
    """In a random subspace of twelve dimensions the same classifier scores below a half."""
    X, y = rows
    parties = make_parties(X, y, tmp_path, n_parties=4, random_state=0)
    found = simulate(parties, LinearTask("t", linear(epsilon=20.0), aggregate))
    assert found.model.score(X, y) > 0.6


@pytest.mark.parametrize("algorithm", ["objective", "output", "noisy-gd"])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_both_releases_cost_the_budget_and_not_more(tmp_path, rows, algorithm, relation) -> None:
    X, y = rows
    budget = Ledger(tmp_path / "l.db").create("rows", epsilon=2.0, delta=1e-5, relation=relation)
    party = Party.of_rows("a", X, y, tmp_path / "a", ledger=budget)
    task = LinearTask("t", linear(epsilon=2.0, algorithm=algorithm, relation=relation, n_steps=20))
    found = simulate([party], task)
    (promised,) = found.guarantees.values()
    assert promised.epsilon == pytest.approx(2.0, rel=2e-3)
    assert promised.epsilon <= 2.0
    assert budget.spent() == pytest.approx(promised.epsilon, rel=1e-6)
    assert promised.epsilon >= epsilon_spent(promised.events, 1e-5, promised.relation) * (1 - 1e-9)
    simulate([party], task)  # a retry: everything is stored
    assert budget.spent() <= 2.0
    counted = ["n_rows" in party.answer(task.subspace_request()).facts]
    assert counted == [relation == "replace_one"]


def test_a_party_that_missed_the_first_round_is_left_out_of_the_second(tmp_path, rows) -> None:
    X, y = rows
    present, late = make_parties(X, y, tmp_path, n_parties=2, random_state=0)

    def ask(request: Request) -> list[Reply]:
        asked = [present] if request.phase == "linear.subspace" else [present, late]
        return [party.answer(request) for party in asked]

    found = run_task(LinearTask("t", linear()), ask)
    assert "before 'linear.subspace' was made" in found.rounds[1].refused[late.name]
    assert list(found.guarantees) == [present.name]


@pytest.mark.parametrize(
    "basis",
    [np.eye(64)[:, :12] * 3, np.full((64, 12), np.nan), np.ones(64), np.ones((64, 12))],
)
def test_a_basis_that_lengthens_rows_is_refused(tmp_path, rows, basis) -> None:
    party, task = Party.of_rows("a", *rows, tmp_path), LinearTask("t", linear())
    party.answer(task.subspace_request())
    assert "basis" in party.answer(task.classifier_request(basis)).refusal


def test_a_second_basis_gets_no_second_release(tmp_path, rows) -> None:
    party = Party.of_rows("a", *rows, tmp_path)
    task = LinearTask("t", linear())
    party.answer(task.subspace_request())
    assert party.answer(task.classifier_request(np.eye(64)[:, :12])).refusal is None
    assert "other settings" in party.answer(task.classifier_request(np.eye(64)[:, 1:13])).refusal


@pytest.mark.parametrize("kind", ["short", "nan", "other"])
def test_garbage_is_refused_by_name(tmp_path, rows, kind) -> None:
    X, y = rows
    good = make_parties(X, y, tmp_path, n_parties=2, random_state=0)

    def ask(request: Request) -> list[Reply]:
        replies = [party.answer(request) for party in good]
        arrays = dict(replies[0].arrays)
        if "moment" in arrays and kind != "other":
            arrays["moment"] = (
                arrays["moment"][:-1] if kind == "short" else arrays["moment"] * np.nan
            )
        elif "model" in arrays:
            arrays["model"] = arrays["model"][::-1]
        return [*replies, Reply("villain", replies[0].facts, arrays)]

    found = run_task(LinearTask("t", linear()), ask)
    assert any("villain" in each.refused for each in found.rounds)
    assert found.model.score(X, y) > 0.7


def test_no_row_is_in_any_message_and_sizes_are_as_expected(tmp_path, rows) -> None:
    X, y = rows
    task = LinearTask("t", linear())
    party = Party.of_rows("a", X, y, tmp_path)
    first = party.answer(task.subspace_request())
    second = party.answer(task.classifier_request(task.basis([first])))
    assert first.arrays["moment"].size == 64 * 65 // 2
    assert model_from(second.arrays["model"]).coef_.shape == (10, 12)
    sent = write_reply(first) + write_reply(second)
    assert len(sent) < 100_000
    for row in X[:500]:
        assert row[20:23].tobytes() not in sent


def test_with_the_releases_held_fixed_the_rows_change_nothing(tmp_path, rows) -> None:
    """The taint test: record both rounds, then play them back to a party with other rows."""
    X, y = rows
    task = LinearTask("t", linear(algorithm="objective"))

    def both_rounds(party: Party) -> list[bytes]:
        first = party.answer(task.subspace_request())
        second = party.answer(task.classifier_request(task.basis([first])))
        return [write_reply(first), write_reply(second)]

    with seeded_noise(7), taped() as tape:
        original = both_rounds(Party.of_rows("p", X, y, tmp_path / "a"))
    assert [each.method for each in tape.releases] == ["release_symmetric", "release"]
    exact = tape.releases[0].statistic
    assert np.abs(tape.releases[0].output - exact).max() > 1  # there was noise
    with seeded_noise(7), taped(playback=tape):
        other = both_rounds(Party.of_rows("p", X[::-1] * 0.5, np.roll(y, 5), tmp_path / "b"))
    assert original == other


def test_the_two_rounds_must_have_the_same_estimator(tmp_path, rows) -> None:
    cheap, dear = linear(pca_share=0.999), linear(pca_share=0.001)
    basis = np.eye(64)[:, :12]
    party = Party.of_rows("a", *rows, tmp_path / "a")
    party.answer(LinearTask("t", cheap).subspace_request())
    assert "same estimator" in party.answer(LinearTask("t", dear).classifier_request(basis)).refusal


@pytest.mark.parametrize("changes", [{"n_components": None}, {"whiten": True}])
def test_estimators_that_do_not_fit_are_refused(changes) -> None:
    with pytest.raises(InvalidInputError):
        LinearTask("t", linear(**changes))
    with pytest.raises(InvalidInputError):
        LinearTask("t", linear(), "median")
