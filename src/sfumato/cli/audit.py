"""``sfumato audit``: does the promise of a model hold, and what would an attacker learn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from sfumato.audit import audit as audit_model
from sfumato.cli.console import (
    REFUSED,
    print_json,
    print_lines,
    print_table,
    progress_bar,
    ready_to_write,
    remark,
)
from sfumato.cli.jobs.pipeline import table_for
from sfumato.cli.options import Json, ModelPath
from sfumato.exceptions import InvalidInputError
from sfumato.models.base import PrivateEstimator
from sfumato.models.saving import load
from sfumato.report.words import number
from sfumato.tables.columns import as_numbers
from sfumato.tables.files import TableFile
from sfumato.tables.schema import TableBounds, Target


def audit(
    model: ModelPath,
    members: Annotated[
        Path | None, typer.Option(help="A table of rows on which the model was trained.")
    ] = None,
    non_members: Annotated[
        Path | None, typer.Option(help="A table of similar rows on which it was not trained.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="The column of labels, for models trained on arrays.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(help="Runs on each of two neighbours; more runs certify more.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the certified bound.")] = 0.99,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A report: .html or .json.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Attack a model: a lower bound on its epsilon and, if rows are given, attacks on membership.

    The bound needs no data. What is measured on members is a diagnostic on raw rows and not for
    release. The exit code is 3 if the guarantee of the model is refuted.

    Example: sfumato audit model.sfumato --members train.csv --non-members test.csv -o audit.html
    """
    ready_to_write(output, ".html", ".json")
    if (members is None) != (non_members is None):
        raise InvalidInputError("Give '--members' and '--non-members' together.")
    loaded = load(model)
    options: dict[str, Any] = {"title": f"Audit of {model.name}"}
    if members is not None and non_members is not None:
        options["members"], options["y_members"] = read_rows(loaded, members, target)
        others = read_rows(loaded, non_members, target)
        options["non_members"], options["y_non_members"] = others
    if isinstance(loaded, PrivateEstimator):
        options |= {"n_runs": runs, "confidence": confidence}
    with progress_bar(f"auditing {model}"):
        found = audit_model(loaded, **options)
    if output is not None:
        found.write(output)
    if as_json:
        print_json(found.to_dict())
    else:
        print_lines(found.verdict)
        print_table(["figure", "value"], [[k, number(v)] for k, v in found.figures.items()])
        for note in found.notes:
            remark(note)
        if output is not None:
            print_lines(f"Report: {output}")
    if found.consistent is False:
        raise typer.Exit(REFUSED)


def read_rows(model: Any, path: Path, target: str | None) -> tuple[Any, Any]:
    """Return the rows of a table as the model takes them, and its labels where it has them."""
    bounds = getattr(model, "bounds", None)
    if isinstance(bounds, TableBounds):
        target = target or (None if bounds.target is None else bounds.target.name)
        source = table_for(model, path)
        rows = model.table_rows(source.read([column.name for column in bounds.used]))
    else:
        source = TableFile(path)
        names = [name for name in source.columns if name != target]
        table = source.read(names)
        try:
            rows = np.column_stack([np.asarray(table[name], dtype=np.float64) for name in names])
        except (TypeError, ValueError):
            raise InvalidInputError(
                "A column contains text. Name the column of labels with '--target', and leave the "
                "others out."
            ) from None
    if target is None or target not in source.columns:
        return rows, None
    column = source.read([target])[target]
    if hasattr(model, "classes_"):
        known = Target(target, "", categories=tuple(model.classes_.tolist()))
        return rows, known.values(column)
    return rows, as_numbers(column, "f", f"The column {target!r}")
