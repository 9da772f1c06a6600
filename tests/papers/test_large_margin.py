"""The experiment on ellipsoids: what has a minimiser is counted, what has none is left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sfumato.audit.testing import seeded_noise
from sfumato.exceptions import RefutedGuaranteeWarning
from sfumato.papers import Setting, verdict_of
from sfumato.papers.large_margin import experiments as large_margin
from sfumato.papers.large_margin.experiments import (
    ENTRIES,
    Task,
    iris,
    pictures,
    plain_accuracy,
    printed_accuracy,
    share_with_minimiser,
    strict_accuracy,
    table_1,
)
from sfumato.papers.large_margin.printed import PrintedObjective

QUICK = Setting(quick=True, runs=1)


def test_the_share_with_a_minimiser_is_counted_by_eigenvalues() -> None:
    task = iris()
    with seeded_noise(1):
        found = share_with_minimiser(task, 1.0, 50)
    with seeded_noise(1):
        printed = PrintedObjective(task.lam, 0.5, 1.0)
        weight = np.diag([task.lam] * 4 + [0.0])
        least = [np.linalg.eigvalsh(weight + printed.noise(5))[0] for _ in range(50)]
    assert found == np.mean(np.array(least) > 0)
    assert 0.2 < found < 0.65


def test_without_weight_hardly_any_noise_leaves_a_minimiser() -> None:
    task = replace(iris(), lam=1e-3)
    assert share_with_minimiser(task, 1.0, 100) < 0.05
    with pytest.warns(RefutedGuaranteeWarning):
        assert printed_accuracy(task, 1.0, 3) is None


def test_the_printed_objective_is_fitted_as_often_as_asked() -> None:
    with seeded_noise(0), pytest.warns(RefutedGuaranteeWarning) as told:
        found = printed_accuracy(iris(), 10.0, 2)
    assert found is not None
    assert found > 0.5
    assert len(told) >= 2


@pytest.mark.filterwarnings("ignore::sfumato.exceptions.RefutedGuaranteeWarning")
def test_a_task_with_few_rows_is_fitted_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def once(task: Task, epsilon: float) -> float:
        asked.append(epsilon)
        return 0.5

    monkeypatch.setattr(large_margin, "strict_accuracy", once)
    large_margin.rows_of(iris(4), Setting(quick=True, runs=2))
    assert asked == [np.inf, *[1.0] * 8, *[10.0] * 8]


def test_iris_is_separated_without_noise() -> None:
    task = iris()
    assert len(task.rows.y) == 120
    assert plain_accuracy(task) > 0.9
    assert strict_accuracy(task, np.inf) > 0.9
    assert {len(iris(seed=seed).rows.y_test) for seed in range(3)} == {30}


def test_images_are_unit_rows_and_ten_components_of_them() -> None:
    task = pictures(QUICK)
    assert np.linalg.norm(task.rows.X, axis=1) == pytest.approx(np.ones(len(task.rows.X)))
    assert task.reduced.X.shape[1] == 10
    assert np.linalg.norm(task.reduced.X, axis=1).max() <= 1  # nothing is clipped away
    assert task.strict["n_components"] == 10


def test_the_table_refutes_the_printed_objective_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accuracies = {1.0: 0.6, 10.0: 0.8, np.inf: 0.9}
    monkeypatch.setattr(large_margin, "strict_accuracy", lambda _, epsilon: accuracies[epsilon])
    monkeypatch.setattr(large_margin, "plain_accuracy", lambda _: 0.95)
    monkeypatch.setattr(large_margin, "printed_accuracy", lambda *_: None)
    outcome = table_1(QUICK)
    assert len(outcome.comparisons) == 8
    assert list(outcome.claims.values()) == [False, True]
    assert verdict_of(ENTRIES[0], outcome, quick=False) == "not reproduced"

    monkeypatch.setattr(large_margin, "share_with_minimiser", lambda *_: 1.0)
    assert all(table_1(QUICK).claims.values())
    accuracies[10.0] = 0.5
    assert list(table_1(QUICK).claims.values()) == [True, False]
