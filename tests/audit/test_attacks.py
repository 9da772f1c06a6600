"""Attacks by a threshold and by matching: known laws, formulas, brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import binom, norm
from sklearn.metrics import roc_auc_score, roc_curve

from sfumato import Bounds, Fabricator
from sfumato.audit import audit, reidentification
from sfumato.audit.attacks import attack_from_values
from sfumato.audit.empirical import lower_limit, upper_limit
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms import EntryMechanism

SHIFT = 1.0


def values(seed: int, m: int = 600, n: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(-SHIFT, 1, m), rng.normal(0, 1, n)


@pytest.mark.parametrize("decimals", [1, 12])  # with and without ties
def test_auc_and_curve_are_those_of_scikit_learn(decimals: int, seed: int) -> None:
    inside, outside = (v.round(decimals) for v in values(seed))
    found = attack_from_values(inside, outside)
    truth = np.r_[np.ones(len(inside)), np.zeros(len(outside))]
    scores = -np.r_[inside, outside]
    assert found.auc.value == pytest.approx(roc_auc_score(truth, scores), abs=1e-12)
    false, true, _ = roc_curve(truth, scores, drop_intermediate=False)
    np.testing.assert_allclose(found.curve[0], false)
    np.testing.assert_allclose(found.curve[1], true)


def test_intervals_cover_the_truth() -> None:
    """95 % intervals in 200 seeds; fewer than 180 hits would have a chance below 0.3 %."""
    true = {
        "auc": norm.cdf(SHIFT / np.sqrt(2)),
        0.01: norm.cdf(SHIFT + norm.ppf(0.01)),
        0.001: norm.cdf(SHIFT + norm.ppf(0.001)),
    }
    hits = dict.fromkeys(true, 0)
    for seed in range(200):
        found = attack_from_values(*values(seed))
        for name, estimate in {"auc": found.auc, **found.true_positive_rates}.items():
            hits[name] += estimate.lower <= true[name] <= estimate.upper
    assert min(hits.values()) >= 180, hits


@pytest.mark.parametrize(("n", "rate"), [(300, 0.01), (3000, 0.01), (5000, 0.001)])
def test_limits_use_the_strictest_and_loosest_threshold_that_law_allows(
    n: int, rate: float
) -> None:
    """The k-th smallest other has a false-positive rate of at most `rate` if k of n others do."""
    found = attack_from_values(np.arange(n) - 0.5, np.arange(n), rates=[rate]).true_positive_rates
    risk = 0.05 / 4
    surely = max((k for k in range(1, n) if binom.sf(k - 1, n, rate) >= 1 - risk), default=0)
    surely_not = next(k for k in range(1, n) if binom.sf(k - 1, n, rate) <= risk)
    # In these values, k members lie below the k-th other.
    low = 0.0 if surely == 0 else float(lower_limit(surely, n, risk))
    assert found[rate].lower == pytest.approx(low)
    assert found[rate].upper == pytest.approx(float(upper_limit(surely_not, n, risk)))


def test_guessing_looks_like_guessing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = attack_from_values(rng.normal(size=2000), rng.normal(size=2000))
    assert found.auc.lower - 0.02 < 0.5 < found.auc.upper + 0.02


# Matching ---------------------------------------------------------------------------------------


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
    ("attack", "options", "hint"),
    [
        (reidentification, {"released": np.ones((3, 2))}, "sources"),
        (reidentification, {"released": np.ones((4, 3))}, "columns"),
        (reidentification, {"metric": "cosine"}, "metric"),
        (reidentification, {"sources": [0, 1, 2, 9]}, "sources"),
        (reidentification, {"rows": [[np.nan, 1.0]]}, "finite"),
        (attack_from_values, {"rates": [0.0]}, "rates"),
        (attack_from_values, {"confidence": 2.0}, "confidence"),
        (attack_from_values, {"members": [1.0, np.nan, 1.0, 1.0]}, "finite"),
    ],
)
def test_wrong_input_is_refused(attack: Any, options: dict[str, object], hint: str) -> None:
    names = ("rows", "released") if attack is reidentification else ("members", "non_members")
    with pytest.raises(InvalidInputError, match=hint):
        attack(**{**dict.fromkeys(names, np.ones((4, 2))), **options})
