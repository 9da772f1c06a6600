"""The factor of the exponential kernel on a line against the Cholesky factor."""

import numpy as np
import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.models.kernels import ExponentialKernel
from sfumato.models.kernels.bridge import MarkovLine


@pytest.mark.parametrize("rate", [0.1, 3.0, 200.0])
def test_line_is_the_cholesky_factor(rate, rng):
    points = np.sort(rng.uniform(0, 1, 30))
    line = MarkovLine(points, rate)
    factor = line.colour(np.eye(30))
    gram = ExponentialKernel(rate)(points[:, None], points[:, None])
    np.testing.assert_allclose(factor, np.linalg.cholesky(gram), atol=1e-10)
    values = rng.normal(size=(30, 4))
    np.testing.assert_allclose(line.colour(line.whiten(values)), values, atol=1e-10)


def test_line_of_one_point_and_of_equal_points():
    assert MarkovLine(np.array([0.3]), 2.0).whiten(np.array([5.0])) == [5.0]
    with pytest.raises(InvalidInputError, match="strictly"):
        MarkovLine(np.array([0.3, 0.3]), 2.0)
