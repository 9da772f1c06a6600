"""The exact statistic, its sensitivity, and the three estimators built on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sfumato import Bounds, Ledger, PrivateGaussianClassifier, PrivateMoments, PrivatePCA
from sfumato.audit.testing import seeded_noise
from sfumato.exceptions import (
    BudgetExceededError,
    InvalidInputError,
    MissingBoundsError,
    UnsupportedModeError,
)
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms import GaussianMechanism
from sfumato.models import gaussians as pca_module
from sfumato.models.gaussians import gaussians_from_moments, top_eigenvectors
from sfumato.privacy import epsilon_spent
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Relation
from sfumato.sums.grid import MAX_ROWS_SECRET_N
from sfumato.sums.maps import exact_projection
from sfumato.sums.statistics import ClassMoments

UNIT = Bounds(norm=1.0)


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
    reduced = pca.transform(X)
    np.testing.assert_allclose(pca.transform(pca.inverse_transform(reduced)), reduced, atol=1e-9)
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


def test_counts_add_up_to_the_public_number_of_rows(seed: int) -> None:
    X, y = blobs(seed)
    bounds = Bounds(norm=30.0, labels=[0, 1, 2])
    model = PrivateMoments(epsilon=0.5, bounds=bounds)
    assert model.fit(X, y).counts_.sum() == pytest.approx(len(X), abs=1e-6)
    assert model.set_params(bounds=Bounds(norm=30.0)).fit(X).counts_[0] == len(X)
    model.set_params(relation="add_or_remove_one")
    assert model.fit(X).counts_[0] != len(X)  # secret there


def test_the_weight_of_the_constant_costs_means_little_and_spares_second_moments() -> None:
    """Against weight 1, where the noise of means is least: by the sensitivities alone."""
    noise = {w: ClassMoments(1, 4, w).term_sensitivity(Relation.REPLACE_ONE) for w in (1.0, 7 / 8)}
    assert noise[7 / 8] / (7 / 8) <= 1.01 * noise[1.0]  # means
    assert noise[7 / 8] <= 0.89 * noise[1.0]  # second moments
    model = PrivateMoments(epsilon=1.0, bounds=UNIT).fit(np.zeros((50, 4)))
    (event,) = model.guarantee_.events
    assert 1 / event.noise_multiplier == pytest.approx(mu_from_budget(1.0, 1e-6))


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


@pytest.mark.parametrize("n_components", [None, 2])
def test_one_release_without_noise_is_quadratic_discriminant_analysis(
    seed: int, n_components: int | None
) -> None:
    """Of the rows as they are, along the axes of all of them."""
    X, y = blobs(seed)
    model = PrivateGaussianClassifier(
        n_components,
        single_release=True,
        epsilon=np.inf,
        bounds=Bounds(norm=30.0, labels=[0, 1, 2]),
    ).fit(X, y)
    assert len(model.guarantee_.events) == 1
    seen = PCA(n_components).fit_transform(X)
    oracle = QuadraticDiscriminantAnalysis(tol=1e-12).fit(seen, y)
    np.testing.assert_allclose(model.predict_proba(X), oracle.predict_proba(seen), atol=0.02)
    np.testing.assert_allclose(model.centre_, X.mean(axis=0), atol=1e-3)


def test_one_release_gives_one_gaussian_a_class(seed: int) -> None:
    X, y = blobs(seed)
    bounds = Bounds(norm=30.0, labels=[0, 1, 2])
    model = PrivateGaussianClassifier(single_release=True, gaussians_per_class=2, bounds=bounds)
    with pytest.raises(InvalidInputError, match="need a further release"):
        model.fit(X, y)


@pytest.mark.usefixtures("noise")
def test_several_gaussians_a_class_learn_classes_of_several_forms(seed: int) -> None:
    """Two classes on the corners of a square, crosswise: one Gaussian each cannot tell them."""
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, 2, size=(4000, 2))
    X = 0.6 * (2 * corner - 1) * [1.0, 0.8] + 0.1 * rng.normal(size=(4000, 2))
    y = corner[:, 0] ^ corner[:, 1]
    bounds = Bounds(norm=2.0, labels=[0, 1])
    scores = [
        PrivateGaussianClassifier(
            None, gaussians_per_class=parts, epsilon=20.0, delta=1e-5, bounds=bounds
        )
        .fit(X, y)
        .score(X, y)
        for parts in (2, None)
    ]
    assert min(scores) > 0.95
    model = PrivateGaussianClassifier(
        None, gaussians_per_class=2, epsilon=20.0, delta=1e-5, bounds=bounds
    ).fit(X, y)
    assert model.gaussian_classes_.tolist() == [0, 0, 1, 1]
    assert len(model.guarantee_.events) == 3
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.usefixtures("noise")
def test_accuracy_grows_with_the_budget(digits: tuple[np.ndarray, np.ndarray], seed: int) -> None:
    X, y = digits
    scores = []
    for epsilon in (0.5, 5.0, 50.0, np.inf):
        model = PrivateGaussianClassifier(
            15, epsilon=epsilon, delta=1e-5, bounds=Bounds(norm=6.0, labels=range(10))
        )
        with seeded_noise(seed):
            scores.append(np.mean([clone(model).fit(X, y).score(X, y) for _ in range(3)]))
    assert scores == sorted(scores)
    assert scores[0] < 0.6 < 0.9 < scores[-1]


def test_moments_error_falls_with_the_number_of_rows(seed: int) -> None:
    errors = []
    for n in (500, 5000, 50_000):
        X = np.random.default_rng(seed).uniform(size=(n, 3))
        with seeded_noise(seed):
            fits = [
                PrivateMoments(epsilon=1.0, bounds=Bounds(lower=0.0, upper=1.0)).fit(X)
                for _ in range(3)
            ]
        errors.append(np.mean([np.abs(f.means_ - X.mean(axis=0)).max() for f in fits]))
    assert errors[2] < errors[1] < errors[0]


def test_noisy_covariances_are_positive_definite(rng: np.random.Generator) -> None:
    noise = 40.0
    moments = rng.normal(size=(5, 9, 9)) * noise
    moments = (moments + np.swapaxes(moments, 1, 2)) / 2
    gaussians = gaussians_from_moments(moments, noise)
    assert np.isfinite(gaussians.covariances).all()
    assert np.linalg.eigvalsh(gaussians.covariances).min() > 0
    assert (np.linalg.norm(gaussians.means, axis=1) <= 1 + 1e-12).all()
    assert (gaussians.counts >= 1).all()


def test_algebraic_eigenvalues_are_taken_not_absolute_ones() -> None:
    values, vectors = top_eigenvectors(np.diag([-9.0, 1.0, 3.0]), 2)
    np.testing.assert_allclose(values, [3.0, 1.0])
    np.testing.assert_allclose(vectors, [[0, 0], [0, 1], [1, 0]], atol=1e-12)


# The promise ------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_the_guarantee_is_what_the_events_cost(relation: str, seed: int) -> None:
    X, y = blobs(seed, 200)
    model = PrivateGaussianClassifier(
        2,
        gaussians_per_class=1,
        epsilon=1.5,
        delta=1e-4,
        relation=relation,
        bounds=Bounds(norm=30.0, labels=[0, 1, 2]),
    ).fit(X, y)
    guarantee = model.guarantee_
    assert len(guarantee.events) == 3
    assert epsilon_spent(guarantee.events, 1e-4) == pytest.approx(1.5, rel=1e-6)
    assert guarantee.epsilon <= 1.5
    assert ("number of rows" in guarantee.public) == (relation == "replace_one")
    most = f"at most 2**{MAX_ROWS_SECRET_N.bit_length() - 1} rows"
    assert (most in guarantee.public) == (relation == "add_or_remove_one")
    assert len(model.dp_events()) == 3


def test_labels_declared_public_are_said_to_be(seed: int) -> None:
    X, y = blobs(seed, 200)
    model = PrivateGaussianClassifier(epsilon=1.0, bounds=Bounds(norm=9.0, labels="public"))
    assert "set of labels found in the data" in model.fit(X, y).guarantee_.public


def test_fitting_twice_charges_twice(seed: int) -> None:
    X, _ = blobs(seed, 100)
    model = PrivatePCA(1, epsilon=1.0, bounds=Bounds(norm=9.0))
    event = model.fit(X).guarantee_.events[0]
    receipt = Receipt([event, event], unit="record", relation="replace_one")
    model.set_params(ledger=receipt)
    model.fit(X).fit(X)
    assert receipt.unused() == ()


def test_what_is_not_offered_is_refused(seed: int) -> None:
    X, y = blobs(seed, 60)
    bounds = Bounds(norm=9.0, labels=[0, 1, 2])
    for name, value, error in (
        ("unit", "entry", UnsupportedModeError),
        ("unit", "person", InvalidInputError),
        ("relation", "swap", InvalidInputError),
        ("epsilon", 0.0, InvalidInputError),
        ("epsilon", -1.0, InvalidInputError),
        ("delta", 1.0, InvalidInputError),
        ("delta", 0.0, InvalidInputError),
        ("bounds", None, MissingBoundsError),
        ("bounds", (0, 1), MissingBoundsError),
        ("bounds", Bounds(labels=[0, 1, 2]), MissingBoundsError),
        ("bounds", Bounds(norm=9.0), MissingBoundsError),
        ("bounds", Bounds(norm=9.0, labels=[0]), InvalidInputError),
        ("gaussians_per_class", 3, InvalidInputError),
        ("n_components", 0, InvalidInputError),
        ("n_components", 2.5, InvalidInputError),
        ("ledger", "budget.db", InvalidInputError),
    ):
        model = PrivateGaussianClassifier(2, bounds=bounds).set_params(**{name: value})
        with pytest.raises(error):
            model.fit(X, y)


def test_bad_tables_are_refused_in_our_own_words(seed: int) -> None:
    X, y = blobs(seed, 60)
    model = PrivateGaussianClassifier(2, bounds=Bounds(norm=9.0, labels=[0, 1, 2]))
    for bad_X, bad_y in (
        (np.full(60, 123.456), y),
        (np.empty((0, 4)), y[:0]),
        (X[:10], y),
        (X, None),
        (X, np.column_stack([y, y])),
    ):
        with pytest.raises(InvalidInputError) as caught:
            model.fit(bad_X, bad_y)
        assert "123.456" not in str(caught.value)
    fitted = model.fit(X, y)
    with pytest.raises(InvalidInputError, match="4 features"):
        fitted.predict(X[:, :2])


def test_one_odd_label_cannot_make_fit_raise(seed: int) -> None:
    X, y = blobs(seed, 60)
    model = PrivateGaussianClassifier(2, bounds=Bounds(norm=9.0, labels=[0, 1, 2]))
    for odd in (None, "unknown", np.nan, [1]):
        labels: list[object] = y.tolist()
        labels[5] = odd
        model.fit(X, labels)


def test_a_projected_row_does_not_depend_on_its_place(rng: np.random.Generator) -> None:
    X = UNIT.clip(rng.normal(size=(4097, 30)))
    basis = np.linalg.qr(rng.normal(size=(30, 5)))[0]
    together = exact_projection(X, basis)
    alone = np.concatenate([exact_projection(X[i : i + 1], basis) for i in range(0, 4097, 64)])
    np.testing.assert_array_equal(together[::64], alone)
    assert np.abs(together - X @ basis).max() < 2.0**-20


def test_a_fit_that_would_cost_more_than_it_says_draws_nothing(seed: int) -> None:
    X, _ = blobs(seed, 60)
    model = PrivatePCA(1, epsilon=1.0, bounds=Bounds(norm=9.0)).fit(X)
    greedy = GaussianMechanism.calibrate(sensitivity=1.0, epsilon=1.1, delta=model.delta)
    with pytest.raises(BudgetExceededError, match="Nothing was drawn"):
        model._charge(greedy)


def test_a_delta_above_one_over_n_is_warned_of(seed: int) -> None:
    X, _ = blobs(seed, 50)
    with pytest.warns(UserWarning, match="1/number of rows"):
        PrivatePCA(1, delta=0.1, bounds=Bounds(norm=9.0)).fit(X)
    # Where the number of rows is secret, nothing may be said about it.
    PrivatePCA(1, delta=0.1, relation="add_or_remove_one", bounds=Bounds(norm=9.0)).fit(X)


@pytest.mark.usefixtures("noise")
def test_works_in_pipelines_and_searches(seed: int) -> None:
    X, y = blobs(seed, 600)
    pipeline = make_pipeline(
        PrivatePCA(3, epsilon=50.0, bounds=Bounds(norm=30.0)),
        PrivateGaussianClassifier(None, epsilon=50.0, bounds=Bounds(norm=30.0, labels=[0, 1, 2])),
    )
    assert pipeline.fit(X, y).score(X, y) > 0.7
    search = GridSearchCV(
        PrivateGaussianClassifier(epsilon=50.0, bounds=Bounds(norm=30.0, labels=[0, 1, 2])),
        {"n_components": [2, 4]},
        cv=2,
    )
    assert search.fit(X, y).best_score_ > 0.6


def test_mutating_the_input_after_fit_changes_nothing(seed: int) -> None:
    X, y = blobs(seed, 300)
    model = PrivateGaussianClassifier(2, bounds=Bounds(norm=30.0, labels=[0, 1, 2])).fit(X, y)
    probe = X[:20].copy()
    before = model.predict_proba(probe)
    X[:] = 1e6
    y[:] = 0
    np.testing.assert_array_equal(model.predict_proba(probe), before)


def test_a_search_over_private_models_is_charged_fit_by_fit(tmp_path: Path, seed: int) -> None:
    """Two settings, three folds and the refit: seven fits, seven charges, from two processes."""
    X, y = blobs(seed, 120)
    ledger = Ledger(tmp_path / "budget.db")
    budget = ledger.create("rows", epsilon=1000.0, delta=1e-5)
    model = PrivateGaussianClassifier(
        None,
        gaussians_per_class=1,
        epsilon=5.0,
        bounds=Bounds(norm=30.0, labels=[0, 1, 2]),
        ledger=budget,
    )
    GridSearchCV(model, {"epsilon": [5.0, 6.0]}, cv=3, n_jobs=2).fit(X, y)
    assert len(budget.events()) == 7 * 2  # without components and parts a fit has two releases
    assert ledger.verify()


def test_a_fit_is_an_event_that_other_libraries_can_count(seed: int) -> None:
    X, y = blobs(seed, 120)
    model = PrivateGaussianClassifier(
        2, epsilon=2.0, delta=1e-5, bounds=Bounds(norm=30.0, labels=[0, 1, 2])
    ).fit(X, y)
    figures = []
    for relation in (NeighboringRelation.REPLACE_SPECIAL, NeighboringRelation.REPLACE_ONE):
        accountant = PLDAccountant(relation)
        for event in model.dp_events():
            accountant.compose(event)
        figures.append(accountant.get_epsilon(1e-5))
    assert figures[0] == pytest.approx(2.0, rel=1e-3)
    assert figures[1] > 4.0  # the library doubles the sensitivity: safe, and not exact


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
