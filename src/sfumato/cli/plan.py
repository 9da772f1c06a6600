"""``sfumato plan``: what a budget costs and how much noise it means, from public numbers alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import options
from sfumato.cli.console import console_table, print_lines, printed_json
from sfumato.cli.exit_codes import plain_errors
from sfumato.privacy.attacker import FALSE_ALARMS, percent
from sfumato.privacy.guarantee import Relation
from sfumato.report import epsilon_needed, plan as make_plan, rows_needed
from sfumato.tables.schema import TableBounds


def plan(
    rows: Annotated[int, typer.Option(help="Number of records, or a public guess.", min=2)],
    epsilon: options.Epsilon,
    bounds: Annotated[
        Path | None, typer.Option("--bounds", "-b", help="Bounds, for the ranges of columns.")
    ] = None,
    columns: Annotated[
        int, typer.Option(help="Number of columns of numbers, if no bounds are given.", min=1)
    ] = 1,
    error: Annotated[
        float | None,
        typer.Option(
            help="Also show the records, or the epsilon, for this error of a column's mean, as a "
            "share of its range.",
        ),
    ] = None,
    delta: options.Delta = 1e-6,
    relation: options.NeighbourRelation = Relation.REPLACE_ONE,
    as_json: options.Json = False,
) -> None:
    """Show what a budget costs and how much noise it means; no record is read.

    Example: sfumato plan --rows 5000 --bounds bounds.toml --epsilon 1
    """
    with plain_errors():
        ranges = {} if bounds is None else _ranges(TableBounds.read(bounds))
        n_columns = len(ranges) or columns
        promise: dict[str, Any] = {"delta": delta, "relation": str(relation)}
        found = make_plan(rows, n_columns, epsilon=epsilon, ranges=ranges, **promise)
        needed = {}
        if error is not None:
            needed = {
                "rows": rows_needed(error, n_columns, epsilon=epsilon, **promise),
                "epsilon": epsilon_needed(error, rows, n_columns, **promise),
            }
    if as_json:
        printed_json(found.to_dict() | {"needed": needed})
        return
    lines = [
        ["best attacker, from even odds", f"right at most {percent(found.guesses_right)}"],
        [f"at {percent(FALSE_ALARMS)} false alarms", f"finds at most {percent(found.finds)}"],
        ["noise of a sum that one record changes by 1", f"± {found.noise_multiplier:.4g}"],
        ["noise of each count of a histogram", f"± {found.count_noise:.4g}"],
        ["noise of a column's mean, of its range", f"± {found.mean_noise:.3g}"],
        *([f"noise of the mean of {n}", f"± {v:.3g}"] for n, v in found.column_noise.items()),
    ]
    console_table(("figure", "value"), lines)
    print_lines("Each is one standard deviation, if the budget is spent on that release alone.")
    if needed:
        print_lines(
            f"An error of {error:g} of the range needs {needed['rows']} records at epsilon "
            f"{epsilon:g}, or epsilon {needed['epsilon']:.3g} with {rows} records."
        )


def _ranges(bounds: TableBounds) -> dict[str, tuple[float, float]]:
    """Return the public ranges of the columns of numbers; those of dates are days."""
    found = {}
    for column in bounds.used:
        record = column.to_record()
        lower, upper = record.get("lower"), record.get("upper")
        if isinstance(lower, int | float) and isinstance(upper, int | float):
            found[column.name] = float(lower), float(upper)
    return found
