"""Kernels against scikit-learn's and against their literal formulas."""

import json
import math

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from sfumato.exceptions import InvalidInputError
from sfumato.models.covariance import (
    ExponentialKernel,
    GaussianKernel,
    KernelExpansion,
    MaternKernel,
    kernel_from_dict,
)

H = np.array([[0.5, 0.2], [0.2, 0.3]])
KERNELS = [
    GaussianKernel(0.3),
    GaussianKernel((0.3, 0.7)),
    GaussianKernel(H),
    ExponentialKernel(2.0),
    ExponentialKernel((2.0, 0.5)),
    MaternKernel(0.5, 0.4),
    MaternKernel(1.5, (0.4, 0.9)),
    MaternKernel(2.5, 0.4),
]


@pytest.fixture
def points(rng):
    return rng.uniform(-1, 2, (40, 2)), rng.uniform(-1, 2, (30, 2))


def test_gaussian_against_scikit_learn(points):
    A, B = points
    np.testing.assert_allclose(GaussianKernel(0.3)(A, B), RBF(0.3)(A, B), atol=1e-13)
    both = GaussianKernel((0.3, 0.7))
    np.testing.assert_allclose(both(A, B), RBF([0.3, 0.7])(A, B), atol=1e-13)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_matern_against_scikit_learn(points, nu):
    A, B = points
    np.testing.assert_allclose(MaternKernel(nu, 0.4)(A, B), Matern(0.4, nu=nu)(A, B), atol=1e-13)


def test_full_bandwidth_is_the_literal_formula(points):
    A, B = points
    for a, row in zip(A[:5], GaussianKernel(H)(A[:5], B), strict=True):
        for b, value in zip(B, row, strict=True):
            exponent = -(a - b) @ np.linalg.inv(H) @ (a - b) / 2
            assert value == pytest.approx(math.exp(exponent), abs=1e-14)


def test_exponential_is_a_product_over_axes(points):
    A, B = points
    product = np.ones((len(A), len(B)))
    for axis, rate in enumerate((2.0, 0.5)):
        product *= np.exp(-rate * np.abs(A[:, axis, None] - B[None, :, axis]))
    np.testing.assert_allclose(ExponentialKernel((2.0, 0.5))(A, B), product, atol=1e-14)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_every_kernel_is_one_on_the_diagonal_and_positive_definite(kernel, points):
    gram = kernel(points[0], points[0])
    np.testing.assert_allclose(np.diag(gram), 1.0)
    assert kernel.sup == 1.0
    assert np.linalg.eigvalsh(gram).min() > -1e-12


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels_come_back_from_plain_values(kernel, points):
    for record in (kernel.to_dict(), json.loads(json.dumps(kernel.to_dict()))):
        again = kernel_from_dict(record)
        assert again == kernel
        assert hash(again) == hash(kernel)
        assert (again(*points) == kernel(*points)).all()


@pytest.mark.parametrize(
    "kernel", [GaussianKernel(0.3), GaussianKernel((0.3, 0.7)), GaussianKernel(H)]
)
def test_normaliser_makes_a_density(kernel):
    line = np.linspace(-6, 6, 401)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    total = kernel(np.zeros((1, 2)), grid).sum() * (line[1] - line[0]) ** 2
    assert kernel.normaliser(2) == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianKernel(0.0),
        lambda: GaussianKernel((1.0, -1.0)),
        lambda: GaussianKernel([[1.0, 2.0], [2.0, 1.0]]),
        lambda: GaussianKernel(np.nan),
        lambda: ExponentialKernel(()),
        lambda: MaternKernel(2.0, 1.0),
        lambda: MaternKernel(1.5, np.inf),
        lambda: kernel_from_dict({"kind": "cubic"}),
        lambda: GaussianKernel((1.0, 2.0))(np.zeros((1, 3)), np.zeros((1, 3))),
    ],
)
def test_what_is_no_kernel_is_refused(make):
    with pytest.raises(InvalidInputError):
        make()


def test_expansion_is_the_sum_it_says(points, rng):
    A, B = points
    weights = rng.normal(size=(len(B), 3))
    kernel = MaternKernel(1.5, 0.4)
    f = KernelExpansion(kernel, B, weights)
    np.testing.assert_allclose(f(A), kernel(A, B) @ weights, atol=1e-12)
    one = KernelExpansion(kernel, B, weights[:, 0])
    np.testing.assert_allclose(one(A), f(A)[:, 0], atol=1e-12)
    assert one.norm() == pytest.approx(math.sqrt(weights[:, 0] @ kernel(B, B) @ weights[:, 0]))
    assert f(A[:0]).shape == (0, 3)
    with pytest.raises(InvalidInputError):
        KernelExpansion(kernel, B, weights[:-1])
