"""The hull task that a run configuration describes."""

from __future__ import annotations

from typing import Any

from sfumato.federated.hulls import HullTask
from sfumato.persistence import load

__all__ = ["task_of"]


def task_of(config: dict[str, Any]) -> HullTask:
    """Read ``task``, ``estimator`` (a file that `sfumato.save` wrote) and ``serve``."""
    return HullTask(str(config["task"]), load(str(config["estimator"])), str(config["serve"]))
