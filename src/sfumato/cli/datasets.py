"""``sfumato datasets``: public data sets as table files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.console import console_table, print_lines, printed_json, ready_to_write
from sfumato.cli.exit_codes import plain_errors
from sfumato.cli.options import Json, completing
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
    origins = available()
    if as_json:
        printed_json(
            [
                {"name": name, "rows": rows, "features": width, "from": origins[name]}
                for name, (rows, width, _) in CATALOGUE.items()
            ]
        )
        return
    lines = [
        [name, str(rows), str(width), origins[name], about]
        for name, (rows, width, about) in CATALOGUE.items()
    ]
    console_table(("name", "rows", "features", "from", "about"), lines)


@datasets_app.command()
def fetch(
    name: Annotated[
        str, typer.Argument(help="A name of the list.", autocompletion=completing(CATALOGUE))
    ],
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
    with plain_errors():
        for path in filter(None, (output, holdout)):
            ready_to_write(path, *FORMATS)
        found = load(name)
        rows, held_out = found.parts() if holdout is not None else (None, None)
        written = [_written(found.table(rows), output)]
        if holdout is not None:
            written.append(_written(found.table(held_out), holdout))
    if as_json:
        printed_json({"name": name, "target": found.target, "files": written})
    else:
        print_lines(*(f"{each['file']}: {each['rows']} rows of {name}" for each in written))
        print_lines(f"Target: {found.target}")


def _written(columns: dict[str, Any], path: Path) -> dict[str, Any]:
    table = arrow().table(
        {name: arrow().array(values, from_pandas=True) for name, values in columns.items()}
    )
    write_table(table, path)
    return {"file": str(path), "rows": len(table)}
