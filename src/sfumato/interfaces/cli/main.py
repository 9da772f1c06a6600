"""The command line: a register of commands, one file each."""

from __future__ import annotations

from typing import Annotated

import typer

import sfumato
from sfumato.interfaces.cli.audit import audit
from sfumato.interfaces.cli.budget import budget_app
from sfumato.interfaces.cli.datasets import datasets_app
from sfumato.interfaces.cli.demo import demo
from sfumato.interfaces.cli.describe import describe
from sfumato.interfaces.cli.fabricate import fabricate
from sfumato.interfaces.cli.federate import federate_app
from sfumato.interfaces.cli.fit import fit
from sfumato.interfaces.cli.guarantee import guarantee
from sfumato.interfaces.cli.predict import predict
from sfumato.interfaces.cli.query import query
from sfumato.interfaces.cli.release import release_app
from sfumato.interfaces.cli.report import report
from sfumato.interfaces.cli.reproduce import reproduce
from sfumato.interfaces.cli.transfer import transfer
from sfumato.pipeline import is_public
from sfumato.publishing import offered_functions

__all__ = ["app"]

app = typer.Typer(
    name="sfumato",
    help="Private learning with kernels. Exit codes: 0 done, 2 user error, 3 refused or tampered, "
    "130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # locals may hold rows
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sfumato {sfumato.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Private learning with kernels."""


for command in (demo, describe, fit, predict, fabricate, guarantee, report, audit, reproduce):
    app.command()(command)
app.add_typer(budget_app, name="budget")
app.add_typer(datasets_app, name="datasets")
app.add_typer(federate_app, name="federate")
if offered_functions():
    app.add_typer(release_app, name="release")
    app.command()(query)
if is_public("PrivateTransferClassifier"):
    app.command()(transfer)
