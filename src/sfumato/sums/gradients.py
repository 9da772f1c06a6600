"""Sums of gradients at public weights: each row is treated alone and exactly.

Rows are multiples of 2**-18 and weights of 2**-25, so that scores are exact doubles; slopes are
rounded to multiples of 2**-18, and the products are summed exactly. Rows held in single precision
are coarser, and so are their slopes; the sums are as exact (`sfumato.sums.grid`). What is
released is therefore the exact real sum of terms that depend on one row each, in whatever order
the machine adds.

The loss is softmax, a convex function of the scores ``s = W a`` of one row and of its class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array, cast, is_foreign_array, like, namespace_of
from sfumato.exceptions import InvalidInputError
from sfumato.privacy.guarantee import Relation
from sfumato.sums.grid import ROW_BITS, Float32Rows, HeldRows, ScoreWeights, truncate_to_grid
from sfumato.sums.maps import ROUNDING_MARGIN
from sfumato.sums.persons import PerPersonClip, PersonUnit
from sfumato.sums.statistics import Codes, Statistic

WEIGHT_BITS = 25
FEW_ROWS = 32  # of a person, whose products with each other are kept
MAX_WEIGHTS = 2.0**10  # ROW_BITS + WEIGHT_BITS + 10 = 53 bits of a double
COARSE = 128  # steps of the coarse grid of slopes in their largest length, per root of the scores
SCORE_BITS = 10  # slopes of one score are those of the nearest multiple of 2**-SCORE_BITS, ...
LAST_PLACE = 16 * 2**SCORE_BITS  # ... of 16 at most: softmax is flat there
MOMENTUM, AVERAGED = 0.9, 0.5  # share of the last move made again; of the steps, that are averaged
MAX_STEP = 32.0  # of the learning rate times clip, where there is hardly any noise

Weights = NDArray[np.float64]


@dataclass(frozen=True)
class SoftmaxLoss:
    """``log sum_c exp(s_c) - s_y``; for two classes ``log(1 + exp(-y s))``.

    n_classes: C, at least 2. Two classes share one score, the others have one each.
    """

    n_classes: int

    @property
    def n_scores(self) -> int:
        return 1 if self.n_classes == 2 else self.n_classes

    def slopes_of(self, scores: Array, codes: Any) -> Array:
        """Return slopes by scores, ``p - e_y``, each row alone; for two classes ``p - [y = 1]``."""
        if is_foreign_array(scores) or self.n_scores == 1:
            xp = namespace_of(scores)
            first = 0 if self.n_scores > 1 else 1
            classes = xp.arange(first, self.n_classes, device=scores.device)
            own = xp.astype(like(scores, codes)[:, None] == classes, scores.dtype)
            if self.n_scores == 1:
                signs, small = own * 2.0 - 1.0, xp.exp(-xp.abs(scores))
                away = xp.where(signs * scores > 0, small, xp.ones_like(small))
                return -signs * away / (1 + small)
            shares = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
            return shares / over_scores(shares) - own
        slopes = np.subtract(scores, scores.max(axis=1, keepdims=True), order="F")
        np.exp(slopes, out=slopes)
        slopes /= over_scores(slopes)
        own = codes * len(codes) + np.arange(len(codes))  # places, one score after the other
        slopes.reshape(-1, order="F")[own] -= 1.0
        return slopes

    @property
    def slope_bound(self) -> float:
        """Largest length of the slopes of a row: √2; 1 for two classes."""
        return 1.0 if self.n_scores == 1 else math.sqrt(2)

    @property
    def max_curvature(self) -> float:
        """Largest eigenvalue of a row's Hessian by its scores: 1/2; for two classes 1/4."""
        return 0.25 if self.n_scores == 1 else 0.5


def over_scores(values: Array) -> Array:
    """Sum over the scores of each row, column by column.

    A library's own sum may add in another order for another number of rows; so a row's result
    depends on that row alone, to the bit.
    """
    if is_foreign_array(values):  # columns cut once: each cut is a call
        first, *others = namespace_of(values).unstack(values, axis=1)
        total = first + 0.0
        for column in others:
            total += column
        return total[:, None]
    total = values[:, :1] + 0.0
    for column in range(1, values.shape[1]):
        total += values[:, column : column + 1]
    return total


class _GradientStatistic(Statistic):
    """What sums of gradients share: a term is at most `max_gradient_norm` long."""

    max_gradient_norm: float
    weights: Weights
    joined: PerPersonClip | None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.weights.shape

    @property
    def in_ball(self) -> int:
        return int(self.weights.shape[1])

    @property
    def max_term(self) -> float:
        return self.max_gradient_norm

    @cached_property
    def _score_weights(self) -> ScoreWeights:
        return ScoreWeights(self.weights)

    def term_sensitivity(self, relation: Relation) -> float:
        return self.max_gradient_norm * (2 if relation is Relation.REPLACE_ONE else 1)

    def _joined_sensitivity(self, relation: Relation, unit: PersonUnit) -> float | None:
        if self.joined is None:
            return None
        if self.joined.unit != unit:
            raise InvalidInputError("The joint bound and the records have different units.")
        length = self.joined.length(self.shape[0])
        return length * (2 if relation is Relation.REPLACE_ONE else 1)


@dataclass(frozen=True, eq=False)
class GradientSum(_GradientStatistic):
    """``sum_i g_i aᵢᵀ`` with the slopes g of a row's loss, scaled back to `max_gradient_norm`.

    A term is at most `max_gradient_norm` long. Adding or removing a row moves the sum by that,
    replacing one by twice as much.

    loss: The loss of a row.
    max_gradient_norm: Largest length of the slopes of a row, below 2.
    weights (n_scores, m): Brought to the grid of `on_weight_grid`; rows are multiples of
        ``2**-ROW_BITS`` in the unit ball.
    joined: A bound on the rows of a person together, where persons are the unit.
    slope_bits: Slopes are rounded to multiples of ``2**-slope_bits``.
    """

    loss: SoftmaxLoss
    max_gradient_norm: float
    weights: Weights = field(repr=False)
    joined: PerPersonClip | None = None
    slope_bits: int = ROW_BITS
    takes_singles: ClassVar[bool] = True

    def add_up(self, rows: Array | HeldRows, codes: Array) -> Array:
        if isinstance(rows, HeldRows):
            slopes = self._slopes(rows.scores(self._score_weights), codes)
            return rows.gathered(slopes, self.slope_bits)
        xp, weights = namespace_of(rows), like(rows, self._exact_weights)
        slopes = self._slopes(rows @ xp.matrix_transpose(weights), codes)
        return xp.matrix_transpose(slopes) @ rows

    def _add_up_persons(
        self, rows: Array | Float32Rows, codes: NDArray[np.intp], size: int
    ) -> Array:
        if self.joined is None or (size == 1 and self.joined.bound >= self.max_gradient_norm):
            return self.add_up(rows, codes)
        if isinstance(rows, Float32Rows):
            slopes = self._slopes(rows.scores(self._score_weights), codes)
            products = rows.person_products(size) if size <= FEW_ROWS else None
            plain = None if products is not None else rows.doubles()
            slopes = shrunk(slopes, self.joined, products, plain, size)
            return rows.gathered(slopes, ROW_BITS)
        slopes = self._slopes(rows @ like(rows, np.ascontiguousarray(self._exact_weights.T)), codes)
        return shrunk(slopes, self.joined, None, rows, size).T @ rows

    @cached_property
    def _exact_weights(self) -> Weights:
        return on_weight_grid(self.weights)

    def _slopes(self, scores: Array, codes: NDArray[np.intp]) -> Array:
        """Slopes of each row, clipped and on the grid; those of one score by a public table."""
        if self.loss.n_scores > 1:
            return self._computed(scores, codes)
        if is_foreign_array(scores):
            places = namespace_of(scores).round(scores * 2.0**SCORE_BITS)
            places = namespace_of(scores).clip(places, -LAST_PLACE, LAST_PLACE)
            return self._computed(places * 2.0**-SCORE_BITS, codes)
        places = np.rint(scores[:, 0] * 2.0**SCORE_BITS)
        index = np.clip(places, -LAST_PLACE, LAST_PLACE, out=places).astype(np.intp)
        index += codes * (2 * LAST_PLACE + 1) + LAST_PLACE
        table = slope_table(self.loss, self.max_gradient_norm, self.slope_bits)
        return table.take(index)[:, None]

    def _computed(self, scores: Array, codes: NDArray[np.intp]) -> Array:
        """Compute slopes, each row on its own.

        Rounding lengthens them by half a step per score at most, and they are clipped to as much
        less; where that would leave little of them, they are cut towards zero instead.
        """
        lengthened = math.sqrt(self.loss.n_scores) * 2.0 ** -(self.slope_bits + 1)
        is_rounded = lengthened < self.max_gradient_norm / 2
        limit = self.max_gradient_norm - lengthened * is_rounded
        slopes = self.loss.slopes_of(scores, codes)
        xp, longest = namespace_of(scores), limit * (1 - ROUNDING_MARGIN)
        squares = over_scores(slopes * slopes)
        lengths = xp.sqrt(xp.where(squares > longest**2, squares, longest**2))
        slopes *= 2.0**self.slope_bits * longest / lengths
        if is_foreign_array(slopes):
            steps = (xp.round if is_rounded else xp.trunc)(slopes)
        else:  # whole numbers of few bits
            steps = np.empty_like(slopes, dtype=np.float32)
            (np.rint if is_rounded else np.trunc)(slopes, out=steps, casting="same_kind")
        return steps * 2.0**-self.slope_bits


@lru_cache(maxsize=32)
def slope_table(loss: SoftmaxLoss, clip: float, bits: int) -> NDArray[np.float32]:
    """Return the slopes at all places of a score, one class after the other; 19 bits at most."""
    public = GradientSum(loss, clip, np.zeros((1, 1)), slope_bits=bits)
    scores = np.arange(-LAST_PLACE, LAST_PLACE + 1)[:, None] * 2.0**-SCORE_BITS
    found = [public._computed(scores, np.full(len(scores), c))[:, 0] for c in (0, 1)]
    return np.concatenate(found, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class ResidualSum(_GradientStatistic):
    """``sum_i clip(w.aᵢ - tᵢ) aᵢ``: the gradient of Huber's loss, t the last number of a row.

    A term is at most `max_gradient_norm` long; a record whose target is missing adds
    nothing. Adding or removing a record moves the sum by `max_gradient_norm`, replacing one by
    twice as much.

    max_gradient_norm: Largest magnitude of a residual, below 2.
    weights (1, m): Brought to the grid of `on_weight_grid`; the numbers a are multiples of
        ``2**-ROW_BITS`` in the unit ball.
    joined: A bound on the rows of a person together, where persons are the unit.
    slope_bits: Residuals are cut to multiples of ``2**-slope_bits``.
    """

    max_gradient_norm: float
    weights: Weights = field(repr=False)
    joined: PerPersonClip | None = None
    slope_bits: int = ROW_BITS
    takes_singles: ClassVar[bool] = True

    def add_up(self, rows: Any, codes: Codes) -> Array:  # noqa: ARG002 - no classes
        if isinstance(rows, HeldRows):
            scores = rows.scores(self._score_weights)
            residuals = np.subtract(scores, rows.targets(), dtype=np.float64)
            return rows.gathered(self._cut(residuals), self.slope_bits)
        numbers, clipped = self._clipped(rows)
        return clipped.T @ numbers

    def _add_up_persons(self, rows: Array, codes: Codes, size: int) -> Array:  # noqa: ARG002
        numbers, clipped = self._clipped(rows)
        if self.joined is not None:
            clipped = shrunk(clipped, self.joined, None, numbers, size)
        return clipped.T @ numbers

    def _clipped(self, rows: Array) -> tuple[Weights, Weights]:
        """Return the numbers of rows and their residuals, clipped and on the grid."""
        numbers, target = np.ascontiguousarray(rows[:, :-1]), rows[:, -1:]
        scores = numbers @ np.ascontiguousarray(on_weight_grid(self.weights).T)
        return numbers, self._cut(scores - target)

    def _cut(self, residuals: Weights) -> Weights:
        """Clip residuals; those of no target are zero."""
        np.copyto(residuals, 0.0, where=np.isnan(residuals))
        inside = np.clip(residuals, -self.max_gradient_norm, self.max_gradient_norm)
        return np.asarray(truncate_to_grid(inside * (1 - ROUNDING_MARGIN), self.slope_bits))


def shrunk(slopes: Array, joined: PerPersonClip, products: Any, rows: Array, size: int) -> Array:
    """Scale the slopes of each person by their own factor, and cut them to the grid again."""
    slopes = cast(slopes, "float64")
    factors = joined.shrinkage(products, rows, slopes, size)
    return truncate_to_grid(slopes * np.repeat(factors, size)[:, None], ROW_BITS)


def coarse_bits(loss: SoftmaxLoss, max_gradient_norm: float) -> int:
    """Return the bits of a grid so coarse that slopes on it are few whole numbers."""
    steps = COARSE * math.sqrt(loss.n_scores) / max_gradient_norm
    return min(ROW_BITS, math.ceil(math.log2(steps)))


def on_weight_grid(weights: Weights) -> Weights:
    """Bring weights to the grid and the ball on which scores are exact; they are public.

    Weights that ran away to infinity stop at 1e100, NaN becomes zero.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    limit = MAX_WEIGHTS * (1 - ROUNDING_MARGIN)
    if lengths.max(initial=0.0) <= limit:  # as nearly always; no number is missing then
        return np.asarray(truncate_to_grid(weights, WEIGHT_BITS))
    weights = np.clip(np.nan_to_num(weights), -1e100, 1e100)
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    return np.asarray(truncate_to_grid(weights * (limit / np.maximum(lengths, limit)), WEIGHT_BITS))


def step_size(noise: float, n_steps: int, score_noise: float, largest: float) -> float:
    """Return the step at which noise moves the score of a unit row by `score_noise`."""
    total = math.sqrt(n_steps) * noise
    return min(score_noise * (1 - MOMENTUM) / total, largest) if total else largest


class Descent:
    """Weights on their way from zero along `n_steps` released gradients."""

    def __init__(self, shape: tuple[int, int], n_rows: float, n_steps: int, step: float) -> None:
        self.weights, self._move, self._total = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._n_rows, self._step = n_rows, step
        self._n_left, self._n_averaged = n_steps, n_steps - int(n_steps * (1 - AVERAGED))

    def follow(self, gradient: Weights) -> None:
        """Make a step along a released gradient."""
        self._move = MOMENTUM * self._move - self._step * (gradient / self._n_rows)
        self.weights = on_weight_grid(self.weights + self._move)
        if self._n_left <= self._n_averaged:
            self._total += self.weights
        self._n_left -= 1

    @property
    def average(self) -> Weights:
        """Of the weights of the last steps."""
        return self._total / self._n_averaged
