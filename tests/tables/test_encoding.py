"""Rows of a table on a public scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.exceptions import InvalidInputError
from sfumato.tables.bounds_file import Column, TableBounds
from sfumato.tables.encoding import TableEncoding

pa = pytest.importorskip("pyarrow")
BOUNDS = TableBounds(
    (
        Column("age", "int64", lower=0, upper=100),
        Column("colour", "string", categories=("blue", "green", "red")),
        Column("name", "string", left_out=True),
        Column("share", "double", lower=-1.0, upper=1.0),
        Column("member", "bool", lower=0, upper=1),
    )
)


def a_table(**columns: Any) -> Any:
    usual = {
        "age": pa.array([0, 50, None], pa.int64()),
        "colour": pa.array(["red", "violet", None]),
        "share": pa.array([1.0, math.inf, math.nan]),
        "member": pa.array([True, None, False]),
    }
    return pa.table({**usual, **columns})


def test_numbers_and_categories_by_hand() -> None:
    h = 1 / math.sqrt(2)
    np.testing.assert_allclose(
        BOUNDS.encoding().encode(a_table()),
        [
            [-0.5, 0, 0, h, 0.5, 0.5],
            [0.0, 0, 0, 0, 0.5, 0.0],  # an unknown category, an infinite number, a missing one
            [0.0, 0, 0, 0, 0.0, -0.5],
        ],
    )


def test_a_bad_cell_moves_no_other_cell_and_no_other_row() -> None:
    encoding = BOUNDS.encoding()
    usual = encoding.encode(a_table())
    odd = encoding.encode(a_table(age=pa.array([10**15, 50, None])))
    assert (odd != usual).sum() == 1


numbers = st.one_of(st.none(), st.floats(width=64), st.just(1e308))


@given(st.lists(st.tuples(numbers, numbers, st.sampled_from(["red", "blue", "?", None]))))
def test_every_row_lies_in_the_bounds_that_the_encoding_states(rows: list[Any]) -> None:
    if not rows:
        return
    age, share, colour = zip(*rows, strict=True)
    columns = (
        Column("age", "double", lower=-3.0, upper=1e12),
        Column("share", "double", lower=1e-9, upper=2e-9),
        Column("colour", "string", categories=("blue", "red")),
    )
    encoding = TableBounds(columns).encoding()
    table = pa.table(
        {
            "age": pa.array(age, pa.float64()),
            "share": pa.array(share, pa.float64()),
            "colour": pa.array(colour, pa.string()),
        }
    )
    found = encoding.encode(table)
    bounds = encoding.bounds()
    assert np.isfinite(found).all()
    box = bounds.box(encoding.n_numbers)
    assert box is not None
    assert (found >= box[0]).all()
    assert (found <= box[1]).all()
    assert (np.linalg.norm(found, axis=1) <= encoding.norm).all()
    # Clipping once more moves a row by a hair at most: no signal is lost to the bounds.
    np.testing.assert_allclose(bounds.clip(found), found, atol=1e-9)


def test_the_norm_is_attained() -> None:
    encoding = BOUNDS.encoding()
    table = pa.table({"age": [100], "colour": ["red"], "share": [-1.0], "member": [True]})
    assert np.linalg.norm(encoding.encode(table)) == pytest.approx(encoding.norm)
    assert encoding.norm == pytest.approx(math.sqrt(3 / 4 + 1 / 2))


def test_there_and_back() -> None:
    table = pa.table(
        {
            "age": pa.array([3, 99]),
            "colour": ["red", "blue"],
            "share": [0.25, -0.5],
            "member": [True, False],
        }
    )
    encoding = TableEncoding.from_dict(BOUNDS.encoding().to_dict())
    assert encoding == BOUNDS.encoding()
    again = encoding.decode(encoding.encode(table))
    assert again.schema.types == table.schema.types
    assert again.drop_columns(["share"]).equals(table.drop_columns(["share"]))
    np.testing.assert_allclose(again["share"], table["share"])


def test_single_entries_have_a_box_and_no_categories() -> None:
    with pytest.raises(InvalidInputError, match="'entry' cannot protect a category"):
        BOUNDS.encoding().bounds(unit="entry")
    plain = TableBounds(BOUNDS.columns[:1]).encoding().bounds(unit="entry")
    assert (plain.norm, plain.lower, plain.upper) == (None, -0.5, 0.5)


def test_whole_numbers_stay_inside_their_type() -> None:
    columns = (
        Column("small", "uint8", lower=-50, upper=1000),
        Column("large", "int64", lower=-1e30, upper=1e30),
    )
    encoding = TableBounds(columns).encoding()
    found = encoding.decode(np.array([[-0.5, -0.5], [0.5, 0.5]]))
    assert found["small"].to_pylist() == [0, 255]
    low, high = found["large"].to_pylist()
    assert low == -(2**63)
    assert 2**63 - 2048 <= high < 2**63
