"""A sample of the fuzzed cells; benchmarks/bench_fuzzed_cells.py runs as many as asked for."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sfumato.sums import persons
from sfumato.tables import columns

cells = pytest.importorskip("benchmarks.bench_fuzzed_cells")


def test_one_cell_of_any_type_changes_no_other_record(seed: int) -> None:
    rounds = [cells.fuzz_round(number, seed) for number in range(2)]
    assert [each["differences"] for each in rounds] == [[], []]
    assert cells.n_cells(rounds) > 400


FAULTS = {  # what this library once did, and a kind of table that shows it
    "text": (columns, "_cast", lambda cells, wanted: cells.cast(wanted), "Arrow"),
    "ids": (persons, "on_arrow", lambda groups: getattr(groups, "to_pylist", list)(), "Arrow"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    *place, fault, kind = FAULTS[name]
    monkeypatch.setattr(*place, fault)
    found: list[str] = []
    for number in range(200):
        found += cells.fuzz_table(kind, random.Random(number), tmp_path, 5)[1]
        if found:
            return
    pytest.fail("Nothing was found.")
