"""One training run: the bound against randomised response, where it is exact, and a leaky model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.neighbors import KernelDensity

from sfumato import Bounds, PrivateMoments
from sfumato.audit import audit_in_one_run
from sfumato.audit.one_run import p_value
from sfumato.exceptions import InvalidInputError


def literal_p_value(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """The printed procedure, term by term."""
    q = 1 / (1 + np.exp(-epsilon))
    beta = binom.sf(v - 1, r, q)
    alpha, total = 0.0, 0.0
    for i in range(1, v + 1):
        total += binom.pmf(v - i, r, q)
        alpha = max(alpha, total / i)
    return float(min(1.0, beta + 2 * m * delta * alpha))


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-2])
@pytest.mark.parametrize(("m", "r", "v"), [(10, 10, 10), (100, 40, 30), (1000, 1000, 700)])
def test_p_values_are_the_printed_ones(m: int, r: int, v: int, delta: float) -> None:
    for epsilon in (0.1, 1.0, 3.0):
        expected = literal_p_value(m, r, v, epsilon, delta)
        assert p_value(m, r, v, epsilon, delta) == pytest.approx(expected)
    values = [p_value(m, r, v, e, delta) for e in np.linspace(0, 5, 40)]
    assert np.all(np.diff(values) >= -1e-12)


def respond(epsilon: float, seed: int, m: int, **options: Any) -> Any:
    """Randomised response on every coin: exactly epsilon, and the worst case of the theorem."""
    rng = np.random.default_rng(seed)
    keep = 1 / (1 + np.exp(-epsilon))

    def fit(rows: np.ndarray) -> np.ndarray:
        truth = np.isin(np.arange(m), rows[:, 0].astype(int))
        return truth ^ (rng.random(m) > keep)

    return audit_in_one_run(
        fit,
        np.arange(m)[:, None],
        score=lambda model, canaries: model + 0.1 * rng.random(m),
        random_state=seed,
        **options,
    )


def test_randomised_response_is_neither_accused_nor_missed() -> None:
    """Stated false-alarm rate 5 %; more than 11 of 100 would have a chance below 0.5 %."""
    found = [respond(1.0, seed, 1000, claimed=1.0) for seed in range(100)]
    assert sum(each.refutes for each in found) <= 11
    assert np.mean([each.epsilon for each in found]) > 0.75


def test_a_model_that_remembers_is_caught() -> None:
    rng = np.random.default_rng(0)
    canaries = rng.normal(size=(200, 5))
    found = audit_in_one_run(
        lambda rows: KernelDensity(bandwidth=0.05).fit(rows),
        canaries,
        claimed=1.0,
        random_state=0,
    )
    assert found.refutes
    assert found.n_right == found.n_guesses
    assert "REFUTED" in str(found)


def test_a_private_model_is_not_accused() -> None:
    """Canaries in their own directions, replaced by zero: the relation of the promise."""
    canaries = np.eye(40)
    bounds = Bounds(norm=1.0)

    def fit(rows: np.ndarray) -> Any:
        return PrivateMoments(epsilon=1.0, delta=1e-5, bounds=bounds).fit(rows)

    found = audit_in_one_run(
        fit,
        canaries,
        alternatives=np.zeros_like(canaries),
        score=lambda model, rows: (
            np.diag(model.second_moments_[0])[: len(rows)]
            if hasattr(model, "second_moments_")
            else rows @ np.ravel(model.means_[0])
        ),
        delta=1e-5,
        claimed=1.0,
        confidence=1 - 1e-6,
        random_state=0,
    )
    assert not found.refutes


def test_labels_go_along() -> None:
    seen = {}

    def fit(rows: np.ndarray, labels: np.ndarray) -> Any:
        seen["labels"] = labels
        np.testing.assert_array_equal(rows[:, 0] % 2, labels)
        return None

    rows = np.arange(20)[:, None]
    audit_in_one_run(fit, rows, y=np.arange(20) % 2, score=lambda *_: np.zeros(20), random_state=0)
    assert 0 < len(seen["labels"]) < 20


@pytest.mark.parametrize(
    "options",
    [
        {"canaries": np.ones((3, 1))},
        {"delta": 1.0},
        {"alternatives": np.ones((9, 2))},
        {"score": lambda *_: np.zeros(3)},
    ],
)
def test_wrong_input_is_refused(options: dict[str, Any]) -> None:
    given = {"canaries": np.ones((9, 1)), "score": lambda *_: np.zeros(9), **options}
    with pytest.raises(InvalidInputError):
        audit_in_one_run(lambda rows: None, given.pop("canaries"), **given)
