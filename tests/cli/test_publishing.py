"""Densities and mean curves of tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sfumato
from sfumato.cli.jobs.pipeline import PrivacyRequest
from sfumato.cli.jobs.publishing import grid_table, release_table
from sfumato.tables.files import TableFile, write_table
from sfumato.tables.schema import Column, TableBounds

pa = pytest.importorskip("pyarrow")
BOUNDS = TableBounds(
    (
        Column("age", "double", lower=0.0, upper=100.0),
        Column("height", "double", lower=100.0, upper=220.0),
        Column("ward", "string", categories=("east", "west")),
    ),
    confirmed=True,
)
GENEROUS = PrivacyRequest(epsilon=20.0, delta=1e-5)


@pytest.fixture
def source(tmp_path: Path) -> TableFile:
    rng = np.random.default_rng(0)
    age, height = rng.normal(40, 8, 3000), rng.normal(170, 10, 3000)
    table = {"age": pa.array(age), "height": pa.array(height), "ward": ["east"] * 3000}
    write_table(pa.table(table), tmp_path / "rows.parquet")
    return TableFile(tmp_path / "rows.parquet")


def test_a_density_in_the_units_of_the_table(source: TableFile, tmp_path: Path) -> None:
    model = release_table(source, BOUNDS, GENEROUS, function="density", columns=["age"])
    sfumato.save(model, tmp_path / "density.sfumato")
    loaded = sfumato.load(tmp_path / "density.sfumato")
    grid = grid_table(loaded, 201)
    assert grid.column_names == ["age", "density"]
    x, density = (np.asarray(grid[name]) for name in grid.column_names)
    truth = np.exp(-((x - 40) ** 2) / 128) / np.sqrt(2 * np.pi * 64)
    assert np.abs(density - truth).max() < 0.1 * truth.max()
    assert np.trapezoid(density, x) == pytest.approx(1.0, abs=0.02)
    assert "ranges" in model.guarantee_.public[-1]


def curves(names: list[str], tmp_path: Path) -> tuple[TableFile, TableBounds]:
    t = np.linspace(0, 1, len(names))
    shifts = np.random.default_rng(0).normal(0, 0.1, (2000, 1))
    rows = np.sin(6 * t) + shifts
    write_table(pa.table(dict(zip(names, rows.T, strict=True))), tmp_path / "rows.parquet")
    columns = tuple(Column(name, "double", lower=-2.0, upper=2.0) for name in names)
    return TableFile(tmp_path / "rows.parquet"), TableBounds(columns, confirmed=True)


def test_a_mean_curve_at_the_points_that_its_columns_name(tmp_path: Path) -> None:
    names = [f"{10 + 2 * i}" for i in range(30)]
    source, bounds = curves(names, tmp_path)
    model = release_table(source, bounds, GENEROUS, function="curve")
    np.testing.assert_array_equal(model.points_, [float(name) for name in names])
    sfumato.save(model, tmp_path / "mean.sfumato")
    grid = grid_table(sfumato.load(tmp_path / "mean.sfumato"), 59)
    point, curve = (np.asarray(column) for column in grid.columns)
    assert (point[0], point[-1]) == (10.0, 68.0)
    assert np.abs(curve - np.sin(6 * (point - 10) / 58)).max() < 0.3
