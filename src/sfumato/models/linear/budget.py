"""From a budget to the releases of a private linear classifier; everything here is public."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Relation
from sfumato.sums.gradients import GradientSum
from sfumato.sums.grid import MAX_ROWS_SECRET_N, ROW_BITS
from sfumato.sums.losses import Loss
from sfumato.sums.persons import PerPersonClip, PersonUnit
from sfumato.sums.statistics import ClassCounts, SecondMoment, Statistic

COUNT_SHARE = 1e-3  # of mu², for the size of each class where the number of rows is secret


@dataclass(frozen=True)
class LinearBudget:
    """What the releases depend on.

    epsilon, delta: The budget.
    relation: The neighbours.
    loss: The loss of a row.
    projection_share: Share of ``mu²`` for the second moment; 0 without it.
    n_features: Numbers of a row; they decide by how much a second moment is rounded as it becomes
        doubles.
    person: How many rows a person has and how they are added up, where persons are the unit.
    """

    epsilon: float
    delta: float
    relation: Relation
    loss: Loss
    projection_share: float = 0.0
    n_features: int = 1
    person: PersonUnit | None = None

    @property
    def counts(self) -> bool:
        """Whether what the terms of a sum add up to is secret, so that it is released."""
        has_votes = self.person is None or self.person.averages
        return not (has_votes and self.relation is Relation.REPLACE_ONE)

    def sensitivity(self, statistic: Statistic, n_rows: int) -> float:
        """How far one record, or one person, moves the sum of a statistic."""
        if self.person is not None:
            return self.person.sensitivity(statistic, self.relation, n_rows)
        return statistic.sensitivity(self.relation, n_rows)

    def gradient(
        self, max_gradient_norm: float, weights: NDArray[np.float64], slope_bits: int = ROW_BITS
    ) -> GradientSum:
        """Return the sum of gradients at some weights, bounded by row and by person."""
        joined = PerPersonClip.usual(self.person, max_gradient_norm)
        return GradientSum(
            self.loss, max_gradient_norm, weights, joined=joined, slope_bits=slope_bits
        )

    def second_moment(self, n_rows: int = MAX_ROWS_SECRET_N) -> GaussianMechanism | None:
        """Return the release of the second moment, or None without it."""
        if not self.projection_share:
            return None
        moved = self.sensitivity(SecondMoment(self.n_features), max(n_rows, MAX_ROWS_SECRET_N))
        mechanism = GaussianMechanism.from_mu(sensitivity=moved, mu=self._mu(self.projection_share))
        return mechanism.for_size(self.n_features**2)

    # Noisy gradient descent -----------------------------------------------------------------

    def count(self) -> GaussianMechanism | None:
        """Return the release of the class sizes, or None where the number of rows is public."""
        if not self.counts:
            return None
        counts = ClassCounts(self.loss.n_classes)
        moved = self.sensitivity(counts, MAX_ROWS_SECRET_N)
        mechanism = GaussianMechanism.from_mu(sensitivity=moved, mu=self._mu(COUNT_SHARE))
        return mechanism.for_size(counts.size)

    def gradients(
        self, max_gradient_norm: float, n_steps: int, size: int, n_rows: int = MAX_ROWS_SECRET_N
    ) -> GaussianMechanism:
        """Return the release of one gradient of `n_steps`."""
        counted = COUNT_SHARE if self.counts else 0.0
        mu = self._mu((1 - self.projection_share - counted) / n_steps)
        weights = np.zeros((self.loss.n_scores, size // self.loss.n_scores))
        moved = self.sensitivity(self.gradient(max_gradient_norm, weights), n_rows)
        return GaussianMechanism.from_mu(sensitivity=moved, mu=mu).for_size(size)

    # Shared ---------------------------------------------------------------------------------

    def _mu(self, share: float) -> float:
        """Return the part of mu that belongs to a share of mu²."""
        if math.isinf(self.epsilon):
            return math.inf
        return mu_from_budget(self.epsilon, self.delta) * math.sqrt(share)
