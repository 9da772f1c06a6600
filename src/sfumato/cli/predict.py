"""``sfumato predict``: labels for the rows of a table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.console import (
    print_lines,
    printed_json,
    progress_bar,
    ready_to_write,
    remark,
)
from sfumato.cli.exit_codes import plain_errors
from sfumato.cli.jobs.images import predict_images
from sfumato.cli.jobs.pipeline import predict_table, table_for
from sfumato.cli.options import Json, Reading, TablePath, reading_from
from sfumato.models.images import PrivateImageClassifier
from sfumato.models.saving import load
from sfumato.tables.files import FORMATS, write_table

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
        list[str] | None, typer.Option(help="A column to copy to the output; may be repeated.")
    ] = None,
    reading: Reading = None,
    as_json: Json = False,
) -> None:
    """Predict the label of every row of a table.

    Any model file of Sfumato will do. A model that was trained on arrays takes the columns in
    their order; an image model takes a folder of images or an .npz with X. Predictions cost no
    budget.

    Example: sfumato predict model.sfumato new.csv -o predictions.csv --keep id
    """
    with plain_errors():
        ready_to_write(output, *FORMATS)
        loaded, new = load(model), Counter[str]()
        with progress_bar(f"predicting {table}"):
            if isinstance(loaded, PrivateImageClassifier):
                found = predict_images(loaded, table, probabilities=probabilities)
            else:
                source = table_for(loaded, table, **reading_from(reading))
                found = predict_table(
                    loaded,
                    source,
                    probabilities=probabilities,
                    keep=tuple(keep or ()),
                    new_categories=new,
                )
        write_table(found, output)
    if as_json:
        told = {"output": str(output), "rows": len(found), "columns": found.column_names}
        printed_json({**told, "new_categories": dict(new)})
        return
    print_lines(f"{output}: {len(found)} predictions.")
    for name, count in new.items():
        remark(
            f"{name!r}: {count} of {len(found)} cells contain a category that the bounds do not "
            "list; they count as missing."
        )
