"""Private linear weights from records: a projection, then one of three algorithms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.receipt import Receipt
from sfumato.kernels.arrays import Array
from sfumato.margins.linear_budget import LinearBudget, Repeated
from sfumato.margins.losses import Loss
from sfumato.margins.noisy_gradient import Descent, GradientSum, descend
from sfumato.margins.objective import LinearObjective
from sfumato.margins.rows import LinearRows
from sfumato.margins.whitening import whitening_projection
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.mechanisms.minimiser import near_minimiser
from sfumato.moments.pca import top_eigenvectors
from sfumato.sums.records import Records, rows_in_memory
from sfumato.sums.statistics import ClassCounts, SecondMoment

__all__ = ["SOLVERS", "LinearPlan", "LinearSettings", "fit_weights", "release_projection"]

SOLVERS = ("noisy-gd", "objective", "output")
# Public rule for the step: noise alone would move the score of a row of length 1 by this many
# units. Chosen, with clip and n_steps, on held-out training rows of two image sets at four budgets
# and under both relations: best within noise everywhere among 0.4, 0.8, 1.6, 3.2 and 6.4.
SCORE_NOISE = 1.6
LARGEST_STEP = 32.0  # of the learning rate times clip, where there is hardly any noise
AVERAGED = 0.5
EXACT = 1e-6  # gradient norm of a minimiser without privacy

Weights = NDArray[np.float64]


@dataclass(frozen=True)
class LinearSettings:
    """The public settings of a fit.

    Parameters
    ----------
    solver : {"noisy-gd", "objective", "output"}
        Which algorithm.
    n_components : int
        Columns of the projection, or all features.
    whiten : bool
        Scale the components to equal spread.
    intercept : bool
        Append a constant to the rows.
    n_steps, learning_rate, momentum, clip
        Of the descent; a learning rate of None is found by a public rule.
    """

    solver: str
    n_components: int
    whiten: bool
    intercept: bool
    n_steps: int
    learning_rate: float | None
    momentum: float
    clip: float


@dataclass(frozen=True)
class LinearPlan:
    """The releases of a fit, in the order of the draws; everything in it is public.

    `first` is None where rows are not projected, `counter` where their number is public.
    """

    settings: LinearSettings
    budget: LinearBudget
    first: GaussianMechanism | None
    counter: GaussianMechanism | None
    last: Any
    convexity: float = 0.0
    residual: float = 0.0

    @classmethod
    def of(
        cls, budget: LinearBudget, settings: LinearSettings, n_rows: int, *, is_secret: bool
    ) -> Self:
        """Divide the budget between the releases.

        Parameters
        ----------
        budget : LinearBudget
            What the releases depend on.
        settings : LinearSettings
            The public settings.
        n_rows : int
            The public number of rows, or the public bound on it.
        is_secret : bool
            Whether the number of rows is secret; a descent then releases the sizes of classes.
        """
        size = budget.loss.n_scores * (settings.n_components + settings.intercept)
        first = budget.second_moment()
        if settings.solver == "objective":
            return cls(settings, budget, first, None, budget.objective(size, n_rows))
        if settings.solver == "output":
            mechanism, convexity, residual = budget.output(size, n_rows)
            return cls(settings, budget, first, None, mechanism, convexity, residual)
        gradients = budget.gradients(settings.clip, settings.n_steps, size, n_rows)
        counter = budget.count() if is_secret else None
        return cls(settings, budget, first, counter, Repeated(gradients, settings.n_steps))

    @property
    def loss(self) -> Loss:
        """The loss of a row."""
        return self.budget.loss

    def mechanisms(self) -> list[Mechanism]:
        """List those in use."""
        return [each for each in (self.first, self.counter, self.last) if each is not None]

    def after_projection(self) -> LinearPlan:
        """Give the plan without its first release, which was made and paid for elsewhere."""
        return replace(self, first=None)

    def row_map(self, n_features: int, projection: NDArray[np.float64] | None) -> LinearRows:
        """Give the map of rows of the unit ball to those of the classifier."""
        settings = self.settings
        return LinearRows(n_features, settings.intercept, projection, settings.whiten)


def release_projection(
    records: Records, plan: LinearPlan, receipt: Receipt, device: Array = None
) -> NDArray[np.float64] | None:
    """Release the second moment if one is asked for, and give the projection by it.

    Parameters
    ----------
    records : Records
        Rows of the unit ball.
    plan : LinearPlan
        What is released.
    receipt : Receipt
        Proof that it was paid for.
    device : array, optional
        Rows on an accelerator, where eigenvectors are found then.
    """
    if plan.first is None:
        return None
    moment = records.release(SecondMoment(records.width), plan.first, receipt)
    kept = plan.settings.n_components
    if plan.settings.whiten:
        return whitening_projection(moment, kept, math.sqrt(plan.first.variance()), device)
    return top_eigenvectors(moment, kept)[1]


def fit_weights(records: Records, plan: LinearPlan, receipt: Receipt) -> Weights:
    """Learn private weights.

    Parameters
    ----------
    records : Records
        Rows of the classifier, see `LinearPlan.row_map`.
    plan : LinearPlan
        What is released.
    receipt : Receipt
        Proof that it was paid for.

    Returns
    -------
    ndarray of shape (n_scores, n_columns)
        W.
    """
    if plan.settings.solver == "noisy-gd":
        return _by_noisy_descent(records.kept(), plan, receipt)
    rows, codes = rows_in_memory(records.kept(np.float64))
    objective = LinearObjective(plan.loss, rows, plan.loss.targets(codes, rows))
    if plan.settings.solver == "objective":
        minimiser: Weights = plan.last.release(objective, ledger=receipt)  # [L4] the minimiser
        return minimiser
    released: Weights = plan.last.release(  # [L5] the minimiser with noise
        _minimiser(objective, plan), ledger=receipt
    )
    return released


def _by_noisy_descent(records: Records, plan: LinearPlan, receipt: Receipt) -> Weights:
    """Descend along noisy gradients."""
    n_rows = float(records.public_rows or 0)
    if plan.counter is not None:
        counts = records.release(ClassCounts(plan.loss.n_classes), plan.counter, receipt)
        n_rows = max(1.0, float(counts.sum()))
    gradients, clip = plan.last.mechanism, plan.budget.slope_limit(plan.settings.clip)

    def released_gradient(weights: Weights) -> Weights:
        statistic = GradientSum(plan.loss, clip, weights)
        return records.release(statistic, gradients, receipt)  # [L6] a noisy gradient

    shape = (plan.loss.n_scores, records.width)
    descent = _descent(plan.settings, clip, gradients, n_rows)
    return descend(released_gradient, shape, n_rows, descent)


def _descent(
    settings: LinearSettings, clip: float, gradients: GaussianMechanism, n_rows: float
) -> Descent:
    """The step by a public rule: noise moves the score of a unit row by SCORE_NOISE."""
    rate = settings.learning_rate
    if rate is None:
        noise = math.sqrt(settings.n_steps * gradients.variance()) / n_rows
        largest = LARGEST_STEP / clip
        wanted = SCORE_NOISE * (1 - settings.momentum) / noise if noise else largest
        rate = min(wanted, largest)
    return Descent(settings.n_steps, rate, settings.momentum, AVERAGED)


def _minimiser(objective: LinearObjective, plan: LinearPlan) -> Any:
    """Give a point within ``residual / convexity`` of the minimiser, whatever the rows are."""
    linear = np.zeros(objective.shape)
    if math.isinf(plan.budget.epsilon):  # nothing is promised, so nothing need be certain
        return objective.minimise(linear, plan.convexity, EXACT)
    return near_minimiser(objective, linear, plan.convexity, plan.residual)
