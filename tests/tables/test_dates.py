"""Dates of a table: one odd cell makes objects of a column, and changes no other cell."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sfumato import TableBounds
from sfumato.tables.columns import PARTS, as_numbers, codes_of, part_of
from sfumato.tables.files import TableFile, write_table

TEXTS = ["2020-03-01 10:30:00", "1950-12-31 23:59:59", "2021-07-05 00:00:00", "2022-02-02"]
NAIVE = pd.Series(pd.to_datetime(TEXTS, format="ISO8601"))
COLUMNS = {
    "s": NAIVE.astype("datetime64[s]"),
    "ns": NAIVE.astype("datetime64[ns]") + pd.Timedelta(123456789, unit="ns"),
    "zone": NAIVE.dt.tz_localize("UTC"),
    "Arrow": NAIVE.astype(pd.ArrowDtype(pa.timestamp("us"))),
    "Arrow dates": NAIVE.dt.date.astype(pd.ArrowDtype(pa.date32())),
    "categories": NAIVE.astype("category"),
    "spans": NAIVE - NAIVE.iloc[0],
    "periods": NAIVE.dt.to_period("D"),
    "digits": pd.Series([20200301, 19501231, 20210705, 20220202]),
    "missing": pd.Series([np.nan] * 4),
}
READ = {
    "number": lambda c: as_numbers(c, "f"),
    "whole number": lambda c: as_numbers(c, "i"),
    "numbers": lambda c: codes_of(c, [1, 20200301]),
    "texts": lambda c: codes_of(c, [*TEXTS, "2020-03-01", "20200301"]),
    **{
        f"{part} {form}": lambda c, a=(part, form): part_of(c, *a)
        for part in ("time", "hour", "weekday")
        for form in ("", "%Y%m%d", "%Y-%d-%m")
    },
}


@pytest.mark.parametrize("name", COLUMNS)
def test_one_odd_cell_changes_no_other(name: str) -> None:
    column = COLUMNS[name]
    for odd in ("odd", None, 3.5, [1], datetime.date(1, 1, 1)):
        spoilt = column.astype(object).copy()
        spoilt.iat[3] = odd
        for way, read in READ.items():
            np.testing.assert_array_equal(read(spoilt)[:3], read(column)[:3], err_msg=way)


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_a_date_beyond_all_calendars_changes_no_other(unit: str) -> None:
    """Its error would name it; pandas cannot even hand such a cell over."""
    far = pa.array([0, 2**62, -(2**62), 86400], "int64").cast(pa.timestamp(unit))
    for part in PARTS:
        near = part_of(far.take([0, 3]), part)
        for column in (far, pd.Series(far, dtype=pd.ArrowDtype(far.type)), far.to_numpy()):
            assert part_of(column, part)[[0, 3]].tolist() == near.tolist()
    spans = pd.Series(
        far.cast("int64").cast(pa.duration(unit)), dtype=pd.ArrowDtype(pa.duration(unit))
    )
    assert np.isnan(as_numbers(spans, "f")).all()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_dates_that_are_written_in_their_own_way_are_read_from_files(
    tmp_path: Path, suffix: str
) -> None:
    fact = {"parts": ["year"], "lower": "1900-01-01", "upper": "2100-01-01", "format": "%d.%m.%Y"}
    bounds = TableBounds.from_dict({"day": fact})
    one = fact | {"parts": ["year", "month"], "lower": "2020-01-01", "upper": "2020-12-31"}
    assert [each.part for each in TableBounds.from_dict({"day": one}).features] == ["month"]
    expected = [1950.0, 2020.0, np.nan]
    written = pa.table({"day": ["31.12.1950", "01.02.2020", "2020-01-01"]})
    stored = pa.table({"day": pa.array([-6941, 18293, None], "int32").cast(pa.date32())})
    for table in [written, stored] if suffix == "parquet" else [written]:
        write_table(table, tmp_path / f"rows.{suffix}")
        read = TableFile(tmp_path / f"rows.{suffix}", bounds.types()).read()
        np.testing.assert_array_equal(bounds.cells(read)[:, 0], expected)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("declared", ["date32[day]", "timestamp[s]"])
def test_a_year_that_python_does_not_know_is_a_date_like_others(
    tmp_path: Path, suffix: str, declared: str
) -> None:
    """One such cell was an error of its own."""
    fact = {"type": declared, "parts": ["year"], "lower": "1900-01-01", "upper": "2100-01-01"}
    bounds = TableBounds.from_dict({"day": fact})
    days = ["2020-01-31", "0000-01-01", "-0001-01-01", "9999-12-31", "10000-01-01", "1950-01-01"]
    write_table(pa.table({"day": days}), tmp_path / f"rows.{suffix}")
    read = TableFile(tmp_path / f"rows.{suffix}", bounds.types()).read()
    for table in (read, pa.table({"day": days}), pd.DataFrame({"day": days})):
        years = bounds.cells(table)[:, 0]
        assert years[[0, 1, 5]].tolist() == [2020, 1900, 1950]
        assert np.isnan(years[3])  # where there is no date, many systems write this
