"""Periodic features against the kernel."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.models.functions.features import TaylorFeatures
from sfumato.models.functions.maps import features_from_dict
from sfumato.models.functions.periodic import PeriodicFeatures
from sfumato.models.functions.spaces import public_features
from sfumato.models.kernels import ExponentialKernel, GaussianKernel, KernelExpansion

BOX = Bounds(lower=0.0, upper=1.0)


@pytest.mark.parametrize("h", [0.01, 0.1, 2.0])
def test_kernel_on_a_line(h: float) -> None:
    features = PeriodicFeatures(GaussianKernel(h), BOX, 1)
    x = np.linspace(0, 1, 1000)[:, None]
    mapped = features.transform(x)
    assert np.abs(mapped @ mapped.T - GaussianKernel(h)(x, x)).max() < 1e-13
    assert np.linalg.norm(mapped, axis=1).max() <= 1 + 1e-14


@pytest.mark.parametrize("bandwidth", [0.2, (0.1, 0.4), ((0.04, 0.01), (0.01, 0.02))])
def test_kernel_in_the_plane(bandwidth: object, rng: np.random.Generator) -> None:
    kernel = GaussianKernel(bandwidth)
    features = PeriodicFeatures(kernel, BOX, 2)
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


def test_few_for_a_small_bandwidth() -> None:
    kernel = GaussianKernel(0.02)
    assert PeriodicFeatures(kernel, BOX, 1).size < TaylorFeatures(kernel, BOX, 1).size / 4
    chosen = [
        public_features(GaussianKernel(h), BOX, 1, fourier=10, random_state=0).kind
        for h in (2.0, 0.02)
    ]
    assert chosen == ["taylor", "periodic"]


def test_comes_back_from_a_dict(rng: np.random.Generator) -> None:
    features = PeriodicFeatures(GaussianKernel((0.1, 0.2)), BOX, 2)
    x = rng.uniform(size=(5, 2))
    again = features_from_dict(features.to_dict())
    np.testing.assert_array_equal(again.transform(x), features.transform(x))


def test_what_cannot_be_done_is_said() -> None:
    with pytest.raises(InvalidInputError, match="GaussianKernel"):
        PeriodicFeatures(ExponentialKernel(1.0), BOX, 1)
    with pytest.raises(InvalidInputError, match="bandwidth"):
        PeriodicFeatures(GaussianKernel(1e-3), BOX, 3)
