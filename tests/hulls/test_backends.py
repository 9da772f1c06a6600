"""The same answers from other array libraries, in their own kind of array."""

import array_api_strict
import numpy as np
import pytest

from sfumato.core.arrays import to_numpy
from sfumato.exceptions import InvalidInputError
from sfumato.models.hull_search import branch_distances, fit_branches
from sfumato.models.hulls import (
    AffineHullClassifier,
    DeepAffineHull,
    KernelAffineHull,
    WideAffineHull,
)


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


@pytest.fixture
def rows(rng):
    return rng.random((60, 7)), rng.random((20, 7))


def assert_same(found, expected, kind, rtol=1e-9):
    assert type(found) is type(kind)
    assert found.device == kind.device
    np.testing.assert_allclose(to_numpy(found), expected, rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("method", ["transform", "distance", "membership", "layer_images", "layer"])
def test_hulls_of_one_branch(foreign, rows, method):
    X, queries = rows
    hull = KernelAffineHull(4) if method == "membership" else DeepAffineHull(4, n_layers=3)
    if not hasattr(hull, method):
        hull = DeepAffineHull(4)
    expected = getattr(hull.fit(X), method)(queries)
    given = foreign(queries)
    assert_same(getattr(hull, method)(given), expected, given)  # a NumPy model, a foreign query
    hull.fit(foreign(X))
    assert_same(getattr(hull, method)(given), expected, given)
    assert isinstance(getattr(hull, method)(queries), np.ndarray)


def test_wide_hull(foreign, rows):
    X, queries = rows
    hull = WideAffineHull(4, n_layers=2, branch_size=20, random_state=0)
    expected = hull.fit(X).distance(queries), hull.transform(queries), hull.branch_
    given = foreign(queries)
    hull.fit(foreign(X))
    np.testing.assert_array_equal(hull.branch_, expected[2])
    assert_same(hull.distance(given), expected[0], given)
    assert_same(hull.transform(given), expected[1], given)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_classifier(foreign, rows, dtype):
    X, queries = rows
    y = np.arange(60) % 3
    model = AffineHullClassifier(4, n_layers=2, dtype=dtype, random_state=0)
    names = ["predict", "distances", "decision_function", "matching_score", "predict_proba"]
    expected = {name: getattr(model.fit(X, y), name)(queries) for name in names}
    pruned = model.predict(queries, search="pruned")
    given = foreign(queries)
    model.fit(foreign(X), foreign(y))
    rtol = 1e-9 if dtype == "float64" else 1e-3
    for name in names:
        assert_same(getattr(model, name)(given), expected[name], given, rtol)
    assert_same(model.predict(given, search="pruned"), pruned, given)
    model.fit(foreign(X), np.array(["a", "b", "c"])[y])
    np.testing.assert_array_equal(
        model.predict(given), np.array(["a", "b", "c"])[expected["predict"]]
    )


@pytest.mark.parametrize("stacked", [True, False])
def test_stacks(foreign, rows, stacked):
    X, queries = rows
    groups = [X[:30], X[30:41], X[41:44], X[50:51]]
    parameters = {"n_components": 4, "n_layers": 3, "dtype": "float64"}
    expected = branch_distances(fit_branches(groups, **parameters), queries)
    branches = fit_branches([foreign(g) for g in groups], stacked=stacked, **parameters)
    given = foreign(queries)
    assert_same(branch_distances(branches, given, stacked=stacked), expected, given)


def test_wrong_tensors_are_refused(foreign, rows):
    X, _ = rows
    hull = KernelAffineHull(3).fit(foreign(X))
    with pytest.raises(InvalidInputError, match="6 features, but KernelAffineHull is expecting 7"):
        hull.distance(foreign(X[:, :6]))
    with pytest.raises(InvalidInputError, match="2-D"):
        hull.distance(foreign(X[0]))
    broken = X.copy()
    broken[0, 0] = np.nan
    with pytest.raises(InvalidInputError, match="NaN or infinity"):
        hull.fit(foreign(broken))


def test_whole_numbers_become_floats(foreign):
    X = np.arange(12).reshape(6, 2) % 5
    found = KernelAffineHull(2).fit(foreign(X)).distance(foreign(X))
    expected = KernelAffineHull(2).fit(X).distance(X)
    np.testing.assert_allclose(to_numpy(found), expected, atol=1e-7)
