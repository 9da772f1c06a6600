"""The charged bandwidth rule."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import Bounds
from sfumato.accounting.receipt import Receipt
from sfumato.functions.bandwidth import (
    CELLS,
    normal_rule,
    private_quartiles,
    quartile_mechanisms,
)
from sfumato.functions.domain import Domain
from sfumato.testing import seeded_noise

BOX = Bounds(lower=-1.0, upper=3.0)


def quartiles(rows: np.ndarray, epsilon: float) -> np.ndarray:
    mechanisms = quartile_mechanisms(epsilon, rows.shape[1])
    receipt = Receipt([m.event() for m in mechanisms])
    found = private_quartiles(rows, Domain(BOX, rows.shape[1]), mechanisms, receipt)
    assert not receipt.unused()
    return found


def test_without_noise_they_are_the_quartiles(rng: np.random.Generator) -> None:
    rows = np.clip(rng.normal(1.0, 0.4, size=(5000, 2)), -1, 3)
    found = quartiles(rows, np.inf)
    np.testing.assert_allclose(found, np.quantile(rows, [0.25, 0.75], axis=0).T, atol=4 / CELLS)


def test_with_noise_they_are_near(rng: np.random.Generator, seed: int) -> None:
    rows = np.clip(rng.normal(1.0, 0.4, size=(20000, 1)), -1, 3)
    with seeded_noise(seed):
        found = quartiles(rows, 0.5)
    np.testing.assert_allclose(found, np.quantile(rows, [0.25, 0.75], axis=0).T, atol=0.1)


def test_the_score_moves_by_one_at_most(rng: np.random.Generator) -> None:
    """Literal scores on random neighbours; the mechanism is charged for a sensitivity of 1."""
    assert quartile_mechanisms(1.0, 3)[0].sensitivity == 1
    edges, moved = np.linspace(-1, 3, CELLS + 1), []
    for _ in range(50):
        rows = rng.uniform(-1, 3, size=40)
        other = rows.copy()
        other[0] = rng.uniform(-1, 3)
        scores = [-np.abs((x[:, None] < edges).sum(axis=0) - 0.25 * 40) for x in (rows, other)]
        moved.append(np.abs(scores[0] - scores[1]).max())
    assert max(moved) == 1


def test_charges_add_up_to_epsilon() -> None:
    mechanisms = quartile_mechanisms(0.3, 3)
    assert len(mechanisms) == 6
    assert sum(m.epsilon for m in mechanisms) == pytest.approx(0.3)


def test_normal_rule_is_the_normal_rule(rng: np.random.Generator) -> None:
    """For normal rows in one dimension: ``1.06 sd n^(-1/5)``."""
    n, sd = 200, 0.2
    edge = 0.6744897501960817 * sd
    ours = normal_rule(np.array([[1 - edge, 1 + edge]]), n, np.array([4.0]))
    assert ours[0] == pytest.approx(1.06 * sd * n**-0.2, rel=0.01)


def test_normal_rule_stays_between_public_limits() -> None:
    width = np.array([4.0, 4.0])
    flat = normal_rule(np.array([[1.0, 1.0], [3.0, -1.0]]), 10**6, width)
    assert flat[0] == 4 / 64
    assert flat[1] > 4 / 64
    assert normal_rule(np.array([[-1.0, 3.0]] * 2), 1, width).max() <= 4
