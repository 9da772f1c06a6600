"""From a budget to the releases of a private linear classifier; everything here is public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sfumato.accounting.calibrate import calibrate
from sfumato.accounting.composition import epsilon_spent
from sfumato.accounting.gaussian import mu_from_budget
from sfumato.events import Event, RepeatedEvent
from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Relation
from sfumato.margins.losses import Loss
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.gamma import GammaMechanism
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.objective import GammaObjectiveMechanism, GaussianObjectiveMechanism
from sfumato.moments.sensitivity import second_moment_sensitivity

__all__ = ["LinearBudget", "Repeated"]

# The regulariser of the public rules, in deviations of the noise on the gradient: it grows with the
# noise that it must hold down and needs no number of rows.
OBJECTIVE_SHARE = 0.25
OUTPUT_SHARE = 1.0
LEAST_CONVEXITY = 1e-3  # of the sensitivity, for budgets that leave hardly any noise
COUNT_SHARE = 1e-3  # of mu², for the size of each class where the number of rows is secret
TOLERANCE = 1e-6  # gradient norm of a certified minimiser, in sensitivities
LARGEST_MULTIPLIER = 2.0**40


@dataclass(frozen=True)
class Repeated(Mechanism):
    """A mechanism used `count` times, as it is paid for: one event that says so."""

    mechanism: Mechanism
    count: int

    def event(self) -> Event:
        """Describe all the releases without data."""
        return RepeatedEvent(self.mechanism.event(), self.count)

    def variance(self) -> float:
        """Variance of the noise on one coordinate of one release."""
        return self.mechanism.variance()


@dataclass(frozen=True)
class LinearBudget:
    """What the releases depend on.

    Parameters
    ----------
    epsilon, delta : float
        The budget; delta 0 asks for pure epsilon.
    relation : Relation
        The neighbours.
    loss : Loss
        The loss of a row.
    projection_share : float
        Share of ``mu²`` for the second moment; 0 without it.
    regularization : float or None
        Strong convexity of the objective; None for the public rule.
    """

    epsilon: float
    delta: float
    relation: Relation
    loss: Loss
    projection_share: float = 0.0
    regularization: float | None = None

    def second_moment(self) -> GaussianMechanism | None:
        """Give the release of the second moment, or None without it."""
        if not self.projection_share:
            return None
        mu = self._mu(self.projection_share)
        return GaussianMechanism.from_mu(
            sensitivity=second_moment_sensitivity(self.relation), mu=mu
        )

    # Objective perturbation -----------------------------------------------------------------

    def objective(self, size: int) -> GaussianObjectiveMechanism | GammaObjectiveMechanism:
        """Give the perturbation of the objective of `size` weights."""
        sensitivity = self.loss.sensitivity(self.relation)
        if math.isinf(self.epsilon) or self.delta:
            multiplier = 0.0 if math.isinf(self.epsilon) else _least_multiplier(self)
            return self._gaussian(multiplier)
        convexity = self._convexity(OBJECTIVE_SHARE * math.sqrt(size) * sensitivity / self.epsilon)
        return GammaObjectiveMechanism(
            sensitivity=sensitivity,
            kappa=self.loss.log_determinant(convexity),
            strong_convexity=convexity,
            epsilon=self.epsilon,
            size=size,
        )

    def _gaussian(self, multiplier: float) -> GaussianObjectiveMechanism:
        sensitivity = self.loss.sensitivity(self.relation)
        convexity = self._convexity(OBJECTIVE_SHARE * multiplier * sensitivity)
        return GaussianObjectiveMechanism(
            sensitivity=sensitivity,
            kappa=self.loss.log_determinant(convexity),
            strong_convexity=convexity,
            noise_multiplier=multiplier,
            dimension=self.loss.dimension(self.relation),
        )

    def _events(self, multiplier: float) -> Sequence[Event]:
        first = self.second_moment()
        paid = [] if first is None else [first.event()]
        return [*paid, self._gaussian(multiplier).event()]

    # Output perturbation --------------------------------------------------------------------

    def output(self, size: int) -> tuple[GaussianMechanism | GammaMechanism, float]:
        """Give the noise on the minimiser, and the strong convexity that it rests on.

        The minimiser moves by ``D / convexity``, a certified one by twice its error more.
        """
        sensitivity = self.loss.sensitivity(self.relation)
        if math.isinf(self.epsilon) or self.delta:
            multiplier = (
                0.0 if math.isinf(self.epsilon) else 1 / self._mu(1 - self.projection_share)
            )
            convexity = self._convexity(OUTPUT_SHARE * multiplier * sensitivity)
            moved = sensitivity * (1 + 2 * TOLERANCE) / convexity
            return GaussianMechanism(moved, multiplier), convexity
        convexity = self._convexity(OUTPUT_SHARE * math.sqrt(size) * sensitivity / self.epsilon)
        moved = sensitivity * (1 + 2 * TOLERANCE) / convexity
        return GammaMechanism(moved, self.epsilon, size), convexity

    # Noisy gradient descent -----------------------------------------------------------------

    def count(self) -> GaussianMechanism | None:
        """Give the release of the class sizes, or None where the number of rows is public."""
        if self.relation is Relation.REPLACE_ONE:
            return None
        return GaussianMechanism.from_mu(sensitivity=1.0, mu=self._mu(COUNT_SHARE))

    def gradients(self, clip: float, n_steps: int) -> GaussianMechanism:
        """Give the release of one gradient of `n_steps`, slopes clipped at `clip`."""
        counted = 0.0 if self.relation is Relation.REPLACE_ONE else COUNT_SHARE
        mu = self._mu((1 - self.projection_share - counted) / n_steps)
        sensitivity = clip * (2 if self.relation is Relation.REPLACE_ONE else 1)
        return GaussianMechanism.from_mu(sensitivity=sensitivity, mu=mu)

    # Shared ---------------------------------------------------------------------------------

    def _mu(self, share: float) -> float:
        """Give the part of mu that belongs to a share of mu²."""
        return mu_from_budget(self.epsilon, self.delta) * math.sqrt(share)

    def _convexity(self, rule: float) -> float:
        if self.regularization is not None:
            return float(self.regularization)
        return max(rule, LEAST_CONVEXITY * self.loss.sensitivity(self.relation))


@lru_cache(maxsize=64)
def _least_multiplier(budget: LinearBudget) -> float:
    """Least noise multiplier of the linear term that keeps the budget."""

    def keeps(multiplier: float) -> bool:
        events = budget._events(multiplier)
        spent = epsilon_spent(events, budget.delta, budget.relation, enough=budget.epsilon)
        return spent <= budget.epsilon

    kept = 1.0
    while not keeps(kept):
        kept *= 2
        if kept > LARGEST_MULTIPLIER:
            raise InvalidInputError(
                f"No noise keeps epsilon {budget.epsilon:g} at delta {budget.delta:g} with this "
                "'regularization': one row moves the curvature too much. Use a larger one, or "
                "None."
            )
    passed = kept / 2
    while passed > 1 / LARGEST_MULTIPLIER and keeps(passed):
        kept, passed = passed, passed / 2
    return calibrate(
        budget._events,
        epsilon=budget.epsilon,
        delta=budget.delta,
        bracket=(kept, passed),
        relation=budget.relation,
        tolerance=1e-4,
    )
