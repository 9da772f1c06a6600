import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.models.hull_search import distance, fit_branch, image, layer_width_scale

from .literal import LiteralDeepHull


def fit(rows, n=3, layers=2, dtype="float64"):
    return fit_branch(np.asarray(rows), n_components=n, n_layers=layers, dtype=dtype)


def assert_equals_literal(rows, queries, n, layers, rtol=1e-7):
    literal = LiteralDeepHull(rows, n, layers)
    branch = fit(rows, n, layers)
    np.testing.assert_allclose(distance(branch, queries), literal.distance(queries), rtol=rtol)
    expected = [layer.regularization for layer in literal.layers]
    np.testing.assert_allclose(branch["regularization"], expected, rtol=1e-8)


@pytest.mark.parametrize("label", [0, 8])
def test_digits_equal_the_literal_formulas(digits, label):
    X, y = digits
    assert_equals_literal(X[y == label], X[y != label][:200], n=20, layers=5)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    shape=st.tuples(st.integers(8, 40), st.integers(2, 60)),
    scale=st.sampled_from([0.1, 1.0, 10.0]),
    offset=st.sampled_from([0.0, -0.5, 3.0]),
)
def test_random_rows_equal_the_literal_formulas(seed, shape, scale, offset):
    """Tall and wide data take different routes to the principal directions."""
    rng = np.random.default_rng(seed)
    rows = scale * (rng.random(shape) + offset)
    queries = scale * (rng.random((20, shape[1])) + offset)
    n = min(4, shape[0] - 2, shape[1])
    assert_equals_literal(rows, queries, n, min(2, n))


def test_offset_costs_no_digits(rng):
    rows, queries = rng.random((30, 5)) + 1000, rng.random((10, 5)) + 1000
    assert_equals_literal(rows, queries, 3, 2)


def test_order_of_rows_does_not_matter(rng, digits):
    X, y = digits
    rows, queries = X[y == 3], X[y != 3][:100]
    shuffled = rng.permutation(rows)
    found = distance(fit(shuffled, 20, 3), queries)
    np.testing.assert_allclose(found, distance(fit(rows, 20, 3), queries), rtol=1e-9)


@pytest.mark.parametrize("wide", [False, True])
def test_single_precision_model_is_close(rng, wide):
    p, decades = (90, 14) if wide else (12, 2)  # wide: more than single precision resolves
    scales = 10.0 ** -np.linspace(0, decades, p)
    rows, queries = scales * rng.random((40, p)), scales * rng.random((15, p))
    single = fit(rows, 5, 3, dtype="float32")
    arrays = [*single["basis"], single["inducing"], single["coefficients"], single["deviations"]]
    assert {array.dtype for array in arrays} == {np.dtype("float32")}
    single["mean"] = single["mean"].astype(np.float32)
    found = distance(single, queries.astype(np.float32))
    np.testing.assert_allclose(found, distance(fit(rows, 5, 3), queries), rtol=1e-4)


def test_model_of_tall_data_holds_no_row(rng):
    rows = rng.random((50, 6))
    branch = fit(rows)
    for array in (*branch["basis"], branch["inducing"], branch["coefficients"]):
        if array.shape[-1] == rows.shape[1]:
            assert not any(np.allclose(row, rows[0]) for row in array.reshape(-1, rows.shape[1]))


# Degenerate rows ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        [[0.3, -2.0, 7.0]],
        [[0.3, -2.0, 7.0]] * 6,
        np.zeros((4, 3)),
        [[0.1 + 0.2, 1e9, -1e-9]] * 7,
        [[1e-300, 0.0, 0.0]] * 3,
    ],
    ids=["one row", "equal rows", "zeros", "equal rows of mixed size", "tiny"],
)
def test_rows_that_are_one_point_give_the_constant_map(rows):
    rows = np.asarray(rows)
    branch = fit(rows)
    queries = rows[:1] + np.array([[0.0] * 3, [1.0, 2.0, 2.0], [1e6, 0.0, 0.0]])
    assert branch["n_components"] == 0
    np.testing.assert_allclose(image(branch, queries), np.repeat(rows[:1], 3, 0), rtol=1e-12)
    expected = np.linalg.norm(queries - rows[:1], axis=1)
    np.testing.assert_allclose(distance(branch, queries), expected, rtol=1e-12, atol=1e-9)


def test_two_rows_span_a_line():
    branch = fit([[0.0, 0.0], [1.0, 1.0]], n=2)
    assert branch["n_components"] == 1
    found = distance(branch, np.array([[0.5, 0.5], [1.0, 0.0]]))
    np.testing.assert_allclose(found[0], 0.0, atol=1e-7)
    np.testing.assert_allclose(found[1], np.sqrt(0.5), rtol=1e-7)


@pytest.mark.parametrize(
    ("rows", "rank"),
    [
        (lambda r: np.column_stack([r.random((20, 2)), np.full(20, 5.0)]), 2),
        (lambda r: r.random((20, 1)) @ [[1.0, 2.0, -3.0]], 1),
        (lambda r: (r.random((20, 2)) @ r.random((2, 3))).astype(np.float32), 2),
        (lambda r: r.random((3, 3)), 2),
        (lambda r: np.repeat(r.random((4, 3)), 5, axis=0), 3),
    ],
    ids=["constant feature", "collinear", "collinear float32", "N <= n", "duplicates"],
)
def test_components_and_layers_are_capped_by_the_rank(rng, rows, rank):
    branch = fit(rows(rng), n=20, layers=20)
    assert branch["n_components"] == rank
    assert branch["coefficients"].shape[0] == rank
    found = distance(branch, rng.random((10, 3)))
    assert np.isfinite(found).all()


def test_duplicates_equal_the_literal_formulas(rng):
    rows = np.repeat(rng.random((10, 4)), 3, axis=0)
    assert_equals_literal(rows, rng.random((8, 4)), 3, 2)


@pytest.mark.parametrize("scale", [1e-9, 1e-6, 1e6, 1e12])
def test_extreme_scales_stay_finite(rng, scale):
    rows = scale * rng.random((40, 4))
    found = distance(fit(rows), rows)
    assert np.isfinite(found).all()
    assert (found <= scale * 10).all()


def test_width_scale_of_a_stack_marks_missing_layers():
    like = np.zeros((3, 5, 2))
    found = layer_width_scale(np.array([3, 2, 0]), 1, like)
    np.testing.assert_allclose(found[:, 0], [[2**-0.5, 2**-0.5], [1.0, 0.0], [0.0, 0.0]])
    assert layer_width_scale(3, 1, like) == 2**-0.5
