"""The exponential mechanism: choose one of finitely many candidates by their scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms.base import (
    Mechanism,
    as_statistic,
    grid_step,
    require_epsilon,
    require_sensitivity,
    to_grid,
)
from sfumato.mechanisms.sampling import choose
from sfumato.privacy.events import BoundedRangeEvent, Event, NonPrivateEvent


@dataclass(frozen=True)
class ExponentialMechanism(Mechanism):
    """``P(i) ∝ exp(epsilon u_i / (2 D))`` for scores u of sensitivity D.

    Parameters
    ----------
    sensitivity : float
        D, the largest change of any one score over neighbours.
    epsilon : float
        The budget; infinity means the best candidate for certain.

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : the position of one candidate.
    Sensitivity : D, enlarged by two steps of the grid to which the scores are rounded.
    Guarantee : pure epsilon, and bounded range epsilon: several choices cost less than the sum.
    Assumptions and numerics : the candidates are public; the choice is made with the exact real
        probabilities (`sfumato.mechanisms.sampling.choose`); OS entropy.
    """

    sensitivity: float
    epsilon: float

    def __post_init__(self) -> None:
        require_sensitivity(self.sensitivity)
        require_epsilon(self.epsilon)

    @classmethod
    def calibrate(cls, *, sensitivity: float, epsilon: float) -> ExponentialMechanism:
        """Return the sharpest choice that keeps `epsilon`.

        Parameters
        ----------
        sensitivity : float
            How far one change of the data moves a score, at most.
        epsilon : float
            The epsilon of the budget.
        """
        return cls(require_sensitivity(sensitivity), require_epsilon(epsilon))

    def event(self) -> Event:
        """Describe one release without data.

        Returns: What a ledger writes down.
        """
        if math.isinf(self.epsilon):
            return NonPrivateEvent()
        return BoundedRangeEvent(self.epsilon, law="exponential")

    def sensitivity_step(self) -> float:
        """Step of the grid to which scores are rounded.

        Returns
        -------
        float
            The step.
        """
        return grid_step(self.sensitivity, sensitivity=self.sensitivity, spread=1.0)

    def variance(self) -> float:
        """Variance of the Gumbel noise that, added to the scores, gives the same choice."""
        return (math.pi * 2 * self.sensitivity / self.epsilon) ** 2 / 6

    def release(self, value: ArrayLike, *, ledger: Chargeable | None) -> int:
        """Charge the ledger, then choose by the scores `value`; gives the position chosen.

        Parameters
        ----------
        value : array-like of shape (n_candidates,)
            A score for each public candidate.
        ledger : DatasetBudget, Receipt or None
            Who pays; None if nothing records the charge.

        Returns
        -------
        int
            Place of the chosen candidate.
        """
        utility = as_statistic(value)
        if utility.ndim != 1 or utility.size == 0:
            raise InvalidInputError("Scores must form a non-empty one-dimensional array.")
        self._charge(ledger)
        return self.chosen(utility)

    def chosen(self, utility: NDArray[np.float64]) -> int:
        """Choose by scores, for a release that has been charged as part of another mechanism.

        Parameters
        ----------
        utility : ndarray of shape (n_candidates,)
            Finite scores.

        Returns
        -------
        int
            Place of the chosen candidate.
        """
        if math.isinf(self.epsilon):
            return int(np.argmax(utility))
        return choose(self._exponents(utility))

    def _exponents(self, utility: NDArray[np.float64]) -> NDArray[np.float64]:
        step = self.sensitivity_step()
        gap = to_grid(utility, step) - to_grid(utility, step).max()
        # max(u_i, best - floor) has the sensitivity of u_i and keeps the exponents small enough
        # for their rounding (2**-33 epsilon) to hide in the second step paid for here.
        floor = 2.0**20 * self.sensitivity
        slope = self.epsilon / (2 * (self.sensitivity + 2 * step))
        return np.asarray(np.maximum(gap, -floor) * slope)
