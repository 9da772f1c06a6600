"""``sfumato release``: statistics of a table, or a density or mean curve as one small file."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
        as_json: options.Json = False,
    ) -> None:
        ready_to_write(output, ".sfumato")
        ready_to_write(grid, *FORMATS)
        known = options.known_bounds(bounds, person, person_rows)
        promise = options.promise_of(
            epsilon, delta, unit, relation, ledger, dataset, known, purpose=purpose, by=by
        )
        source = open_table(table, known)
        with progress_bar(f"releasing the {function} of {table}") as advance:
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
        if grid is not None:
            write_table(grid_table(released, grid_size), grid, record)
        options.print_release(released, output, promise, as_json=as_json)
        if grid is not None and not as_json:
            print_lines(f"Its values on a grid: {grid}")

    release.__doc__ = text
    return release


release_app.command("density")(_command("density", DENSITY))
release_app.command("curve")(_command("curve", CURVE))


# By name: the function, of how many columns it is, and what it may take besides.
STATISTICS: dict[str, tuple[Callable[..., Any], str, tuple[str, ...]]] = {
    "counts": (statistics.release_counts, "no '--column'", ("bins",)),
    "sum": (statistics.release_sum, "one '--column'", ()),
    "mean": (statistics.release_mean, "one '--column'", ()),
    "variance": (statistics.release_variance, "one '--column'", ()),
    "quantile": (statistics.release_quantiles, "one '--column'", ("at",)),
    "histogram": (statistics.release_histogram, "one '--column'", ("bins",)),
    "correlation": (statistics.release_correlation, "two or more of '--column a,b'", ()),
}
ABOUT = {
    "counts": "how many records each group has. --by ward,admitted.month",
    "sum": "the sum of a column. --column cost --by ward",
    "mean": "the mean of the cells that are there, and their number. --column age --by ward",
    "variance": "the variance of a column. --column age",
    "quantile": "quantiles of a column. --column stay --at 0.5,0.9",
    "histogram": "how many records have their number in each bin. --column age --bins 20",
    "correlation": "the correlations of columns. --column age,stay --by ward",
}


def _statistic(name: str) -> Callable[..., None]:
    function, takes, more = STATISTICS[name]

    def release(
        table: options.TablePath,
        epsilon: options.Epsilon,
        bounds: options.Bounds,
        column: Annotated[
            str, typer.Option(help="The column of numbers; of a correlation, several: a,b.")
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
        as_json: options.Json = False,
    ) -> None:
        ready_to_write(output, *FORMATS)
        known = options.known_bounds(bounds, person, person_rows)
        promise = options.promise_of(
            epsilon, delta, unit, relation, ledger, dataset, known, purpose=purpose, by=analyst
        )
        names = options.names_from(column)
        if ("no", "one", "two")[min(len(names), 2)] != takes.partition(" ")[0]:
            raise InvalidInputError(f"'release {name}' takes {takes}.")
        chosen: dict[str, Any] = {"columns": names} if len(names) > 1 else {}
        chosen |= {"column": names[0]} if len(names) == 1 else {}
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
        source = open_table(table, known)
        with progress_bar(f"releasing the {name} of {table}") as advance:
            reader = SimpleNamespace(bounds=known, relation=relation, fit=asked)
            found = fit_rows(reader, source, advance)
            if output is not None:
                write_or_rescue(found.write, output)
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
