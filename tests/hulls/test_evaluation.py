import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.models.hulls import (
    AffineHullClassifier,
    DeepAffineHull,
    KernelAffineHull,
    WideAffineHull,
)

from .literal import LiteralHull

# Two sets of rows with a point where the sum of the memberships is negative, against Theorem 2.
COUNTEREXAMPLES = {
    "plane": (
        np.array([[3, -20], [-1, -27], [-12, -20], [-12, -3], [3, -8]]) / 1000,
        np.array([[0.0777, -0.0725]]),
    ),
    "cube": (
        np.random.default_rng(0).random((10, 6)) * 0.2,
        np.array([[0.259, 0.048, -0.282, 0.148, -0.031, -0.097]]),
    ),
}


@pytest.fixture(params=COUNTEREXAMPLES)
def counterexample(request):
    return COUNTEREXAMPLES[request.param]


def test_the_literal_sum_is_negative(counterexample):
    rows, point = counterexample
    assert LiteralHull(rows, rows.shape[1]).h(point).sum() < 0


def test_a_point_without_image_is_infinitely_far(counterexample):
    rows, point = counterexample
    n = rows.shape[1]
    single = KernelAffineHull(n).fit(rows)
    assert single.distance(point) == np.inf
    np.testing.assert_array_equal(single.membership(point), 0.0)
    np.testing.assert_allclose(single.transform(point)[0], rows.mean(axis=0))
    for hull in (DeepAffineHull(n, n_layers=2), WideAffineHull(n)):
        assert hull.fit(rows).distance(point) == np.inf
        assert np.isfinite(hull.transform(point)).all()


def test_nothing_is_nan_on_the_way_through_the_pole(counterexample):
    rows, point = counterexample
    hull = DeepAffineHull(rows.shape[1], n_layers=2).fit(rows)
    centre = rows.mean(axis=0)
    path = centre + np.linspace(0, 3, 2001)[:, None] * (point - centre)
    found = hull.distance(path)
    assert not np.isnan(found).any()
    assert np.isfinite(found[:400]).all()
    assert np.isinf(found).any()


def test_a_point_without_image_never_wins(counterexample):
    rows, point = counterexample
    far = rows + 5.0  # any other class, however far
    X, y = np.vstack([rows, far]), np.repeat(["near", "far"], len(rows))
    for search in ("exact", "pruned"):
        model = AffineHullClassifier(rows.shape[1], search=search).fit(X, y)
        assert model.predict(point) == "far"
    assert np.isinf(model.distances(point)).tolist() == [[False, True]]
    np.testing.assert_allclose(model.matching_score(point), [[1.0, np.exp(-1)]])
    assert model.decision_function(point) == -1.0


def test_a_point_without_any_image_gets_the_first_class(counterexample):
    rows, point = counterexample
    X, y = np.vstack([rows, rows]), np.repeat([1, 2], len(rows))
    model = AffineHullClassifier(rows.shape[1]).fit(X, y)
    assert model.predict(point) == [1]
    np.testing.assert_allclose(model.predict_proba(point), 0.5)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), factor=st.floats(1.0, 1e8))
def test_far_points_give_no_nan(seed, factor):
    rng = np.random.default_rng(seed)
    hull = DeepAffineHull(3, n_layers=2).fit(rng.random((25, 4)))
    queries = factor * rng.normal(size=(20, 4))
    assert not np.isnan(hull.distance(queries)).any()
    assert np.isfinite(hull.transform(queries)).all()


def test_memberships_sum_to_one_and_give_the_image(rng):
    rows, queries = rng.random((30, 5)), rng.random((12, 5))
    hull = KernelAffineHull(3).fit(rows)
    weights = hull.membership(queries)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-9)
    np.testing.assert_allclose(weights, LiteralHull(rows, 3).weights(queries), atol=1e-9)
    np.testing.assert_allclose(weights @ rows, hull.transform(queries), atol=1e-9)


def test_memberships_are_symmetric_with_spectrum_below_one(rng):
    """H = K (K + λI)^-1, the memberships of the rows before they are normalised."""
    rows = rng.random((25, 4))
    hull = KernelAffineHull(3).fit(rows)
    literal = LiteralHull(rows, 3)
    sums = literal.h(rows).sum(axis=1, keepdims=True)
    H = hull.membership(rows) * sums
    np.testing.assert_allclose(H, H.T, atol=1e-9)
    spectrum = np.linalg.eigvalsh((H + H.T) / 2)
    values = np.linalg.eigvalsh(literal.K)
    np.testing.assert_allclose(spectrum, values / (values + hull.regularization_), atol=1e-9)
    assert spectrum.min() >= -1e-12
    assert spectrum.max() < 1
