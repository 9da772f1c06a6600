"""Hulls against the formulas as printed, degenerate rows, other array libraries and stacks."""

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sfumato import (
    AffineHullClassifier,
    DeepAffineHull,
    KernelAffineHull,
    WideAffineHull,
)
from sfumato.core.arrays import to_numpy
from sfumato.models import hull_search as search
from sfumato.models.hull_search import (
    branch_distances,
    cut_rows,
    distance,
    fit_branch,
    fit_branches,
    image,
)

from .literal_hulls import LiteralClassifier, LiteralDeepHull

PARAMETERS = {"n_components": 4, "n_layers": 3, "dtype": "float64"}


# One branch ---------------------------------------------------------------------------------------


def fit(rows, n=3, layers=2, dtype="float64"):
    return fit_branch(np.asarray(rows), n_components=n, n_layers=layers, dtype=dtype)


def assert_equals_literal(rows, queries, n, layers, rtol=1e-7):
    literal = LiteralDeepHull(rows, n, layers)
    branch = fit(rows, n, layers)
    np.testing.assert_allclose(distance(branch, queries), literal.distance(queries), rtol=rtol)
    expected = [layer.regularization for layer in literal.layers]
    np.testing.assert_allclose(branch["regularization"], expected, rtol=1e-8)


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


def test_layers_equal_the_literal_formulas(digits):
    X, y = digits
    rows, queries = X[y == 8], X[y != 8][:80]
    hull = DeepAffineHull(5, n_layers=4).fit(rows)
    literal = LiteralDeepHull(rows, 5, 4)
    images = np.stack(literal.layer_images(queries), axis=1)
    np.testing.assert_allclose(hull.layer_images(queries), images, atol=1e-9)
    distances = literal.layer_distances(queries)
    assert set(distances.argmin(axis=1)) == {0, 1, 2, 3}  # each layer wins somewhere
    nearest = images[np.arange(len(queries)), distances.argmin(axis=1)]
    np.testing.assert_allclose(hull.transform(queries), nearest, atol=1e-9)
    expected = [layer.regularization for layer in literal.layers]
    np.testing.assert_allclose(hull.hull_["regularization"], expected, rtol=1e-9)


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


def test_a_point_without_image_is_infinitely_far(counterexample):
    rows, point = counterexample
    n = rows.shape[1]
    single = KernelAffineHull(n).fit(rows)
    assert single.distance(point) == np.inf
    np.testing.assert_allclose(single.transform(point)[0], rows.mean(axis=0))
    for hull in (DeepAffineHull(n, n_layers=2), WideAffineHull(n)):
        assert hull.fit(rows).distance(point) == np.inf
        assert np.isfinite(hull.transform(point)).all()


def test_a_point_without_image_never_wins(counterexample):
    rows, point = counterexample
    far = rows + 5.0  # any other class, however far
    X, y = np.vstack([rows, far]), np.repeat(["near", "far"], len(rows))
    model = AffineHullClassifier(rows.shape[1]).fit(X, y)
    assert model.predict(point) == "far"
    assert np.isinf(model.distances(point)).tolist() == [[False, True]]
    np.testing.assert_allclose(model.matching_score(point), [[1.0, np.exp(-1)]])
    assert model.decision_function(point) == -1.0


# Many branches, classes ---------------------------------------------------------------------------


def classifier(**parameters):
    return AffineHullClassifier(8, **{"n_layers": 2, "random_state": 0, **parameters})


@pytest.fixture(scope="module")
def split(digits):
    X, y = digits
    return X[:900], y[:900], X[900:1500], y[900:1500]


@pytest.fixture(scope="module")
def fitted(split):
    return classifier(branch_size=50).fit(*split[:2])


def test_everything_equals_the_literal_formulas(split, fitted):
    X, y, queries, _ = split
    groups = []
    cut, owners = cut_rows(X, y, branch_size=50, random_state=np.random.RandomState(0))
    for label in fitted.classes_:
        groups.append([cut[i] for i in np.flatnonzero(owners == label)])
    assert [len(group) for group in groups] == [2] * 10
    literal, queries = LiteralClassifier(groups, 8, 2), queries[:50]
    distances = literal.distances(queries)
    np.testing.assert_allclose(fitted.distances(queries), distances, rtol=1e-7)
    np.testing.assert_array_equal(fitted.predict(queries), distances.argmin(axis=1))
    scores = literal.matching_score(queries)
    np.testing.assert_allclose(fitted.matching_score(queries), scores, rtol=1e-7)
    np.testing.assert_allclose(
        fitted.predict_proba(queries), scores / scores.sum(axis=1, keepdims=True), rtol=1e-7
    )
    np.testing.assert_allclose(fitted.decision_function(queries), np.log(scores), rtol=1e-6)


def test_merged_classes_are_the_union_of_branches(split):
    X, y, queries, _ = split
    few = y < 7
    parties = [
        classifier().fit(X[few], y[few]),
        classifier().fit(X[~few | (y == 1)], y[~few | (y == 1)]),
    ]
    merged = parties[0].merge(parties[1])
    assert merged.classes_.tolist() == list(range(10))
    first, second = (party.distances(queries) for party in parties)
    expected = np.column_stack([first, second[:, 1:]])
    expected[:, 1] = np.minimum(first[:, 1], second[:, 0])
    np.testing.assert_allclose(merged.distances(queries), expected, rtol=1e-9)
    assert [len(hull.branches_) for hull in merged.hulls_] == [1, 2] + [1] * 8


# Other array libraries, and stacks ----------------------------------------------------------------


def torch_tensor(x):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    return torch.as_tensor(np.array(x))


def cuda_tensor(x):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch.as_tensor(np.array(x), device="cuda")


@pytest.fixture(
    params=[
        pytest.param(array_api_strict.asarray, id="strict"),
        pytest.param(torch_tensor, id="torch", marks=pytest.mark.torch),
        pytest.param(cuda_tensor, id="cuda"),
    ]
)
def foreign(request):
    return request.param


def assert_same(found, expected, kind, rtol=1e-9):
    assert type(found) is type(kind)
    assert found.device == kind.device
    np.testing.assert_allclose(to_numpy(found), expected, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("method", ["transform", "distance", "layer_images"])
def test_hulls_of_one_branch(foreign, rng, method):
    X, queries = rng.random((60, 7)), rng.random((20, 7))
    hull = DeepAffineHull(4, n_layers=3)
    if not hasattr(hull, method):
        hull = DeepAffineHull(4)
    expected = getattr(hull.fit(X), method)(queries)
    given = foreign(queries)
    assert_same(getattr(hull, method)(given), expected, given)  # a NumPy model, a foreign query
    hull.fit(foreign(X))
    assert_same(getattr(hull, method)(given), expected, given)
    assert isinstance(getattr(hull, method)(queries), np.ndarray)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_classifier_of_tensors(foreign, rng, dtype):
    X, queries = rng.random((60, 7)), rng.random((20, 7))
    y = np.arange(60) % 3
    model = AffineHullClassifier(4, n_layers=2, dtype=dtype, random_state=0)
    names = ["predict", "distances", "decision_function", "matching_score", "predict_proba"]
    expected = {name: getattr(model.fit(X, y), name)(queries) for name in names}
    given = foreign(queries)
    model.fit(foreign(X), foreign(y))
    rtol = 1e-9 if dtype == "float64" else 1e-3
    for name in names:
        assert_same(getattr(model, name)(given), expected[name], given, rtol)
    model.fit(foreign(X), np.array(["a", "b", "c"])[y])
    np.testing.assert_array_equal(
        model.predict(given), np.array(["a", "b", "c"])[expected["predict"]]
    )


@pytest.fixture(params=[6, 40], ids=["tall", "wide"])
def groups(rng, request):
    """Branches of different size and rank, one of them a single point."""
    p = request.param
    flat = rng.random((12, 2)) @ rng.random((2, p))
    return [rng.random((25, p)), rng.random((9, p)), flat, np.full((5, p), 0.3), rng.random((3, p))]


@pytest.mark.parametrize("limit", [search.STACK_BYTES, 8 * 2 * 25**2], ids=["one", "several"])
def test_stack_equals_one_by_one(groups, rng, limit, monkeypatch):
    monkeypatch.setattr(search, "STACK_BYTES", limit)
    queries = rng.normal(size=(30, groups[0].shape[1]))
    stacked, single = (fit_branches(groups, stacked=s, **PARAMETERS) for s in (True, False))
    for branch, rows in zip(stacked, groups, strict=True):
        np.testing.assert_allclose(branch["mean"], rows.mean(axis=0))
    expected = np.stack([distance(branch, queries) for branch in single], axis=1)
    for branches in (stacked, single):
        assert [b["n_components"] for b in branches] == [4, 4, 2, 0, 2]
        assert [b["coefficients"].shape[0] for b in branches] == [3, 3, 2, 1, 2]
        for as_stack in (True, False):
            found = branch_distances(branches, queries, stacked=as_stack)
            np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_hulls_by_products_equal_those_by_eigenvectors(rng, monkeypatch, dtype):
    """What an accelerator does instead of finding all eigenvectors, here on the processor."""
    directions = rng.standard_normal((260, 260)) * 0.9 ** np.arange(260)[:, None]
    groups = [rng.random((n, 260)) @ directions / 30 for n in (300, 280)]
    queries = rng.random((20, 260)) @ directions / 30
    parameters = {**PARAMETERS, "dtype": dtype}
    expected = branch_distances(fit_branches(groups, stacked=True, **parameters), queries)
    monkeypatch.setattr(search, "is_accelerated", lambda rows: True)
    found = fit_branches(groups, stacked=True, **parameters)
    assert [each["basis"][0].shape for each in found] == [(260, 260)] * 2
    rtol = 1e-7 if dtype == "float64" else 1e-3
    np.testing.assert_allclose(branch_distances(found, queries), expected, rtol=rtol)
    monkeypatch.setattr(search, "leading_eigenvectors", lambda *given: None)  # not certified
    found = fit_branches(groups, stacked=True, **parameters)
    np.testing.assert_allclose(branch_distances(found, queries), expected, rtol=rtol)


# Rows cut into branches ---------------------------------------------------------------------------


def cut(rows, size, how="kmeans", seed=0):
    state = np.random.RandomState(seed)
    groups, _ = cut_rows(rows, branch_size=size, partition=how, random_state=state)
    found = np.empty(len(rows), dtype=np.intp)
    for number, places in enumerate(groups.places):
        found[places] = number
    return found


@pytest.mark.parametrize("library", [np, array_api_strict], ids=["numpy", "strict"])
def test_classes_cut_at_once_are_those_one_after_the_other(library, rng):
    """Classes of one, three and four clusters; the state is left as it would be."""
    sizes, n_clusters = (20, 70, 95, 8), (1, 3, 4, 1)
    codes = np.repeat(np.arange(4), sizes)
    own = np.concatenate([rng.integers(n, size=k) for k, n in zip(sizes, n_clusters, strict=True)])
    rows = library.asarray(100 + 30 * np.eye(6)[own] + rng.normal(size=(len(codes), 6)))
    found = []
    for stacked in (False, True):
        state = np.random.RandomState(3)
        groups, owners = cut_rows(rows, codes, branch_size=25, random_state=state, stacked=stacked)
        found.append((groups.places, state.randint(10**9)))
        assert owners.tolist() == np.repeat(np.arange(4), n_clusters).tolist()
        assert sorted(np.concatenate(groups.places)) == list(range(len(codes)))
    assert found[0][1] == found[1][1]
    for apart, together in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_array_equal(apart, together)
