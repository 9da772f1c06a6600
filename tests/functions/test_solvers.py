"""Certified minimisers against other solvers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC, LinearSVR

from sfumato.exceptions import InvalidInputError
from sfumato.functions.losses import (
    AbsoluteLoss,
    HingeLoss,
    HuberHingeLoss,
    InsensitiveLoss,
    LogisticLoss,
    Loss,
    SmoothMaxHingeLoss,
    SoftmaxLoss,
)
from sfumato.functions.solvers import duality_gap, minimise, minimise_jointly

LOSSES = [HingeLoss(), HuberHingeLoss(), LogisticLoss(), AbsoluteLoss(), InsensitiveLoss()]


def problem(rng: np.random.Generator, n: int = 150) -> tuple[np.ndarray, np.ndarray]:
    features = rng.normal(size=(n, 12))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    y = np.sign(features[:, 0] + 0.3 * rng.normal(size=n))
    return features, y


def test_hinge_agrees_with_liblinear(rng: np.random.Generator) -> None:
    features, y = problem(rng)
    C = 1 / (2 * 0.05 * len(y))
    oracle = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-10, max_iter=200000)
    oracle.fit(features, y)
    ours = minimise(features, y, HingeLoss(), regularization=0.05, tolerance=1e-10)
    np.testing.assert_allclose(ours.coefficients, oracle.coef_[0], atol=1e-3)


def test_logistic_agrees_with_scikit_learn(rng: np.random.Generator) -> None:
    features, y = problem(rng)
    oracle = LogisticRegression(C=1 / (2 * 0.02 * len(y)), fit_intercept=False, tol=1e-10)
    oracle.fit(features, y)
    ours = minimise(features, y, LogisticLoss(), regularization=0.02, tolerance=1e-14)
    np.testing.assert_allclose(ours.coefficients, oracle.coef_[0], atol=1e-5)


def test_insensitive_agrees_with_liblinear(rng: np.random.Generator) -> None:
    features, _ = problem(rng)
    y = features @ rng.normal(size=12) * 0.3
    C = 1 / (2 * 0.05 * len(y))
    oracle = LinearSVR(epsilon=0.1, C=C, fit_intercept=False, tol=1e-10, max_iter=200000)
    oracle.fit(features, y)
    ours = minimise(features, y, InsensitiveLoss(0.1), regularization=0.05, tolerance=1e-10)
    np.testing.assert_allclose(ours.coefficients, oracle.coef_, atol=1e-3)


def test_softmax_agrees_with_scikit_learn(rng: np.random.Generator) -> None:
    features, _ = problem(rng)
    codes = features[:, :3].argmax(axis=1)
    oracle = LogisticRegression(C=1 / (2 * 0.02 * len(codes)), fit_intercept=False, tol=1e-10)
    oracle.fit(features, codes)
    ours = minimise_jointly(features, codes, 3, SoftmaxLoss(), regularization=0.02, tolerance=1e-14)
    np.testing.assert_allclose(ours.coefficients, oracle.coef_.T, atol=1e-4)


def objective(
    features: np.ndarray, y: np.ndarray, loss: Loss, regularization: float, w: np.ndarray
) -> float:
    scores = features @ w
    slopes = loss.slope(scores, y, 1e-12)
    if isinstance(loss, LogisticLoss):
        values = np.log1p(np.exp(-y * scores))
    elif isinstance(loss, HuberHingeLoss):
        margin = y * scores
        values = np.where(margin < 0.5, 1 - margin, np.maximum(1.5 - margin, 0) ** 2 / 2)
    elif isinstance(loss, HingeLoss):
        values = np.maximum(0, 1 - y * scores)
    elif isinstance(loss, AbsoluteLoss):
        values = np.abs(scores - y)
    else:
        values = np.maximum(0, np.abs(scores - y) - 0.1)
    assert len(slopes) == len(values)
    return float(values.mean() + regularization * w @ w)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("regularization", [0.3, 0.01])
def test_the_gap_bounds_the_excess_and_the_distance(
    loss: Loss, regularization: float, rng: np.random.Generator
) -> None:
    """The certificate of a rough solution against a solution a thousand times finer."""
    features, y = problem(rng, 60)
    fine = minimise(features, y, loss, regularization=regularization, tolerance=1e-12)
    best = objective(features, y, loss, regularization, fine.coefficients)
    for tolerance in (1e-2, 1e-4, 1e-6):
        rough = minimise(features, y, loss, regularization=regularization, tolerance=tolerance)
        assert rough.gap <= tolerance
        excess = objective(features, y, loss, regularization, rough.coefficients) - best
        assert excess <= rough.gap + 1e-11
        distance = np.linalg.norm(rough.coefficients - fine.coefficients)
        radius = np.sqrt(rough.gap / regularization) + np.sqrt(fine.gap / regularization)
        assert distance <= radius
    far = rng.normal(size=features.shape[1])
    stated = duality_gap(features, y, loss, regularization, far, 0.01, len(y))
    assert objective(features, y, loss, regularization, far) - best <= stated + 1e-11


def test_more_features_than_rows(rng: np.random.Generator) -> None:
    features = rng.normal(size=(30, 200)) / 14
    y = rng.choice([-1.0, 1.0], size=30)
    ours = minimise(features, y, HingeLoss(), regularization=0.01, tolerance=1e-10)
    # By the representer theorem the problem on the Gram matrix has the same scores.
    values, vectors = np.linalg.eigh(features @ features.T)
    small = vectors * np.sqrt(np.maximum(values, 0))
    other = minimise(small, y, HingeLoss(), regularization=0.01, tolerance=1e-10)
    np.testing.assert_allclose(features @ ours.coefficients, small @ other.coefficients, atol=1e-3)


@pytest.mark.parametrize("loss", [SoftmaxLoss(), SmoothMaxHingeLoss()])
def test_joint_minimisers_reach_their_gap(
    loss: SoftmaxLoss | SmoothMaxHingeLoss, rng: np.random.Generator
) -> None:
    features, _ = problem(rng)
    codes = features[:, :4].argmax(axis=1)
    found = minimise_jointly(features, codes, 4, loss, regularization=0.01, tolerance=1e-10)
    assert found.gap <= 1e-10

    def value(W: np.ndarray) -> float:
        losses = loss.value_and_slope(features @ W, codes)[0]
        return float(losses.mean() + 0.01 * np.sum(W**2))

    best = value(found.coefficients)
    for _ in range(50):
        assert value(found.coefficients + 1e-3 * rng.normal(size=(12, 4))) >= best


def test_equal_and_zero_rows_do_no_harm() -> None:
    features, y = np.zeros((20, 3)), np.ones(20)
    assert not minimise(features, y, HingeLoss(), regularization=0.1, tolerance=1e-9).gap > 1e-9
    features[:, 0] = 1.0
    for loss in LOSSES:
        assert minimise(features, y, loss, regularization=0.1, tolerance=1e-9).gap <= 1e-9


def test_a_tolerance_beyond_doubles_is_refused(rng: np.random.Generator) -> None:
    features, _ = problem(rng, 20)
    codes = features[:, :3].argmax(axis=1)
    with pytest.raises(InvalidInputError, match="tolerance"):
        minimise_jointly(features, codes, 3, SoftmaxLoss(), regularization=0.1, tolerance=0.0)
