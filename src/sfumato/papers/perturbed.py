"""Budgets of perturbed objectives: principal components, then a minimiser.

Everything here is public: what a fit will release, and the noise that its budget allows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.objective import GaussianObjectiveMechanism, norm_quantile
from sfumato.privacy.composition import min_noise_multiplier
from sfumato.privacy.events import Event
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Relation
from sfumato.sums.grid import MAX_ROWS_SECRET_N
from sfumato.sums.statistics import SecondMoment

if TYPE_CHECKING:
    from sfumato.papers.large_margin.ellipsoids import MarginLimits

# Where the number of rows is secret, minimisers are offered for this many: the bound on rounding
# that is paid for grows with this number, and at 2**22 it costs about 1 % more noise.
MAX_MINIMISED = 2**22
# The regulariser Λ of the public rule, in deviations of the noise. Chosen on held-out training rows
# of MNIST among 0.1, 0.25, 0.5 and 1 at epsilon 1 and 10.
NOISE_SHARE = 0.5
MIN_CONVEXITY = 1e-3  # of the sensitivity, for budgets that leave hardly any noise


@dataclass(frozen=True)
class ObjectiveBudget:
    """The releases of a fit: principal components if they have a share, then the minimiser.

    The regulariser of the public rule is `NOISE_SHARE` deviations of the noise on the gradient: it
    grows with the noise that it must hold down and needs no number of rows.
    """

    epsilon: float
    delta: float
    relation: Relation
    limits: MarginLimits
    n_features: int
    n_rows: int  # the public number, or a public bound on it
    pca_share: float  # of mu²; 0 without components
    regularization: float | None

    def components(self) -> GaussianMechanism | None:
        """Return the release of the second moment, or None without principal components."""
        if not self.pca_share:
            return None
        mu = math.inf
        if math.isfinite(self.epsilon):
            mu = mu_from_budget(self.epsilon, self.delta) * math.sqrt(self.pca_share)
        most = max(self.n_rows, MAX_ROWS_SECRET_N)
        moved = SecondMoment(self.n_features).sensitivity(self.relation, most)
        return GaussianMechanism.from_mu(sensitivity=moved, mu=mu)

    def objective(self) -> GaussianObjectiveMechanism:
        """Return the release of the minimiser, with all of the budget that is left."""
        multiplier = 0.0 if math.isinf(self.epsilon) else _multiplier(self)
        return self._gaussian(multiplier).for_size(self.limits.size)

    def _gaussian(self, multiplier: float) -> GaussianObjectiveMechanism:
        sensitivity = self.limits.sensitivity(self.relation)
        deviation = multiplier * sensitivity
        convexity = max(NOISE_SHARE * deviation, MIN_CONVEXITY * sensitivity)
        if self.regularization is not None:
            convexity = float(self.regularization)
        longest = norm_quantile(self.limits.size, deviation)
        return GaussianObjectiveMechanism(
            sensitivity=sensitivity,
            kappa=self.limits.log_determinant(convexity),
            strong_convexity=convexity,
            noise_multiplier=multiplier,
            dimension=self.limits.dimension(self.relation),
            rounding=self.limits.rounding(longest, convexity),
        )

    def _events(self, multiplier: float) -> list[Event]:
        releases = filter(None, (self.components(), self._gaussian(multiplier)))
        return [mechanism.event() for mechanism in releases]


@lru_cache(maxsize=64)
def _multiplier(budget: ObjectiveBudget) -> float:
    return min_noise_multiplier(
        budget._events,
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation=budget.relation,
        tolerance=1e-6,
        advice="One record moves the curvature too much with this 'regularization': use a larger "
        "one, or None.",
    )
