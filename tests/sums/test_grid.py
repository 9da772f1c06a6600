"""Rows come onto their grid, and the rounding of large sums is paid for."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sfumato.privacy.guarantee import Relation
from sfumato.sums import ClassCounts, ClassMoments, MeanAndSquares, SecondMoment, Statistic
from sfumato.sums.grid import FINE_BITS, MAX_ROWS_SECRET_N, QUANTUM
from sfumato.sums.maps import Centred, IntoUnitBall, RowMap
from sfumato.tables.bounds import Bounds


@pytest.mark.parametrize(
    "row_map",
    [
        IntoUnitBall(Bounds(norm=2.0), 3),
        IntoUnitBall(Bounds(lower=-1.0, upper=2.0), 3),
        Centred(np.full(3, 0.1), 0.7),
    ],
    ids=["ball", "box", "centred"],
)
def test_mapped_rows_lie_on_the_fine_grid(row_map: RowMap, rng: np.random.Generator) -> None:
    steps = row_map(rng.normal(size=(200, 3))) * 2.0**FINE_BITS
    np.testing.assert_array_equal(steps, np.rint(steps))


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    "statistic",
    [ClassCounts(2), MeanAndSquares(3), SecondMoment(3), ClassMoments(2, 3)],
    ids=lambda statistic: type(statistic).__name__,
)
def test_sums_too_large_for_doubles_pay_for_their_rounding(
    statistic: Statistic, relation: Relation
) -> None:
    exact = statistic.term_sensitivity(relation)
    # Up to 2**17 every multiple of the quantum is a double; beyond, the numbers of two neighbours
    # move by half a unit in the last place each.
    assert statistic.sensitivity(relation, 2**16) == exact
    largest = statistic.max_term * MAX_ROWS_SECRET_N
    assert math.ulp(largest) > QUANTUM
    needed = math.sqrt(statistic.size) * math.ulp(largest)
    assert statistic.sensitivity(relation, MAX_ROWS_SECRET_N) - exact == pytest.approx(
        needed, rel=1e-6
    )
