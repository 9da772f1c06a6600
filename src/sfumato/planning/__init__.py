"""Plans: what a budget will give, from public numbers alone, before anything is spent."""

from sfumato.planning.needed import epsilon_needed, rows_needed
from sfumato.planning.pilot import Pilot, pilot
from sfumato.planning.plan import Plan, PlannedModel, plan
from sfumato.planning.simulation import SCENARIOS

__all__ = [
    "SCENARIOS",
    "Pilot",
    "Plan",
    "PlannedModel",
    "epsilon_needed",
    "pilot",
    "plan",
    "rows_needed",
]
