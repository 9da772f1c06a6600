"""Huber's loss against finite differences, and the constant of the proof against brute force."""

import numpy as np
import pytest

from sfumato.papers.feddpdr import losses
from sfumato.sums.gradients import HuberLoss, over_scores

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


def test_sums_over_scores_do_not_depend_on_the_other_rows(rng):
    values = rng.random((257, 13))
    whole = over_scores(values)
    for i in (0, 100, 256):
        assert whole[i, 0] == over_scores(values[i : i + 1])[0, 0]
