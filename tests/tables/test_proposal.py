"""Proposed bounds: round numbers around what was seen, marked as proposals."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sfumato.exceptions import InvalidInputError
from sfumato.tables.files import TableFile, write_table
from sfumato.tables.proposal import (
    MAX_CATEGORIES,
    check_table,
    describe_table,
    rounded_outwards,
)
from sfumato.tables.schema import TableBounds

pa = pytest.importorskip("pyarrow")


def described(tmp_path: Path, target: str | None = None, **columns: Any) -> Any:
    path = tmp_path / "rows.parquet"
    write_table(pa.table(columns), path)
    return describe_table(TableFile(path), target)


@given(st.floats(-1e100, 1e100), st.floats(-1e100, 1e100))
def test_proposals_enclose_what_was_seen(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    lower, upper = rounded_outwards(low, high)
    slack = 1e-11 * max(abs(low), abs(high))
    assert lower <= low + slack
    assert upper >= high - slack
    assert lower < upper


def test_every_kind_of_column(tmp_path: Path) -> None:
    n = MAX_CATEGORIES + 1
    found = described(
        tmp_path,
        "y",
        age=list(range(17, 17 + n)),
        size=[1.72] * (n - 2) + [math.nan, math.inf],
        member=[True] * n,
        colour=["red", "blue", None] * (n // 3),
        name=[f"person {i}" for i in range(n)],
        born=[date(2000, 1, 1)] * n,
        nothing=pa.nulls(n, pa.float64()),
        y=[1, 0, 1] * (n // 3),
    )
    columns = {column.name: column for column in found.bounds.columns}
    assert (columns["age"].lower, columns["age"].upper) == (0, 70)
    assert isinstance(columns["age"].lower, int)
    assert (columns["size"].lower, columns["size"].upper) == (1.0, 2.0)
    assert (columns["member"].lower, columns["member"].upper) == (0, 1)
    assert columns["colour"].categories == ("blue", "red")
    assert columns["name"].left_out
    assert columns["born"].parts == ("year", "month", "weekday")
    assert (columns["born"].lower, columns["born"].upper) == ("2000-01-01", "2001-01-01")
    assert columns["size"].missing
    assert columns["colour"].missing
    assert (columns["nothing"].lower, columns["nothing"].upper) == (0.0, 1.0)
    assert found.bounds.target.labels == (0, 1)
    assert not found.bounds.confirmed
    missing = {column.name: column.missing for column in found.columns}
    assert (missing["size"], missing["colour"], missing["nothing"]) == (1, n // 3, n)
    assert found.n_rows == n


def test_what_a_person_would_see_is_proposed_with_its_reason(tmp_path: Path) -> None:
    n = 400
    found = described(
        tmp_path,
        "cost",
        id=[10_000 + 7 * i for i in range(n)],
        code=[f"P-{i}" for i in range(n)],
        income=[float(2 ** (i % 16)) + i / n for i in range(n)],
        seen=[f"{1 + i % 28:02}.{1 + i % 12:02}.{2000 + i % 9}" for i in range(n)],
        cost=[3.25 * i for i in range(n)],
    )
    columns = {column.name: column for column in found.bounds.columns}
    assert columns["id"].left_out
    assert "as IDs do" in columns["id"].note
    assert columns["code"].left_out
    assert columns["income"].log
    assert "long tail" in columns["income"].note
    assert columns["seen"].format == "%d.%m.%Y"
    assert (columns["seen"].lower, columns["seen"].upper) == ("2000-01-01", "2009-01-01")
    target = found.bounds.target
    assert (target.labels, target.lower, target.upper) == (None, 0.0, 2000.0)
    path = tmp_path / "bounds.toml"
    found.bounds.write(path)
    assert TableBounds.read(path) == found.bounds


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ([None] * 18, "the column is empty"),
        ([f"{i}.5" for i in range(18)], ""),  # plain numbers as texts: categories
        (["1.2.3", "ward 7"] * 9, ""),
        ([f"{a}nna M{b}ier" for a in "AHJ" for b in "aeiouy"], "looks like names"),
    ],
)
def test_texts_that_are_meant_as_numbers_or_dates(
    tmp_path: Path, cells: list[str | None], why: str
) -> None:
    (column,) = described(tmp_path, cell=pa.array(cells, pa.string())).bounds.columns
    assert column.left_out == bool(why)
    assert why in column.note


def test_years_of_two_digits_and_the_year_of_no_date(tmp_path: Path) -> None:
    """A year 24 was the first one, and 31.12.9999 the last, which moved such a stay to the end."""
    days, ends = ["03.02.2024", "04.05.24"] * 20, ["03.02.2024", "31.12.9999"] * 20
    found = described(tmp_path, day=days, end=ends, day_of_arrow=[date(2024, 2, 3)] * 40)
    day, end, _ = found.bounds.columns
    assert (day.lower, day.upper, day.format) == ("2024-01-01", "2025-01-01", "%d.%m.%Y|%d.%m.%y")
    assert (end.lower, end.upper, end.missing) == ("2024-01-01", "2025-01-01", True)
    assert "9999" in end.note
    cells = found.bounds.cells(TableFile(tmp_path / "rows.parquet").read())
    months = [name.name for name in found.bounds.features].index("day.month")
    assert cells[:2, months].tolist() == [1, 4]
    assert np.isnan(cells[1, [f.source == "end" for f in found.bounds.features]]).all()


def test_a_sentinel_of_a_target_is_no_number(tmp_path: Path) -> None:
    numbers = [-999 if i % 9 == 0 else i for i in range(180)]
    bounds = described(tmp_path, "age", age=numbers, stay=[1, 2] * 90).bounds
    assert bounds.target.sentinels == (-999,)
    assert np.isnan(bounds.target_of(pa.table({"age": [-999, 5]}))).tolist() == [True, False]
    other = bounds.with_target("stay")
    assert other.columns[-1].sentinels == (-999,)
    assert other.with_target("age").target.sentinels == (-999,)


def test_spellings_sentinels_and_codes(tmp_path: Path) -> None:
    wards = ["Chirurgie", " CHIRURGIE", "chirurgie", "Innere"] * 60
    pressure = [-999 if i % 9 == 0 else 60 + i % 70 for i in range(240)]
    codes = [f"I{i % 80}.2" for i in range(240)]
    found = described(tmp_path, ward=wards, pressure=pressure, icd=codes, low=[0, 99] * 120)
    ward, number, icd, low = found.bounds.columns
    assert ward.categories == ("Chirurgie", "Innere")
    assert "in several ways" in ward.note
    assert (number.sentinels, number.lower, number.upper, number.missing) == ((-999,), 0, 130, True)
    assert low.sentinels == ()
    assert icd.left_out
    cells = found.bounds.cells(TableFile(tmp_path / "rows.parquet").read())
    assert cells[:4, 0].tolist() == [0, 0, 0, 1]
    assert np.isnan(cells[::9, 1]).all()
    assert np.nanmin(cells[:, 1]) >= 60


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_the_owner_is_told_what_does_not_fit(tmp_path: Path, kind: str) -> None:
    table = pa.table(
        {
            "id": ["a", "a", "b", "b", "b", None],
            "age": ["30", "130", "", "old", "-999", "-999"],
            "same": ["30", "130", "", "old", "-999", "-999"],
            "ward": ["East", " east", "west", "north", None, "north"],
            "day": ["2020-01-01", "1890-01-01", "never", None, "2020-01-01", "2020-01-01"],
            "ill": ["no", "yes", "maybe", None, "no", "no"],
        }
    )
    bounds = TableBounds.from_dict(
        {
            "age": (0, 120),
            "same": {"lower": 0, "upper": 120, "sentinels": [-999]},
        }
        | {"ward": ["East", "West"], "day": ("1900-01-01", "2030-01-01"), "ill": ["no", "yes"]},
        target="ill",
        person="id",
        person_rows=2,
    )
    source: Any = table if kind == "frame" else tmp_path / f"rows.{kind}"
    if kind != "frame":
        write_table(table, source)
    n_rows, columns = check_table(source, bounds)
    found = {c.name: (c.missing, c.unreadable, c.outside) for c in columns}
    empty = 0 if kind != "csv" else 1  # an empty text is a missing cell of a CSV
    assert n_rows == 6
    assert found["age"] == (empty, 2 - empty, 3)
    assert found["same"] == (2 + empty, 2 - empty, 1)
    assert found["ward"] == (1, 0, 2)
    assert found["day"] == (1, 1, 1)
    assert found["ill"] == (1, 0, 1)
    assert found["id"] == (1, 0, 1)  # without an ID; beyond the rows of a person
    assert [c.same_as for c in columns if c.same_as] == ["age"]


def test_long_lists_of_codes_are_read_from_a_file(tmp_path: Path) -> None:
    codes = [f"{letter}{n:02d}" for letter in "ABCD" for n in range(30)]
    coded = [*codes[1:], "A 00"]  # a line is one code, with spaces too
    rows = pa.table({"icd": codes * 10, "ill": ["no", "yes"] * 600})
    write_table(rows, tmp_path / "rows.csv")
    proposed = describe_table(TableFile(tmp_path / "rows.csv"), "ill").bounds
    assert "120 different codes" in proposed.columns[0].note
    proposed.write(path := tmp_path / "bounds.toml")
    path.write_text(path.read_text().replace("left_out = true", 'categories_file = "c"'))
    with pytest.raises(InvalidInputError, match="cannot be used"):
        TableBounds.read(path)
    (tmp_path / "c").write_text("\n".join(["\ufeff" + coded[0], *coded[1:], " ", ""]))
    assert TableBounds.read(path).columns[0].categories == tuple(coded)
