"""The private hull classifier: oracle, taint, merging, odd data."""

from __future__ import annotations

import warnings
from typing import Any

import array_api_strict
import numpy as np
import pytest

from sfumato import Bounds, PrivateAffineHullClassifier
from sfumato.audit.testing import seeded_noise
from sfumato.exceptions import InvalidInputError
from sfumato.models.gaussians import CentredGaussians
from sfumato.models.hull_search import RowGroups
from sfumato.models.hulls import AffineHullClassifier
from sfumato.synthetic.hull_classifier import BranchedRows

CUBE = Bounds(lower=0.0, upper=1.0, labels=range(3))
Data = tuple[np.ndarray, np.ndarray]


@pytest.fixture
def three(digits: Data) -> Data:
    X, y = digits
    return X[y < 3][:300], y[y < 3][:300]


def a_model(**parameters: Any) -> PrivateAffineHullClassifier:
    defaults = {
        "hull_components": 5,
        "n_layers": 2,
        "delta": 1e-5,
        "n_components": 10,
        "samples_per_gaussian": 80,
        "bounds": CUBE,
        "random_state": 0,
    }
    return PrivateAffineHullClassifier(**(defaults | parameters))


def test_lifted_hulls_measure_as_in_their_coordinates(
    three: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Distances of the record engine: inside the directions, plus what lies outside of them."""
    X, y = three
    seen: list[Any] = []
    draw = PrivateAffineHullClassifier._drawn

    def watched(self: Any, released: CentredGaussians) -> BranchedRows:
        seen[:] = released, draw(self, released)
        return seen[1]

    monkeypatch.setattr(PrivateAffineHullClassifier, "_drawn", watched)
    with seeded_noise(0):
        model = a_model(epsilon=5.0, bounds=Bounds(norm=8.0, labels=range(3))).fit(X, y)
    gaussians, drawn = seen
    plain = AffineHullClassifier(5, n_layers=2).fit(drawn.rows, np.repeat(np.arange(3), 80))
    unit = gaussians.radius / np.sqrt(gaussians.basis.shape[1])
    centred = X - gaussians.centre
    inside = centred @ gaussians.basis
    outside = np.linalg.norm(centred, axis=1) ** 2 - np.linalg.norm(inside, axis=1) ** 2
    expected = np.sqrt((unit * plain.distances(inside / unit)) ** 2 + outside[:, None])
    np.testing.assert_allclose(model.distances(X), expected, rtol=1e-8)


@pytest.mark.usefixtures("noise")
def test_accuracy_grows_with_the_budget(three: Data) -> None:
    X, y = three
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # fitting is silent
        model = a_model(epsilon=60.0).fit(X, y)
    assert model.score(X, y) > 0.9
    poor = np.mean([a_model(epsilon=0.05).fit(X, y).score(X, y) for _ in range(3)])
    assert poor < 0.75


@pytest.mark.parametrize("parameters", [{}, {"dtype": "float32"}])
@pytest.mark.parametrize("device", ["strict", pytest.param("cpu", marks=pytest.mark.torch), "cuda"])
def test_hulls_on_another_device_give_the_same(
    three: Data, monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any], device: str
) -> None:
    if device == "strict":  # no device of PyTorch, but the same way through the code
        monkeypatch.setattr(
            BranchedRows,
            "groups",
            lambda self, _: RowGroups(array_api_strict.asarray(self.rows), self.places),
        )
    else:
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        if device == "cuda" and not torch.cuda.is_available():
            pytest.skip("no CUDA device")
    where = None if device == "strict" else device
    with seeded_noise(0):
        found = a_model(epsilon=9.0, device=where, **parameters).fit(*three).distances(three[0])
    monkeypatch.undo()
    with seeded_noise(0):
        expected = a_model(epsilon=9.0).fit(*three).distances(three[0])
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, rtol=1e-3 if parameters else 1e-7)


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
    other = a_model(epsilon=20.0, bounds=Bounds(norm=8.0, labels=range(3))).fit(X, y)
    with pytest.raises(InvalidInputError, match="same bounds"):
        first.merge(other)


def test_drawn_rows_are_cut_into_branches(three: Data) -> None:
    """200 labels took over 40 s for 200 rows: 400,000 rows were drawn, a thousand a branch."""
    model = a_model(epsilon=5.0, samples_per_gaussian=90, branch_size=40).fit(*three)
    for hull in model.classifier_.hulls_:
        assert [len(each["inducing"]) for each in hull.branches_] == [30, 30, 30]
    gaussians = np.ones(200), np.zeros((200, 3)), np.tile(np.eye(3), (200, 1, 1))
    released = CentredGaussians(*gaussians, np.zeros(3), np.eye(3), 1.0, np.arange(200))
    drawn = PrivateAffineHullClassifier(random_state=0)._drawn(released)
    assert len(drawn.rows) == 80_000
    assert max(map(len, drawn.places)) == 400
