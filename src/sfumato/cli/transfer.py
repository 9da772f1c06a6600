"""``sfumato transfer``: a classifier for a table with few labels, from a private one with many."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import progress_bar, ready_to_write, write_or_rescue
from sfumato.cli.exit_codes import plain_errors
from sfumato.cli.fit import ModelOutput, print_result
from sfumato.cli.jobs.pipeline import PrivacyRequest, transfer_table
from sfumato.exceptions import InvalidInputError
from sfumato.models.saving import save
from sfumato.privacy.guarantee import Relation, Unit
from sfumato.tables.files import TableFile

NOBODY = "none"


def transfer(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="The private table with many labels.")
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="TARGET", help="The table with few labels; leave cells without a label empty."
        ),
    ],
    epsilon: options.Epsilon,
    bounds: options.Bounds,
    output: ModelOutput,
    delta: options.Delta = 1e-6,
    unit: options.DeclaredUnit = None,
    relation: options.NeighbourRelation = Relation.REPLACE_ONE,
    ledger: options.LedgerPath = None,
    dataset: options.Dataset = None,
    purpose: options.Purpose = None,
    by: options.By = None,
    protect_target: Annotated[
        bool, typer.Option("--protect-target", help="Protect the records of TARGET as well.")
    ] = False,
    target_epsilon: Annotated[
        float | None, typer.Option(help="The target's own epsilon; by default --epsilon.")
    ] = None,
    target_delta: Annotated[
        float | None, typer.Option(help="The target's own delta; by default --delta.")
    ] = None,
    target_ledger: Annotated[
        str | None,
        typer.Option(help="The ledger that pays for the target; 'none' to keep no record."),
    ] = None,
    target_dataset: Annotated[
        str | None,
        typer.Option(help="The data set in that ledger; not needed if there is only one."),
    ] = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Train a classifier for a table with few labels, helped by a private table with many.

    The guarantee covers the rows of the source and, with --protect-target, those of the target,
    by a separate release with its own budget and ledger. Both tables must have the columns of
    the bounds.

    Example: sfumato transfer hospital.csv clinic.csv --epsilon 1 --bounds bounds.toml -o
    clinic.sfumato
    """
    with plain_errors():
        ready_to_write(output, ".sfumato")
        private, known = options.bounded_table(source, bounds)
        labelled = TableFile(target, known.types())
        promise = options.promise_of(
            epsilon, delta, unit, relation, ledger, dataset, known, purpose=purpose, by=by
        )
        own = (target_epsilon, target_delta, target_ledger, target_dataset)
        of_target = _target_promise(promise, *own) if protect_target else None
        if not protect_target and any(each is not None for each in own):
            raise InvalidInputError(
                "A budget for the target needs '--protect-target': give it too."
            )
        chosen = options.settings_from(settings)
        with progress_bar(f"transferring from {source} to {target}"):
            fitted = transfer_table(
                private, labelled, known, promise, target_promise=of_target, options=chosen
            )
            write_or_rescue(partial(save, fitted), output)
    print_result(fitted, output, promise, of_target, as_json=as_json)


def _target_promise(
    source: PrivacyRequest,
    epsilon: float | None,
    delta: float | None,
    ledger: str | None,
    dataset: str | None,
) -> PrivacyRequest:
    if source.ledger is not None and ledger is None:
        raise InvalidInputError(
            "'--ledger' pays for the source only: name the one that pays for the target with "
            "'--target-ledger', or give '--target-ledger none' to keep no record."
        )
    if dataset is not None and ledger in (None, NOBODY):
        raise InvalidInputError(
            "'--target-dataset' names a budget of a ledger: give '--target-ledger' too."
        )
    return PrivacyRequest(
        source.epsilon if epsilon is None else epsilon,
        source.delta if delta is None else delta,
        Unit.RECORD,
        source.relation,
        None if ledger in (None, NOBODY) else options.payer(ledger, dataset),
    )
