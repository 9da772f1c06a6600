import numpy as np
import pytest

from sfumato.models import hull_search as search
from sfumato.models.hull_search import branch_distances, distance, fit_branches

PARAMETERS = {"n_components": 4, "n_layers": 3, "dtype": "float64"}


@pytest.fixture(params=[6, 40], ids=["tall", "wide"])
def groups(rng, request):
    """Branches of different size and rank, one of them a single point."""
    p = request.param
    flat = rng.random((12, 2)) @ rng.random((2, p))
    return [rng.random((25, p)), rng.random((9, p)), flat, np.full((5, p), 0.3), rng.random((3, p))]


def test_stack_equals_one_by_one(groups, rng):
    queries = rng.normal(size=(30, groups[0].shape[1]))
    stacked, single = (fit_branches(groups, stacked=s, **PARAMETERS) for s in (True, False))
    expected = np.stack([distance(branch, queries) for branch in single], axis=1)
    for branches in (stacked, single):
        assert [b["n_components"] for b in branches] == [4, 4, 2, 0, 2]
        assert [b["coefficients"].shape[0] for b in branches] == [3, 3, 2, 1, 2]
        for as_stack in (True, False):
            found = branch_distances(branches, queries, stacked=as_stack)
            np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_padding_does_not_hide_far_points(groups, rng):
    branches = fit_branches(groups, **PARAMETERS)
    queries = 1e4 * rng.normal(size=(20, groups[0].shape[1]))
    found = [branch_distances(branches, queries, stacked=s) for s in (True, False)]
    np.testing.assert_allclose(*found, rtol=1e-8)


def test_branches_of_a_stack_own_their_memory(groups):
    for branch in fit_branches(groups, stacked=True, **PARAMETERS):
        for array in (branch["mean"], branch["coefficients"], branch["inducing"]):
            assert array.base is None


def test_chunks_respect_the_limit_and_lose_nothing(monkeypatch):
    monkeypatch.setattr(search, "STACK_BYTES", 8 * 3 * 100**2)
    sizes = [10, 100, 50, 100, 20, 100, 100, 300]
    chunks = list(search.chunks_for_stacking(sizes))
    assert sorted(i for chunk in chunks for i in chunk) == list(range(8))
    for chunk in chunks:
        largest = max(sizes[i] for i in chunk)
        assert len(chunk) == 1 or len(chunk) * largest**2 <= 3 * 100**2


def test_several_chunks_come_back_in_order(groups, monkeypatch):
    monkeypatch.setattr(search, "STACK_BYTES", 8 * 2 * 25**2)
    branches = fit_branches(groups, stacked=True, **PARAMETERS)
    for branch, rows in zip(branches, groups, strict=True):
        np.testing.assert_allclose(branch["mean"], rows.mean(axis=0))


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
    np.testing.assert_allclose(branch_distances(found, queries), expected, rtol=rtol / 10)
