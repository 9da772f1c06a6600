import numpy as np
import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.models.hulls import DeepAffineHull, WideAffineHull

from .literal import LiteralClassifier


@pytest.fixture
def rows(rng):
    return np.vstack([rng.normal(c, 0.3, size=(40, 5)) for c in (0.0, 2.0, 4.0)])


def wide(**parameters):
    return WideAffineHull(4, n_layers=2, branch_size=40, random_state=0, **parameters)


def test_distance_is_the_least_over_the_branches(rows, rng):
    hull, queries = wide().fit(rows), rng.normal(2, 2, size=(60, 5))
    groups = [rows[hull.branch_ == s] for s in range(len(hull.branches_))]
    deep = [DeepAffineHull(4, n_layers=2).fit(group) for group in groups]
    distances = np.stack([d.distance(queries) for d in deep], axis=1)
    nearest = distances.argmin(axis=1)
    assert len(set(nearest)) == 3
    np.testing.assert_allclose(hull.distance(queries), distances.min(axis=1), rtol=1e-9)
    np.testing.assert_array_equal(hull.nearest_branch(queries), nearest)
    images = np.stack([d.transform(queries) for d in deep])[nearest, np.arange(60)]
    np.testing.assert_allclose(hull.transform(queries), images, atol=1e-9)


def test_distance_equals_the_literal_formulas(rows, rng):
    hull, queries = wide().fit(rows), rng.normal(2, 2, size=(30, 5))
    groups = [rows[hull.branch_ == s] for s in range(3)]
    literal = LiteralClassifier([groups], 4, 2)
    np.testing.assert_allclose(hull.distance(queries), literal.distances(queries)[:, 0], rtol=1e-7)


def test_few_rows_make_one_branch(rows):
    hull = WideAffineHull(4, n_layers=2).fit(rows)
    deep = DeepAffineHull(4, n_layers=2).fit(rows)
    np.testing.assert_allclose(hull.distance(rows), deep.distance(rows), rtol=1e-12)


@pytest.mark.parametrize("partition", ["kmeans", "random"])
def test_same_seed_same_hull_with_any_number_of_jobs(rows, partition):
    one, two = wide(partition=partition).fit(rows), wide(partition=partition, n_jobs=2).fit(rows)
    np.testing.assert_array_equal(one.branch_, two.branch_)
    np.testing.assert_allclose(one.distance(rows), two.distance(rows), rtol=1e-10)


def test_merge_is_the_union_of_branches(rows, rng):
    queries = rng.normal(2, 2, size=(50, 5))
    parties = [wide().fit(rows[:60]), wide().fit(rows[60:]), wide().fit(rows[::2])]
    merged = parties[0].merge(*parties[1:])
    least = np.min([party.distance(queries) for party in parties], axis=0)
    np.testing.assert_allclose(merged.distance(queries), least, rtol=1e-9)
    assert len(merged.branches_) == sum(len(party.branches_) for party in parties)
    assert merged.branch_.max() + 1 == len(merged.branches_)
    assert len(merged.branch_) == 180
    assert len(parties[0].branches_) == 2  # the parties are as before


def test_merge_refuses_another_precision(rows):
    with pytest.raises(InvalidInputError, match="same precision"):
        wide().fit(rows).merge(wide(dtype="float32").fit(rows))


def test_merge_refuses_other_widths(rows):
    with pytest.raises(InvalidInputError, match="same number of features"):
        wide().fit(rows).merge(wide().fit(rows[:, :4]))


@pytest.mark.parametrize(
    ("parameters", "name"),
    [({"branch_size": 0}, "branch_size"), ({"partition": "grid"}, "partition")],
)
def test_wrong_parameters_are_named(rows, parameters, name):
    with pytest.raises(InvalidInputError, match=f"'{name}' must be"):
        WideAffineHull(**parameters).fit(rows)


def test_progress_bar_goes_to_standard_error(rows, capsys):
    wide(verbose=True).fit(rows)
    captured = capsys.readouterr()
    assert "Fitting branches" in captured.err
    assert captured.out == ""
    wide().fit(rows)
    assert capsys.readouterr().err == ""
