"""``sfumato fabricate`` and ``sfumato quality``: private rows of the same columns."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import (
    print_json,
    print_lines,
    print_table,
    progress_bar,
    ready_to_write,
    remark,
    write_or_rescue,
)
from sfumato.cli.jobs.pipeline import fabricate_table, open_table, table_for
from sfumato.exceptions import InvalidInputError
from sfumato.models.saving import load, save
from sfumato.privacy.guarantee import Relation
from sfumato.synthetic.fabricator import Fabricator
from sfumato.synthetic.quality import bounds_of_made, kept_relations, measured_quality
from sfumato.tables.files import FORMATS, TableFile, write_table
from sfumato.tables.schema import TableBounds


def fabricate(
    table: options.TablePath,
    epsilon: options.Epsilon,
    bounds: options.Bounds,
    output: Annotated[Path, typer.Option("--output", "-o", help="The table to write.")],
    target: options.TargetName = None,
    rows: Annotated[
        int | None,
        typer.Option(
            help="How many rows to make; by default about one for each record, or each person "
            "where persons are protected.",
            min=1,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Also write the fabricator (.sfumato), to draw more rows and for 'quality'."
        ),
    ] = None,
    delta: options.Delta = 1e-6,
    unit: options.DeclaredUnit = None,
    relation: options.NeighbourRelation = Relation.REPLACE_ONE,
    ledger: options.LedgerPath = None,
    dataset: options.Dataset = None,
    purpose: options.Purpose = None,
    by: options.By = None,
    settings: options.Settings = None,
    as_json: options.Json = False,
) -> None:
    """Make private rows that behave like those of a table; you may train anything on them.

    Columns and types are those of the table, without those that the bounds leave out. A table may
    be a glob or a folder of files larger than memory.
    A Parquet file contains the guarantee; a CSV has it in a separate file.

    Example: sfumato fabricate patients.csv --target diagnosis --epsilon 3 --bounds bounds.toml -o
    private.parquet
    """
    ready_to_write(output, *FORMATS)
    ready_to_write(model, ".sfumato")
    known = TableBounds.read(bounds)
    promise = options.promise_of(
        epsilon, delta, unit, relation, ledger, dataset, known, purpose=purpose, by=by
    )
    chosen = options.settings_from(settings)
    source = open_table(table, known)
    options.warn_of_few(source, promise)
    with progress_bar(f"fabricating rows like {table}"):
        made, fabricator = fabricate_table(
            source,
            known,
            promise,
            target=target,
            n_rows=rows,
            options=chosen,
        )
        record = {"class": "Fabricator", "guarantee": fabricator.guarantee_.to_dict()}
        record["bounds"] = fabricator.bounds.to_record()
        if model is not None:
            write_or_rescue(partial(save, fabricator), model)
        beside = write_or_rescue(lambda path: write_table(made, path, record), output)
    options.print_release(fabricator, output, promise, as_json=as_json)
    if beside is not None and not as_json:
        print_lines(f"Its guarantee: {beside}")
    if not as_json:
        if rows is None and promise.unit == "person":
            remark(f"{len(made)} rows, about one for each person; --rows asks for more.")
        remark(kept_relations(fabricator.released_law())[0])


def quality(
    model: Annotated[Path, typer.Argument(help="The fabricator (.sfumato).")],
    fabricated: Annotated[Path, typer.Argument(help="The fabricated table.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page: .html or .json.")
    ] = None,
    sensitive: Annotated[
        Path | None,
        typer.Option(help="Also compare with this raw table; that part is not private."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Compare fabricated rows with what was released, at no cost, and with raw rows if given.

    Example: sfumato quality fabricator.sfumato private.csv -o quality.html
    """
    ready_to_write(output, ".html", ".json")
    fabricator = load(model) if model.suffix == ".sfumato" else None
    if not isinstance(fabricator, Fabricator):
        raise InvalidInputError(
            f"'{model}' contains no fabricator: `sfumato fabricate ... --model rows.sfumato` "
            "writes one beside the table."
        )
    known = fabricator.released_law().bounds  # refuses others before a table is read
    # Fabricated text is written in one way, however the raw table was written.
    types = bounds_of_made(known).types()
    made = TableFile(fabricated, types).read(list(types))
    raw = None
    if sensitive is not None:
        raw = table_for(fabricator, sensitive).read(list(known.types()))
    found = measured_quality(fabricator, made, raw)
    if output is not None:
        write_or_rescue(found.write, output)
    if as_json:
        print_json(found.to_dict())
        return
    for part in found.parts:
        print_lines(part.title)
        print_table(("figure", "value"), part.figures())
    print_lines(found.relations)
    if output is not None:
        print_lines(f"Written: {output}")
