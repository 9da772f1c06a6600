"""Randomised response: a label told truly with odds exp(epsilon) against each other label."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms.base import Mechanism, require_epsilon
from sfumato.mechanisms.sampling import bernoulli, uniform_below
from sfumato.privacy.events import Event, NonPrivateEvent, RandomizedResponseEvent
from sfumato.privacy.guarantee import Relation


@dataclass(frozen=True)
class RandomizedResponseMechanism(Mechanism):
    """Each label kept with probability ``e^eps / (e^eps + C - 1)``, else one of the others.

    Parameters
    ----------
    n_labels : int
        C, the number of possible labels, at least 2.
    epsilon : float
        The budget of one label; infinity keeps every label.

    Privacy
    -------
    Unit and relation : one label of one record, replaced.
    Released : one label per record.
    Sensitivity : none needed; the odds bound the ratio.
    Guarantee : pure epsilon per record (each record has one label).
    Assumptions and numerics : the label set and the number of records are public; coins with the
        exact real probability; OS entropy.
    """

    n_labels: int
    epsilon: float
    relation: ClassVar[Relation] = Relation.REPLACE_ONE

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        if self.n_labels < 2:
            raise InvalidInputError(f"'n_labels' must be at least 2. Got {self.n_labels} instead.")

    @classmethod
    def calibrate(cls, *, n_labels: int, epsilon: float) -> RandomizedResponseMechanism:
        """Return the most truthful answer that keeps `epsilon`.

        Parameters
        ----------
        n_labels : int
            Size of the label set.
        epsilon : float
            The epsilon of the budget.
        """
        return cls(int(n_labels), require_epsilon(epsilon))

    def event(self) -> Event:
        """Describe one release without data.

        Returns: What a ledger writes down.
        """
        if math.isinf(self.epsilon):
            return NonPrivateEvent()
        return RandomizedResponseEvent(self.epsilon, self.n_labels)

    def keep_probability(self) -> float:
        """Probability that a label is told truly.

        Returns
        -------
        float
            The probability.
        """
        return 1 / (1 + (self.n_labels - 1) * math.exp(-self.epsilon))

    def variance(self) -> float:
        """Variance of the indicator that a label was kept."""
        return self.keep_probability() * (1 - self.keep_probability())

    def release(self, value: ArrayLike, *, ledger: Chargeable | None) -> NDArray[np.int64]:
        """Charge the ledger once, then answer for every label code of `value`.

        Parameters
        ----------
        value : array-like of int
            Places of labels in the label set.
        ledger : DatasetBudget, Receipt or None
            Who pays; None if nothing records the charge.

        Returns
        -------
        ndarray of int
            The answers, in the shape of `value`.
        """
        truth = np.array(value, dtype=np.int64)
        if truth.size and not (truth.min() >= 0 and truth.max() < self.n_labels):
            raise InvalidInputError(f"Label codes must lie in 0 .. {self.n_labels - 1}.")
        self._charge(ledger)
        if math.isinf(self.epsilon):
            return truth
        kept = bernoulli(
            lambda exact: 1 / (1 + (self.n_labels - 1) * exact.exp(-exact.mpf(self.epsilon))),
            truth.size,
        ).reshape(truth.shape)
        shift = 1 + uniform_below(self.n_labels - 1, truth.size).reshape(truth.shape)
        return np.where(kept, truth, (truth + shift) % self.n_labels)
