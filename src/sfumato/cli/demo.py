"""``sfumato demo``: private digits at three budgets, a table and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from sfumato.cli.console import ready_to_write
from sfumato.cli.exit_codes import plain_errors
from sfumato.cli.jobs.demo import BUDGETS, RUNS, demonstrate
from sfumato.report import Report


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The report to write.")] = Path(
        "sfumato-report.html"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Train a private classifier on embedded digits at several budgets and write a report.

    Example: sfumato demo -o digits.html
    """
    console = Console()
    with plain_errors():
        ready_to_write(output, ".html", ".json")
        report = _run(console)
        report.write(output)
    if as_json:
        typer.echo(report.to_json())
        return
    console.print(_table(report))
    for result in report.results:
        console.print(f"epsilon {result.guarantee.epsilon:g}: {result.guarantee}", highlight=False)
    console.print(f"Report: {output}", highlight=False)


def _run(console: Console) -> Report:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        steps = 1 + len(BUDGETS) * RUNS
        for report in progress.track(demonstrate(), total=steps, description="training"):
            latest = report
    return latest


def _table(report: Report) -> Table:
    table = Table(title=report.title)
    table.add_column("epsilon", justify="right")
    table.add_column("delta", justify="right")
    table.add_column("status")
    table.add_column("accuracy", justify="right")
    for result in report.results:
        promise = result.guarantee
        table.add_row(
            f"{promise.epsilon:g}",
            f"{promise.delta:g}",
            str(promise.status),
            f"{result.metrics['accuracy']:.3f}",
        )
    table.add_row("infinite", "", "no privacy", f"{report.ceiling['accuracy']:.3f}")
    return table
