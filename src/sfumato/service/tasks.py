"""What may be asked of a data set, and how a worker makes it.

Estimators arrive as names and JSON parameters; both are checked against lists here. A task is
rehearsed on few dummy rows first: what is wrong with it is found, and told in full, before a row
is read.
"""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

import sfumato
from sfumato.cli.jobs.dummies import dummy_table
from sfumato.cli.jobs.pipeline import (
    MODELS,
    PrivacyRequest,
    fabricate_table,
    fit_rows,
    fit_table,
    make_model,
    release_statistic,
)
from sfumato.exceptions import InvalidInputError, SfumatoError
from sfumato.ledger.receipt import Receipt
from sfumato.models.saving import save
from sfumato.privacy.events import Event
from sfumato.report.certificate import certificate_of, signed, written
from sfumato.service.charts import charts_of
from sfumato.tables.columns import arrow
from sfumato.tables.files import TableFile, write_table
from sfumato.tables.schema import TableBounds

MODEL_OF = {kind: name for name, kind in MODELS.items()}
# What a job may be, and the estimators or functions that it may name.
ESTIMATORS: dict[str, tuple[str, ...]] = {
    "statistic": (
        *("release_counts", "release_mean", "release_sum", "release_variance"),
        *("release_quantiles", "release_histogram", "release_correlation"),
    ),
    "fit": tuple(MODEL_OF),
    "fabricate": ("Fabricator",),
    "density": ("PrivateDensity",),
}
# Parameters that are no settings of a model: who pays, what is promised, what the machine does.
CLOSED = {
    *("epsilon", "delta", "unit", "relation", "bounds", "ledger", "n_jobs", "verbose"),
    *("device", "memory", "estimator", "param_grid", "scoring", "kernel", "features"),
    *("table", "column", "columns", "by", "promise"),
}
MAX_ITEMS, DEEPEST, MAX_TEXT_LENGTH, MAX_COUNT = 1000, 4, 200, 100_000
REHEARSED_ROWS = 200
TABLES = {  # files beside a model, and what they hold
    "fabricate": ("table", "fabricated rows"),
    "density": ("grid", "its values at 101 points"),
    "statistic": ("figures", "the figures with their error bars"),
}
DRAWN_POINTS = 101  # of a density


def check_task(task: Mapping[str, Any]) -> None:
    """Check what was asked, without any data."""
    kind, estimator, known = task["kind"], task["estimator"], ESTIMATORS[task["kind"]]
    if estimator not in known:
        raise InvalidInputError(f"'estimator' of a {kind} must be one of {', '.join(known)}.")
    settings = settings_of(estimator)
    for name, value in task["parameters"].items():
        if name not in settings:
            listed = ", ".join(sorted(settings))
            raise InvalidInputError(
                f"{estimator} has no parameter {name!r} here. It has: {listed}."
            )
        _check_value(name, value, 0)
    takes = {"density": {"columns"}, "statistic": {"columns", "by"}, "fabricate": {"rows"}}
    for name in {"columns", "by", "rows"} - takes.get(kind, set()):
        if task[name]:
            raise InvalidInputError(f"A {kind} takes no {name!r}.")


def settings_of(estimator: str) -> set[str]:
    """Return the settings of an estimator or a statistic that an analyst may choose."""
    found = getattr(sfumato, estimator)
    if isinstance(found, type):
        return set(found().get_params(deep=False)) - CLOSED
    return {*signature(found).parameters, "bins", "confidence"} - CLOSED


def _check_value(name: str, value: Any, depth: int) -> None:
    """Take plain JSON of a bounded size."""
    if isinstance(value, Mapping | list) and depth < DEEPEST and len(value) <= MAX_ITEMS:
        parts = value.values() if isinstance(value, Mapping) else value
        for part in parts:
            _check_value(name, part, depth + 1)
        return
    is_text = isinstance(value, str) and len(value) <= MAX_TEXT_LENGTH
    # Whole numbers are counts: of steps, features, rows. Each of them is unpaid work.
    is_count = isinstance(value, int) and abs(value) <= MAX_COUNT
    is_number = isinstance(value, float) and math.isfinite(value) and abs(value) <= 1e12
    if not (value is None or is_text or is_count or is_number):
        raise InvalidInputError(
            f"The value of {name!r} is too large, too deep or of an unknown type: whole numbers go "
            f"up to {MAX_COUNT}, texts to {MAX_TEXT_LENGTH} characters."
        )


class _ChargedError(Exception):
    """Ends a rehearsal at the moment at which it would pay."""


class _Rehearsal:
    """Stands for the ledger in a rehearsal: notes what would be charged."""

    def __init__(self, to_the_end: bool) -> None:
        self.events: tuple[Event, ...] = ()
        self._to_the_end = to_the_end

    def charge(
        self, *events: Event, unit: str | None = None, relation: str | None = None
    ) -> Receipt:
        self.events = events
        if not self._to_the_end:
            raise _ChargedError
        return Receipt(events, unit=unit, relation=relation)


def rehearse(
    dataset: Mapping[str, Any], job: Mapping[str, Any], *, to_the_end: bool = True
) -> tuple[Event, ...]:
    """Run a task on few dummy rows, and return the events that it would pay for.

    What would fail after the charge fails here, where nothing is charged.
    """
    bounds = TableBounds.from_record(dataset["bounds"])
    payer = _Rehearsal(to_the_end)
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(_ChargedError):
        path = Path(folder) / "dummy.parquet"
        write_table(dummy_table(bounds, REHEARSED_ROWS), path)
        try:
            _made(TableFile(path), bounds, dataset, job, payer, Path(folder))
        except (TypeError, ValueError) as error:  # of settings that nothing else has refused
            raise InvalidInputError(str(error)) from error
    if not payer.events:
        raise InvalidInputError(f"A {job['task']['kind']} with these settings charges nothing.")
    return payer.events


def make_release(
    dataset: Mapping[str, Any],
    job: Mapping[str, Any],
    table: TableFile,
    payer: Any,
    folder: Path,
    signing_key: Path | None,
) -> dict[str, Any]:
    """Charge, draw and write the files of a release."""
    bounds = TableBounds.from_record(dataset["bounds"])
    record = _made(table, bounds, dataset, job, payer, folder)
    if signing_key is not None:
        with contextlib.suppress(SfumatoError, OSError):  # the charge was made: release without it
            words = {"purpose": job["purpose"], "by": job["person"]}
            file = folder / next(iter(record["files"]))
            content = certificate_of(file, budget=payer.budget.dataset, **words)
            (folder / "certificate.json").write_text(written(signed(content, signing_key)))
            record["files"]["certificate.json"] = f"the signed certificate of {file.name}"
    return record


def _made(
    source: TableFile,
    bounds: TableBounds,
    dataset: Mapping[str, Any],
    job: Mapping[str, Any],
    payer: Any,
    folder: Path,
) -> dict[str, Any]:
    """Fit, and write the files: first the model or the statistic, then what is made of it."""
    task, words = job["task"], (job["epsilon"], job["delta"], dataset["unit"], dataset["relation"])
    model, table = _fitted(source, bounds, PrivacyRequest(*words, payer), task)
    files, record = {}, {"class": type(model).__name__, "guarantee": model.guarantee_.to_dict()}
    if task["kind"] != "statistic":
        save(model, folder / "model.sfumato")
        files["model.sfumato"] = "the model"
    if table is not None:
        name, what = TABLES[task["kind"]]
        for ending in ("parquet", "csv"):
            write_table(table, folder / f"{name}.{ending}", record)
            files[f"{name}.{ending}"] = what
    if hasattr(model, "explain"):
        (folder / "explanation.json").write_text(json.dumps(model.explain().to_dict(), indent=1))
        files["explanation.json"] = "what it says of each column, with bands"
    (folder / "charts.json").write_text(json.dumps(charts_of(model, table, task)))
    (folder / "guarantee.json").write_text(json.dumps(record["guarantee"], indent=1))
    files["guarantee.json"] = "the guarantee"
    return {**record, "files": files}


def _fitted(
    source: TableFile, bounds: TableBounds, promise: PrivacyRequest, task: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Return what is released: a model or a statistic, and the table that goes with it."""
    kind, parameters = task["kind"], task["parameters"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "fit":
            chosen = MODEL_OF[task["estimator"]]
            return fit_table(source, bounds, promise, model=chosen, options=parameters), None
        if kind == "fabricate":
            table, model = fabricate_table(
                source, bounds, promise, n_rows=task["rows"], options=parameters
            )
            return model, table
        if kind == "density":
            model = _fit_density(source, bounds, promise, task["columns"], parameters)
            return model, _density_table(model)
        words = {"by": task["by"], **parameters}
        found = release_statistic(
            source, bounds, promise, task["estimator"], task["columns"], words
        )
        return found, found.table


def _fit_density(
    source: TableFile,
    bounds: TableBounds,
    promise: PrivacyRequest,
    names: Sequence[str],
    parameters: Mapping[str, Any],
) -> Any:
    """Release the density of a column of numbers."""
    used = tuple(
        replace(one, log=False)
        for one in bounds.used
        if one.name in names and one.categories is None and not one.parts
    )
    if not len(used) == len(names) == 1:
        raise InvalidInputError("A density needs one column, which has numbers by the bounds.")
    chosen = replace(bounds, columns=used, target=None)
    return fit_rows(make_model(sfumato.PrivateDensity, promise, chosen, parameters), source)


def _density_table(model: Any) -> Any:
    """Return the density at points of its public range."""
    low, high = model.row_bounds.box(1)
    points = np.linspace(low[0], high[0], DRAWN_POINTS)
    names = [model.bounds.used[0].name, "density"]
    return arrow().table([points, model.density(points[:, None])], names=names)


def describe(table: TableFile, target: str | None, person: str | None = None) -> dict[str, Any]:
    """Read a table and propose its bounds; the proposal is for officers only."""
    from sfumato.tables.proposal import PERSON_ROWS, describe_table

    found = describe_table(table, target)
    bounds = found.bounds
    if person is not None:  # the column of IDs that the officer has named
        table.require([person])
        columns = tuple(column for column in bounds.columns if column.name != person)
        rows = bounds.person_rows or PERSON_ROWS
        bounds = replace(bounds, columns=columns, person=person, person_rows=rows)
    notes = {column.name: column.note for column in bounds.columns if column.note}
    return {
        "bounds": json.loads(json.dumps(bounds.to_record(), default=list)),
        "notes": notes,
        "n_rows": found.n_rows,
    }
