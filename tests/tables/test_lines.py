"""CSV files: each line is one record, and no line changes another or the number of rows."""

from __future__ import annotations

import codecs
import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from sfumato.tables import text as lines
from sfumato.tables.files import TableFile

TYPES = {"n": "int64", "x": "double", "c": "string"}
GOOD = b'7,2.5,"red, or blue"'
VALUES = {"n": 7, "x": 2.5, "c": "red, or blue"}
MISSING = dict.fromkeys(TYPES)
ODD = [
    b"",
    b"7",
    b"7,2.5,red,",
    b"7,2.5,red,or,blue",
    b'"7,2.5,red',
    b'7,2.5,"red',
    b'7,2.5,"red""',
    b'7",2.5,"red',
    b"\xff\xfe,\xff",
    b"\x00" * 9,
    b"\r",
    b"7,2.5\r,red\r,blue",
]


def written(folder: Path, records: list[bytes], end: bytes = b"\n") -> TableFile:
    path = folder / "rows.csv"
    path.write_bytes(end.join([b"n,x,c", *records]) + end)
    return TableFile(path, TYPES)


def rows_of(source: TableFile) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = source.read(list(TYPES)).to_pylist()
    return found


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_that_cannot_be_read_is_a_record_that_misses_all(tmp_path: Path, end: bytes) -> None:
    records = [each for odd in ODD for each in (GOOD, odd)]
    source = written(tmp_path, records, end)
    assert source.n_rows == len(records)
    found = rows_of(source)
    assert found[::2] == [VALUES] * len(ODD)
    assert found[1::2] == [MISSING] * len(ODD)


PIECES = st.sampled_from([*'",x7.\\\x00 é{}[]:\n', "\r\n"])
CELLS = st.lists(PIECES, max_size=5).map("".join)


@settings(max_examples=100, deadline=None)
@given(
    cells=st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=4),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
    block=st.sampled_from([1, 6, 2**24]),
)
def test_what_a_csv_writer_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    cells: list[list[str]],
    quoting: Any,
    end: str,
    block: int,
) -> None:
    sink = io.StringIO()
    csv.writer(sink, lineterminator=end, quoting=quoting).writerows(cells)
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    path.write_bytes(b"n,x,c\n" + sink.getvalue().encode())
    declared = lines.TextFormat(line_breaks=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        source = TableFile(path, dict.fromkeys(TYPES, "string"), declared)
        found = source.read().to_pylist()
        assert source.n_rows == len(cells)
    rows = list(csv.reader(io.StringIO(sink.getvalue(), newline="")))
    assert rows == cells
    expected = [[cell.replace("\r\n", "\n") or None for cell in row] for row in rows]
    assert [list(row.values()) for row in found] == expected


ANY_LINE = st.one_of(
    st.binary(max_size=12),
    st.lists(st.sampled_from([b'"', b",", b"7", b"x", b"\r", b" ", b"{", b"}", b"\xff"])).map(
        b"".join
    ),
).filter(lambda line: b"\n" not in line)


@settings(max_examples=60, deadline=None)
@given(odd=ANY_LINE, place=st.integers(0, 2))
def test_no_line_changes_another(
    tmp_path_factory: pytest.TempPathFactory, odd: bytes, place: int
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    records = [GOOD] * 3
    records[place] = odd
    found = rows_of(written(folder, records))
    assert len(found) == 3
    alone = rows_of(written(folder, [odd]))
    assert repr(found.pop(place)) == repr(alone[0])
    assert found == [VALUES] * 2


def test_a_quote_that_is_not_closed_opens_nothing(tmp_path: Path) -> None:
    source = written(tmp_path, [GOOD, b'7,"2.5', b"7,2.5,red", b"7,2.5,red"])
    found = source.declared(TYPES, lines.TextFormat(line_breaks=True))
    assert rows_of(found) == rows_of(source)
    source.path.write_bytes(source.path.read_bytes() + b'7,2.5,"blue"\n')  # which closes it
    assert [row["n"] for row in rows_of(source)] == [7, None, 7, 7, 7]
    assert [row["n"] for row in rows_of(found)] == [7, None]


@pytest.mark.parametrize("block", [1, 7, 50, 1000])
@pytest.mark.parametrize("may_break", [False, True])
def test_blocks_do_not_matter_and_neither_does_the_last_end_of_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, *, may_break: bool
) -> None:
    declared = lines.TextFormat(line_breaks=may_break)
    records = [GOOD, *ODD, codecs.BOM_UTF8 + GOOD, GOOD]  # a mark is the file's alone
    whole = rows_of(written(tmp_path, records).declared(TYPES, declared))
    monkeypatch.setattr(lines, "BLOCK_BYTES", block)
    source = written(tmp_path, records).declared(TYPES, declared)
    assert rows_of(source) == whole
    source.path.write_bytes(source.path.read_bytes()[:-1])
    assert rows_of(source) == whole
    source.path.write_bytes(codecs.BOM_UTF8 + source.path.read_bytes())
    for each in (declared, replace(declared, encoding="cp1252")):  # the mark goes before it
        assert rows_of(TableFile(source.path, TYPES, each)) == whole


NUMBERS = st.one_of(
    st.from_regex(r"\A[ +-]?[0-9]{0,25}(\.[0-9]{0,4})?([eE][+-]?[0-9]{1,4})?\Z"),
    st.sampled_from(["true", "False", "nan", "inf", "0x1F", "1.", ".5", "NA", "", " 1", "1_0"]),
)
ANY_TYPE = st.sampled_from(["double", "float", "int64", "uint8", "bool", "string"])


@settings(max_examples=100, deadline=None)
@given(cell=NUMBERS, declared=ANY_TYPE)
def test_a_cell_is_read_alike_beside_odd_ones(
    tmp_path_factory: pytest.TempPathFactory, cell: str, declared: str
) -> None:
    """Blocks that Arrow reads as a whole and blocks that are read cell by cell agree."""
    folder = tmp_path_factory.mktemp("rows")
    records, found = [f"{cell},1,c".encode(), GOOD], []
    for lines_ in (records, [*records, b"\xff,1,c"]):
        path = written(folder, lines_).path
        column = TableFile(path, {"n": declared}).read(["n"])["n"][:2]
        found.append(repr([None if each != each else each for each in column.to_pylist()]))
    assert found[0] == found[1]
