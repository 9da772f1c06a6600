"""Certified minimisers against other solvers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from sfumato.models import solvers
from sfumato.models.solvers import (
    FeatureRows,
    HuberHingeLoss,
    InsensitiveLoss,
    LogisticLoss,
    Minimiser,
    Objective,
    ScoreHuberLoss,
    ScoreLoss,
    ScoreSoftmaxLoss,
    SmoothMaxHingeLoss,
    accelerated,
    gradient_rounding,
    minimise,
    minimise_jointly,
)
from tests.models.literal import rounded

HINGE, ABSOLUTE = HuberHingeLoss(0.02), ScoreHuberLoss(0.02)
LOSSES = [HINGE, HuberHingeLoss(), LogisticLoss(), ABSOLUTE, InsensitiveLoss()]


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
    sharp = HuberHingeLoss(1e-5)
    ours = minimise(features, y, sharp, regularization=0.05, tolerance=1e-10)
    np.testing.assert_allclose(ours.coefficients, oracle.coef_[0], atol=1e-3)
    rounded = minimise(features, y, HINGE, regularization=0.05, tolerance=1e-10)
    np.testing.assert_allclose(rounded.coefficients, oracle.coef_[0], atol=2e-2)


def test_softmax_agrees_with_scikit_learn(rng: np.random.Generator) -> None:
    features, _ = problem(rng)
    codes = features[:, :3].argmax(axis=1)
    oracle = LogisticRegression(C=1 / (2 * 0.02 * len(codes)), fit_intercept=False, tol=1e-10)
    oracle.fit(features, codes)
    ours = minimise_jointly(
        features, codes, 3, ScoreSoftmaxLoss(), regularization=0.02, tolerance=1e-14
    )
    np.testing.assert_allclose(ours.coefficients, oracle.coef_.T, atol=1e-4)


def objective(
    features: np.ndarray, y: np.ndarray, loss: ScoreLoss, regularization: float, w: np.ndarray
) -> float:
    scores = features @ w
    if isinstance(loss, LogisticLoss):
        values = np.log1p(np.exp(-y * scores))
    elif isinstance(loss, HuberHingeLoss):
        values = rounded(1 - y * scores, loss.band)
    elif isinstance(loss, ScoreHuberLoss):
        values = 2 * rounded(scores - y, loss.band) - (scores - y)
    else:
        values = rounded(np.abs(scores - y) - 0.1, loss.band)
    return float(values.mean() + regularization * w @ w)


def certified(
    features: np.ndarray, y: np.ndarray, loss: ScoreLoss, regularization: float, w: np.ndarray
) -> tuple[Objective, Minimiser]:
    P = Objective(
        FeatureRows.of(features),
        lambda t, part: loss.slope(t, y[part]),
        loss.smoothness,
        regularization,
        len(y),
    )
    return P, Minimiser(w, P.gap(P.gradient(w)))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("regularization", [0.3, 0.01])
def test_the_gap_bounds_the_excess_and_the_distance(
    loss: ScoreLoss, regularization: float, rng: np.random.Generator
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
        assert distance <= radius + 1e-13
    far = rng.normal(size=features.shape[1])
    stated = certified(features, y, loss, regularization, far)[1].gap
    assert objective(features, y, loss, regularization, far) - best <= stated + 1e-11


def test_more_features_than_rows(rng: np.random.Generator) -> None:
    features = rng.normal(size=(30, 200)) / 14
    y = rng.choice([-1.0, 1.0], size=30)
    ours = minimise(features, y, HINGE, regularization=0.01, tolerance=1e-10)
    # By the representer theorem the problem on the Gram matrix has the same scores.
    values, vectors = np.linalg.eigh(features @ features.T)
    small = vectors * np.sqrt(np.maximum(values, 0))
    other = minimise(small, y, HINGE, regularization=0.01, tolerance=1e-10)
    np.testing.assert_allclose(features @ ours.coefficients, small @ other.coefficients, atol=1e-3)


@pytest.mark.parametrize("loss", [ScoreSoftmaxLoss(), SmoothMaxHingeLoss()])
def test_joint_minimisers_reach_their_gap(
    loss: ScoreSoftmaxLoss | SmoothMaxHingeLoss, rng: np.random.Generator
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
    assert not minimise(features, y, HINGE, regularization=0.1, tolerance=1e-9).gap > 1e-9
    features[:, 0] = 1.0
    for loss in LOSSES:
        assert minimise(features, y, loss, regularization=0.1, tolerance=1e-9).gap <= 1e-9


# No failure -------------------------------------------------------------------------------------


def hard_problem(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Few different rows with labels at random: many rows stand at a kink together."""
    places, _ = problem(rng, 3)
    return places[rng.integers(3, size=200)], rng.choice([-1.0, 1.0], size=200)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("regularization", [0.1, 1e-3])
def test_accelerated_steps_arrive_in_the_number_of_the_theorem(
    loss: ScoreLoss, regularization: float, rng: np.random.Generator
) -> None:
    """From zero, and from a point far off; `accelerated` itself counts the steps."""
    for features, y in (problem(rng, 60), hard_problem(rng)):
        for start in (np.zeros(12), 30 * rng.normal(size=12)):
            P, first = certified(features, y, loss, regularization, start)
            tolerance = regularization * (1e-3 / (2 * regularization * len(y))) ** 2
            found = accelerated(P, first, tolerance)
            assert found.gap <= tolerance
            fine = minimise(
                features, y, loss, regularization=regularization, tolerance=1e-3 * tolerance
            )
            apart = np.linalg.norm(found.coefficients - fine.coefficients)
            assert apart <= 1.1 * np.sqrt(tolerance / regularization)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_tolerance_is_reached_when_the_quick_method_is_not(
    loss: ScoreLoss, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, y = problem(rng)
    settings = {"regularization": 0.01, "tolerance": 1e-12}
    quick = minimise(features, y, loss, **settings)
    monkeypatch.setattr(solvers, "MAX_NEWTON_STEPS", 1)
    slow = minimise(features, y, loss, **settings)
    assert slow.gap <= 1e-12
    np.testing.assert_allclose(slow.coefficients, quick.coefficients, atol=3e-5)

    def lost(*_: object) -> None:
        raise np.linalg.LinAlgError

    monkeypatch.setattr(solvers, "_direction", lost)
    assert minimise(features, y, loss, **settings).gap <= 1e-12


@pytest.mark.parametrize("loss", [ScoreSoftmaxLoss(), SmoothMaxHingeLoss()])
def test_joint_losses_reach_the_tolerance_without_the_quick_method(
    loss: ScoreSoftmaxLoss | SmoothMaxHingeLoss,
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features, _ = problem(rng)
    codes = features[:, :4].argmax(axis=1)
    settings = {"regularization": 0.01, "tolerance": 1e-12}
    quick = minimise_jointly(features, codes, 4, loss, **settings)
    monkeypatch.setattr(solvers, "MAX_RESTARTS", 0)
    slow = minimise_jointly(features, codes, 4, loss, **settings)
    assert slow.gap <= 1e-12
    np.testing.assert_allclose(slow.coefficients, quick.coefficients, atol=3e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_directions_that_hardly_vary_count(loss: ScoreLoss, rng: np.random.Generator) -> None:
    """The certificate sees them, so the search may not leave them out."""
    features, y = problem(rng)
    features[:, -3:] *= 1e-8
    tolerance = 1e-19
    assert minimise(features, y, loss, regularization=0.01, tolerance=tolerance).gap <= tolerance
    codes = features[:, :3].argmax(axis=1)
    joint = minimise_jointly(
        features, codes, 3, ScoreSoftmaxLoss(), regularization=0.01, tolerance=tolerance
    )
    assert joint.gap <= tolerance


@pytest.mark.parametrize("regularization", [1e-2, 1e-6])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_rounding_of_a_gradient_is_within_what_is_allowed_for(
    loss: ScoreLoss, regularization: float, rng: np.random.Generator
) -> None:
    """Against extended precision, at points as long as a minimiser can be."""
    features = np.abs(rng.normal(size=(300, 1500)))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    w = np.abs(rng.normal(size=1500))
    w /= np.linalg.norm(w) * np.sqrt(regularization)
    w[::2] *= -1  # scores near the kinks, from terms that cancel
    y = rng.choice([-1.0, 1.0], size=300)
    P, _ = certified(features, y, loss, regularization, w)
    wide = [part.astype(np.longdouble) for part in (features, w)]
    scores = wide[0] @ wide[1]
    slopes = (
        P.slope(scores, slice(None))
        if not isinstance(loss, LogisticLoss)
        else -y / (1 + np.exp(y * scores))
    )
    exact = wide[0].T @ slopes / 300 + 2 * regularization * wide[1]
    error = float(np.linalg.norm((P.gradient(w) - exact).astype(float)))
    assert error <= gradient_rounding(loss.smoothness, regularization) / 2
