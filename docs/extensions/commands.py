"""The commands of the command line as sphinx-click wants them, and their examples as code."""

from __future__ import annotations

from typing import Any

import typer.main
from sphinx.application import Sphinx

from sfumato.cli.main import app

sfumato = typer.main.get_command(app)


def example_as_code(_app: Sphinx, _context: Any, lines: list[str]) -> None:
    """Turn the last paragraph of a help text, "Example: ...", into a block of code."""
    starts = [i for i, line in enumerate(lines) if line.strip().startswith("Example:")]
    if starts:
        words = " ".join(line.strip() for line in lines[starts[-1] :])
        code = words.removeprefix("Example:").strip()
        lines[starts[-1] :] = [".. code-block:: sh", "", f"   {code}", ""]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("sphinx-click-process-description", example_as_code)
    return {"parallel_read_safe": True}
