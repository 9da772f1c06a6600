"""Printed mechanisms that keep no promise are caught, each with a repaired one beside it."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import Bounds
from sfumato.audit import audit, empirical_epsilon
from sfumato.exceptions import RefutedGuaranteeWarning
from sfumato.papers.kahm import EntryFabricator, PrintedFabricator
from tests.audit import broken


def test_hinge_with_objective_perturbation(seed: int) -> None:
    """Sold with epsilon 1; the atom on the margin is 0.197 under x = 1 and 0 under x = 0.5."""
    rng = np.random.default_rng(seed)
    found = empirical_epsilon(
        lambda x, n: broken.hinge_minimisers(rng, x, n),
        1.0,
        0.5,
        n_runs=4000,
        batched=True,
        claimed=1.0,
        confidence=0.999,
    )
    assert found.refutes
    assert found.epsilon > 3
    assert found.hits[0] / found.hits[1] == pytest.approx(0.197, abs=0.03)


def test_shared_noise_large_margin() -> None:
    """Sold with epsilon 1 and some; D and D' are told apart with certainty."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    x = np.clip(np.where(y == 0, -0.5, 0.5) + rng.normal(scale=0.4, size=200), -1, 1)
    x_prime = x.copy()
    x_prime[0] = 0.9
    margin = broken.SharedNoiseMargin(epsilon=1.0)
    found = empirical_epsilon(
        lambda data: margin.tell(margin.fit(rng, data, y), x, y),
        x,
        x_prime,
        n_runs=60,
        statistic=lambda told: -told,
        threshold=-1e-3,
        claimed=1.5,
        confidence=0.95,
    )
    assert found.hits == (60, 60)
    assert found.hits_other == (0, 60)
    assert found.refutes


def rows_and_neighbour() -> tuple[np.ndarray, np.ndarray]:
    rows = np.random.default_rng(0).uniform(0, 0.01, (20, 2))
    moved = rows.copy()
    moved[0, 0] += 0.99
    return rows, moved


SETTINGS = {
    "epsilon": 1.0,
    "entry_bound": 1.0,
    "bounds": Bounds(lower=0.0, upper=1.0),
    "random_state": 0,
}


def printed() -> PrintedFabricator:
    return PrintedFabricator(2, delta=0.0, **SETTINGS)


@pytest.mark.filterwarnings("ignore::sfumato.exceptions.RefutedGuaranteeWarning")
def test_fabrication_with_a_raw_threshold() -> None:
    """Sold with epsilon 1; the number of passes, published with the rows, tells D from D'."""
    found = empirical_epsilon(
        lambda data: printed().fit(data).n_smoothing_[0],
        *rows_and_neighbour(),
        n_runs=16,
        threshold=55,
        claimed=1.0,
        confidence=0.95,
    )
    assert found.refutes


def test_fabrication_with_a_raw_threshold_fails_the_audit_in_one_call() -> None:
    found = audit(printed(), X=rows_and_neighbour()[0], n_runs=4)
    assert found.consistent is False
    assert "n_smoothing_ depends on the rows" in found.verdict
    assert audit(printed(), n_runs=4).consistent is False  # rows from the bounds alone


def test_fabrication_with_a_public_threshold_is_not_accused() -> None:
    estimator = EntryFabricator(2, **SETTINGS)
    found = audit(estimator, X=rows_and_neighbour()[0], n_runs=1000, confidence=1 - 1e-6)
    assert found.consistent is True
    assert found.leak is None


def test_the_printed_algorithm_warns() -> None:
    with pytest.warns(RefutedGuaranteeWarning):
        printed().fit(rows_and_neighbour()[0])
