"""Tables on disk: every format there and back, in batches, and errors without cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.odd_tables import write_workbook
from sfumato.exceptions import InvalidInputError
from sfumato.tables import files
from sfumato.tables.columns import read_as
from sfumato.tables.files import TableFile, write_table

pa = pytest.importorskip("pyarrow")
SUFFIXES = (".csv", ".tsv", ".parquet")


def a_table() -> Any:
    return pa.table(
        {
            "age": pa.array([31, None, 29]),
            "größe": pa.array([1.5, 2.25, None]),
            "member": pa.array([True, None, False]),
            "colour": pa.array(["red", None, "blue"]),
        }
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_there_and_back(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    assert write_table(a_table(), path) is None
    source = TableFile(path)
    assert source.columns == {
        "age": "int64",
        "größe": "double",
        "member": "bool",
        "colour": "string",
    }
    assert source.n_rows == 3
    assert source.read().equals(a_table())
    assert source.read(["colour", "age"]).column_names == ["colour", "age"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_batches_together_are_the_table(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"x": np.arange(1000), "y": np.arange(1000) / 7})
    write_table(table, tmp_path / f"rows{suffix}")
    monkeypatch.setattr(files, "BATCH_ROWS", 64)
    monkeypatch.setattr("sfumato.tables.text.BLOCK_BYTES", 2000)
    source = TableFile(tmp_path / f"rows{suffix}")
    batches = list(source.batches(["y"]))
    assert len(batches) > 5
    assert pa.concat_tables(batches).equals(table.select(["y"]))
    assert source.n_rows == 1000


def test_a_damaged_table_states_no_other_guarantee(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), path, {"guarantee": 1})
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        damaged = bytes([content[place] ^ 16])
        path.write_bytes(content[:place] + damaged + content[place + 1 :])
        try:
            assert TableFile(path).metadata() in (None, {"guarantee": 1})
        except InvalidInputError:
            continue


@pytest.mark.parametrize("index", ["int8", "int32", "int64"])
def test_a_coded_text_that_is_not_utf_8_is_one_missing_cell(tmp_path: Path, index: str) -> None:
    """Arrow casts dictionaries of other indices than 32 bits, and looks at every text then."""
    odd = pa.array([b"\xff\xfe"], pa.binary()).view(pa.string())
    texts = pa.concat_arrays([pa.array(["1.5"]), odd])
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], index), texts)
    path = tmp_path / "coded.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(pa.table({"c": coded}), path)
    found = TableFile(path).declared({"c": "double"}, None).read(["c"])
    assert read_as(found["c"], "double").to_pylist() == [1.5, None, 1.5]


def test_a_workbook_is_read_as_declared(tmp_path: Path) -> None:
    pytest.importorskip("python_calamine")
    write_workbook({"age": [31, None, "many"], "ward": ["Köln", 7, ""]}, tmp_path / "a.xlsx")
    found = TableFile(tmp_path / "a.xlsx", {"age": "int64", "ward": "string"}).read()
    assert found.to_pydict() == {"age": [31, None, None], "ward": ["Köln", "7", None]}
