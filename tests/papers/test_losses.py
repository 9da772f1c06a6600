"""Huber's loss against finite differences, and the constant of the proof against brute force."""

import numpy as np
import pytest

from sfumato.papers.feddpdr import losses
from sfumato.sums.gradients import HuberLoss, loss_named, over_scores

LOSSES = [HuberLoss(2), HuberLoss(4), HuberLoss(3, 0.2)]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_slopes_and_curvatures_are_derivatives(loss, rng):
    step = 1e-6
    for _ in range(20):
        scores = rng.normal(0, 2, (1, loss.n_scores))
        targets = losses.targets_of(loss, [int(rng.integers(loss.n_classes))])
        slopes, bends = (f(loss, scores, targets)[0] for f in (losses.slopes, losses.curvatures))
        assert np.linalg.norm(slopes) <= loss.slope_bound * (1 + 1e-12)
        for k in range(loss.n_scores):
            move = step * np.eye(loss.n_scores)[k]
            ahead, behind = scores + move, scores - move
            change = losses.values(loss, ahead, targets) - losses.values(loss, behind, targets)
            np.testing.assert_allclose(slopes[k], change[0] / (2 * step), atol=1e-8)
            if abs(abs(targets[0, k] * scores[0, k] - 1) - loss.width) < 2 * step:
                continue  # at a corner of the slope
            moved = losses.slopes(loss, ahead, targets) - losses.slopes(loss, behind, targets)
            np.testing.assert_allclose(bends[k], moved[0, k] / (2 * step), atol=1e-6)
        for curvature in (0.03, 1.0, 50.0):
            determinant = np.log1p(bends / curvature).sum()
            assert determinant <= losses.log_determinant(loss, curvature) * (1 + 1e-12)
    inside = losses.curvatures(loss, targets * 1.0, targets)[0]  # every margin in the rounding
    attained = losses.log_determinant(loss, 0.7)
    assert np.log1p(inside / 0.7).sum() == pytest.approx(attained, rel=1e-12)


def test_values_literally():
    scores = np.array([[1.0, -2.0, 0.5]])
    targets = losses.targets_of(HuberLoss(3), [1])
    np.testing.assert_array_equal(targets, [[-1, 1, -1]])
    # margins -1, -2, -0.5: all in the linear part
    assert losses.values(HuberLoss(3), scores, targets)[0] == pytest.approx(2 + 3 + 1.5)
    margin = np.array([[0.4], [0.5], [1.0], [1.5], [3.0]])
    found = losses.values(HuberLoss(2), margin, np.ones((5, 1)))
    np.testing.assert_allclose(found, [0.6, 0.5, 0.125, 0.0, 0.0], atol=1e-15)
    hinge = losses.values(loss_named("hinge", 2), margin, np.ones((5, 1)))
    assert np.abs(hinge - np.maximum(0, 1 - margin[:, 0])).max() <= 0.0125 + 1e-15


def test_sums_over_scores_do_not_depend_on_the_other_rows(rng):
    values = rng.random((257, 13))
    whole = over_scores(values)
    for i in (0, 100, 256):
        assert whole[i, 0] == over_scores(values[i : i + 1])[0, 0]
