"""``sfumato doctor``: what this machine lacks."""

from __future__ import annotations

import re
import tempfile
from importlib import metadata
from pathlib import Path

import typer

from sfumato.cli.console import USER_ERROR, print_json, print_table
from sfumato.cli.options import Json
from sfumato.exceptions import SfumatoError
from sfumato.ledger.ledger import Ledger

FOR_DEVELOPERS = {"test", "test-torch", "coverage", "lint", "docs"}


def doctor(as_json: Json = False) -> None:
    """Show which packages are missing, what needs them, and whether a ledger can be kept here.

    The exit code is 2 if something is wrong; what is absent is needed by some commands only.

    Example: sfumato doctor
    """
    found: dict[str, tuple[str, str]] = {}
    for line in metadata.requires("sfumato") or ():
        name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
        extra = re.search(r"extra == .([\w-]+)", line)
        if extra is None or extra[1] not in FOR_DEVELOPERS:
            try:
                found.setdefault(name, ("ok", metadata.version(name)))
            except metadata.PackageNotFoundError:
                needed = f"pip install 'sfumato[{extra[1]}]'" if extra else f"pip install {name}"
                found.setdefault(name, ("absent" if extra else "wrong", needed))
    try:  # transactions, locks and renaming, where the command was called
        with tempfile.TemporaryDirectory(dir=Path(), prefix=".sfumato-") as place:
            Ledger(Path(place) / "ledger.db").create("trial", epsilon=1.0)
        found["ledger"] = ("ok", f"can be kept in '{Path.cwd()}'")
    except (OSError, SfumatoError) as error:
        found["ledger"] = ("wrong", str(error))
    rows = [(name, *told) for name, told in found.items()]
    if as_json:
        print_json([dict(zip(("subject", "state", "found"), row, strict=True)) for row in rows])
    else:
        print_table(("subject", "state", "found"), rows)
    if any(state == "wrong" for _, state, _ in rows):
        raise typer.Exit(USER_ERROR)
