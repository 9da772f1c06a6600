"""Tables with one odd cell or line: as frames of every library, and as files of every format.

One odd cell changes the type of its whole column in most libraries and writers. The tables here let
it: they are built as a person would build them, from plain values.
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from sfumato.tables.schema import Column, TableBounds, Target
from sfumato.tables.text import PLAIN_TEXT, TextFormat

Columns = Mapping[str, list[Any]]
FAR = 2**60 + 1  # which no double is

BOUNDS = TableBounds(
    (
        Column("whole", "int64", lower=0, upper=100),
        Column("share", "double", lower=0.0, upper=1.0),
        Column("member", "bool", lower=0, upper=1),
        Column("colour", "string", categories=("blue", "red")),
        Column("code", "int64", categories=(FAR, 5, 7)),
        Column("day", "date32[day]", "2000-01-01", "2030-01-01", parts=("year", "weekday")),
        Column("id", "string", left_out=True),
    ),
    Target("label", "int64", categories=(-1, 5)),
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
    "0000-01-01",
    "10000-01-01",
    date.min,
    datetime.max,
    datetime(2020, 1, 31, 10, 30),
    np.datetime64(-(2**62), "s"),
    timedelta.max,
)


def columns(n_rows: int = 40, seed: int = 0) -> dict[str, list[Any]]:
    """Return rows of plain values that obey the bounds."""
    rng = np.random.default_rng(seed)
    return {
        "whole": rng.integers(0, 101, n_rows).tolist(),
        "share": rng.random(n_rows).tolist(),
        "member": (rng.random(n_rows) < 0.5).tolist(),
        "colour": rng.choice(["blue", "red"], n_rows).tolist(),
        "code": rng.choice([FAR, 5, 7], n_rows).tolist(),
        "day": [date(2000, 1, 1) + timedelta(int(each)) for each in rng.integers(0, 9999, n_rows)],
        "id": [f"person {i}" for i in range(n_rows)],
        "label": rng.choice([-1, 5], n_rows).tolist(),
    }


def with_cell(given: Columns, name: str, place: int, cell: Any) -> dict[str, list[Any]]:
    """Put a cell in the place of another."""
    found = {each: list(values) for each, values in given.items()}
    found[name][place] = cell
    return found


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
        if not _mixes_dates(values):
            return pl.Series(name, values, strict=False)
    except Exception:  # whatever it says, objects are left
        pass
    return pl.Series(name, values, dtype=pl.Object)


def _arrow(given: Columns) -> Any:
    return pa.table({name: _arrow_column(values) for name, values in given.items()})


def _arrow_column(values: list[Any]) -> Any:
    """Store values as the type they have together, or all as texts."""
    try:
        if not _mixes_dates(values):
            return pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        pass
    return pa.array([_text(value) for value in values])


def _mixes_dates(values: list[Any]) -> bool:
    """Whether libraries make numbers of dates here, or dates of numbers, before they are read."""
    kinds = {type(value) for value in values}
    times = kinds & {date, datetime, timedelta, np.datetime64}
    return bool(times) and (bool(kinds & {int, float}) or {np.datetime64} < times)


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


def write_csv(given: Columns, path: Path, text: TextFormat = PLAIN_TEXT) -> None:
    """Write a table as text; what an encoding lacks is replaced."""
    with path.open("w", newline="", encoding=text.encoding, errors="replace") as file:
        writer = csv.writer(file, lineterminator="\n", delimiter=text.delimiter)
        writer.writerow(given)
        writer.writerows(zip(*given.values(), strict=True))


def _csv_of_pandas(given: Columns, path: Path) -> None:
    """Write whole numbers as fractions where one is missing, as pandas does."""
    _pandas(given).to_csv(path, index=False, errors="replace", lineterminator="\n")


def _parquet(given: Columns, path: Path) -> None:
    pyarrow.parquet.write_table(_arrow(given), path)


def _parquet_of_pandas(given: Columns, path: Path) -> None:
    """Write doubles where a whole number is missing, as pandas does."""
    frame = {name: column.tolist() for name, column in _pandas(given).items()}
    pyarrow.parquet.write_table(_arrow(frame), path)


def write_workbook(given: Columns, path: Path) -> None:
    """Write the fewest files that make a workbook of a table, each cell as what it is."""
    rows = [[*given], *zip(*given.values(), strict=True)]
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    links = "http://schemas.openxmlformats.org/package/2006/relationships"
    lines = "".join(f"<row>{''.join(map(_cell_of_excel, row))}</row>" for row in rows)
    listed = '<sheet name="rows" sheetId="1" r:id="s1"/>'
    linked = f'<Relationship Id="t" Type="{office}/styles" Target="styles.xml"/>'
    linked += f'<Relationship Id="s1" Type="{office}/worksheet" Target="sheet1.xml"/>'
    start = f'<Relationship Id="b" Type="{office}/officeDocument" Target="xl/workbook.xml"/>'
    kinds = "".join(f'<xf numFmtId="{number}"/>' for number in (0, 22, 46))  # days, and spans
    parts = {
        "[Content_Types].xml": '<Types xmlns="x"/>',
        "_rels/.rels": f'<Relationships xmlns="{links}">{start}</Relationships>',
        "xl/workbook.xml": (
            f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{listed}</sheets></workbook>'
        ),
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{links}">{linked}</Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{main}"><cellXfs>{kinds}</cellXfs></styleSheet>',
    }
    sheet = f'<worksheet xmlns="{main}"><sheetData>{lines}</sheetData></worksheet>'
    parts["xl/sheet1.xml"] = sheet
    with zipfile.ZipFile(path, "w") as book:
        for name, content in parts.items():
            book.writestr(name, content)


def _cell_of_excel(value: Any) -> str:
    if value is None:
        return "<c/>"
    if isinstance(value, bool):
        return f'<c t="b"><v>{int(value)}</v></c>'
    if isinstance(value, date):
        days = (datetime(value.year, value.month, value.day) - datetime(1899, 12, 30)).days
        return f'<c s="1"><v>{days}</v></c>'
    if isinstance(value, timedelta):
        return f'<c s="2"><v>{value.total_seconds() / 86400}</v></c>'
    if isinstance(value, np.datetime64 | np.timedelta64):  # by their ticks: far beyond all days
        return f'<c s="{1 + isinstance(value, np.timedelta64)}"><v>{value.astype(int)}</v></c>'
    if isinstance(value, int | float | Decimal):
        return f"<c><v>{value}</v></c>"
    text = str(value)
    if text.startswith("#"):
        return f'<c t="e"><v>{text}</v></c>'
    if text[:4].isdigit() and text[4:5] == "-":  # a date as newer versions write it
        return f'<c t="d"><v>{escape(text)}</v></c>'
    return f'<c t="inlineStr"><is><t>{escape(text)}</t></is></c>'


# How a table is written, by the name of the way: suffix and function.
FILES: dict[str, tuple[str, Callable[[Columns, Path], None]]] = {
    "csv": ("csv", write_csv),
    "csv of pandas": ("csv", _csv_of_pandas),
    "parquet": ("parquet", _parquet),
    "parquet of pandas": ("parquet", _parquet_of_pandas),
}
