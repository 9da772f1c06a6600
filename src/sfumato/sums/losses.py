"""Convex losses of linear scores, with the constants that the privacy proofs need.

A loss is a function of the scores ``s = W a`` of one row and of its class. Two classes share one
score, the others have one each:

==========  =====================================  ==================================
loss        two classes, sign y                    C classes
==========  =====================================  ==================================
softmax     ``log(1 + exp(-y s))``                 ``log sum_c exp(s_c) - s_y``
huber       ``H(y s)``                             ``sum_c H(y_c s_c)``, one against the rest
hinge       H with h = 0.05                        H with h = 0.05
==========  =====================================  ==================================

``H(m)`` is the hinge with its corner at 1 rounded over ``[1 - h, 1 + h]``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from sfumato.core.arrays import Array, is_foreign_array, like, namespace_of
from sfumato.exceptions import InvalidInputError
from sfumato.privacy.guarantee import Relation

LOSSES = ("softmax", "huber", "hinge")
# The corner of the hinge is rounded: an error in a score moves slopes by 1/(2h) times as much, and
# that has to be paid for. The loss of a row changes by h/4 = 0.0125 at most; slopes stay below 1.
HINGE_WIDTH = 0.05


@dataclass(frozen=True)
class Loss(ABC):
    """A convex loss of `n_scores` scores.

    n_classes: C, at least 2.
    """

    n_classes: int

    @property
    def n_scores(self) -> int:
        """Scores of a row: one for two classes, else one per class."""
        return 1 if self.n_classes == 2 else self.n_classes

    def targets(self, codes: Any, reference: Array) -> Array:
        """Return +1 for the class of a row and -1 for the others, shape (n, n_scores)."""
        xp = namespace_of(reference)
        first = 0 if self.n_scores > 1 else 1
        classes = xp.arange(first, self.n_classes, device=reference.device)
        is_own = like(reference, codes)[:, None] == classes
        return xp.astype(is_own, reference.dtype) * 2.0 - 1.0

    @abstractmethod
    def values(self, scores: Array, targets: Array) -> Array:
        """Loss of each row."""

    @abstractmethod
    def slopes(self, scores: Array, targets: Array) -> Array:
        """Derivative of each row's loss by its scores; each row is treated alone."""

    def slopes_of(self, scores: Array, codes: Any) -> Array:
        """Return `slopes` of rows whose classes are known by their codes."""
        return self.slopes(scores, self.targets(codes, scores))

    @abstractmethod
    def curvatures(self, scores: Array, targets: Array) -> Array:
        """Weights w of the Hessian: ``diag(w)``, or ``diag(w) - w wᵀ`` where `couples_scores`."""

    @property
    def couples_scores(self) -> bool:
        """Whether the loss is more than a sum of losses of one score each."""
        return False

    @property
    @abstractmethod
    def slope_bound(self) -> float:
        """Largest length of a row of `slopes`."""

    @property
    @abstractmethod
    def max_curvature(self) -> float:
        """Largest eigenvalue of a row's Hessian by its scores."""

    @property
    def value_at_zero(self) -> float:
        """Loss of a row of any class where all scores are 0."""
        scores = np.zeros((1, self.n_scores))
        return float(self.values(scores, np.ones_like(scores))[0])

    @property
    def slope_dimension(self) -> int:
        """Dimension of the space in which the slopes of all rows lie."""
        return self.n_scores

    @abstractmethod
    def log_determinant(self, curvature: float) -> float:
        """``sup log det(I + H / curvature)`` over Hessians H of one row of length 1."""

    def sensitivity(self, relation: str | Relation) -> float:
        """Largest change of ``sum_i slopes_i aᵢᵀ`` between neighbours, rows of length 1 at most.

        Replacing: the scores of two rows can take any values whatever their angle, so that the
        two terms can be opposite; adding or removing changes by one term.
        """
        terms = 2 if Relation(relation) is Relation.REPLACE_ONE else 1
        return terms * self.slope_bound

    def dimension(self, relation: str | Relation) -> int:
        """Dimension of the space in which that change lies, for two given neighbours."""
        terms = 2 if Relation(relation) is Relation.REPLACE_ONE else 1
        return terms * self.slope_dimension


class SoftmaxLoss(Loss):
    """``log sum_c exp(s_c) - s_y``; for two classes ``log(1 + exp(-y s))``."""

    def values(self, scores: Array, targets: Array) -> Array:
        """Loss of each row."""
        xp = namespace_of(scores)
        if self.n_scores == 1:
            margin = targets[:, 0] * scores[:, 0]
            low = xp.where(margin < 0, margin, xp.zeros_like(margin))
            return xp.log1p(xp.exp(-xp.abs(margin))) - low
        top = xp.max(scores, axis=1, keepdims=True)
        total = xp.log(xp.sum(xp.exp(scores - top), axis=1)) + top[:, 0]
        return total - xp.sum(scores * (targets + 1), axis=1) / 2

    def slopes(self, scores: Array, targets: Array) -> Array:
        """``p - e_y``; for two classes ``-y / (1 + exp(y s))``."""
        xp = namespace_of(scores)
        if self.n_scores == 1:
            margin = targets * scores
            small = xp.exp(-xp.abs(margin))
            return -targets * xp.where(margin > 0, small, xp.ones_like(small)) / (1 + small)
        return self.probabilities(scores) - (targets + 1) / 2

    def slopes_of(self, scores: Array, codes: Any) -> Array:
        """``p - e_y``, in half the passes over the scores."""
        if is_foreign_array(scores):
            if self.n_scores == 1:
                return super().slopes_of(scores, codes)
            xp = namespace_of(scores)
            classes = xp.arange(self.n_classes, device=scores.device)
            own = like(scores, codes)[:, None] == classes
            return self.probabilities(scores) - xp.astype(own, scores.dtype)
        if self.n_scores == 1:
            return expit(scores) - (codes == 1)[:, None]
        slopes = scores - scores.max(axis=1, keepdims=True)
        np.exp(slopes, out=slopes)
        slopes /= over_scores(slopes)
        slopes[np.arange(len(codes)), codes] -= 1.0
        return slopes

    def curvatures(self, scores: Array, targets: Array) -> Array:  # noqa: ARG002 - of the loss
        """``p``; for two classes ``p (1 - p)``."""
        xp = namespace_of(scores)
        if self.n_scores > 1:
            return self.probabilities(scores)
        small = xp.exp(-xp.abs(scores))
        return small / (1 + small) ** 2

    @property
    def couples_scores(self) -> bool:
        """Whether there are more than two classes."""
        return self.n_scores > 1

    def probabilities(self, scores: Array) -> Array:
        """``exp(s_c) / sum exp(s)`` of at least three scores."""
        xp = namespace_of(scores)
        shares = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
        return shares / over_scores(shares)

    @property
    def slope_bound(self) -> float:
        """``√2``; 1 for two classes."""
        return 1.0 if self.n_scores == 1 else math.sqrt(2)

    @property
    def max_curvature(self) -> float:
        """``1/2``; for two classes ``1/4``."""
        return 0.25 if self.n_scores == 1 else 0.5

    @property
    def slope_dimension(self) -> int:
        """``C - 1``: the slopes sum to zero."""
        return self.n_classes - 1

    def log_determinant(self, curvature: float) -> float:
        """``(C - 1) log(1 + 1/(C Lam))``; for two classes ``log(1 + 1/(4 Lam))``.

        The Hessian ``diag(p) - p pᵀ`` has C - 1 eigenvalues of sum at most ``1 - 1/C``.
        """
        share = 4 if self.n_scores == 1 else self.n_classes
        return self.slope_dimension * math.log1p(1 / (share * curvature))


@dataclass(frozen=True)
class HuberLoss(Loss):
    """``H(m) = 0, (1 + h - m)²/(4h), 1 - m`` for m above, inside and below ``[1 - h, 1 + h]``.

    n_classes (int): C, at least 2.
    width: h.
    """

    width: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.width < math.inf:
            raise InvalidInputError(f"'huber_width' must be positive. Got {self.width} instead.")

    def values(self, scores: Array, targets: Array) -> Array:
        """Loss of each row."""
        xp = namespace_of(scores)
        margin, h = targets * scores, self.width
        round_part = (1 + h - margin) ** 2 / (4 * h)
        each = xp.where(margin < 1 - h, 1 - margin, round_part)
        return xp.sum(xp.where(margin > 1 + h, xp.zeros_like(margin), each), axis=1)

    def slopes(self, scores: Array, targets: Array) -> Array:
        """``-y clip((1 + h - m) / (2h), 0, 1)``."""
        xp = namespace_of(scores)
        steepness = (1 + self.width - targets * scores) / (2 * self.width)
        return -targets * xp.clip(steepness, 0.0, 1.0)

    def curvatures(self, scores: Array, targets: Array) -> Array:
        """Second derivative of H: ``1/(2h)`` inside the rounding, else 0."""
        xp = namespace_of(scores)
        inside = xp.abs(targets * scores - 1) < self.width
        return xp.astype(inside, scores.dtype) / (2 * self.width)

    @property
    def max_curvature(self) -> float:
        """``1/(2h)``."""
        return 1 / (2 * self.width)

    @property
    def slope_bound(self) -> float:
        """``√n_scores``: each score has a slope of at most 1."""
        return math.sqrt(self.n_scores)

    def log_determinant(self, curvature: float) -> float:
        """``n_scores log(1 + 1/(2 h Lam))``."""
        return self.n_scores * math.log1p(1 / (2 * self.width * curvature))


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


def loss_named(name: str, n_classes: int, *, huber_width: float = 0.5) -> Loss:
    """Return the loss of that name."""
    if name == "softmax":
        return SoftmaxLoss(n_classes)
    if name == "huber":
        return HuberLoss(n_classes, huber_width)
    if name == "hinge":
        return HuberLoss(n_classes, HINGE_WIDTH)
    allowed = ", ".join(repr(known) for known in LOSSES)
    raise InvalidInputError(f"'loss' must be one of {allowed}. Got {name!r} instead.")
