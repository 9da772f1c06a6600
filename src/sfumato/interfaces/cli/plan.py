"""``sfumato plan``: what a budget will give, from public numbers alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Relation
from sfumato.interfaces.cli import options
from sfumato.interfaces.cli.console import console_table, print_lines, printed_json, progress_bar
from sfumato.interfaces.cli.exit_codes import plain_errors
from sfumato.planning import SCENARIOS, Plan, epsilon_needed, rows_needed
from sfumato.planning import plan as make_plan
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.schema import TableBounds

__all__ = ["plan"]


def plan(
    rows: Annotated[int, typer.Option(help="Number of records, or a public guess.", min=2)],
    epsilon: options.Epsilon,
    bounds: Annotated[
        Path | None, typer.Option("--bounds", "-b", help="Bounds, for columns and labels.")
    ] = None,
    columns: Annotated[
        int | None, typer.Option(help="Number of columns, if no bounds are given.")
    ] = None,
    classes: Annotated[
        int | None, typer.Option(help="Number of labels, if no bounds are given.")
    ] = None,
    majority: Annotated[
        float | None, typer.Option(help="Share of the largest class, if that is public.")
    ] = None,
    scenario: Annotated[
        str, typer.Option(help=f"How well the classes can be separated: {', '.join(SCENARIOS)}.")
    ] = "typical",
    models: Annotated[
        str | None, typer.Option(help="Models, separated by commas; by default all.")
    ] = None,
    accuracy: Annotated[
        float | None,
        typer.Option(help="Also show the epsilon, or the number of records, that this needs."),
    ] = None,
    delta: options.Delta = 1e-6,
    relation: options.NeighbourRelation = Relation.REPLACE_ONE,
    as_json: options.Json = False,
) -> None:
    """Estimate the accuracy that a budget gives; no record is read and nothing is charged.

    If the target is a number, the estimate is of its root mean squared error.

    Example: sfumato plan --rows 5000 --columns 20 --classes 2 --epsilon 1
    """
    with plain_errors():
        ranges: dict[str, tuple[float, float]] = {}
        target_range = None
        n_columns, n_classes = columns, classes or 2
        if bounds is not None:
            known = TableBounds.read(bounds)
            n_columns = TableEncoder(known).width
            labels = None if known.target is None else known.target.labels
            n_classes = len(labels) if isinstance(labels, tuple | list) else n_classes
            target_range = _range(known.target)
            n_classes = n_classes if target_range is None else 0
            found_ranges = {column.name: _range(column) for column in known.used}
            ranges = {name: ends for name, ends in found_ranges.items() if ends is not None}
        if n_columns is None:
            raise InvalidInputError("Give '--bounds', or '--columns'.")
        if accuracy is not None and n_classes == 0:
            raise InvalidInputError("'--accuracy' is for labels; the target is a number.")
        with progress_bar("simulating"):
            found = make_plan(
                rows,
                n_columns,
                epsilon=epsilon,
                delta=delta,
                n_classes=n_classes,
                majority=majority,
                relation=str(relation),
                scenario=scenario,
                ranges=ranges,
                models=None if models is None else [name.strip() for name in models.split(",")],
            )
        needs = {}
        if accuracy is not None:
            words: dict[str, Any] = {"delta": delta, "n_classes": n_classes, "scenario": scenario}
            needs = {
                "epsilon": epsilon_needed(accuracy, rows, n_columns, **words),
                "rows": rows_needed(accuracy, n_columns, epsilon=epsilon, **words),
            }
    if as_json:
        printed_json(found.to_dict() | {"needed": {k: str(v) for k, v in needs.items()}})
        return
    _print_table(found, target_range)
    for name, noise in found.column_noise.items():
        print_lines(f"The mean of {name} would have an error of about {noise:.3g} (one deviation).")
    if needs:
        print_lines(
            f"Accuracy {accuracy:g} with the linear model needs epsilon {needs['epsilon']:.2g} "
            f"with {rows} records, or {needs['rows']:.3g} records at epsilon {epsilon:g} (inf: not "
            "reached up to epsilon 10, or 10,000 records)."
        )
    print_lines(found.made)


def _range(column: Any) -> tuple[float, float] | None:
    """Give the public range of a column of numbers."""
    record = {} if column is None else column.to_record()
    lower, upper = record.get("lower"), record.get("upper")
    if isinstance(lower, int | float) and isinstance(upper, int | float):  # else days
        return float(lower), float(upper)
    return None


def _print_table(found: Plan, target_range: tuple[float, float] | None) -> None:
    """Print accuracies, or errors in the units of the target."""

    def shown(score: float) -> str:
        if target_range is None:
            return f"{score:.3f}"
        return f"{(target_range[1] - target_range[0]) * math.sqrt(max(0.0, 1 - score)):.3g}"

    lines = []
    for each in found.models:
        ends = sorted(map(shown, each.interval), key=float)
        lines.append([each.model, shown(each.accuracy), f"{ends[0]} to {ends[1]}"])
    lines.append(["without privacy", shown(found.without_privacy), ""])
    lines.append(
        ["largest class" if target_range is None else "the mean", shown(found.majority), ""]
    )
    title = "accuracy" if target_range is None else "error"
    console_table(("model", title, "interval"), lines)
