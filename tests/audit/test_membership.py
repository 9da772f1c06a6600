"""The membership score, equation (69), and the density difference behind it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from sfumato import AffineHullClassifier
from sfumato.audit import density_difference, membership_score
from sfumato.audit.attacks import observe

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def split(digits: tuple[np.ndarray, np.ndarray]) -> Split:
    X, y = digits
    order = np.random.default_rng(0).permutation(len(X))
    inside, outside = order[:800], order[800:1600]
    return X[inside], y[inside], X[outside], y[outside]


@pytest.fixture(scope="module")
def hulls(split: Split) -> AffineHullClassifier:
    return AffineHullClassifier(10, n_layers=2).fit(split[0], split[1])


def test_hulls_are_scored_by_their_least_distance(hulls: Any, split: Split) -> None:
    found = membership_score(hulls, split[0], split[2])
    inside, outside = (hulls.distances(rows).min(axis=1) for rows in (split[0], split[2]))
    assert found.observation == "distance"
    assert found.value == density_difference(inside, outside).value
    assert found.value > 10 * found.standard_error  # clean hulls give members away
    for words in ("not a guarantee", "must not be published", "1/distance", "raw rows"):
        assert words in str(found)
    strangers = membership_score(hulls, split[2][:400], split[2][400:])
    assert abs(strangers.value) < 5 * strangers.standard_error + 0.05


def test_observations_against_their_formulas(split: Split) -> None:
    X, y, *_ = split
    model = LogisticRegression(max_iter=2000).fit(X, y)
    chances, scores = model.predict_proba(X), model.decision_function(X)
    rows = np.arange(len(X))
    np.testing.assert_allclose(observe(model, X, y, "loss"), -np.log(chances[rows, y]))
    others = scores.copy()
    others[rows, y] = -np.inf
    np.testing.assert_allclose(observe(model, X, y, "margin"), others.max(axis=1) - scores[rows, y])
    best = np.sort(scores, axis=1)
    np.testing.assert_allclose(observe(model, X, None, "confidence"), best[:, -2] - best[:, -1])


# Densities --------------------------------------------------------------------------------------


def samples(shift: float, seed: int, n: int = 5000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1, n), rng.normal(shift, 1, n)


@pytest.mark.parametrize("shift", [0.0, 0.5, 1.0])
def test_normal_densities_are_told_apart_as_well_as_samples_allow(shift: float) -> None:
    """The mean of five seeds is right, and each is as good as if the densities were known.

    The efficient estimator ``2 (mean_a g - mean_b g) - integral g²`` knows the difference g. What
    it misses is the luck of 5000 samples (standard error .0034 at shift .5), which no estimator
    can avoid.
    """
    true = float((1 - np.exp(-(shift**2) / 4)) / np.sqrt(np.pi))
    found, knowing = [], []
    for seed in range(5):
        a, b = samples(shift, seed)
        found.append(density_difference(a, b).value)
        gap = [norm.pdf(x) - norm.pdf(x, shift) for x in (a, b)]
        knowing.append(2 * (gap[0].mean() - gap[1].mean()) - true)
    assert abs(np.mean(found) - true) < max(0.006, 0.1 * true)
    assert np.abs(np.subtract(found, knowing)).max() < 0.0025


@settings(max_examples=6, deadline=None)
@given(st.floats(0.01, 100.0), st.floats(-50.0, 50.0))
def test_scale_and_place(scale: float, place: float) -> None:
    """Data times c give the distance divided by c; a shift of both changes nothing."""
    a, b = samples(1.0, 3, 300)
    plain = density_difference(a, b)
    moved = density_difference(scale * a + place, scale * b + place)
    assert moved.value * scale == pytest.approx(plain.value, rel=1e-3, abs=1e-5)


def test_two_dimensions_against_the_closed_form() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4000, 2)), rng.normal(loc=(1.0, 0.0), size=(4000, 2))
    true = (1 - np.exp(-1 / 4)) / (2 * np.pi)
    assert density_difference(a, b).value == pytest.approx(true, rel=0.15)
