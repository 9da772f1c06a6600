"""Products that must be exact, against whole numbers of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato.sums.grid import FINE_BITS, truncate_to_grid
from sfumato.sums.maps import exact_projection
from sfumato.sums.singles import SINGLE_BITS, Float32Rows


def steps(values: Any, bits: int) -> np.ndarray:
    """Numbers on a grid as Python's whole numbers, which never overflow or round."""
    scaled = np.asarray(values, dtype=np.float64) * 2.0**bits
    assert np.array_equal(scaled, np.rint(scaled))
    return np.vectorize(int, otypes=[object])(scaled)


def unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@pytest.mark.parametrize("width", [1, 7, 300, 3969])
def test_a_projection_is_the_product_of_whole_numbers(width: int, rng: Any) -> None:
    rows = unit(rng.standard_normal((9, width)))
    basis = np.linalg.qr(rng.standard_normal((width, min(width, 5))))[0]
    rows[0] = basis[:, 0]  # as large as a score can be
    rows[1] = np.abs(rows[1])
    found = exact_projection(rows, basis)
    wanted = steps(truncate_to_grid(rows, FINE_BITS), FINE_BITS) @ steps(
        truncate_to_grid(basis, FINE_BITS), FINE_BITS
    )
    assert np.array_equal(steps(found, 2 * FINE_BITS), wanted)
    other = exact_projection(np.vstack([rows[::-1], rows]), basis)  # another place and number
    assert np.array_equal(other[9:], found)
    assert np.array_equal(other[:9][::-1], found)


@pytest.mark.parametrize("size", [1, 3])
def test_products_within_a_person_are_those_of_whole_numbers(size: int, rng: Any) -> None:
    rows = truncate_to_grid(unit(rng.standard_normal((6 * size, 250))), SINGLE_BITS)
    rows[:size] = truncate_to_grid(unit(np.ones((size, 250))), SINGLE_BITS)
    found = Float32Rows.of(rows).person_products(size)
    apart = steps(rows, SINGLE_BITS).reshape(6, size, 250)
    for person in range(6):
        wanted = apart[person] @ apart[person].T
        assert np.array_equal(steps(found[person], 2 * SINGLE_BITS), wanted)
