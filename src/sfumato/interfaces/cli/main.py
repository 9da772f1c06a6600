"""The command line: a register of commands, one file each."""

from __future__ import annotations

import typer

from sfumato.interfaces.cli.budget import budget_app
from sfumato.interfaces.cli.demo import demo

__all__ = ["app"]

app = typer.Typer(
    name="sfumato",
    help="Private learning with kernels.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # locals may hold rows
)
app.command()(demo)
app.add_typer(budget_app, name="budget")
