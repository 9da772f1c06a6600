"""Fabricated rows: shape, bounds, law, tables, and nothing raw in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from sfumato.audit.testing import taint_test
from sfumato.audit.testing.inspection import holds_a_row, leaves
from sfumato.exceptions import (
    InvalidInputError,
)
from sfumato.synthetic.fabricator import Fabricator
from sfumato.tables import TableBounds
from sfumato.tables.bounds import Bounds

CUBE = Bounds(lower=0.0, upper=1.0, labels=range(10))
Data = tuple[np.ndarray, np.ndarray]
ENGINES: list[dict[str, Any]] = [
    {},
    {"gaussians_per_class": 2},
]


def a_fabricator(**parameters: Any) -> Fabricator:
    usual = {
        "epsilon": 8.0,
        "delta": 1e-5,
        "n_components": 20,
        "bounds": CUBE,
        "random_state": 0,
    }
    return Fabricator(**(usual | parameters))


@pytest.mark.parametrize("parameters", ENGINES)
def test_shape_bounds_and_labels(digits: Data, parameters: dict[str, Any]) -> None:
    X, y = digits
    fabricator = a_fabricator(**parameters)
    rows, labels = fabricator.fit_fabricate(X, y)
    assert rows.shape == X.shape
    assert rows.min() >= 0
    assert rows.max() <= 1
    assert set(labels) <= set(range(10))
    assert not holds_a_row(rows, X)
    assert fabricator.guarantee_.epsilon == pytest.approx(8.0, rel=0.02)


@pytest.mark.parametrize("parameters", ENGINES)
def test_without_labels(digits: Data, parameters: dict[str, Any]) -> None:
    X, y = digits
    fabricator = a_fabricator(**parameters)
    assert fabricator.fit_fabricate(X[:200]).shape == (200, 64)
    assert isinstance(fabricator.fit_fabricate(X[:200], y[:200]), tuple)
    assert not isinstance(fabricator.fit_fabricate(X[:200]), tuple)


@pytest.mark.parametrize("parameters", ENGINES)
def test_nothing_reads_the_rows_after_the_release(
    digits: Data, rng: np.random.Generator, parameters: dict[str, Any]
) -> None:
    X, y = digits[0][:150], digits[1][:150]
    taint_test(a_fabricator(**parameters), X, rng.random(X.shape), y)


def test_no_raw_row_is_kept(digits: Data) -> None:
    X, y = digits
    for parameters in ENGINES:
        fabricator = a_fabricator(**parameters).fit(X, y)
        assert not any(holds_a_row(value, X) for _, value in leaves(fabricator))


def test_drawn_rows_have_the_means_of_their_classes(digits: Data) -> None:
    X, y = digits
    rows, labels = a_fabricator(epsilon=np.inf, n_components=64).fit_fabricate(X, y)
    for label in range(10):
        mean = X[y == label].mean(axis=0)
        assert np.linalg.norm(rows[labels == label].mean(axis=0) - mean) < 0.6
        assert abs((labels == label).sum() - (y == label).sum()) <= 2


@pytest.mark.usefixtures("noise")
def test_a_forest_learns_from_fabricated_rows(digits: Data) -> None:
    X, y = digits
    rows, labels = a_fabricator(epsilon=30.0).fit_fabricate(X, y)
    assert RandomForestClassifier(50, random_state=0).fit(rows, labels).score(X, y) > 0.8


def test_sample_gives_any_number_of_rows(digits: Data) -> None:
    fabricator = a_fabricator().fit(*digits)
    rows, labels = fabricator.sample(5000)
    assert rows.shape == (5000, 64)
    assert len(labels) == 5000
    spent = fabricator.guarantee_.epsilon
    fabricator.sample(10)
    assert fabricator.guarantee_.epsilon == spent
    with pytest.raises(InvalidInputError, match="'n_rows'"):
        fabricator.sample(0)


def test_the_number_of_rows_is_kept_only_where_it_is_public(digits: Data) -> None:
    X, y = digits
    assert a_fabricator().fit(X, y).released_["n_rows"] == len(X)
    hidden = a_fabricator(relation="add_or_remove_one").fit(X, y)
    assert hidden.released_["n_rows"] is None
    assert abs(len(hidden.fabricate()[0]) - len(X)) < 500


# Odd data ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", ENGINES)
@pytest.mark.filterwarnings("ignore:delta=")
def test_one_row_constant_columns_and_missing_numbers(parameters: dict[str, Any]) -> None:
    one = a_fabricator(**parameters).fit_fabricate(np.array([[0.3, 0.4]]), [3])
    assert one[0].shape == (1, 2)
    X = np.full((12, 3), 0.5)
    X[0] = np.nan
    X[1, 0], X[2, 1] = np.inf, -1e300
    rows, labels = a_fabricator(**parameters).fit_fabricate(X, np.arange(12) % 3)
    assert np.isfinite(rows).all()
    assert len(rows) == len(labels)


# Tables ------------------------------------------------------------------------------------------

PEOPLE = TableBounds.from_dict(
    {
        "age": {"type": "int32", "lower": 18, "upper": 90},
        "income": (0, 10),
        "member": bool,
        "town": ["Bruges", "Ghent", "Ypres"],
        "label": ["no", "yes"],
    },
    target="label",
)


def people(n: int = 400) -> tuple[Any, np.ndarray]:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    yes = rng.random(n) < 0.4
    table = pd.DataFrame(
        {
            "age": (40 + 15 * yes + rng.normal(0, 5, n)).astype("int32"),
            "income": 3 + 3 * yes + rng.normal(0, 0.5, n),
            "member": yes ^ (rng.random(n) < 0.1),
            "town": np.where(yes, "Ghent", "Bruges"),
        }
    )
    return table, np.where(yes, "yes", "no")


def test_rare_categories_keep_their_share(seed: int) -> None:
    pd = pytest.importorskip("pandas")
    rng, towns = np.random.default_rng(seed), ["Bruges", "Ghent", "Ypres", "Mons"]
    shares = [0.8, 0.13, 0.05, 0.02]
    table = pd.DataFrame({"income": rng.random(4000), "town": rng.choice(towns, 4000, p=shares)})
    fabricator = a_fabricator(
        epsilon=20.0,
        bounds=TableBounds.from_dict({"income": (0, 1), "town": towns}),
    )
    made = fabricator.fit_fabricate(table)["town"].value_counts(normalize=True)
    # The engine clips the rows furthest from the mean, which costs rare categories about half.
    assert np.all(made.reindex(towns, fill_value=0.0) > np.array(shares) / 3)


def test_a_table_comes_back_as_it_went_in() -> None:
    table, y = people()
    fabricator = a_fabricator(
        epsilon=20.0,
        bounds=PEOPLE,
    )
    rows, labels = fabricator.fit_fabricate(table, y)
    assert list(rows.columns) == list(table.columns)
    assert (rows.dtypes == table.dtypes).all()
    assert "names, types, ranges and categories of the columns" in fabricator.guarantee_.public
    assert rows["age"].between(18, 90).all()
    agree = (rows["town"] == "Ghent") == (labels == "yes")
    assert agree.mean() > 0.8
    assert rows["income"][labels == "yes"].mean() > rows["income"][labels == "no"].mean() + 1
    assert len(fabricator.sample(7)[0]) == 7
