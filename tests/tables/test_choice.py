"""Categories from scores: their shares, and what they keep of the scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.tables.encoder import choose_categories

SHARES = np.array([0.7, 0.15, 0.08, 0.04, 0.02, 0.007, 0.003])


def gaussian_scores(seed: int, n: int = 20_000) -> np.ndarray:
    """Draw from the Gaussian that has the moments of one-hot rows."""
    rng = np.random.default_rng(seed)
    one_hot = np.eye(len(SHARES))[rng.choice(len(SHARES), n, p=SHARES)]
    return rng.multivariate_normal(one_hot.mean(axis=0), np.cov(one_hot.T), n)


def test_rare_categories_keep_their_share(seed: int) -> None:
    scores = gaussian_scores(seed)
    wanted = np.maximum(scores.mean(axis=0), 0)
    chosen = np.bincount(choose_categories(scores), minlength=len(SHARES)) / len(scores)
    np.testing.assert_allclose(chosen, wanted / wanted.sum(), atol=2e-3)
    largest = np.bincount(scores.argmax(axis=1), minlength=len(SHARES)) / len(scores)
    assert abs(largest - SHARES).max() > 0.02  # what the highest score alone would give


def test_one_hot_rows_come_back(seed: int) -> None:
    codes = np.random.default_rng(seed).integers(0, 5, 300)
    np.testing.assert_array_equal(choose_categories(np.eye(5)[codes]), codes)


def test_a_higher_score_is_never_held_against_a_row(seed: int) -> None:
    """Between two categories the rows with the larger difference get the first."""
    scores = np.random.default_rng(seed).normal([0.8, 0.2], [0.3, 0.1], size=(5000, 2))
    difference, chosen = scores[:, 0] - scores[:, 1], choose_categories(scores)
    assert difference[chosen == 0].min() >= difference[chosen == 1].max()


@settings(max_examples=60)
@given(arrays(float, st.tuples(st.integers(0, 12), st.integers(1, 4)), elements=st.floats(-2, 2)))
def test_any_scores_give_categories(scores: np.ndarray) -> None:
    chosen = choose_categories(scores)
    assert chosen.shape == (len(scores),)
    assert np.all((chosen >= 0) & (chosen < scores.shape[1]))


@pytest.mark.parametrize("scores", [np.full((4, 3), -1.0), np.zeros((4, 3))])
def test_scores_without_a_share_give_the_first(scores: np.ndarray) -> None:
    np.testing.assert_array_equal(choose_categories(scores), 0)
