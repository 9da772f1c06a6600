"""``sfumato fabricate``: private rows of the same columns."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import (
    print_lines,
    progress_bar,
    ready_to_write,
    write_or_rescue,
)
from sfumato.cli.exit_codes import plain_errors
from sfumato.cli.fit import print_result
from sfumato.cli.jobs.partitioned import opened
from sfumato.cli.jobs.pipeline import fabricate_table
from sfumato.models.saving import save
from sfumato.privacy.guarantee import Relation
from sfumato.tables.files import FORMATS, write_table


def fabricate(
    table: options.TablePath,
    epsilon: options.Epsilon,
    bounds: options.Bounds,
    output: Annotated[Path, typer.Option("--output", "-o", help="The table to write.")],
    target: options.TargetName = None,
    rows: Annotated[
        int | None,
        typer.Option(
            help="How many rows to make; by default about as many as the table has.", min=1
        ),
    ] = None,
    key: Annotated[str | None, typer.Option("--id", help="A column of new IDs: 1, 2, ...")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Also write the fabricator (.sfumato), to draw more rows.")
    ] = None,
    delta: options.Delta = 1e-6,
    unit: options.DeclaredUnit = None,
    person: options.PersonName = None,
    person_rows: options.PersonRows = None,
    relation: options.NeighbourRelation = Relation.REPLACE_ONE,
    ledger: options.LedgerPath = None,
    dataset: options.Dataset = None,
    purpose: options.Purpose = None,
    by: options.By = None,
    settings: options.Settings = None,
    reading: options.Reading = None,
    engine: options.Engine = None,
    as_json: options.Json = False,
) -> None:
    """Make private rows that behave like those of a table; you may train anything on them.

    Columns and types are those of the table, without those that the bounds leave out. A table may
    be a glob or a folder of files larger than memory, or be read by a cluster ('--engine').
    Parquet and Feather files contain the guarantee; other formats have it in a separate file.

    Example: sfumato fabricate patients.csv --target diagnosis --epsilon 3 --bounds bounds.toml -o
    private.parquet
    """
    with plain_errors():
        ready_to_write(output, *FORMATS)
        if model is not None:
            ready_to_write(model, ".sfumato")
        known = options.known_bounds(bounds, person, person_rows, reading)
        promise = options.promise_of(
            epsilon, delta, unit, relation, ledger, dataset, known, purpose=purpose, by=by
        )
        chosen = options.settings_from(settings)
        with opened(table, known, engine) as source:
            options.warn_of_few(source, promise)
            with progress_bar(f"fabricating rows like {table}") as advance:
                made, fabricator = fabricate_table(
                    source,
                    known,
                    promise,
                    target=target,
                    n_rows=rows,
                    key=key,
                    options=chosen,
                    progress=advance,
                )
                record = {"class": "Fabricator", "guarantee": fabricator.guarantee_.to_dict()}
                if model is not None:
                    write_or_rescue(partial(save, fabricator), model)
                beside = write_or_rescue(lambda path: write_table(made, path, record), output)
    print_result(fabricator, output, promise, as_json=as_json)
    if beside is not None and not as_json:
        print_lines(f"Its guarantee: {beside}")
