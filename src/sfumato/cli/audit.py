"""``sfumato audit``: does the promise of a model hold, and what would an attacker learn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from sfumato.audit import audit as audit_model
from sfumato.cli.console import (
    REFUSED,
    print_lines,
    print_table,
    progress_bar,
    ready_to_write,
    remark,
)
from sfumato.cli.jobs.pipeline import table_for, target_rows
from sfumato.cli.options import ModelPath
from sfumato.exceptions import InvalidInputError
from sfumato.models.base import PrivateEstimator
from sfumato.models.saving import load
from sfumato.report.words import number


def audit(
    model: ModelPath,
    members: Annotated[
        Path | None, typer.Option(help="A table of rows on which the model was trained.")
    ] = None,
    non_members: Annotated[
        Path | None, typer.Option(help="A table of similar rows on which it was not trained.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(help="Runs on each of two neighbours; more runs certify more.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the certified bound.")] = 0.99,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A report: .html or .json.")
    ] = None,
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
        for name, path in (("members", members), ("non_members", non_members)):
            rows, truth = target_rows(loaded, table_for(loaded, path))
            known = np.array([each is not None and each == each for each in truth.tolist()], bool)
            options |= {name: loaded.table_rows(rows)[known], f"y_{name}": truth[known]}
    if isinstance(loaded, PrivateEstimator):
        options |= {"n_runs": runs, "confidence": confidence}
    with progress_bar(f"auditing {model}"):
        found = audit_model(loaded, **options)
    if output is not None:
        found.write(output)
    print_lines(found.verdict)
    print_table(["figure", "value"], [[k, number(v)] for k, v in found.figures.items()])
    for note in found.notes:
        remark(note)
    if output is not None:
        print_lines(f"Report: {output}")
    if found.consistent is False:
        raise typer.Exit(REFUSED)
