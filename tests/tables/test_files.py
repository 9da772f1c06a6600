"""Tables on disk: every format there and back, in batches, and errors without cells."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.tables import files
from sfumato.tables.columns import read_as
from sfumato.tables.files import (
    TableFile,
    metadata_beside,
    parse_note,
    write_table,
)

pa = pytest.importorskip("pyarrow")
SUFFIXES = (".csv", ".tsv", ".parquet")
SECRET = "Zebedee"


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
    assert source.count_rows() == 3
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
    assert source.count_rows() == 1000


def test_declared_types_are_binding(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("code,x\n01,1\n02,2\n")
    source = TableFile(tmp_path / "rows.csv", {"code": "string", "x": "double"})
    assert source.read().to_pydict() == {"code": ["01", "02"], "x": [1.0, 2.0]}
    write_table(pa.table({"x": pa.array([1, 2], pa.int8())}), tmp_path / "rows.parquet")
    assert TableFile(tmp_path / "rows.parquet", {"x": "double"}).read()["x"].type == pa.float64()


def bad_files(folder: Path) -> dict[str, bytes]:
    return {
        "empty.csv": b"",
        "header.csv": b"a,b\n",
        "ragged.csv": f"a,b\n1,2\n{SECRET}\n".encode(),
        "twice.csv": b"a,a\n1,2\n",
        "garbage.csv": bytes(range(128, 256)) * 40,
        "garbage.parquet": bytes(range(256)) * 40,
        "packed.csv": gzip.compress(b"a,b\n1,2\n"),
    }


@pytest.mark.parametrize("name", sorted(bad_files(Path())))
def test_bad_files_are_told_without_cells(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(bad_files(tmp_path)[name])
    with pytest.raises(InvalidInputError) as error:
        TableFile(tmp_path / name).read()
    assert name in str(error.value)
    assert SECRET not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_cell_of_another_type_is_missing(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(f"a,b\n1,2\n3,{SECRET}\n")
    found = TableFile(tmp_path / "rows.csv", {"b": "int64"}).read(["b"])
    assert found.to_pydict() == {"b": [2, None]}
    write_table(pa.table({"b": ["1", SECRET]}), tmp_path / "rows.parquet")
    found = TableFile(tmp_path / "rows.parquet", {"b": "int64"}).read()
    assert found.to_pydict() == {"b": [1, None]}


def test_line_breaks_inside_of_cells_are_refused_where_types_are_looked_for(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('a,b\n\n1,"x\ny"\r\n2,z\n')
    with pytest.raises(InvalidInputError, match=r"Line 3 .*line breaks"):
        TableFile(tmp_path / "rows.csv")
    (tmp_path / "rows.csv").write_text('a,b\n\n1,"x"\r\n\r\n2,z')
    assert TableFile(tmp_path / "rows.csv").read()["a"].to_pylist() == [None, 1, None, 2]


def test_metadata_travel_inside(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    assert write_table(a_table(), path, {"guarantee": "ε"}) is None
    assert TableFile(path).metadata() == {"guarantee": "ε"}
    write_table(a_table(), path)
    assert TableFile(path).metadata() is None


def test_metadata_of_text_lie_beside(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    assert write_table(a_table(), path, {"guarantee": 1}) == metadata_beside(path)
    note = metadata_beside(path)
    assert parse_note(note.read_bytes(), note) == {"guarantee": 1}
    whole = note.read_text()
    for damaged in (whole.replace("1", "0", 1), whole[:9], '{"guarantee": 1}', "[]", "7", "\x00"):
        note.write_text(damaged)
        with pytest.raises(InvalidInputError, match="damaged"):
            parse_note(note.read_bytes(), note)


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
