"""What may be asked of a data set, and how a worker makes it.

Estimators arrive as names and JSON parameters; both are checked against lists here. A task is
rehearsed on dummy rows first: what is wrong with it is found, and told in full, before a row is
read.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import sfumato
from sfumato.cli.jobs.dummies import dummy_table
from sfumato.cli.jobs.pipeline import (
    MODELS,
    PrivacyRequest,
    fabricate_table,
    fit_table,
    make_model,
)
from sfumato.cli.jobs.publishing import FUNCTIONS, grid_table, release_table
from sfumato.exceptions import InvalidInputError, SfumatoError
from sfumato.ledger.receipt import Receipt
from sfumato.models.saving import save
from sfumato.privacy.events import Event
from sfumato.report.certificate import CertificateError, certificate_of, signed, written
from sfumato.service.plans import SCORE_SHARE, SEARCHED_RUNS
from sfumato.tables.files import TableFile, write_table
from sfumato.tables.schema import TableBounds
from sfumato.tables.text import PLAIN_TEXT

MODEL_OF = {kind: name for name, kind in MODELS.items()}
# What a job may be, and the estimators that it may name.
ESTIMATORS: dict[str, tuple[str, ...]] = {
    "fit": tuple(MODEL_OF),
    "explanation": ("PrivateAdditiveClassifier", "PrivateAdditiveRegressor"),
    "search": tuple(MODEL_OF),
    "fabricate": ("Fabricator",),
    "density": (FUNCTIONS["density"],),
    "curve": (FUNCTIONS["curve"],),
    "moments": ("PrivateMoments", "PrivatePCA"),
}
KINDS = tuple(ESTIMATORS)
# Parameters that are no settings of a model: who pays, what is promised, what the machine does.
CLOSED = {
    *("epsilon", "delta", "unit", "relation", "bounds", "ledger", "n_jobs", "verbose"),
    *("device", "memory", "resume", "estimator", "param_grid", "scoring", "kernel", "features"),
}
MAX_TRIED = 200  # settings of a search, each planned before the charge
MAX_ITEMS, DEEPEST, MAX_TEXT_LENGTH = 1000, 4, 200
REHEARSED_ROWS = 500
GRID = {1: 101, 2: 41}  # points along an axis of a drawn density


def checked_task(record: Mapping[str, Any]) -> dict[str, Any]:
    """Check what was asked, without any data; return it with nothing but known fields."""
    kind = record.get("kind") or "fit"
    if kind not in ESTIMATORS:
        raise InvalidInputError(f"'kind' must be one of {', '.join(KINDS)}.")
    offered = ESTIMATORS[kind]
    estimator = record.get("estimator") or offered[0]
    if estimator not in offered:
        raise InvalidInputError(f"'estimator' of a {kind} must be one of {', '.join(offered)}.")
    parameters = dict(record.get("parameters") or {})
    known = settings_of(estimator)
    for name, value in parameters.items():
        if name not in known:
            listed = ", ".join(sorted(known))
            raise InvalidInputError(
                f"{estimator} has no parameter {name!r} here. It has: {listed}."
            )
        _check_value(name, value, 0)
    grid = dict(record.get("grid") or {})
    if bool(grid) != (kind == "search"):
        raise InvalidInputError("A 'search', and only that, needs 'grid': values per parameter.")
    for name, values in grid.items():
        if name not in known or not isinstance(values, list) or not values:
            raise InvalidInputError(f"'grid' must list values of parameters. Got {name!r}.")
        _check_value(name, values, 0)
    if math.prod(len(values) for values in grid.values()) > MAX_TRIED:
        raise InvalidInputError(f"'grid' must give at most {MAX_TRIED} combinations of values.")
    columns = list(record.get("columns") or [])
    if columns and kind not in FUNCTIONS:
        raise InvalidInputError("'columns' are chosen for a density or a curve only.")
    return {
        "kind": kind,
        "estimator": estimator,
        "parameters": parameters,
        "grid": grid,
        "columns": [str(name) for name in columns],
        "rows": record.get("rows") if kind == "fabricate" else None,
    }


def settings_of(estimator: str) -> set[str]:
    """Return the settings of an estimator that an analyst may choose."""
    return set(getattr(sfumato, estimator)().get_params(deep=False)) - CLOSED


def _check_value(name: str, value: Any, depth: int) -> None:
    """Take plain JSON of a bounded size."""
    if isinstance(value, Mapping | list) and depth < DEEPEST and len(value) <= MAX_ITEMS:
        parts = value.values() if isinstance(value, Mapping) else value
        for part in parts:
            _check_value(name, part, depth + 1)
        return
    is_text = isinstance(value, str) and len(value) <= MAX_TEXT_LENGTH
    is_number = isinstance(value, int | float) and abs(value) <= 1e12
    if not (value is None or is_text or is_number):
        raise InvalidInputError(
            f"The value of {name!r} is too large, too deep or of no known kind."
        )


class _WouldChargeError(Exception):
    """Ends a rehearsal at the moment at which it would pay."""


class _Rehearsal:
    """Stands for the ledger in a rehearsal: notes what would be charged, and ends it."""

    def __init__(self) -> None:
        self.events: tuple[Event, ...] = ()

    def charge(self, *events: Event, **words: Any) -> Receipt:  # noqa: ARG002 - the ledger's
        self.events = events
        raise _WouldChargeError


def rehearsed(
    dataset: Mapping[str, Any], job: Mapping[str, Any], folder: Path
) -> tuple[Event, ...]:
    """Run a task on dummy rows to its end, and return the events that it would pay for.

    What would fail after the charge fails here, where nothing is charged.
    """
    bounds = TableBounds.from_record(dataset["bounds"])
    number = dataset.get("n_rows") or REHEARSED_ROWS
    path = folder / "dummy.parquet"
    write_table(dummy_table(bounds, min(number, REHEARSED_ROWS)), path)
    payer, made = _Rehearsal(), folder / "dummy.sfumato"
    try:
        _made(TableFile(path), bounds, dataset, job, payer)
    except _WouldChargeError:
        save(_made(TableFile(path), bounds, dataset, job, None)[0], made)
        return payer.events
    finally:
        path.unlink(missing_ok=True)
        made.unlink(missing_ok=True)
    raise InvalidInputError(f"A {job['task']['kind']} with these settings charges nothing.")


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
    model, made = _made(table, bounds, dataset, job, payer)
    files = {"model.sfumato": "the model"}
    save(model, folder / "model.sfumato")
    if made is not None:
        named = {"fabricate": ("table", "fabricated rows")}
        name, what = named.get(job["task"]["kind"], ("grid", "its values on a grid"))
        record = {"class": type(model).__name__, "guarantee": model.guarantee_.to_dict()}
        for ending in ("parquet", "csv"):
            write_table(made, folder / f"{name}.{ending}", record)
            files[f"{name}.{ending}"] = what
    if hasattr(model, "explain"):
        (folder / "explanation.json").write_text(json.dumps(model.explain().to_dict(), indent=1))
        files["explanation.json"] = "what it says of each column, with bands"
    (folder / "guarantee.json").write_text(json.dumps(model.guarantee_.to_dict(), indent=1))
    files["guarantee.json"] = "the guarantee"
    certificate = _certificate(folder / "model.sfumato", job, payer, signing_key)
    if certificate is not None:
        (folder / "certificate.json").write_text(certificate)
        files["certificate.json"] = "the signed certificate"
    told = {"class": type(model).__name__, "guarantee": model.guarantee_.to_dict(), "files": files}
    if job["task"]["kind"] == "search":  # which one has won is what was paid for
        found = model.get_params(deep=False)
        told["chosen"] = {name: found[name] for name in job["task"]["grid"]}
    return told


def _promise(dataset: Mapping[str, Any], job: Mapping[str, Any], payer: Any) -> PrivacyRequest:
    return PrivacyRequest(job["epsilon"], job["delta"], dataset["unit"], dataset["relation"], payer)


def _made(
    source: TableFile,
    bounds: TableBounds,
    dataset: Mapping[str, Any],
    job: Mapping[str, Any],
    payer: Any,
) -> tuple[Any, Any]:
    """Return the fitted model, and the table that goes with it if there is one."""
    task = job["task"]
    promise = _promise(dataset, job, payer)
    makers: dict[str, Callable[[], tuple[Any, Any]]] = {
        "fit": lambda: (_fitted(source, bounds, promise, task), None),
        "explanation": lambda: (_fitted(source, bounds, promise, task), None),
        "search": lambda: (_searched(source, bounds, promise, task), None),
        "fabricate": lambda: _fabricated(source, bounds, promise, task),
        "moments": lambda: (_moments(source, bounds, promise, task), None),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if task["kind"] in makers:
            return makers[task["kind"]]()
        return _function(source, bounds, promise, task)


def _fitted(source: TableFile, bounds: TableBounds, promise: PrivacyRequest, task: Any) -> Any:
    return fit_table(
        source, bounds, promise, model=MODEL_OF[task["estimator"]], options=task["parameters"]
    )


def _searched(source: TableFile, bounds: TableBounds, promise: PrivacyRequest, task: Any) -> Any:
    bounds.require_confirmed()
    plain = PrivacyRequest(promise.epsilon, promise.delta, promise.unit, promise.relation)
    model = make_model(getattr(sfumato, task["estimator"]), plain, bounds, task["parameters"])
    search = sfumato.PrivateSearchCV(
        model,
        task["grid"],
        epsilon=promise.epsilon,
        delta=promise.delta,
        mean_runs=SEARCHED_RUNS,
        score_share=SCORE_SHARE,
        ledger=promise.ledger,
    )
    rows = _rows(source, bounds, promise)
    found = search.fit(rows, bounds.target_of(rows)).best_estimator_
    found.guarantee_ = search.guarantee_
    return found


def _fabricated(
    source: TableFile, bounds: TableBounds, promise: PrivacyRequest, task: Any
) -> tuple[Any, Any]:
    table, model = fabricate_table(
        source, bounds, promise, n_rows=task["rows"], options=task["parameters"]
    )
    return model, table


def _moments(source: TableFile, bounds: TableBounds, promise: PrivacyRequest, task: Any) -> Any:
    bounds.require_confirmed()
    model = make_model(getattr(sfumato, task["estimator"]), promise, bounds, task["parameters"])
    return model.fit(_rows(source, bounds, promise))


def _rows(source: TableFile, bounds: TableBounds, promise: PrivacyRequest) -> Any:
    """Read all rows; that there are none is an error only where their number is public."""
    may_be_empty = promise.relation == "add_or_remove_one"
    declared = source.declared(bounds.types(), bounds.text)
    return declared.read(list(bounds.types()), may_be_empty=may_be_empty)


def _function(
    source: TableFile, bounds: TableBounds, promise: PrivacyRequest, task: Any
) -> tuple[Any, Any]:
    model = release_table(
        source,
        bounds,
        promise,
        function=task["kind"],
        columns=tuple(task["columns"]),
        options=task["parameters"],
    )
    axes = 1 if task["kind"] == "curve" else model.n_features_in_
    return model, grid_table(model, GRID[axes]) if axes in GRID else None


def _certificate(
    file: Path, job: Mapping[str, Any], payer: Any, signing_key: Path | None
) -> str | None:
    if signing_key is None or not signing_key.exists():
        return None
    try:
        content = certificate_of(
            file, budget=payer.budget.dataset, purpose=job["purpose"], by=job["person"]
        )
        return written(signed(content, signing_key))
    except (CertificateError, SfumatoError, OSError):  # the charge was made: release without it
        return None


def describe(table: TableFile, target: str | None, person: str | None = None) -> dict[str, Any]:
    """Read a table and propose its bounds; the proposal is for officers only."""
    from sfumato.tables.proposal import describe_table

    found = describe_table(table, target)
    bounds = found.bounds if person is None else _of_persons(table, found.bounds, person)
    if bounds.text is None and table.text != PLAIN_TEXT:  # of the files of a folder
        bounds = replace(bounds, text=table.text)
    notes = {column.name: column.note for column in bounds.columns if column.note}
    return {
        "bounds": json.loads(json.dumps(bounds.to_record(), default=list)),
        "notes": notes,
        "n_rows": found.n_rows,
    }


def _of_persons(table: TableFile, bounds: TableBounds, person: str) -> TableBounds:
    """Return a proposal with the column of IDs that the officer has named."""
    from sfumato.tables.proposal import PERSON_ROWS

    table.require([person])
    columns = tuple(column for column in bounds.columns if column.name != person)
    rows = bounds.person_rows or PERSON_ROWS
    return replace(bounds, columns=columns, person=person, person_rows=rows)
