"""``sfumato release``: statistics of a table, with error bars."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
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
from sfumato.cli.jobs.pipeline import open_table, release_statistic
from sfumato.exceptions import InvalidInputError
from sfumato.privacy.guarantee import Relation
from sfumato.tables.files import FORMATS
from sfumato.tables.schema import TableBounds

release_app = typer.Typer(
    help="Release private statistics of a table.",
    no_args_is_help=True,
    add_completion=False,
)

STATISTICS = {
    "counts": "how many records each group has. --by ward,admitted.month",
    "sum": "the sum of a column. --column cost --by ward",
    "mean": "the mean of the cells that are not missing, and their number. --column age --by ward",
    "variance": "the variance of a column. --column age",
    "quantile": "quantiles of a column. --column stay --at 0.5,0.9",
    "histogram": "how many records have their number in each bin. --column age --bins 20",
    "correlation": "the correlations of columns. --column age,stay --by ward",
}


def _statistic(name: str, about: str) -> Callable[..., None]:
    function = "release_quantiles" if name == "quantile" else f"release_{name}"

    def release(
        table: options.TablePath,
        epsilon: options.Epsilon,
        bounds: options.Bounds,
        column: Annotated[
            str, typer.Option(help="The numeric column; for a correlation, several: a,b.")
        ] = "",
        by: Annotated[
            str,
            typer.Option(help="Groups: categories, parts of dates such as admitted.month."),
        ] = "",
        at: Annotated[str, typer.Option(help="For a quantile: which ones, such as 0.25,0.5.")] = "",
        ranges: Annotated[
            str, typer.Option(help="For a histogram: 0:17,18:64 in place of bins, or all.")
        ] = "",
        bins: Annotated[
            int | None, typer.Option(help="For a histogram, or numbers in --by.", min=1)
        ] = None,
        output: Annotated[
            Path | None,
            typer.Option("--output", "-o", help="The table to write, with its guarantee."),
        ] = None,
        confidence: Annotated[float, typer.Option(help="Confidence of each error bar.")] = 0.95,
        delta: Annotated[
            float, typer.Option(help="Above 0, Gaussian noise is used where it is smaller.")
        ] = 0.0,
        unit: options.DeclaredUnit = None,
        relation: options.NeighbourRelation = Relation.REPLACE_ONE,
        ledger: options.LedgerPath = None,
        dataset: options.Dataset = None,
        purpose: options.Purpose = None,
        analyst: Annotated[
            str | None, typer.Option(help="Who requests it ('--by' in other commands).")
        ] = None,
        as_json: options.Json = False,
    ) -> None:
        ready_to_write(output, *FORMATS)
        known = TableBounds.read(bounds)
        promise = options.promise_of(
            epsilon, delta, unit, relation, ledger, dataset, known, purpose=purpose, by=analyst
        )
        for option, value, of in (("--at", at, "quantile"), ("--ranges", ranges, "histogram")):
            if value and name != of:
                raise InvalidInputError(f"'release {name}' takes no '{option}'.")
        settings: dict[str, Any] = {"by": options.names_from(by), "confidence": confidence}
        settings |= {"bins": bins} if bins else {}
        if ranges:
            pairs = [each.split(":") for each in ranges.split(",")]
            settings["ranges"] = ranges if ranges == "all" else pairs
        try:
            settings |= {"at": [float(each) for each in at.split(",")]} if at else {}
        except ValueError:
            raise InvalidInputError(
                f"'--at' must be numbers such as 0.25,0.5. Got {at!r}."
            ) from None
        source, columns = open_table(table, known), options.names_from(column)
        with progress_bar(f"releasing the {name} of {table}"):
            found = release_statistic(source, known, promise, function, columns, settings)
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
            f"Of {found.counts}. Each error bar, low to high, contains the figure without noise "
            f"at {100 * confidence:g} % confidence. Group '-': missing; figure '-': lost in noise."
        )
        options.print_release(found, output or table, promise, as_json=False)

    release.__doc__ = f"""Release {about.partition(" --")[0]}

    Example: sfumato release {name} patients.csv{about.partition(".")[2]} --epsilon 1 --bounds
    bounds.toml -o {name}.csv
    """
    return release


def _shown(cell: Any) -> str:
    if cell is None:
        return "-"
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


for _name, _about in STATISTICS.items():
    release_app.command(_name)(_statistic(_name, _about))
