"""From a table to a model or to private rows, and the model file that results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from sfumato.audit.testing import seeded_noise
from sfumato.audit.testing.contracts import moved_share
from sfumato.cli.jobs.pipeline import (
    PrivacyRequest,
    fabricate_table,
    fit_table,
    predict_table,
)
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.base import taped
from sfumato.tables.files import TableFile, write_table
from sfumato.tables.schema import Column, TableBounds, Target

pa = pytest.importorskip("pyarrow")
BOUNDS = TableBounds(
    (
        Column("age", "int64", lower=0, upper=100),
        Column("colour", "string", categories=("blue", "red")),
        Column("id", "string", left_out=True),
        Column("share", "double", lower=0.0, upper=1.0),
    ),
    Target("label", "string", ("no", "yes")),
    confirmed=True,
)
# Enough to learn from, so that tests see structure and not only noise.
GENEROUS = PrivacyRequest(epsilon=50.0, delta=1e-5)
QUICK = {
    "gaussian": {},
    "hull": {"n_layers": 1, "samples_per_gaussian": 200},
    "kernel": {},
    "large-margin": {},
    "linear": {},
}


def rows(n: int = 600) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    age, share = rng.integers(0, 101, n), rng.random(n)
    colour = rng.choice(["blue", "red"], n)
    label = np.where((age > 50) == (colour == "red"), "yes", "no")
    return {
        "id": [f"person {i}" for i in range(n)],
        "label": label,
        "age": age,
        "colour": colour,
        "share": share,
    }


@pytest.fixture
def source(tmp_path: Path) -> TableFile:
    write_table(pa.table(rows()), tmp_path / "rows.csv")
    return TableFile(tmp_path / "rows.csv", BOUNDS.types())


@pytest.mark.parametrize("model", QUICK)
def test_a_table_becomes_a_model_that_answers_tables(
    source: TableFile, tmp_path: Path, model: str
) -> None:
    fitted = fit_table(source, BOUNDS, GENEROUS, model=model, options=QUICK[model])
    sfumato.save(fitted, tmp_path / "model.sfumato")
    loaded = sfumato.load(tmp_path / "model.sfumato")
    found = predict_table(loaded, source, keep=("id",))
    assert found.column_names == ["id", "prediction"]
    # No straight line divides these classes.
    least = 0.4 if model == "linear" else 0.8
    assert np.mean(np.asarray(found["prediction"]) == rows()["label"]) > least
    assert found.equals(predict_table(fitted, source, keep=("id",)))
    assert "names, types, ranges and categories of the columns" in fitted.guarantee_.public


# Fabrication --------------------------------------------------------------------------------


def test_fabricated_rows_have_the_columns_and_the_structure(
    source: TableFile, tmp_path: Path
) -> None:
    made, fabricator = fabricate_table(source, BOUNDS, GENEROUS, options={"random_state": 0})
    assert made.column_names == ["label", "age", "colour", "share"]
    assert made.schema.types == [pa.string(), pa.int64(), pa.string(), pa.float64()]
    assert len(made) == 600
    age, label, colour = (np.asarray(made[name]) for name in ("age", "label", "colour"))
    assert age.min() >= 0
    assert age.max() <= 100
    assert set(colour) <= {"blue", "red"}
    assert abs(np.mean(label == "yes") - np.mean(rows()["label"] == "yes")) < 0.15
    sfumato.save(fabricator, tmp_path / "rows.sfumato")
    more, _ = fabricate_table(source, BOUNDS, GENEROUS, n_rows=50)
    assert len(more) == 50


# Refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"model": "forest"}, "'model' must be one of"),
        ({"target": "nobody"}, "'nobody'"),
        ({"options": {"n_compnents": 3}}, "no option 'n_compnents'"),
        ({"options": {"epsilon": 3}}, "no option 'epsilon'"),
    ],
)
def test_wrong_words_are_named(source: TableFile, options: dict[str, Any], hint: str) -> None:
    with pytest.raises(InvalidInputError, match=hint):
        fit_table(source, BOUNDS, GENEROUS, **options)


# Labels and categories beyond the doubles --------------------------------------------------------

BIG = 2**53


def _far(suffix: str, folder: Path, codes: list[Any]) -> TableFile:
    """Write whole numbers as labels and as categories; a missing one is stored beside them."""
    table = {"share": rows(len(codes))["share"], "label": codes, "code": codes}
    write_table(pa.table(table), folder / f"rows{suffix}")
    return TableFile(folder / f"rows{suffix}")


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_one_missing_label_moves_no_sum_further_than_was_paid(tmp_path: Path, suffix: str) -> None:
    """Stored as doubles, 2**53 and 2**53 + 1 fell together, and half of the rows changed class."""
    bounds = TableBounds(
        (
            Column("share", "double", lower=0.0, upper=1.0),
            Column("code", "string", categories=(str(BIG), str(BIG + 1))),
        ),
        Target("label", "string", (str(BIG), str(BIG + 1))),
        confirmed=True,
    )
    whole: list[Any] = [BIG + i % 2 for i in range(600)]
    tapes = []
    for codes in (whole, [*whole[:-1], None]):
        source = _far(suffix, tmp_path, codes)
        with seeded_noise(0), taped(playback=tapes[0] if tapes else None) as tape:
            fit_table(source, bounds, GENEROUS, model="gaussian")
        tapes.append(tape)
    for here, there in zip(tapes[0].releases, tapes[1].releases, strict=True):
        assert 0 < moved_share(here, there) <= 1 + 1e-9


def test_categories_and_labels_that_are_one_double_are_refused(tmp_path: Path) -> None:
    source = _far(".parquet", tmp_path, [BIG + i % 2 for i in range(600)])
    code = (Column("code", "int64", categories=(BIG, BIG + 1)),)
    with pytest.raises(InvalidInputError, match="differ as doubles"):
        fabricate_table(source, TableBounds(code, confirmed=True), GENEROUS)
    columns = (Column("share", "double", lower=0.0, upper=1.0),)
    for labels in ((BIG, BIG + 1), "public"):
        bounds = TableBounds(columns, Target("label", "int64", labels), confirmed=True)
        with pytest.raises(InvalidInputError, match="differ as doubles"):
            fit_table(source, bounds, GENEROUS, model="gaussian")


def test_labels_declared_public_are_those_found_without_missing_ones(tmp_path: Path) -> None:
    columns = (Column("share", "double", lower=0.0, upper=1.0),)
    bounds = TableBounds(columns, Target("label", "int64", "public"), confirmed=True)
    source = _far(".csv", tmp_path, [3, None, 5] * 200)
    for model in ("gaussian", "linear"):
        fitted = fit_table(source, bounds, GENEROUS, model=model)
        assert fitted.classes_.tolist() == [3, 5]
        assert "set of labels found in the data" in fitted.guarantee_.public
