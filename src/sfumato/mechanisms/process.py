"""Gaussian process noise: independent normal noise on coordinates in an orthonormal system of H."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms.base import require_epsilon, require_sensitivity
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.sampling import GAUSSIAN, rounded_noise
from sfumato.privacy.gaussian import mu_from_budget

# Shares of the sensitivity added for rounding errors inside the coordinates, see the proof sheet.
SLACK = 2.0**-10
ONLINE_SLACK = 2.0**-7  # points that nearly meet magnify the error of f


@dataclass(frozen=True)
class GaussianProcessMechanism(GaussianMechanism):
    r"""``f + s G`` for a function f of an RKHS H, G a Gaussian process with the kernel of H.

    In an orthonormal system :math:`e_1, e_2, \dots` of H the process is
    :math:`\sum_j Z_j e_j` with independent standard normal :math:`Z_j`, so that the release is
    the vector release of the coordinates :math:`\langle f, e_j\rangle + s Z_j`. Values of the
    released function are linear in them and cost nothing more, however many are asked for.

    Parameters
    ----------
    sensitivity : float
        D, at least the largest ``||f - f'||_H`` over neighbours.
    noise_multiplier : float
        ``s / D``; 0 means no noise (and an event that says so).

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : coordinates of f in any finite orthonormal system, with independent noise.
    Sensitivity : D, for every system, because the coordinates are those of a projection of f.
    Guarantee : mu-GDP, ``mu = 1 / noise_multiplier``, for any number of points, chosen adaptively.
    Assumptions and numerics : `calibrate` adds 2⁻¹⁰ D for rounding errors inside the coordinates;
        noise is float-safe. Proof: docs/guarantees/process.md.

    Examples
    --------
    >>> from sfumato.mechanisms import GaussianProcessMechanism
    >>> one = GaussianProcessMechanism.calibrate(sensitivity=1.0, epsilon=1.0, delta=0.1)
    >>> round(one.noise_multiplier, 4)
    1.0859
    """

    @classmethod
    def calibrate(
        cls, *, sensitivity: float, epsilon: float, delta: float
    ) -> GaussianProcessMechanism:
        """Return the least noise that keeps ``(epsilon, delta)``.

        sensitivity: D, in the norm of H.
        epsilon, delta: The budget.
        """
        enlarged = require_sensitivity(sensitivity) * (1 + SLACK)
        require_epsilon(epsilon)
        return cls(enlarged, 1 / mu_from_budget(epsilon, delta))

    def charge_once(self, ledger: Chargeable | None) -> None:
        """Charge the ledger for all coordinates that `noise` will ever be drawn for.

        Parameters
        ----------
        ledger : DatasetBudget, Receipt or None
            Who pays; None if nothing records the charge.
        """
        self._charge(ledger)

    def noise(self, *, limit: int) -> CoordinateNoise:
        """Return the noise of a release that was charged, for up to `limit` coordinates in all.

        Parameters
        ----------
        limit : int
            The most coordinates.

        Returns
        -------
        CoordinateNoise
            Draws noise for coordinates, a block at a time.
        """
        if self.noise_multiplier == 0:
            return CoordinateNoise(step=0.0, scale=0.0)
        step, scale = self.grid(limit)
        return CoordinateNoise(step=step, scale=scale * (1 + ONLINE_SLACK))


class CoordinateNoise:
    """The noise of one release whose coordinates become known one after the other.

    Which coordinate comes next may depend on what was released before: the noise of each is
    independent of everything else, and all of them together stay within the sensitivity.

    step: Step of the public grid on which coordinates lie; 0 for a release without noise.
    scale: Standard deviation of the noise.
    """

    def __init__(self, *, step: float, scale: float) -> None:
        self.step = step
        self.scale = scale

    def draw(self, size: int) -> list[float]:
        """Draw the noise of `size` coordinates, as exact multiples of the step."""
        if self.step == 0:
            return [0.0] * size
        cells: NDArray[np.float64] = rounded_noise(GAUSSIAN, self.scale / self.step, size)
        return [float(noise) for noise in cells * self.step]

    def add(self, coordinate: float, noise: float) -> float:
        """Round a coordinate to the grid and add its noise; the scalar form of `add_on_grid`."""
        if not math.isfinite(coordinate):
            raise InvalidInputError("The function to release must be finite where it is asked.")
        if self.step == 0:
            return coordinate
        if abs(coordinate) < 2.0**53 * self.step:
            coordinate = round(coordinate / self.step) * self.step
        return coordinate + noise + 0.0
