"""Gaussian noise in shares: each party adds its part, the total of the parties carries the whole.

The numbers of all parties lie on one public grid, so that they can be added as integers, under
masks. A share is a discrete Gaussian: a sum of discrete Gaussians is one to within a factor that
differs from 1 by less than any double can tell (proof sheet "noise-in-shares").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms.base import Mechanism, as_statistic
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.sampling import discrete_gaussian
from sfumato.privacy.events import Event

Cells = NDArray[np.int64]
# More than r² = 64 cells² of variance against t² >= 2**52, and the arithmetic of a scale.
LARGER = 1 + 2.0**-44
MAX_SHARES = 2**14  # so that a share still has 2**19 cells, far above what the proof needs
DEVIATIONS = 40.0  # no noise is larger than so many, but for a probability below 1e-340


@dataclass(frozen=True)
class GaussianShareMechanism(Mechanism):
    """A party's part of a Gaussian release: ``round(v / g) + N_Z(0, t²/m)``, in whole cells g.

    Parameters
    ----------
    whole : GaussianMechanism
        The release that the total of all parties is.
    n_shares : int
        Number m of shares that are enough: parties less those that may drop out or collude.

    Privacy
    -------
    Unit and relation : those of the sensitivity of `whole`, in a sum over all parties.
    Released : nothing by itself; whoever sees one share sees it with ``1/m`` of the variance.
    Sensitivity : that of `whole`, enlarged for the grid: one change moves one party's numbers.
    Guarantee : the total of m shares, or more, is mu-GDP as `whole` is.
    Assumptions and numerics : nobody sees shares by themselves (secure sums); draws are exact.
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
        """Describe the release of the total without data.

        Returns: What each party's ledger writes down.
        """
        return self.whole.event()

    def variance(self) -> float:
        """Variance of one share on one coordinate."""
        return self.whole.variance() / self.n_shares

    def step(self, size: int) -> float:
        """Return the step of the grid on which all parties' numbers lie.

        Parameters
        ----------
        size : int
            Numbers of the statistic, of a symmetric one all of them.

        Returns
        -------
        float
            A power of two.
        """
        return self.whole.grid(size)[0]

    def largest(self, size: int, max_sum: float) -> int:
        """Bound a party's number in cells, its noise included.

        Parameters
        ----------
        size : int
            Numbers of the statistic.
        max_sum : float
            Public bound on the magnitude of an exact sum.

        Returns
        -------
        int
            The bound.
        """
        step, scale = self.whole.grid(size)
        return math.ceil((max_sum + DEVIATIONS * scale) / step) + 1

    def release(self, value: ArrayLike, *, ledger: Chargeable | None) -> Cells:
        """Charge the ledger, then give one party's numbers with its share of the noise.

        Parameters
        ----------
        value : array-like
            The exact sum over the party's records.
        ledger : DatasetBudget, Receipt or None
            Who pays; None if nothing records the charge.

        Returns
        -------
        ndarray of int64
            Whole cells, in a row.
        """
        statistic = as_statistic(value)
        step, scale = self.whole.grid(statistic.size)
        self._charge(ledger, statistic.size)
        noise = discrete_gaussian(self._share(scale / step), statistic.size)
        return (np.rint(statistic.ravel() / step) + 0.0).astype(np.int64) + noise.astype(np.int64)

    def release_symmetric(self, value: ArrayLike, *, ledger: Chargeable | None) -> Cells:
        """Do the same for symmetric matrices: each number above the diagonal counts once.

        Parameters
        ----------
        value : array-like of shape (..., d, d)
            The exact sums, symmetric.
        ledger : DatasetBudget, Receipt or None
            Who pays; None if nothing records the charge.

        Returns
        -------
        ndarray of int64
            Whole cells of the upper triangles, one after the other.
        """
        statistic = as_statistic(value)
        if statistic.ndim < 2 or statistic.shape[-1] != statistic.shape[-2]:
            raise InvalidInputError("A symmetric release needs square matrices.")
        step, scale = self.whole.grid(statistic.size)
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
        """Return the total of all parties' cells as the released statistic.

        Parameters
        ----------
        cells : ndarray of int64
            The sum of what all parties' `release`, or `release_symmetric`, gave.
        shape : tuple of int
            Of the statistic.
        symmetric : bool
            Whether the cells are of upper triangles.

        Returns
        -------
        ndarray
            The noisy statistic.
        """
        numbers = cells * self.step(math.prod(shape))
        if not symmetric:
            return np.asarray(numbers.reshape(shape))
        rows, columns = np.triu_indices(shape[-1])
        matrices = np.zeros(shape)
        matrices[..., rows, columns] = numbers.reshape(*shape[:-2], len(rows))
        matrices[..., columns, rows] = matrices[..., rows, columns]
        return matrices

    def _share(self, cells: float) -> float:
        return cells / math.sqrt(self.n_shares) * LARGER
