"""Tables to numbers and back."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.tables import TableForm, is_table

COLUMNS: dict[str, Any] = {
    "age": np.array([31, 44, 29], dtype=np.int32),
    "income": np.array([1.5, 2.25, 0.5]),
    "member": np.array([True, False, True]),
    "colour": ["red", "blue", "red"],
}
CATEGORIES = {"colour": ["blue", "green", "red"]}
ENCODED = np.array(
    [
        [31, 1.5, 1, 0, 0, 1],
        [44, 2.25, 0, 1, 0, 0],
        [29, 0.5, 1, 0, 0, 1],
    ]
)


def a_table(library: str) -> Any:
    home = pytest.importorskip(library)
    if library == "pyarrow":
        return home.table({k: home.array(v) for k, v in COLUMNS.items()})
    return home.DataFrame(COLUMNS)


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def table(request: pytest.FixtureRequest) -> Any:
    return a_table(request.param)


def test_there_and_back(table: Any) -> None:
    assert is_table(table)
    form = TableForm.of(table, CATEGORIES, "public")
    encoded = form.encode(table)
    np.testing.assert_array_equal(encoded, ENCODED)
    assert form.n_numbers == 6
    again = TableForm.from_dict(form.to_dict()).decode(encoded)
    assert type(again) is type(table)
    assert again.equals(table)


def test_numbers_are_rounded_and_the_largest_category_wins(table: Any) -> None:
    rows = np.array([[30.6, 0.1, 0.49, 0.2, 0.9, 0.3], [1.2, 0.7, 0.51, -1.0, -2.0, -0.5]])
    found = TableForm.of(table, CATEGORIES, "public").decode(rows)
    assert list(np.asarray(found["age"])) == [31, 1]
    assert list(np.asarray(found["income"])) == [0.1, 0.7]
    assert list(np.asarray(found["member"])) == [False, True]
    assert list(np.asarray(found["colour"])) == ["green", "red"]


def test_an_unknown_value_belongs_to_no_category() -> None:
    table = a_table("pandas")
    table.loc[0, "colour"] = "violet"
    assert TableForm.of(table, CATEGORIES, "public").encode(table)[0, 3:].tolist() == [0, 0, 0]


def test_missing_numbers_come_through() -> None:
    table = a_table("pandas")
    table.loc[0, "income"] = np.nan
    assert np.isnan(TableForm.of(table, CATEGORIES, "public").encode(table)[0, 1])


def test_a_column_that_is_not_listed_is_refused_without_its_values() -> None:
    with pytest.raises(InvalidInputError, match=r"'colour'.*categories") as error:
        TableForm.of(a_table("pandas"), types="public")
    assert "red" not in str(error.value)


@pytest.mark.parametrize("categories", [{"shape": ["round"]}, {"colour": []}])
def test_categories_must_fit_the_table(categories: dict[str, list[str]]) -> None:
    with pytest.raises(InvalidInputError, match="'categories'"):
        TableForm.of(a_table("pandas"), categories)


def test_bounds_follow_the_encoding() -> None:
    form = TableForm.of(a_table("pandas"), CATEGORIES, "public")
    box = Bounds(lower=(0.0, -1.0, 0.0), upper=(90.0, 5.0, 1.0), labels=[0, 1])
    found = form.encoded_bounds(box)
    assert found.lower == (0.0, -1.0, 0.0, 0.0, 0.0, 0.0)
    assert found.upper == (90.0, 5.0, 1.0, 1.0, 1.0, 1.0)
    assert found.labels == (0, 1)
    assert form.encoded_bounds(Bounds(norm=2.0)) == Bounds(norm=2.0)
    plain = TableForm.of(a_table("pandas")[["age", "income"]], types="double")
    assert plain.encoded_bounds(box) is box


def test_arrays_and_lists_are_no_tables() -> None:
    assert not is_table(np.zeros((2, 2)))
    assert not is_table([[1.0]])
    assert not is_table(a_table("pandas")["age"])


def test_the_library_must_be_there_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    form = TableForm.of(a_table("pandas")[["income"]], types="double")
    monkeypatch.delitem(sys.modules, "pandas")
    with pytest.raises(InvalidInputError, match="import pandas"):
        form.decode(np.zeros((1, 1)))
