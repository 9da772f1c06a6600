"""Gradient descent on all rows, every gradient released with Gaussian noise.

Each row is treated alone and exactly: rows are multiples of 2**-18 and weights of 2**-25, so that
scores are exact doubles; slopes are cut to multiples of 2**-18, and the products are summed
exactly (`sfumato.sums`). What is released is therefore the exact real sum of terms that depend on
one row each, in whatever order the machine adds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.guarantee import Relation
from sfumato.kernels.arrays import Array, like, namespace_of
from sfumato.margins.losses import Loss, over_scores
from sfumato.sums.grid import ROW_BITS, cut
from sfumato.sums.maps import HAIR
from sfumato.sums.statistics import Statistic

__all__ = ["Descent", "GradientSum", "descend", "on_weight_grid"]

WEIGHT_BITS = 25
LARGEST_WEIGHTS = 2.0**10  # ROW_BITS + WEIGHT_BITS + 10 = 53 bits of a double

Weights = NDArray[np.float64]


@dataclass(frozen=True)
class Descent:
    """The public settings of a descent.

    Parameters
    ----------
    n_steps : int
        T, the number of gradients released.
    learning_rate : float
        Step along the mean gradient.
    momentum : float
        Share of the last move that is made again.
    averaged : float
        Share of the steps, the last ones, whose weights are averaged.
    """

    n_steps: int
    learning_rate: float
    momentum: float
    averaged: float


@dataclass(frozen=True, eq=False)
class GradientSum(Statistic):
    """``sum_i g_i aᵢᵀ`` with the slopes g of a row's loss, scaled back to length `clip`.

    A term is at most `clip` long. Adding or removing a row moves the sum by that, replacing one by
    twice as much.

    Parameters
    ----------
    loss : Loss
        The loss of a row.
    clip : float
        Largest length of the slopes of a row, below 2.
    weights : ndarray of shape (n_scores, m)
        As `on_weight_grid` gives them; rows are multiples of ``2**-ROW_BITS`` in the unit ball.
    """

    loss: Loss
    clip: float
    weights: Weights = field(repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the weights."""
        return self.weights.shape

    @property
    def largest_term(self) -> float:
        """The length of the slopes: numbers of a row are 1 at most."""
        return self.clip

    def add_up(self, rows: Array, codes: NDArray[np.intp]) -> Array:
        """Add up clipped slopes times rows."""
        scores = rows @ like(rows, np.ascontiguousarray(self.weights.T))
        slopes = self.loss.slopes(scores, self.loss.targets(codes, rows))
        xp = namespace_of(scores)
        lengths = xp.sqrt(over_scores(slopes * slopes))
        clipped = cut(slopes * _shrinkage(lengths, self.clip), ROW_BITS)
        return xp.matrix_transpose(clipped) @ rows

    def term_sensitivity(self, relation: Relation) -> float:
        """2 `clip` (replace) or `clip` (add or remove)."""
        return self.clip * (2 if relation is Relation.REPLACE_ONE else 1)


def _shrinkage(lengths: Array, clip: float) -> Array:
    xp = namespace_of(lengths)
    limit = clip * (1 - HAIR) * xp.ones_like(lengths)
    return limit / xp.where(lengths > limit, lengths, limit)


def on_weight_grid(weights: Weights) -> Weights:
    """Bring weights to the grid and the ball on which scores are exact; they are public.

    Weights that ran away to infinity stop at 1e100, those that are no number at zero.
    """
    weights = np.clip(np.nan_to_num(weights), -1e100, 1e100)
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    limit = LARGEST_WEIGHTS * (1 - HAIR)
    return np.asarray(cut(weights * (limit / np.maximum(lengths, limit)), WEIGHT_BITS))


def descend(
    released_gradient: Callable[[Weights], Weights],
    shape: tuple[int, int],
    n_rows: float,
    plan: Descent,
) -> Weights:
    """Descend from zero along released gradients; give the average of the last weights.

    Parameters
    ----------
    released_gradient : callable
        Gives the noisy sum of gradients at public weights; called `n_steps` times.
    shape : (int, int)
        Shape of the weights.
    n_rows : float
        The public, or released, number of rows.
    plan : Descent
    """
    weights, move, total = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    first_averaged = int(plan.n_steps * (1 - plan.averaged))
    for step in range(plan.n_steps):
        gradient = released_gradient(weights) / n_rows
        move = plan.momentum * move - plan.learning_rate * gradient
        weights = on_weight_grid(weights + move)
        if step >= first_averaged:
            total += weights
    return total / (plan.n_steps - first_averaged)
