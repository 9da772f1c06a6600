"""The public projection against the matrix it stands for."""

import numpy as np
import pytest

from sfumato.models.image_features.scattering import projected


@pytest.mark.parametrize(("width", "turn"), [(12, 0), (35, 5), (64, 9)])
def test_all_numbers_together_are_a_turn(width, turn, rng):
    """A Hartley matrix with random signs is orthogonal: lengths and angles stay."""
    rows = rng.normal(size=(6, width))
    turned = projected(rows, width, turn)
    np.testing.assert_allclose(turned @ turned.T, rows @ rows.T, atol=1e-10)
    assert not np.allclose(turned, rows, atol=0.1)


def test_some_of_them_keep_lengths_on_average(rng):
    row = rng.normal(size=(1, 40))
    squares = [float(np.sum(projected(row, 10, seed) ** 2)) for seed in range(3000)]
    spread = np.std(squares) / np.sqrt(len(squares))
    # Two-sided at five deviations: a false alarm in about two million runs.
    assert abs(np.mean(squares) - float(np.sum(row**2))) < 5 * spread


def test_a_row_alone_and_among_others_is_the_same_and_seeds_differ(rng):
    rows = rng.normal(size=(9, 30))
    assert np.array_equal(projected(rows, 7, 1)[3:4], projected(rows[3:4], 7, 1))
    assert not np.allclose(projected(rows, 7, 1), projected(rows, 7, 2))
