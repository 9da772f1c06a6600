"""``sfumato query``: ask a released function."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.console import print_lines, printed_json, ready_to_write
from sfumato.cli.exit_codes import plain_errors
from sfumato.cli.jobs.publishing import query_table
from sfumato.cli.options import Json
from sfumato.models.saving import load
from sfumato.tables.files import FORMATS, TableFile, write_table


def query(
    release: Annotated[
        str,
        typer.Argument(
            metavar="RELEASE",
            help="A file of `sfumato release` (.sfumato).",
        ),
    ],
    points: Annotated[Path, typer.Option(help="A table of points.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The table to write.")],
    as_json: Json = False,
) -> None:
    """Evaluate a released density or curve at any number of points, at no cost.

    Example: sfumato query density.sfumato --points points.csv -o answers.csv
    """
    with plain_errors():
        ready_to_write(output, *FORMATS)
        source = TableFile(points)
        found = query_table(load(release), source)
        write_table(found, output)
    if as_json:
        printed_json({"output": str(output), "rows": len(found), "columns": found.column_names})
    else:
        print_lines(f"{output}: {len(found)} answers.")
