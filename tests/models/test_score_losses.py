"""Losses: convex, Lipschitz, and consistent with their own slopes and slacks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad

from sfumato.models.solvers import (
    HuberHingeLoss,
    InsensitiveLoss,
    LogisticLoss,
    ScoreHuberLoss,
    ScoreSoftmaxLoss,
    SmoothMaxHingeLoss,
)
from tests.models.literal import rounded

LITERAL = {
    "hinge": (HuberHingeLoss(0.02), lambda t, y: rounded(1 - y * t, 0.02)),
    "logistic": (LogisticLoss(), lambda t, y: np.log1p(np.exp(-y * t))),
    "absolute": (ScoreHuberLoss(0.02), lambda t, y: 2 * rounded(t - y, 0.02) - (t - y) - 0.01),
    "insensitive": (InsensitiveLoss(0.1, 0.02), lambda t, y: rounded(np.abs(t - y) - 0.1, 0.02)),
    "huber": (
        ScoreHuberLoss(0.1),
        lambda t, y: np.where(np.abs(t - y) <= 0.1, (t - y) ** 2 / 0.2, np.abs(t - y) - 0.05),
    ),
    "huber hinge": (
        HuberHingeLoss(0.5),
        lambda t, y: np.select(
            [y * t > 1.5, y * t < 0.5], [0.0, 1 - y * t], (1.5 - y * t) ** 2 / 2
        ),
    ),
}
SCORES = np.linspace(-3, 3, 2401)


@pytest.mark.parametrize("name", LITERAL)
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_slopes_are_derivatives_and_bounded(name: str, y: float) -> None:
    loss, literal = LITERAL[name]
    labels = np.full(len(SCORES), y)
    slopes = loss.slope(SCORES, labels)
    numeric = (literal(SCORES + 1e-6, labels) - literal(SCORES - 1e-6, labels)) / 2e-6
    np.testing.assert_allclose(slopes, numeric, atol=1e-4)
    assert np.abs(slopes).max() <= loss.lipschitz == 1
    assert (np.diff(slopes) >= -1e-12).all()  # convex


@pytest.mark.parametrize("name", LITERAL)
def test_curvature_is_the_derivative_of_the_slope(name: str) -> None:
    loss, _ = LITERAL[name]
    labels, step = np.ones(len(SCORES)), 1e-6
    numeric = (loss.slope(SCORES + step, labels) - loss.slope(SCORES - step, labels)) / (2 * step)
    found = loss.curvature(SCORES, labels)
    assert (np.abs(found - numeric) > 1e-4).sum() <= 8  # where a parabola begins
    assert found.max() <= loss.smoothness * (1 + 1e-12)
    assert found.max() >= loss.smoothness * 0.99


@pytest.mark.parametrize("loss", [ScoreSoftmaxLoss(), SmoothMaxHingeLoss()])
def test_joint_smoothness_bounds_how_slopes_change(
    loss: ScoreSoftmaxLoss | SmoothMaxHingeLoss, rng: np.random.Generator
) -> None:
    shares = []
    for _ in range(300):
        one = rng.normal(size=(1, 4)) * rng.choice([0.01, 1.0])
        other = one + rng.normal(size=(1, 4)) * rng.choice([0.01, 1.0])
        slopes = [loss.value_and_slope(t, np.array([0]))[1] for t in (one, other)]
        moved = np.linalg.norm(slopes[0] - slopes[1])
        shares.append(moved / np.linalg.norm(one - other) / loss.smoothness)
    assert 0.3 < max(shares) <= 1 + 1e-9


def test_rounded_losses_stay_near_those_with_kinks() -> None:
    labels = np.ones(len(SCORES))
    for name, kinked in (
        ("hinge", np.maximum(0, 1 - SCORES)),
        ("insensitive", np.maximum(0, np.abs(SCORES - 1) - 0.1)),
        ("absolute", np.abs(SCORES - 1) - 0.01),
    ):
        excess = LITERAL[name][1](SCORES, labels) - kinked
        assert excess.min() >= -1e-12
        assert excess.max() <= 0.01 + 1e-12


@pytest.mark.parametrize("loss", [ScoreSoftmaxLoss(), SmoothMaxHingeLoss()])
def test_joint_losses_have_the_gradient_they_state(
    loss: ScoreSoftmaxLoss | SmoothMaxHingeLoss, rng: np.random.Generator
) -> None:
    for _ in range(50):
        code = rng.integers(4, size=1)
        start = rng.normal(size=4) * 3
        error = check_grad(
            lambda t, c=code: float(loss.value_and_slope(t[None], c)[0][0]),
            lambda t, c=code: loss.value_and_slope(t[None], c)[1][0],
            start,
        )
        assert error < 1e-5
        slope = loss.value_and_slope(start[None], code)[1]
        assert np.linalg.norm(slope) <= loss.lipschitz + 1e-12
        assert slope.sum() == pytest.approx(0, abs=1e-12)


def test_joint_losses_attain_their_lipschitz_constant() -> None:
    wrong = np.array([[-20.0, 20.0, 0.0]])
    for loss in (ScoreSoftmaxLoss(), SmoothMaxHingeLoss()):
        slope = loss.value_and_slope(wrong, np.array([0]))[1]
        assert np.linalg.norm(slope) == pytest.approx(np.sqrt(2), rel=1e-6)


def test_smooth_max_hinge_is_the_hinge_of_the_best_wrong_class(rng: np.random.Generator) -> None:
    scores, codes = rng.normal(size=(200, 5)) * 2, rng.integers(5, size=200)
    raised = scores + 1
    raised[np.arange(200), codes] -= 1
    literal = raised.max(axis=1) - scores[np.arange(200), codes]
    values, _ = SmoothMaxHingeLoss(1e-4).value_and_slope(scores, codes)
    np.testing.assert_allclose(values, literal, atol=1e-4)
