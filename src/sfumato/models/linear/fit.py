"""Private linear weights from records: a projection, then a descent along noisy gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array, is_accelerated
from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Receipt
from sfumato.mechanisms.base import Mechanism, Repeated
from sfumato.mechanisms.gaussian import GaussianMechanism, Releases, prefetch_noise
from sfumato.models.gaussians import top_eigenvectors
from sfumato.models.linear.budget import LinearBudget
from sfumato.models.linear.rows import whitening_projection
from sfumato.sums.gradients import coarse_bits, on_weight_grid
from sfumato.sums.grid import ROW_BITS
from sfumato.sums.losses import Loss
from sfumato.sums.maps import LinearRows
from sfumato.sums.records import Records
from sfumato.sums.singles import ScoreWeights
from sfumato.sums.statistics import ClassCounts, SecondMoment

# Public rule for the step: noise alone would move the score of a row of length 1 by this many
# units. Chosen, with clip and n_steps, on held-out training rows of two image sets at four budgets
# and under both relations: best within noise everywhere among 0.4, 0.8, 1.6, 3.2 and 6.4.
SCORE_NOISE = 1.6
MOMENTUM, AVERAGED = 0.9, 0.5
MAX_STEP = 32.0  # of the learning rate times clip, where there is hardly any noise

Weights = NDArray[np.float64]


@dataclass(frozen=True)
class Descent:
    """The public settings of a descent.

    n_steps: T, the number of gradients released.
    learning_rate: Step along the mean gradient.
    momentum: Share of the last move that is made again.
    averaged: Share of the steps, the last ones, whose weights are averaged.
    """

    n_steps: int
    learning_rate: float
    momentum: float
    averaged: float

    @classmethod
    def by_noise(
        cls,
        n_steps: int,
        noise: float,
        *,
        score_noise: float,
        largest: float,
        momentum: float = MOMENTUM,
    ) -> Self:
        """Return the step at which noise moves the score of a unit row by `score_noise`."""
        total = math.sqrt(n_steps) * noise
        rate = min(score_noise * (1 - momentum) / total, largest) if total else largest
        return cls(n_steps, rate, momentum, AVERAGED)


@dataclass(frozen=True)
class LinearSettings:
    """The public settings of a fit.

    n_components: Columns of the projection, or all features.
    whiten: Scale the components to equal spread.
    intercept: Append a constant to the rows.
    n_steps, learning_rate, momentum, max_gradient_norm: Of the descent; a learning
        rate of None is found by a public rule, and no slope of the loss is longer than the norm.
    """

    n_components: int
    whiten: bool
    intercept: bool
    n_steps: int
    learning_rate: float | None
    momentum: float
    max_gradient_norm: float


@dataclass(frozen=True)
class LinearPlan:
    """The releases of a fit, in the order of the draws; everything in it is public.

    `first` is None where rows are not projected, `counter` where their number is public.
    """

    settings: LinearSettings
    budget: LinearBudget
    first: GaussianMechanism | None
    counter: GaussianMechanism | None
    last: Repeated

    @classmethod
    def of(
        cls, budget: LinearBudget, settings: LinearSettings, n_rows: int, *, is_secret: bool
    ) -> Self:
        """Divide the budget between the releases."""
        size = budget.loss.n_scores * (settings.n_components + settings.intercept)
        first = budget.second_moment(n_rows)
        gradients = budget.gradients(settings.max_gradient_norm, settings.n_steps, size, n_rows)
        counter = budget.count() if is_secret else None
        return cls(settings, budget, first, counter, Repeated(gradients, settings.n_steps))

    @property
    def loss(self) -> Loss:
        """The loss of a row."""
        return self.budget.loss

    def mechanisms(self) -> list[Mechanism]:
        """List those in use."""
        return [each for each in (self.first, self.counter, self.last) if each is not None]

    def prefetch_noise(self, n_features: int) -> AbstractContextManager[None]:
        """Draw the noise of a descent in other threads, from the charge on."""
        width = self.settings.n_components + self.settings.intercept
        mechanism: Any = self.last.mechanism
        gradients = Releases(mechanism, (self.loss.n_scores, width), self.settings.n_steps)
        if self.first is None:
            return prefetch_noise(gradients)
        moment = Releases(self.first, (n_features, n_features), is_symmetric=True)
        return prefetch_noise(moment, gradients)

    def row_map(self, n_features: int, projection: Array) -> LinearRows:
        """Return the map of rows of the unit ball to those of the classifier."""
        settings = self.settings
        return LinearRows(n_features, settings.intercept, projection, settings.whiten)


def release_projection(
    records: Records, plan: LinearPlan, receipt: Receipt, device: Array = None
) -> Array:
    """Release the second moment if one is asked for, and return the projection by it."""
    if plan.first is None:
        return None
    stays = is_accelerated(device) and plan.settings.whiten and records.person is None
    release = records.release_there if stays else records.release
    moment = release(SecondMoment(records.width), plan.first, receipt)
    kept = plan.settings.n_components
    if plan.settings.whiten:
        return whitening_projection(moment, kept, math.sqrt(records.variance_of(plan.first)))
    return top_eigenvectors(moment, kept)[1]


def fit_weights(records: Records, plan: LinearPlan, receipt: Receipt) -> Weights:
    """Learn private weights."""
    # Rows of length 1 lose nothing by a coarser grid, others might.
    kept = records.cache_float32() if plan.settings.whiten else records.cache()
    return _by_noisy_descent(kept, plan, receipt)


def split_weights(weights: Weights, *, intercept: bool) -> tuple[Weights, Weights]:
    """Return the weights of a row and those of its constant, which are zeros without one."""
    if not intercept:
        return weights, np.zeros(len(weights))
    return np.ascontiguousarray(weights[:, :-1]), weights[:, -1].copy()


def descend(
    noisy_gradient: Callable[[Weights], Weights],
    shape: tuple[int, int],
    n_rows: float,
    plan: Descent,
) -> Weights:
    """Descend from zero along released gradients; return the average of the last weights."""
    weights, move, total = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    first_averaged = int(plan.n_steps * (1 - plan.averaged))
    for step in range(plan.n_steps):
        gradient = noisy_gradient(weights) / n_rows
        move = plan.momentum * move - plan.learning_rate * gradient
        weights = on_weight_grid(weights + move)
        if step >= first_averaged:
            total += weights
    return total / (plan.n_steps - first_averaged)


def check_steps(n_steps: Any, max_gradient_norm: float) -> None:
    """Check the settings of the descent."""
    if isinstance(n_steps, bool) or not isinstance(n_steps, int | np.integer) or n_steps < 1:
        raise InvalidInputError(f"'n_steps' must be an integer >= 1. Got {n_steps!r}.")
    if not 0 < max_gradient_norm < 2:
        raise InvalidInputError(
            f"'max_gradient_norm' must lie between 0 and 2. Got {max_gradient_norm} instead."
        )


def _by_noisy_descent(records: Records, plan: LinearPlan, receipt: Receipt) -> Weights:
    """Descend along noisy gradients."""
    n_rows = float(records.public_rows or 0)
    if plan.counter is not None:
        counts = records.release(ClassCounts(plan.loss.n_classes), plan.counter, receipt)
        n_rows = max(1.0, float(counts.sum()))
    gradients = plan.last.mechanism
    longest = plan.settings.max_gradient_norm
    is_coarse = plan.settings.whiten  # rows are kept in single precision
    bits = coarse_bits(plan.loss, longest) if is_coarse else ROW_BITS

    def noisy_gradient(weights: Weights) -> Weights:
        at = ScoreWeights(weights).rounded if is_coarse else weights
        statistic = plan.budget.gradient(longest, at, bits)
        return records.release(statistic, gradients, receipt)  # [L6] a noisy gradient

    shape = (plan.loss.n_scores, records.width)
    noise = math.sqrt(records.variance_of(gradients)) / n_rows
    descent = _descent(plan.settings, noise)
    return descend(noisy_gradient, shape, n_rows, descent)


def _descent(settings: LinearSettings, noise: float) -> Descent:
    """The step by a public rule: noise moves the score of a unit row by SCORE_NOISE."""
    found = Descent.by_noise(
        settings.n_steps,
        noise,
        score_noise=SCORE_NOISE,
        largest=MAX_STEP / settings.max_gradient_norm,
        momentum=settings.momentum,
    )
    rate = settings.learning_rate
    return found if rate is None else replace(found, learning_rate=rate)
