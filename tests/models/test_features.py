"""Feature maps: exact kernels, projections that never lengthen a function; one charged release."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms import GaussianProcessMechanism
from sfumato.mechanisms.base import taped
from sfumato.models.covariance import (
    ExponentialKernel,
    GaussianKernel,
    KernelExpansion,
    MaternKernel,
)
from sfumato.models.features import (
    NUGGET,
    FourierFeatures,
    KnotFeatures,
    PeriodicFeatures,
    TaylorFeatures,
    features_from_dict,
    public_features,
)

UNIT = Bounds(lower=0.0, upper=1.0)
H = np.array([[0.05, 0.02], [0.02, 0.04]])
KERNELS = [
    GaussianKernel(0.2),
    GaussianKernel(H),
    ExponentialKernel((3.0, 1.0)),
    MaternKernel(0.5, 0.5),
    MaternKernel(1.5, 0.5),
    MaternKernel(2.5, 0.5),
]


@pytest.mark.parametrize(("bandwidth", "size"), [(0.5, 17), (0.1, 73), (0.02, 828), (0.01, 2914)])
def test_taylor_features_are_the_gaussian_kernel_without_jitter(bandwidth, size):
    x = np.linspace(0, 1, 1000)[:, None]
    features = TaylorFeatures(GaussianKernel(bandwidth), UNIT, 1)
    phi = features.transform(x)
    assert features.size == size
    assert np.abs(phi @ phi.T - GaussianKernel(bandwidth)(x, x)).max() < 1e-12
    assert (np.einsum("ij,ij->i", phi, phi) <= 1 + 1e-12).all()


def test_too_few_taylor_terms_are_seen():
    x = np.linspace(0, 1, 1000)[:, None]
    phi = TaylorFeatures(GaussianKernel(0.1), UNIT, 1).transform(x)[:, :45]
    assert np.abs(phi @ phi.T - GaussianKernel(0.1)(x, x)).max() > 1e-6


@pytest.mark.parametrize("bandwidth", [0.3, (0.3, 0.2), H], ids=["one", "axes", "full"])
def test_taylor_features_in_the_plane(bandwidth, rng):
    kernel = GaussianKernel(bandwidth)
    domain = Bounds(lower=(-1.0, 0.0), upper=(0.5, 2.0))
    x = domain.clip(rng.uniform(-1, 2, (200, 2)))
    features = TaylorFeatures(kernel, domain, 2)
    phi = features.transform(x)
    np.testing.assert_allclose(phi @ phi.T, kernel(x, x), atol=1e-12)
    axes = (np.linspace(-1, 0.5, 7), np.linspace(0, 2, 5))
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    f = KernelExpansion(kernel, x[:40], rng.normal(size=40))
    c = features.coordinates(f)
    np.testing.assert_allclose(c, f.weights @ features.transform(f.centres), atol=1e-12)
    np.testing.assert_allclose(features.evaluate(c, x), f(x), atol=1e-12)
    np.testing.assert_allclose(features.evaluate_grid(c, axes).ravel(), f(grid), atol=1e-12)
    several = KernelExpansion(kernel, x[:40], rng.normal(size=(40, 3)))
    c = features.coordinates(several)
    assert c.shape == (features.size, 3)
    np.testing.assert_allclose(features.evaluate(c, x), several(x), atol=1e-11)


def test_taylor_features_of_far_rows_are_short_and_finite():
    features = TaylorFeatures(GaussianKernel(0.1), UNIT, 1)
    phi = features.transform(np.array([[5.0], [-40.0], [1e6], [-1e300]]))
    assert np.isfinite(phi).all()
    assert (np.linalg.norm(phi, axis=1) <= 1).all()


def random_function(kernel, rng):
    return KernelExpansion(kernel, rng.uniform(size=(30, 2)), rng.normal(size=30))


def maps(kernel, rng):
    yield KnotFeatures(kernel, rng.uniform(size=(60, 2)))
    if isinstance(kernel, GaussianKernel):
        yield TaylorFeatures(kernel, UNIT, 2)


@given(st.sampled_from(KERNELS), st.integers(0, 2**32 - 1))
def test_coordinates_are_never_longer_than_the_function(kernel, seed):
    rng = np.random.default_rng(seed)
    f = random_function(kernel, rng)
    for features in maps(kernel, rng):
        assert np.linalg.norm(features.coordinates(f)) <= f.norm() * (1 + 1e-9)
        assert (
            np.linalg.norm(features.transform(rng.uniform(size=(20, 2))), axis=1) < 1 + 1e-9
        ).all()


@given(
    st.sampled_from([*KERNELS, GaussianKernel(1.0)]), st.integers(1, 20), st.integers(0, 2**32 - 1)
)
def test_proposition_8(kernel, n_points, seed):
    """``||M^(-1/2) (f(x_1), ..., f(x_n))|| <= ||f||_H`` for any points, here also near ones."""
    rng = np.random.default_rng(seed)
    f = random_function(kernel, rng)
    points = rng.uniform(size=(n_points, 2))
    points[n_points // 2 :] = points[0] + 1e-3 * rng.normal(size=(n_points - n_points // 2, 2))
    assert np.linalg.norm(KnotFeatures(kernel, points).coordinates(f)) <= f.norm() * (1 + 1e-6)
    M = kernel(points, points)
    values = f(points)
    if np.linalg.cond(M) < 1e8:
        assert values @ np.linalg.solve(M, values) <= f.norm() ** 2 * (1 + 1e-6)


def test_knots_interpolate_and_take_any_callable(rng):
    knots = np.linspace(0, 1, 200)
    features = KnotFeatures(MaternKernel(2.5, 0.3), knots)
    c = features.coordinates(lambda X: np.sin(5 * X[:, 0]))
    x = rng.uniform(size=50)
    np.testing.assert_allclose(features.evaluate(c, x), np.sin(5 * x), atol=1e-4)
    np.testing.assert_allclose(
        features.transform(x[:, None]) @ c, features.evaluate(c, x), atol=1e-7
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_fourier_features_are_near_the_kernel_and_of_length_one(kernel, rng):
    features = FourierFeatures(kernel, 20_000, n_features=2, random_state=1)
    x = rng.uniform(size=(30, 2))
    phi = features.transform(x)
    np.testing.assert_allclose(np.linalg.norm(phi, axis=1), 1.0, rtol=1e-12)
    assert np.abs(phi @ phi.T - kernel(x, x)).max() < 0.05
    same = FourierFeatures(kernel, 20_000, n_features=2, random_state=1)
    assert (same.frequencies == features.frequencies).all()


@pytest.mark.parametrize(
    "features",
    [
        TaylorFeatures(GaussianKernel(H), UNIT, 2),
        PeriodicFeatures(GaussianKernel((0.1, 0.2)), UNIT, 2),
        KnotFeatures(ExponentialKernel(2.0), np.random.default_rng(0).uniform(size=(9, 2))),
        FourierFeatures(MaternKernel(1.5, 1.0), 10, n_features=2),
    ],
    ids=lambda features: features.kind,
)
def test_maps_come_back_from_plain_values(features, rng):
    x = rng.uniform(size=(5, 2))
    plain = json.loads(json.dumps(features.to_dict(), default=np.ndarray.tolist))
    for record in (features.to_dict(), plain):
        again = features_from_dict(record)
        assert again.size == features.size
        assert (again.transform(x) == features.transform(x)).all()
    with pytest.raises(InvalidInputError):
        features_from_dict({"kind": "wavelets"})


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[0.5, np.nan]], "finite"),
        ([[0.5, 0.5, 0.5]], "rows of 2"),
        ([0.5, 0.5], "rows of 2"),
        ([[0.5, 1.2]], "outside the domain"),
        ([["a", "b"]], "numbers"),
    ],
)
def test_queries_that_make_no_sense(X, message):
    features = TaylorFeatures(GaussianKernel(0.5), UNIT, 2)
    with pytest.raises(InvalidInputError, match=message):
        features.evaluate(np.zeros(features.size), X)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TaylorFeatures(ExponentialKernel(1.0), UNIT, 1), "GaussianKernel"),
        (lambda: TaylorFeatures(GaussianKernel(1e-3), UNIT, 1), "too wide"),
        (lambda: TaylorFeatures(GaussianKernel(0.1), UNIT, 5), "too wide"),
        (lambda: PeriodicFeatures(GaussianKernel(1e-3), UNIT, 3), "too wide"),
        (lambda: TaylorFeatures(GaussianKernel(0.1), None, 1), "domain"),
        (lambda: TaylorFeatures(GaussianKernel(0.5), UNIT, 1).coordinates(np.sin), "KnotFeatures"),
        (lambda: KnotFeatures(ExponentialKernel(1.0), np.zeros((9000, 1))), "too many"),
        (lambda: FourierFeatures(GaussianKernel(1.0), 7, n_features=1), "even"),
    ],
)
def test_maps_that_cannot_be_made(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


@pytest.mark.parametrize("kernel", [GaussianKernel(0.1), MaternKernel(2.5, 0.5)], ids=repr)
def test_the_error_of_a_dense_factor_is_far_below_the_nugget(kernel, rng):
    points = rng.uniform(size=(1000, 1))
    factor = KnotFeatures(kernel, points)._factor
    error = factor @ factor.T - kernel(points, points) - NUGGET * np.eye(1000)
    assert np.linalg.norm(error) < NUGGET / 100


@pytest.mark.parametrize("h", [0.01, 0.1, 2.0])
def test_periodic_features_on_a_line(h):
    features = PeriodicFeatures(GaussianKernel(h), UNIT, 1)
    x = np.linspace(0, 1, 1000)[:, None]
    mapped = features.transform(x)
    assert np.abs(mapped @ mapped.T - GaussianKernel(h)(x, x)).max() < 1e-13
    assert np.linalg.norm(mapped, axis=1).max() <= 1 + 1e-14


@pytest.mark.parametrize("bandwidth", [0.2, (0.1, 0.4), ((0.04, 0.01), (0.01, 0.02))])
def test_periodic_features_in_the_plane(bandwidth, rng):
    kernel = GaussianKernel(bandwidth)
    features = PeriodicFeatures(kernel, UNIT, 2)
    x = rng.uniform(size=(60, 2))
    mapped = features.transform(x)
    assert np.abs(mapped @ mapped.T - kernel(x, x)).max() < 1e-13
    f = KernelExpansion(kernel, x[:20], rng.normal(size=20))
    coordinates = features.coordinates(f)
    np.testing.assert_allclose(features.evaluate(coordinates, x), f(x), atol=1e-12)
    axes = (np.linspace(0, 1, 7), np.linspace(0, 1, 5))
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    np.testing.assert_allclose(
        features.evaluate_grid(coordinates, axes).ravel(), f(grid), atol=1e-12
    )


def test_they_are_few_for_a_small_bandwidth():
    kernel = GaussianKernel(0.02)
    assert PeriodicFeatures(kernel, UNIT, 1).size < TaylorFeatures(kernel, UNIT, 1).size / 4
    chosen = [
        public_features(GaussianKernel(h), UNIT, 1, fourier=10, random_state=0).kind
        for h in (2.0, 0.02)
    ]
    assert chosen == ["taylor", "periodic"]


# Release of any function ------------------------------------------------------------------------


def test_noise_on_a_released_function_is_that_of_its_coordinates(rng):
    kernel = GaussianKernel(0.2)
    f = KernelExpansion(kernel, rng.uniform(size=(200, 1)), np.full(200, 1 / 200))
    mechanism = GaussianProcessMechanism.calibrate(sensitivity=0.01, epsilon=1.0, delta=1e-5)
    features = TaylorFeatures(kernel, UNIT, 1)
    with taped() as tape:
        released = mechanism.release(features.coordinates(f), ledger=None)
    (entry,) = tape.releases
    assert entry.statistic.shape == (features.size,)
    x = rng.uniform(size=(20, 1))
    moved = features.transform(x) @ (entry.output - entry.statistic)
    np.testing.assert_allclose(features.evaluate(released, x) - f(x), moved, atol=1e-9)


def test_why_another_space_is_refused(rng):
    """Two neighbours, features of another kernel: seven times the stated sensitivity."""
    rows = rng.uniform(size=(100, 1))
    other = rows.copy()
    other[0] = 1 - rows[0]
    kernel = ExponentialKernel(20.0)
    knots = np.linspace(0, 1, 40)[:, None]
    stated = math.sqrt(2) / 100

    def moved(of):
        features, weights = KnotFeatures(of, knots), np.full(100, 1 / 100)
        here, there = (KernelExpansion(kernel, r, weights) for r in (rows, other))
        return np.linalg.norm(features.coordinates(here) - features.coordinates(there))

    assert moved(kernel) <= stated < moved(GaussianKernel(0.3)) / 5
    stranger = KernelExpansion(kernel, rows, np.full(100, 1 / 100))
    with pytest.raises(InvalidInputError, match="another kernel"):
        TaylorFeatures(GaussianKernel(0.3), UNIT, 1).coordinates(stranger)
