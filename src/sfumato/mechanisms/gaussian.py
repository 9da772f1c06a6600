"""Gaussian noise: for vectors and symmetric matrices, for functions, and in shares of parties."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.core.arrays import Array, is_foreign_array, like, namespace_of
from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms.base import (
    AdditiveMechanism,
    Mechanism,
    add_on_grid,
    as_statistic,
    grid_of,
    require_epsilon,
    require_sensitivity,
    to_grid,
)
from sfumato.mechanisms.sampling import GAUSSIAN, Law, discrete_gaussian, rounded_noise
from sfumato.privacy.events import Event, GaussianEvent, NonPrivateEvent
from sfumato.privacy.gaussian import mu_from_budget

Cells = NDArray[np.int64]
ROWS_AT_ONCE = 128  # of a symmetric matrix
# Share of the sensitivity added for rounding errors inside the coordinates of a function, see the
# proof sheet "process".
SLACK = 2.0**-10
# More than r² = 64 cells² of variance against t² >= 2**52, and the arithmetic of a scale.
LARGER = 1 + 2.0**-44
MAX_SHARES = 2**14  # so that a share still has 2**19 cells, far above what the proof needs
DEVIATIONS = 40.0  # no noise is larger than this many, except with a probability below 1e-340


@dataclass(frozen=True)
class GaussianMechanism(AdditiveMechanism):
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
    law: ClassVar[Law] = GAUSSIAN

    def __post_init__(self) -> None:
        require_sensitivity(self.sensitivity)
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier >= 0):
            raise InvalidInputError("'noise_multiplier' must be finite and not negative.")

    @classmethod
    def calibrate(cls, *, sensitivity: float, epsilon: float, delta: float) -> Self:
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
        mu = mu_from_budget(require_epsilon(epsilon), delta)
        return cls.from_mu(sensitivity=sensitivity, mu=mu)

    @classmethod
    def from_mu(cls, sensitivity: float, mu: float) -> Self:
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
        """Describe one release without data."""
        if self.noise_multiplier == 0:
            return NonPrivateEvent()
        return GaussianEvent(self.noise_multiplier)

    def variance(self) -> float:
        """Variance of the noise on one coordinate."""
        return (self.sensitivity * self.noise_multiplier) ** 2

    def grid(self, size: int) -> tuple[float, float] | None:
        """Return the step of the grid and the scale of the noise."""
        if self.noise_multiplier == 0:
            return None
        return grid_of(self.sensitivity, math.sqrt(size), times=self.noise_multiplier)

    def release_symmetric(self, value: Array, *, ledger: Chargeable | None) -> Array:
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
        stays, xp = is_foreign_array(value), namespace_of(value)
        if stays and (value.ndim != 2 or not bool(xp.all(xp.isfinite(value)))):
            raise InvalidInputError("On a device, a symmetric release needs one finite matrix.")
        statistic: Any = xp.astype(value, xp.float64) if stays else as_statistic(value)
        if statistic.ndim < 2 or statistic.shape[-1] != statistic.shape[-2]:
            raise InvalidInputError("A symmetric release needs square matrices.")
        size, order = math.prod(statistic.shape), int(statistic.shape[-1])
        grid = self.grid(size)
        self._charge(ledger, size)
        if grid is None:
            return statistic
        step, scale = grid
        cells, n_matrices = scale / step, size // max(order, 1) ** 2
        n_above = n_matrices * (order * (order - 1) // 2)
        above = rounded_noise(GAUSSIAN, cells / math.sqrt(2), n_above)
        diagonal = rounded_noise(GAUSSIAN, cells, n_matrices * order)
        add = _add_symmetric_noise_there if stays else _add_symmetric_noise
        return add(statistic, above, diagonal, step)


def _add_symmetric_noise(
    statistic: NDArray[np.float64],
    above: NDArray[np.float64],
    diagonal: NDArray[np.float64],
    step: float,
) -> NDArray[np.float64]:
    """Add noise to symmetric matrices in blocks of rows that stay in the cache."""
    order = statistic.shape[-1]
    matrices = statistic.reshape(-1, order, order)
    above, diagonal = above.reshape(len(matrices), -1), diagonal.reshape(len(matrices), -1)
    noisy = np.empty_like(matrices)
    for number, matrix in enumerate(matrices):
        for first in range(0, order, ROWS_AT_ONCE):
            rows = slice(first, min(first + ROWS_AT_ONCE, order))
            n_rows = rows.stop - first
            noise = np.zeros((n_rows, order - first))  # from the diagonal on
            for row in range(first, rows.stop):
                start = row * (order - 1) - row * (row - 1) // 2  # what the rows before have
                own = above[number, start : start + order - 1 - row]
                noise[row - first, row - first + 1 :] = own
            square = noise[:, :n_rows]
            square += square.T.copy()
            square[np.diag_indices(n_rows)] = diagonal[number, rows]
            block = to_grid((matrix[rows, first:] + matrix[first:, rows].T) / 2, step)
            block = add_on_grid(block, noise, step)
            noisy[number, rows, first:] = block
            noisy[number, first:, rows] = block.T
    return noisy.reshape(statistic.shape)


def _add_symmetric_noise_there(
    statistic: Array, above: NDArray[np.float64], diagonal: NDArray[np.float64], step: float
) -> Array:
    """Do the same on the device of one matrix: the noise is brought there, drawn as ever.

    Every operation is one of IEEE doubles, number by number, so that the result is the same.
    """
    xp, order = namespace_of(statistic), int(statistic.shape[-1])
    is_above = xp.triu(xp.ones_like(statistic), k=1) > 0
    noise = xp.zeros_like(statistic)
    noise[is_above] = like(statistic, above)  # row by row
    noise = noise + noise.T
    places = xp.arange(order, device=statistic.device)
    noise = xp.where(places[:, None] == places, like(statistic, diagonal), noise)
    total = noise * step
    total += xp.round((statistic + statistic.T) / 2 / step) * step
    return total + 0.0


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
    def calibrate(cls, *, sensitivity: float, epsilon: float, delta: float) -> Self:
        """Return the least noise that keeps ``(epsilon, delta)``; sensitivity in the norm of H."""
        larger = require_sensitivity(sensitivity) * (1 + SLACK)
        return super().calibrate(sensitivity=larger, epsilon=epsilon, delta=delta)


@dataclass(frozen=True)
class GaussianShareMechanism(Mechanism):
    """A party's part of a Gaussian release: ``round(v / g) + N_Z(0, t²/m)``, in whole cells g.

    The numbers of all parties lie on one public grid, so that they can be added as integers, under
    masks. A share is a discrete Gaussian: a sum of discrete Gaussians is one to within a factor
    that differs from 1 by less than any double can tell (proof sheet "noise-in-shares").

    Parameters
    ----------
    whole : GaussianMechanism
        The release that the total of all parties is.
    n_shares : int
        Number m of shares that are enough: parties less those that may drop out or collude.

    Privacy
    -------
    Unit and relation : those of the sensitivity of `whole`, in a sum over all parties.
    Released : nothing on its own; a reader of one share sees it with ``1/m`` of the variance.
    Sensitivity : that of `whole`, enlarged for the grid: one change moves one party's numbers.
    Guarantee : the total of m shares, or more, is mu-GDP as `whole` is.
    Assumptions and numerics : single shares stay hidden (secure sums); draws are exact.
    """

    whole: GaussianMechanism
    n_shares: int

    def __post_init__(self) -> None:
        if not 1 <= self.n_shares <= MAX_SHARES:
            raise InvalidInputError(
                f"'n_shares' must lie between 1 and {MAX_SHARES}. Got {self.n_shares} instead."
            )
        if self.whole.noise_multiplier == 0:
            raise InvalidInputError("A release without noise has no shares of noise.")

    @property
    def sensitivity(self) -> float:
        """That of the whole."""
        return self.whole.sensitivity

    def event(self) -> Event:
        """Describe the release of the total without data."""
        return self.whole.event()

    def variance(self) -> float:
        """Variance of one share on one coordinate."""
        return self.whole.variance() / self.n_shares

    def grid(self, size: int) -> tuple[float, float]:
        """Return the step on which all parties' numbers lie, and the scale of the whole noise."""
        grid = self.whole.grid(size)
        assert grid is not None  # noqa: S101 - there is noise
        return grid

    def largest(self, size: int, max_sum: float) -> int:
        """Bound a party's number in cells, its noise included, for exact sums up to `max_sum`."""
        step, scale = self.grid(size)
        return math.ceil((max_sum + DEVIATIONS * scale) / step) + 1

    def release(self, value: ArrayLike, *, ledger: Chargeable | None) -> Cells:
        """Charge the ledger, then return a party's sum with its share of noise, in whole cells."""
        statistic = as_statistic(value)
        step, scale = self.grid(statistic.size)
        self._charge(ledger, statistic.size)
        noise = discrete_gaussian(self._share(scale / step), statistic.size)
        return (np.rint(statistic.ravel() / step) + 0.0).astype(np.int64) + noise.astype(np.int64)

    def release_symmetric(self, value: ArrayLike, *, ledger: Chargeable | None) -> Cells:
        """Do the same for symmetric matrices: whole cells of their upper triangles, in a row."""
        statistic = as_statistic(value)
        if statistic.ndim < 2 or statistic.shape[-1] != statistic.shape[-2]:
            raise InvalidInputError("A symmetric release needs square matrices.")
        step, scale = self.grid(statistic.size)
        self._charge(ledger, statistic.size)
        rows, columns = np.triu_indices(statistic.shape[-1])
        upper = np.rint(statistic[..., rows, columns] / step).astype(np.int64)
        on_diagonal = np.broadcast_to(rows == columns, upper.shape)
        noise = np.empty(upper.shape, dtype=np.int64)
        share = self._share(scale / step)
        noise[on_diagonal] = discrete_gaussian(share, int(on_diagonal.sum()))
        noise[~on_diagonal] = discrete_gaussian(
            share / math.sqrt(2) * LARGER, int((~on_diagonal).sum())
        )
        return (upper + noise).ravel()

    def total(
        self, cells: Cells, shape: tuple[int, ...], *, symmetric: bool
    ) -> NDArray[np.float64]:
        """Return the sum of all parties' cells, of upper triangles or not, as the statistic."""
        numbers = cells * self.grid(math.prod(shape))[0]
        return symmetric_from(numbers, shape) if symmetric else np.asarray(numbers.reshape(shape))

    def _share(self, cells: float) -> float:
        return cells / math.sqrt(self.n_shares) * LARGER


def symmetric_from(upper: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return the symmetric matrices of this shape that have these upper triangles."""
    rows, columns = np.triu_indices(shape[-1])
    matrices = np.empty(shape)
    matrices[..., rows, columns] = upper.reshape(*shape[:-2], len(rows))
    matrices[..., columns, rows] = matrices[..., rows, columns]
    return matrices
