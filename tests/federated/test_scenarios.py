"""Rows spread over parties: every row once, and as the scenario says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.exceptions import InvalidInputError
from sfumato.federated import spread
from sfumato.federated.scenarios import SCENARIOS

LABELS = np.random.default_rng(0).integers(0, 5, 400)


@given(st.sampled_from(SCENARIOS), st.integers(1, 12), st.integers(0, 99))
def test_every_row_is_at_one_party(scenario: str, n_parties: int, seed: int) -> None:
    parts = spread(LABELS, scenario, n_parties, random_state=seed)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(LABELS)))


def test_one_class_each_and_two_per_class() -> None:
    assert [set(LABELS[part]) for part in spread(LABELS, "one-class-each")] == [
        {c} for c in range(5)
    ]
    pairs = spread(LABELS, "two-per-class", random_state=0)
    assert [set(LABELS[part]) for part in pairs] == [{c} for c in range(5) for _ in range(2)]
    sizes = np.array([len(part) for part in pairs]).reshape(5, 2)
    assert np.all(np.abs(sizes[:, 0] - sizes[:, 1]) <= 1)


def test_random_parts_are_equal_and_uneven_ones_are_not() -> None:
    sizes = [len(part) for part in spread(LABELS, "random", 7, random_state=0)]
    assert max(sizes) - min(sizes) <= 1
    uneven = [len(part) for part in spread(np.zeros(16600), "uneven", 5, random_state=0)]
    assert uneven == [100, 500, 1000, 5000, 10000]


def test_the_deal_follows_the_seed() -> None:
    first, again, other = (spread(LABELS, "random", 3, random_state=s) for s in (1, 1, 2))
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))


@pytest.mark.parametrize(("scenario", "number"), [("random", 0), ("random", 401), ("fair", 2)])
def test_impossible_spreads_are_refused(scenario: str, number: int) -> None:
    with pytest.raises(InvalidInputError):
        spread(LABELS, scenario, number)
