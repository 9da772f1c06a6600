"""How one cell of a table is read, whatever it holds.

A cell is read as the type that was declared for its column, and alone: of which type the column is
stored, what the other cells hold and how the rows are cut into batches do not matter. A cell that
is not of the declared type is missing. Nothing here raises because of a cell.

The text ``31``, the number 31 and the number 31.0 are the same whole number and the same text. A
truth value is 1 or 0. A date is the time that a clock on the wall showed, in the zone of its column
if that has one; a text with a zone of its own is missing.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.tables.cells import as_number, cells_of, library_of, real_text

KINDS = {"bool": "b", "int": "i", "uint": "u"}
KINDS |= dict.fromkeys(("halffloat", "float", "double"), "f")  # also float32 of pandas
READ_AS = {"b": "bool", "i": "int64", "u": "uint64", "f": "double"}
TRUTHS = (("true", "1", "1.0"), ("false", "0", "0.0"))
TEXTS = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
TIMES = ("date", "time", "duration", "period", "interval")
PARTS = ("time", "year", "month", "weekday", "hour")
# Texts that may be numbers, and those that are, written out.
PERHAPS = r"^[+-]?([0-9.]|(?i:inf|nan))"
NO_YEAR = 9999  # of a date that means that there is none
IS_DATE = "\0"  # before the text of an object that is a date
MAX_DIGITS = 400  # of a whole number that is written out


def arrow(module: str = "") -> Any:
    """Import pyarrow, or one of its modules, when a table is touched."""
    return importlib.import_module(f"pyarrow.{module}" if module else "pyarrow")


def arrow_kind(type_name: str) -> str:
    """Return the NumPy kind of a type of Arrow, or an empty text where it holds no numbers."""
    return KINDS.get(type_name.rstrip("0123456789"), "")


def is_date(type_name: str) -> bool:
    return type_name.startswith(("date", "timestamp", "time", "duration"))


def type_of(name: str) -> Any:
    try:
        return arrow().type_for_alias(re.sub(", *tz=[^]]*", "", name))
    except ValueError:
        raise InvalidInputError(
            f"'{name}' is not a column type that can be read; use 'double', 'int64', 'bool', "
            "'string', or leave the column out."
        ) from None


def as_numbers(column: Any, kind: str, place: str = "The column") -> NDArray[np.float64]:
    """Return a column of numbers as doubles, a missing one as NaN."""
    read = read_as(as_column(column), READ_AS[kind], place)
    if kind == "b":
        read = read.cast("uint8")
    return np.array(read.cast("float64", safe=False), dtype=np.float64)


def codes_of(column: Any, values: Sequence[Any], place: str = "The column") -> NDArray[np.intp]:
    """Return the place of each cell among public values of one kind; -1 where it is none."""
    column, kinds = as_column(column), {type_of_value(value) for value in values}
    if len(kinds) != 1:
        raise InvalidInputError("Categories and labels must be all text, all numbers or all bool.")
    (declared,) = kinds
    # Whole numbers too as doubles, for many a library stores them so if one is missing.
    listed = [float(value) if declared == "double" else value for value in values]
    options, cells = arrow().array(listed, type_of(declared)), read_as(column, declared, place)
    if len(options.unique()) != len(options):
        raise InvalidInputError(
            "Categories and labels that are numbers must differ as doubles: whole numbers "
            "beyond 2**53 do not always. Use text instead."
        )
    if declared == "string":  # case and outer spaces say nothing, unless values differ in them
        folded = _folded(options)
        if len(folded.unique()) == len(folded):
            cells, options = _folded(cells), folded
    inside = arrow("compute").index_in(cells, value_set=options)
    return np.asarray(inside.fill_null(-1), dtype=np.intp)  # [Z2] equality, cell by cell


def _folded(texts: Any) -> Any:
    return arrow("compute").utf8_lower(arrow("compute").utf8_trim_whitespace(texts))


def type_of_value(value: Any) -> str:
    """Return the type that cells are read as, to be compared with a public value."""
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float | np.number) and math.isfinite(as_number(value)):
        return "double"
    raise InvalidInputError("A category or label must be a text, a finite number or a bool.")


def as_column(column: Any) -> Any:
    """Return a column of any library as one of Arrow, of the type that it is stored as."""
    library = library_of(column)
    if library == "pyarrow":
        return column
    dtype = getattr(column, "dtype", "object")
    dtype = getattr(getattr(dtype, "categories", None), "dtype", dtype)
    # pandas and NumPy have found nothing but times: one odd cell makes them objects.
    are_times = getattr(dtype, "kind", "") in ("m", "M") or str(dtype).startswith(TIMES)
    if not str(dtype).lower().startswith("object") and (library == "polars" or not are_times):
        with contextlib.suppress(Exception):  # of one cell that Arrow cannot hold
            is_polars = library == "polars"
            return column.to_arrow() if is_polars else arrow().array(column, from_pandas=True)
    return texts([text_of(cell) for cell in cells_of(column)])


def texts(cells: list[str | None]) -> Any:
    """Return texts as a column; half of a surrogate pair is not a text."""
    try:
        return arrow().array(cells, arrow().string())
    except (arrow().ArrowException, UnicodeError):
        broken = re.compile("[\ud800-\udfff]")
        whole = (None if cell is None or broken.search(cell) else cell for cell in cells)
        return arrow().array(list(whole), arrow().string())


def text_of(cell: Any) -> str | None:
    """Return a Python object as a text that reads back as the same value; None if it has none."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, np.generic):
        kind = cell.dtype.kind
        cell = float(cell) if kind == "f" else cell.item() if kind in "biucSU" else None
    if isinstance(cell, complex) and cell.imag == 0:
        cell = cell.real
    if isinstance(cell, bool):
        return "true" if cell else "false"
    try:
        if isinstance(cell, int):
            return str(int(cell))
        if isinstance(cell, float | Decimal):  # a whole one without a point, as a whole number
            if cell != cell:
                return None
            if isinstance(cell, float):
                return str(int(cell)) if cell.is_integer() else str(cell)
            is_short = cell.is_finite() and cell.adjusted() < MAX_DIGITS
            return str(int(cell) if is_short and cell == cell.to_integral_value() else cell)
        if isinstance(cell, date) and cell == cell:  # wall-clock time; not pandas.NaT
            return str(cell.replace(tzinfo=None) if isinstance(cell, datetime) else cell)
        return cell.decode() if isinstance(cell, bytes) else None
    except (ValueError, ArithmeticError):  # not UTF-8, or more digits than Python writes
        return None


def read_as(column: Any, declared: str, place: str = "The column") -> Any:
    """Read each cell of a column of Arrow as the type of this name, or as missing."""
    # No cell becomes a value of Python but texts and numbers: others, it may not be able to hold.
    pa, types, compute = arrow(), arrow("types"), arrow("compute")
    column = plain(column)
    wanted, stored, kind = type_of(declared), column.type, arrow_kind(declared)
    if stored == wanted:
        return column
    if types.is_null(stored):
        return pa.nulls(len(column), wanted)
    if types.is_boolean(stored):
        column = column.cast("uint8" if kind else "string")
    elif types.is_decimal(stored):
        column = column.cast("string" if stored.scale == 0 else "float64")
    elif (
        not types.is_string(stored)
        and not arrow_kind(str(stored))
        and (declared != "string" or types.is_nested(stored) or types.is_interval(stored))
    ):
        # One cell decides the unit of times, and the fields of a struct, in some libraries.
        unit = re.split(r"[\[<]", str(stored))[0]
        raise InvalidInputError(f"{place} is of type {unit} and cannot be read as {declared}.")
    is_text = types.is_string(column.type)  # [Z1] each cell alone, from here on
    if kind == "f":
        return (_parsed(column, pa.float64()) if is_text else column).cast(wanted, safe=False)
    if kind in ("i", "u"):
        return _parsed(column, wanted) if is_text else _in_range(column, wanted)
    if kind == "b":
        if is_text:
            column = compute.utf8_lower(compute.ascii_trim_whitespace(column))
            truths = [compute.is_in(column, value_set=pa.array(words)) for words in TRUTHS]
        else:
            column = column.cast("float64", safe=False)
            truths = [compute.equal(column, number) for number in (1.0, 0.0)]
        none = pa.scalar(None, wanted)
        return compute.if_else(truths[0], True, compute.if_else(truths[1], False, none))
    if types.is_floating(column.type):
        column = _each(column, lambda cells: texts([text_of(cell) for cell in cells.to_pylist()]))
    if not types.is_string(column.type):
        column = column.cast("string")
    return column if wanted == column.type else _each(column, lambda cells: _cast(cells, wanted))


def plain(column: Any) -> Any:
    """Return the same cells of a type that Arrow computes with; bytes as texts."""
    pa, types, compute, kind = arrow(), arrow("types"), arrow("compute"), column.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain(column.cast(kind.storage_type))
    if types.is_dictionary(kind):
        return plain(column.cast(kind.value_type))
    if types.is_run_end_encoded(kind):
        return plain(compute.run_end_decode(column))
    if types.is_float16(kind):
        return column.cast("float32")
    if not is_text(kind):
        return column
    # As bytes first: what is said to be a text need not be one.
    column = _cast(column.cast("binary"), pa.string())
    if compute.any(compute.match_substring(column, "0j")).as_py():
        return _each(column, lambda cells: texts([real_text(cell) for cell in cells.to_pylist()]))
    return column


def is_text(stored: Any) -> bool:
    types = arrow("types")
    return any(getattr(types, f"is_{each}")(stored) for each in (*TEXTS, "fixed_size_binary"))


def _parsed(column: Any, wanted: Any) -> Any:
    """Read texts as numbers: all at once if Arrow can, else each alone, with the same result."""
    pa, compute = arrow(), arrow("compute")
    with contextlib.suppress(pa.ArrowException):
        return column.cast(wanted)
    column = compute.ascii_trim_whitespace(column)
    for word, number in (("true", "1"), ("false", "0")):
        column = compute.replace_substring_regex(column, f"(?i)^{word}$", number)
    # What Arrow makes of a text alone is the rule; the pattern only saves time.
    doubtful = compute.match_substring_regex(column, PERHAPS)
    column = compute.if_else(doubtful, column, pa.scalar(None, pa.string()))
    as_doubles = _each(column, lambda cells: _cast(cells, pa.float64()))
    if wanted == pa.float64():
        return as_doubles
    whole = _each(column, lambda cells: _cast(cells, wanted))
    return compute.coalesce(whole, _in_range(as_doubles, wanted))  # 31.0 and 3.1e1


def _each(column: Any, read: Callable[[Any], Any]) -> Any:
    """Read every different value of a column once."""
    compute = arrow("compute")
    distinct = compute.unique(column).drop_null()
    return read(distinct).take(compute.index_in(column, value_set=distinct))


def _cast(cells: Any, wanted: Any) -> Any:
    """Cast inside of Arrow; a cell that cannot be cast alone is missing."""
    try:
        return cells.cast(wanted)
    except arrow().ArrowException:
        if len(cells) == 1:
            return arrow().nulls(1, wanted)
        halves = (cells.slice(0, len(cells) // 2), cells.slice(len(cells) // 2))
        cast = [_cast(half, wanted) for half in halves]
        chunks = [chunk for half in cast for chunk in getattr(half, "chunks", [half])]
        return arrow().concat_arrays(chunks)


def _in_range(column: Any, wanted: Any) -> Any:
    """Keep the whole numbers inside the range of a type."""
    # The last of 64 bits is a power of two as a double, and with it all that are the same double.
    compute, limits = arrow("compute"), np.iinfo(str(wanted))
    double = column.cast("float64", safe=False)
    least, most = float(limits.min), float(limits.max)
    kept = compute.and_(compute.greater_equal(double, least), compute.less(double, most))
    kept = compute.and_(kept, compute.equal(double, compute.floor(double)))
    inside = compute.if_else(kept, column, None).cast(wanted, safe=False)
    last = arrow().scalar(int(limits.max), wanted)
    return compute.if_else(compute.equal(double, most), last, inside)


def part_of(
    column: Any, part: str, format_of: str = "", place: str = "The column"
) -> NDArray[np.float64]:
    """Return one part of each date, NaN where there is none; days that texts write by a format."""
    pa, types, compute = arrow(), arrow("types"), arrow("compute")
    seconds = pa.timestamp("s")
    if library_of(column) in ("polars", "pyarrow"):  # with types of their own, whatever the cells
        column = plain(as_column(column))
    else:  # of pandas or NumPy, whatever type one odd cell has given the column
        column = texts([_dated(cell) for cell in cells_of(column)])
    stored = column.type
    if types.is_null(stored):
        times = pa.nulls(len(column), seconds)
    elif types.is_string(stored):  # fractions of a second are left out
        bare = compute.replace_substring_regex(column, rf"^{IS_DATE}|[.][0-9]+$", "")
        if format_of:
            bare = compute.if_else(compute.starts_with(column, IS_DATE), bare, None)
        times = read_as(bare, "timestamp[s]")
        times = compute.coalesce(days_written(column, format_of), times) if format_of else times
    else:
        if types.is_timestamp(stored) and stored.tz is not None:
            column = compute.local_timestamp(column)
        elif not (types.is_timestamp(stored) or types.is_date(stored)):
            # One cell can make doubles of all whole numbers, so which numbers they are is not said.
            kind = "number" if arrow_kind(str(stored)) else re.split(r"[\[<]", str(stored))[0]
            raise InvalidInputError(f"{place} is of type {kind} and cannot be read as dates.")
        if types.is_timestamp(column.type):  # a cast would cut towards 1970
            column = compute.floor_temporal(column, unit="second")
        times = column.cast(seconds, safe=False)
    times = compute.if_else(compute.equal(compute.year(times), NO_YEAR), None, times)
    if part == "time":
        return np.array(times.cast("int64").cast("float64", safe=False), np.float64) / 86400.0
    if part == "weekday":
        found = compute.day_of_week(times, count_from_zero=False)
    else:
        found = {"year": compute.year, "month": compute.month, "hour": compute.hour}[part](times)
    return np.array(found.cast("float64"), dtype=np.float64)


def days_written(texts: Any, formats: str) -> Any:
    """Return days written in one of the formats between bars; a year by %Y has four digits."""
    compute, found = arrow("compute"), []
    for each in formats.split("|"):
        days = compute.strptime(texts, format=each, unit="s", error_is_null=True)
        is_short = compute.less(compute.year(days), 1000 if "%Y" in each else 0)
        found.append(compute.if_else(is_short, None, days))
    return compute.coalesce(*found)


def _dated(cell: Any) -> str | None:
    """Return an object as a text; behind a sign, a date as its clock on the wall showed it."""
    if not isinstance(cell, date | np.datetime64):
        return text_of(cell)
    try:
        if isinstance(cell, np.datetime64):
            cell = cell.astype("datetime64[s]").item()
        return f"{IS_DATE}{text_of(cell)}"
    except Exception:  # beyond the years of Python, or whatever a strange zone raises
        return None
