"""Features that are kept and features that are computed anew give the same numbers."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from sfumato import Bounds, PrivateKernelClassifier, PrivateKernelRegressor
from sfumato.audit.testing import seeded_noise
from sfumato.models import solvers as feature_rows
from sfumato.models.features import FourierFeatures, GaussianKernel
from sfumato.models.solvers import FeatureRows


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(feature_rows, "BLOCK", 200)


def rows_of(n: int, kept: int, monkeypatch) -> tuple[FeatureRows, np.ndarray]:
    monkeypatch.setattr(feature_rows, "KEPT", kept)
    rows = np.random.default_rng(0).normal(size=(n, 3))
    features = FourierFeatures.draw(GaussianKernel(1.0), 20, n_features=3)
    return FeatureRows(rows, features.transform, features.size), features.transform(rows)


@pytest.mark.parametrize("kept", [0, 10**9], ids=["computed anew", "kept"])
@pytest.mark.parametrize("n", [0, 1, 37])
def test_products_are_those_of_the_matrix(monkeypatch, small_blocks, seed, kept, n):
    ours, matrix = rows_of(n, kept, monkeypatch)
    rng = np.random.default_rng(seed)
    w, values, weights = (
        rng.normal(size=20),
        rng.normal(size=n),
        rng.random(n) * (rng.random(n) > 0.5),
    )
    total, gram = ours.products(values, weights)
    close = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(ours @ w, matrix @ w, **close)
    np.testing.assert_allclose(total, matrix.T @ values, **close)
    np.testing.assert_allclose(gram, matrix.T @ (weights[:, None] * matrix), **close)
    np.testing.assert_allclose(ours.gram(), matrix.T @ matrix, **close)
    np.testing.assert_allclose(ours.sum_of_squares(), np.sum(matrix**2), **close)
    np.testing.assert_array_equal(ours.take(weights > 0), matrix[weights > 0])


MACHINES = [
    PrivateKernelClassifier(
        n_fourier=64, delta=1e-6, bounds=Bounds(lower=0.0, upper=1.0, labels=[0, 1])
    ),
    PrivateKernelClassifier(
        n_fourier=64, delta=1e-6, bounds=Bounds(lower=0.0, upper=1.0, labels=[0, 1, 2])
    ),
    PrivateKernelRegressor(
        n_fourier=64, target_bounds=(0.0, 1.0), delta=1e-6, bounds=Bounds(lower=0.0, upper=1.0)
    ),
]


@pytest.mark.parametrize("model", MACHINES, ids=["two classes", "three classes", "regressor"])
def test_a_machine_is_the_same_to_the_bit_whether_features_are_kept(monkeypatch, model):
    X = np.random.default_rng(0).uniform(size=(300, 5))
    y = (X[:, 0] * 2).astype(int) if "Classifier" in type(model).__name__ else X[:, 0]
    found = []
    for kept in (0, 10**9):
        monkeypatch.setattr(feature_rows, "KEPT", kept)
        with seeded_noise(0):
            found.append(model.fit(X, y).coefficients_.copy())
    np.testing.assert_array_equal(*found)


def test_a_machine_takes_no_more_than_its_rows_and_blocks(monkeypatch):
    """24 kB per row were taken: three matrices of a thousand features."""
    monkeypatch.setattr(feature_rows, "KEPT", 0)
    monkeypatch.setattr(feature_rows, "BLOCK", 2**14)
    X = np.random.default_rng(0).uniform(size=(20_000, 10))
    y = (X[:, 0] > 0.5).astype(int)
    model = MACHINES[0]
    model.fit(X[:100], y[:100])
    tracemalloc.start()
    model.fit(X, y)
    beyond = tracemalloc.get_traced_memory()[1] / X.nbytes
    tracemalloc.stop()
    assert beyond < 1.5
