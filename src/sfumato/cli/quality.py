"""``sfumato quality``: how good fabricated rows are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import (
    console_table,
    print_lines,
    printed_json,
    ready_to_write,
    write_or_rescue,
)
from sfumato.cli.exit_codes import plain_errors
from sfumato.cli.jobs.pipeline import table_for
from sfumato.exceptions import InvalidInputError
from sfumato.models.saving import load
from sfumato.synthetic.fabricator import Fabricator
from sfumato.synthetic.quality import SENSITIVE, measured_quality
from sfumato.tables.files import TableFile


def quality(
    model: Annotated[Path, typer.Argument(help="The fabricator (.sfumato).")],
    fabricated: Annotated[Path, typer.Argument(help="The fabricated table.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The page: .html or .json.")
    ] = None,
    sensitive: Annotated[
        Path | None,
        typer.Option(help="Compare with this raw table; the figures are then not private."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Compare fabricated rows with what was released, at no cost, or with raw rows.

    Example: sfumato quality fabricator.sfumato private.csv -o quality.html
    """
    with plain_errors():
        if output is not None:
            ready_to_write(output, ".html", ".json")
        fabricator = load(model)
        if not isinstance(fabricator, Fabricator):
            raise InvalidInputError(f"'{model}' contains no Fabricator.")
        known = fabricator.released_tree().bounds  # refuses other methods before a table is read
        names = list(known.types())
        # Fabricated text is written in one way, however the raw table was written.
        made = TableFile(fabricated, known.types()).read(names)
        raw = None if sensitive is None else table_for(fabricator, sensitive).read(names)
        found = measured_quality(fabricator, made, raw)
        if output is not None:
            write_or_rescue(found.write, output)
    if as_json:
        printed_json(found.to_dict())
        return
    if found.sensitive:
        print_lines(SENSITIVE)
    console_table(("figure", "value"), found.figures())
    if output is not None:
        print_lines(f"Written: {output}")
