"""``sfumato explain``: what a model says about each column."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.console import (
    console_table,
    print_lines,
    printed_json,
    ready_to_write,
    remark,
)
from sfumato.cli.exit_codes import plain_errors
from sfumato.cli.options import Json
from sfumato.cli.predict import ModelPath
from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError
from sfumato.models.additive import Explanation, plot_explanation
from sfumato.models.saving import load

PICTURES = (".png", ".svg", ".pdf")


def explain(
    model: ModelPath,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A picture (.png, .svg, .pdf) or .json to write."),
    ] = None,
    coverage: Annotated[
        float, typer.Option(help="Probability that a band covers its curve without noise.")
    ] = 0.95,
    columns: Annotated[int, typer.Option(min=1, help="Columns in the picture.")] = 6,
    as_json: Json = False,
) -> None:
    """Show what an additive model has learned: each column's curve, band and importance.

    Only released numbers are read, so this costs no budget.

    Example: sfumato explain model.sfumato -o curves.png
    """
    with plain_errors():
        if output is not None:
            ready_to_write(output, *PICTURES, ".json")
        found = _explanation(load(model), model, coverage)
        if output is not None:
            written = _written(found, output.suffix.lower(), columns)
            with atomic_write(output) as file:
                file.write(written)
    if as_json:
        printed_json(found.to_dict())
        return
    print_lines(f"{model}: what each column adds to {' and '.join(found.scores)}.")
    titles = ("column", "importance", "from", "to", "band (half width)")
    console_table(
        titles, [(name, *(f"{each:.3g}" for each in rest)) for name, *rest in found.summary()]
    )
    print_lines(found.note)
    if output is not None:
        remark(f"{output}: written.")


def _explanation(loaded: Any, file: Path, coverage: float) -> Explanation:
    if not hasattr(loaded, "explain"):
        raise InvalidInputError(
            f"'{file}' holds a {type(loaded).__name__}, which has no curves to explain. Use the "
            "model additive or additive-regressor."
        )
    found: Explanation = loaded.explain(coverage)
    return found


def _written(found: Explanation, suffix: str, columns: int) -> bytes:
    if suffix == ".json":
        return (json.dumps(found.to_dict(), indent=2) + "\n").encode()
    try:
        figure = plot_explanation(found, n_columns=columns)
    except ImportError:
        raise InvalidInputError(
            "Pictures need matplotlib: pip install 'sfumato[plot]'. The table and JSON do not."
        ) from None
    picture = io.BytesIO()
    figure.savefig(picture, format=suffix[1:])
    return picture.getvalue()
