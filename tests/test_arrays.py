import array_api_strict
import numpy as np
import pytest

from sfumato.core.arrays import (
    is_foreign_array,
    like,
    regularized_solver,
    to_numpy,
)
from sfumato.exceptions import InvalidInputError


@pytest.fixture
def system():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(12, 12))
    return root @ root.T, rng.normal(size=(12, 3))


def test_like_converts_both_ways():
    strict = array_api_strict.asarray([1.0, 2.0])
    assert isinstance(like(np.zeros(1), strict), np.ndarray)
    assert is_foreign_array(like(strict, np.ones(3)))
    assert like(strict, strict) is not None
    np.testing.assert_array_equal(to_numpy(like(strict, np.arange(3))), np.arange(3))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_solver_equals_numpy(system, dtype):
    matrix, columns = (x.astype(dtype) for x in system)
    matrix.flags.writeable = False
    found = regularized_solver(matrix, np.asarray(0.7, dtype=dtype))(columns)
    expected = np.linalg.solve(matrix + 0.7 * np.eye(12), columns)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=1e-9 if dtype == "float64" else 1e-3)


def test_solver_takes_batches_and_other_libraries(system):
    matrix, columns = system
    shifts = np.array([0.7, 2.0])
    expected = [np.linalg.solve(matrix + s * np.eye(12), columns) for s in shifts]
    batch, many = np.stack([matrix] * 2), np.stack([columns] * 2)
    np.testing.assert_allclose(regularized_solver(batch, shifts)(many), expected, rtol=1e-9)
    strict = [array_api_strict.asarray(x) for x in (batch, shifts, many)]
    found = regularized_solver(strict[0], strict[1])(strict[2])
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-9)


def test_solver_refuses_an_indefinite_matrix_and_tells_what_to_do():
    with pytest.raises(InvalidInputError, match="scale the features"):
        regularized_solver(-np.eye(3), np.asarray(0.5))
