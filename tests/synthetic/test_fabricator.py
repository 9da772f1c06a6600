"""Rows drawn from private Gaussians: shape, bounds, law, and nothing raw in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from sfumato import Bounds, Fabricator, GaussianFabricator, TableBounds
from sfumato.audit.testing import taint_test
from sfumato.exceptions import InvalidInputError, UnsupportedModeError

Data = tuple[np.ndarray, np.ndarray]


def a_fabricator(**parameters: Any) -> GaussianFabricator:
    defaults = {"epsilon": 8.0, "delta": 1e-5, "n_components": 20, "random_state": 0}
    bounds = Bounds(lower=0.0, upper=1.0, labels=range(10))
    return GaussianFabricator(**({"bounds": bounds, **defaults} | parameters))


@pytest.mark.parametrize("parameters", [{}, {"gaussians_per_class": 2}])
def test_nothing_reads_the_rows_after_the_release(
    digits: Data, rng: np.random.Generator, parameters: dict[str, Any]
) -> None:
    X, y = digits[0][:150], digits[1][:150]
    taint_test(a_fabricator(**parameters), X, rng.random(X.shape), y)


@pytest.mark.usefixtures("noise")
def test_drawn_rows_are_like_the_rows(digits: Data) -> None:
    X, y = digits
    rows, labels = a_fabricator(epsilon=np.inf, n_components=64).fit_fabricate(X, y)
    for label in range(10):
        mean = X[y == label].mean(axis=0)
        assert np.linalg.norm(rows[labels == label].mean(axis=0) - mean) < 0.6
        assert abs((labels == label).sum() - (y == label).sum()) <= 2
    rows, labels = a_fabricator(epsilon=30.0).fit_fabricate(X, y)
    assert rows.shape == X.shape
    assert rows.min() >= 0
    assert rows.max() <= 1
    assert RandomForestClassifier(50, random_state=0).fit(rows, labels).score(X, y) > 0.8


def test_labels_and_numbers_of_rows(digits: Data) -> None:
    """The number of rows is kept only where it is public; labels come back where some were."""
    X, y = digits
    model = a_fabricator(gaussians_per_class=2)
    assert isinstance(model.fit_fabricate(X[:200], y[:200]), tuple)
    assert model.fit_fabricate(X[:200]).shape == (200, 64)
    rows, labels = model.fit(X, y).sample(5000)
    assert (rows.shape, len(labels)) == ((5000, 64), 5000)
    assert model.released_["n_rows"] == len(X)
    with pytest.raises(InvalidInputError, match="'n_rows'"):
        model.sample(0)
    hidden = a_fabricator(relation="add_or_remove_one").fit(X, y)
    assert hidden.released_["n_rows"] is None
    assert abs(len(hidden.fabricate()[0]) - len(X)) < 500


def test_tables_and_arrays_have_a_class_each(digits: Data) -> None:
    """Each names the other, before anything is charged."""
    bounds = TableBounds.from_dict({"age": (0, 99)})
    table, budget = pd.DataFrame({"age": [30.0] * 9}), {"epsilon": 1.0, "delta": 1e-5}
    for X, given in ((digits[0], Bounds(norm=1.0)), (digits[0], bounds), (table, Bounds(norm=1.0))):
        with pytest.raises(UnsupportedModeError, match="use GaussianFabricator"):
            Fabricator(bounds=given, **budget).fit(X)
    with pytest.raises(UnsupportedModeError, match="use Fabricator"):
        a_fabricator(bounds=bounds).fit(table)
