import numpy as np
import pytest

from sfumato.models import hull_search as search
from sfumato.models.hull_search import (
    branch_distances,
    coarse_branch,
    distance,
    fit_branches,
    pruned_branch_distances,
)


@pytest.fixture
def model(digits):
    X, y = digits
    groups = [X[:1200][y[:1200] == label] for label in range(10)]
    return fit_branches(groups, n_components=10, n_layers=3, dtype="float64"), X[1200:]


@pytest.fixture(autouse=True)
def few_coordinates(monkeypatch):
    """So that the coarse distance of these small pictures is coarse."""
    monkeypatch.setattr(search, "COARSE_COORDINATES", 12)


def test_pruned_search_finds_the_least_distance(model):
    branches, queries = model
    exact, pruned = branch_distances(branches, queries), pruned_branch_distances(branches, queries)
    np.testing.assert_array_equal(exact.argmin(axis=1), pruned.argmin(axis=1))
    np.testing.assert_allclose(pruned.min(axis=1), exact.min(axis=1), rtol=1e-9)
    assert np.isinf(pruned).mean() > 0.2  # it did leave something out


def test_pruned_distances_are_never_below_the_exact_ones(model):
    branches, queries = model
    pruned = pruned_branch_distances(branches, queries)
    assert (pruned >= branch_distances(branches, queries) * (1 - 1e-9)).all()


def test_narrow_margins_do_change_the_answer(model, monkeypatch):
    """The margins matter: with none at all the agreement is lost."""
    branches, queries = model
    monkeypatch.setattr(search, "COARSE_MARGIN", 1.0)
    pruned = pruned_branch_distances(branches, queries)
    assert (pruned.argmin(axis=1) != branch_distances(branches, queries).argmin(axis=1)).any()


def test_coarse_distance_with_all_coordinates_is_that_of_the_first_layer(model):
    branches, queries = model
    everything = coarse_branch(branches[0], 10_000)
    np.testing.assert_allclose(
        distance(everything, queries), distance(branches[0], queries, n_layers=1), rtol=1e-12
    )


def test_jobs_do_not_change_distances(model):
    branches, queries = model
    for find in (branch_distances, pruned_branch_distances):
        np.testing.assert_allclose(
            find(branches, queries), find(branches, queries, n_jobs=2), rtol=1e-12
        )
