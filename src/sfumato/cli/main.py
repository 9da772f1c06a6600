"""The command line: a register of commands, one file each, imported when it is called."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import sfumato
from sfumato.cli.exit_codes import allow_replacing, note_parameters, plain_interrupts

# Name on the command line, and the function or the group of commands that it stands for.
COMMANDS = {
    "demo": "demo:demo",
    "describe": "describe:describe",
    "confirm": "confirm:confirm",
    "plan": "plan:plan",
    "fit": "fit:fit",
    "predict": "predict:predict",
    "explain": "explain:explain",
    "fabricate": "fabricate:fabricate",
    "quality": "quality:quality",
    "guarantee": "guarantee:guarantee",
    "report": "report:report",
    "certificate": "certificate:certificate",
    "verify": "certificate:verify",
    "audit": "audit:audit",
    "reproduce": "reproduce:reproduce",
    "query": "query:query",
    "transfer": "transfer:transfer",
    "doctor": "doctor:doctor",
    "budget": "budget:budget_app",
    "datasets": "datasets:datasets_app",
    "federate": "federate:federate_app",
    "release": "release:release_app",
    "serve": "serve:serve",
    "ask": "ask:ask",
}


class LateCommands(TyperGroup):
    """A group whose commands are imported one by one: ``--version`` needs none of them."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Click's
        """Return the names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - Click's
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        found = getattr(import_module(f"sfumato.cli.{module}"), name)
        group = found if isinstance(found, typer.Typer) else typer.Typer(add_completion=False)
        if found is not group:
            group.command()(found)
        command = typer.main.get_command(group)
        command.name = cmd_name
        for each in getattr(command, "commands", {"": command}).values():
            _offer_force(each)
            each.invoke = partial(_noting, each.invoke)
        return command

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an interruption ends it with one line."""
        with plain_interrupts():
            return super().invoke(ctx)


def _noting(invoke: Any, context: Any) -> Any:
    note_parameters(context.params.values())
    return invoke(context)


def _offer_force(command: Any) -> None:
    """Add --force to a command that writes a file; `ready_to_write` asks for it."""
    if any("--output" in each.opts for each in command.params):
        lender = typer.Typer(add_completion=False)
        lender.command()(_with_force)  # Typer makes the option, whatever its version
        command.params += typer.main.get_command(lender).params


def _with_force(
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            callback=allow_replacing,
            expose_value=False,
            help="Replace an existing file; a model that was paid for cannot be drawn again.",
        ),
    ] = False,
) -> None:
    """Lend --force."""


app = typer.Typer(
    name="sfumato",
    cls=LateCommands,
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
