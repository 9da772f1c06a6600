"""``sfumato doctor``: what is installed, and what is missing."""

from __future__ import annotations

import os
import platform
import re
import tempfile
from importlib import metadata
from pathlib import Path

import typer

from sfumato.cli.console import USER_ERROR, print_json, print_table
from sfumato.cli.options import Json
from sfumato.datasets import FOLDER_VARIABLE
from sfumato.exceptions import SfumatoError
from sfumato.ledger.ledger import Ledger
from sfumato.mechanisms.base import noise_status
from sfumato.privacy.guarantee import Status

FOR_DEVELOPERS = {"test", "test-torch", "coverage", "lint", "docs"}


def doctor(as_json: Json = False) -> None:
    """Show what is missing: packages of extras, random numbers, the data folder, a place to write.

    The exit code is 2 if something is wrong. Only some commands need what is listed as absent.

    Example: sfumato doctor
    """
    version = f"{metadata.version('sfumato')} on Python {platform.python_version()}"
    found = [("sfumato", "ok", version)]
    for line in metadata.requires("sfumato") or ():
        name, extra = (
            re.split(r"[^\w.-]", line, maxsplit=1)[0],
            re.search(r"extra == .([\w-]+)", line),
        )
        if extra and extra[1] in FOR_DEVELOPERS:
            continue
        try:
            found.append((name, "ok", metadata.version(name)))
        except metadata.PackageNotFoundError:
            needed = f"pip install 'sfumato[{extra[1]}]'" if extra else f"pip install {name}"
            found.append((name, "absent" if extra else "wrong", needed))
    drawn = "drawn from the operating system" if noise_status() is Status.PROVED else "seeded"
    found.append(("random numbers", "wrong" if drawn == "seeded" else "ok", drawn))
    data = os.environ.get(FOLDER_VARIABLE)
    state = "absent" if data is None else "ok" if Path(data).is_dir() else "wrong"
    found.append(("data folder", state, data or f"{FOLDER_VARIABLE} names none"))
    try:  # transactions, locks and renaming, where the command was called
        with tempfile.TemporaryDirectory(dir=Path(), prefix=".sfumato-") as place:
            Ledger(Path(place) / "ledger.db").create("trial", epsilon=1.0)
        found.append(("ledger", "ok", f"can be kept in '{Path.cwd()}'"))
    except (OSError, SfumatoError) as error:
        found.append(("ledger", "wrong", str(error)))
    found = list(dict.fromkeys(found))  # two extras may need one package
    if as_json:
        print_json([dict(zip(("subject", "state", "found"), each, strict=True)) for each in found])
    else:
        print_table(("subject", "state", "found"), found)
    if any(state == "wrong" for _, state, _ in found):
        raise typer.Exit(USER_ERROR)
