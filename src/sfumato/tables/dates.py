"""Dates of a table: wall-clock time, cell by cell, and its public parts.

One rule for time zones: a cell is read as the time that a clock on the wall showed. A column with a
time zone shows it in that zone, or in the zone that its declared type names; a column without one
is taken as it is. A text with a zone of its own is missing, as is whatever is no date.
"""

from __future__ import annotations

import contextlib
from datetime import date, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.tables.cells import cells_of
from sfumato.tables.columns import (
    arrow,
    arrow_kind,
    as_column,
    plain,
    read_as,
    text_of,
    texts,
    type_of,
)

PARTS = ("time", "year", "month", "weekday", "hour")
DATES = ("date", "timestamp", "time", "duration")
DAY = 86400.0
TYPED = {"polars", "pyarrow"}  # whose columns have a type of their own, whatever their cells


def is_date(type_name: str) -> bool:
    """Return whether a type of Arrow holds dates or times."""
    return type_name.startswith(DATES)


def part_of(
    column: Any, part: str, declared: str, format_of: str = "", place: str = "The column"
) -> NDArray[np.float64]:
    """Return one part of each date, NaN where there is none."""
    compute = arrow("compute")
    if type(column).__module__.partition(".")[0] in TYPED:
        times = _wall_clock(as_column(column), declared, format_of, place)
    else:
        times = _of_objects(column, declared, format_of)
    if part == "time":
        seconds = np.array(times.cast("int64").cast("float64", safe=False), dtype=np.float64)
        return seconds / DAY
    if part == "weekday":
        found = compute.day_of_week(times, count_from_zero=False)
    else:
        found = {"year": compute.year, "month": compute.month, "hour": compute.hour}[part](times)
    return np.array(found.cast("float64"), dtype=np.float64)


def _wall_clock(column: Any, declared: str, format_of: str, place: str) -> Any:
    """Return seconds of wall-clock time; each cell by itself."""
    types, compute, seconds = arrow("types"), arrow("compute"), arrow().timestamp("s")
    column = plain(column)
    stored = column.type
    if types.is_null(stored):
        return arrow().nulls(len(column), seconds)
    if types.is_string(stored):
        return _of_texts(column, format_of)
    if types.is_timestamp(stored) and stored.tz is not None:
        zone = getattr(type_of(declared), "tz", None) or stored.tz
        _zone(zone)  # refuses what is none
        column = compute.local_timestamp(column.cast(arrow().timestamp(stored.unit, tz=zone)))
    elif not (types.is_timestamp(stored) or types.is_date(stored)):
        # One cell can make doubles of all whole numbers, so which numbers they are is not said.
        kind = "number" if arrow_kind(str(stored)) else str(stored).partition("[")[0]
        raise InvalidInputError(f"{place} is of type {kind} and cannot be read as dates.")
    if types.is_timestamp(column.type):  # a cast would cut towards 1970
        column = compute.floor_temporal(column, unit="second")
    return column.cast(seconds, safe=False)


def _of_texts(column: Any, format_of: str) -> Any:
    """Read texts as they are declared; fractions of a second are left out."""
    compute = arrow("compute")
    if format_of:
        return compute.strptime(column, format=format_of, unit="s", error_is_null=True)
    return read_as(compute.replace_substring_regex(column, r"[.][0-9]+$", ""), "timestamp[s]")


def _of_objects(column: Any, declared: str, format_of: str) -> Any:
    """Read a column of pandas or NumPy cell by cell, whatever type one odd cell has given it.

    Dates are dates; all others are texts, or numbers that are written as such.
    """
    place = _zone(getattr(type_of(declared), "tz", None))
    dates, others = [], []
    for cell in cells_of(column):
        is_a_date = isinstance(cell, date | np.datetime64)
        dates.append(text_of(_on_the_wall(cell, place)) if is_a_date else None)
        others.append(None if is_a_date else text_of(cell))
    read = _of_texts(texts(dates), ""), _of_texts(read_as(texts(others), "string"), format_of)
    return arrow("compute").coalesce(*read)


def _on_the_wall(cell: Any, place: tzinfo | None) -> Any:
    """Return a date as a clock in that place shows it; None for one beyond the years of Python."""
    try:
        if isinstance(cell, np.datetime64):
            cell = cell.astype("datetime64[s]").item()
        has_zone = isinstance(cell, datetime) and cell.tzinfo is not None
        return cell.astimezone(place) if has_zone and place is not None else cell
    except Exception:  # whatever a strange zone raises, its cell is missing
        return None


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(f"2000-01-01T00:00{name}").tzinfo
    raise InvalidInputError(f"{name!r} is not a time zone; use a name such as 'Europe/Berlin'.")
