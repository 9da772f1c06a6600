"""Losses: convex, Lipschitz, and consistent with their own slopes and slacks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import check_grad

from sfumato.functions.losses import (
    AbsoluteLoss,
    HingeLoss,
    HuberHingeLoss,
    HuberLoss,
    InsensitiveLoss,
    LogisticLoss,
    Loss,
    SmoothMaxHingeLoss,
    SoftmaxLoss,
)

LITERAL = {
    "hinge": (HingeLoss(), lambda t, y: np.maximum(0, 1 - y * t)),
    "logistic": (LogisticLoss(), lambda t, y: np.log1p(np.exp(-y * t))),
    "absolute": (AbsoluteLoss(), lambda t, y: np.abs(t - y)),
    "insensitive": (InsensitiveLoss(0.1), lambda t, y: np.maximum(0, np.abs(t - y) - 0.1)),
    "huber": (
        HuberLoss(0.1),
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
    slopes = loss.slope(SCORES, labels, 1e-9)
    numeric = (literal(SCORES + 1e-6, labels) - literal(SCORES - 1e-6, labels)) / 2e-6
    kink = np.abs(slopes - numeric) > 1e-4
    assert kink.sum() <= (0 if loss.smooth else 3)
    assert np.abs(slopes).max() <= loss.lipschitz == 1
    assert (np.diff(slopes) >= -1e-12).all()  # convex


@pytest.mark.parametrize("name", LITERAL)
def test_curvature_is_the_derivative_of_the_smoothed_slope(name: str) -> None:
    loss, _ = LITERAL[name]
    labels, width, step = np.ones(len(SCORES)), 0.3, 1e-6
    numeric = (
        loss.slope(SCORES + step, labels, width) - loss.slope(SCORES - step, labels, width)
    ) / (2 * step)
    assert (np.abs(loss.curvature(SCORES, labels, width) - numeric) > 1e-4).sum() <= 8


@given(
    st.sampled_from(sorted(LITERAL)),
    st.floats(-5, 5),
    st.sampled_from([-1.0, 1.0]),
    st.floats(1e-6, 1.0),
    st.floats(-5, 5),
)
def test_slack_certifies(name: str, score: float, y: float, width: float, other: float) -> None:
    """``loss(other) >= loss(score) + s (other - score) - slack``: what the duality gap rests on."""
    loss, literal = LITERAL[name]
    t, labels = np.array([score]), np.array([y])
    slope = loss.slope(t, labels, width)
    slack = loss.slack(t, labels, slope)
    assert slack[0] >= 0
    assert slack[0] <= width / 4 + 1e-12
    line = literal(t, labels) + slope * (other - t) - slack
    assert literal(np.array([other]), labels)[0] >= line[0] - 1e-9


def test_smooth_losses_have_no_slack() -> None:
    for loss, _ in LITERAL.values():
        slopes = loss.slope(SCORES, np.ones(len(SCORES)), 0.1)
        assert loss.smooth == (not loss.slack(SCORES, np.ones(len(SCORES)), slopes).any())


@pytest.mark.parametrize("loss", [SoftmaxLoss(), SmoothMaxHingeLoss()])
def test_joint_losses_have_the_gradient_they_state(
    loss: SoftmaxLoss | SmoothMaxHingeLoss, rng: np.random.Generator
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
    for loss in (SoftmaxLoss(), SmoothMaxHingeLoss()):
        slope = loss.value_and_slope(wrong, np.array([0]))[1]
        assert np.linalg.norm(slope) == pytest.approx(np.sqrt(2), rel=1e-6)


def test_smooth_max_hinge_is_the_hinge_of_the_best_wrong_class(rng: np.random.Generator) -> None:
    scores, codes = rng.normal(size=(200, 5)) * 2, rng.integers(5, size=200)
    raised = scores + 1
    raised[np.arange(200), codes] -= 1
    literal = raised.max(axis=1) - scores[np.arange(200), codes]
    values, _ = SmoothMaxHingeLoss(1e-4).value_and_slope(scores, codes)
    np.testing.assert_allclose(values, literal, atol=1e-4)


def test_a_loss_must_say_its_slope() -> None:
    with pytest.raises(TypeError):
        Loss()  # type: ignore[abstract]
