"""Rows dealt to parties: every row once, as the scenario says, and as the promise allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato import Bounds, PrivateAffineHullClassifier
from sfumato.federated import make_parties, simulate, spread
from sfumato.federated.simulation import BY_LABEL, DEALT_BY_LABEL, LABELS_FOUND, SCENARIOS
from sfumato.privacy.guarantee import Status

LABELS = np.random.default_rng(0).integers(0, 5, 400)


@given(st.sampled_from(SCENARIOS), st.integers(1, 12), st.integers(0, 99))
def test_every_row_is_at_one_party(scenario: str, n_parties: int, seed: int) -> None:
    parts = spread(LABELS, scenario, n_parties, random_state=seed)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(LABELS)))


LISTED = Bounds(lower=-9.0, upper=9.0, labels=range(3))


def table(seed: int, n: int = 90) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, 4)), generator.integers(0, 3, n)


def held(X: Any, y: Any, folder: Path, **how: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    settings = {"n_parties": 4, "random_state": 7, "bounds": LISTED} | how
    return [party.load() for party in make_parties(X, y, folder, **settings)]


def changed(before: list, after: list) -> list[int]:
    """Numbers of the parties whose rows or labels are not the same."""
    assert len(before) == len(after)
    return [
        number
        for number, (one, two) in enumerate(zip(before, after, strict=True))
        if not all(map(np.array_equal, one, two))
    ]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_removed_record_changes_one_party(tmp_path: Path, scenario: str, seed: int) -> None:
    X, y = table(seed)
    how = {"scenario": scenario, "relation": "add_or_remove_one"}
    before = held(X, y, tmp_path, **how)
    for gone in range(0, len(X), 7):
        after = held(np.delete(X, gone, axis=0), np.delete(y, gone), tmp_path, **how)
        (party,) = changed(before, after)
        assert len(before[party][0]) == len(after[party][0]) + 1


@pytest.mark.parametrize("scenario", ["random", "uneven"])
def test_a_replaced_record_changes_one_party_in_one_row(tmp_path: Path, scenario: str) -> None:
    X, y = table(0)
    before = held(X, y, tmp_path, scenario=scenario)
    for place in range(0, len(X), 7):
        X_after, y_after = X.copy(), y.copy()
        X_after[place], y_after[place] = 5.0, (y[place] + 1) % 3
        after = held(X_after, y_after, tmp_path, scenario=scenario)
        (party,) = changed(before, after)
        assert np.sum((before[party][0] != after[party][0]).any(axis=1)) == 1


@pytest.mark.parametrize("odd", [np.nan, 10.0**300, "text", None, 10**400, 1j])
def test_one_odd_record_moves_no_other(tmp_path: Path, odd: Any) -> None:
    """One cell may make a table of whole numbers one of doubles or of objects, and labels too."""
    X, y = (10 * table(0)[0]).astype(int), table(0)[1]
    how = {"scenario": "two-per-class", "relation": "add_or_remove_one"}
    before = held(X, y, tmp_path, **how)
    X_odd, y_odd = X.tolist(), y.tolist()
    X_odd[3][0], y_odd[3] = odd, odd
    after = held(X_odd, y_odd, tmp_path, **how)
    # Its own party, and the one that it comes to; all others are equal as numbers.
    assert len(changed(before, after)) <= 2


def hulls(relation: str) -> PrivateAffineHullClassifier:
    return PrivateAffineHullClassifier(
        epsilon=1.0, delta=1e-5, bounds=LISTED, relation=relation, n_layers=1, hull_components=2
    )


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("listed", [True, False])
def test_the_total_says_what_the_deal_needs(
    tmp_path: Path, scenario: str, relation: str, listed: bool
) -> None:
    bounds = LISTED if listed else None
    parties = make_parties(
        *table(0), tmp_path, scenario=scenario, n_parties=2, relation=relation, bounds=bounds
    )
    found = simulate(parties, hulls(relation))
    by_label = scenario in BY_LABEL
    assert (DEALT_BY_LABEL in found.total.conditions) == (by_label and relation == "replace_one")
    unlisted = by_label and relation != "replace_one" and not listed
    assert (LABELS_FOUND in found.total.conditions) == unlisted
    assert found.model.guarantee_ == found.total
    proved = Status.CONDITIONAL if by_label and (relation == "replace_one" or not listed) else None
    assert {each.status for each in found.guarantees.values()} == {proved or Status.PROVED}


def test_a_party_without_records_answers_as_any_other(tmp_path: Path) -> None:
    """Where the number of records is secret, that a party has none is secret too."""
    X, y = table(0, n=2)
    parties = make_parties(
        X, y, tmp_path, n_parties=4, relation="add_or_remove_one", bounds=LISTED, random_state=0
    )
    assert min(len(party.load()[0]) for party in parties) == 0
    found = simulate(parties, hulls("add_or_remove_one"))
    assert len(found.guarantees) == 4
