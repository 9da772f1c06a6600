"""``sfumato datasets``: public tables to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.console import print_lines, print_table, ready_to_write
from sfumato.datasets import CATALOGUE, available, load
from sfumato.tables.columns import arrow
from sfumato.tables.files import FORMATS, write_table

datasets_app = typer.Typer(
    help="Public data sets to experiment with: embedded, from the folder SFUMATO_DATA, or OpenML.",
    no_args_is_help=True,
    add_completion=False,
)


@datasets_app.command("list")
def list_datasets() -> None:
    """List the data sets and where each would come from.

    Example: sfumato datasets list
    """
    known = ((name, *CATALOGUE[name], origin) for name, origin in available().items())
    lines = [[name, str(rows), str(width), origin, a] for name, rows, width, a, origin in known]
    print_table(("name", "rows", "features", "from", "about"), lines)


@datasets_app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A name from the list.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The table to write.")],
    holdout: Annotated[
        Path | None,
        typer.Option(help="Hold rows back and write them here: the published test part, or 30 %."),
    ] = None,
) -> None:
    """Write a data set as a table.

    Example: sfumato datasets fetch breast-cancer -o patients.csv --holdout new.csv
    """
    ready_to_write(output, *FORMATS)
    ready_to_write(holdout, *FORMATS)
    found = load(name)
    parts: dict[Path, Any] = {output: None}
    if holdout is not None:
        parts[output], parts[holdout] = found.parts()
    for path, rows in parts.items():
        columns = found.table(rows).items()
        table = arrow().table({key: arrow().array(v, from_pandas=True) for key, v in columns})
        write_table(table, path)
        print_lines(f"{path}: {len(table)} rows of {name}")
    print_lines(f"Target: {found.target}")
