"""``sfumato predict``: labels for the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.interfaces.cli.console import printed_json, progress_bar, ready_to_write, told
from sfumato.interfaces.cli.exit_codes import plain_errors
from sfumato.interfaces.cli.options import Json, TablePath
from sfumato.persistence import load
from sfumato.pipeline import predict_table, types_read_by
from sfumato.tables.files import FORMATS, TableFile, write_table

__all__ = ["ModelPath", "predict"]

ModelPath = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model file (.sfumato) of `sfumato fit`.")
]


def predict(
    model: ModelPath,
    table: TablePath,
    output: Annotated[Path, typer.Option("--output", "-o", help="The table to write.")],
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add a column for each label.")
    ] = False,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column to copy beside; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict the label of every row of a table.

    Any model file of Sfumato will do; one that was trained on arrays takes the columns as they
    come. Predictions cost no budget.

    Example: sfumato predict model.sfumato new.csv -o predictions.csv --keep id
    """
    with plain_errors():
        ready_to_write(output, *FORMATS)
        loaded = load(model)
        source = TableFile(table, types_read_by(loaded))
        with progress_bar(f"predicting {table}"):
            found = predict_table(
                loaded, source, probabilities=probabilities, keep=tuple(keep or ())
            )
        write_table(found, output)
    if as_json:
        printed_json({"output": str(output), "rows": len(found), "columns": found.column_names})
    else:
        told(f"{output}: {len(found)} predictions.")
