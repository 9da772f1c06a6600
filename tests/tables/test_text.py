"""How a table is written as text: sniffed by `describe`, declared for everybody else."""

from __future__ import annotations

import gzip
import io
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sfumato import TableBounds
from sfumato.sums.table_parts import FileParts
from sfumato.tables import text
from sfumato.tables.files import TableFile
from sfumato.tables.proposal import describe_table
from sfumato.tables.text import PLAIN_TEXT, TextFormat, distinct, sniff_text

pytest.importorskip("pyarrow")

GERMAN = "Größe;Preis;Ort\r\n1,5;1.234,50;Köln\r\nk.A.;7,25;Gent\r\n2,25;12.000,00;k.A.\r\n"
SETTINGS = TextFormat(";", ",", ".", "cp1252", ("k.A.",))
TYPES = {"Größe": "double", "Preis": "double", "Ort": "string"}
CELLS = {
    "Größe": [1.5, None, 2.25],
    "Preis": [1234.5, 7.25, 12000.0],
    "Ort": ["Köln", "Gent", None],
}


def test_what_is_sniffed_is_what_was_written(tmp_path: Path) -> None:
    content = GERMAN.encode("cp1252")
    packed = pa.compress(content, "zstd", asbytes=True)
    given = {"a.csv": content, "a.csv.gz": gzip.compress(content), "a.csv.zst": packed}
    for name, data in given.items():
        (tmp_path / name).write_bytes(data)
        source = TableFile.sniffed(tmp_path / name)
        assert source.read().to_pydict() == CELLS
        bounds = describe_table(source).bounds
        assert bounds.text == SETTINGS
        bounds.write(tmp_path / "bounds.toml")
        assert TableBounds.read(tmp_path / "bounds.toml") == bounds
        declared = TableFile(tmp_path / name, TYPES, SETTINGS)
        assert declared.read().to_pydict() == CELLS
        assert declared.n_rows == 3


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("a,b\n1.5,x\n2,y\n", PLAIN_TEXT),
        ("a\tb\n1.5\tx, y\n2\ty\n", TextFormat(delimiter="\t")),
        ("a|b\n1.5|x\n-|y\n7|z\n", TextFormat(delimiter="|", missing=("-",))),
        ("a;b\n1.5;x\n2.5;y\n", TextFormat(delimiter=";")),
        ("day;b\n01.02.2020;1,5\n03.02.2020;2,5\n", TextFormat(delimiter=";", decimal=",")),
        ("a,b\n1,unknown\n2,y\n", TextFormat(missing=("unknown",))),
    ],
)
def test_formats(tmp_path: Path, content: str, wanted: TextFormat) -> None:
    (tmp_path / "a.csv").write_text(content)
    assert sniff_text(tmp_path / "a.csv") == wanted
    assert TextFormat.from_record(wanted.to_record()) == wanted


def test_line_breaks_and_names_that_are_there_twice(tmp_path: Path) -> None:
    """A table as programs write it is the same from a file, from parts and from pandas."""
    path = tmp_path / "a.csv"
    path.write_text('"a\nb",x,x\n' + '"two\nlines",2,3\n"one ""word""",4,5\n' * 30)
    source, frame = TableFile.sniffed(path), pd.read_csv(path)
    assert source.text == TextFormat(line_breaks=True)
    assert source.read().to_pandas().equals(frame)
    known = {"a\nb": ["two\nlines", 'one "word"'], "x": (0, 9), "x.1": (0, 9)}
    bounds = replace(TableBounds.from_dict(known), text=source.text)
    bounds.write(tmp_path / "bounds.toml")
    assert TableBounds.read(tmp_path / "bounds.toml", sealed=False) == bounds
    expected = bounds.cells(frame)
    assert np.isfinite(expected).all()
    assert np.array_equal(bounds.cells(source.read()), expected)
    parts = FileParts.of(tmp_path / "*.csv").declared(bounds.types(), bounds.text)
    (found,) = parts.map(lambda _, batches: np.concatenate([*map(bounds.cells, batches)]))
    assert np.array_equal(found, expected)
    for names in product(["x", "x.1", "x.2", "y"], repeat=4):
        assert distinct(names) == [*pd.read_csv(io.StringIO(",".join(names)))]


def test_one_name_far_down_says_how_letters_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column of names is never left out because the first lines were plain."""
    monkeypatch.setattr(text, "BLOCK_BYTES", 2**10)
    monkeypatch.setattr(text, "SAMPLE_BYTES", 2**8)
    lines = ["name;x", *["Smith;1.5"] * 500, "Müller;2.5"]
    (tmp_path / "a.csv").write_bytes("\n".join(lines).encode("cp1252"))
    found = describe_table(TableFile.sniffed(tmp_path / "a.csv")).bounds
    assert found.text == TextFormat(";", encoding="cp1252")
    assert found.columns[0].categories == ("Müller", "Smith")


def test_declared_cells_are_read_by_themselves(tmp_path: Path) -> None:
    """A fit never sniffs: where commas are declared, a point is no decimal point."""
    rows = ["1,5", "1.5", "1.500", "01.02.2020", "k.A.", "x", "-3"]
    declared = TextFormat(";", decimal=",", thousands=".", missing=("k.A.",))
    (tmp_path / "a.csv").write_text("\n".join(["a;b", *(f"{row};1" for row in rows)]))
    found = TableFile(tmp_path / "a.csv", {"a": "double"}, declared).read(["a"])["a"].to_pylist()
    assert found == [1.5, None, 1500.0, None, None, None, -3.0]
    for row, value in zip(rows, found, strict=True):
        (tmp_path / "b.csv").write_text(f"a;b\n{row};1\n")
        alone = (
            TableFile(tmp_path / "b.csv", {"a": "double"}, declared).read(["a"])["a"].to_pylist()
        )
        assert alone == [value]
