"""The threshold attack: figures against scikit-learn and known laws, coverage of intervals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.metrics import roc_auc_score, roc_curve

from sfumato.audit.attack import attack_from_values
from sfumato.audit.intervals import lower_limit, upper_limit
from sfumato.exceptions import InvalidInputError

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
        "accuracy": norm.cdf(SHIFT / 2),
    }
    hits = dict.fromkeys(true, 0)
    for seed in range(200):
        found = attack_from_values(*values(seed))
        estimates = {
            "auc": found.auc,
            "accuracy": found.balanced_accuracy,
            **found.true_positive_rates,
        }
        for name, estimate in estimates.items():
            slack = 0.01 if name == "accuracy" else 0.0  # the chosen threshold is not the best
            hits[name] += estimate.lower - slack <= true[name] <= estimate.upper + slack
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


def test_intervals_are_not_idle() -> None:
    found = attack_from_values(*values(0, 6000, 10_000))
    assert found.auc.upper - found.auc.lower < 0.02
    rate = found.true_positive_rates[0.01]
    assert rate.upper - rate.lower < 0.08


def test_guessing_looks_like_guessing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = attack_from_values(rng.normal(size=2000), rng.normal(size=2000))
    assert found.auc.lower - 0.02 < 0.5 < found.auc.upper + 0.02
    assert abs(found.balanced_accuracy.value - 0.5) < 0.06


def test_few_strangers_say_little_about_low_rates() -> None:
    found = attack_from_values(np.full(50, -1.0), np.arange(50.0))
    assert found.auc.value == 1
    assert found.true_positive_rates[0.001].lower == 0.0
    assert found.true_positive_rates[0.001].upper == 1.0


def test_rows_that_stand_there_repeatedly_count_once() -> None:
    inside, outside = values(0, 200, 200)
    once = attack_from_values(inside, outside)
    tenfold = attack_from_values(np.repeat(inside, 10), np.repeat(outside, 10), repeats=10)
    assert tenfold.auc.value == pytest.approx(once.auc.value)
    width = [found.auc.upper - found.auc.lower for found in (once, tenfold)]
    assert width[1] == pytest.approx(width[0], rel=0.05)
    assert tenfold.n_members == 200


@pytest.mark.parametrize(
    "options", [{"rates": [0.0]}, {"confidence": 2.0}, {"members": [1.0, np.nan, 1.0, 1.0]}]
)
def test_wrong_input_is_refused(options: dict[str, object]) -> None:
    given = {"members": np.ones(9), "non_members": np.ones(9), **options}
    with pytest.raises(InvalidInputError):
        attack_from_values(**given)
