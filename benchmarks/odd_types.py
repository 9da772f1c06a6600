"""Columns of every type of Arrow, of DuckDB and of Python, with cells that Python cannot hold.

A type has plain cells, of which tables are made, and odd ones, which enter them one at a time: days
before the year 1 and after 9999, times at the ends of 64 bits, decimals of 76 digits and of more
than their type allows, bytes that are no UTF-8, nested cells with nothing in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

Cells = tuple[list[pa.Array], list[pa.Array]]  # plain and odd ones, each a column of one cell
ENDS = {32: (-(2**31), 2**31 - 1), 64: (-(2**63), 2**63 - 1)}
TEXTS = ("1", "2", " 2 ", "2.0", "1e0", "true", "x", "", "2020-01-31", "2020-01-31 10:30:00.5")
ODD_TEXTS = (
    *("0000-01-01", "-0001-01-01", "9999-12-31", "10000-01-01", "0000-01-01 00:00:00", "99999999"),
    *("00.00.0000", "31.12.0000", "2020-02-30", "2020-01-31T10:30:00Z", "2020-01-31 10:30+05:30"),
    *("9" * 76, "9" * 5000, "-" + "9" * 400, "1e9999999999999999999", "1e-9999999999999999999"),
    *("0x10", "1_0", "１", "nan", "-inf", "(2+0j)", "0j", "TRUE", "NULL", "\x00", "ü" * 300),
    *("18446744073709551615", "-9223372036854775809", "9007199254740993.0", "1.8e308"),
)
ODD_BYTES = (b"\xff\xfe", b"\xed\xa0\x80", b"1\xff", b"\x00", b"\xc3")
DAYS = (-719_529, -719_528, -719_163, 2_932_896, 2_932_897, 10**7, -(10**7))  # years 0, 1, 10000
SECONDS = (-62_167_219_201, -62_135_596_801, 253_402_300_800, 10**12, -(10**12))


class Wrapped(pa.ExtensionType):
    """The type of a stranger, whose cells cannot be had in Python."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "sfumato.wrapped")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, _: bytes) -> Wrapped:
        return cls(storage)

    def __arrow_ext_scalar_class__(self) -> type:
        return Unheld


class Unheld(pa.ExtensionScalar):
    def as_py(self, **_: Any) -> Any:
        raise OverflowError("Python cannot hold it")


def ones(cells: Sequence[Any], kind: Any) -> list[pa.Array]:
    return [pa.array([cell], kind) for cell in cells]


def by_bits(cells: Sequence[int], kind: Any) -> list[pa.Array]:
    """Return cells by their bits, whatever their type says of them."""
    contents = (cell.to_bytes(kind.bit_width // 8, "little", signed=True) for cell in cells)
    return [pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(each)]) for each in contents]


def numbers() -> dict[str, Cells]:
    found = {"bool": (ones([True, False], pa.bool_()), [])}
    for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        ends = np.iinfo(kind)
        found[kind] = ones([0, 1, 2, 100], kind), ones([ends.min, ends.max], kind)
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        info = np.finfo(kind.to_pandas_dtype())
        plain = np.array([0.0, 1.0, 2.0, 0.5], info.dtype)
        far = [np.nan, np.inf, -np.inf, -0.0, info.max, info.smallest_subnormal]
        odd = np.array([*far, min(2.0**53, float(info.max))], info.dtype)
        found[str(kind)] = ones(plain, kind), ones(odd, kind)
    for kind in (
        *(pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal128(38, 2), pa.decimal128(38, -3)),
        *(pa.decimal256(76, 2), pa.decimal256(76, 70)),
    ):
        most, last = 10**kind.precision - 1, 2 ** (kind.bit_width - 1) - 1
        odd = by_bits([most, -most, last, -last - 1], kind)
        found[str(kind)] = by_bits([0, 100, 200, 150], kind), odd
    return found


def texts() -> dict[str, Cells]:
    found = {}
    as_bytes = [text.encode() for text in (*TEXTS, *ODD_TEXTS)]
    plain, odd = as_bytes[: len(TEXTS)], [*ODD_BYTES, *as_bytes[len(TEXTS) :]]
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view()):
        found[str(kind)] = ones(plain, kind), ones(odd, kind)
    found["binary(2)"] = (
        ones([b"1 ", b"2 ", b"xx"], pa.binary(2)),
        ones([b"\xff\xff"], pa.binary(2)),
    )
    for kind, of in ((pa.string(), pa.binary()), (pa.large_string(), pa.large_binary())):
        found[str(kind)] = ones(TEXTS, kind), [each.view(kind) for each in ones(odd, of)]
    found["string_view"] = ones(TEXTS, pa.string_view()), ones(ODD_TEXTS, pa.string_view())
    return found


def times() -> dict[str, Cells]:
    found = {}
    for kind, ticks in ((pa.date32(), 1), (pa.date64(), 86_400_000)):
        plain = by_bits([0, 18_292 * ticks, 20_000 * ticks, -ticks], kind)
        odd = [*(day * ticks for day in DAYS), *ENDS[kind.bit_width], 5]
        found[str(kind)] = plain, by_bits(odd, kind)
    for unit, ticks in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        inside = [each * ticks for each in SECONDS if abs(each * ticks) < 2**63]
        for zone in (None, "UTC", "Europe/Berlin", "+05:30"):
            kind = pa.timestamp(unit, zone)
            plain = by_bits([0, 1_580_466_600 * ticks, 10**9 * ticks, -1], kind)
            found[str(kind)] = plain, by_bits([*inside, *ENDS[64], 2**62, -(2**63) + 1], kind)
        span = pa.duration(unit)
        found[str(span)] = by_bits([0, 1, 2, 86_400], span), by_bits([*ENDS[64], -1], span)
    for kind in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        odd = by_bits([*ENDS[kind.bit_width], -1], kind)
        found[str(kind)] = by_bits([0, 1, 2, 1000], kind), odd
    kind = pa.month_day_nano_interval()
    spans = [pa.MonthDayNano([each, each, each]) for each in (0, 1, 2)]
    last = pa.MonthDayNano([*reversed(ENDS[32]), ENDS[64][1]])
    found["interval"] = ones(spans, kind), ones([last], kind)
    return found


def made(cells: Cells, make: Callable[[pa.Array], pa.Array], *more: pa.Array) -> Cells:
    """Make cells of another type of those of one."""
    return [make(each) for each in cells[0]], [*(make(each) for each in cells[1]), *more]


def nested(plain: dict[str, Cells]) -> dict[str, Cells]:
    found = {}
    one, key, tag = [0, 1], pa.array(["k"]), pa.array([0], "int8")
    for name in ("double", "date32[day]", "timestamp[s]", "string"):
        cells, of = plain[name], plain[name][0][0].type
        for kind, array in ((pa.list_, pa.ListArray), (pa.large_list, pa.LargeListArray)):
            empty = ones([[], [None, None]], kind(of))
            found[str(kind(of))] = made(cells, lambda e, a=array: a.from_arrays(one, e), *empty)
        found[f"fixed_size_list of {name}"] = made(
            cells, lambda each: pa.FixedSizeListArray.from_arrays(each, 1)
        )
        found[f"struct of {name}"] = made(
            cells, lambda each: pa.StructArray.from_arrays([each], ["a"])
        )
        found[f"map of {name}"] = made(cells, lambda each: pa.MapArray.from_arrays(one, key, each))
        found[f"union of {name}"] = made(cells, lambda each: pa.UnionArray.from_sparse(tag, [each]))
    return found


def wrapped(plain: dict[str, Cells]) -> dict[str, Cells]:
    """Dictionaries, runs and extensions of other types."""
    found = {}
    for name in ("string", "int64", "double", "date32[day]", "timestamp[s]", "decimal256(76, 2)"):
        found[f"dictionary of {name}"] = made(
            plain[name], lambda each: pa.DictionaryArray.from_arrays([0], each)
        )
    for name in ("string", "int64", "timestamp[s]"):
        found[f"runs of {name}"] = made(plain[name], pc.run_end_encode)
    for kind, name in (
        (Wrapped(pa.date32()), "date32[day]"),
        (Wrapped(pa.string()), "string"),
        (pa.bool8(), "int8"),
        (pa.json_(), "string"),
        (pa.opaque(pa.float64(), "of", "somebody"), "double"),
    ):
        found[f"{kind.extension_name} of {name}"] = made(
            plain[name], lambda each, kind=kind: pa.ExtensionArray.from_storage(kind, each)
        )
    uuids = ones([bytes([each]) * 16 for each in (0, 1, 255)], pa.binary(16))
    found["uuid"] = made(
        (uuids[:2], uuids[2:]), lambda each: pa.ExtensionArray.from_storage(pa.uuid(), each)
    )
    return found


PLAIN = {"null": ([pa.nulls(1)], []), **numbers(), **texts(), **times()}
TYPES: dict[str, Cells] = {
    name: tuple([*cells, pa.nulls(1, plain[0].type)] for cells in (plain, odd))
    for name, (plain, odd) in {**PLAIN, **nested(PLAIN), **wrapped(PLAIN)}.items()
}


# Cells with types of their own ------------------------------------------------------------------


class Strange:
    """An object none of whose conversions and comparisons works."""

    def _fail(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("cannot be had")

    __float__ = __int__ = __index__ = __eq__ = __array__ = __str__ = __len__ = __iter__ = _fail

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "Strange()"


EAST = timezone(timedelta(hours=14))
OBJECTS: tuple[list[Any], list[Any]] = (
    [
        *(0, 1, 2, 0.5, 2.5, True, False, None, Decimal("1.50"), Decimal(2), b"2", *TEXTS),
        *("31.01.2020", "1,5", "1.234,5", "NA", date(2020, 1, 31), datetime(2020, 1, 31, 10, 30)),
    ],
    [
        *ODD_TEXTS,
        *ODD_BYTES,
        *("\ud800", 'a "quote', "a;b|c,d", "two\nlines", "\r", "'", "=1+1", " \t "),
        *(10**400, -(10**5000), 2**64 - 1, 2**64, -(2**63) - 1, 2**53, float(2**53)),
        *(float("nan"), float("inf"), 1e308, 5e-324, -0.0, 1 + 2j, 2 + 0j, 1e400j),
        *(Decimal("9" * 76), Decimal("1E+999999"), Decimal("1E-999999"), Decimal("sNaN")),
        *(Fraction(10**400, 3), np.float16(np.inf), np.longdouble("1e4000"), np.uint64(2**64 - 1)),
        *(date.min, date.max, datetime.min, datetime.max, time.max, timedelta.max, timedelta.min),
        *(datetime.min.replace(tzinfo=EAST), datetime.max.replace(tzinfo=UTC)),
        *(np.datetime64("0000-01-01"), np.datetime64("10000-01-01", "s"), np.datetime64("NaT")),
        *(np.datetime64(2**62, "s"), np.datetime64(-(2**63) + 1, "ns"), np.datetime64(9, "Y")),
        *(np.timedelta64(2**62, "s"), np.timedelta64("NaT"), np.timedelta64(9, "M"), pd.NaT, pd.NA),
        *(pd.Timestamp.max, pd.Timestamp("2020-01-31 10:30", tz="Europe/Berlin"), pd.Timedelta.max),
        *(
            pd.Period("0001-01-01", "D"),
            pd.Interval(0, 1),
            [],
            [None],
            [[]],
            {},
            {"a": None},
            set(),
        ),
        *((1, 2), np.ones(2), np.array(2), np.array(None), range(3), object(), Strange(), Strange),
        *(np.str_("2"), np.bytes_(b"\xff"), np.bool_(True), memoryview(b"2"), bytearray(b"2")),
    ],
)

WIDE = [0, 1, 2, 100, None], [2**127 - 1, -(2**127), 2**64, 2**53, None]  # of 128 bits

# Cells of DuckDB, as they are written in SQL, by their type.
DUCKDB: dict[str, tuple[list[str], list[str]]] = {
    name: ([*plain, "NULL"], [*odd, "NULL"])
    for name, (plain, odd) in {
        "HUGEINT": (["1", "2"], [f"{2**127 - 1}", f"-{2**127}"]),
        "UHUGEINT": (["1", "2"], [f"{2**128 - 1}", "0"]),
        "UBIGINT": (["1", "2"], [f"{2**64 - 1}"]),
        "BIGINT": (["1", "2"], [f"{2**63 - 1}", f"-{2**63}"]),
        "DECIMAL(38, 2)": (["1", "2.5"], ["9" * 36, f"-{'9' * 36}.99"]),
        "BIGNUM": (["'1'", "'2'"], [f"'{'9' * 100}'"]),
        "DOUBLE": (["1", "2.5"], ["'nan'", "'inf'", "'-inf'"]),
        "FLOAT": (["1", "2.5"], ["'nan'", "'inf'", "1e38"]),
        "BOOLEAN": (["true", "false"], ["NULL"]),
        "DATE": (
            ["'2020-01-31'", "'1950-01-01'"],
            ["'infinity'", "'-infinity'", "'5877642-06-25 (BC)'", "'0001-01-01 (BC)'"],
        ),
        **{
            name: (
                ["'2020-01-31 10:30:00'", "'1950-01-01'"],
                ["'infinity'", "'-infinity'", "'10000-01-01'", "'0001-01-01 (BC)'"],
            )
            for name in ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMPTZ")
        },
        "TIMESTAMP_NS": (["'2020-01-31 10:30:00'"], ["'infinity'", "'1677-09-22'"]),
        "TIME": (["'10:30:00'"], ["'24:00:00'"]),
        "TIMETZ": (["'10:30:00+01'"], ["'24:00:00-15:59:59'"]),
        "INTERVAL": (["INTERVAL 1 DAY"], ["INTERVAL '178956970 years'"]),
        "VARCHAR": (["'1'", "'2'", "'2020-01-31'"], [f"'{text}'" for text in ODD_TEXTS]),
        "BLOB": (["'1'::BLOB", "'2'::BLOB"], ["'\\xFF'::BLOB", "''::BLOB"]),
        "BIT": (["'1'", "'10'"], [f"'{'1' * 100}'"]),
        "UUID": ([f"'{'0' * 8}-0000-0000-0000-{'0' * 12}'"], [f"'{'f' * 32}'"]),
        "JSON": (["'1'", "'\"2\"'"], ["'{}'", "'[null]'"]),
        "ENUM('1', '2', 'x')": (["'1'", "'2'"], ["'x'"]),
        "DATE[]": (["['2020-01-31'::DATE]"], ["['infinity'::DATE]", "[]", "[NULL]"]),
        "STRUCT(a DATE)": (["{'a': '2020-01-31'::DATE}"], ["{'a': 'infinity'::DATE}"]),
        "MAP(VARCHAR, DATE)": (
            ["MAP {'a': '2020-01-31'::DATE}"],
            ["MAP {'a': 'infinity'::DATE}", "MAP {}"],
        ),
        "UNION(a DATE, b INTEGER)": (["'2020-01-31'::DATE", "1"], ["'infinity'::DATE"]),
    }.items()
}
