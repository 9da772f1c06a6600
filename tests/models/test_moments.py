"""The exact statistic, its sensitivity, and the three estimators built on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

from sfumato import Bounds, PrivateGaussianClassifier, PrivateMoments, PrivatePCA
from sfumato.models import linear as pca_module
from sfumato.models.budget import Budget
from sfumato.models.gaussians import CentredGaussians, ClassGaussianSums
from sfumato.models.linear import top_eigenvectors
from sfumato.sums import ArrayRecords
from sfumato.sums.maps import IntoUnitBall

# The estimators against non-private counterparts ------------------------------------------------


def blobs(seed: int, n: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_blobs(n, centers=3, n_features=4, cluster_std=1.0, random_state=seed)
    return X, y


def test_without_noise_components_are_those_of_the_second_moment(seed: int) -> None:
    X, _ = blobs(seed)
    pca = PrivatePCA(2, epsilon=np.inf, bounds=Bounds(norm=30.0)).fit(X)
    right = np.linalg.svd(X, full_matrices=False)[2][:2]
    np.testing.assert_allclose(np.abs(np.sum(right * pca.components_, axis=1)), 1.0, atol=1e-6)
    np.testing.assert_allclose(
        pca.eigenvalues_, np.linalg.svd(X, compute_uv=False)[:2] ** 2, rtol=1e-4
    )
    np.testing.assert_allclose(pca.transform(X), (X - pca.centre_) @ pca.components_.T)
    assert list(pca.get_feature_names_out()) == ["privatepca0", "privatepca1"]


def test_without_noise_moments_are_the_empirical_ones(seed: int) -> None:
    X, y = blobs(seed)
    bounds = Bounds(lower=-30.0, upper=30.0, labels=[0, 1, 2])
    moments = PrivateMoments(epsilon=np.inf, bounds=bounds).fit(X, y)
    for c in range(3):
        assert moments.counts_[c] == (y == c).sum()
        np.testing.assert_allclose(moments.means_[c], X[y == c].mean(axis=0), atol=1e-2)
        np.testing.assert_allclose(
            moments.covariances_[c], np.cov(X[y == c].T, bias=True), atol=0.05
        )


def centred_and_clipped(X: np.ndarray, n_components: int | None) -> np.ndarray:
    """The rows as the classifier sees them without noise, by the printed formulas."""
    centred = X - X.mean(axis=0)
    spread = np.sqrt((centred**2).sum(axis=1).mean())
    along = spread
    if n_components is not None:
        short = centred * np.minimum(1, spread / np.linalg.norm(centred, axis=1))[:, None]
        right = np.linalg.svd(short, full_matrices=False)[2][:n_components]
        along = np.sqrt(((short @ right.T) ** 2).sum(axis=1).mean())
        centred = centred @ right.T
    u = centred / (0.9 * along)
    return u / np.maximum(np.linalg.norm(u, axis=1, keepdims=True), 1)


@pytest.mark.parametrize("n_components", [None, 2])
def test_without_noise_the_classifier_is_quadratic_discriminant_analysis(
    seed: int, n_components: int | None
) -> None:
    """Of rows that are centred and clipped at 0.9 of their root mean square length."""
    X, y = blobs(seed)
    model = PrivateGaussianClassifier(
        n_components,
        gaussians_per_class=1,
        epsilon=np.inf,
        bounds=Bounds(norm=30.0, labels=[0, 1, 2]),
    ).fit(X, y)
    seen = centred_and_clipped(X, n_components)
    oracle = QuadraticDiscriminantAnalysis(tol=1e-12).fit(seen, y)
    assert (model.predict(X) == oracle.predict(seen)).mean() > 0.995
    np.testing.assert_allclose(model.predict_proba(X), oracle.predict_proba(seen), atol=0.05)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_algebraic_eigenvalues_are_taken_not_absolute_ones() -> None:
    values, vectors = top_eigenvectors(np.diag([-9.0, 1.0, 3.0]), 2)
    np.testing.assert_allclose(values, [3.0, 1.0])
    np.testing.assert_allclose(vectors, [[0, 0], [0, 1], [1, 0]], atol=1e-12)


# The promise ------------------------------------------------------------------------------------


def test_a_delta_above_one_over_n_is_warned_of(seed: int) -> None:
    X, _ = blobs(seed, 50)
    with pytest.warns(UserWarning, match="1/number of rows"):
        PrivatePCA(1, delta=0.1, bounds=Bounds(norm=9.0)).fit(X)
    # Where the number of rows is secret, nothing may be said about it.
    PrivatePCA(1, delta=0.1, relation="add_or_remove_one", bounds=Bounds(norm=9.0)).fit(X)


def test_equal_eigenvalues_that_lapack_loses_are_found_again(monkeypatch) -> None:
    real = pca_module.eigh

    def loses_two(matrix, subset_by_index):
        values, vectors = real(matrix, subset_by_index=subset_by_index)
        return values[2:], vectors[:, 2:]

    matrix = np.diag([5.0, 4.0, 4.0, 4.0, 4.0, 1.0])
    wanted = top_eigenvectors(matrix, 5)[0]
    monkeypatch.setattr(pca_module, "eigh", loses_two)
    values, vectors = top_eigenvectors(matrix, 5)
    np.testing.assert_allclose(values, wanted)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-12)


# Gaussians of classes from a few sums ------------------------------------------------------------


def sums_of(
    X: np.ndarray,
    y: np.ndarray | None = None,
    *,
    epsilon: float,
    n_classes: int = 1,
    n_components: int,
    bounds: Bounds = Bounds(norm=1.0),  # noqa: B008 - frozen
    n_parts: int | None = 1,
    relation: str = "replace_one",
) -> ClassGaussianSums:
    given = ArrayRecords(X, y, relation=relation)
    records = given.mapped(IntoUnitBall(bounds, X.shape[1]))
    return ClassGaussianSums(
        Budget(epsilon, 1e-5, records),
        records,
        n_classes=n_classes,
        n_components=n_components,
        n_parts=n_parts,
    )


def released(X: np.ndarray, y: np.ndarray, *, bounds: Bounds, **options: Any) -> CentredGaussians:
    sums = sums_of(X, y, n_classes=int(y.max()) + 1, bounds=bounds, **options)
    sums.budget.charge()
    found = sums.draw().in_units_of(bounds)
    assert sums.budget.receipt is not None
    assert not sums.budget.receipt.unused()
    return found


def test_without_noise_it_is_the_empirical_gaussian(rng: np.random.Generator) -> None:
    X = rng.normal(size=(4000, 4)) * [0.02, 0.04, 0.01, 0.01] + [0.3, 0.1, 0.0, 0.2]
    y = (np.arange(4000) % 4 == 0).astype(int)
    X[y == 1] += [0.05, 0.0, 0.0, 0.0]
    found = released(X, y, epsilon=np.inf, n_components=4, bounds=Bounds(norm=1.0))
    np.testing.assert_allclose(found.centre, X.mean(axis=0), atol=4e-6)  # a cell of the grid
    np.testing.assert_allclose(found.counts, [3000, 1000], rtol=1e-6)
    # Rows beyond 0.9 of the root mean square distance are clipped: the mean moves a little.
    means = found.to_rows(found.means)
    for c in range(2):
        assert np.linalg.norm(means[c] - X[y == c].mean(axis=0)) < 0.02


def test_drawn_rows_have_the_law_that_was_released(rng: np.random.Generator) -> None:
    covariance = np.array([[0.2, 0.1], [0.1, 0.3]])
    of_class = np.ones(1), np.array([[0.5, -0.5]]), covariance[None]
    engine = CentredGaussians(*of_class, np.zeros(3), np.eye(3)[:, :2], 2.0, np.zeros(1, dtype=int))
    drawn = engine.sample(0, 40_000, np.random.RandomState(int(rng.integers(1000))))
    np.testing.assert_allclose(drawn.mean(axis=0), [0.5, -0.5], atol=0.02)
    np.testing.assert_allclose(np.cov(drawn, rowvar=False), covariance, atol=0.02)
    np.testing.assert_array_equal(engine.to_rows(drawn)[:, :2], 2.0 * drawn)


def test_the_plan_reads_the_number_of_rows_only_where_it_is_public() -> None:
    parts = {
        (relation, n_rows): sums_of(
            np.zeros((n_rows, 9)),
            epsilon=8.0,
            n_classes=3,
            n_components=4,
            n_parts=None,
            relation=relation,
        ).n_parts
        for relation in ("replace_one", "add_or_remove_one")
        for n_rows in (30, 100_000)
    }
    assert list(parts.values()) == [1, 4, 1, 1]
