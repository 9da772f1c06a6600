import numpy as np

from sfumato.models.hulls import DeepAffineHull, KernelAffineHull

from .literal import LiteralDeepHull


def test_layers_equal_the_literal_formulas(digits):
    X, y = digits
    rows, queries = X[y == 8], X[y != 8][:80]
    hull = DeepAffineHull(5, n_layers=4).fit(rows)
    literal = LiteralDeepHull(rows, 5, 4)
    images = np.stack(literal.layer_images(queries), axis=1)
    np.testing.assert_allclose(hull.layer_images(queries), images, atol=1e-9)
    distances = literal.layer_distances(queries)
    assert set(distances.argmin(axis=1)) == {0, 1, 2, 3}  # each layer wins somewhere
    np.testing.assert_array_equal(hull.layer(queries), distances.argmin(axis=1) + 1)
    nearest = images[np.arange(len(queries)), distances.argmin(axis=1)]
    np.testing.assert_allclose(hull.transform(queries), nearest, atol=1e-9)
    expected = [layer.regularization for layer in literal.layers]
    np.testing.assert_allclose(hull.regularization_, expected, rtol=1e-9)


def test_deep_distance_never_exceeds_that_of_the_first_layer(rng):
    rows, queries = rng.random((50, 6)), rng.normal(size=(100, 6))
    deep, flat = DeepAffineHull(5, n_layers=4).fit(rows), KernelAffineHull(5).fit(rows)
    assert (deep.distance(queries) <= flat.distance(queries)).all()
    assert (deep.distance(queries) < flat.distance(queries)).any()


def test_one_layer_is_the_flat_hull(rng):
    rows, queries = rng.random((50, 6)), rng.random((10, 6))
    deep, flat = DeepAffineHull(5, n_layers=1).fit(rows), KernelAffineHull(5).fit(rows)
    np.testing.assert_array_equal(deep.transform(queries), flat.transform(queries))


def test_layers_are_capped_by_the_dimension(rng):
    hull = DeepAffineHull(3, n_layers=9).fit(rng.random((20, 5)))
    assert hull.n_layers_ == 3
    assert hull.layer_images(rng.random((2, 5))).shape == (2, 3, 5)
