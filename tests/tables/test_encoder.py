"""One public encoding of a record."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from sfumato import TableBounds, TableEncoder
from sfumato.tables.schema import Column

pa = pytest.importorskip("pyarrow")
polars = pytest.importorskip("polars")
BOUNDS = TableBounds(
    (
        Column("age", "int64", lower=0, upper=100),
        Column("colour", "string", categories=("blue", "green", "red")),
        Column("name", "string", left_out=True),
        Column("share", "double", lower=-1.0, upper=1.0),
        Column("member", "bool", lower=0, upper=1),
    ),
    confirmed=True,
)
ODD = TableBounds.from_dict(
    {
        "age": {"lower": 1, "upper": 100, "missing": True, "log": True, "decimals": 0},
        "colour": {"categories": ["blue", "red"], "missing": True},
        "grade": {"categories": ["low", "mid", "high"], "ordered": True},
        "day": {"parts": ["time"], "lower": "2000-01-01", "upper": "2010-01-01"},
        "when": {"parts": ["weekday", "hour"], "type": "timestamp[s]"},
    }
)
H = 1 / math.sqrt(2)


def a_table(**columns: Any) -> Any:
    usual = {
        "age": pa.array([0, 50, None], pa.int64()),
        "colour": pa.array(["red", "violet", None]),
        "share": pa.array([1.0, math.inf, math.nan]),
        "member": pa.array([True, None, False]),
    }
    return pa.table({**usual, **columns})


def test_numbers_and_categories_by_hand() -> None:
    np.testing.assert_allclose(
        TableEncoder(BOUNDS).transform(a_table()),
        [
            [-0.5, 0, 0, H, 0.5, 0.5],
            [0.0, 0, 0, 0, 0.5, 0.0],  # an unknown category, an infinite number, a missing one
            [0.0, 0, 0, 0, 0.0, -0.5],
        ],
    )


def test_marks_logs_orders_and_dates_by_hand() -> None:
    frame = pd.DataFrame(
        {
            "age": [10, None],
            "colour": ["red", "violet"],
            "grade": ["high", "mid"],
            "day": ["2005-01-01", "1999-01-01"],
            "when": ["2024-01-02 23:00:00", None],  # a Tuesday
        }
    )
    days = (pd.Timestamp("2005-01-01") - pd.Timestamp("2000-01-01")).days / 3653 - 0.5
    found = TableEncoder(ODD).fit_transform(frame)
    week = [0, H, 0, 0, 0, 0, 0]
    np.testing.assert_allclose(
        found,
        [
            [0, 0, 0, H, 0, 0.5, days, *week, 0.5],
            [0, 0.5, 0, 0, H, 0.0, -0.5, *[0] * 7, 0],
        ],
        atol=1e-12,
    )
    names = TableEncoder(ODD).get_feature_names_out().tolist()
    assert names[:6] == [
        "age",
        "age missing",
        "colour=blue",
        "colour=red",
        "colour missing",
        "grade",
    ]
    assert names[6:] == ["day.time", *(f"when.weekday={i}" for i in range(1, 8)), "when.hour"]


numbers = st.one_of(st.none(), st.floats(width=64), st.just(1e308))


@given(
    st.lists(st.tuples(numbers, numbers, st.sampled_from(["red", "blue", "?", None])), min_size=1),
    st.booleans(),
    st.booleans(),
)
def test_every_row_lies_in_the_bounds_that_the_encoder_states(
    rows: list[Any], missing: bool, log: bool
) -> None:
    age, share, colour = zip(*rows, strict=True)
    columns = (
        Column("age", "double", lower=0.0, upper=1e12, missing=missing, log=log),
        Column("share", "double", lower=1e-9, upper=2e-9, log=log),
        Column("colour", "string", categories=("blue", "red"), missing=missing),
    )
    encoder = TableEncoder(TableBounds(columns, confirmed=True))
    table = pa.table(
        {
            "age": pa.array(age, pa.float64()),
            "share": pa.array(share, pa.float64()),
            "colour": pa.array(colour, pa.string()),
        }
    )
    found, bounds = encoder.transform(table), encoder.row_bounds()
    assert np.isfinite(found).all()
    box = bounds.box(encoder.width)
    assert box is not None
    assert (found >= box[0]).all()
    assert (found <= box[1]).all()
    assert bounds.norm == pytest.approx(1.0)  # of two numbers and a category, marked or not
    assert (np.linalg.norm(found, axis=1) <= bounds.norm).all()
    # Clipping once more moves a row by a hair at most: no signal is lost to the bounds.
    np.testing.assert_allclose(bounds.clip(found), found, atol=1e-9)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_there_and_back(library: str) -> None:
    table = pa.table(
        {
            "age": pa.array([3.0, None, 99.0]),
            "colour": ["red", None, "blue"],
            "grade": ["low", "high", "mid"],
            "day": pa.array([12000, 13000, 14000], pa.int32()).cast("date32"),
            "when": pa.array([0, 10**6, 10**9]).cast(pa.timestamp("s")),
        }
    )
    encoder = TableEncoder(ODD)
    again = encoder.from_cells(ODD.cells(table), library=library)
    assert type(again).__module__.startswith(library)
    back = {n: list(np.asarray(again[n])) for n in ("grade", "when.weekday")}
    assert back == {"grade": ["low", "high", "mid"], "when.weekday": [4, 1, 7]}
    same = encoder.from_cells(ODD.cells(table))
    kept = ["age", "colour", "day"]
    assert same.select(kept).equals(table.select(kept))
