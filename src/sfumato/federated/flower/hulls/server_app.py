"""What the coordinator runs for federated hulls."""

from sfumato.federated.flower.adapter import coordinator_app
from sfumato.federated.flower.hulls.task import task_of
from sfumato.federated.results import write_result

__all__ = ["app"]

app = coordinator_app(task_of, write_result)
