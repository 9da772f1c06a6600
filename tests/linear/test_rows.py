"""Rows: bounded, exact, and the same whatever stands beside them."""

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato import Bounds
from sfumato.core.arrays import to_numpy
from sfumato.exceptions import InvalidInputError
from sfumato.models.linear.rows import whitening_projection
from sfumato.sums.grid import double_rounding, truncate_to_grid
from sfumato.sums.maps import IntoUnitBall, LinearRows, row_sums

BOUNDS = [
    Bounds(norm=2.0),
    Bounds(lower=-1.0, upper=3.0),
    Bounds(norm=2.0, lower=-1.0, upper=3.0),
]


@pytest.fixture
def wild(rng):
    rows = rng.normal(0, 2, (40, 5))
    rows[3], rows[4, 1], rows[5, 0], rows[6], rows[7] = np.nan, np.inf, -np.inf, 1e200, 0.0
    return rows


@pytest.mark.parametrize("bounds", BOUNDS, ids=repr)
def test_unit_rows_of_another_library_are_the_same(bounds, wild):
    into_ball = IntoUnitBall(bounds, 5)
    here = into_ball(wild)
    there = to_numpy(into_ball(array_api_strict.asarray(wild)))
    np.testing.assert_allclose(there, here, atol=2.0**-25)
    assert np.linalg.norm(here, axis=1).max() <= 1
    assert np.linalg.norm(there, axis=1).max() <= 1


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("unit_length", [False, True])
def test_a_row_does_not_depend_on_its_neighbours(wild, unit_length, foreign, rng):
    basis = np.linalg.qr(rng.normal(size=(5, 5)))[0] * [1, 0.5, 0.3, 0.2, 0.1]
    into_ball, linear = IntoUnitBall(Bounds(norm=3.0), 5), LinearRows(5, True, basis, unit_length)
    assert linear.width == 6

    def mapping(rows):
        return linear(into_ball(rows))

    give = array_api_strict.asarray if foreign else np.asarray
    whole = to_numpy(mapping(give(wild)))
    for i in range(len(wild)):
        np.testing.assert_array_equal(to_numpy(mapping(give(wild[i : i + 1])))[0], whole[i])
    np.testing.assert_array_equal(to_numpy(mapping(give(wild[::-1].copy())))[::-1], whole)
    assert np.linalg.norm(whole, axis=1).max() <= 1
    np.testing.assert_array_equal(whole, truncate_to_grid(whole, 18))
    lengths = np.linalg.norm(whole[:, :-1], axis=1) * np.sqrt(2)
    if unit_length:
        assert np.all((np.abs(lengths - 1) < 1e-4) | (lengths == 0))
    assert np.all(np.abs(whole[:, -1] - np.sqrt(0.5)) < 1e-5)


@given(st.integers(1, 2**62), st.integers(0, 2**20))
def test_neighbouring_sums_stay_near_as_doubles(total, change):
    """What a sum moves by as a double is what it moves by exactly, and the spacing at most."""
    moved = (total + change) / 2**36 - total / 2**36
    assert moved - change / 2**36 <= double_rounding(1, (total + change) / 2**36)


def test_a_library_without_doubles_is_refused(monkeypatch):
    class SinglesOnly:
        float64 = array_api_strict.float64

        @staticmethod
        def astype(x, _):
            return array_api_strict.astype(x, array_api_strict.float32)

    monkeypatch.setattr("sfumato.sums.maps.namespace_of", lambda _: SinglesOnly)
    with pytest.raises(InvalidInputError, match="float64"):
        IntoUnitBall(Bounds(norm=1.0), 3)(array_api_strict.ones((4, 3)))


@pytest.mark.parametrize("width", [1, 2, 7, 64, 785])
def testrow_sums_literally(width, rng):
    values = rng.normal(size=(5, width))
    found = row_sums(values)
    np.testing.assert_allclose(found[:, 0], values.sum(axis=1), atol=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("width", [3, 20, 64])
def test_a_clipped_row_is_the_same_alone_and_in_any_order_of_memory(order, width, rng):
    rows = np.array(rng.normal(0, 3, (257, width)), order=order)
    whole = Bounds(norm=1.0).clip(rows)
    alone = np.vstack([Bounds(norm=1.0).clip(row[None]) for row in rows])
    np.testing.assert_array_equal(whole, alone)


def test_whitening_flattens_what_stands_above_the_noise(rng):
    X = rng.normal(size=(5000, 4)) * [4, 2, 1, 0.5]
    moment = X.T @ X
    exact = whitening_projection(moment, 4, 0.0)
    variances = np.linalg.eigvalsh(exact.T @ moment @ exact)
    assert variances[-1] / variances[0] < 1.001
    assert np.linalg.norm(exact, 2) <= 1
    floor = whitening_projection(moment, 4, 1e7)  # nothing stands above that
    np.testing.assert_allclose(floor.T @ floor, np.eye(4), atol=0.1)
    assert whitening_projection(moment, 2, 0.0).shape == (4, 2)


@pytest.mark.parametrize("constant", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("radius", [0.7, 2.0])
def test_weights_of_rows_are_weights_before_the_map(constant: float, radius: float) -> None:
    """``w.a = (B w).z`` and the constant, for rows that are not scaled back."""
    rng = np.random.default_rng(0)
    projection = np.linalg.qr(rng.normal(size=(4, 2)))[0]
    rows = LinearRows(4, True, projection, constant=constant, radius=radius)
    z = rng.normal(size=(5, 4)) * 0.05
    weights = rng.normal(size=3)
    expected = z @ (rows.weights_before @ weights[:-1]) + rows.height * weights[-1]
    np.testing.assert_allclose(rows(z) @ weights, expected, atol=2e-5)
