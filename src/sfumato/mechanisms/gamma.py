"""Noise with a Gamma-distributed norm and a uniform direction: pure epsilon for L2 sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms.base import (
    Mechanism,
    add_on_grid,
    as_statistic,
    enlarged,
    require_epsilon,
    require_range,
    require_sensitivity,
    to_grid,
)
from sfumato.mechanisms.spherical import rounded_spherical_noise
from sfumato.privacy.events import Event, NonPrivateEvent, PureEvent

ENLARGEMENT = 2.0**-10  # the share of the sensitivity that rounding costs at most
# A noise norm of 2**48 cells, some 2**5 below what doubles hold exactly; the norm of few numbers
# varies most, so they are counted as FEW more.
MAX_NORM = 2.0**36
FEW = 32


@dataclass(frozen=True)
class GammaMechanism(Mechanism):
    """``v + b``, density of b proportional to ``exp(-epsilon ||b||₂ / D)`` on R^m.

    The norm of b is ``Gamma(m, D / epsilon)``, its direction uniform.

    Parameters
    ----------
    sensitivity : float
        D, the largest ``||v - v'||₂`` over neighbours.
    epsilon : float
        The budget; infinity means no noise (and an event that says so).
    size : int
        The number m of coordinates: the law depends on it.

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : the statistic plus one noise vector, rounded to a public grid.
    Sensitivity : D, enlarged by the step of the grid times the square root of m (0.1 % at most).
    Guarantee : pure epsilon, by the triangle inequality for the norm.
    Assumptions and numerics : the rounding of the exact real vector is drawn; OS entropy.
    """

    sensitivity: float
    epsilon: float
    size: int

    def __post_init__(self) -> None:
        require_sensitivity(self.sensitivity)
        require_epsilon(self.epsilon)
        if self.size < 1:
            raise InvalidInputError(f"'size' must be at least 1. Got {self.size} instead.")
        if (self.size + FEW) * math.sqrt(self.size) / self.epsilon > MAX_NORM:
            raise InvalidInputError("'epsilon' is too small for noise of that size to be drawn.")
        if math.isfinite(self.epsilon):
            require_range(self.sensitivity)
            require_range(self.sensitivity / self.epsilon)

    @classmethod
    def calibrate(cls, *, sensitivity: float, epsilon: float, size: int) -> GammaMechanism:
        """Return the least noise of this law that keeps `epsilon`.

        Parameters
        ----------
        sensitivity : float
            How far one change of the data moves the statistic, at most.
        epsilon : float
            The epsilon of the budget.
        size : int
            Numbers of the statistic.
        """
        return cls(require_sensitivity(sensitivity), require_epsilon(epsilon), int(size))

    def event(self) -> Event:
        """Describe one release without data.

        Returns: What a ledger writes down.
        """
        return NonPrivateEvent() if math.isinf(self.epsilon) else PureEvent(self.epsilon, "gamma")

    def variance(self) -> float:
        """Variance of one coordinate, ``(m + 1) (D / epsilon)²`` (before the enlargement)."""
        return (self.size + 1) * (self.sensitivity / self.epsilon) ** 2

    def release(self, value: ArrayLike, *, ledger: Chargeable | None) -> NDArray[np.float64]:
        """Charge the ledger, then release `value`, an array of `size` numbers, with noise.

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
        if statistic.size != self.size:
            raise InvalidInputError(f"The noise is for {self.size} numbers. Got {statistic.size}.")
        self._charge(ledger, statistic.size)
        if math.isinf(self.epsilon):
            return statistic
        root = math.sqrt(self.size)
        step = 2.0 ** math.floor(math.log2(ENLARGEMENT * self.sensitivity / root))
        scale = enlarged(self.sensitivity, step=step, spread=root) / self.epsilon
        noise = rounded_spherical_noise(scale / step, self.size).reshape(statistic.shape)
        return add_on_grid(to_grid(statistic, step), noise, step)
