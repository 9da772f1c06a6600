"""What the coordinator writes at the end of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.core.atomic_file import atomic_write
from sfumato.exceptions import FederationError
from sfumato.federated.coordination import FederatedResult
from sfumato.federated.hulls import RemoteHulls
from sfumato.federated.records import Federation
from sfumato.models.saving import save

FAILED = "failed.json"


def write_result(federation: FederatedResult, config: dict[str, Any]) -> None:
    """Write the global model (or the labels of the query points) and what happened.

    ``out`` names a folder of the coordinator: ``global.sfumato`` or ``predictions.npz``, and
    ``federation.json`` with the guarantees and the rounds.
    """
    folder = Path(str(config["out"]))
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(federation.model, RemoteHulls):
        _write_answers(federation.model, str(config["queries"]), folder)
    else:
        save(federation.model, folder / "global.sfumato")
    with atomic_write(folder / "federation.json") as file:
        file.write(json.dumps(summary(federation), indent=2).encode())
    (folder / FAILED).unlink(missing_ok=True)


def write_sums(model: Any, federation: Federation, config: dict[str, Any]) -> None:
    """Write the model of a fit over sums, the sums that were released, and what happened."""
    folder = Path(str(config["out"]))
    folder.mkdir(parents=True, exist_ok=True)
    save(model, folder / "global.sfumato")
    with atomic_write(folder / "sums.npz") as file:
        np.savez(file, *federation.released)
    with atomic_write(folder / "federation.json") as file:
        file.write(json.dumps(federation.to_dict(model.guarantee_), indent=2).encode())
    (folder / FAILED).unlink(missing_ok=True)


def write_failure(error: FederationError, config: dict[str, Any]) -> None:
    """Write why a run gave no result, with the parties that were absent or refused."""
    folder = Path(str(config["out"]))
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / FAILED) as file:
        file.write(json.dumps({"task": config["task"], "failed": str(error)}, indent=2).encode())


def summary(federation: FederatedResult) -> dict[str, Any]:
    """Return guarantees and rounds as JSON."""
    return {
        "total": federation.total.to_dict(),
        "sentence": str(federation.total),
        "parties": {name: each.to_dict() for name, each in federation.guarantees.items()},
        "rounds": [
            {
                "phase": each.phase,
                "answered": list(each.answered),
                "refused": each.refused,
                "seconds": round(each.seconds, 3),
            }
            for each in federation.rounds
        ],
    }


def _write_answers(model: RemoteHulls, queries: str, folder: Path) -> None:
    if not queries:
        return
    rows = np.load(queries, allow_pickle=False)
    distances = model.distances(rows)
    labels = model.classes_[distances.argmin(axis=1)]
    with atomic_write(folder / "predictions.npz") as file:
        np.savez(file, distances=distances, labels=labels, classes=model.classes_)
