"""A page for each command of the command line, written from its help when the site is built."""

from __future__ import annotations

import enum
import inspect
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from sphinx.application import Sphinx

from sfumato.cli.main import app

group = typer.main.get_command(app)
KINDS = {int: "N", float: "X", Path: "PATH", str: "TEXT"}


def write_pages(app: Sphinx) -> None:
    """Write a page per command, with a section for each command of a group."""
    folder = Path(app.srcdir) / "reference" / "generated" / "commands"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*"):
        old.unlink()
    for name in group.list_commands(None):  # type: ignore[attr-defined]
        command = group.get_command(None, name)  # type: ignore[attr-defined]
        lines = [f"# sfumato {name}", ""]
        inner = getattr(command, "commands", None)
        if inner is None:
            lines += described(f"sfumato {name}", command)
        else:
            lines += [command.help or "", ""]
            for each in inner.values():
                lines += [f"## sfumato {name} {each.name}", ""]
                lines += described(f"sfumato {name} {each.name}", each)
        (folder / f"{name}.md").write_text("\n".join(lines))


def described(called: str, command: Any) -> Iterator[str]:
    """Yield the help of a command: what it does, how it is called, its parameters, an example."""
    text, _, example = (command.help or "").strip().partition("\n\nExample: ")
    hints = typing.get_type_hints(inspect.unwrap(command.callback))
    shown = [param for param in command.params if not getattr(param, "hidden", False)]
    arguments = [param for param in shown if not param.opts[0].startswith("-")]
    options = [param for param in shown if param not in arguments and param.help]
    names = [param.metavar or param.name.upper() for param in arguments]
    words = [
        name if param.required else f"[{name}]"
        for param, name in zip(arguments, names, strict=True)
    ]
    words += [
        f"{option.opts[0]} {value_of(option, hints)}" for option in options if option.required
    ]
    yield from (text, "", "```text", f"{called} {' '.join([*words, '[OPTIONS]'])}", "```", "")
    yield from ("{.prose}", "| parameter | meaning |", "|---|---|")
    for param, name in zip(arguments, names, strict=True):
        yield f"| `{name}` | {in_a_cell(param.help or 'Required.')} |"
    for option in options:
        name = f"{', '.join([*option.opts, *option.secondary_opts])} {value_of(option, hints)}"
        default = getattr(option.default, "value", option.default)
        is_told = default not in (None, False, "") and not callable(default)
        told = "Required." if option.required else f"Default: `{default}`." if is_told else ""
        yield f"| `{name.strip()}` | {in_a_cell(option.help)} {told} |"
    if example:
        yield from ("", "```sh", " ".join(example.split()), "```", "")


def value_of(option: Any, hints: dict[str, Any]) -> str:
    """Return what stands behind an option: its metavariable, its choices or its kind."""
    if option.metavar or getattr(option, "is_flag", False):
        return option.metavar or ""
    hint = hints.get(option.name)
    kinds = [hint, *typing.get_args(hint)]
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return "/".join(each.value for each in kind)
    return next((KINDS[kind] for kind in kinds if kind in KINDS), "TEXT")


def in_a_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}
