"""The command line: a register of commands, each of which is imported when it is called."""

from __future__ import annotations

import ast
import gc
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import sfumato
from sfumato.cli.console import allow_replacing, plain_errors

# Name on the command line, and the function or the group of commands that it stands for.
COMMANDS = {
    "describe": "describe:describe",
    "confirm": "describe:confirm",
    "check": "describe:check",
    "fit": "fit:fit",
    "predict": "fit:predict",
    "score": "score:score",
    "fabricate": "fabricate:fabricate",
    "quality": "fabricate:quality",
    "guarantee": "report:guarantee",
    "report": "report:report",
    "certificate": "certificate:certificate",
    "verify": "certificate:verify",
    "audit": "audit:audit",
    "reproduce": "reproduce:reproduce",
    "budget": "budget:budget_app",
    "datasets": "datasets:datasets_app",
    "doctor": "doctor:doctor",
    "release": "release:release_app",
    "serve": "serve:serve_app",
    "studio": "serve:studio",
}


class LateCommands(TyperGroup):
    """A group whose commands are imported one by one; ``--help`` reads their docstrings alone."""

    is_listing = False

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        self.is_listing = True
        super().format_help(ctx, formatter)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - Click's
        """Return the names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - Click's
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        if self.is_listing:
            return TyperCommand(cmd_name, help=_summary(module, name))
        found = getattr(import_module(f"sfumato.cli.{module}"), name)
        gc.freeze()
        gc.enable()
        group = found if isinstance(found, typer.Typer) else typer.Typer(add_completion=False)
        if found is not group:
            group.command()(found)
        command = typer.main.get_command(group)
        command.name = cmd_name
        for each in getattr(command, "commands", {"": command}).values():
            if any("--output" in option.opts for option in each.params):
                lender = typer.Typer(add_completion=False)
                lender.command()(_with_force)  # Typer makes the option, whatever its version
                each.params += typer.main.get_command(lender).params
        return command

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an error or an interruption ends it with one line."""
        with plain_errors():
            return super().invoke(ctx)


def _summary(module: str, name: str) -> str:
    """Read what a command, or a group of them, says of itself off its source."""
    tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.get_docstring(node) or ""
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            words = {each.arg: each.value for each in getattr(node.value, "keywords", ())}
            return str(ast.literal_eval(words["help"]))
    return ""


app = typer.Typer(
    name="sfumato",
    cls=LateCommands,
    help="Private learning with kernels. Exit codes: 0 done, 2 user error, 3 refused or tampered, "
    "4 signer not checked, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # locals may hold rows
)


FORCE = typer.Option(
    "--force",
    callback=allow_replacing,
    expose_value=False,
    help="Replace an existing file. A release that was paid for is then lost.",
)


def _with_force(force: Annotated[bool, FORCE] = False) -> None:
    """Lend --force to a command that writes a file."""


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
