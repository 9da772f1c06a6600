"""Huber's loss of several scores against that of one, and sums over scores."""

import numpy as np
import pytest

from sfumato.models.solvers import HuberHingeLoss
from sfumato.sums.gradients import HuberLoss, over_scores


@pytest.mark.parametrize("loss", [HuberLoss(2), HuberLoss(4), HuberLoss(3, 0.2)], ids=repr)
def test_slopes_are_those_of_each_score(loss, rng):
    scores, codes = rng.normal(0, 2, (50, loss.n_scores)), rng.integers(loss.n_classes, size=50)
    found = loss.slopes_of(scores, codes)
    for k, own in enumerate(range(1 if loss.n_classes == 2 else 0, loss.n_classes)):
        signs = np.where(codes == own, 1.0, -1.0)
        alone = HuberHingeLoss(loss.width).value_and_slope(scores[:, k], signs)[1]
        np.testing.assert_allclose(found[:, k], alone, atol=1e-15)
    assert np.linalg.norm(found, axis=1).max() <= loss.slope_bound * (1 + 1e-12)


def test_sums_over_scores_do_not_depend_on_the_other_rows(rng):
    values = rng.random((257, 13))
    whole = over_scores(values)
    for i in (0, 100, 256):
        assert whole[i, 0] == over_scores(values[i : i + 1])[0, 0]
