"""A few noisy sums: sensitivities by brute force, and what they say without noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sfumato.audit.testing import seeded_noise
from sfumato.models.budget import Budget
from sfumato.models.gaussians import (
    CentredGaussians,
    ClassGaussians,
    ClassGaussianSums,
    default_n_gaussians,
)
from sfumato.privacy.composition import epsilon_spent
from sfumato.sums import ArrayRecords
from sfumato.sums.maps import IntoUnitBall
from sfumato.tables.bounds import Bounds


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


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_means_are_divided_by_the_exact_number_of_rows_where_it_is_public(
    relation: str, seed: int
) -> None:
    rows = np.tile([0.1, 0.0], (5000, 1))
    counts, lengths = [], []
    with seeded_noise(seed):
        for _ in range(50):
            sums = sums_of(rows, epsilon=1.0, n_components=2, relation=relation)
            sums.budget.charge()
            mean, _, n_rows = sums._draw_mean(sums.mean)
            counts.append(n_rows)
            lengths.append(mean[0])
    assert (set(counts) == {5000.0}) == (relation == "replace_one")
    assert np.mean(lengths) == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("with_components", [True, False])
@pytest.mark.parametrize("n_parts", [1, 2, 4])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_releases_cost_the_budget(epsilon: float, with_components: bool, n_parts: int) -> None:
    n_components = 4 if with_components else 9
    sums = sums_of(
        np.zeros((1000, 9)),
        epsilon=epsilon,
        n_classes=3,
        n_components=n_components,
        n_parts=n_parts,
    )
    events = sums.budget.calibrate()
    assert len(events) == 2 + with_components + (n_parts > 1)
    assert 0.99 * epsilon < epsilon_spent(events, 1e-5) <= epsilon * (1 + 1e-9)


def test_without_noise_it_is_the_empirical_gaussian(rng: np.random.Generator) -> None:
    X = rng.normal(size=(4000, 4)) * [0.02, 0.04, 0.01, 0.01] + [0.3, 0.1, 0.0, 0.2]
    y = (np.arange(4000) % 4 == 0).astype(int)
    X[y == 1] += [0.05, 0.0, 0.0, 0.0]
    found = released(X, y, epsilon=np.inf, n_components=4, bounds=Bounds(norm=1.0))
    np.testing.assert_allclose(found.centre, X.mean(axis=0), atol=4e-6)  # a cell of the grid
    np.testing.assert_allclose(found.gaussians.counts, [3000, 1000], rtol=1e-6)
    # Rows beyond 0.9 of the root mean square distance are clipped: the mean moves a little.
    means = found.to_rows(found.gaussians.means)
    for c in range(2):
        assert np.linalg.norm(means[c] - X[y == c].mean(axis=0)) < 0.02


def test_directions_are_the_principal_ones(rng: np.random.Generator) -> None:
    X = rng.normal(size=(3000, 6)) * [0.3, 0.01, 0.2, 0.01, 0.01, 0.01] + 0.1
    found = released(
        X, np.zeros(3000, dtype=int), epsilon=8.0, n_components=2, bounds=Bounds(norm=2.0)
    )
    plane = np.abs(found.basis[[0, 2]])
    assert np.linalg.norm(plane, "fro") ** 2 == pytest.approx(2, abs=0.05)


def test_drawn_rows_have_the_law_that_was_released(rng: np.random.Generator) -> None:
    covariance = np.array([[0.2, 0.1], [0.1, 0.3]])
    gaussians = ClassGaussians(np.ones(1), np.array([[0.5, -0.5]]), covariance[None])
    engine = CentredGaussians(np.zeros(3), np.eye(3)[:, :2], 2.0, gaussians, np.zeros(1, dtype=int))
    drawn = engine.sample(0, 40_000, np.random.RandomState(int(rng.integers(1000))))
    np.testing.assert_allclose(drawn.mean(axis=0), [0.5, -0.5], atol=0.02)
    np.testing.assert_allclose(np.cov(drawn, rowvar=False), covariance, atol=0.02)
    np.testing.assert_array_equal(engine.to_rows(drawn)[:, :2], 2.0 * drawn)


def test_parts_find_the_clusters_of_a_class(rng: np.random.Generator) -> None:
    corners = np.array([[0.4, 0.1], [0.4, -0.1], [-0.4, 0.1], [-0.4, -0.1]])
    X = np.repeat(corners, 1000, axis=0) + 0.01 * rng.normal(size=(4000, 2))
    y = np.zeros(4000, dtype=int)
    found = released(X, y, epsilon=20.0, n_components=2, bounds=Bounds(norm=1.0), n_parts=4)
    np.testing.assert_array_equal(found.classes, [0, 0, 0, 0])
    np.testing.assert_allclose(found.gaussians.counts, 1000, atol=50)
    means = found.to_rows(found.gaussians.means)
    nearest = np.linalg.norm(means[:, None] - corners[None], axis=2).argmin(axis=1)
    assert sorted(nearest) == [0, 1, 2, 3]


def test_parts_grow_with_rows_and_budget() -> None:
    usual = {"delta": 1e-5, "n_classes": 10, "n_components": 50}
    parts = [
        default_n_gaussians(epsilon=epsilon, n_rows=60_000, **usual)
        for epsilon in (0.5, 1, 4, 10, np.inf)
    ]
    assert parts == sorted(parts)
    assert (parts[0], parts[-1]) == (1, 4)
    assert default_n_gaussians(epsilon=10.0, n_rows=1000, **usual) == 1
    assert default_n_gaussians(epsilon=np.inf, n_rows=100, **usual) == 1


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


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_few_rows_and_much_noise_stay_finite(rng: np.random.Generator, epsilon: float) -> None:
    X = rng.random((5, 12))
    found = released(
        X,
        np.array([0, 1, 2, 1, 0]),
        epsilon=epsilon,
        n_components=3,
        bounds=Bounds(lower=0.0, upper=1.0),
    )
    rows = found.to_rows(found.sample(2, 10, np.random.RandomState(0)))
    assert np.isfinite(rows).all()
