"""Attacks by a threshold: known laws, formulas, brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.metrics import roc_auc_score, roc_curve

from sfumato.audit.attacks import attack_from_values
from sfumato.audit.empirical import lower_limit, upper_limit

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
