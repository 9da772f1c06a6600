"""How one cell of a table is read, whatever stands in it.

A cell is read as the type that was declared for its column, and by itself: of which type the column
is stored, what the other cells hold and how the rows are cut into batches do not matter. A cell
that is not of the declared type is missing. Nothing here raises because of a cell.

Texts and numbers meet half-way, for formats of text know nothing else: the text ``31``, the number
31 and the number 31.0 are the same whole number and the same text. A truth value is 1 or 0.
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
from sfumato.tables.cells import as_number, cells_of, real_text

KINDS = {
    "bool": "b",
    "int": "i",
    "uint": "u",
    "halffloat": "f",
    "float": "f",  # also those of pandas, float32 and float64
    "double": "f",
}
READ_AS = {"b": "bool", "i": "int64", "u": "uint64", "f": "double"}
TRUTHS = (("true", "1", "1.0"), ("false", "0", "0.0"))
WORDS = {"true": "1", "false": "0"}
UNITS = ("s", "ms", "us", "ns")  # of times
TIMES = ("date", "time", "duration", "period", "interval")
BLANKS = " \t\n\r\v\f"
# Texts that may be numbers, and those that are, written out.
PERHAPS = r"^[+-]?([0-9.]|(?i:inf|nan))"
DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
MAX_DIGITS = 400  # of a whole number that is written out


def arrow(module: str = "") -> Any:
    """Import pyarrow, or one of its modules, when a file is touched."""
    try:
        return importlib.import_module(f"pyarrow.{module}" if module else "pyarrow")
    except ImportError:
        raise InvalidInputError(
            "Reading and writing tables needs pyarrow: pip install pyarrow."
        ) from None


def arrow_kind(type_name: str) -> str:
    """Return the NumPy kind of a type of Arrow, or an empty text where it holds no numbers."""
    return KINDS.get(type_name.rstrip("0123456789"), "")


def type_of(name: str) -> Any:
    """Return the type of Arrow that has this name."""
    for unit in UNITS:
        if name.startswith(f"timestamp[{unit}"):
            zone = re.search(r"tz=([^\]]+)", name)
            return arrow().timestamp(unit, tz=zone[1] if zone else None)
    try:
        return arrow().type_for_alias(name)
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
    """Return the place of each cell among public values, -1 where it is none of them.

    Cells are compared as what the values are: texts, truth values, or numbers as doubles. Whole
    numbers too, for many a library stores them as doubles beside one that is missing; values that
    are the same double are refused.
    """
    column = as_column(column)
    kinds = [type_of_value(value) for value in values]
    found = np.full(len(column), -1, dtype=np.intp)
    for declared in dict.fromkeys(kinds):
        places = [i for i, kind in enumerate(kinds) if kind == declared]
        options = arrow().array(
            [_as_declared(values[i], declared) for i in places], type_of(declared)
        )
        if len(options.unique()) != len(options):
            raise InvalidInputError(
                "Categories and labels that are numbers must differ as doubles: whole numbers "
                "beyond 2**53 do not always. Use text instead."
            )
        inside = arrow("compute").index_in(read_as(column, declared, place), value_set=options)
        codes = np.asarray(inside.fill_null(-1), dtype=np.intp)  # [Z2] equality, cell by cell
        found = np.where((found < 0) & (codes >= 0), np.asarray(places)[codes], found)
    return found


def type_of_value(value: Any) -> str:
    """Name the type that cells are read as, to be compared with a public value."""
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float | np.number) and math.isfinite(as_number(value)):
        return "double"
    raise InvalidInputError("A category or label must be a text, a finite number or a truth value.")


def _as_declared(value: Any, declared: str) -> Any:
    return float(value) if declared == "double" else value


# From any library to Arrow --------------------------------------------------------------------


def as_column(column: Any) -> Any:
    """Return a column of any library as one of Arrow, of the type that it is stored as."""
    library = type(column).__module__.partition(".")[0]
    if library == "pyarrow":
        return column
    dtype = getattr(column, "dtype", "object")
    dtype = getattr(getattr(dtype, "categories", None), "dtype", dtype)
    if str(dtype).lower().startswith("object") or (library != "polars" and _holds_times(dtype)):
        return texts([text_of(cell) for cell in cells_of(column)])
    try:
        return column.to_arrow() if library == "polars" else _stored(column)
    except Exception:  # of one cell that Arrow cannot hold among the others
        return texts([text_of(cell) for cell in cells_of(column)])


def _holds_times(dtype: Any) -> bool:
    """Whether pandas or NumPy has found nothing but times: one odd cell makes them objects."""
    return getattr(dtype, "kind", "") in ("m", "M") or str(dtype).startswith(TIMES)


def _stored(column: Any) -> Any:
    return arrow().array(column, from_pandas=True)


def texts(cells: list[str | None]) -> Any:
    """Return texts as a column; half of a surrogate pair is no text."""
    try:
        return arrow().array(cells, arrow().string())
    except (arrow().ArrowException, UnicodeError):
        whole = (None if cell is None or _is_broken(cell) else cell for cell in cells)
        return arrow().array(list(whole), arrow().string())


def _is_broken(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def text_of(cell: Any) -> str | None:
    """Return a Python object as a text that reads back as the same value; None if it has none."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, np.generic):
        cell = _plain_object(cell)
    if isinstance(cell, complex) and cell.imag == 0:
        cell = cell.real
    if isinstance(cell, bool):
        return "true" if cell else "false"
    try:
        if isinstance(cell, int):
            return str(int(cell))
        if isinstance(cell, float | Decimal):
            return _digits(cell)
        if isinstance(cell, date) and cell == cell:  # wall-clock time; not pandas.NaT
            return str(cell.replace(tzinfo=None) if isinstance(cell, datetime) else cell)
        return cell.decode() if isinstance(cell, bytes) else None
    except (ValueError, ArithmeticError):  # not UTF-8, or more digits than Python writes
        return None


def _plain_object(cell: np.generic) -> Any:
    kind = cell.dtype.kind
    if kind == "f":
        return float(cell)
    return cell.item() if kind in "biucSU" else None


def _digits(number: float | Decimal) -> str | None:
    """Write a number; a whole one without a point, as a column of whole numbers would."""
    if number != number:
        return None
    if isinstance(number, Decimal) and number.is_finite() and number.adjusted() < MAX_DIGITS:
        is_whole = number == number.to_integral_value()
    else:
        is_whole = isinstance(number, float) and number.is_integer()
    return str(int(number)) if is_whole else str(number)


# From one type to another ---------------------------------------------------------------------


def read_as(column: Any, declared: str, place: str = "The column") -> Any:
    """Read each cell of a column of Arrow as the type of this name, or as missing.

    Raises only if the column as a whole holds neither numbers nor texts, such as one of lists.
    No cell becomes a value of Python but texts and numbers: others, it may not be able to hold.
    """
    types = arrow("types")
    column = plain(column)
    wanted, stored = type_of(declared), column.type
    if stored == wanted:
        return column
    kind = arrow_kind(declared)
    if types.is_null(stored):
        return arrow().nulls(len(column), wanted)
    if types.is_boolean(stored):
        column = column.cast("uint8" if kind else "string")
    elif types.is_decimal(stored):
        column = _each(column.cast("string"), lambda cells: _written(cells, Decimal))
    elif (
        not types.is_string(stored)
        and not arrow_kind(str(stored))
        and (declared != "string" or types.is_nested(stored) or types.is_interval(stored))
    ):
        kind = str(stored).partition("[")[0]  # one cell decides the unit of times in some libraries
        raise InvalidInputError(f"{place} is of type {kind} and cannot be read as {declared}.")
    return _READERS.get(kind, _as_other)(column, wanted)  # [Z1] each cell by itself


def plain(column: Any) -> Any:
    """Return the same cells of a type that Arrow computes with; bytes as the texts that they are.

    One complex number makes a library write all numbers of its column as such, ``(1.5+0j)``.
    """
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
    """Return whether a type of Arrow holds texts or bytes."""
    types = arrow("types")
    asked = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
    return any(getattr(types, f"is_{each}")(stored) for each in (*asked, "fixed_size_binary"))


def _as_floats(column: Any, wanted: Any) -> Any:
    if arrow("types").is_string(column.type):
        column = _parsed(column, arrow().float64(), _cast)
    return column.cast(wanted, safe=False)


def _as_whole_numbers(column: Any, wanted: Any) -> Any:
    if not arrow("types").is_string(column.type):
        return _in_range(column, wanted)
    return _parsed(column, wanted, _whole_numbers)


def _as_truths(column: Any, wanted: Any) -> Any:
    compute, none = arrow("compute"), arrow().scalar(None, wanted)
    if arrow("types").is_string(column.type):
        column = compute.utf8_lower(compute.ascii_trim_whitespace(column))
        is_true, is_false = (
            compute.is_in(column, value_set=arrow().array(words)) for words in TRUTHS
        )
    else:
        column = column.cast("float64", safe=False)
        is_true, is_false = (compute.equal(column, number) for number in (1.0, 0.0))
    return compute.if_else(is_true, True, compute.if_else(is_false, False, none))


def _as_other(column: Any, wanted: Any) -> Any:
    """Read texts, or what texts can be cast to, such as dates."""
    types = arrow("types")
    if types.is_floating(column.type):
        column = _each(column, _written)
    if not types.is_string(column.type):
        column = column.cast("string")
    return column if wanted == column.type else _each(column, lambda cells: _cast(cells, wanted))


_READERS: dict[str, Callable[[Any, Any], Any]] = {
    "b": _as_truths,
    "i": _as_whole_numbers,
    "u": _as_whole_numbers,
    "f": _as_floats,
}


def _parsed(column: Any, wanted: Any, read: Callable[[Any, Any], Any]) -> Any:
    """Read texts as numbers: all at once if Arrow can, else each by itself, with the same result.

    What Arrow makes of a text alone is the rule; the pattern only saves time. Truth values are
    numbers too, as they are where a column holds nothing else.
    """
    pa, compute = arrow(), arrow("compute")
    with contextlib.suppress(pa.ArrowException):
        return column.cast(wanted)
    column = compute.ascii_trim_whitespace(column)
    for word, number in WORDS.items():
        column = compute.replace_substring_regex(column, f"(?i)^{word}$", number)
    doubtful = compute.match_substring_regex(column, PERHAPS)
    column = compute.if_else(doubtful, column, pa.scalar(None, pa.string()))
    return _each(column, lambda cells: read(cells, wanted))


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
        chunks = [each for half in halves for each in _chunks(_cast(half, wanted))]
        return arrow().concat_arrays(chunks)


def _chunks(column: Any) -> Any:
    return column.chunks if hasattr(column, "chunks") else [column]


def _written(cells: Any, number: Callable[[Any], Any] = float) -> Any:
    """Write numbers as texts."""
    return texts([text_of(number(cell)) for cell in cells.to_pylist()])


def _whole_numbers(cells: Any, wanted: Any) -> Any:
    """Read whole numbers exactly, also those that are written with a point or an exponent."""
    found, limits = _cast(cells, wanted), np.iinfo(str(wanted))
    others = cells.filter(found.is_null()).to_pylist()
    read = arrow().array([_whole_number(cell, limits) for cell in others], wanted)
    return arrow("compute").replace_with_mask(found, found.is_null(), read)


def _whole_number(text: str, limits: np.iinfo[Any]) -> int | None:
    try:
        number = Decimal(text if DECIMAL.fullmatch(text) else "NaN")
    except ArithmeticError:  # an exponent of twenty digits
        return None
    if not number.is_finite() or number.adjusted() > 20 or number != number.to_integral_value():
        return None
    is_last = float(number) == float(limits.max) > limits.max  # see `_in_range`
    if is_last or limits.min <= number <= limits.max:
        return int(limits.max) if is_last else int(number)
    return None


def _in_range(column: Any, wanted: Any) -> Any:
    """Keep the whole numbers inside the range of a type.

    The last of 64 bits is a power of two as a double, and with it all that are the same double:
    beside a missing cell many a library has doubles.
    """
    pa, compute = arrow(), arrow("compute")
    limits, double = np.iinfo(str(wanted)), column.cast("float64", safe=False)
    if arrow("types").is_floating(column.type):
        column = double
        lowest, end = float(limits.min), float(limits.max + 1)  # powers of two, or 0
        is_inside = compute.and_(compute.greater_equal(column, lowest), compute.less(column, end))
        kept = compute.and_(is_inside, compute.equal(column, compute.floor(column)))
    else:
        own = np.iinfo(str(column.type))
        lowest, highest = (
            pa.scalar(int(min(max(limit, own.min), own.max)), column.type)
            for limit in (limits.min, limits.max)
        )
        kept = compute.and_(
            compute.greater_equal(column, lowest), compute.less_equal(column, highest)
        )
    inside = compute.if_else(kept, column, pa.scalar(None, column.type)).cast(wanted, safe=False)
    if float(limits.max) == limits.max:
        return inside
    is_last = compute.equal(double, float(limits.max))
    return compute.if_else(is_last, pa.scalar(int(limits.max), wanted), inside)
