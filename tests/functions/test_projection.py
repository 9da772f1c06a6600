"""The nearest density, and the public nodes on which it is found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from sfumato import Bounds
from sfumato.models.functions.domain import Domain
from sfumato.models.functions.projection import Nodes, density_threshold


def projected(values: np.ndarray, volume: float) -> np.ndarray:
    threshold, gain = density_threshold(values, volume)
    return gain * np.maximum(values - threshold, 0)


@given(arrays(float, st.integers(1, 60), elements=st.floats(-50, 50)), st.floats(1e-3, 10))
def test_it_is_a_density(values: np.ndarray, volume: float) -> None:
    found = projected(values, volume)
    assert found.min() >= 0
    assert found.sum() * volume == pytest.approx(1, rel=1e-6)


@given(
    arrays(float, 20, elements=st.floats(-5, 5)),
    arrays(float, 20, elements=st.floats(0.01, 5)),
)
def test_the_threshold_never_moves_away_from_a_density(
    values: np.ndarray, truth: np.ndarray
) -> None:
    volume = 1 / 20
    density = truth / (truth.sum() * volume)
    kept = np.maximum(values - density_threshold(values, volume)[0], 0)
    before, after = np.linalg.norm(values - density), np.linalg.norm(kept - density)
    assert after <= before + 1e-9


def test_with_too_much_mass_it_is_the_nearest_density(rng: np.random.Generator) -> None:
    values, volume = rng.normal(1.5, 1.0, size=8), 0.125
    oracle = minimize(
        lambda p: np.sum((p - values) ** 2),
        np.ones(8),
        bounds=[(0, None)] * 8,
        constraints={"type": "eq", "fun": lambda p: p.sum() * volume - 1},
        method="SLSQP",
    )
    threshold, gain = density_threshold(values, volume)
    assert threshold > 0
    assert gain == pytest.approx(1)
    np.testing.assert_allclose(projected(values, volume), oracle.x, atol=1e-3)


def test_missing_mass_is_scaled_up_and_empty_places_stay_empty() -> None:
    values = np.array([0.0, 2.0, 1.0, -0.3])
    np.testing.assert_allclose(projected(values, 0.25), [0, 8 / 3, 4 / 3, 0])
    np.testing.assert_allclose(projected(np.array([-1.0, -3.0]), 0.5), [2, 0])


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_nodes_integrate(d: int) -> None:
    """The integral of a product of parabolas over a box."""
    nodes = Nodes(Domain(Bounds(lower=-1.0, upper=2.0), d))
    assert nodes.volume * len(nodes.points) == pytest.approx(3.0**d)
    integral = np.prod(nodes.points**2, axis=1).sum() * nodes.volume
    assert integral == pytest.approx(3.0**d, rel=0.02)
    assert nodes.points.min() >= -1
    assert nodes.points.max() <= 2


@pytest.mark.parametrize("d", [2, 4])
def test_scattered_rows_stay_in_their_cells(d: int, rng: np.random.Generator) -> None:
    nodes = Nodes(Domain(Bounds(lower=0.0, upper=1.0), d))
    numbers = rng.integers(len(nodes.points), size=500)
    rows = nodes.scatter(numbers, rng.uniform(size=(500, d)))
    assert (np.abs(rows - nodes.points[numbers]) <= nodes.sides / 2 + 1e-12).all()
    assert rows.min() >= 0
    assert rows.max() <= 1
