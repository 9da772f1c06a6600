"""Damaged tables: bits flipped, bytes overwritten, files cut, in every format that is read.

Mutated files are read in a process of their own, which a crash of the interpreter ends: the
campaign notes it and goes on behind the file that did it.
"""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from sfumato.exceptions import InvalidInputError
from sfumato.tables.files import TableFile, write_table

TYPES = {"x": "double", "n": "int64", "colour": "string", "ward": "string", "member": "bool"}
ROWS = 80
TRIED = 4000  # files of each kind
SEALED = ("parquet", "feather")  # whose silent changes a checksum excludes


def a_table() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "x": rng.normal(size=ROWS),
            "n": rng.integers(0, 2**60, ROWS),
            "colour": pa.array(rng.choice(["red", "blue", None], ROWS)),
            "ward": pa.array(rng.choice(["east", "west"], ROWS)).dictionary_encode(),
            "member": rng.random(ROWS) < 0.5,
        }
    )


def _sealed(suffix: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rows.{suffix}"
        write_table(a_table(), path, {"guarantee": 1} if suffix in SEALED else None)
        return path.read_bytes()


def _foreign(write: Callable[..., Any], **options: Any) -> bytes:
    content = io.BytesIO()
    write(a_table(), content, **options)
    return content.getvalue()


# The files that are damaged, by the name of their kind: suffix and content.
KINDS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "csv": ("csv", lambda: _sealed("csv")),
    "jsonl": ("jsonl", lambda: _sealed("jsonl")),
    "parquet": ("parquet", lambda: _sealed("parquet")),
    "feather": ("feather", lambda: _sealed("feather")),
    "parquet of others": ("parquet", lambda: _foreign(pyarrow.parquet.write_table)),
    "feather of others": ("feather", lambda: _foreign(pyarrow.feather.write_feather)),
    "feather of others, not packed": (
        "feather",
        lambda: _foreign(pyarrow.feather.write_feather, compression="uncompressed"),
    ),
}


def mutated(content: bytes, number: int, *, only_bits: bool = False) -> bytes:
    """Damage a file; every second time by one flipped bit, else worse."""
    chance, data = random.Random(number), bytearray(content)
    place = chance.randrange(len(data))
    way = 0 if only_bits or number % 2 == 0 else chance.randrange(1, 6)
    if way == 0:
        data[place] ^= 1 << chance.randrange(8)
    elif way == 1:
        for _ in range(chance.randrange(2, 9)):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif way == 2:
        data[place : place + 64] = chance.randbytes(len(data[place : place + 64]))
    elif way == 3:
        data[place : place + 8] = chance.choice([b"\xff" * 8, b"\x00" * 8, b"\xff" * 4 + b"\x7f"])
    elif way == 4:
        del data[place:]
    else:
        data[place:place] = data[place : place + 512]
    return bytes(data)


def read_damaged(kind: str, start: int, stop: int, *, only_bits: bool = False) -> list[str]:
    """Read damaged files in this process, and say what came of each."""
    suffix, make = KINDS[kind]
    content, found = make(), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rows.{suffix}"
        path.write_bytes(content)
        whole = _read(path)
        for number in range(start, stop):
            path.write_bytes(mutated(content, number, only_bits=only_bits))
            found.append(_outcome(path, whole))
            print(json.dumps(found[-1]), flush=True)
    return found


def _read(path: Path) -> tuple[str, Any]:
    source = TableFile(path, TYPES)
    return repr(source.read(list(TYPES)).to_pydict()), source.metadata()


def _outcome(path: Path, whole: tuple[str, Any]) -> str:
    try:
        rows, metadata = _read(path)
        if rows == whole[0] and metadata in (whole[1], None):
            return "same rows" if metadata == whole[1] else "same rows, guarantee lost"
        return "other rows"
    except InvalidInputError as error:
        return "refused" if str(path) in str(error) else "refused without a name"
    except BaseException as error:
        return f"raw exception: {type(error).__name__}"


def damaged_tables(share: float) -> list[dict[str, Any]]:
    """Damage tables of all kinds; gives one record a kind."""
    records = []
    for kind in KINDS:
        tried = max(1, round(TRIED * share))
        outcomes = Counter(_campaign(kind, tried))
        if kind in SEALED and "other rows" in outcomes:
            outcomes["silent change"] = outcomes.pop("other rows")
        records.append({"fault": f"damaged {kind}", "tried": tried, "outcomes": dict(outcomes)})
    return records


def _campaign(kind: str, tried: int) -> list[str]:
    """Read damaged files in other processes, as many as crashes make necessary."""
    found: list[str] = []
    while len(found) < tried:
        command = f"read_damaged({kind!r}, {len(found)}, {tried})"
        done = subprocess.run(
            [sys.executable, "-c", f"from benchmarks.damaged_tables import *; {command}"],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[1],
            check=False,
        )
        told = [json.loads(line) for line in done.stdout.splitlines()]
        found += ["raw exception" if each.startswith("raw") else each for each in told]
        if done.returncode:
            found.append("crash")
    return found[:tried]
