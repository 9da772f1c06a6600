"""Gaussian noise for vectors, and for symmetric matrices."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.core.arrays import Array, cast, is_foreign_array, like, namespace_of
from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms import sampling
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
from sfumato.mechanisms.sampling import GAUSSIAN, NoiseRequest, require_scale, rounded_noise
from sfumato.privacy.events import Event, GaussianEvent, NonPrivateEvent
from sfumato.privacy.gaussian import mu_from_budget

ROWS_AT_ONCE = 128  # of a symmetric matrix


@dataclass(frozen=True)
class GaussianMechanism(Mechanism):
    """``v + N(0, s² I)`` with ``s = D / mu``: exactly mu-GDP for L2 sensitivity D.

    Parameters
    ----------
    sensitivity : float
        D, the largest ``||v - v'||₂`` over neighbours.
    noise_multiplier : float
        ``1 / mu``; 0 means no noise (and an event that says so).

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : the statistic with independent Gaussian noise, rounded to a public grid.
    Sensitivity : D, enlarged by the step of the grid times the square root of the number of
        coordinates, because the statistic is rounded to the grid first.
    Guarantee : mu-GDP, ``mu = 1 / noise_multiplier``; analytic calibration for any epsilon.
    Assumptions and numerics : the rounding of exact real noise is drawn
        (`sfumato.mechanisms.sampling`), so no floating-point error enters; OS entropy.

    Examples
    --------
    >>> from sfumato.mechanisms import GaussianMechanism
    >>> mechanism = GaussianMechanism.calibrate(sensitivity=2.0, epsilon=1.0, delta=1e-5)
    >>> round(mechanism.variance() ** 0.5, 3)
    7.461
    >>> mechanism.release([10.0, 20.0], ledger=None).shape
    (2,)
    """

    sensitivity: float
    noise_multiplier: float

    def __post_init__(self) -> None:
        require_sensitivity(self.sensitivity)
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier >= 0):
            raise InvalidInputError("'noise_multiplier' must be finite and not negative.")

    @classmethod
    def calibrate(cls, *, sensitivity: float, epsilon: float, delta: float) -> GaussianMechanism:
        """Return the least noise that keeps ``(epsilon, delta)``.

        Parameters
        ----------
        sensitivity : float
            How far one change of the data moves the statistic, at most.
        epsilon : float
            The epsilon of the budget.
        delta : float
            The delta of the budget.
        """
        return cls.from_mu(
            sensitivity=sensitivity, mu=mu_from_budget(require_epsilon(epsilon), delta)
        )

    @classmethod
    def from_mu(cls, *, sensitivity: float, mu: float) -> GaussianMechanism:
        """Return the mechanism that is mu-GDP.

        Parameters
        ----------
        sensitivity : float
            How far one change of the data moves the statistic, at most.
        mu : float
            Distance of neighbours in units of the noise.
        """
        if not mu > 0:
            raise InvalidInputError(f"'mu' must be positive. Got {mu} instead.")
        return cls(require_sensitivity(sensitivity), 1 / mu)

    def event(self) -> Event:
        """Describe one release without data.

        Returns: What a ledger writes down.
        """
        if self.noise_multiplier == 0:
            return NonPrivateEvent()
        return GaussianEvent(self.noise_multiplier)

    def variance(self) -> float:
        """Variance of the noise on one coordinate (before the enlargement for the grid)."""
        return (self.sensitivity * self.noise_multiplier) ** 2

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
        self._require_scale(statistic.size)
        self._charge(ledger, statistic.size)
        if self.noise_multiplier == 0:
            return statistic
        step, scale = self.grid(statistic.size)
        noise = rounded_noise(GAUSSIAN, scale / step, statistic.size).reshape(statistic.shape)
        return add_on_grid(to_grid(statistic, step), noise, step)

    def release_symmetric(self, value: ArrayLike | Array, *, ledger: Chargeable | None) -> Array:
        """Release a symmetric matrix, or a stack of them, of Frobenius sensitivity D.

        The noise is isotropic for the Frobenius norm: standard deviation s on the diagonal and
        s/√2 off it, mirrored. It is the vector release in the coordinates ``(m_ii, √2 m_ij)``,
        with √2 less spectral noise than mirrored noise of deviation s.

        Parameters
        ----------
        value : array-like of shape (..., d, d)
            Symmetric matrices; one of another array library stays on its device.
        ledger : DatasetBudget, Receipt or None
            Who pays; None if nothing records the charge.

        Returns
        -------
        array
            The noisy matrices, symmetric, in the shape of `value`.
        """
        stays = is_foreign_array(value)
        statistic: Any = _finite_matrix(value) if stays else as_statistic(value)
        if statistic.ndim < 2 or statistic.shape[-1] != statistic.shape[-2]:
            raise InvalidInputError("A symmetric release needs square matrices.")
        size = math.prod(statistic.shape)
        self._require_scale(size)
        self._charge(ledger, size)
        if self.noise_multiplier == 0:
            return statistic
        step, scale = self.grid(size)
        add = _add_symmetric_noise_there if stays else _add_symmetric_noise
        return add(statistic, scale / step, step)

    def for_size(self, size: int) -> Self:
        """Return this mechanism, or refuse by public numbers what cannot be drawn exactly.

        Parameters
        ----------
        size : int
            Numbers of the statistic.

        Returns
        -------
        GaussianMechanism
            The mechanism itself, for a check before the charge.
        """
        self._require_scale(size)
        check_memory(size)
        return self

    def _require_scale(self, size: int) -> None:
        if self.noise_multiplier > 0:
            step, scale = self.grid(size)
            require_scale(scale / step)

    def grid(self, size: int) -> tuple[float, float]:
        """Return the step of the grid, and the scale of the noise with the rounding paid for.

        Parameters
        ----------
        size : int
            Numbers of the statistic.

        Returns
        -------
        tuple of float
            Both are public.
        """
        spread = math.sqrt(size)
        scale = self.sensitivity * self.noise_multiplier
        step = grid_step(scale, sensitivity=self.sensitivity, spread=spread)
        sensitivity = enlarged(self.sensitivity, step=step, spread=spread)
        return step, sensitivity * self.noise_multiplier


@dataclass(frozen=True)
class Releases:
    """Equal releases of a fit that are paid for and still to come.

    mechanism: Who makes them.
    shape: Of the statistic.
    count: How many.
    is_symmetric: Whether they are made by `release_symmetric`.
    """

    mechanism: GaussianMechanism
    shape: tuple[int, ...]
    count: int = 1
    is_symmetric: bool = False

    def orders(self) -> list[NoiseRequest]:
        """Return what noise they will ask for, in their order."""
        size = math.prod(self.shape)
        if self.mechanism.noise_multiplier == 0 or not size:
            return []
        step, scale = self.mechanism.grid(size)
        if self.is_symmetric:
            return self.count * _symmetric_orders(1, self.shape[-1], scale / step)
        return [NoiseRequest(GAUSSIAN, scale / step, size, self.count)]


def prefetch_noise(*releases: Releases) -> AbstractContextManager[None]:
    """Draw the noise of releases that are paid for in other threads, while this one adds up."""
    return sampling.prefetch_noise(*(order for each in releases for order in each.orders()))


def _add_symmetric_noise(
    statistic: NDArray[np.float64], cells: float, step: float
) -> NDArray[np.float64]:
    """Add noise to symmetric matrices in blocks of rows that stay in the cache."""
    order = statistic.shape[-1]
    matrices = statistic.reshape(-1, order, order)
    above, diagonal = (
        rounded_noise(*each.key).reshape(len(matrices), -1)
        for each in _symmetric_orders(len(matrices), order, cells)
    )
    noisy = np.empty_like(matrices)
    for number, matrix in enumerate(matrices):
        for first in range(0, order, ROWS_AT_ONCE):
            rows = slice(first, min(first + ROWS_AT_ONCE, order))
            block = to_grid((matrix[rows, first:] + matrix[first:, rows].T) / 2, step)
            noise = _noise_of_rows(above[number], diagonal[number], rows)
            block = add_on_grid(block, noise, step)
            noisy[number, rows, first:] = block
            noisy[number, first:, rows] = block.T
    return noisy.reshape(statistic.shape)


def _finite_matrix(value: Array) -> Array:
    xp = namespace_of(value)
    if value.ndim != 2 or not bool(xp.all(xp.isfinite(value))):
        raise InvalidInputError("A symmetric release needs finite matrices, one on a device.")
    return cast(value, "float64")


def _add_symmetric_noise_there(statistic: Array, cells: float, step: float) -> Array:
    """Do the same on the device of one matrix: the noise is brought there, drawn as ever.

    Every operation is one of IEEE doubles, number by number, so that the result is the same.
    """
    xp, order = namespace_of(statistic), int(statistic.shape[-1])
    above, diagonal = (
        like(statistic, rounded_noise(*each.key)) for each in _symmetric_orders(1, order, cells)
    )
    is_above = xp.triu(xp.ones_like(statistic), k=1) > 0
    noise = xp.zeros_like(statistic)
    noise[is_above] = above  # row by row
    noise = noise + noise.T
    places = xp.arange(order, device=statistic.device)
    noise = xp.where(places[:, None] == places, diagonal, noise)
    total = noise * step
    total += xp.round((statistic + statistic.T) / 2 / step) * step
    return total + 0.0


def _symmetric_orders(n_matrices: int, width: int, cells: float) -> list[NoiseRequest]:
    """Noise above the diagonals, and on them."""
    above = width * (width - 1) // 2
    return [
        NoiseRequest(GAUSSIAN, cells / math.sqrt(2), n_matrices * above),
        NoiseRequest(GAUSSIAN, cells, n_matrices * width),
    ]


def _noise_of_rows(
    above: NDArray[np.float64], diagonal: NDArray[np.float64], rows: slice
) -> NDArray[np.float64]:
    """Return the noise of some rows from their diagonal on: symmetric as far as it is square."""
    order, n_rows = len(diagonal), rows.stop - rows.start
    noise = np.zeros((n_rows, order - rows.start))
    for row in range(rows.start, rows.stop):
        start = row * (order - 1) - row * (row - 1) // 2  # what the rows before have
        noise[row - rows.start, row - rows.start + 1 :] = above[start : start + order - 1 - row]
    square = noise[:, :n_rows]
    square += square.T.copy()
    square[np.diag_indices(n_rows)] = diagonal[rows]
    return noise
