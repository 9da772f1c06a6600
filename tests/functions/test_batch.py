"""Batch releases: the covariance is the kernel, shown column by column, not by sampling."""

import numpy as np
import pytest
from scipy.stats import ks_2samp, kstest

from sfumato import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.mechanisms.entropy import seeded
from sfumato.models.functions import release_function
from sfumato.models.functions.features import NUGGET
from sfumato.models.kernels import ExponentialKernel, GaussianKernel, KernelExpansion, MaternKernel
from tests.functions.literal import GivenRelease, basis_noise


def zero(X):
    return np.zeros(len(X))


def implied_covariance(function, kernel, points):
    """Covariance of a batch release of `function`, from its answers to one unit of noise each."""
    probe = GivenRelease(np.zeros)
    base = release_function(function, kernel=kernel, mechanism=probe, form="batch", points=points)
    columns = []
    for number in range(probe.seen[0].size):
        column = release_function(
            function,
            kernel=kernel,
            mechanism=GivenRelease(basis_noise(number)),
            form="batch",
            points=points,
        )
        columns.append((column - base).ravel())
    return np.array(columns).T @ np.array(columns), base


@pytest.mark.parametrize("n_features", [1, 2])
@pytest.mark.parametrize(
    "kernel",
    [
        ExponentialKernel(3.0),
        MaternKernel(0.5, 0.5),
        MaternKernel(1.5, 0.5),
        MaternKernel(2.5, 0.5),
    ],
    ids=repr,
)
def test_scattered_points(kernel, n_features, rng):
    points = rng.uniform(size=(25, n_features))
    covariance, base = implied_covariance(lambda X: X[:, 0] ** 2, kernel, points)
    np.testing.assert_allclose(covariance, kernel(points, points), atol=2 * NUGGET)
    np.testing.assert_allclose(base, points[:, 0] ** 2, atol=1e-9)


def test_gaussian_expansion_goes_through_features(rng):
    kernel = GaussianKernel(0.2)
    f = KernelExpansion(kernel, rng.uniform(size=(20, 1)), rng.normal(size=20))
    points = rng.uniform(size=(25, 1))
    covariance, base = implied_covariance(f, kernel, points)
    np.testing.assert_allclose(covariance, kernel(points, points), atol=1e-12)
    np.testing.assert_allclose(base, f(points), atol=1e-6)


def test_gaussian_callable_goes_through_a_dense_factor(rng):
    kernel = GaussianKernel(0.2)
    points = rng.uniform(size=(25, 1))
    covariance, _ = implied_covariance(zero, kernel, points)
    np.testing.assert_allclose(covariance, kernel(points, points), atol=2 * NUGGET)


@pytest.mark.parametrize(
    "kernel", [ExponentialKernel((3.0, 1.0)), MaternKernel(1.5, 0.5)], ids=repr
)
def test_product_grids(kernel):
    axes = (np.linspace(0, 1, 5), np.array([0.1, 0.15, 0.6, 0.9]))
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    covariance, base = implied_covariance(lambda X: X[:, 0] - X[:, 1], kernel, axes)
    np.testing.assert_allclose(covariance, kernel(points, points), atol=2 * NUGGET)
    np.testing.assert_allclose(base.ravel(), points[:, 0] - points[:, 1], atol=1e-9)


def test_gaussian_grid_is_the_scattered_release(rng):
    kernel = GaussianKernel(0.3)
    f = KernelExpansion(kernel, rng.uniform(size=(20, 2)), rng.normal(size=20))
    axes = (np.linspace(0, 1, 4), np.linspace(0, 1, 5))
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    mechanism = GivenRelease(basis_noise(3))
    options = {"kernel": kernel, "mechanism": mechanism, "form": "batch"}
    on_grid = release_function(f, points=axes, **options)
    scattered = release_function(f, points=points, **options)
    np.testing.assert_allclose(on_grid.ravel(), scattered, atol=1e-12)


def test_equal_and_nearly_equal_points_get_one_answer():
    mechanism = GaussianProcessMechanism.calibrate(sensitivity=1.0, epsilon=1.0, delta=1e-5)
    points = [0.5, 0.2, 0.5, 0.5 + 1e-13]
    kernel = ExponentialKernel(1.0)
    answers = release_function(
        zero, kernel=kernel, mechanism=mechanism, form="batch", points=points
    )
    assert answers[0] == answers[2] == answers[3] != answers[1]


def test_coordinates_never_pass_the_norm_even_for_points_that_nearly_meet(rng):
    kernel = ExponentialKernel(5.0)
    f = KernelExpansion(kernel, rng.uniform(size=(10, 1)), rng.normal(size=10))
    points = np.concatenate([rng.uniform(size=20), 0.5 + 2.0 ** -np.arange(5.0, 50.0)])
    probe = GivenRelease(np.zeros)
    release_function(f, kernel=kernel, mechanism=probe, form="batch", points=points)
    assert np.linalg.norm(probe.seen[0]) <= f.norm() * (1 + 1e-6)


def test_features_equal_batch_in_distribution(rng):
    kernel = GaussianKernel(0.3)
    f = KernelExpansion(kernel, rng.uniform(size=(20, 1)), np.full(20, 0.05))
    mechanism = GaussianProcessMechanism.calibrate(sensitivity=0.1, epsilon=1.0, delta=1e-5)
    points, functional = np.array([0.1, 0.4, 0.8]), np.array([1.0, -2.0, 0.5])
    options = {"kernel": kernel, "mechanism": mechanism}
    batch, features = [], []
    with seeded(int(rng.integers(2**31))):
        for _ in range(500):
            values = release_function(f, form="batch", points=points, **options)
            batch.append(values @ functional)
            released = release_function(
                f, form="features", domain=Bounds(lower=0.0, upper=1.0), **options
            )
            features.append(released(points) @ functional)
    assert ks_2samp(batch, features).pvalue > 1e-6
    gram = kernel(points[:, None], points[:, None])
    deviation = np.sqrt(mechanism.variance() * functional @ gram @ functional)
    centred = (np.array(batch) - f(points[:, None]) @ functional) / deviation
    assert kstest(centred, "norm").pvalue > 1e-6
    assert kstest(centred / 1.5, "norm").pvalue < 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": None}, "needs 'points'"),
        ({"points": [[np.nan]]}, "finite"),
        ({"points": np.empty((0, 1)), "kernel": GaussianKernel(0.5)}, "at least one"),
        ({"points": np.empty((0, 1))}, "at least one"),
        ({"points": (np.empty(0),)}, "at least one"),
        ({"form": "stream"}, "'form' must be"),
        ({"function": lambda X: X}, "one number per row"),
        ({"points": (np.array([0.0, 0.0, 1.0]),)}, "increase"),
        ({"points": np.random.default_rng(0).uniform(size=(9000, 2))}, "too many"),
    ],
)
def test_what_cannot_be_released(change, message):
    mechanism = GaussianProcessMechanism.calibrate(sensitivity=1.0, epsilon=1.0, delta=1e-5)
    points = [0.2, 0.3]
    function = KernelExpansion(GaussianKernel(0.5), np.zeros((1, 1)), np.ones(1))
    arguments = {
        "function": function,
        "kernel": ExponentialKernel(1.0),
        "mechanism": mechanism,
        "form": "batch",
        "points": points,
    } | change
    with pytest.raises(InvalidInputError, match=message):
        release_function(arguments.pop("function"), **arguments)
