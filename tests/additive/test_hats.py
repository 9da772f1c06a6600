"""Hats: literal, in the unit ball, each row by itself."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.exceptions import MissingBoundsError
from sfumato.models.additive.columns import PublicColumns
from sfumato.models.additive.hats import HatRows
from sfumato.tables import TableBounds
from sfumato.tables.bounds import Bounds

COLUMNS = PublicColumns(
    ("age", "town", "pay"), (0.0, 0.0, -5.0), (100.0, 3.0, 5.0), (None, ("a", "b", "c"), None)
)
KNOTS = np.array([[0.0, 0.3, 1.0], [0.0, 0.5, 1.0]])


@pytest.fixture
def cells(rng: np.random.Generator) -> np.ndarray:
    found = np.column_stack(
        [rng.uniform(-20, 120, 400), rng.integers(-1, 5, 400), rng.uniform(-7, 7, 400)]
    ).astype(float)
    found[rng.random(found.shape) < 0.1] = np.nan
    found[0] = [np.inf, np.inf, -np.inf]
    return found


def literal(row: np.ndarray) -> np.ndarray:
    hats = np.zeros(9)
    for cell, low, high, knots, start in (
        (row[0], 0, 100, KNOTS[0], 0),
        (row[2], -5, 5, KNOTS[1], 6),
    ):
        if np.isfinite(cell):
            place = min(max((cell - low) / (high - low), 0), 1)
            for i in range(3):
                bump = np.zeros(3)
                bump[i] = 1
                hats[start + i] = np.interp(place, knots, bump)
    if row[1] in (0, 1, 2):
        hats[3 + int(row[1])] = 1
    return hats / np.sqrt(3)


def test_hats_are_those_of_interpolation(cells: np.ndarray) -> None:
    found = HatRows(COLUMNS, KNOTS)(cells)
    np.testing.assert_allclose(found, [literal(row) for row in cells], atol=2.0**-25)


def test_rows_lie_in_the_unit_ball_and_stand_alone(cells: np.ndarray) -> None:
    hats = HatRows(COLUMNS, KNOTS)
    rows = hats(cells)
    assert (np.sum(rows**2, axis=1) <= 1).all()
    assert (rows.sum(axis=1) <= np.sqrt(3)).all()
    for i in range(0, 400, 37):
        np.testing.assert_array_equal(hats(cells[i : i + 1])[0], rows[i])
    corner = hats(np.array([[0.0, 1.0, 5.0]]))
    assert float(np.sum(corner**2)) == pytest.approx(1, abs=1e-6)


def test_columns_are_read_from_bounds() -> None:
    told = {"age": (0, 120), "town": ["x", "y"], "gain": {"lower": 0, "upper": 1000, "log": True}}
    columns = PublicColumns.of(TableBounds.from_dict(told), ())
    assert columns.names == ("age", "town", "gain")
    assert columns.numeric == (0, 2)
    assert columns.upper[2] == pytest.approx(np.log1p(1000))
    assert PublicColumns.of(Bounds(lower=0, upper=1), ("u", "v")).width(9) == 18
    with pytest.raises(MissingBoundsError, match="range of each column"):
        PublicColumns.of(Bounds(norm=1.0), ("u",))
