"""A sample of the fuzzed tables; all of them are run by benchmarks/bench_fuzzed_tables.py."""

from __future__ import annotations

import pytest

fuzzed = pytest.importorskip("benchmarks.bench_fuzzed_tables")


def test_one_odd_cell_or_line_tells_nothing(seed: int) -> None:
    found = fuzzed.fuzz(80, seed)
    assert found["differences"] == []
    assert set(found["tables"]) == set(fuzzed.WAYS)
