"""Labels and categories of tables that are beyond the doubles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.audit.testing import seeded_noise
from sfumato.audit.testing.contracts import moved_share
from sfumato.cli.jobs.pipeline import (
    PrivacyRequest,
    fabricate_table,
    fit_table,
)
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.base import taped
from sfumato.tables.files import TableFile, write_table
from sfumato.tables.schema import Column, TableBounds, Target

pa = pytest.importorskip("pyarrow")
# Enough to learn from, so that tests see structure and not only noise.
GENEROUS = PrivacyRequest(epsilon=50.0, delta=1e-5)
BIG = 2**53


def _far(suffix: str, folder: Path, codes: list[Any]) -> TableFile:
    """Write whole numbers as labels and as categories; a missing one is stored beside them."""
    table = {"share": np.random.default_rng(0).random(len(codes)), "label": codes, "code": codes}
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
        Target("label", "string", categories=(str(BIG), str(BIG + 1))),
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
    target = Target("label", "int64", categories=(BIG, BIG + 1))
    with pytest.raises(InvalidInputError, match="differ as doubles"):
        fit_table(source, TableBounds(columns, target, confirmed=True), GENEROUS, model="gaussian")


def test_labels_declared_public_are_those_found_without_missing_ones(tmp_path: Path) -> None:
    columns = (Column("share", "double", lower=0.0, upper=1.0),)
    bounds = TableBounds(columns, Target("label", "int64", categories="public"), confirmed=True)
    source = _far(".csv", tmp_path, [3, None, 5] * 200)
    for model in ("gaussian", "linear"):
        fitted = fit_table(source, bounds, GENEROUS, model=model)
        assert fitted.classes_.tolist() == [3, 5]
        assert "set of labels found in the data" in fitted.guarantee_.public
