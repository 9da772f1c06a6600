"""Quantiles of columns by recursive halving, each cut chosen by the exponential mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms.base import Mechanism, as_statistic
from sfumato.mechanisms.exponential import ExponentialMechanism
from sfumato.privacy.events import Event, RepeatedEvent


@dataclass(frozen=True)
class QuantileMechanism(Mechanism):
    """Cut the cells of each column into ``2**n_levels`` parts of about equal counts.

    The cells of a column stand in a public order. A part that holds the cells a to b is cut before
    cell k with probability proportional to ``exp(-epsilon |below - above| / (2 D))``, where `below`
    and `above` are the counts on the two sides; then each side is cut again.

    Parameters
    ----------
    sensitivity : float
        D, by how much one record changes the counts of one column, added up over its cells: 1
        where records are added or removed, 2 where one is replaced.
    epsilon : float
        Bounded range of the cuts of one level of one column; infinity means the best cuts.
    n_columns, n_levels : int
        Columns, and how often each is halved.

    Privacy
    -------
    Unit and relation : those of the sensitivity; a record is counted once per column at most.
    Released : where each column is cut.
    Sensitivity : D of the counts, hence D of every score in sum over the parts of one level.
    Guarantee : ``n_columns * n_levels`` releases of bounded range epsilon.
    Assumptions and numerics : cells are public; counts are whole numbers, so that scores are
        exact; cuts are chosen with exact probabilities. Proof: docs/guarantees/knots.md.
    """

    sensitivity: float
    epsilon: float
    n_columns: int
    n_levels: int
    norm: ClassVar[int | str] = "part"  # the counts of one column

    def __post_init__(self) -> None:
        ExponentialMechanism(self.sensitivity, self.epsilon)  # refuses what no choice can have
        if min(self.n_columns, self.n_levels) < 1:
            raise InvalidInputError("There must be at least one column and one level.")

    def event(self) -> Event:
        """Describe one release without data.

        Returns: What a ledger writes down.
        """
        # [N2] one record is in one part of each level and column, or moves between two
        one = ExponentialMechanism(self.sensitivity, self.epsilon).event()
        return RepeatedEvent(one, self.n_columns * self.n_levels)

    def variance(self) -> float:
        """Variance of the Gumbel noise that, added to the scores, gives the same cuts."""
        return ExponentialMechanism(self.sensitivity, self.epsilon).variance()

    def release(self, value: ArrayLike, *, ledger: Chargeable | None) -> NDArray[np.float64]:
        """Charge the ledger, then cut the columns.

        Parameters
        ----------
        value : array-like of shape (n_columns, n_cells)
            The exact counts.
        ledger : DatasetBudget, Receipt or None
            Who pays; None if nothing records the charge.

        Returns
        -------
        ndarray of shape (n_columns, 2**n_levels - 1)
            The first cell above each cut, ascending; NaN where a part of one cell was not cut.
        """
        counts = as_statistic(value)
        if counts.ndim != 2 or len(counts) != self.n_columns:
            raise InvalidInputError(f"Counts of {self.n_columns} columns are needed.")
        self._charge(ledger)
        chooser = ExponentialMechanism(self.sensitivity, self.epsilon)
        return np.array([_cuts(column, self.n_levels, chooser) for column in counts])


def _cuts(counts: NDArray[np.float64], n_levels: int, chooser: ExponentialMechanism) -> list[float]:
    """Cut the cells of one column; parts of one cell have no cut, whatever they count."""
    below = np.concatenate([[0.0], np.cumsum(counts)])

    def halved(first: int, end: int, level: int) -> list[float]:
        if level == 0:
            return []
        if end - first < 2:
            return [math.nan] * (2**level - 1)
        inner = below[first + 1 : end]
        scores = -np.abs(2 * inner - below[first] - below[end])  # [N1] minus |below - above|
        cut = first + 1 + chooser.chosen(scores)
        return [*halved(first, cut, level - 1), float(cut), *halved(cut, end, level - 1)]

    return halved(0, len(counts), n_levels)
