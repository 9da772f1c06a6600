"""``sfumato release``: a private density or mean curve of a table, as one small file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import options
from sfumato.cli.console import print_lines, progress_bar, ready_to_write, write_or_rescue
from sfumato.cli.jobs.pipeline import open_table
from sfumato.cli.jobs.publishing import grid_table, release_table
from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError
from sfumato.models.saving import save
from sfumato.privacy.guarantee import Relation
from sfumato.tables.files import FORMATS, write_table

release_app = typer.Typer(
    help="Release a private function of a table: a density, or the mean of curves.",
    no_args_is_help=True,
    add_completion=False,
)

DENSITY = """Release the density of some columns of numbers as a file that answers any point.

    Example: sfumato release density patients.csv --columns age --epsilon 1 --bounds bounds.toml -o
    density.sfumato --grid density.csv
    """
CURVE = """Release the mean of curves, one per row, as a file that answers any point.

    Columns are the points; names that are increasing numbers are used as points.

    Example: sfumato release curve growth.csv --epsilon 1 --bounds bounds.toml -o mean.sfumato
    """

Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write (.sfumato).")]
Columns = Annotated[str, typer.Option(help="Columns to use, separated by commas; by default all.")]


def _command(function: str, text: str) -> Callable[..., None]:
    def release(
        table: options.TablePath,
        epsilon: options.Epsilon,
        bounds: options.Bounds,
        output: Output,
        columns: Columns = "",
        grid: Annotated[
            Path | None, typer.Option(help="Also write its values on a grid to this table.")
        ] = None,
        grid_size: Annotated[int, typer.Option(help="Points of the grid along an axis.")] = 50,
        picture: Annotated[
            Path | None, typer.Option(help="Also draw it (.png, .svg or .pdf).")
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
        engine: options.Engine = None,
        as_json: options.Json = False,
    ) -> None:
        ready_to_write(output, ".sfumato")
        ready_to_write(grid, *FORMATS)
        ready_to_write(picture, ".png", ".svg", ".pdf")
        if picture is not None and find_spec("matplotlib") is None:
            raise InvalidInputError("A picture needs matplotlib: pip install 'sfumato[plot]'.")
        known = options.known_bounds(bounds, person, person_rows)
        promise = options.promise_of(
            epsilon, delta, unit, relation, ledger, dataset, known, purpose=purpose, by=by
        )
        with (
            open_table(table, known, engine) as source,
            progress_bar(f"releasing the {function} of {table}") as advance,
        ):
            released = release_table(
                source,
                known,
                promise,
                function=function,
                columns=options.names_from(columns),
                options=options.settings_from(settings),
                progress=advance,
            )
            write_or_rescue(partial(save, released), output)
        record = {"class": type(released).__name__, "guarantee": released.guarantee_.to_dict()}
        lines = []
        if grid is not None:
            write_table(grid_table(released, grid_size), grid, record)
            lines.append(f"Its values on a grid: {grid}")
        if picture is not None:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure

            figure = Figure(figsize=(8, 4.5), layout="constrained")
            FigureCanvasAgg(figure)
            released.plot(ax=figure.subplots())
            with atomic_write(picture) as file:
                figure.savefig(file, format=picture.suffix.lstrip(".").lower())
            lines.append(f"Its picture: {picture}")
        options.print_release(released, output, promise, as_json=as_json)
        if not as_json:
            print_lines(*lines)

    release.__doc__ = text
    return release


release_app.command("density")(_command("density", DENSITY))
release_app.command("curve")(_command("curve", CURVE))
