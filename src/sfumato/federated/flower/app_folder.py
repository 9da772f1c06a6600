"""The folder that `flwr run` takes: a few lines that point at the installed Sfumato."""

from __future__ import annotations

import os
from pathlib import Path

from sfumato.atomic_file import written_aside
from sfumato.exceptions import InvalidInputError

__all__ = ["APPS", "write_app"]

APPS = ("hulls", "linear")

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "sfumato-{kind}"
version = "1.0.0"
description = "Federated {kind} of Sfumato: the code is the installed package, this only names it."
license = "Apache-2.0"
dependencies = ["flwr>=1.41,<1.43"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "sfumato"

[tool.flwr.app.components]
serverapp = "sfumato_{kind}.server_app:app"
clientapp = "sfumato_{kind}.client_app:app"

# Every key that --run-config may set. Paths are those of the coordinator.
[tool.flwr.app.config]
task = "unnamed"            # a party makes the releases of one name once
estimator = ""              # file of the estimator that every party fits, not fitted
serve = "models"            # hulls: "models" or "distances"
aggregate = "moments"       # linear: "moments", "projectors" or "bases"
queries = ""                # hulls served as distances: .npy file of query points
out = "federation"          # folder for the result
parties = 2                 # wait for so many
party-names = ""            # their names, with commas between; for the record of who was absent
min-parties = 1             # a round with fewer usable replies fails
wait-seconds = 60.0
round-seconds = 600.0
parties-folder = ""         # simulation only: files party-0.toml, party-1.toml, ...
"""

# Flower wants to see the name being given in this very file.
COMPONENT = """\
from sfumato.federated.flower.{kind} import {side}

app = {side}.app
"""


def write_app(folder: str | os.PathLike[str], kind: str) -> Path:
    """Write the Flower app of a kind of task into a new folder inside `folder`.

    Parameters
    ----------
    folder : path-like
        Where to put it.
    kind : {"hulls", "linear"}
        Which app.
    """
    if kind not in APPS:
        raise InvalidInputError(f"'kind' must be one of {APPS}. Got {kind!r} instead.")
    app = Path(folder) / f"sfumato-{kind}"
    package = app / f"sfumato_{kind}"
    package.mkdir(parents=True, exist_ok=True)
    texts = {
        app / "pyproject.toml": PROJECT.format(kind=kind),
        package / "__init__.py": "",
        **{
            package / f"{side}.py": COMPONENT.format(kind=kind, side=side)
            for side in ("client_app", "server_app")
        },
    }
    for path, text in texts.items():
        with written_aside(path) as file:
            file.write(text.encode())
    return app
