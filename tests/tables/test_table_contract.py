"""One odd cell or line tells nothing: every table estimator, every library, every format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.bench_fuzzed_tables import require_other_rows
from benchmarks.odd_tables import (
    BOUNDS,
    CELLS,
    FILES,
    FRAMES,
    LINES,
    columns,
    with_cell,
    with_line,
)
from sfumato import Bounds, Fabricator
from sfumato.cells import as_rows
from sfumato.pipeline import Promise, all_labelled_rows, fabricate_table, fit_table
from sfumato.publishing import release_table
from sfumato.tables import TableForm
from sfumato.tables.files import TableFile
from sfumato.testing.tables import compare_tables

PROMISE = Promise(epsilon=1.0, delta=1e-5)
FEATURES = [column.name for column in BOUNDS.used]


# Frames -----------------------------------------------------------------------------------------


def a_fabricator(**parameters: Any) -> Fabricator:
    return Fabricator(
        delta=1e-5,
        bounds=Bounds(lower=(0, 0.0, 0), upper=(100, 1.0, 1), labels=[-1, 5]),
        types={"whole": "int64", "share": "double", "member": "bool"},
        categories={"colour": ["blue", "red"], "code": [2**60 + 1, 5, 7]},
        random_state=0,
        **parameters,
    )


def fabricated(table: Any) -> tuple[Any, ...]:
    fabricator = a_fabricator().fit(table, columns()["label"])
    return fabricator, *fabricator.fabricate()


@pytest.mark.parametrize("kind", FRAMES)
def test_frames(kind: str) -> None:
    given = {name: columns()[name] for name in FEATURES}
    odd = (
        (place, with_cell(given, name, place, cell))
        for step, name in enumerate(given)
        for place, cell in enumerate(CELLS)
        if (step + place) % 3 == 0  # the rest is left to benchmarks/fuzzed_tables.py
    )
    tables = [(place, FRAMES[kind](each)) for place, each in odd]
    compare_tables(fabricated, FRAMES[kind](given), (table for _, table in tables))

    def encoded(table: Any) -> tuple[np.ndarray, ...]:
        model = a_fabricator()
        return TableForm.of(table, model.categories, model.types).encode(table), as_rows(table)

    require_other_rows(encoded, FRAMES[kind](given), tables)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_whole_numbers_stay_whole(kind: str) -> None:
    given = {name: columns()[name] for name in FEATURES}
    for cell in (3, None, 0.5):
        made, _ = a_fabricator().fit_fabricate(
            FRAMES[kind](with_cell(given, "whole", 0, cell)), columns()["label"]
        )
        assert (
            "int64" in str(made["whole"].type if kind == "pyarrow" else made["whole"].dtype).lower()
        )


@pytest.mark.parametrize("kind", FRAMES)
def test_types_that_are_declared_public_are_kept_also_beside_missing_cells(kind: str) -> None:
    given = {name: columns()[name] for name in ("whole", "share", "member")}
    for name in given:
        given = with_cell(given, name, 0, None)
    if kind == "pandas":  # of which a missing cell makes an object
        del given["member"]
    box = Bounds(lower=0.0, upper=100.0)
    fabricator = Fabricator(delta=1e-5, bounds=box, types="public", random_state=0)
    table = FRAMES[kind](given)
    made = fabricator.fit_fabricate(table)
    types = (
        (table.schema, made.schema)
        if kind != "pandas" and "pandas" not in kind
        else (table.dtypes, made.dtypes)
    )
    assert str(types[0]) == str(types[1])
    assert "types of the columns found in the table" in fabricator.guarantee_.public


# Files ------------------------------------------------------------------------------------------


def fitted(model: str, **options: Any) -> Callable[[TableFile], tuple[Any, ...]]:
    return lambda source: (fit_table(source, BOUNDS, PROMISE, model=model, options=options),)


def released(function: str, **options: Any) -> Callable[[TableFile], tuple[Any, ...]]:
    used = ("share",) if function == "density" else ("whole", "share")
    return lambda source: (
        release_table(source, BOUNDS, PROMISE, function=function, columns=used, options=options),
    )


TASKS: dict[str, Callable[[TableFile], tuple[Any, ...]]] = {
    "gaussian": fitted("gaussian"),
    "linear": fitted("linear"),
    "kernel": fitted("kernel"),
    "large-margin": fitted("large-margin"),
    "hull": fitted("hull", n_layers=1, samples_per_gaussian=20),
    "fabricate": lambda source: fabricate_table(source, BOUNDS, PROMISE),
    "density": released("density", bandwidth=0.1),
    "curve": released("curve"),
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
    require_other_rows(
        lambda table: all_labelled_rows(table, BOUNDS.encoding(), BOUNDS.require_target(None)),
        source,
        odd,
    )


@pytest.mark.parametrize("task", TASKS)
def test_every_task(tmp_path: Path, task: str) -> None:
    ways = ("csv of pandas", "jsonl", "parquet of pandas", "feather")
    for place, way in enumerate(ways):
        odd = (
            written(tmp_path, way, with_cell(columns(), name, place, QUICK_CELLS[place]), "odd")
            for name in ("whole", "code", "label")
        )
        compare_tables(TASKS[task], written(tmp_path, way, columns()), odd)


@pytest.mark.parametrize("way", ["csv", "jsonl"])
@pytest.mark.parametrize("task", ["gaussian", "fabricate"])
def test_odd_lines(tmp_path: Path, way: str, task: str) -> None:
    def odd(place: int, line: bytes) -> TableFile:
        source = written(tmp_path, way, columns(), "odd")
        with_line(source.path, place, line)
        return TableFile(source.path, BOUNDS.types())

    tables = (odd(place, line) for place, line in enumerate(LINES[way]))
    compare_tables(TASKS[task], written(tmp_path, way, columns()), tables)


# The contract can fail --------------------------------------------------------------------------


def test_a_type_taken_from_cells_is_caught() -> None:
    given = {"whole": columns()["whole"]}
    box = Bounds(lower=0.0, upper=100.0)

    def run(table: Any) -> tuple[Any, ...]:
        return (Fabricator(delta=1e-5, bounds=box, types="public", random_state=0).fit(table),)

    with pytest.raises(AssertionError, match="table_"):
        compare_tables(
            run, FRAMES["pandas"](given), [FRAMES["pandas"](with_cell(given, "whole", 0, None))]
        )


def test_an_error_a_warning_and_another_type_of_the_output_are_caught() -> None:
    import warnings

    given = {"whole": columns()["whole"]}
    box = Bounds(lower=0.0, upper=100.0)
    tables = [FRAMES["pandas"](given), FRAMES["pandas"](with_cell(given, "whole", 0, None))]

    def run(table: Any, act: Callable[[Any], Any]) -> tuple[Any, ...]:
        model = Fabricator(delta=1e-5, bounds=box, types="double", random_state=0).fit(table)
        return model, act(table)

    def fail(table: Any) -> None:
        if table.isna().any(axis=None):
            raise ValueError("missing")

    def warn(table: Any) -> None:
        if table.isna().any(axis=None):
            warnings.warn("missing", stacklevel=1)

    for act in (fail, warn, lambda table: str(table.dtypes)):
        with pytest.raises(AssertionError, match="Table 0 is told by"):
            compare_tables(lambda table, act=act: run(table, act), tables[0], tables[1:])
