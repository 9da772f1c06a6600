"""One odd cell in a column of any type of Arrow changes no other cell and is not told of."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sfumato import Bounds, TableBounds, TableEncoder
from sfumato.exceptions import InvalidInputError
from sfumato.sums.identities import person_digests
from sfumato.tables.cells import as_cells, as_numbers, as_rows

PLACE = 2  # of the odd cell; the one behind it is missing
TEXTS = ["1", "2", "3", None, "2", "1"]
ODD_TEXTS = [None, "odd", "1e9999999999999999999999", "1e-9999999999999999999999", "9" * 5000, "１"]
BYTES = [b"\xff\xff", b"\x00\x00", None]
FAR = [2**63 - 1, -(2**63), 253402300800, None]  # seconds; the third is the year 10000


def beside(cells: list[Any], odd: list[Any], stored: Callable[[list[Any]], Any]) -> list[Any]:
    """Return the column, and those in which one cell is odd."""
    return [stored([*cells[:PLACE], cell, *cells[PLACE + 1 :]]) for cell in [cells[PLACE], *odd]]


def times(unit: str, zone: str | None) -> list[Any]:
    kind = pa.timestamp(unit, zone)
    cells = [0, 10**9, 2 * 10**9, None, 10**9, 0]
    return beside(cells, FAR, lambda each: pa.array(each, "int64").cast(kind))


def decimals(kind: Any) -> list[Any]:
    cells = [Decimal(each) if each else None for each in TEXTS]
    return beside(cells, [None, Decimal("-0"), Decimal(99)], lambda each: pa.array(each, kind))


COLUMNS: dict[str, list[Any]] = {
    "string": beside(TEXTS, ODD_TEXTS, pa.array),
    "string_view": beside(TEXTS, ODD_TEXTS, lambda each: pa.array(each, pa.string_view())),
    "dictionary of texts": beside(
        TEXTS, ODD_TEXTS, lambda each: pa.array(each).dictionary_encode()
    ),
    "dictionary of numbers": beside(
        [1, 2, 3, None, 2, 1], [None, 2**62], lambda each: pa.array(each).dictionary_encode()
    ),
    "fixed_size_binary": beside(
        [b"1 ", b"2 ", b"3 ", None, b"2 ", b"1 "], BYTES, lambda each: pa.array(each, pa.binary(2))
    ),
    "uuid": beside(
        [bytes([each]) * 16 for each in range(6)],
        [bytes([255]) * 16, None],
        lambda each: pa.array([b and uuid.UUID(bytes=b).bytes for b in each], pa.uuid()),
    ),
    "run ends": beside([1, 2, 3, None, 2, 1], [None, 9], lambda e: pc.run_end_encode(pa.array(e))),
    "halffloat": beside(
        [0.0, 1.0, 2.0, None, 1.0, 0.0], [np.inf, -0.0, None], lambda e: pa.array(e, pa.float16())
    ),
    "decimal64": decimals(pa.decimal64(18, 2)),
    "decimal256": decimals(pa.decimal256(76, 2)),
    "timestamp of a zone": times("s", "Europe/Vienna"),
    "timestamp of an offset": times("ns", "+05:30"),
    "duration": beside(
        [0, 1, 2, None, 1, 0], FAR, lambda each: pa.array(each, "int64").cast(pa.duration("s"))
    ),
    "list": beside(
        [[1.0], [2.0], [3.0], None, [2.0], [1.0]],
        [None, [], [1.0, 2.0], [None]],
        lambda each: pa.array(each, pa.list_(pa.float64())),
    ),
}
CONTAINERS: dict[str, Callable[[Any], Any]] = {
    "Arrow": lambda column: pa.table({"c": column}),
    "polars": lambda column: pl.from_arrow(pa.table({"c": column})),
    "pandas": lambda column: pa.table({"c": column}).to_pandas(),
    "pandas on Arrow": lambda column: pa.table({"c": column}).to_pandas(types_mapper=pd.ArrowDtype),
}
FACTS = ((0, 10), {"type": "int64", "lower": 0, "upper": 10}, bool, ["1", "2"], [1, 2])
ENCODERS = [TableEncoder(TableBounds.from_dict({"c": fact})) for fact in FACTS]
LABELS = [Bounds(norm=1.0, labels=["1", "2"]), Bounds(norm=1.0, labels=[1, 2])]


def encoded(encoder: TableEncoder, table: Any) -> Any:
    try:
        return encoder.transform(table)
    except InvalidInputError as error:  # of a type as a whole
        return np.full((6, 1), str(error), dtype=object)


def read(table: Any) -> list[list[Any]]:
    """Return all that the library makes of a table, without the record of the odd cell."""
    column = table.column("c") if isinstance(table, pa.Table) else table["c"]
    found = [as_rows(table), as_numbers(as_cells(column)), person_digests(column)]
    found += [encoded(encoder, table) for encoder in ENCODERS]
    found += [bounds.clip_labels(column)[0] for bounds in LABELS]
    return [[repr(each) for place, each in enumerate(one) if place != PLACE] for one in found]


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", COLUMNS)
def test_an_odd_cell_changes_no_other(name: str, container: str) -> None:
    if container == "polars" and name in ("decimal256", "run ends", "timestamp of an offset"):
        pytest.skip("polars has no such type")
    tables = []
    for column in COLUMNS[name]:
        try:
            tables.append(CONTAINERS[container](column))
        except (ValueError, NotImplementedError, OverflowError):  # of a cell that it cannot hold
            continue
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, *others = [read(table) for table in tables]
    for other in others:
        assert other == first


def test_a_missing_cell_of_a_dictionary_is_missing() -> None:
    """NumPy takes it for the last value of the dictionary, which any record can have brought."""
    column = pa.array(["2", None, "7"]).dictionary_encode()
    for each in (column, pa.chunked_array([column, column])):
        assert np.isnan(as_numbers(as_cells(each))[1])
        assert np.isnan(as_rows(pa.table({"c": each}))[1]).all()
        assert Bounds(norm=1.0, labels=["2", "7"]).clip_labels(each)[0].tolist()[:3] == [0, 0, 1]


def test_one_complex_number_changes_no_other_id() -> None:
    plain, odd = pd.Series([1, 2, 3]), pd.Series([1, 2, 3j])
    assert person_digests(plain)[:2].tolist() == person_digests(odd)[:2].tolist()


def test_a_decimal_of_a_billion_digits_is_an_id_like_others() -> None:
    cells = [Decimal(7), Decimal("1E+999999999"), Decimal("1E+999999999"), Decimal("1E-999999999")]
    digests = person_digests(cells).tolist()
    assert digests[1] == digests[2]
    assert len(set(digests)) == 3
    assert digests[0] == person_digests([7]).tolist()[0]
