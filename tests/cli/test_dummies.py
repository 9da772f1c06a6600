"""Dummy rows of every type that an officer can declare, written and read again."""

from pathlib import Path

import pyarrow as pa

from sfumato.cli.jobs.dummies import dummy_table
from sfumato.tables import TableBounds
from sfumato.tables.files import TableFile, write_table

COLUMNS = {
    "day": {
        "type": "date32[day]",
        "lower": "1930-01-01",
        "upper": "2006-01-01",
        "parts": ("year",),
    },
    "moment": {
        "type": "timestamp[s]",
        "lower": "2025-01-01",
        "upper": "2026-01-01",
        "parts": ("hour",),
    },
    "size": {"type": "double", "lower": 0.0, "upper": 1.0},
    "age": {"type": "int64", "lower": 0, "upper": 120},
    "town": {"type": "string", "categories": ("Ghent", "Ypres")},
    "smokes": {"type": "bool"},
}


def test_dummy_rows_are_read_as_declared(tmp_path: Path) -> None:
    record = {"version": 2, "confirmed": True, "columns": COLUMNS, "one_row_per_person": True}
    bounds = TableBounds.from_record(record)
    made = dummy_table(bounds, 40)
    write_table(made, tmp_path / "rows.parquet")
    read = TableFile(tmp_path / "rows.parquet").declared(bounds.types(), None)
    found = read.read(list(bounds.types()))
    # Parquet has no whole seconds
    assert {
        name: str(found.schema.field(name).type).replace("[ms]", "[s]") for name in COLUMNS
    } == {name: str(pa.table(made).schema.field(name).type) for name in COLUMNS}
    for name in COLUMNS:
        assert found[name].to_pylist() == made[name].to_pylist()
        assert found[name].null_count == 0
    lower, upper = (min(made["moment"].to_pylist()), max(made["moment"].to_pylist()))
    assert (lower.year, upper.year) == (2025, 2025)
    assert any(each.hour for each in made["moment"].to_pylist())
