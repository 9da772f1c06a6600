"""Losses against their definitions, certified minimisers against other solvers, rows by blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import LinAlgError
from scipy.optimize import check_grad
from sklearn.svm import LinearSVC

from sfumato import Bounds, PrivateKernelClassifier, PrivateKernelRegressor
from sfumato.audit.testing import seeded_noise
from sfumato.models import solvers
from sfumato.models.solvers import (
    FeatureRows,
    HuberHingeLoss,
    Minimiser,
    Objective,
    ScoreHuberLoss,
    ScoreLoss,
    SmoothMaxHingeLoss,
    accelerated,
    gradient_rounding,
    minimise,
)


def rounded(u: np.ndarray, h: float) -> np.ndarray:
    """``max(0, u)`` with a parabola within h of its kink."""
    return np.where(np.abs(u) < h, (u + h) ** 2 / (4 * h), np.maximum(0, u))


LITERAL: dict[str, tuple[ScoreLoss, Any]] = {
    "hinge": (HuberHingeLoss(0.02), lambda t, y: rounded(1 - y * t, 0.02)),
    "absolute": (ScoreHuberLoss(0.02), lambda t, y: 2 * rounded(t - y, 0.02) - (t - y) - 0.01),
    "huber hinge": (
        HuberHingeLoss(0.5),
        lambda t, y: np.select(
            [y * t > 1.5, y * t < 0.5], [0.0, 1 - y * t], (1.5 - y * t) ** 2 / 2
        ),
    ),
}
JOINT = [SmoothMaxHingeLoss()]
SCORES = np.linspace(-3, 3, 2401)
each_loss = pytest.mark.parametrize("name", LITERAL)
each_joint = pytest.mark.parametrize("joint", JOINT, ids=lambda loss: type(loss).__name__)


# Losses -----------------------------------------------------------------------------------------


@each_loss
def test_slopes_and_curvatures_are_derivatives_and_bounded(name: str) -> None:
    loss, literal = LITERAL[name]
    for y in (-1.0, 1.0):
        labels = np.full(len(SCORES), y)
        values, slopes = loss.value_and_slope(SCORES, labels)
        np.testing.assert_allclose(values, literal(SCORES, labels), atol=1e-12)
        numeric = (literal(SCORES + 1e-6, labels) - literal(SCORES - 1e-6, labels)) / 2e-6
        np.testing.assert_allclose(slopes, numeric, atol=1e-4)
        assert np.abs(slopes).max() <= loss.lipschitz == 1
        assert (np.diff(slopes) >= -1e-12).all()  # convex
        beside = [loss.value_and_slope(SCORES + step, labels)[1] for step in (1e-6, -1e-6)]
        numeric = (beside[0] - beside[1]) / 2e-6
        found = loss.curvature(SCORES, labels)
        assert (np.abs(found - numeric) > 1e-4).sum() <= 8  # where a parabola begins
        assert loss.smoothness * 0.99 <= found.max() <= loss.smoothness * (1 + 1e-12)


@each_joint
def test_joint_losses_have_the_gradient_and_constants_they_state(
    joint: Any, rng: np.random.Generator
) -> None:
    shares = []
    for _ in range(300):
        code = rng.integers(4, size=1)
        one = rng.normal(size=4) * rng.choice([0.01, 3.0])
        other = one + rng.normal(size=4) * rng.choice([0.01, 1.0])
        slopes = [joint.value_and_slope(t[None], code)[1][0] for t in (one, other)]
        moved = np.linalg.norm(slopes[0] - slopes[1]) / np.linalg.norm(one - other)
        shares.append(moved / joint.smoothness)
        assert np.linalg.norm(slopes[0]) <= joint.lipschitz + 1e-12
        assert slopes[0].sum() == pytest.approx(0, abs=1e-12)
    assert 0.3 < max(shares) <= 1 + 1e-9
    error = check_grad(
        lambda t: float(joint.value_and_slope(t[None], code)[0][0]),
        lambda t: joint.value_and_slope(t[None], code)[1][0],
        one,
    )
    assert error < 1e-5
    slope = joint.value_and_slope(np.array([[-20.0, 20.0, 0.0]]), np.array([0]))[1]
    assert np.linalg.norm(slope) == pytest.approx(joint.lipschitz, rel=1e-6)  # attained


# Minimisers -------------------------------------------------------------------------------------


def problem(rng: np.random.Generator, n: int = 150) -> tuple[np.ndarray, np.ndarray]:
    features = rng.normal(size=(n, 12))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return features, np.sign(features[:, 0] + 0.3 * rng.normal(size=n))


def certified(
    features: np.ndarray, y: np.ndarray, loss: ScoreLoss, regularization: float, w: np.ndarray
) -> tuple[Objective, Minimiser]:
    P = Objective(FeatureRows(features), y, loss, regularization, len(y))
    return P, P.at(w)


def test_other_solvers_agree(rng: np.random.Generator) -> None:
    features, y = problem(rng)
    hinge = LinearSVC(loss="hinge", C=10 / len(y), fit_intercept=False, tol=1e-10, max_iter=200000)
    sharp = minimise(features, y, HuberHingeLoss(1e-5), regularization=0.05, tolerance=1e-10)
    np.testing.assert_allclose(sharp.coefficients, hinge.fit(features, y).coef_[0], atol=1e-3)


@each_loss
@pytest.mark.parametrize("regularization", [0.3, 0.01])
def test_the_gap_bounds_the_excess_and_the_distance(
    name: str, regularization: float, rng: np.random.Generator
) -> None:
    """The certificate of a rough solution against a solution a thousand times finer."""
    loss, literal = LITERAL[name]
    features, y = problem(rng, 60)

    def value(w: np.ndarray) -> float:
        return float(literal(features @ w, y).mean() + regularization * w @ w)

    fine = minimise(features, y, loss, regularization=regularization, tolerance=1e-12)
    best = value(fine.coefficients)
    for tolerance in (1e-2, 1e-4, 1e-6):
        rough = minimise(features, y, loss, regularization=regularization, tolerance=tolerance)
        assert rough.gap <= tolerance
        assert value(rough.coefficients) - best <= rough.gap + 1e-11
        distance = np.linalg.norm(rough.coefficients - fine.coefficients)
        radius = np.sqrt(rough.gap / regularization) + np.sqrt(fine.gap / regularization)
        assert distance <= radius + 1e-13
    far = rng.normal(size=features.shape[1])
    stated = certified(features, y, loss, regularization, far)[1].gap
    assert value(far) - best <= stated + 1e-11


@each_loss
@pytest.mark.parametrize("regularization", [0.1, 1e-3])
def test_accelerated_steps_arrive_in_the_number_of_the_theorem(
    name: str, regularization: float, rng: np.random.Generator
) -> None:
    """From zero, and from a point far off; `accelerated` itself counts the steps."""
    loss, (places, _) = LITERAL[name][0], problem(rng, 3)
    # Few different rows with labels at random: many rows stand at a kink together.
    hard = places[rng.integers(3, size=200)], rng.choice([-1.0, 1.0], size=200)
    for features, y in (problem(rng, 60), hard):
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


@pytest.mark.parametrize("loss", [*(each for each, _ in LITERAL.values()), *JOINT])
def test_the_gap_is_reached_from_a_sample_and_without_the_quick_method(
    loss: ScoreLoss, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, y = problem(rng)
    settings: Any = {"regularization": 0.01, "tolerance": 1e-12}
    if loss in JOINT:
        y, settings["n_classes"] = features[:, :4].argmax(axis=1), 4
    quick = minimise(features, y, loss, **settings)
    monkeypatch.setattr(solvers, "SAMPLE", 2)  # 2 rows, then 17, then all
    sampled = minimise(features, y, loss, **settings)
    monkeypatch.setattr(solvers, "MAX_STEPS", 1)
    monkeypatch.setattr(solvers, "MAX_ROUNDS", 1)
    slow = minimise(features, y, loss, **settings)

    def lost(*_: object) -> None:
        raise LinAlgError

    monkeypatch.setattr(solvers, "cholesky", lost)
    for found in (quick, sampled, slow, minimise(features, y, loss, **settings)):
        assert found.gap <= 1e-12
        np.testing.assert_allclose(found.coefficients, quick.coefficients, atol=3e-5)


@pytest.mark.parametrize("regularization", [1e-2, 1e-6])
@each_loss
def test_the_rounding_of_a_gradient_is_within_what_is_allowed_for(
    name: str, regularization: float, rng: np.random.Generator
) -> None:
    """Against extended precision, at points as long as a minimiser can be."""
    loss = LITERAL[name][0]
    features = np.abs(rng.normal(size=(300, 1500)))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    w = np.abs(rng.normal(size=1500))
    w /= np.linalg.norm(w) * np.sqrt(regularization)
    w[::2] *= -1  # scores near the kinks, from terms that cancel
    y = rng.choice([-1.0, 1.0], size=300)
    P, _ = certified(features, y, loss, regularization, w)
    wide = [part.astype(np.longdouble) for part in (features, w)]
    scores = wide[0] @ wide[1]
    slopes = loss.value_and_slope(scores, y)[1]
    exact = wide[0].T @ slopes / 300 + 2 * regularization * wide[1]
    error = float(np.linalg.norm((P.value_and_gradient(w)[1] - exact).astype(float)))
    assert error <= gradient_rounding(loss.smoothness, regularization) / 2


# Rows that are kept, or computed anew -------------------------------------------------------------


SQUARE: Any = {"n_fourier": 64, "delta": 1e-6}
MACHINES = {
    "two": PrivateKernelClassifier(bounds=Bounds(lower=0, upper=1, labels=[0, 1]), **SQUARE),
    "three": PrivateKernelClassifier(bounds=Bounds(lower=0, upper=1, labels=range(3)), **SQUARE),
    "regressor": PrivateKernelRegressor(
        bounds=Bounds(lower=0, upper=1), target_bounds=(0.0, 1.0), **SQUARE
    ),
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_is_the_same_to_the_bit_whether_features_are_kept(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.random.default_rng(0).uniform(size=(300, 5))
    y = X[:, 0] if name == "regressor" else (X[:, 0] * 2).astype(int)
    found = []
    for kept in (0, 10**9):
        monkeypatch.setattr(solvers, "KEPT", kept)
        with seeded_noise(0):
            found.append(MACHINES[name].fit(X, y).coefficients_.copy())
    np.testing.assert_array_equal(*found)
