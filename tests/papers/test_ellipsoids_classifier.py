"""The large-margin ellipsoids without privacy: formulas, minimisers, decisions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sfumato.exceptions import InvalidInputError
from sfumato.papers.large_margin.classifier import LargeMarginGaussianClassifier
from sfumato.papers.large_margin.ellipsoids import (
    LargeMarginObjective,
    MarginLoss,
    MixtureLoss,
    centroids,
    cone_residual,
    extended,
    minimise_in_cone,
    minimise_strongly_convex,
    offsets,
    penalised,
    precisions,
    quadratic_features,
    shifted_into_cone,
    softmin,
    to_matrices,
    to_vectors,
)


def iris() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y.astype(np.intp)


def random_problem(
    rng: np.random.Generator, loss: MarginLoss | MixtureLoss, n_ellipsoids: int = 3
) -> tuple[LargeMarginObjective, np.ndarray]:
    rows = extended(rng.normal(size=(40, 3)))
    own = rng.integers(n_ellipsoids, size=40)
    objective = LargeMarginObjective(rows, own, n_ellipsoids, loss, 1 / 40)
    return objective, rng.normal(size=objective.shape)


# Coordinates -------------------------------------------------------------------------------------


@given(
    arrays(float, (2, 4, 4), elements=st.floats(-1e3, 1e3)),
    arrays(float, 4, elements=st.floats(-9, 9)),
)
def test_svec_keeps_lengths_angles_and_quadratic_forms(stack: np.ndarray, row: np.ndarray) -> None:
    matrices = stack + np.swapaxes(stack, 1, 2)
    vectors = to_vectors(matrices)
    np.testing.assert_allclose(to_matrices(vectors), matrices, rtol=1e-14)
    np.testing.assert_allclose(
        vectors[0] @ vectors[1], np.sum(matrices[0] * matrices[1]), rtol=1e-9, atol=1e-6
    )
    features = quadratic_features(row[None])
    np.testing.assert_allclose(features @ vectors[0], row @ matrices[0] @ row, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(features), row @ row, rtol=1e-12, atol=1e-200)


def ellipsoid_matrices(centres, inverse_covariances, heights):
    """Φ of each ellipsoid, equation (2) of Pathak and Raj."""
    order = centres.shape[1]
    matrices = np.empty((len(centres), order + 1, order + 1))
    sides = np.einsum("kij,kj->ki", inverse_covariances, centres)
    matrices[:, :-1, :-1] = inverse_covariances
    matrices[:, :-1, -1] = matrices[:, -1, :-1] = -sides
    matrices[:, -1, -1] = np.einsum("ki,ki->k", centres, sides) + heights
    return matrices


def test_ellipsoids_and_matrices_are_two_ways_to_say_one_thing(rng: np.random.Generator) -> None:
    roots = rng.normal(size=(4, 3, 3))
    inverse = roots @ np.swapaxes(roots, 1, 2)
    centres, heights = rng.normal(size=(4, 3)), rng.uniform(size=4)
    matrices = ellipsoid_matrices(centres, inverse, heights)
    np.testing.assert_allclose(centroids(matrices), centres, atol=1e-7)
    np.testing.assert_allclose(precisions(matrices), inverse)
    np.testing.assert_allclose(offsets(matrices), heights, atol=1e-8)
    assert np.linalg.eigvalsh(matrices).min() > -1e-9
    x = rng.normal(size=3)
    printed = [(x - m) @ p @ (x - m) + h for m, p, h in zip(centres, inverse, heights, strict=True)]
    extended_row = np.append(x, 1.0)
    np.testing.assert_allclose(
        [extended_row @ matrix @ extended_row for matrix in matrices], printed
    )


# The objective against literal formulas ----------------------------------------------------------


def printed_huber(difference: float, h: float) -> float:
    """Loss (6) with the margin 1 of (4): `difference` is ``aᵀ(Φ_c - Φ_y)a - 1``."""
    if difference > h:
        return 0.0
    if abs(difference) <= h:
        return (h - difference) ** 2 / (4 * h)
    return -difference


@pytest.mark.parametrize("width", [0.1, 0.5, 2.0])
def test_the_objective_is_the_printed_sum(rng: np.random.Generator, width: float) -> None:
    objective, W = random_problem(rng, MarginLoss(width))
    matrices = to_matrices(W)
    total = 0.0
    for a, y in zip(objective.rows, objective.own, strict=True):
        for c in range(3):
            if c != y:
                total += printed_huber(a @ (matrices[c] - matrices[y]) @ a - 1, width)
    assert objective.value_and_gradient(W)[0] == pytest.approx(total / 40, rel=1e-12)


def test_the_hinge_is_the_limit_of_the_rounded_hinge(rng: np.random.Generator) -> None:
    objective, W = random_problem(rng, MarginLoss(0.0))
    value = objective.value_and_gradient(W)[0]
    for width in (0.1, 1e-3):
        rounded = LargeMarginObjective(objective.rows, objective.own, 3, MarginLoss(width), 1 / 40)
        assert 0 <= rounded.value_and_gradient(W)[0] - value <= 2 * width / 4


def test_mixtures_follow_the_softmin(rng: np.random.Generator) -> None:
    starts = np.array([0, 2, 3])
    objective, W = random_problem(rng, MixtureLoss(0.5, starts), n_ellipsoids=6)
    groups = [[0, 1], [2], [3, 4, 5]]
    total = 0.0
    for a, own in zip(objective.rows, objective.own, strict=True):
        scores = [a @ matrix @ a for matrix in to_matrices(W)]
        for group in groups:
            if own not in group:
                nearest = -math.log(sum(math.exp(-scores[k]) for k in group))
                total += printed_huber(nearest - scores[own] - 1, 0.5)
    assert objective.value_and_gradient(W)[0] == pytest.approx(total / 40, rel=1e-10)


def test_one_ellipsoid_a_class_is_a_mixture_of_one(rng: np.random.Generator) -> None:
    single, W = random_problem(rng, MarginLoss(0.5))
    mixture = LargeMarginObjective(
        single.rows, single.own, 3, MixtureLoss(0.5, np.arange(3)), 1 / 40
    )
    np.testing.assert_allclose(single.gradient(W), mixture.gradient(W), atol=1e-12)
    scores = rng.normal(size=(5, 3))
    np.testing.assert_array_equal(softmin(scores, np.arange(3)), scores)


@pytest.mark.parametrize(
    "loss", [MarginLoss(0.5), MarginLoss(2.0, 0.0), MixtureLoss(0.5, np.array([0, 2, 3]))]
)
def test_gradients_by_finite_differences(
    rng: np.random.Generator, loss: MarginLoss | MixtureLoss
) -> None:
    objective, W = random_problem(rng, loss, n_ellipsoids=4)
    direction = rng.normal(size=W.shape)
    direction /= np.linalg.norm(direction)
    step = 1e-5
    up, down = (objective.value_and_gradient(W + s * direction)[0] for s in (step, -step))
    slope = np.sum(objective.gradient(W) * direction)
    assert abs((up - down) / (2 * step) - slope) < 1e-8


def test_hessian_products_by_finite_differences(rng: np.random.Generator) -> None:
    objective, W = random_problem(rng, MarginLoss(2.0))
    V = rng.normal(size=W.shape)
    step = 1e-6
    change = (objective.gradient(W + step * V) - objective.gradient(W - step * V)) / (2 * step)
    np.testing.assert_allclose(objective.curved(W, V), change, atol=1e-6)


def test_rows_are_computed_anew_where_they_are_too_many_to_keep(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective, W = random_problem(rng, MarginLoss(0.5))
    expected = objective.gradient(W)
    monkeypatch.setattr("sfumato.papers.large_margin.ellipsoids.MAX_CACHED", 1)
    monkeypatch.setattr("sfumato.papers.large_margin.ellipsoids.BLOCK", 7)
    again = LargeMarginObjective(objective.rows, objective.own, 3, objective.loss, 1 / 40)
    np.testing.assert_allclose(again.gradient(W), expected, atol=1e-13)
    assert again._kept is None


# Minimisers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("regularizer", "weight", "expected"),
    [("trace", 0.01, 0.125095), ("trace", 0.001, 0.048673), ("frobenius", 0.01, 0.117390)],
)
def test_iris_objectives_equal_those_of_an_interior_point_solver(
    regularizer: str, weight: float, expected: float
) -> None:
    """The expected values are those that Clarabel finds for the same semidefinite programme."""
    X, y = iris()
    model = LargeMarginGaussianClassifier(regularizer=regularizer, regularization=weight).fit(X, y)
    assert abs(model.objective_ - expected) < 1e-5
    assert model.residual_ < 1e-6
    assert np.linalg.eigvalsh(model.matrices_).min() > -1e-9


def test_no_other_matrices_in_the_cone_are_better(rng: np.random.Generator) -> None:
    X, y = iris()
    objective = LargeMarginObjective(extended(X), y, 3, MarginLoss(0.5), 1 / len(X))
    smooth = penalised(objective, linear=0.01 * to_vectors(np.eye(5)))
    best, _ = minimise_in_cone(
        smooth, to_vectors(np.stack([np.eye(5)] * 3)), tolerance=1e-9, max_iter=3000
    )
    assert cone_residual(smooth, best) < 1e-6
    for scale in (1e-1, 1e-2, 1e-3):
        roots = np.linalg.cholesky(to_matrices(best) + 1e-10 * np.eye(5))
        roots = roots + scale * rng.normal(size=roots.shape)
        other = to_vectors(roots @ np.swapaxes(roots, 1, 2))
        assert smooth(other)[0] > smooth(best)[0]
        assert cone_residual(smooth, other) > 1e-5


def test_a_strongly_convex_minimum_is_reached_to_the_last_digits() -> None:
    X, y = iris()
    objective = LargeMarginObjective(extended(X) / 4, y, 3, MarginLoss(0.5))
    linear = np.random.default_rng(0).normal(size=objective.shape)
    W = minimise_strongly_convex(objective, linear=linear, quadratic=0.5, tolerance=1e-11)
    assert np.linalg.norm(penalised(objective, linear=linear, quadratic=0.5)(W)[1]) < 1e-11


def test_a_common_shift_changes_no_decision_and_clipping_does() -> None:
    X, y = iris()
    model = LargeMarginGaussianClassifier(
        regularizer="frobenius", positivity="shift", regularization=0.01
    ).fit(X, y)
    objective = LargeMarginObjective(extended(X), y, 3, MarginLoss(0.5), 1 / len(X))
    free = to_matrices(minimise_strongly_convex(objective, quadratic=0.01, tolerance=1e-10))
    features = quadratic_features(extended(X))
    before = (features @ to_vectors(free).T).argmin(axis=1)
    shifted = shifted_into_cone(free)
    assert np.linalg.eigvalsh(free).min() < -1
    assert np.linalg.eigvalsh(shifted).min() > -1e-12
    np.testing.assert_array_equal((features @ to_vectors(shifted).T).argmin(axis=1), before)
    np.testing.assert_array_equal(model.predict(X), before)
    values, axes = np.linalg.eigh(free)
    clipped = (axes * np.maximum(values, 0)[:, None, :]) @ np.swapaxes(axes, 1, 2)
    wrong = (features @ to_vectors(clipped).T).argmin(axis=1)
    assert (wrong != before).sum() >= 1


def test_the_printed_trace_has_no_minimiser() -> None:
    """With the trace of the inverse covariance alone, ever larger matrices cost ever less."""
    X, y = iris()
    objective = LargeMarginObjective(extended(X), y, 3, MarginLoss(0.5), 1 / len(X))
    without_corner = np.diag([1.0] * 4 + [0.0])
    costs, corners = [], []
    start = to_vectors(np.stack([np.eye(5)] * 3))
    smooth = penalised(objective, linear=0.1 * to_vectors(without_corner))
    for corner in (1e1, 1e3, 1e5):  # bounded corners, ever wider
        bounded = penalised(
            objective, linear=to_vectors(0.1 * without_corner + np.diag([0] * 4 + [1 / corner]))
        )
        best, _ = minimise_in_cone(bounded, start, tolerance=1e-7, max_iter=4000)
        costs.append(smooth(best)[0])
        corners.append(to_matrices(best)[:, -1, -1].max())
    assert costs[0] > costs[1] > costs[2]
    assert 10 * corners[0] < corners[1] < corners[2] / 2


# The estimator -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "least", "options"),
    [
        ("iris", 0.93, {}),
        ("iris", 0.93, {"regularizer": "frobenius", "positivity": "shift"}),
        ("wine", 0.95, {}),
        ("digits", 0.955, {"scaling": "overall"}),
    ],
)
def test_accuracy_in_cross_validation(name: str, least: float, options: dict[str, object]) -> None:
    X, y = {"iris": load_iris, "wine": load_wine, "digits": load_digits}[name](return_X_y=True)
    model = LargeMarginGaussianClassifier(tol=1e-3, **options)
    steps = [PCA(10, random_state=0)] if name == "digits" else []
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    assert cross_val_score(make_pipeline(*steps, model), X, y, cv=folds).mean() >= least


def test_several_ellipsoids_follow_a_class_in_several_places(seed: int) -> None:
    X, parts = make_blobs(
        300, centers=[[-4, 0], [0, 0], [4, 0], [8, 0]], cluster_std=0.4, random_state=seed
    )
    y = parts % 2
    one = LargeMarginGaussianClassifier(tol=1e-3).fit(X, y)
    several = LargeMarginGaussianClassifier(
        n_ellipsoids=2, regularization=1e-4, tol=1e-3, random_state=0
    ).fit(X, y)
    assert several.score(X, y) > 0.95
    assert one.score(X, y) < 0.8
    assert several.matrices_.shape == (4, 3, 3)
    assert list(several.starts_) == [0, 2]
    hinge = clone(several).set_params(loss="hinge", tol=1e-1, max_iter=200).fit(X, y)
    assert hinge.score(X, y) > 0.9


def test_centroids_lie_among_the_rows_as_given() -> None:
    X, y = make_blobs(200, centers=[[100.0, -3e-3], [105.0, 3e-3]], cluster_std=0.5, random_state=0)
    X[:, 1] *= 1e-3
    model = LargeMarginGaussianClassifier().fit(X, y)
    rows = extended((X[:3] - model.mean_) / model.scale_)
    scaled = np.einsum("ni,kij,nj->nk", rows, model.matrices_, rows)
    np.testing.assert_allclose(model.distances(X[:3]), scaled, rtol=1e-9)
    distances = [
        [
            (x - m) @ p @ (x - m) + h
            for m, p, h in zip(model.centroids_, model.precisions_, model.offsets_, strict=True)
        ]
        for x in X[:3]
    ]
    np.testing.assert_allclose(model.distances(X[:3]), distances, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_awkward_data(rng: np.random.Generator) -> None:
    many = np.repeat(np.arange(30), 2)
    cases = {
        "two rows": (np.array([[0.0], [1.0]]), ["a", "b"]),
        "one feature": (
            rng.normal(size=(40, 1)) + np.repeat([[0], [4]], 20, axis=0),
            [0] * 20 + [1] * 20,
        ),
        "a constant column": (
            np.column_stack([np.arange(10.0), np.full(10, 0.1)]),
            [0] * 5 + [1] * 5,
        ),
        "a class of one row": (np.vstack([rng.normal(size=(20, 2)), [[9, 9]]]), [0] * 20 + [1]),
        "many classes": (np.column_stack([np.cos(many), np.sin(many), many]), many),
        "equal rows": (np.ones((6, 2)), [0, 0, 0, 1, 1, 1]),
        "huge numbers": (rng.normal(size=(20, 2)) * 1e150, [0] * 10 + [1] * 10),
    }
    for name, (X, y) in cases.items():
        for n_ellipsoids in (1, 3):
            model = LargeMarginGaussianClassifier(
                n_ellipsoids=n_ellipsoids, max_iter=100, random_state=0
            ).fit(X, y)
            assert np.isfinite(model.matrices_).all(), name
            assert set(model.predict(X)) <= set(y), name
            if name in ("two rows", "one feature", "a constant column", "many classes"):
                assert model.score(X, y) > 0.9, name


def test_user_errors_name_the_parameter() -> None:
    X, y = iris()
    for bad in (
        {"loss": "square"},
        {"regularizer": "nuclear"},
        {"scaling": "rows"},
        {"regularization": 0.0},
        {"huber_width": -1.0},
        {"n_ellipsoids": 0},
        {"positivity": "shift"},
    ):
        with pytest.raises(InvalidInputError, match=next(iter(bad))):
            LargeMarginGaussianClassifier(**bad).fit(X, y)
    with pytest.raises(InvalidInputError, match="class"):
        LargeMarginGaussianClassifier().fit(X[:1], y[:1])
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        LargeMarginGaussianClassifier(max_iter=2).fit(X, y)
