"""Tables with one odd cell or line: as frames of every library, and as files of every format.

One odd cell changes the type of its whole column in most libraries and writers. The tables here let
it: they are built as a person would build them, from plain values.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from sfumato.tables.facts import Column, Target
from sfumato.tables.schema import TableBounds

Columns = Mapping[str, list[Any]]
FAR = 2**60 + 1  # which no double is

BOUNDS = TableBounds(
    (
        Column("whole", "int64", lower=0, upper=100),
        Column("share", "double", lower=0.0, upper=1.0),
        Column("member", "bool", lower=0, upper=1),
        Column("colour", "string", categories=("blue", "red")),
        Column("code", "int64", categories=(FAR, 5, 7)),
        Column("id", "string", left_out=True),
    ),
    Target("label", "int64", (-1, 5)),
    confirmed=True,
)

# A cell that is missing, fractional, huge, of another type, or nothing that can be written.
CELLS: tuple[Any, ...] = (
    None,
    0.5,
    -1e300,
    10**30,
    -(10**400),
    float("nan"),
    float("inf"),
    True,
    "odd",
    "",
    "1e999",
    "5.0",
    "NULL",
    'a "quote", a comma',
    "\ud800",
    "ü\x00",
    b"\xff\xfe",
    Decimal("0.1"),
    [1, 2],
)
# A line in the place of another.
LINES: dict[str, tuple[bytes, ...]] = {
    "csv": (
        b"",
        b"1",
        b",,,,,,,",
        b"1,2,3,4,5,6,7,8",
        b'"open,1,2',
        b'7",1,"',
        b"\xff\x00\r,",
        b"\r",
    ),
    "jsonl": (
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"whole": ',
        b"\xff",
        b'{"whole": {}, "x": 1}',
        b"[" * 9999,
    ),
}


def columns(n_rows: int = 40, seed: int = 0) -> dict[str, list[Any]]:
    """Return rows of plain values that obey the bounds."""
    rng = np.random.default_rng(seed)
    return {
        "whole": rng.integers(0, 101, n_rows).tolist(),
        "share": rng.random(n_rows).tolist(),
        "member": (rng.random(n_rows) < 0.5).tolist(),
        "colour": rng.choice(["blue", "red"], n_rows).tolist(),
        "code": rng.choice([FAR, 5, 7], n_rows).tolist(),
        "id": [f"person {i}" for i in range(n_rows)],
        "label": rng.choice([-1, 5], n_rows).tolist(),
    }


def with_cell(given: Columns, name: str, place: int, cell: Any) -> dict[str, list[Any]]:
    """Put a cell in the place of another."""
    found = {each: list(values) for each, values in given.items()}
    found[name][place] = cell
    return found


def with_line(path: Path, place: int, line: bytes) -> None:
    """Put a line in the place of another, the header not counted."""
    lines = path.read_bytes().split(b"\n")
    lines[place + (path.suffix == ".csv")] = line
    path.write_bytes(b"\n".join(lines))


# Frames ---------------------------------------------------------------------------------------


def _pandas(given: Columns, **backend: Any) -> Any:
    import pandas as pd

    return pd.DataFrame({name: _pandas_column(values, backend) for name, values in given.items()})


def _pandas_column(values: list[Any], backend: Mapping[str, Any]) -> Any:
    import pandas as pd

    try:
        column = pd.Series(values)
        return column.convert_dtypes(**backend) if backend else column
    except (UnicodeError, OverflowError):  # half of a surrogate pair, integers beyond a double
        return pd.Series(values, dtype=object)


def _polars(given: Columns) -> Any:
    import polars as pl

    return pl.DataFrame([_polars_column(name, values) for name, values in given.items()])


def _polars_column(name: str, values: list[Any]) -> Any:
    import polars as pl

    try:
        return pl.Series(name, values, strict=False)
    except Exception:  # whatever it says, objects are left
        return pl.Series(name, values, dtype=pl.Object)


def _arrow(given: Columns) -> Any:
    return pa.table({name: _arrow_column(values) for name, values in given.items()})


def _arrow_column(values: list[Any]) -> Any:
    """Store values as the type they have together, or all as texts."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError):
        return pa.array([_text(value) for value in values])


def _text(value: Any) -> str | None:
    if value is None or value != value:
        return None
    return str(value).encode("utf-8", "replace").decode()


FRAMES: dict[str, Callable[[Columns], Any]] = {
    "pandas": _pandas,
    "pandas nullable": lambda given: _pandas(given, dtype_backend="numpy_nullable"),
    "pandas arrow": lambda given: _pandas(given, dtype_backend="pyarrow"),
    "polars": _polars,
    "pyarrow": _arrow,
}


# Files ----------------------------------------------------------------------------------------


def _csv(given: Columns, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8", errors="replace") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(given)
        writer.writerows(zip(*given.values(), strict=True))


def _csv_of_pandas(given: Columns, path: Path) -> None:
    """Write whole numbers as fractions where one is missing, as pandas does."""
    _pandas(given).to_csv(path, index=False, errors="replace", lineterminator="\n")


def _jsonl(given: Columns, path: Path) -> None:
    rows = (dict(zip(given, row, strict=True)) for row in zip(*given.values(), strict=True))
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))


def _parquet(given: Columns, path: Path) -> None:
    pyarrow.parquet.write_table(_arrow(given), path)


def _feather(given: Columns, path: Path) -> None:
    pyarrow.feather.write_feather(_arrow(given), path)


def _parquet_of_pandas(given: Columns, path: Path) -> None:
    """Write doubles where a whole number is missing, as pandas does."""
    frame = {name: column.tolist() for name, column in _pandas(given).items()}
    pyarrow.parquet.write_table(_arrow(frame), path)


# How a table is written, by the name of the way: suffix and function.
FILES: dict[str, tuple[str, Callable[[Columns, Path], None]]] = {
    "csv": ("csv", _csv),
    "csv of pandas": ("csv", _csv_of_pandas),
    "jsonl": ("jsonl", _jsonl),
    "parquet": ("parquet", _parquet),
    "parquet of pandas": ("parquet", _parquet_of_pandas),
    "feather": ("feather", _feather),
}
