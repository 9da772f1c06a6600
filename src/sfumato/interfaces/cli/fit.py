"""``sfumato fit``: a private classifier from a table."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.guarantee import Relation, Unit
from sfumato.interfaces.cli import options
from sfumato.interfaces.cli.console import (
    printed_json,
    progress_bar,
    ready_to_write,
    remark,
    told,
    written_somewhere,
)
from sfumato.interfaces.cli.exit_codes import plain_errors
from sfumato.persistence import save
from sfumato.pipeline import Promise, fit_table, offered_models

__all__ = ["fit", "stated"]

ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        help=f"One of {', '.join(offered_models())}.",
        autocompletion=options.completing(offered_models()),
    ),
]
ModelOutput = Annotated[
    Path, typer.Option("--output", "-o", help="The model file to write (.sfumato).")
]


def fit(
    table: options.TablePath,
    epsilon: options.Epsilon,
    bounds: options.Bounds,
    output: ModelOutput,
    target: options.TargetName = None,
    model: ModelName = "gaussian",
    delta: options.Delta = 1e-6,
    unit: options.ProtectedUnit = Unit.RECORD,
    relation: options.NeighbourRelation = Relation.REPLACE_ONE,
    ledger: options.LedgerPath = None,
    dataset: options.Dataset = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Train a private classifier on a table and write it to one file.

    The bounds must have been confirmed. The ledger, if there is one, is charged before any noise
    is drawn. The model gaussian reads files larger than memory.

    Example: sfumato fit patients.csv --target diagnosis --epsilon 1 --bounds bounds.toml -o
    model.sfumato
    """
    with plain_errors():
        ready_to_write(output, ".sfumato")
        source, known = options.bounded_table(table, bounds)
        promise = options.promise_of(epsilon, delta, unit, relation, ledger, dataset)
        chosen = options.settings_from(settings)
        with progress_bar(f"training {model} on {table}") as advance:
            fitted = fit_table(
                source,
                known,
                promise,
                model=model,
                target=target,
                options=chosen,
                progress=advance,
            )
            written_somewhere(partial(save, fitted), output)
    stated(fitted, output, promise, as_json=as_json)


def stated(
    fitted: Any, output: Path, promise: Promise, target: Promise | None = None, *, as_json: bool
) -> None:
    """Say what was released, under which guarantee, and who paid; also for a protected target."""
    names = () if target is None else ("source", "target")
    parts = {name: getattr(fitted, f"{name}_guarantee_") for name in names}
    if as_json:
        record = {"output": str(output), "class": type(fitted).__name__}
        record["guarantee"] = fitted.guarantee_.to_dict()
        printed_json(record | {f"{name}_guarantee": g.to_dict() for name, g in parts.items()})
        return
    told(f"{output}: {type(fitted).__name__}", str(fitted.guarantee_))
    told(*(f"For a record of the {name}: {each}" for name, each in parts.items()))
    _tell_who_paid(promise, "this release")
    if target is not None:
        _tell_who_paid(target, "the release of the target")


def _tell_who_paid(promise: Promise, release: str) -> None:
    if promise.ledger is None:
        remark(f"No ledger was given: nobody keeps count of {release}.")
        return
    statement = promise.ledger.statement()
    told(
        f"Ledger '{promise.ledger.name}': spent {statement.spent:.4g} of epsilon "
        f"{statement.budget.epsilon:g} at delta {statement.budget.delta:g}."
    )
