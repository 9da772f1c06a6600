import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from sfumato.exceptions import InvalidInputError
from sfumato.models.hulls import AffineHullClassifier

from .literal import LiteralClassifier


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
    for label, hull in zip(fitted.classes_, fitted.hulls_, strict=True):
        rows = X[y == label]
        groups.append([rows[hull.branch_ == s] for s in range(len(hull.branches_))])
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


def test_digits_are_recognised(split):
    X, y, queries, labels = split
    assert AffineHullClassifier(random_state=0).fit(X, y).score(queries, labels) > 0.96


def test_single_precision_agrees(split, fitted):
    X, y, queries, _ = split
    single = classifier(branch_size=50, dtype="float32").fit(X.astype(np.float32), y)
    assert single.distances(queries).dtype == np.float32
    np.testing.assert_allclose(single.distances(queries), fitted.distances(queries), rtol=1e-4)
    assert np.mean(single.predict(queries) == fitted.predict(queries)) > 0.995


def test_pruned_search_agrees_and_says_so(split, fitted):
    queries = split[2]
    assert fitted.pruning_agreement(queries) == 1.0
    by_parameter = clone(fitted).set_params(search="pruned").fit(*split[:2])
    np.testing.assert_array_equal(by_parameter.predict(queries), fitted.predict(queries))
    with pytest.raises(InvalidInputError, match="'search' must be one of 'exact', 'pruned'"):
        fitted.predict(queries, search="quick")


@pytest.mark.parametrize(
    "names",
    [np.array(["ab", "c", "a"]), np.array([2.0, -1.0, 0.0]), np.array([True, False])],
    ids=["text", "float", "bool"],
)
def test_labels_of_any_type(split, names):
    X, y, queries, labels = split
    keep, ask = y < len(names), labels < len(names)
    model = classifier().fit(X[keep], names[y[keep]])
    np.testing.assert_array_equal(model.classes_, np.unique(names))
    found = model.predict(queries[ask])
    assert found.dtype == names.dtype
    assert np.mean(found == names[labels[ask]]) > 0.97


def test_classes_with_a_single_row_work():
    model = classifier().fit([[0.0, 0.0], [1.0, 1.0], [1.0, 0.9]], ["alone", "pair", "pair"])
    assert model.predict([[0.1, 0.0], [1.0, 0.95]]).tolist() == ["alone", "pair"]


def test_one_class_only():
    model = classifier().fit([[0.0], [1.0]], ["only", "only"])
    assert model.predict([[5.0]]).tolist() == ["only"]
    np.testing.assert_allclose(model.predict_proba([[5.0]]), 1.0)


def test_merge_is_the_union_of_branches(split):
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


def test_works_in_pipelines_searches_and_calibration(split):
    X, y, queries, labels = split
    grid = GridSearchCV(
        make_pipeline(MinMaxScaler(), classifier()),
        {"affinehullclassifier__n_components": [1, 8]},
        cv=2,
    ).fit(X[:400], y[:400])
    assert grid.best_params_ == {"affinehullclassifier__n_components": 8}
    calibrated = CalibratedClassifierCV(classifier(), cv=2).fit(X[:400], y[:400])
    assert calibrated.score(queries, labels) > 0.9


def test_another_joblib_backend_gives_the_same(split, fitted):
    X, y, queries, _ = split
    with joblib.parallel_config(backend="loky", n_jobs=2):
        model = classifier(branch_size=50).fit(X, y)
    np.testing.assert_allclose(
        model.distances(queries[:20]), fitted.distances(queries[:20]), rtol=1e-9
    )


def test_labels_must_match_the_rows(split):
    with pytest.raises(InvalidInputError, match="one label per row"):
        classifier().fit(split[0], split[1][:-1])


def test_learned_state_is_plain(fitted):
    def check(value):
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            for item in value:
                check(item)
        elif hasattr(value, "get_params"):
            check([v for k, v in vars(value).items() if k.endswith("_")])
        else:
            assert isinstance(value, np.ndarray | int | float | str), type(value)
            assert getattr(value, "dtype", np.dtype(int)).kind != "O"

    check(fitted)
