"""From a budget to the releases of a private linear classifier; everything here is public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms.gamma import GammaMechanism
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.minimiser import norm_quantile
from sfumato.mechanisms.objective import GammaObjectiveMechanism, GaussianObjectiveMechanism
from sfumato.models.linear.objective import max_minimiser, max_rounding
from sfumato.models.linear.rows import MAX_MINIMISED
from sfumato.privacy.calibrate import min_noise_multiplier
from sfumato.privacy.events import Event
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Relation
from sfumato.sums.gradients import GradientSum
from sfumato.sums.grid import MAX_ROWS_SECRET_N, ROW_BITS
from sfumato.sums.losses import Loss
from sfumato.sums.persons import PerPersonClip, PersonUnit
from sfumato.sums.statistics import ClassCounts, SecondMoment, Statistic

# The regulariser of the public rules, in deviations of the noise on the gradient: it grows with the
# noise that it must hold down and needs no number of rows.
OBJECTIVE_SHARE = 0.25
OUTPUT_SHARE = 1.0
MIN_CONVEXITY = 1e-3  # of the sensitivity, for budgets that leave hardly any noise
COUNT_SHARE = 1e-3  # of mu², for the size of each class where the number of rows is secret
MIN_RESIDUAL = 2.0**-10  # of the sensitivity: how near output perturbation comes to a minimiser


@dataclass(frozen=True)
class LinearBudget:
    """What the releases depend on.

    epsilon, delta: The budget; delta 0 asks for pure epsilon.
    relation: The neighbours.
    loss: The loss of a row.
    projection_share: Share of ``mu²`` for the second moment; 0 without it.
    regularization: Strong convexity of the objective; None for the public rule.
    n_features: Numbers of a row; they decide by how much a second moment is rounded as it becomes
        doubles.
    person: How many rows a person has and how they are added up, where persons are the unit.
    """

    epsilon: float
    delta: float
    relation: Relation
    loss: Loss
    projection_share: float = 0.0
    regularization: float | None = None
    n_features: int = 1
    person: PersonUnit | None = None

    @property
    def counts(self) -> bool:
        """Whether what the terms of a sum add up to is secret, so that it is released."""
        has_votes = self.person is None or self.person.averages
        return not (has_votes and self.relation is Relation.REPLACE_ONE)

    def sensitivity(self, statistic: Statistic, n_rows: int) -> float:
        """How far one record, or one person, moves the sum of a statistic.

        statistic: What is added up.
        n_rows: The public number of rows, or a public bound on it.
        """
        if self.person is not None:
            return self.person.sensitivity(statistic, self.relation, n_rows)
        return statistic.sensitivity(self.relation, n_rows)

    def gradient(
        self, max_gradient_norm: float, weights: NDArray[np.float64], slope_bits: int = ROW_BITS
    ) -> GradientSum:
        """Return the sum of gradients at some weights, bounded by row and by person.

        max_gradient_norm: Length to which slopes of a row are scaled back.
        weights (n_scores, m): Public weights.
        slope_bits: Slopes are rounded to multiples of ``2**-slope_bits``.
        """
        joined = PerPersonClip.usual(self.person, max_gradient_norm)
        return GradientSum(
            self.loss, max_gradient_norm, weights, joined=joined, slope_bits=slope_bits
        )

    def second_moment(self, n_rows: int = MAX_ROWS_SECRET_N) -> GaussianMechanism | None:
        """Return the release of the second moment, or None without it.

        n_rows: The public number of rows, or a public bound on it.
        """
        if not self.projection_share:
            return None
        moved = self.sensitivity(SecondMoment(self.n_features), max(n_rows, MAX_ROWS_SECRET_N))
        mechanism = GaussianMechanism.from_mu(sensitivity=moved, mu=self._mu(self.projection_share))
        return mechanism.for_size(self.n_features**2)

    # Objective perturbation -----------------------------------------------------------------

    def objective(
        self, size: int, n_rows: int = MAX_MINIMISED
    ) -> GaussianObjectiveMechanism | GammaObjectiveMechanism:
        """Return the perturbation of the objective of `size` weights.

        size: Numbers in W.
        n_rows: The public number of rows, or a public bound on it.
        """
        if math.isinf(self.epsilon) or self.delta:
            multiplier = 0.0 if math.isinf(self.epsilon) else _multiplier(self, size, n_rows)
            return self._gaussian(multiplier, size, n_rows).for_size(size)
        sensitivity = self.loss.sensitivity(self.relation)
        convexity = self._convexity(OBJECTIVE_SHARE * math.sqrt(size) * sensitivity / self.epsilon)
        mechanism = GammaObjectiveMechanism(
            sensitivity=sensitivity,
            kappa=self.loss.log_determinant(convexity),
            strong_convexity=convexity,
            epsilon=self.epsilon,
            size=size,
        )
        return mechanism.with_rounding(
            lambda longest: self._rounding(size, n_rows, longest, convexity),
            lambda longest: max_minimiser(self.loss, n_rows, longest, convexity),
        )

    def _gaussian(self, multiplier: float, size: int, n_rows: int) -> GaussianObjectiveMechanism:
        sensitivity = self.loss.sensitivity(self.relation)
        convexity = self._convexity(OBJECTIVE_SHARE * multiplier * sensitivity)
        longest = norm_quantile("gaussian", size, multiplier * sensitivity)
        return GaussianObjectiveMechanism(
            sensitivity=sensitivity,
            kappa=self.loss.log_determinant(convexity),
            strong_convexity=convexity,
            noise_multiplier=multiplier,
            dimension=self.loss.dimension(self.relation),
            rounding=self._rounding(size, n_rows, longest, convexity),
        )

    def _rounding(self, size: int, n_rows: int, longest: float, convexity: float) -> float:
        n_columns = size // self.loss.n_scores
        return max_rounding(self.loss, n_rows, n_columns, longest, convexity)

    def _events(self, multiplier: float, size: int, n_rows: int) -> Sequence[Event]:
        first = self.second_moment(n_rows)
        paid = [] if first is None else [first.event()]
        return [*paid, self._gaussian(multiplier, size, n_rows).event()]

    # Output perturbation --------------------------------------------------------------------

    def output(
        self, size: int, n_rows: int = MAX_MINIMISED
    ) -> tuple[GaussianMechanism | GammaMechanism, float, float]:
        """Return the noise on the minimiser, the strong convexity Λ and τ that it rests on.

        The minimiser moves by ``D / Λ``; the point found lies within ``τ / Λ`` of it, so moves by
        ``(D + 2 τ) / Λ``. τ is twice the largest rounding of a gradient, or ``2⁻¹⁰ D`` if larger.

        size: Numbers in W.
        n_rows: The public number of rows, or a public bound on it.
        """
        sensitivity = self.loss.sensitivity(self.relation)
        if math.isinf(self.epsilon):
            multiplier = 0.0
        elif self.delta:
            multiplier = 1 / self._mu(1 - self.projection_share)
        else:
            multiplier = math.sqrt(size) / self.epsilon
        convexity = self._convexity(OUTPUT_SHARE * multiplier * sensitivity)
        residual = max(MIN_RESIDUAL * sensitivity, 2 * self._rounding(size, n_rows, 0.0, convexity))
        moved = (sensitivity + 2 * residual) / convexity
        if math.isinf(self.epsilon) or self.delta:
            return GaussianMechanism(moved, multiplier).for_size(size), convexity, residual
        return GammaMechanism(moved, self.epsilon, size), convexity, residual

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
        """Return the release of one gradient of `n_steps`.

        max_gradient_norm: Length to which slopes of a row are scaled back.
        size: Numbers in W.
        n_rows: The public number of rows, or a public bound on it.
        """
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

    def _convexity(self, rule: float) -> float:
        if self.regularization is not None:
            return float(self.regularization)
        return max(rule, MIN_CONVEXITY * self.loss.sensitivity(self.relation))


@lru_cache(maxsize=64)
def _multiplier(budget: LinearBudget, size: int, n_rows: int) -> float:
    return min_noise_multiplier(
        lambda multiplier: budget._events(multiplier, size, n_rows),
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation=budget.relation,
        tolerance=1e-4,
        advice="One row moves the curvature too much with this 'regularization': use a larger one, "
        "or None.",
    )
