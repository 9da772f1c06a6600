"""The likelihood-ratio attack: its scores by the literal formula, its power, its workers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KernelDensity
from sklearn.utils import check_random_state

from sfumato.audit import shadow_attack
from sfumato.audit.attack import attack_from_values
from sfumato.audit.shadow import _halves, _offline, _online, _shadow
from sfumato.exceptions import InvalidInputError


@pytest.fixture(scope="module")
def rows(digits: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    X, y = digits
    order = np.random.default_rng(0).permutation(len(X))[:400]
    return X[order], y[order]


def test_every_row_is_seen_by_half_of_the_models() -> None:
    halves = _halves(101, 8, check_random_state(0))
    assert halves.shape == (8, 101)
    np.testing.assert_array_equal(halves.sum(axis=0), 4)


def test_scores_are_the_printed_likelihood_ratios(seed: int) -> None:
    rng = np.random.default_rng(seed)
    halves = _halves(30, 8, check_random_state(seed))
    values = rng.normal(size=(8, 30)) - halves
    online, offline = _online(values, halves), _offline(values, halves)

    def pooled(taken: np.ndarray) -> float:
        groups = [values[taken[:, j], j] for j in range(30)]
        return sum(((g - g.mean()) ** 2).sum() for g in groups) / sum(len(g) - 1 for g in groups)

    for model, row in ((0, 0), (3, 17), (7, 29)):
        others = np.arange(8) != model
        seen = values[others & halves[:, row], row].mean()
        unseen = values[others & ~halves[:, row], row].mean()
        v = values[model, row]
        right = norm.logpdf(v, seen, pooled(halves) ** 0.5)
        right -= norm.logpdf(v, unseen, pooled(~halves) ** 0.5)
        assert online[model, row] == pytest.approx(right)
        assert offline[model, row] == pytest.approx((unseen - v) / pooled(~halves) ** 0.5)


def test_shadow_models_beat_one_threshold_for_all_rows(
    rows: tuple[np.ndarray, np.ndarray],
) -> None:
    model = LogisticRegression(C=100.0, max_iter=2000)
    halves = _halves(len(rows[0]), 16, check_random_state(0))
    plain = np.stack([_shadow(model, *rows, None, seen)[1] for seen in halves])
    one_threshold = attack_from_values(plain[halves], plain[~halves], repeats=8)
    for online in (True, False):
        found = shadow_attack(model, *rows, 16, online=online)
        assert found.auc.value > one_threshold.auc.value
    assert "offline" in found.observation


def test_a_model_that_forgets_shows_nothing(rows: tuple[np.ndarray, np.ndarray]) -> None:
    def make() -> KernelDensity:
        return KernelDensity(bandwidth=1e3)

    found = shadow_attack(make, rows[0], n_models=8)
    assert abs(found.auc.value - 0.5) < 0.1


def test_workers_change_nothing(rows: tuple[np.ndarray, np.ndarray]) -> None:
    forest = RandomForestClassifier(5, random_state=0)
    one = shadow_attack(forest, *rows, 4)
    two = shadow_attack(forest, *rows, 4, n_jobs=2, verbose=True)
    assert one.auc == two.auc


@pytest.mark.parametrize("n_models", [2, 7])
def test_odd_numbers_of_models_are_refused(
    n_models: int, rows: tuple[np.ndarray, np.ndarray]
) -> None:
    with pytest.raises(InvalidInputError, match="even"):
        shadow_attack(RandomForestClassifier(), *rows, n_models)
