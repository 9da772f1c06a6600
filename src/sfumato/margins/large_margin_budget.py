"""From a budget to the releases of the private large-margin classifier."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from scipy.optimize import brentq

from sfumato.accounting.composition import epsilon_spent
from sfumato.accounting.gaussian import mu_from_budget
from sfumato.events import Event
from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Relation
from sfumato.margins.large_margin_losses import MarginLoss
from sfumato.margins.large_margin_sensitivity import (
    curvature_bound,
    gradient_directions,
    gradient_sensitivity,
)
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.objective import GammaObjectiveMechanism, GaussianObjectiveMechanism
from sfumato.moments.sensitivity import second_moment_sensitivity

__all__ = ["LargeMarginBudget"]

# The regulariser Λ of the public rule, in deviations of the linear noise term: it grows with the
# noise that it must hold down and needs no number of rows. Chosen on held-out training rows of
# MNIST among 0.1, 0.25, 0.5 and 1 at epsilon 1 and 10.
NOISE_SHARE = 0.5
LEAST_CONVEXITY = 1e-3  # of the rule, for budgets that leave hardly any noise
LARGEST_LOG_MULTIPLIER = 30.0
SAFE_STEP = 1e-7


@dataclass(frozen=True)
class LargeMarginBudget:
    """What the releases depend on; all of it is public.

    Parameters
    ----------
    epsilon, delta : float
        The budget; delta 0 asks for pure epsilon.
    relation : Relation
        The neighbours.
    loss : MarginLoss
        The loss of a record.
    n_classes : int
        C.
    order : int
        Rows of one matrix Φ, one more than the features that are classified in.
    pca_share : float
        Share of ``mu²`` for the principal components; 0 without them.
    regularization : float or None
        Λ; None for the public rule.
    """

    epsilon: float
    delta: float
    relation: Relation
    loss: MarginLoss
    n_classes: int
    order: int
    pca_share: float
    regularization: float | None

    def components(self) -> GaussianMechanism | None:
        """Give the release of the second moment, or None without principal components."""
        if not self.pca_share:
            return None
        mu = mu_from_budget(self.epsilon, self.delta) * math.sqrt(self.pca_share)
        return GaussianMechanism.from_mu(
            sensitivity=second_moment_sensitivity(self.relation), mu=mu
        )

    def ellipsoids(self) -> GaussianObjectiveMechanism | GammaObjectiveMechanism:
        """Give the release of the matrices, with all of the budget that is left."""
        if self.delta == 0 and math.isfinite(self.epsilon):
            return self._pure()
        multiplier = 0.0 if math.isinf(self.epsilon) else _multiplier(self)
        return self._gaussian(multiplier)

    @property
    def sensitivity(self) -> float:
        """D, of the joint gradient."""
        return gradient_sensitivity(self.n_classes, self.relation)

    def _gaussian(self, multiplier: float) -> GaussianObjectiveMechanism:
        convexity = self._convexity(self.sensitivity * multiplier)
        return GaussianObjectiveMechanism(
            sensitivity=self.sensitivity,
            kappa=curvature_bound(self.loss, self.n_classes, convexity),
            strong_convexity=convexity,
            noise_multiplier=multiplier,
            dimension=gradient_directions(self.n_classes, self.relation),
        )

    def _pure(self) -> GammaObjectiveMechanism:
        size = self.n_classes * self.order * (self.order + 1) // 2
        convexity = self._convexity(math.sqrt(size) * self.sensitivity / self.epsilon)
        return GammaObjectiveMechanism(
            sensitivity=self.sensitivity,
            kappa=curvature_bound(self.loss, self.n_classes, convexity),
            strong_convexity=convexity,
            epsilon=self.epsilon,
            size=size,
        )

    def _convexity(self, deviation: float) -> float:
        if self.regularization is not None:
            return float(self.regularization)
        return max(NOISE_SHARE * deviation, LEAST_CONVEXITY * self.sensitivity)

    def _events(self, multiplier: float) -> list[Event]:
        releases = filter(None, (self.components(), self._gaussian(multiplier)))
        return [mechanism.event() for mechanism in releases]

    def cost(self, multiplier: float) -> float:
        """Epsilon of all releases with this noise multiplier of the linear term."""
        return epsilon_spent(self._events(multiplier), self.delta, self.relation)


@lru_cache(maxsize=64)
def _multiplier(budget: LargeMarginBudget) -> float:
    """Least noise multiplier of the linear term that keeps the budget, from the safe side."""

    def excess(log_multiplier: float) -> float:
        share = budget.cost(math.exp(log_multiplier)) / budget.epsilon
        return max(-30.0, min(30.0, math.log(share) if share > 0 else -30.0))

    # For small epsilon the loss is near (√m + 5)/r, for large epsilon near 1/(2r²).
    near = (math.sqrt(2 * budget.n_classes) + 5) / budget.epsilon
    high = low = math.log(max(near, 1 / math.sqrt(2 * budget.epsilon)))
    while excess(high) > 0:
        high += 1.0
        if high > LARGEST_LOG_MULTIPLIER:
            raise InvalidInputError(
                f"No noise keeps epsilon {budget.epsilon:g} at delta {budget.delta:g} with this "
                "'regularization': one record moves the curvature too much. Use a larger one, or "
                "None."
            )
    while excess(low) < 0:
        low -= 1.0
    kept = math.exp(brentq(excess, low, high, xtol=1e-7) if low < high else low)
    while budget.cost(kept) > budget.epsilon:
        kept *= 1 + SAFE_STEP
    return kept
