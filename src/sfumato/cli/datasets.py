"""``sfumato datasets``: public tables to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.console import print_json, print_lines, print_table, ready_to_write
from sfumato.cli.options import Json
from sfumato.datasets import CATALOGUE, available, load
from sfumato.tables.columns import arrow
from sfumato.tables.files import FORMATS, write_table

datasets_app = typer.Typer(
    help="Public data sets to try things on: embedded, from the folder SFUMATO_DATA, or OpenML.",
    no_args_is_help=True,
    add_completion=False,
)


@datasets_app.command("list")
def list_datasets(as_json: Json = False) -> None:
    """List the data sets and where each would come from.

    Example: sfumato datasets list
    """
    found: list[Any] = [[n, *CATALOGUE[n], origin] for n, origin in available().items()]
    if as_json:
        keys = ("name", "rows", "features", "from")
        print_json([dict(zip(keys, (n, r, w, o), strict=True)) for n, r, w, _, o in found])
        return
    lines = [[name, str(rows), str(width), origin, a] for name, rows, width, a, origin in found]
    print_table(("name", "rows", "features", "from", "about"), lines)


@datasets_app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A name from the list.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The table to write.")],
    holdout: Annotated[
        Path | None,
        typer.Option(help="Hold rows back and write them here: the published test part, or 30 %."),
    ] = None,
    as_json: Json = False,
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
    written = []
    for path, rows in parts.items():
        columns = found.table(rows).items()
        table = arrow().table({key: arrow().array(v, from_pandas=True) for key, v in columns})
        write_table(table, path)
        written.append({"file": str(path), "rows": len(table)})
    if as_json:
        print_json({"name": name, "target": found.target, "files": written})
    else:
        print_lines(*(f"{each['file']}: {each['rows']} rows of {name}" for each in written))
        print_lines(f"Target: {found.target}")
