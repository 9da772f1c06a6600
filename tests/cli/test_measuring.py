"""Figures of raw rows for the owner's report."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato import Ledger
from sfumato.cli.jobs.pipeline import PrivacyRequest, fit_table
from sfumato.cli.report import BUDGETS, budget_curve, marginals, target_rows
from sfumato.models.scores import measure
from sfumato.tables.files import TableFile, write_table
from tests.cli.test_pipeline import BOUNDS, rows

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def source(tmp_path: Path) -> TableFile:
    write_table(pa.table(rows(1200)), tmp_path / "rows.parquet")
    return TableFile(tmp_path / "rows.parquet", BOUNDS.types())


@pytest.mark.usefixtures("noise")
def test_accuracy_and_the_curve_rise_to_the_ceiling(source: TableFile) -> None:
    budget = Ledger().create("rows", epsilon=9.0, delta=1e-5)
    model = fit_table(source, BOUNDS, PrivacyRequest(1.0, 1e-6, ledger=budget), model="gaussian")
    spent, seen = budget.spent(), []
    found = budget_curve(model, source, source, seen.append)
    curve = {epsilon: each["accuracy"] for epsilon, each in found.items()}
    ceiling = curve.pop(math.inf)
    assert tuple(curve) == BUDGETS
    assert len(seen) == len(BUDGETS) + 1
    assert 0.4 < curve[0.3] <= curve[10.0] + 0.1 <= ceiling + 0.2
    assert ceiling > 0.85
    assert budget.spent() == spent  # thrown away, so not charged
    assert 0 <= measure(model, *target_rows(model, source))["accuracy"] <= ceiling + 0.05


def shares(values: Any, *, edges: Any) -> list[float]:
    counts = [sum(low <= v < high for v in values) for low, high in pairwise(edges)]
    return [count / len(values) for count in counts]


def test_marginals_are_shares_of_common_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    real = {"x": rng.random(100), "c": ["a"] * 60 + ["b"] * 40, "k": [1, 2] * 50, "only": [0] * 100}
    made = {"x": rng.random(50), "c": ["a"] * 25 + ["z"] * 25, "k": [1] * 50}
    for name, columns in (("real", real), ("made", made)):
        write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    files = [TableFile(tmp_path / f"{name}.parquet") for name in ("real", "made")]
    x, c, k = marginals(*files)
    low, high = made["x"].min(), made["x"].max()
    edges = [-1, *(low + i / 20 * (high - low) for i in range(1, 20)), 2]
    assert x.real == pytest.approx(shares(real["x"], edges=edges))
    assert x.fabricated == pytest.approx(shares(made["x"], edges=edges))
    assert (c.labels, c.real, c.fabricated) == (("a", "b", "z"), (0.6, 0.4, 0.0), (0.5, 0.0, 0.5))
    assert (k.labels, k.real, k.fabricated) == (("1", "2"), (0.5, 0.5), (1.0, 0.0))
