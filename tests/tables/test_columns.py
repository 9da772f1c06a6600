"""A cell is read on its own: neither its neighbours nor the type of its column change it."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from sfumato.exceptions import InvalidInputError
from sfumato.tables.columns import as_numbers, codes_of, read_as

BIG = 2**53
TYPES = ("double", "float", "int64", "int8", "uint64", "bool", "string", "date32[day]")
# A cell, and what it is as a number, a whole number and a truth value.
OBJECTS: list[tuple[Any, float | None, int | None, bool | None]] = [
    (1, 1.0, 1, True),
    (2.5, 2.5, None, None),
    (31.0, 31.0, 31, None),
    (False, 0.0, 0, False),
    (None, None, None, None),
    (float("nan"), None, None, None),
    (pd.NA, None, None, None),
    (pd.NaT, None, None, None),
    ("7", 7.0, 7, None),
    (" 7 ", 7.0, 7, None),
    ("31.0", 31.0, 31, None),
    ("1e2", 100.0, 100, None),
    ("TRUE", 1.0, 1, True),
    ("seven", None, None, None),
    ("(7+0j)", 7.0, 7, None),
    ("(-2.5-0j)", -2.5, None, None),
    ("(1+2j)", None, None, None),
    ("(+0j)", None, None, None),
    ("0j", 0.0, 0, False),
    ("1_0", None, None, None),
    ("\ud800", None, None, None),
    (b"8", 8.0, 8, None),
    (b"\xff", None, None, None),
    (BIG + 1, float(BIG), BIG + 1, None),
    (f"{BIG + 1}.0", float(BIG), BIG + 1, None),
    (10**400, float("inf"), None, None),
    (10**5000, None, None, None),
    (float("-inf"), float("-inf"), None, None),
    (Decimal("1.50"), 1.5, None, None),
    (Decimal("sNaN"), None, None, None),
    (Decimal("1e999999"), float("inf"), None, None),
    (3j, None, None, None),
    (2 + 0j, 2.0, 2, None),
    (np.float32(1.5), 1.5, None, None),
    (np.datetime64("2020-01-01", "ns"), None, None, None),
    (datetime.date(2020, 1, 1), None, None, None),
    ([1], None, None, None),
    (object(), None, None, None),
]


@pytest.mark.parametrize(("kind", "place"), [("f", 1), ("i", 2), ("b", 3)])
def test_cells_of_any_kind_are_numbers_or_missing(kind: str, place: int) -> None:
    cells = np.empty(len(OBJECTS), dtype=object)
    cells[:] = [each[0] for each in OBJECTS]
    expected = [np.nan if each[place] is None else float(each[place]) for each in OBJECTS]
    for column in (cells, pd.Series(cells), pl.Series(cells.tolist(), dtype=pl.Object)):
        np.testing.assert_array_equal(as_numbers(column, kind), expected)


TEXTS = st.one_of(
    st.sampled_from([each for each, *_ in OBJECTS if isinstance(each, str) and each != "\ud800"]),
    st.from_regex(r"\A[ +-]?[0-9]{0,25}(\.[0-9]{0,4})?([eE][+-]?[0-9]{1,4})?\Z"),
    st.text(max_size=6),
    st.none(),
)


@settings(max_examples=150, deadline=None)
@given(cells=st.lists(TEXTS, min_size=1, max_size=8), declared=st.sampled_from(TYPES))
def test_a_text_is_read_as_it_is_alone(cells: list[str | None], declared: str) -> None:
    together = read_as(pa.array(cells, pa.string()), declared)
    alone = [read_as(pa.array([cell], pa.string()), declared)[0].as_py() for cell in cells]
    assert repr(together.to_pylist()) == repr(alone)
    stored = [cell if cell is None else cell.encode() for cell in cells]
    assert repr(read_as(pa.array(stored, pa.binary()), declared).to_pylist()) == repr(alone)


# The same whole numbers as they are stored when all are whole, when one is missing, when one is
# a fraction, too large or a text: columns of pandas (three kinds of types), polars and Arrow.
WHOLE = [5, 31, 99]
STORED: dict[str, Any] = {
    "int64": pd.Series(WHOLE),
    "float64": pd.Series([*WHOLE, None]),
    "object": pd.Series([*WHOLE, "x"]),
    "huge": pd.Series([*WHOLE, 10**30]),
    "Int64": pd.Series([*WHOLE, None], dtype="Int64"),
    "Float64": pd.Series([*WHOLE, 0.5], dtype="Float64"),
    "string": pd.Series([*map(str, WHOLE), None], dtype="string"),
    "category": pd.Series([*map(str, WHOLE)], dtype="category"),
    "int64[pyarrow]": pd.Series([*WHOLE, None], dtype="int64[pyarrow]"),
    "complex": pd.Series([*WHOLE, 3j]),
    "polars Int64": pl.Series([*WHOLE, None]),
    "polars Float64": pl.Series([*WHOLE, 0.5], strict=False),
    "polars String": pl.Series([*WHOLE, "x"], strict=False),
    "polars Decimal": pl.Series([*map(Decimal, WHOLE), Decimal("0.5")]),
    "polars Categorical": pl.Series([*map(str, WHOLE)], dtype=pl.Categorical),
    "int64 of Arrow": pa.array([*WHOLE, None]),
    "int8 of Arrow": pa.array(WHOLE, pa.int8()),
    "uint64 of Arrow": pa.array(WHOLE, pa.uint64()),
    "decimal of Arrow": pa.array([*map(Decimal, WHOLE), Decimal("0.5")]),
    "string of Arrow": pa.chunked_array([list(map(str, WHOLE)), ["x"]]),
    "dictionary of Arrow": pa.array(map(str, WHOLE)).dictionary_encode(),
}


@pytest.mark.parametrize("name", STORED)
def test_the_type_of_a_column_does_not_change_its_cells(name: str) -> None:
    column = STORED[name]
    assert as_numbers(column, "i")[:3].tolist() == WHOLE
    assert as_numbers(column, "f")[:3].tolist() == WHOLE
    assert codes_of(column, [99, 5])[:3].tolist() == [1, -1, 0]
    assert codes_of(column, ["99", "5"])[:3].tolist() == [1, -1, 0]
    assert codes_of(column, [99.0, 5.5])[:3].tolist() == [-1, -1, 0]
    assert np.isnan(as_numbers(column, "i")[3:]).all()


@pytest.mark.parametrize(
    "cells",
    [
        pa.array([BIG, BIG + 1, None]),
        pa.array([str(BIG), str(BIG + 1), "x"]),
        pd.Series([BIG, BIG + 1, None], dtype=object),
        pd.Series([BIG, BIG + 1, None], dtype="Int64"),
        pl.Series([BIG, BIG + 1, None]),
    ],
)
def test_whole_numbers_beyond_the_doubles_are_told_apart_as_texts(cells: Any) -> None:
    assert codes_of(cells, [str(BIG + 1), str(BIG)]).tolist() == [1, 0, -1]
    with pytest.raises(InvalidInputError, match="differ as doubles"):
        codes_of(cells, [BIG + 1, BIG])


@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_the_last_whole_number_stays_one_beside_a_missing_cell(kind: str) -> None:
    """It marks missing cells in many a table, and pandas has doubles there beside a real one."""
    last = int(np.iinfo(kind).max)
    for cells in ([last], [last, None], [last, "x"], [last, 0.5], [last, Decimal(1)]):
        assert as_numbers(pd.Series(cells), kind[0])[0] == float(last)
    assert np.isnan(as_numbers(pd.Series([128.0]), "i")).sum() == 0
    assert np.isnan(as_numbers(pa.array([str(2**65)]), kind[0])).all()
