"""Damaged tables: one error with the name of the file, no crash, no other rows under a checksum."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from sfumato.exceptions import InvalidInputError
from sfumato.tables import files
from sfumato.tables.files import TableFile, write_table

ROOT = Path(__file__).parents[2]
FLIPS = 250
KINDS = ("csv", "jsonl", "parquet", "feather", "parquet of others", "feather of others")
RUN = """
import sys
from benchmarks.damaged_tables import read_damaged

for kind in sys.argv[2:]:
    print(flush=True)
    read_damaged(kind, 0, int(sys.argv[1]), only_bits=True)
"""


@pytest.fixture(scope="module")
def flipped() -> tuple[dict[str, Counter[str]], subprocess.CompletedProcess[str]]:
    """What came of files in which a bit was flipped, all read by one process."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(FLIPS), *KINDS],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=900,
        check=False,
    )
    blocks = done.stdout.removeprefix("\n").split("\n\n")
    told = [Counter(map(json.loads, block.splitlines())) for block in blocks]
    return dict(zip(KINDS, told, strict=False)), done


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit(kind: str, flipped: Any) -> None:
    found, done = flipped
    assert done.returncode == 0, (found, done.stderr)
    outcomes = found[kind]
    assert outcomes.total() == FLIPS
    good = {"refused", "same rows", "same rows, guarantee lost"}
    if kind not in ("parquet", "feather"):  # without a checksum, values may be others
        good.add("other rows")
    assert set(outcomes) <= good, outcomes
    assert kind in ("csv", "jsonl") or outcomes["refused"] > 0


def foreign(folder: Path, suffix: str, table: Any) -> Path:
    write = {"parquet": pyarrow.parquet.write_table, "feather": pyarrow.feather.write_feather}
    write[suffix](table, folder / f"rows.{suffix}")
    return folder / f"rows.{suffix}"


# Such a text in a dictionary of Parquet is refused by Arrow itself, as damage.
@pytest.mark.parametrize(
    ("suffix", "packed"), [("parquet", False), ("feather", False), ("feather", True)]
)
def test_a_text_that_is_no_utf8_is_one_missing_cell(
    tmp_path: Path, suffix: str, packed: bool
) -> None:
    texts = pa.array([b"red", b"\xff\xfe", b"7"], pa.binary()).view(pa.string())
    if packed:
        texts = pa.DictionaryArray.from_arrays([0, 1, 2], texts)
    path = foreign(tmp_path, suffix, pa.table({"c": texts, "n": [1, 2, 3]}))
    found = TableFile(path, {"c": "string", "n": "int64"}).read()
    assert found.to_pydict() == {"c": ["red", None, "7"], "n": [1, 2, 3]}
    assert TableFile(path, {"c": "double"}).read(["c"])["c"].to_pylist() == [None, None, 7.0]


@pytest.mark.parametrize("suffix", ["parquet", "feather"])
def test_the_checksum_covers_every_byte(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows.{suffix}"
    write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), path, {"guarantee": 1})
    content = path.read_bytes()
    assert not any(blank in content for blank in files.CHECKSUMS.values())
    for place in range(0, len(content), 5):
        for damage in (bytes([content[place] ^ 16]), b"\x00" * 64):
            end = place + len(damage)
            path.write_bytes(content[:place] + damage + content[end:])
            try:
                source = TableFile(path)
                found = source.read().to_pydict()
            except InvalidInputError:
                continue
            # The list of all metadata was hit: the rows are the same, without a guarantee.
            assert found == {"a": [1, 2], "b": ["x", "y"]}
            assert path.read_bytes() == content or source.metadata() is None


@pytest.mark.parametrize("block", [1, 50, 107, 108, 109, 500])
def test_blocks_of_a_checksum_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    write_table(pa.table({"a": [1, 2]}), tmp_path / "rows.feather")
    monkeypatch.setattr(files, "BLOCK_BYTES", block)
    assert TableFile(tmp_path / "rows.feather").read().to_pydict() == {"a": [1, 2]}


@pytest.mark.parametrize("first", ["parquet", "feather"])
@pytest.mark.parametrize("second", ["parquet", "feather"])
def test_a_table_that_was_read_can_be_written_again(
    tmp_path: Path, first: str, second: str
) -> None:
    write_table(pa.table({"a": [1, 2]}), tmp_path / f"one.{first}")
    again = TableFile(tmp_path / f"one.{first}").read()
    write_table(again, tmp_path / f"two.{second}")
    assert TableFile(tmp_path / f"two.{second}").read().to_pydict() == {"a": [1, 2]}


def test_pages_of_other_writers_are_checked_too(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    table = pa.table({"a": list(range(1000))})
    pyarrow.parquet.write_table(
        table, path, write_page_checksum=True, use_dictionary=False, compression="none"
    )
    content = bytearray(path.read_bytes())
    content[2000] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"rows\.parquet.*damaged"):
        TableFile(path).read()


def test_the_system_says_why_a_file_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(pa.table({"a": [1]}), tmp_path / "rows.parquet")

    def failing(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(pyarrow.parquet, "ParquetFile", failing)
    with pytest.raises(InvalidInputError, match=r"rows\.parquet.*Input/output error"):
        TableFile(tmp_path / "rows.parquet")
