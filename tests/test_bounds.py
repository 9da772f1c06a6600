from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from sfumato import Bounds
from sfumato.exceptions import InvalidInputError, MissingBoundsError
from sfumato.sums.maps import IntoUnitBall, IntoUnitCube

ANY_ROWS = arrays(
    float,
    st.tuples(st.integers(1, 5), st.just(3)),
    elements=st.floats(allow_nan=True, allow_infinity=True, width=64),
)
SOME_BOUNDS = st.sampled_from(
    [
        Bounds(norm=1.0),
        Bounds(norm=1e-3),
        Bounds(norm=1e150),
        Bounds(lower=0.0, upper=100.0),
        Bounds(lower=[-1, 2, -5], upper=[0, 3, 7]),
        Bounds(lower=-1.0, upper=2.0, norm=1.5),
    ]
)


@given(ANY_ROWS, SOME_BOUNDS)
def test_clip_obeys_the_bounds_and_is_idempotent(X: np.ndarray, bounds: Bounds) -> None:
    once = bounds.clip(X)
    assert np.isfinite(once).all()
    if bounds.norm is not None:
        exact = [math.fsum((v / bounds.norm) ** 2 for v in row) for row in once.tolist()]
        assert max(exact) <= 1.0
    box = bounds.box(3)
    if box is not None:
        assert (once >= box[0]).all()
        assert (once <= box[1]).all()
    np.testing.assert_array_equal(bounds.clip(once), once)


@given(ANY_ROWS, SOME_BOUNDS, st.integers(0, 4))
def test_clip_treats_each_row_alone(X: np.ndarray, bounds: Bounds, i: int) -> None:
    i = i % len(X)
    np.testing.assert_array_equal(bounds.clip(X)[i], bounds.clip(X[i : i + 1])[0])


def test_clip_keeps_the_direction_of_enormous_rows() -> None:
    row = Bounds(norm=2.0).clip([[3e300, 4e300]])[0]
    np.testing.assert_allclose(row, [1.2, 1.6], rtol=1e-9)


def test_rows_that_are_not_finite_become_the_default_row() -> None:
    ball, box = Bounds(norm=1.0), Bounds(lower=[0.0, 2.0], upper=[1.0, 4.0])
    np.testing.assert_array_equal(ball.clip([[np.nan, 0.1]]), [[0.0, 0.0]])
    np.testing.assert_array_equal(box.clip([[0.5, np.inf]]), [[0.5, 3.0]])


@pytest.mark.parametrize("bounds", [Bounds(norm=2.0), Bounds(lower=[0, -1, 0], upper=[100, 1, 1])])
def test_balls_hold_and_are_attained(bounds: Bounds, rng: np.random.Generator) -> None:
    rows = bounds.clip(rng.normal(size=(400, 3)) * 1e3)
    gaps = rows[:, None, :] - rows[None, :, :]
    centre, radius = bounds.ball(3)
    assert np.linalg.norm(gaps, axis=2).max() >= 1.8 * radius
    assert np.linalg.norm(rows - centre, axis=1).max() <= radius * (1 + 1e-12)


def test_labels_are_coded_by_the_public_set() -> None:
    bounds = Bounds(labels=["yes", "no"])
    codes, labels = bounds.clip_labels(np.array(["no", "yes", "perhaps"]))
    np.testing.assert_array_equal(labels, ["no", "yes"])
    np.testing.assert_array_equal(codes, [0, 1, 0])


@pytest.mark.parametrize(
    ("texts", "columns"),
    [
        (["no", "yes"], [np.array([]), np.array([np.nan]), np.array([3]), np.array(["3"])]),
        (["0", "1"], [np.array([0, 1]), np.array([0.0, 1.0]), np.array([0.0, 1.0, "x"])]),
        (["false", "true"], [np.array([False, True]), np.array([False, True, "x"])]),
    ],
)
def test_the_type_of_a_column_of_labels_decides_nothing(texts, columns) -> None:
    """One record more, or one label missing, can turn texts into numbers and back."""
    for column in columns:
        codes, _ = Bounds(labels=texts).clip_labels(column)
        assert codes.tolist() == [0, 1, 0][: len(column)]


def test_the_label_set_is_read_from_data_only_when_declared_public() -> None:
    with pytest.raises(MissingBoundsError, match="labels='public'"):
        Bounds(norm=1.0).clip_labels(np.array([0, 1]))
    _, labels = Bounds(norm=1.0, labels="public").clip_labels(np.array([7, 3, 7]))
    np.testing.assert_array_equal(labels, [3, 7])
    for missing in (None, np.nan):  # one record without a label raises nothing and is no class
        _, labels = Bounds(norm=1.0, labels="public").clip_labels(["b", missing, "a"])
        np.testing.assert_array_equal(labels, ["a", "b"])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, MissingBoundsError),
        ({"lower": 0.0}, MissingBoundsError),
        ({"norm": -1.0}, InvalidInputError),
        ({"norm": math.inf}, InvalidInputError),
        ({"lower": 1.0, "upper": 0.0}, InvalidInputError),
        ({"lower": [0, 0], "upper": [1, 1, 1]}, InvalidInputError),
        ({"lower": 1.0, "upper": 2.0, "norm": 1.0}, InvalidInputError),
        ({"lower": np.nan, "upper": 1.0}, InvalidInputError),
        ({"labels": [1, 1]}, InvalidInputError),
        ({"labels": "yes"}, InvalidInputError),
        ({"labels": []}, InvalidInputError),
        ({"labels": [0, "yes"]}, InvalidInputError),
        ({"norm": 1e200}, InvalidInputError),
        ({"norm": 1e-170}, InvalidInputError),
        ({"lower": -1.7e308, "upper": 1.7e308}, InvalidInputError),
        ({"lower": [0.0, 0.0], "upper": [1.0, 1e200]}, InvalidInputError),
        ({"lower": 0.0, "upper": 1e-200}, InvalidInputError),
    ],
)
def test_bad_bounds_are_refused(arguments: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        Bounds(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("corners", [(-1e150, 1e150), (0.0, 1e-150), (1e9, 1e9 + 1e-3)])
def test_the_widest_and_narrowest_boxes_warn_of_no_row(corners: tuple[float, float]) -> None:
    """Sides that overflow or vanish would do so for some rows only: a warning about a row."""
    bounds = Bounds(lower=corners[0], upper=corners[1])
    rows = np.array([[*corners], [corners[1], 0.0], [1e308, -1e308], [5e-324, np.nan]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for block in (rows, rows[:1], rows[2:]):
            inside = IntoUnitBall(bounds, 2)(block)
            assert np.linalg.norm(inside, axis=1).max() <= 1.0
            scaled = IntoUnitCube(bounds, 2).scaled(block)
            assert ((scaled >= 0) & (scaled <= 1)).all()
