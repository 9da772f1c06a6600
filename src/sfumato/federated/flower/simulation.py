"""A federation simulated by Flower's engine: the same apps as in a deployment."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from sfumato.exceptions import FederationError
from sfumato.federated.flower.app_folder import write_app
from sfumato.federated.flower.processes import SuperLink
from sfumato.federated.hulls import HullTask
from sfumato.federated.sums_task import SumsTask
from sfumato.models.saving import save


def simulate_with_flower(
    parties_folder: str | os.PathLike[str],
    task: HullTask,
    out: str | os.PathLike[str],
    *,
    queries: str | os.PathLike[str] | None = None,
    min_parties: int = 1,
    seconds: float = 600.0,
) -> dict[str, Any]:
    """Run a task on Flower's simulation engine and return the coordinator's summary."""
    folder = Path(parties_folder).resolve()
    n_parties = len(list(folder.glob("party-*.toml")))
    if n_parties == 0:
        raise FederationError(f"The folder '{folder}' has no files party-0.toml, party-1.toml, ...")
    target = Path(out).resolve()
    target.mkdir(parents=True, exist_ok=True)
    config = {
        **run_configuration(task, target, n_parties, min_parties),
        "queries": "" if queries is None else str(Path(queries).resolve()),
        "round-seconds": seconds,
        "parties-folder": str(folder),
    }
    with tempfile.TemporaryDirectory() as scratch:
        app = write_app(scratch, task.kind)
        with SuperLink(Path(scratch)) as link:
            run = link.submit(
                app, config, {"num-supernodes": n_parties, "client-resources-num-cpus": 1}
            )
            link.wait(run, seconds)
    return dict(json.loads((target / "federation.json").read_text(encoding="utf-8")))


def run_configuration(
    task: HullTask | SumsTask, out: Path, n_parties: int, min_parties: int = 1
) -> dict[str, Any]:
    """Write the task's estimator into `out` and return the run configuration that names it."""
    estimator = out / "estimator.sfumato"
    save(task.estimator, estimator)
    how: dict[str, Any]
    if isinstance(task, SumsTask):
        names = ("trust", "colluding", "dropouts")
        how = {name: getattr(task, name) for name in names}
    else:
        how = {"serve": task.serve}
    return {
        "task": task.name,
        "estimator": str(estimator),
        "out": str(out),
        "parties": n_parties,
        "min-parties": min_parties,
        **how,
    }
