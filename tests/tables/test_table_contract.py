"""One odd cell or line tells nothing: every table estimator, every library, every format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato
from benchmarks.odd_tables import (
    BOUNDS,
    CELLS,
    FILES,
    FRAMES,
    columns,
    with_cell,
)
from sfumato import Fabricator, PrivateTransferClassifier
from sfumato.audit.testing.taint import compare_tables
from sfumato.cli.jobs.pipeline import PrivacyRequest, fabricate_table, fit_table
from sfumato.tables import TableEncoder
from sfumato.tables.cells import as_rows
from sfumato.tables.files import TableFile
from sfumato.tables.schema import Target

PROMISE = PrivacyRequest(epsilon=1.0, delta=1e-5)
FEATURES = [column.name for column in BOUNDS.used]


# Frames -----------------------------------------------------------------------------------------


def a_fabricator(**parameters: Any) -> Fabricator:
    return Fabricator(
        delta=1e-5,
        bounds=BOUNDS,
        random_state=0,
        **parameters,
    )


def require_other_rows(
    encoded: Callable[[Any], tuple[np.ndarray, ...]], table: Any, others: list[tuple[int, Any]]
) -> None:
    """Fail unless each of the others differs from the table in the row of its place alone."""
    whole = encoded(table)
    for place, other in others:
        for here, there in zip(whole, encoded(other), strict=True):
            rest = (np.delete(each, place, axis=0) for each in (here, there))
            assert np.array_equal(*rest, equal_nan=here.dtype.kind == "f"), place


def fabricated(table: Any) -> tuple[Any, ...]:
    fabricator = a_fabricator().fit(table, columns()["label"])
    return fabricator, fabricator.fabricate()


@pytest.mark.parametrize("kind", FRAMES)
def test_frames(kind: str) -> None:
    given = {name: columns()[name] for name in FEATURES}
    odd = (
        (place, with_cell(given, name, place, cell))
        for step, name in enumerate(given)
        for place, cell in enumerate(CELLS)
        if (step + place) % 5 == 0  # a fifth of all
    )
    tables = [(place, FRAMES[kind](each)) for place, each in odd]
    compare_tables(fabricated, FRAMES[kind](given), (table for _, table in tables))

    def encoded(table: Any) -> tuple[np.ndarray, ...]:
        return TableEncoder(BOUNDS).transform(table), as_rows(table)

    require_other_rows(encoded, FRAMES[kind](given), tables)


ESTIMATORS: dict[str, Any] = {
    "PrivateGaussianClassifier": {},
    "PrivateLinearClassifier": {"n_steps": 3},
    "PrivateAdditiveClassifier": {"n_steps": 3},
    "PrivateKernelClassifier": {},
    "PrivateLargeMarginGaussianClassifier": {},
    "PrivateAffineHullClassifier": {"n_layers": 1, "samples_per_gaussian": 20},
    "PrivateMoments": {},
    "PrivatePCA": {"n_components": 2},
    "PrivateLinearRegressor": {"n_steps": 3},
    "PrivateAdditiveRegressor": {"n_steps": 3},
    "PrivateKernelRegressor": {},
    "PrivateTransferClassifier": {},
}
RANGE = replace(BOUNDS, target=Target("label", "int64", lower=-1.0, upper=5.0))


def estimator(name: str) -> Any:
    kind = getattr(sfumato, name)
    bounds = RANGE if name.endswith("Regressor") else BOUNDS
    shared: dict[str, Any] = {"delta": 1e-5, "bounds": bounds, **ESTIMATORS[name]}
    if "random_state" in kind().get_params():
        shared["random_state"] = 0
    return kind(**shared)


def fitted_on(model: Any, rows: Any, y: Any = None) -> Any:
    """Fit; transfer learns from a source alone, whose labels are given."""
    if isinstance(model, PrivateTransferClassifier):
        y = columns()["label"] if y is None else y
    return model.fit(rows) if y is None else model.fit(rows, y)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_takes_frames(name: str) -> None:
    """The same bits for every library, and no odd cell tells of itself."""
    given = {each: columns()[each] for each in (*FEATURES, "label")}

    def run(table: Any) -> tuple[Any, ...]:
        model = fitted_on(estimator(name), table)
        answer = model.predict if hasattr(model, "predict") else getattr(model, "transform", None)
        return model, None if answer is None else answer(FRAMES["pandas"](given))

    for place, library in enumerate(("pandas", "polars", "pyarrow")):
        odd = [
            FRAMES[library](with_cell(given, column, place, cell))
            for column, cell in (
                ("whole", None),
                ("share", "odd"),
                ("member", 7),
                ("colour", "odd"),
                ("code", "odd"),
                ("label", 0.5),
            )
        ]
        compare_tables(run, FRAMES[library](given), odd)


# Files ------------------------------------------------------------------------------------------


def fitted(model: str, **options: Any) -> Callable[[TableFile], tuple[Any, ...]]:
    return lambda source: (fit_table(source, BOUNDS, PROMISE, model=model, options=options),)


TASKS: dict[str, Callable[[TableFile], tuple[Any, ...]]] = {
    "gaussian": fitted("gaussian"),
    "linear": fitted("linear"),
    "kernel": fitted("kernel"),
    "large-margin": fitted("large-margin"),
    "hull": fitted("hull", n_layers=1, samples_per_gaussian=20),
    "fabricate": lambda source: fabricate_table(source, BOUNDS, PROMISE),
}
NAMES = [*FEATURES, "id", "label"]
QUICK_CELLS = (None, 0.5, 10**30, "odd")


def written(folder: Path, way: str, given: Any, name: str = "rows") -> TableFile:
    suffix, write = FILES[way]
    path = folder / f"{name}.{suffix}"
    write(given, path)
    return TableFile(path, BOUNDS.types())


@pytest.mark.parametrize("way", FILES)
def test_files(tmp_path: Path, way: str) -> None:
    """One task sees every odd cell, and odd cells in every column, also in one that is left out."""
    odd = [
        (place, written(tmp_path, way, with_cell(columns(), name, place, cell), f"{name} {place}"))
        for step, name in enumerate(NAMES)
        for place, cell in enumerate(CELLS)
        if (step + place) % 6 == 0
    ]
    source = written(tmp_path, way, columns())
    compare_tables(TASKS["gaussian"], source, (table for _, table in odd))

    def encoded(table: TableFile) -> tuple[np.ndarray, ...]:
        rows = table.read(list(BOUNDS.types()))
        return TableEncoder(BOUNDS).transform(rows), np.asarray(BOUNDS.target_of(rows))

    require_other_rows(encoded, source, odd)


@pytest.mark.parametrize("task", TASKS)
def test_every_task(tmp_path: Path, task: str) -> None:
    ways = ("csv of pandas", "parquet of pandas") * 2
    for place, way in enumerate(ways):
        odd = (
            written(tmp_path, way, with_cell(columns(), name, place, QUICK_CELLS[place]), "odd")
            for name in ("whole", "code", "label")
        )
        compare_tables(TASKS[task], written(tmp_path, way, columns()), odd)
