import numpy as np
import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.models.hulls import KernelAffineHull

from .literal import LiteralHull


def test_every_method_equals_the_literal_formulas(rng):
    rows, queries = rng.random((40, 6)), rng.random((15, 6))
    hull, literal = KernelAffineHull(4).fit(rows), LiteralHull(rows, 4)
    images = literal.image(queries)
    np.testing.assert_allclose(hull.transform(queries), images, rtol=1e-8)
    np.testing.assert_allclose(
        hull.distance(queries), np.linalg.norm(queries - images, axis=1), rtol=1e-8
    )
    np.testing.assert_allclose(hull.regularization_, literal.regularization, rtol=1e-9)
    assert hull.n_components_ == 4


def test_images_lie_in_the_affine_hull(rng):
    plane = rng.random((30, 2)) @ rng.random((2, 5)) + rng.random(5)
    images = KernelAffineHull(2).fit(plane).transform(rng.random((10, 5)))
    joined = np.vstack([plane, images]) - plane.mean(axis=0)
    assert np.linalg.matrix_rank(joined, tol=1e-9) == 2


def test_batches_do_not_show(rng):
    rows, queries = rng.random((30, 4)), rng.random((1100, 4))
    hull = KernelAffineHull(3).fit(rows)
    whole = hull.distance(queries)
    np.testing.assert_allclose(whole[:7], hull.distance(queries[:7]), rtol=1e-12)
    np.testing.assert_allclose(whole[-7:], hull.distance(queries[-7:]), rtol=1e-12)


@pytest.mark.parametrize("n_components", [0, -1, 2.5, True, "many"])
def test_wrong_number_of_components_is_named(n_components):
    with pytest.raises(InvalidInputError, match="'n_components' must be a whole number from 1 on"):
        KernelAffineHull(n_components).fit(np.eye(3))


def test_wrong_precision_is_named():
    with pytest.raises(InvalidInputError, match="'dtype' must be one of"):
        KernelAffineHull(dtype="float16").fit(np.eye(3))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_missing_and_infinite_numbers_are_refused(value):
    rows = np.eye(4)
    rows[1, 2] = value
    with pytest.raises(InvalidInputError, match=r"NaN|infinity"):
        KernelAffineHull().fit(rows)
    with pytest.raises(InvalidInputError, match=r"NaN|infinity"):
        KernelAffineHull().fit(np.eye(4)).distance(rows)


def test_wrong_width_is_refused():
    with pytest.raises(InvalidInputError, match="3 features, but KernelAffineHull is expecting 4"):
        KernelAffineHull().fit(np.eye(4)).distance(np.eye(3))


def test_message_about_text_does_not_quote_it():
    with pytest.raises(InvalidInputError, match="must contain numbers") as caught:
        KernelAffineHull().fit(np.array([["1", "secret"], ["2", "3"]], dtype=object))
    assert "secret" not in str(caught.value)
