"""From a budget to the releases of the private large-margin classifier."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.minimiser import norm_quantile
from sfumato.mechanisms.objective import GammaObjectiveMechanism, GaussianObjectiveMechanism
from sfumato.models.linear.rows import MAX_MINIMISED
from sfumato.papers.large_margin.losses import MarginLoss
from sfumato.papers.large_margin.solvers import MarginLimits
from sfumato.privacy.calibrate import min_noise_multiplier
from sfumato.privacy.events import Event
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Relation
from sfumato.sums.grid import MAX_ROWS_SECRET_N
from sfumato.sums.statistics import SecondMoment

# The regulariser Λ of the public rule, in deviations of the linear noise term: it grows with the
# noise that it must hold down and needs no number of rows. Chosen on held-out training rows of
# MNIST among 0.1, 0.25, 0.5 and 1 at epsilon 1 and 10.
NOISE_SHARE = 0.5
MIN_CONVEXITY = 1e-3  # of the rule, for budgets that leave hardly any noise


@dataclass(frozen=True)
class LargeMarginBudget:
    """What the releases depend on; all of it is public.

    epsilon, delta: The budget; delta 0 asks for pure epsilon.
    relation: The neighbours.
    loss: The loss of a record.
    n_classes: C.
    order: Rows of one matrix Φ, one more than the features that are classified in.
    pca_share: Share of ``mu²`` for the principal components; 0 without them.
    regularization: Λ; None for the public rule.
    n_rows: The public number of rows, or a public bound on it.
    n_features: Numbers of a row.
    """

    epsilon: float
    delta: float
    relation: Relation
    loss: MarginLoss
    n_classes: int
    order: int
    pca_share: float
    regularization: float | None
    n_rows: int = MAX_MINIMISED
    n_features: int = 1

    def components(self) -> GaussianMechanism | None:
        """Return the release of the second moment, or None without principal components."""
        if not self.pca_share:
            return None
        mu = mu_from_budget(self.epsilon, self.delta) * math.sqrt(self.pca_share)
        most = max(self.n_rows, MAX_ROWS_SECRET_N)
        moved = SecondMoment(self.n_features).sensitivity(self.relation, most)
        return GaussianMechanism.from_mu(sensitivity=moved, mu=mu)

    def ellipsoids(self) -> GaussianObjectiveMechanism | GammaObjectiveMechanism:
        """Return the release of the matrices, with all of the budget that is left."""
        if self.delta == 0 and math.isfinite(self.epsilon):
            return self._pure().for_size(self._size)
        multiplier = 0.0 if math.isinf(self.epsilon) else _multiplier(self)
        return self._gaussian(multiplier).for_size(self._size)

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
            rounding=self._rounding(
                norm_quantile("gaussian", self._size, multiplier * self.sensitivity), convexity
            ),
        )

    def _pure(self) -> GammaObjectiveMechanism:
        convexity = self._convexity(math.sqrt(self._size) * self.sensitivity / self.epsilon)
        mechanism = GammaObjectiveMechanism(
            sensitivity=self.sensitivity,
            kappa=curvature_bound(self.loss, self.n_classes, convexity),
            strong_convexity=convexity,
            epsilon=self.epsilon,
            size=self._size,
        )
        return mechanism.with_rounding(
            lambda longest: self._rounding(longest, convexity),
            lambda longest: self._limits.farthest(longest, convexity),
        )

    @property
    def _size(self) -> int:
        return self.n_classes * self.order * (self.order + 1) // 2

    @property
    def _limits(self) -> MarginLimits:
        return MarginLimits(self.loss, self.n_classes, self.n_rows, self._size // self.n_classes)

    def _rounding(self, longest: float, convexity: float) -> float:
        return self._limits.rounding(longest, convexity)

    def _convexity(self, deviation: float) -> float:
        if self.regularization is not None:
            return float(self.regularization)
        return max(NOISE_SHARE * deviation, MIN_CONVEXITY * self.sensitivity)

    def _events(self, multiplier: float) -> list[Event]:
        releases = filter(None, (self.components(), self._gaussian(multiplier)))
        return [mechanism.event() for mechanism in releases]


@lru_cache(maxsize=64)
def _multiplier(budget: LargeMarginBudget) -> float:
    return min_noise_multiplier(
        budget._events,
        epsilon=budget.epsilon,
        delta=budget.delta,
        relation=budget.relation,
        tolerance=1e-6,
        advice="One record moves the curvature too much with this 'regularization': use a larger "
        "one, or None.",
    )


# How far one record can move the gradient and the curvature of the large-margin objective ---------


def gradient_sensitivity(n_classes: int, relation: str | Relation) -> float:
    """Largest change of the joint gradient over all classes, C of them.

    The own class has the slope ``sum g_c``, the others ``-g_c``, ``0 <= g_c <= 1``. A
    record is worth ``√(C(C-1))`` at most; replacing it moves the gradient by ``√2 C`` at most,
    attained by the same row with another label where all slopes are 1.
    """
    if Relation(relation) is Relation.REPLACE_ONE:
        return math.sqrt(2) * n_classes
    return math.sqrt(n_classes * (n_classes - 1))


def gradient_directions(n_classes: int, relation: str | Relation) -> int:
    """Dimension of a space that holds the change: ``C - 1`` for each record that changes."""
    records = 2 if Relation(relation) is Relation.REPLACE_ONE else 1
    return records * (n_classes - 1)


def curvature_bound(loss: MarginLoss, n_classes: int, strong_convexity: float) -> float:
    """Largest ``log det(I + Hess l / Λ)`` of one record, whose Hessian is ``H ⊗ vec(A) vec(A)ᵀ``.

    H is at most w times the Laplacian of a star of C classes, w the largest curvature:
    eigenvalues ``w C``, ``w`` (C - 2 times) and 0.
    """
    share = loss.max_curvature / strong_convexity
    return math.log1p(n_classes * share) + (n_classes - 2) * math.log1p(share)
