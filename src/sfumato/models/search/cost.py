"""What a search costs, and what it leaves to each run: public numbers, known before the charge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.privacy.events import Event, SelectionEvent

FOLDS = 5  # of the cross-validation that a search is compared with


@dataclass(frozen=True)
class SearchCost:
    """What a search costs and what it leaves to each run; public numbers only.

    Parameters
    ----------
    event : SelectionEvent
        The one charge.
    epsilon, delta : float
        The budget of the whole search.
    epsilon_each : float
        Epsilon of one run's model, at the same delta.
    score_deviation : float
        Standard deviation of the noise on a score, in rows.
    n_candidates : int
        Settings to choose from.
    """

    event: SelectionEvent
    epsilon: float
    delta: float
    epsilon_each: float
    score_deviation: float
    n_candidates: int

    @property
    def plain_charges(self) -> int:
        """Fits that a plain grid search with five folds would charge one by one."""
        return FOLDS * self.n_candidates + 1

    def __str__(self) -> str:
        return (
            f"One charge of epsilon {self.epsilon:g} at delta {self.delta:g} pays for "
            f"{self.event.mean_runs:g} runs on average, each with epsilon {self.epsilon_each:.3g}, "
            f"of {self.n_candidates} settings. A grid search with {FOLDS} folds would charge "
            f"{self.plain_charges} fits."
        )


@dataclass(frozen=True)
class SearchPlan:
    """What every run does: public, made before the charge."""

    settings: list[dict[str, Any]]
    events: list[tuple[Event, ...]]
    epsilon_each: float
    delta_each: float
    score: GaussianMechanism
    event: SelectionEvent
