"""Rows drawn from private Gaussians: shape, bounds, law, tables, and nothing raw in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from sfumato import Bounds, Fabricator, TableBounds
from sfumato.audit.testing import taint_test
from sfumato.exceptions import InvalidInputError

Data = tuple[np.ndarray, np.ndarray]


def a_fabricator(**parameters: Any) -> Fabricator:
    defaults = {"epsilon": 8.0, "delta": 1e-5, "n_components": 20, "random_state": 0}
    bounds = Bounds(lower=0.0, upper=1.0, labels=range(10))
    return Fabricator(**({"bounds": bounds, **defaults} | parameters))


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
    assert rows.shape == (5000, 64)
    assert len(labels) == 5000
    assert model.released_["n_rows"] == len(X)
    with pytest.raises(InvalidInputError, match="'n_rows'"):
        model.sample(0)
    hidden = a_fabricator(relation="add_or_remove_one").fit(X, y)
    assert hidden.released_["n_rows"] is None
    assert abs(len(hidden.fabricate()[0]) - len(X)) < 500


def test_a_table_comes_back_as_it_went_in(rng: np.random.Generator) -> None:
    facts = {"age": {"type": "int32", "lower": 18, "upper": 90}, "income": (0, 10), "member": bool}
    towns = ["Bruges", "Ghent", "Ypres"]
    bounds = TableBounds.from_dict({**facts, "town": towns, "label": ["no", "yes"]}, target="label")
    yes = rng.random(400) < 0.4
    table = pd.DataFrame({"age": (40 + 15 * yes + rng.normal(0, 5, 400)).astype("int32")})
    table["income"] = 3 + 3 * yes + rng.normal(0, 0.5, 400)
    table["member"] = yes ^ (rng.random(400) < 0.1)
    table["town"] = np.where(yes, "Ghent", "Bruges")
    model = a_fabricator(epsilon=20.0, bounds=bounds)
    rows = model.fit_fabricate(table, np.where(yes, "yes", "no"))
    labels = rows.pop("label")
    assert list(rows.columns) == list(table.columns)
    assert (rows.dtypes == table.dtypes).all()
    assert "names, types, ranges and categories of the columns" in model.guarantee_.public
    assert rows["age"].between(18, 90).all()
    assert ((rows["town"] == "Ghent") == (labels == "yes")).mean() > 0.8
    assert rows["income"][labels == "yes"].mean() > rows["income"][labels == "no"].mean() + 1
    assert len(model.sample(7)) == 7
