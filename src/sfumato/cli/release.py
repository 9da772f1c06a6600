"""``sfumato release``: statistics of a table, or a density or mean curve as one small file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.console import (
    print_json,
    print_lines,
    print_table,
    progress_bar,
    ready_to_write,
    write_or_rescue,
)
from sfumato.cli.jobs.pipeline import fit_rows, open_table
from sfumato.cli.jobs.publishing import grid_table, release_table
from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError
from sfumato.models import statistics
from sfumato.models.saving import save
from sfumato.privacy.guarantee import Relation
from sfumato.tables.files import FORMATS, write_table

release_app = typer.Typer(
    help="Release private statistics of a table, a density, or the mean of curves.",
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
Picture = Annotated[Path | None, typer.Option(help="Also draw it (.png, .svg or .pdf).")]
Columns = Annotated[str, typer.Option(help="Columns to use, separated by commas; by default all.")]


def ready_to_draw(picture: Path | None) -> None:
    """Refuse a picture that cannot be drawn, before anything is charged."""
    ready_to_write(picture, ".png", ".svg", ".pdf")
    if picture is not None and find_spec("matplotlib") is None:
        raise InvalidInputError("A picture needs matplotlib: pip install 'sfumato[plot]'.")


def draw(released: Any, picture: Path) -> None:
    """Draw what was released into a file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    released.plot(ax=figure.subplots())
    with atomic_write(picture) as file:
        figure.savefig(file, format=picture.suffix.lstrip(".").lower())


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
        picture: Picture = None,
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
        ready_to_draw(picture)
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
            draw(released, picture)
            lines.append(f"Its picture: {picture}")
        options.print_release(released, output, promise, as_json=as_json)
        if not as_json:
            print_lines(*lines)

    release.__doc__ = text
    return release


release_app.command("density")(_command("density", DENSITY))
release_app.command("curve")(_command("curve", CURVE))


# By name: the function of `sfumato.models.statistics`, what it needs, and what it may take besides.
STATISTICS: dict[str, tuple[Callable[..., Any], str, tuple[str, ...]]] = {
    "counts": (statistics.release_counts, "", ("bins",)),
    "sum": (statistics.release_sum, "column", ()),
    "mean": (statistics.release_mean, "column", ()),
    "variance": (statistics.release_variance, "column", ()),
    "quantile": (statistics.release_quantiles, "column", ("at",)),
    "histogram": (statistics.release_histogram, "column", ("bins",)),
    "correlation": (statistics.release_correlation, "columns", ()),
}
ABOUT = {
    "counts": "how many records each group has. --by ward,admitted.month",
    "sum": "the sum of a column. --column cost --by ward",
    "mean": "the mean of the cells that are there, and their number. --column age --by ward",
    "variance": "the variance of a column. --column age",
    "quantile": "quantiles of a column. --column stay --at 0.5,0.9",
    "histogram": "how many records have their number in each bin. --column age --bins 20",
    "correlation": "the correlations of columns. --columns age,stay,cost",
}


def _statistic(name: str) -> Callable[..., None]:
    function, needed, more = STATISTICS[name]

    def release(
        table: options.TablePath,
        epsilon: options.Epsilon,
        bounds: options.Bounds,
        column: Annotated[
            str, typer.Option("--column", "--columns", help="The columns of numbers.")
        ] = "",
        by: Annotated[
            str,
            typer.Option(help="Groups: categories, or parts of dates such as admitted.month."),
        ] = "",
        at: Annotated[str, typer.Option(help="Of a quantile: which, such as 0.25,0.5.")] = "",
        bins: Annotated[
            int | None, typer.Option(help="Of a histogram or of numbers in --by: bins.", min=1)
        ] = None,
        output: Annotated[
            Path | None,
            typer.Option("--output", "-o", help="The table to write, with its guarantee."),
        ] = None,
        picture: Picture = None,
        confidence: Annotated[float, typer.Option(help="Of each error bar.")] = 0.95,
        delta: Annotated[
            float, typer.Option(help="Above 0, Gaussian noise is used where it is smaller.")
        ] = 0.0,
        unit: options.DeclaredUnit = None,
        person: options.PersonName = None,
        person_rows: options.PersonRows = None,
        relation: options.NeighbourRelation = Relation.REPLACE_ONE,
        ledger: options.LedgerPath = None,
        dataset: options.Dataset = None,
        purpose: options.Purpose = None,
        analyst: Annotated[
            str | None, typer.Option(help="Who requests it; recorded in the ledger.")
        ] = None,
        engine: options.Engine = None,
        as_json: options.Json = False,
    ) -> None:
        ready_to_write(output, *FORMATS)
        ready_to_draw(picture)
        known = options.known_bounds(bounds, person, person_rows)
        promise = options.promise_of(
            epsilon, delta, unit, relation, ledger, dataset, known, purpose=purpose, by=analyst
        )
        names = options.names_from(column)
        is_fine = len(names) >= 2 if needed == "columns" else len(names) == bool(needed)
        if not is_fine:
            wanted = {"": "no '--column'", "column": "one '--column'"}
            raise InvalidInputError(
                f"'release {name}' takes {wanted.get(needed, 'two or more --columns, as in a,b')}."
            )
        chosen: dict[str, Any] = (
            {needed: names if needed == "columns" else names[0]} if names else {}
        )
        given = {"at": at, "bins": bins}
        for option, value in given.items():
            if value and option not in more:
                raise InvalidInputError(f"'release {name}' takes no '--{option}'.")
        try:
            chosen |= {"at": [float(each) for each in at.split(",")]} if at else {}
        except ValueError:
            raise InvalidInputError(
                f"'--at' must be numbers such as 0.25,0.5. Got {at!r}."
            ) from None
        chosen |= {"bins": bins} if bins else {}
        chosen |= {"by": options.names_from(by), "confidence": confidence, "bounds": known}
        asked = partial(function, **chosen, **vars(promise))
        with (
            open_table(table, known, engine) as source,
            progress_bar(f"releasing the {name} of {table}") as advance,
        ):
            reader = SimpleNamespace(bounds=known, relation=relation, fit=asked)
            found = fit_rows(reader, source, advance)
            if output is not None:
                write_or_rescue(found.write, output)
        if picture is not None:
            draw(found, picture)
        if as_json:
            about = {"statistic": found.statistic, "counts": found.counts, "confidence": confidence}
            rows = {"rows": found.table.to_pylist(), "guarantee": found.guarantee.to_dict()}
            print_json({**about, **rows})
            return
        lines = [[_shown(cell) for cell in row.values()] for row in found.table.to_pylist()]
        print_table(found.table.column_names, lines)
        print_lines(
            f"Of {found.counts}. Each error bar, low to high, holds the figure of the table itself "
            f"with {confidence:.0%} confidence."
        )
        options.print_release(found, output or table, promise, as_json=False)

    release.__doc__ = f"""Release {ABOUT[name].partition(" --")[0]}

    Example: sfumato release {name} patients.csv{ABOUT[name].partition(".")[2]} --epsilon 1 --bounds
    bounds.toml -o {name}.csv
    """
    return release


def _shown(cell: Any) -> str:
    if cell is None:
        return "-"
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


for _name in STATISTICS:
    release_app.command(_name)(_statistic(_name))
