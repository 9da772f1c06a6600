"""A page for each command of the command line, written when the site is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer.main
from sphinx.application import Sphinx

from sfumato.cli.main import app

group = typer.main.get_command(app)
names = group.list_commands(None)  # type: ignore[attr-defined]
globals().update({f"command_{name}": group.get_command(None, name) for name in names})


def write_pages(app: Sphinx) -> None:
    """Write a page per command; sphinx-click fills it from the command's help."""
    folder = Path(app.srcdir) / "reference" / "generated" / "commands"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.rst"):
        old.unlink()
    for name in names:
        text = f".. click:: commands:command_{name}\n   :prog: sfumato {name}\n   :nested: full\n"
        (folder / f"{name}.rst").write_text(text)


def example_as_code(_app: Sphinx, _context: Any, lines: list[str]) -> None:
    """Turn the last paragraph of a help text, "Example: ...", into a block of code."""
    starts = [i for i, line in enumerate(lines) if line.strip().startswith("Example:")]
    if starts:
        words = " ".join(line.strip() for line in lines[starts[-1] :])
        code = words.removeprefix("Example:").strip()
        lines[starts[-1] :] = [".. code-block:: sh", "", f"   {code}", ""]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    app.connect("sphinx-click-process-description", example_as_code)
    return {"parallel_read_safe": True}
