"""The command line as people and shells meet it: on a terminal, in a pipe, with completion."""

from __future__ import annotations

import re
import subprocess
import sys

import click
import pytest
import typer

from sfumato.cli.main import app
from tests.cli.running import done


def commands() -> list[tuple[str, ...]]:
    group = typer.main.get_command(app)
    context = click.Context(group)
    found = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = getattr(command, "commands", None)
        found += [(name,)] if inner is None else [(name, each) for each in inner]
    return found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_explains_itself(words: tuple[str, ...]) -> None:
    text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", done(*words, "--help")).split())
    assert f"Usage: sfumato {' '.join(words)}" in text or f"Usage: root {' '.join(words)}" in text
    assert f"Example: sfumato {' '.join(words)}" in text


def test_the_version_is_told_without_the_libraries_of_the_field() -> None:
    heavy = "{'sklearn', 'scipy', 'numpy', 'pyarrow', 'sqlalchemy', 'dp_accounting'}"
    program = (
        "import sys; from sfumato.cli.main import app; "
        f"app(['--version'], standalone_mode=False); print(sorted({heavy} & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines()[-1] == "[]"
