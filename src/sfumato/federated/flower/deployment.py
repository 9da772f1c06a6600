"""Everything a consortium needs to run a task on Flower, written into one folder.

::

    federation/
      README.md               what to do, in order
      sfumato-hulls/          the Flower app: names the installed Sfumato, nothing else
      estimator.sfumato       what every party fits
      run.toml                the run configuration
      coordinator/            superlink.sh, nginx.conf, submit.sh, and the certificates if asked for
      parties/hospital-a/     party.toml, supernode.sh, to be handed to the party
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import InvalidInputError
from sfumato.federated.flower.app_folder import filled, write_app
from sfumato.federated.flower.simulation import run_configuration
from sfumato.federated.hulls import HullTask
from sfumato.federated.sums_task import SumsTask


def write_deployment(
    folder: str | os.PathLike[str],
    task: HullTask | SumsTask,
    parties: Sequence[str],
    *,
    host: str,
    port: int = 8443,
    certificates: bool = False,
) -> Path:
    """Write the files of a deployment."""
    top = Path(folder).resolve()
    if top.exists() and any(top.iterdir()):
        raise InvalidInputError(f"The folder '{top}' is not empty; nothing was written.")
    if not parties or len(set(parties)) != len(parties) or not all(map(_plain, parties)):
        raise InvalidInputError("'parties' must be different names of letters, digits, '-', '_'.")
    coordinator = top / "coordinator"
    coordinator.mkdir(parents=True)
    write_app(top, task.kind)
    config = run_configuration(task, top, len(parties), min_parties=len(parties))
    config["party-names"] = ",".join(parties)
    _write(top / "run.toml", _toml({**config, "out": str(top / "result"), "wait-seconds": 600.0}))
    _write(top / "README.md", filled("README.md", task=task.name))
    _write(coordinator / "superlink.sh", filled("superlink.sh"), executable=True)
    _write(coordinator / "submit.sh", filled("submit.sh", kind=task.kind), executable=True)
    _write(coordinator / "nginx.conf", filled("nginx.conf", host=host, port=port))
    if certificates:
        from sfumato.federated.flower.certificates import make_server_certificate

        make_server_certificate(coordinator, ["localhost", "127.0.0.1", host])
    for name in parties:
        _write_party(top / "parties" / name, name, task, host, port)
    return top


def _write_party(folder: Path, name: str, task: HullTask | SumsTask, host: str, port: int) -> None:
    folder.mkdir(parents=True)
    asked = task.estimator
    text = filled(
        "party.toml",
        name=name,
        unit=asked.unit,
        relation=asked.relation,
        epsilon=float(asked.epsilon),
        delta=float(asked.delta),
    )
    _write(folder / "party.toml", text)
    _write(folder / "supernode.sh", filled("supernode.sh", host=host, port=port), executable=True)


def _write(path: Path, text: str, *, executable: bool = False) -> None:
    with atomic_write(path) as file:
        file.write(text.encode())
    if executable:
        path.chmod(0o755)


def _plain(name: str) -> bool:
    return bool(name) and all(c.isalnum() or c in "-_" for c in name)


def _toml(values: dict[str, Any]) -> str:
    # A string, a number or a truth value is written in TOML as in JSON.

    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
