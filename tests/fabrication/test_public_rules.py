"""Scaling by public bounds, and the size of branches."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.exceptions import InvalidInputError
from sfumato.fabrication import Fabricator
from sfumato.fabrication.public_rules import plan_branches
from sfumato.mechanisms.base import taped
from sfumato.mechanisms.entropy import seeded
from sfumato.sums.maps import IntoUnitCube
from sfumato.tables.bounds import Bounds

BOX = Bounds(lower=(-1.0, 0.0, 10.0), upper=(1.0, 100.0, 10.5))


def test_a_box_is_seen_as_the_unit_cube(rng: np.random.Generator) -> None:
    X = rng.uniform((-1, 0, 10), (1, 100, 10.5), size=(20, 3))
    scale = IntoUnitCube(BOX, 3)
    inner = scale.scaled(X)
    assert inner.min() >= 0
    assert inner.max() <= 1
    np.testing.assert_allclose(scale.to_rows(inner), X, rtol=1e-12)
    np.testing.assert_array_equal(scale.scaled_entries(X), inner)


def test_rows_in_a_ball_stay_as_they_are(rng: np.random.Generator) -> None:
    X = rng.normal(size=(9, 2))
    scale = IntoUnitCube(Bounds(norm=1.0), 2)
    np.testing.assert_array_equal(scale.scaled(X), Bounds(norm=1.0).clip(X))
    assert scale.inner_bounds == Bounds(norm=1.0)


def test_a_bad_entry_moves_no_other() -> None:
    X = np.array([[0.5, 30.0, 10.1]])
    scale = IntoUnitCube(BOX, 3)
    good = scale.scaled_entries(X)
    for bad, becomes in ((np.nan, 0.5), (np.inf, 1.0), (-np.inf, 0.0), (1e308, 1.0)):
        X[0, 1] = bad
        found = scale.scaled_entries(X)
        assert found[0, 1] == becomes
        np.testing.assert_array_equal(found[0, [0, 2]], good[0, [0, 2]])


def test_a_huge_entry_of_a_narrow_range_does_not_overflow() -> None:
    scale = IntoUnitCube(Bounds(lower=0.0, upper=1e-3), 2)
    found = scale.scaled_entries(np.array([[1e308, -1e308], [np.inf, 5e-4]]))
    np.testing.assert_array_equal(found, [[1.0, 0.0], [1.0, 0.5]])


@given(
    st.floats(-5, 5),
    st.floats(-3, 3),
    st.floats(1e-12, 3),
    st.floats(-2, 0),
    st.floats(0.1, 3),
    st.floats(1, 1e6),
)
def test_entries_with_noise_move_by_no_more_than_the_bound(
    x: float, step: float, d: float, lower: float, width: float, wider: float
) -> None:
    """In a narrow and in a wide column; a hair wide for the rounding that the mechanism pays."""
    upper = [lower + width, lower + width * wider]
    scale = IntoUnitCube(Bounds(lower=[lower] * 2, upper=upper), 2)
    other = x + max(-d, min(d, step))
    change = abs(float(Fraction(x) - Fraction(other)))
    units = scale.entry_units(d)
    here, there = (scale.scaled_entries(np.full((1, 2), v)) * units for v in (x, other))
    allowed = change + scale.entry_rounding(d)
    stretched = units > np.subtract(upper, lower)  # narrower than d: any move is one of d at most
    assert np.all(np.abs(here - there) <= np.where(stretched, d, allowed) * (1 + 1e-15))


def test_each_column_gets_the_noise_of_its_own_width() -> None:
    """Columns of width 1 and 100, changes of 1 protected: noise 1 and 1, not 1 and 100."""
    bounds = Bounds(lower=[0.0, 0.0], upper=[1.0, 100.0])
    X = np.tile([0.5, 50.0], (2000, 1))
    model = Fabricator(unit="entry", entry_bound=1.0, epsilon=1.0, bounds=bounds, random_state=0)
    with seeded(0), taped() as tape:
        model.fit(X)
    (released,) = tape.releases
    np.testing.assert_array_equal(released.statistic[0], [0.5, 50.0])  # in units of the data
    noise = np.abs(released.output - released.statistic).mean(axis=0)
    np.testing.assert_allclose(noise, 1.0, rtol=0.15)  # six deviations of a mean of 2000


def test_entry_bound_by_default_covers_every_change() -> None:
    scale = IntoUnitCube(BOX, 3)
    assert scale.entry_bound(None) == 100.0
    np.testing.assert_array_equal(scale.entry_units(None), [100.0] * 3)
    np.testing.assert_array_equal(scale.entry_units(0.25), [2.0, 100.0, 0.5])
    with pytest.raises(InvalidInputError, match="'entry_bound'"):
        scale.entry_bound(-1.0)


def test_branches_grow_with_the_noise() -> None:
    sizes = [plan_branches(2 / epsilon**2, 784).branch_size for epsilon in (16, 4, 2, 1.5, 1)]
    assert sizes == sorted(sizes)
    assert (sizes[0], sizes[-1]) == (1000, 6000)
    assert plan_branches(0.01, 784).partition == "kmeans"
    assert plan_branches(np.inf, 2).partition == "random"
    assert plan_branches(np.inf, 784, largest=3000).branch_size == 3000


@pytest.mark.parametrize("n_features", [1, 5, 784])
def test_rows_that_are_mostly_noise_are_never_clustered(n_features: int) -> None:
    for noise_variance in (0.16, 0.5, 2.0, 1e6):
        plan = plan_branches(noise_variance, n_features)
        assert plan.partition == "random"
        assert plan.branch_size >= 1000
    assert plan_branches(0.125, n_features).partition == "kmeans"


def test_small_noise_gets_one_smoothing_pass() -> None:
    passes = [plan_branches(2 / epsilon**2, 784).passes for epsilon in (1.0, 4.0, 8.0, 16.0)]
    assert passes == [2, 2, 1, 1]
