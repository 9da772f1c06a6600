"""The private hull classifier: oracle, taint, merging, odd data."""

from __future__ import annotations

import warnings
from typing import Any

import array_api_strict
import numpy as np
import pytest

from sfumato.audit.testing import seeded_noise, taint_test
from sfumato.audit.testing.inspection import holds_a_row, leaves
from sfumato.exceptions import (
    InvalidInputError,
    MissingBoundsError,
    UnsupportedModeError,
)
from sfumato.models.gaussians import CentredGaussians, ClassGaussians
from sfumato.models.hull_search import RowGroups
from sfumato.models.hulls import AffineHullClassifier
from sfumato.privacy.guarantee import Status
from sfumato.sums.maps import IntoUnitCube
from sfumato.synthetic.hull_classifier import (
    BranchedRows,
    PrivateAffineHullClassifier,
    default_samples,
)
from sfumato.tables.bounds import Bounds

CUBE = Bounds(lower=0.0, upper=1.0, labels=range(3))
Data = tuple[np.ndarray, np.ndarray]


@pytest.fixture
def three(digits: Data) -> Data:
    X, y = digits
    return X[y < 3][:300], y[y < 3][:300]


def a_model(**parameters: Any) -> PrivateAffineHullClassifier:
    usual = {
        "hull_components": 5,
        "n_layers": 2,
        "delta": 1e-5,
        "n_components": 10,
        "samples_per_gaussian": 80,
        "bounds": CUBE,
        "random_state": 0,
    }
    return PrivateAffineHullClassifier(**(usual | parameters))


# Oracles -----------------------------------------------------------------------------------------


def test_lifted_hulls_measure_as_in_their_coordinates(three: Data) -> None:
    """Distances of the record engine: inside the directions, plus what lies outside of them."""
    X, y = three
    bounds = Bounds(norm=8.0, labels=range(3))
    with seeded_noise(0):
        model = a_model(epsilon=5.0, bounds=bounds).fit(X, y)
    again = a_model(epsilon=5.0, bounds=bounds)
    with seeded_noise(0):
        gaussians = again._release_gaussians(
            IntoUnitCube(bounds, 64), again._array_records(X, y, None), 3
        )
    drawn = again._drawn(gaussians)
    plain = AffineHullClassifier(5, n_layers=2).fit(
        drawn.rows, np.repeat(np.arange(3), again.samples_per_gaussian)
    )
    unit = gaussians.radius / np.sqrt(gaussians.basis.shape[1])
    centred = X - gaussians.centre
    inside = centred @ gaussians.basis
    outside = np.linalg.norm(centred, axis=1) ** 2 - np.linalg.norm(inside, axis=1) ** 2
    expected = np.sqrt((unit * plain.distances(inside / unit)) ** 2 + outside[:, None])
    np.testing.assert_allclose(model.distances(X), expected, rtol=1e-8)


def test_single_precision_gives_the_same_labels(three: Data) -> None:
    X, y = three
    found = []
    for dtype in ("float64", "float32"):
        with seeded_noise(0):
            found.append(a_model(epsilon=5.0, dtype=dtype).fit(X, y).distances(X))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3)


@pytest.mark.parametrize(
    "parameters",
    [
        {"unit": "record"},
        {"unit": "record", "bounds": Bounds(norm=8.0, labels=range(3))},
        {"unit": "record", "relation": "add_or_remove_one"},
        {"unit": "record", "gaussians_per_class": 2, "epsilon": 200.0},
    ],
)
@pytest.mark.usefixtures("noise")
def test_accuracy_at_a_generous_budget(three: Data, parameters: dict[str, Any]) -> None:
    X, y = three
    assert a_model(**({"epsilon": 60.0} | parameters)).fit(X, y).score(X, y) > 0.9


@pytest.mark.usefixtures("noise")
def test_accuracy_grows_with_the_budget(three: Data) -> None:
    X, y = three
    means = [
        np.mean([a_model(epsilon=epsilon).fit(X, y).score(X, y) for _ in range(3)])
        for epsilon in (0.05, 50.0)
    ]
    assert means[1] > means[0] + 0.2


@pytest.mark.parametrize("parameters", [{}, {"dtype": "float32"}])
@pytest.mark.parametrize("device", ["strict", pytest.param("cpu", marks=pytest.mark.torch), "cuda"])
def test_hulls_on_another_device_give_the_same(
    three: Data, monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any], device: str
) -> None:
    if device == "strict":  # no device of PyTorch, but the same way through the code
        monkeypatch.setattr(
            "sfumato.synthetic.hull_classifier._require_device", lambda device: None
        )
        monkeypatch.setattr(
            BranchedRows,
            "groups",
            lambda self, device: RowGroups(
                array_api_strict.asarray(self.rows) if device else self.rows, self.places
            ),
        )
    else:
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        if device == "cuda" and not torch.cuda.is_available():
            pytest.skip("no CUDA device")
    found = []
    for where in (None, device):
        with seeded_noise(0):
            model = a_model(epsilon=9.0, device=where, **parameters).fit(*three)
        found.append(model.distances(three[0]))
    assert isinstance(found[1], np.ndarray)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3 if parameters else 1e-7)


# Privacy -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {"unit": "record"},
        {"unit": "record", "gaussians_per_class": 4},
    ],
)
def test_nothing_reads_the_rows_after_the_release(
    three: Data, rng: np.random.Generator, parameters: dict[str, Any]
) -> None:
    X, y = three
    taint_test(a_model(epsilon=4.0, **parameters), X, rng.random(X.shape), y)


def test_guarantee_of_a_record(three: Data) -> None:
    stated = a_model(epsilon=0.5).fit(*three).guarantee_
    cut = a_model(epsilon=0.5, gaussians_per_class=2).fit(*three).guarantee_
    assert cut.epsilon == pytest.approx(0.5)
    assert len(cut.events) == 4
    assert stated.status is Status.PROVED
    assert stated.epsilon == pytest.approx(0.5)
    assert len(stated.events) == 3
    assert "labels of the rows" not in stated.public


def test_no_raw_row_is_kept(three: Data) -> None:
    X, y = three
    model = a_model(epsilon=50.0).fit(X, y)
    assert not any(holds_a_row(value, X) for _, value in leaves(model))


# Merging -----------------------------------------------------------------------------------------


def test_merged_distances_are_the_least_of_all_parties(three: Data) -> None:
    X, y = three
    first = a_model(epsilon=20.0).fit(X[:150], y[:150])
    second = a_model(epsilon=10.0, random_state=1).fit(X[150:], y[150:])
    merged = first.merge(second)
    expected = np.minimum(first.distances(X), second.distances(X))
    np.testing.assert_allclose(merged.distances(X), expected, rtol=1e-9)
    assert merged.guarantee_.epsilon is not None
    assert 20.0 < merged.guarantee_.epsilon <= 30.0 + 1e-9
    np.testing.assert_array_equal(merged.classes_, first.classes_)


def test_only_like_is_merged(three: Data) -> None:
    X, y = three
    first = a_model(epsilon=20.0).fit(X, y)
    other = a_model(epsilon=20.0, bounds=Bounds(norm=8.0, labels=range(3))).fit(X, y)
    with pytest.raises(InvalidInputError, match="same bounds"):
        first.merge(other)


# Odd data and refusals ---------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:delta=")
def test_odd_rows_are_no_error(rng: np.random.Generator) -> None:
    X = rng.random((9, 4))
    X[:, 2] = 0.5  # constant
    X[0, 0], X[1, 1], X[2, 3] = np.nan, np.inf, 1e300
    y = np.array([0, 0, 1, 1, 1, 0, 0, 0, 2])  # a class of one row
    model = a_model().fit(X, y)
    assert set(model.predict(X)) <= {0, 1, 2}
    queries = np.full((2, 4), np.nan)
    assert model.predict(queries).shape == (2,)


@pytest.mark.filterwarnings("ignore:delta=")
def test_a_single_row() -> None:
    model = a_model().fit(np.array([[0.1, 0.2]]), [1])
    assert model.predict([[0.1, 0.2]]).shape == (1,)


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"bounds": None}, MissingBoundsError, "bounds"),
        ({"unit": "entry"}, UnsupportedModeError, "offers unit 'record'"),
        ({"bounds": Bounds(norm=1.0)}, MissingBoundsError, "label"),
        ({"gaussians_per_class": 3}, InvalidInputError, "'gaussians_per_class'"),
        ({"branch_size": 0}, InvalidInputError, "'branch_size'"),
        ({"samples_per_gaussian": 0}, InvalidInputError, "'samples_per_gaussian'"),
        ({"bounds": Bounds(norm=1.0, labels=[0])}, InvalidInputError, "one class"),
    ],
)
def test_refusals(
    three: Data, parameters: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        a_model(**parameters).fit(*three)


def test_branches_of_drawn_rows_have_the_asked_size(three: Data) -> None:
    model = a_model(epsilon=5.0, samples_per_gaussian=90, branch_size=40).fit(*three)
    for hull in model.classifier_.hulls_:
        assert np.bincount(hull.branch_).tolist() == [30, 30, 30]


def test_fitting_is_silent_in_strict_mode(three: Data) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a_model().fit(*three)


def test_many_labels_draw_no_more_rows_than_forty_gaussians():
    """200 labels took over 40 s for 200 rows: 400,000 rows were drawn, a thousand a branch."""
    assert [default_samples(n, 50) for n in (1, 40, 80, 200, 1000)] == [2000, 2000, 1000, 400, 200]
    gaussians = ClassGaussians(np.ones(200), np.zeros((200, 3)), np.tile(np.eye(3), (200, 1, 1)))
    released = CentredGaussians(np.zeros(3), np.eye(3), 1.0, gaussians, np.arange(200))
    drawn = PrivateAffineHullClassifier(random_state=0)._drawn(released)
    assert len(drawn.rows) == 80_000
    assert max(map(len, drawn.places)) == 400
