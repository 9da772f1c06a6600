"""What may be asked of a data set, and how a worker makes it.

Estimators arrive as names and JSON parameters; both are checked against lists here. A task is
rehearsed on dummy rows first: what is wrong with it is found, and told in full, before a row is
read.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
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
from sfumato.privacy.events import Event, GaussianEvent, PureEvent, SelectionEvent
from sfumato.privacy.filters import PrivacyFilter
from sfumato.privacy.gaussian import epsilon_from_mu, mu_from_budget
from sfumato.privacy.renyi import selection_mu, with_max_runs
from sfumato.report.certificate import CertificateError, certificate_of, signed, written
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
# Parameters that are no settings of a model: who pays, what is promised, what the machine does.
CLOSED = {
    *("epsilon", "delta", "unit", "relation", "bounds", "ledger", "n_jobs", "verbose"),
    *("device", "memory", "resume", "estimator", "param_grid", "scoring", "kernel", "features"),
}
SEARCHED_RUNS = 5.0  # on average; all that are allowed are made, so that nobody sees how many count
SCORE_SHARE = 0.1  # of a run, for its score
MIN_DELTA = 1e-11
MAX_TRIED = 200  # settings of a search, each planned before the charge
MAX_ITEMS, DEEPEST, MAX_TEXT_LENGTH = 1000, 4, 200
REHEARSED_ROWS = 500
GRID = {1: 101, 2: 41}  # points along an axis of a drawn density


def checked_task(record: Mapping[str, Any]) -> dict[str, Any]:
    """Check what was asked, without any data; return it with nothing but known fields."""
    kind = record.get("kind") or "fit"
    if kind not in ESTIMATORS:
        raise InvalidInputError(f"'kind' must be one of {', '.join(ESTIMATORS)}.")
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


def planned_event(
    kind: str, epsilon: float, delta: float | None, total: PrivacyFilter
) -> tuple[float, Event]:
    """Return the delta of a request, and what it will release, as far as it is known before."""
    if delta is None:
        delta = total.delta
        if kind == "search" and delta:
            delta = max(MIN_DELTA, delta * min(0.01, math.exp(-total.epsilon)))
    if kind == "search":
        law = SelectionEvent(((GaussianEvent(1.0),),), "poisson", SEARCHED_RUNS)
        law = with_max_runs(law, delta or MIN_DELTA, epsilon)
        mu = selection_mu(law, epsilon, delta or MIN_DELTA)
        return delta, replace(law, options=((GaussianEvent(1 / mu),),))
    return delta, GaussianEvent(1 / mu_from_budget(epsilon, delta)) if delta else PureEvent(epsilon)


def epsilon_of_a_run(search: Any, delta: float) -> float:
    """Return the epsilon that one run of a search has for its model, at the same delta."""
    (run,) = search.options[0]
    return epsilon_from_mu(math.sqrt(1 - SCORE_SHARE) / run.noise_multiplier, delta or MIN_DELTA)


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


def _made(
    source: TableFile,
    bounds: TableBounds,
    dataset: Mapping[str, Any],
    job: Mapping[str, Any],
    payer: Any,
) -> tuple[Any, Any]:
    """Return the fitted model, and the table that goes with it if there is one."""
    task, words = job["task"], (job["epsilon"], job["delta"], dataset["unit"], dataset["relation"])
    kind, parameters = task["kind"], task["parameters"]
    promise = PrivacyRequest(*words, payer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind in ("fit", "explanation"):
            chosen = MODEL_OF[task["estimator"]]
            return fit_table(source, bounds, promise, model=chosen, options=parameters), None
        if kind == "fabricate":
            table, model = fabricate_table(
                source, bounds, promise, n_rows=task["rows"], options=parameters
            )
            return model, table
        if kind in FUNCTIONS:
            columns = tuple(task["columns"])
            model = release_table(
                source, bounds, promise, function=kind, columns=columns, options=parameters
            )
            axes = 1 if kind == "curve" else model.n_features_in_
            return model, grid_table(model, GRID[axes]) if axes in GRID else None
        bounds.require_confirmed()
        asked = promise if kind == "moments" else PrivacyRequest(*words)
        model = make_model(getattr(sfumato, task["estimator"]), asked, bounds, parameters)
        # That there are no rows is an error only where their number is public.
        may_be_empty = promise.relation == "add_or_remove_one"
        declared = source.declared(bounds.types(), bounds.text)
        rows = declared.read(list(bounds.types()), may_be_empty=may_be_empty)
        if kind == "moments":
            return model.fit(rows), None
        search = sfumato.PrivateSearchCV(
            model,
            task["grid"],
            epsilon=promise.epsilon,
            delta=promise.delta,
            mean_runs=SEARCHED_RUNS,
            score_share=SCORE_SHARE,
            ledger=payer,
        )
        found = search.fit(rows, bounds.target_of(rows)).best_estimator_
        found.guarantee_ = search.guarantee_
        return found, None


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
    from sfumato.tables.proposal import PERSON_ROWS, describe_table

    found = describe_table(table, target)
    bounds = found.bounds
    if person is not None:  # the column of IDs that the officer has named
        table.require([person])
        columns = tuple(column for column in bounds.columns if column.name != person)
        rows = bounds.person_rows or PERSON_ROWS
        bounds = replace(bounds, columns=columns, person=person, person_rows=rows)
    if bounds.text is None and table.text != PLAIN_TEXT:  # of the files of a folder
        bounds = replace(bounds, text=table.text)
    notes = {column.name: column.note for column in bounds.columns if column.note}
    return {
        "bounds": json.loads(json.dumps(bounds.to_record(), default=list)),
        "notes": notes,
        "n_rows": found.n_rows,
    }
