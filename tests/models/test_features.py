"""Kernels and feature maps against exact kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.gaussian_process.kernels import RBF

from sfumato import Bounds
from sfumato.models.features import (
    FourierFeatures,
    GaussianKernel,
    KnotFeatures,
    PeriodicFeatures,
    TaylorFeatures,
)

UNIT = Bounds(lower=0.0, upper=1.0)
H = np.array([[0.05, 0.02], [0.02, 0.04]])
GAUSSIANS = [GaussianKernel(0.2), GaussianKernel((0.2, 0.1)), GaussianKernel(H)]


# Kernels -----------------------------------------------------------------------------------------


def test_kernels_against_scikit_learn_and_the_formula(rng):
    A, B = rng.uniform(-1, 2, (40, 2)), rng.uniform(-1, 2, (30, 2))
    np.testing.assert_allclose(GAUSSIANS[0](A, B), RBF(0.2)(A, B), atol=1e-13)
    np.testing.assert_allclose(GAUSSIANS[1](A, B), RBF([0.2, 0.1])(A, B), atol=1e-13)
    away = A[:, None] - B
    literal = np.exp(-np.einsum("abi,ij,abj->ab", away, np.linalg.inv(H), away) / 2)
    np.testing.assert_allclose(GAUSSIANS[2](A, B), literal, atol=1e-14)


# Feature maps ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bandwidth", "size"), [(0.5, 17), (0.1, 73), (0.02, 828), (0.01, 2914)])
def test_taylor_features_are_the_gaussian_kernel_without_jitter(bandwidth, size):
    x = np.linspace(0, 1, 1000)[:, None]
    features = TaylorFeatures(GaussianKernel(bandwidth), UNIT, 1)
    phi, gram = features.transform(x), GaussianKernel(bandwidth)(x, x)
    assert features.size == size
    assert np.abs(phi @ phi.T - gram).max() < 1e-12
    assert (np.einsum("ij,ij->i", phi, phi) <= 1 + 1e-12).all()
    short = phi[:, : size // 2]  # too few terms are seen
    assert np.abs(short @ short.T - gram).max() > 1e-6


@pytest.mark.parametrize("h", [0.01, 0.1, 2.0])
def test_periodic_features_on_a_line(h):
    x = np.linspace(0, 1, 1000)[:, None]
    mapped = PeriodicFeatures(GaussianKernel(h), UNIT, 1).transform(x)
    assert np.abs(mapped @ mapped.T - GaussianKernel(h)(x, x)).max() < 1e-13
    assert np.linalg.norm(mapped, axis=1).max() <= 1 + 1e-14


@pytest.mark.parametrize("kind", [TaylorFeatures, PeriodicFeatures])
@pytest.mark.parametrize("kernel", GAUSSIANS, ids=repr)
def test_exact_features_in_the_plane(kind, kernel, rng):
    features = kind(kernel, UNIT, 2)
    x, weights = rng.uniform(size=(60, 2)), rng.normal(size=(60, 3))
    phi = features.transform(x)
    np.testing.assert_allclose(phi @ phi.T, kernel(x, x), atol=1e-12)
    np.testing.assert_allclose(features.add_up(x), phi.sum(axis=0), atol=1e-12)
    for w in (weights, weights[:, 0]):
        found = features.evaluate(phi.T @ w, x)
        np.testing.assert_allclose(found, kernel(x, x) @ w, atol=1e-11)


def test_taylor_features_of_far_rows_are_short_and_finite():
    features = TaylorFeatures(GaussianKernel(0.1), UNIT, 1)
    phi = features.transform(np.array([[5.0], [-40.0], [1e6], [-1e300]]))
    assert np.isfinite(phi).all()
    assert (np.linalg.norm(phi, axis=1) <= 1).all()


@given(st.sampled_from(GAUSSIANS), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_coordinates_are_never_longer_than_the_function(kernel, n_knots, seed):
    """Proposition 8: ``||M^(-1/2) (f(x_1), ..., f(x_n))|| <= ||f||_H``, for near points too."""
    rng = np.random.default_rng(seed)
    centres, weights = rng.uniform(size=(30, 2)), rng.normal(size=30)
    norm = math.sqrt(weights @ kernel(centres, centres) @ weights)
    knots = rng.uniform(size=(n_knots, 2))
    knots[n_knots // 2 :] = knots[0] + 1e-3 * rng.normal(size=(n_knots - n_knots // 2, 2))
    for features in (KnotFeatures(kernel, knots), TaylorFeatures(kernel, UNIT, 2)):
        assert np.linalg.norm(weights @ features.transform(centres)) <= norm * (1 + 1e-6)
        lengths = np.linalg.norm(features.transform(rng.uniform(size=(20, 2))), axis=1)
        assert (lengths < 1 + 1e-9).all()


@pytest.mark.parametrize("kernel", GAUSSIANS, ids=repr)
def test_fourier_features_are_near_the_kernel_and_of_length_one(kernel, rng):
    features = FourierFeatures.draw(kernel, 20_000, n_features=2, random_state=1)
    x = rng.uniform(size=(30, 2))
    phi = features.transform(x)
    np.testing.assert_allclose(np.linalg.norm(phi, axis=1), 1.0, rtol=1e-12)
    assert np.abs(phi @ phi.T - kernel(x, x)).max() < 0.05
    halves = np.arange(-40, 41)[:, None] * np.pi + [-1e-9, 0.0, 1e-9]  # where turns are cut
    few = FourierFeatures([[0.5], [1.0]])
    angles = halves.reshape(-1, 1) @ few.frequencies.T
    oracle = np.hstack([np.cos(angles), np.sin(angles)]) / math.sqrt(2)
    np.testing.assert_allclose(few.transform(halves.reshape(-1, 1)), oracle, atol=1e-12)
