"""The charged bandwidth rule."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import Bounds
from sfumato.audit.testing import seeded_noise
from sfumato.ledger.receipt import Receipt
from sfumato.models.density import (
    SPREADS,
    normal_rule,
    private_spreads,
    spread_mechanisms,
    spread_scores,
)
from sfumato.models.features import Domain

BOX = Bounds(lower=-1.0, upper=3.0)
SIDE = 4.0
HALF_OF_A_NORMAL = 1.349  # deviations: the shortest interval with half of the mass


def spreads(rows: np.ndarray, epsilon: float) -> np.ndarray:
    mechanisms = spread_mechanisms(epsilon, rows.shape[1])
    receipt = Receipt([m.event() for m in mechanisms])
    found = private_spreads(rows, Domain(BOX, rows.shape[1]), mechanisms, receipt)
    assert not receipt.unused()
    return found


def test_without_noise_they_are_the_shortest_halves(rng: np.random.Generator) -> None:
    rows = np.clip(rng.normal(1.0, [0.4, 0.1], size=(5000, 2)), -1, 3)
    found = spreads(rows, np.inf)
    np.testing.assert_allclose(found, HALF_OF_A_NORMAL * np.array([0.4, 0.1]), rtol=0.1)


def test_the_most_rows_in_an_interval_literally(rng: np.random.Generator) -> None:
    column = np.append(rng.uniform(-1, 3, size=30).round(1), [0.5, 0.5])
    lengths = SPREADS * SIDE
    literal = [max(sum(a <= x <= a + s for x in column) for a in column) for s in lengths]
    np.testing.assert_array_equal(
        spread_scores(np.sort(column), lengths), -np.abs(np.array(literal) - 16)
    )


def test_the_score_moves_by_one_at_most(rng: np.random.Generator) -> None:
    """Random and extreme neighbours, ties among them; charged for a sensitivity of 1."""
    assert spread_mechanisms(1.0, 3)[0].sensitivity == 1
    lengths, moved = SPREADS * SIDE, []
    for trial in range(200):
        rows = rng.uniform(-1, 3, size=40) if trial % 2 else rng.integers(-1, 4, size=40) * 1.0
        other = rows.copy()
        other[0] = rng.choice([-1.0, 3.0, rows[1], rng.uniform(-1, 3)])
        scores = [spread_scores(np.sort(x), lengths) for x in (rows, other)]
        moved.append(np.abs(scores[0] - scores[1]).max())
    assert max(moved) == 1


def test_charges_add_up_to_epsilon() -> None:
    mechanisms = spread_mechanisms(0.3, 3)
    assert len(mechanisms) == 3
    assert sum(m.epsilon for m in mechanisms) == pytest.approx(0.3)


@pytest.mark.parametrize(("n", "deviation"), [(100, 0.32), (300, 0.32), (300, 0.08)])
def test_few_rows_get_a_bandwidth_of_the_right_size(n: int, deviation: float, seed: int) -> None:
    """A tenth of epsilon 1. With two quartiles on an even grid it was 3 to 6 times too wide."""
    rng, ratios = np.random.default_rng(seed), []
    wanted = normal_rule(np.array([HALF_OF_A_NORMAL * deviation]), n, np.array([SIDE]))[0]
    with seeded_noise(seed):
        for _ in range(40):
            rows = np.clip(rng.normal(1.0, deviation, size=(n, 1)), -1, 3)
            found = normal_rule(spreads(rows, 0.1), n, np.array([SIDE]))[0]
            ratios.append(np.log(found / wanted))
    # Deviations of a ratio's logarithm are below 1.3 here: six of the mean of 40.
    assert abs(np.mean(ratios)) < np.log(1.5) + 6 * np.std(ratios) / np.sqrt(40)
    assert np.exp(np.mean(ratios)) < 2.0


def test_normal_rule_is_the_normal_rule() -> None:
    """For normal rows in one dimension: ``1.06 sd n^(-1/5)``."""
    n, sd = 200, 0.2
    ours = normal_rule(np.array([HALF_OF_A_NORMAL * sd]), n, np.array([4.0]))
    assert ours[0] == pytest.approx(1.06 * sd * n**-0.2, rel=0.01)


def test_normal_rule_stays_between_public_limits() -> None:
    width = np.array([4.0, 4.0])
    flat = normal_rule(np.array([0.0, 4.0]), 10**6, width)
    assert flat[0] == 4 / 64
    assert flat[1] > 4 / 64
    assert normal_rule(np.array([4.0, 4.0]), 1, width).max() <= 4
