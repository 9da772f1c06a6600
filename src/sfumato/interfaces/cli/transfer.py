"""``sfumato transfer``: a classifier for a table with few labels, from a private one with many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.guarantee import Relation, Unit
from sfumato.interfaces.cli import options
from sfumato.interfaces.cli.console import progress_bar, ready_to_write
from sfumato.interfaces.cli.exit_codes import plain_errors
from sfumato.interfaces.cli.fit import ModelOutput, stated
from sfumato.persistence import save
from sfumato.pipeline import transfer_table
from sfumato.tables.files import TableFile

__all__ = ["transfer"]


def transfer(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="The private table with many labels.")
    ],
    target: Annotated[
        Path,
        typer.Argument(metavar="TARGET", help="The table with few labels; empty cells for none."),
    ],
    epsilon: options.Epsilon,
    bounds: options.Bounds,
    output: ModelOutput,
    delta: options.Delta = 1e-6,
    unit: options.ProtectedUnit = Unit.RECORD,
    relation: options.NeighbourRelation = Relation.REPLACE_ONE,
    ledger: options.LedgerPath = None,
    dataset: options.Dataset = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Train a classifier for a table with few labels, helped by a private table with many.

    The promise is for the rows of the source. Both tables have the columns of the bounds.

    Example: sfumato transfer hospital.csv clinic.csv --epsilon 1 --bounds bounds.toml -o
    clinic.sfumato
    """
    with plain_errors():
        ready_to_write(output, ".sfumato")
        private, known = options.bounded_table(source, bounds)
        labelled = TableFile(target, known.types())
        promise = options.promise_of(epsilon, delta, unit, relation, ledger, dataset)
        chosen = options.settings_from(settings)
        with progress_bar(f"transferring from {source} to {target}"):
            fitted = transfer_table(private, labelled, known, promise, options=chosen)
            save(fitted, output)
    stated(fitted, output, promise, as_json=as_json)
