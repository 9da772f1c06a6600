"""Laplace noise for vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms.base import (
    Mechanism,
    add_on_grid,
    as_statistic,
    check_memory,
    enlarged,
    grid_step,
    require_epsilon,
    require_sensitivity,
    to_grid,
)
from sfumato.mechanisms.sampling import LAPLACE, require_scale, rounded_noise
from sfumato.privacy.events import Event, LaplaceEvent, NonPrivateEvent


@dataclass(frozen=True)
class LaplaceMechanism(Mechanism):
    """``v + Lap(D / epsilon)`` on each coordinate: epsilon-DP for L1 sensitivity D.

    Parameters
    ----------
    sensitivity : float
        D, the largest ``||v - v'||₁`` over neighbours.
    epsilon : float
        The budget; infinity means no noise (and an event that says so).
    touched : int, optional
        How many coordinates two neighbours can differ in; all of them by default. Only these
        are moved apart by the rounding to the grid.

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : the statistic with independent Laplace noise, rounded to a public grid.
    Sensitivity : D, enlarged by the step of the grid for every coordinate that can differ.
    Guarantee : pure epsilon.
    Assumptions and numerics : the rounding of exact real noise is drawn; OS entropy.

    Examples
    --------
    >>> from sfumato.mechanisms import LaplaceMechanism
    >>> LaplaceMechanism.calibrate(sensitivity=1.0, epsilon=0.5).variance()
    8.0
    """

    sensitivity: float
    epsilon: float
    touched: int | None = None
    norm: ClassVar[int | str] = 1

    def __post_init__(self) -> None:
        require_sensitivity(self.sensitivity)
        require_epsilon(self.epsilon)
        if self.touched is not None and self.touched < 1:
            raise InvalidInputError(f"'touched' must be at least 1. Got {self.touched} instead.")

    @classmethod
    def calibrate(
        cls, *, sensitivity: float, epsilon: float, touched: int | None = None
    ) -> LaplaceMechanism:
        """Return the least noise of this law that keeps `epsilon`.

        Parameters
        ----------
        sensitivity : float
            How far one change of the data moves the statistic, at most.
        epsilon : float
            The epsilon of the budget.
        touched : int, optional
            Most coordinates that differ between neighbours; all of them by default.
        """
        return cls(require_sensitivity(sensitivity), require_epsilon(epsilon), touched)

    def event(self) -> Event:
        """Describe one release without data.

        Returns: What a ledger writes down.
        """
        return NonPrivateEvent() if math.isinf(self.epsilon) else LaplaceEvent(self.epsilon)

    def variance(self) -> float:
        """Variance of the noise on one coordinate (before the enlargement for the grid)."""
        return 2 * (self.sensitivity / self.epsilon) ** 2

    def release(self, value: ArrayLike, *, ledger: Chargeable | None) -> NDArray[np.float64]:
        """Charge the ledger, then release `value` with independent noise on each coordinate.

        Parameters
        ----------
        value : array-like
            The exact statistic.
        ledger : DatasetBudget, Receipt or None
            Who pays; None if nothing records the charge.

        Returns
        -------
        ndarray
            The noisy values, in the shape of `value`.
        """
        statistic = as_statistic(value)
        if math.isinf(self.epsilon):
            self._charge(ledger, statistic.size)
            return statistic
        step, scale = self._grid(statistic.size)
        require_scale(scale / step)
        self._charge(ledger, statistic.size)
        noise = rounded_noise(LAPLACE, scale / step, statistic.size).reshape(statistic.shape)
        return add_on_grid(to_grid(statistic, step), noise, step)

    def for_size(self, size: int) -> Self:
        """Return this mechanism, or refuse by public numbers what cannot be drawn exactly.

        Parameters
        ----------
        size : int
            Numbers of the statistic.

        Returns
        -------
        LaplaceMechanism
            The mechanism itself, for a check before the charge.
        """
        self._require_scale(size)
        check_memory(size)
        return self

    def _require_scale(self, size: int) -> None:
        if not math.isinf(self.epsilon):
            step, scale = self._grid(size)
            require_scale(scale / step)

    def _grid(self, size: int) -> tuple[float, float]:
        """Step of the grid, and the scale of the noise with the rounding paid for."""
        touched = size if self.touched is None else min(self.touched, size)
        step = grid_step(
            self.sensitivity / self.epsilon, sensitivity=self.sensitivity, spread=touched
        )
        return step, enlarged(self.sensitivity, step=step, spread=touched) / self.epsilon
