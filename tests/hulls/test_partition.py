import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from sfumato.models import hull_search as partition
from sfumato.models.hull_search import partition_groups, partition_rows


def cut(rows, size, how="kmeans", seed=0):
    state = np.random.RandomState(seed)
    return partition_rows(rows, branch_size=size, partition=how, random_state=state)


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 60),
    size=st.integers(1, 20),
    how=st.sampled_from(["kmeans", "random"]),
    distinct=st.integers(1, 60),
)
def test_numbers_have_no_gaps(n, size, how, distinct):
    """Also with fewer distinct rows than branches, where clusters run empty."""
    rows = np.random.default_rng(n).normal(size=(distinct, 2))[np.arange(n) % distinct]
    numbers = cut(rows, size, how)
    assert numbers.shape == (n,)
    assert set(numbers) == set(range(numbers.max() + 1))
    assert numbers.max() + 1 <= -(-n // size)


def test_separate_clusters_are_found(rng):
    truth = np.repeat(np.arange(4), 25)
    rows = 1000 + 20 * np.eye(4)[truth] + rng.normal(size=(100, 4))
    assert adjusted_rand_score(truth, cut(rows, 25)) == 1.0


def test_a_sample_finds_the_clusters_of_many_rows(rng, monkeypatch):
    monkeypatch.setattr(partition, "SAMPLE_ROWS", 60)
    monkeypatch.setattr(partition, "SAMPLE_ROWS_PER_CLUSTER", 15)
    truth = np.repeat(np.arange(4), 250)
    rows = 1000 + 20 * np.eye(4)[truth] + rng.normal(size=(1000, 4))
    assert adjusted_rand_score(truth, cut(rows, 250)) == 1.0


def test_clusters_are_about_as_tight_as_those_of_scikit_learn(digits):
    X, _ = digits
    ours, theirs = cut(X, 180), KMeans(10, n_init=1, random_state=0).fit(X)
    inertia = sum(np.sum((X[ours == s] - X[ours == s].mean(0)) ** 2) for s in range(10))
    assert inertia < 1.1 * theirs.inertia_


def test_random_branches_are_of_equal_size(rng):
    numbers = cut(rng.normal(size=(103, 2)), 10, "random")
    assert set(np.bincount(numbers)) == {9, 10}
    assert (np.diff(numbers) < 0).any()


@pytest.mark.parametrize("how", ["kmeans", "random"])
def test_random_state_decides(rng, how):
    rows = rng.normal(size=(80, 3))
    same = [cut(rows, 20, how, seed=1) for _ in range(2)]
    np.testing.assert_array_equal(*same)
    assert (cut(rows, 20, how, seed=2) != same[0]).any()


@pytest.mark.parametrize("library", [np, array_api_strict], ids=["numpy", "strict"])
def test_groups_all_at_once_are_those_one_after_the_other(library, rng):
    """Groups of one, three and four clusters; the state is left as it would be."""
    sizes, n_clusters = (20, 70, 95, 8), (1, 3, 4, 1)
    groups = [
        100 + 30 * np.eye(6)[rng.integers(n, size=size)] + rng.normal(size=(size, 6))
        for size, n in zip(sizes, n_clusters, strict=True)
    ]
    found = []
    for stacked in (False, True):
        state = np.random.RandomState(3)
        rows = [library.asarray(group) for group in groups]
        numbers = partition_groups(
            rows, branch_size=25, partition="kmeans", random_state=state, stacked=stacked
        )
        found.append((numbers, state.randint(10**9)))
    assert found[0][1] == found[1][1]
    for apart, together in zip(found[0][0], found[1][0], strict=True):
        np.testing.assert_array_equal(apart, together)
    assert [len(np.unique(numbers)) for numbers in found[1][0]] == list(n_clusters)


def test_digits_all_at_once_are_cut_as_well_as_one_after_the_other(digits):
    X, y = digits
    groups = [X[y == label] for label in range(10)]

    def inertia(stacked):
        cuts = partition_groups(
            groups,
            branch_size=40,
            partition="kmeans",
            random_state=np.random.RandomState(0),
            stacked=stacked,
        )
        parts = [g[c == s] for g, c in zip(groups, cuts, strict=True) for s in range(c.max() + 1)]
        return sum(np.sum((part - part.mean(axis=0)) ** 2) for part in parts)

    assert inertia(True) == pytest.approx(inertia(False), rel=0.01)
