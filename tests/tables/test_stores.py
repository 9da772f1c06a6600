"""Tables inside workbooks: read as declared, each cell on its own."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.odd_tables import write_sheets
from sfumato.tables.files import TableFile

pytest.importorskip("python_calamine")

Rows = list[list[Any]]
NAMES = ["age", "weight", "ward", "ill"]
TYPES = {"age": "int64", "weight": "double", "ward": "string", "ill": "bool"}
ROWS: Rows = [[31, 70.5, "Köln", True], [45, 81.0, "east", False], [None, 64.25, None, True]]
READ = {
    "age": [31, 45, None],
    "weight": [70.5, 81.0, 64.25],
    "ward": ["Köln", "east", None],
    "ill": [True, False, True],
}


def workbook(
    path: Path, rows: Rows, names: list[Any] = NAMES, sheets: tuple[str, ...] = ("a",)
) -> None:
    write_sheets([names, *rows], path, *sheets)


@pytest.mark.parametrize("odd", ["many", 1e300, -3, True, "", "31", None])
def test_one_odd_cell_changes_no_other(tmp_path: Path, odd: Any) -> None:
    for place in range(4):
        rows = [list(row) for row in ROWS]
        rows[1][place] = odd
        path = tmp_path / f"{place}.xlsx"
        workbook(path, rows)
        source = TableFile(path, TYPES)
        found = source.read().to_pydict()
        assert source.columns == TYPES
        for column, cells in READ.items():
            others = [found[column][0], found[column][2]]
            assert others == [cells[0], cells[2]]
            if column != NAMES[place]:
                assert found[column] == cells


@pytest.mark.parametrize("span", [timedelta.max, timedelta.min, np.timedelta64(-(2**62), "s")])
def test_a_span_that_python_cannot_hold_changes_no_other_record(tmp_path: Path, span: Any) -> None:
    """It was the error of the whole workbook."""
    workbook(tmp_path / "a.xlsx", [ROWS[0], [*ROWS[1][:3], span], ROWS[2]])
    found = TableFile(tmp_path / "a.xlsx", TYPES)
    assert found.n_rows == 3
    for name, cells in found.read().to_pydict().items():
        assert [cells[0], cells[2]] == [READ[name][0], READ[name][2]]
