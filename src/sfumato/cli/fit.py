"""``sfumato fit`` and ``predict``: private models of a table, and their answers."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import (
    print_json,
    print_lines,
    progress_bar,
    ready_to_write,
    remark,
    write_or_rescue,
)
from sfumato.cli.jobs.pipeline import (
    MODELS,
    fit_table,
    open_table,
    predict_table,
    table_for,
    target_rows,
)
from sfumato.exceptions import InvalidInputError
from sfumato.models.saving import load, save
from sfumato.models.scores import measure
from sfumato.privacy.guarantee import Relation
from sfumato.tables.files import FORMATS, write_table
from sfumato.tables.schema import TableBounds


def fit(
    table: options.TablePath,
    epsilon: options.Epsilon,
    bounds: options.Bounds,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The model file to write (.sfumato).")
    ],
    target: options.TargetName = None,
    model: Annotated[
        str | None,
        typer.Option(help=f"One of {', '.join(MODELS)}; by default chosen by the target."),
    ] = None,
    delta: options.Delta = 1e-6,
    unit: options.DeclaredUnit = None,
    relation: options.NeighbourRelation = Relation.REPLACE_ONE,
    ledger: options.LedgerPath = None,
    dataset: options.Dataset = None,
    purpose: options.Purpose = None,
    by: options.By = None,
    settings: options.Settings = None,
    search: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=[A,B]", help="Values to choose from, for the same budget."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Train a private model on a table and write it to one file.

    The bounds must have been confirmed. The ledger, if there is one, is charged before any
    noise is drawn. Without --model, a public rule chooses: additive for labels (linear if there
    are many columns for the rows), a regressor for a target with a range. A table may be a glob
    or a folder of files larger than memory.

    Example: sfumato fit patients.csv --target diagnosis --epsilon 1 --bounds bounds.toml -o
    model.sfumato
    """
    ready_to_write(output, ".sfumato")
    known = TableBounds.read(bounds)
    promise = options.promise_of(
        epsilon, delta, unit, relation, ledger, dataset, known, purpose=purpose, by=by
    )
    source, tried = open_table(table, known), options.settings_from(search, "--search")
    if not all(isinstance(values, list) for values in tried.values()):
        raise InvalidInputError("'--search' must list values, such as n_steps=[60,240].")
    options.warn_of_few(source, promise)
    with progress_bar(f"training {model or 'a model'} on {table}"):
        fitted = fit_table(
            source,
            known,
            promise,
            model=model,
            target=target,
            options=options.settings_from(settings),
            search=tried,
        )
    write_or_rescue(partial(save, fitted), output)
    options.print_release(fitted, output, promise, as_json=as_json)
    if tried and not as_json:
        print_lines(*(f"Chosen: {name} = {getattr(fitted, name)}" for name in tried))


def predict(
    model: options.ModelPath,
    table: options.TablePath,
    output: Annotated[Path, typer.Option("--output", "-o", help="The table to write.")],
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add a column for each label.")
    ] = False,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column to copy to the output; may be repeated.")
    ] = None,
    reading: options.Reading = None,
    as_json: options.Json = False,
) -> None:
    """Predict the target of every row of a table.

    The model must have been trained on a table. Predictions cost no budget.

    Example: sfumato predict model.sfumato new.csv -o predictions.csv --keep id
    """
    ready_to_write(output, *FORMATS)
    loaded, new = load(model), Counter[str]()
    with progress_bar(f"predicting {table}"):
        source = table_for(loaded, table, **options.reading_from(reading))
        found = predict_table(
            loaded, source, probabilities=probabilities, keep=tuple(keep or ()), new_categories=new
        )
    write_table(found, output)
    if as_json:
        told = {"output": str(output), "rows": len(found), "columns": found.column_names}
        print_json({**told, "new_categories": dict(new)})
        return
    print_lines(f"{output}: {len(found)} predictions.")
    if (target := loaded.bounds.target) is not None and target.name in (keep or ()):
        measured = measure(loaded, *target_rows(loaded, source))
        print_lines(*(f"{name}: {value:.4g}" for name, value in measured.items()))
    for name, count in new.items():
        remark(
            f"{name!r}: {count} of {len(found)} cells contain a category that the bounds do not "
            "list; they count as missing."
        )
