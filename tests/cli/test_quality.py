"""Figures about fabricated rows: beside released counts, and, marked, beside raw rows."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sfumato import Fabricator, TableBounds, TableEncoder, save
from sfumato.synthetic.quality import SENSITIVE, bounds_of_made, measured_quality
from tests.cli.running import done
from tests.synthetic.test_table_law import fabricator, people


@cache
def made() -> tuple[Fabricator, Any]:
    model = fabricator().fit(people(1500))
    return model, model.fabricate()


def test_rows_follow_what_was_released() -> None:
    model, rows = made()
    quality = measured_quality(model, rows)
    found = quality.free
    assert quality.sensitive is None
    assert found.one_way < 0.02
    named = {("age", "ward"), ("age", "income")}
    assert named <= {each.columns for each in found.pairs} | set(quality.unmeasured)
    assert "pairs of columns were kept" in quality.relations
    (pair,) = [each for each in found.pairs if each.columns == ("age", "ward")]
    assert abs(pair.correlation - pair.reference_correlation) < 0.15
    shuffled = rows.assign(age=np.random.default_rng(0).permutation(rows["age"]))
    worse = measured_quality(model, shuffled).free
    assert worse.one_way == pytest.approx(found.one_way)
    (pair,) = [each for each in worse.pairs if each.columns == ("age", "ward")]
    assert abs(pair.correlation - pair.reference_correlation) > 0.3  # columns alone cannot tell


def test_distances_from_raw_rows_are_those_of_a_cross_table() -> None:
    model, rows = made()
    raw = people(1500)
    found = measured_quality(model, rows, raw).sensitive
    assert found is not None
    wards = [
        each["ward"].value_counts(normalize=True).reindex(list("ABC")).fillna(0)
        for each in (raw, rows)
    ]
    (ward,) = [each for each in found.marginals if each.column == "ward"]
    assert ward.labels == ("A", "B", "C")
    assert ward.distance == pytest.approx((wards[0] - wards[1]).abs().sum() / 2)
    tables = [pd.crosstab(t["ward"], t["ill"], normalize=True).stack() for t in (raw, rows)]
    (pair,) = [each for each in found.pairs if set(each.columns) == {"ward", "ill"}]
    away = tables[0].sub(tables[1], fill_value=0).abs().sum() / 2
    assert pair.distance == pytest.approx(away)
    assert len(found.pairs) == 10
    same = measured_quality(model, raw, raw).sensitive
    assert same is not None
    assert same.one_way == same.two_way == 0


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model, rows = made()
    save(model, "model.sfumato")
    rows.to_csv("made.csv", index=False)
    people(1500).to_csv("raw.csv", index=False)
    told = done("quality", "model.sfumato", "made.csv", "-o", "page.html")
    assert "(free)" in told
    assert "SENSITIVE" not in told
    assert "<svg" in Path("page.html").read_text()
    told = done("quality", "model.sfumato", "made.csv", "--sensitive", "raw.csv", "--json")
    assert json.loads(told)["sensitive"]["title"] == SENSITIVE


def test_made_rows_with_parts_of_dates_and_without_ids_are_compared() -> None:
    """The columns of what was made are not those of the table: it was refused."""
    day = {"parts": ["year", "month", "time"], "lower": "2020-01-01", "upper": "2024-12-31"}
    bounds = TableBounds.from_dict(
        {"day": {**day, "format": "%d.%m.%Y"}, "ill": ["no", "yes"]},
        target="ill",
        person="who",
        person_rows=2,
    )
    known = bounds_of_made(bounds)
    cells = [[2021.0, 4.0, 18700.0], [2022.0, 0.0, 19000.0]]
    made = TableEncoder(bounds).from_cells(np.array(cells))
    assert known.cells(made).tolist() == cells
    assert "who" not in known.types()
