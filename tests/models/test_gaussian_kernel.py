import numpy as np
from hypothesis import given, strategies as st
from scipy.spatial.distance import cdist

from sfumato.models.least_squares import gaussian_kernel, relative_gaussian_kernel


def test_kernel_matrix_equals_its_definition(seed):
    X = np.random.default_rng(seed).normal(size=(3, 20, 4))
    found = gaussian_kernel(X)
    for rows, kernel in zip(X, found, strict=True):
        np.testing.assert_allclose(kernel, np.exp(-(cdist(rows, rows) ** 2) / 2), atol=1e-14)


def test_kernel_of_duplicates_never_passes_one():
    X = np.repeat(np.random.default_rng(0).normal(size=(5, 3)) * 1e3, 4, axis=0)
    kernel = gaussian_kernel(X)
    assert kernel.max() <= 1.0
    np.testing.assert_allclose(np.diag(kernel), 1.0, atol=1e-8)


@given(scale=st.floats(1e-3, 1e4), seed=st.integers(0, 5))
def test_relative_kernel_is_the_kernel_over_its_largest_value(scale, seed):
    rng = np.random.default_rng(seed)
    X, centres = scale * rng.normal(size=(6, 3)), rng.normal(size=(9, 3))
    found = relative_gaussian_kernel(X, centres)
    exponents = -(cdist(X, centres) ** 2) / 2
    expected = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_array_equal(found.max(axis=1), 1.0)
