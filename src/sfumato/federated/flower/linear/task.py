"""The linear task that a run configuration describes."""

from __future__ import annotations

from typing import Any

from sfumato.federated.linear import LinearTask
from sfumato.persistence import load

__all__ = ["task_of"]


def task_of(config: dict[str, Any]) -> LinearTask:
    """Read ``task``, ``estimator`` (a file that `sfumato.save` wrote) and ``aggregate``."""
    return LinearTask(str(config["task"]), load(str(config["estimator"])), str(config["aggregate"]))
