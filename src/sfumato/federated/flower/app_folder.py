"""The folder that `flwr run` takes: a few lines that point at the installed Sfumato."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError

APPS = ("hulls", "sums")

# Flower wants to see the name being given in this very file.
COMPONENT = """\
from sfumato.federated.flower.adapter import {side}

app = {side}("{kind}")
"""


def filled(template: str, **words: Any) -> str:
    """Return a file of the folder `templates` with every ``@NAME@`` replaced."""
    text = (files("sfumato.federated.flower") / "templates" / template).read_text(encoding="utf-8")
    for name, word in words.items():
        text = text.replace(f"@{name.upper()}@", str(word))
    return text


def write_app(folder: str | os.PathLike[str], kind: str) -> Path:
    """Write the Flower app of a kind of task into a new folder inside `folder`."""
    if kind not in APPS:
        raise InvalidInputError(f"'kind' must be one of {APPS}. Got {kind!r} instead.")
    app = Path(folder) / f"sfumato-{kind}"
    package = app / f"sfumato_{kind}"
    package.mkdir(parents=True, exist_ok=True)
    texts = {
        app / "pyproject.toml": filled("pyproject.toml", kind=kind),
        package / "__init__.py": "",
        **{
            package / f"{side}.py": COMPONENT.format(kind=kind, side=side)
            for side in ("client_app", "server_app")
        },
    }
    for path, text in texts.items():
        with atomic_write(path) as file:
            file.write(text.encode())
    return app
