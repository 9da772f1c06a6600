"""Matching released rows with their sources: brute force, chance, and the honest picture."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from sfumato import Bounds, Fabricator
from sfumato.audit import audit, reidentification
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms import EntryMechanism


@pytest.mark.parametrize(("metric", "name"), [("manhattan", "cityblock"), ("euclidean",) * 2])
def test_rate_and_rank_by_brute_force(metric: str, name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.random((80, 6))
    made = rows[:50] + rng.laplace(scale=0.3, size=(50, 6))
    found = reidentification(rows, made, sources=np.arange(50), metric=metric)
    distances = cdist(made, rows, name)
    ranks = (distances <= distances[np.arange(50), np.arange(50)][:, None]).sum(axis=1)
    assert found.rate.value == np.mean(ranks == 1)
    assert found.median_rank == np.median(ranks)
    assert found.rate.lower < found.rate.value < found.rate.upper


def test_rows_drawn_elsewhere_are_matched_by_chance() -> None:
    rng = np.random.default_rng(0)
    found = reidentification(rng.random((500, 4)), rng.random((500, 4)))
    assert found.rate.lower <= found.chance <= found.rate.upper
    assert found.chance == 1 / 500


def test_entry_noise_gives_rows_away_and_record_noise_does_not() -> None:
    """The same epsilon of 1: for one number of a row, and for the whole row."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (300, 400)).astype(float)
    entry = EntryMechanism(entry_bound=1.0, epsilon=1.0)
    record = Fabricator(n_components=5, bounds=Bounds(lower=0.0, upper=1.0), random_state=0)
    shown = reidentification(rows, entry.release(rows, ledger=None))
    hidden = reidentification(rows, record.fit_fabricate(rows))
    assert shown.rate.value > 0.9
    assert hidden.rate.value < 0.05


def test_closeness_tells_members_from_others() -> None:
    rng = np.random.default_rng(0)
    rows, others = rng.random((200, 8)), rng.random((200, 8))
    found = reidentification(rows, rows + 1e-3, non_members=others)
    assert found.closeness is not None
    assert found.closeness.auc.value > 0.99
    assert audit(rows + 1e-3, rows, others).figures["AUC of the closeness attack"] > 0.99


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"released": np.ones((3, 2))}, "sources"),
        ({"released": np.ones((4, 3))}, "columns"),
        ({"metric": "cosine"}, "metric"),
        ({"sources": [0, 1, 2, 9]}, "sources"),
        ({"rows": [[np.nan, 1.0]]}, "finite"),
    ],
)
def test_wrong_input_is_refused(options: dict[str, object], hint: str) -> None:
    given = {"rows": np.ones((4, 2)), "released": np.ones((4, 2)), **options}
    with pytest.raises(InvalidInputError, match=hint):
        reidentification(given.pop("rows"), given.pop("released"), **given)
