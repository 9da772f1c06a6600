"""What is declared about a table, and what its cells become."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.tables import TableBounds

pa = pytest.importorskip("pyarrow")
polars = pytest.importorskip("polars")

BOUNDS = TableBounds.from_dict(
    {
        "age": (0, 100),
        "income": {"lower": 0, "upper": 1e6, "log": True},
        "size": {"lower": 1e-3, "upper": 1e3, "log": True, "fill": 1.0},
        "town": ["Ghent", "Ypres"],
        "grade": {"categories": ["low", "mid", "high"], "ordered": True},
        "member": bool,
        "born": {
            "parts": ["time", "year", "month", "weekday"],
            "lower": date(1900, 1, 1),
            "upper": date(2020, 1, 1),
            "missing": True,
        },
        "name": None,
        "ill": ["no", "yes"],
    },
    target="ill",
)
COLUMNS: dict[str, list[Any]] = {
    "age": [31, -4, None],
    "income": [math.e - 1, 2e6, None],
    "size": [10.0, 1e-9, None],
    "town": ["Ypres", "Bruges", None],
    "grade": ["high", "low", "??"],
    "member": [True, None, False],
    "born": [date(1970, 1, 2), date(2100, 5, 2), None],
    "name": ["x", "y", "z"],
    "ill": ["no", "yes", "no"],
}
FRAMES = {"pandas": pd.DataFrame, "polars": polars.DataFrame, "pyarrow": pa.table}


@pytest.mark.parametrize("library", FRAMES)
def test_cells_by_hand(library: str) -> None:
    nan = math.nan
    wanted = [
        [31, 1, math.log(10), 1, 2, 1, 1, 1970, 0, 4],
        [0, math.log1p(1e6), math.log(1e-3), nan, 0, nan, 18262, 2020, 4, 6],
        [nan, nan, 0, nan, nan, 0, nan, nan, nan, nan],
    ]
    found = BOUNDS.cells(FRAMES[library](COLUMNS))
    np.testing.assert_allclose(found, wanted, rtol=1e-14)
    names = ["age", "income", "size", "town", "grade", "member"]
    assert [each.name for each in BOUNDS.features] == [
        *names,
        *(f"born.{part}" for part in ("time", "year", "month", "weekday")),
    ]


def test_targets_are_labels_or_a_range() -> None:
    columns: dict[str, Any] = {"age": (0, 9), "y": (0, 5)}
    target = TableBounds.from_dict(columns, target="y").target
    assert target is not None
    assert (target.labels, target.lower, target.upper) == (None, 0, 5)
    target = TableBounds.from_dict(columns | {"y": "public"}, target="y").target
    assert target is not None
    assert target.labels == "public"
    with pytest.raises(InvalidInputError, match="what the target 'z' can be"):
        TableBounds.from_dict(columns, target="z")


def test_there_and_back(tmp_path: Any) -> None:
    BOUNDS.write(tmp_path / "bounds.toml")
    assert TableBounds.read(tmp_path / "bounds.toml") == BOUNDS
    assert TableBounds.from_record(BOUNDS.to_record()) == BOUNDS
