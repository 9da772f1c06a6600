"""Each row of the page of faults is kept by tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "faults.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if not set(row[0]) <= set("-|: ") and row[0] != "Fault"]


ROWS = rows(PAGE.read_text())


@cache
def names_in(name: str) -> set[str]:
    tree = ast.parse((ROOT / name).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_every_row_says_all_and_names_its_tests(row: list[str]) -> None:
    assert len(row) == 5
    assert all(row)
    named = TEST.findall(row[-1])
    assert named, "no test keeps this row"
    assert TEST.sub("", row[-1]).replace(",", "").strip() == ""
    for file, test in named:
        assert (ROOT / file).is_file(), file
        assert test in names_in(file), f"{file} has no {test}"


def test_a_row_without_its_test_is_found() -> None:
    (row,) = rows(
        "| Fault | a |\n|---|---|\n| x | y | z | w | `tests/test_faults_page.py::test_no` |"
    )
    with pytest.raises(AssertionError):
        test_every_row_says_all_and_names_its_tests(row)
