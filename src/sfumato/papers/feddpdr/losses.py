"""What perturbed objectives need of losses beyond slopes: values, curvatures, and constants.

Targets are +1 for the class of a row and -1 for the others, one per score.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.privacy.guarantee import Relation
from sfumato.sums.gradients import HuberLoss, Loss, SoftmaxLoss

Array = NDArray[np.float64]


def targets_of(loss: Loss, codes: Any) -> Array:
    """Return the targets of rows by their classes, shape (n, n_scores)."""
    classes = np.arange(0 if loss.n_scores > 1 else 1, loss.n_classes)
    return np.asarray((np.asarray(codes)[:, None] == classes) * 2.0 - 1.0)


def values(loss: Loss, scores: Array, targets: Array) -> Array:
    """Return the loss of each row."""
    if isinstance(loss, HuberLoss):
        margin, h = targets * scores, loss.width
        each = np.where(margin < 1 - h, 1 - margin, (1 + h - margin) ** 2 / (4 * h))
        return np.asarray(np.sum(np.where(margin > 1 + h, 0.0, each), axis=1))
    if loss.n_scores == 1:
        return np.logaddexp(0.0, -(targets * scores)[:, 0])
    top = scores.max(axis=1, keepdims=True)
    total = np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0]
    return np.asarray(total - (scores * (targets + 1)).sum(axis=1) / 2)


def slopes(loss: Loss, scores: Array, targets: Array) -> Array:
    """Return the derivatives of each row's loss by its scores."""
    codes = targets.argmax(axis=1) if loss.n_scores > 1 else (targets[:, 0] > 0).astype(int)
    return np.asarray(loss.slopes_of(scores, codes))


def couples_scores(loss: Loss) -> bool:
    """Return whether the loss is more than a sum of losses of one score each."""
    return isinstance(loss, SoftmaxLoss) and loss.n_scores > 1


def curvatures(loss: Loss, scores: Array, targets: Array) -> Array:
    """Return weights w of the Hessian: ``diag(w)``, or ``diag(w) - w wᵀ`` where scores couple."""
    if isinstance(loss, HuberLoss):
        return (np.abs(targets * scores - 1) < loss.width) / (2 * loss.width)
    if loss.n_scores == 1:
        small = np.exp(-np.abs(scores))
        return np.asarray(small / (1 + small) ** 2)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def value_at_zero(loss: Loss) -> float:
    """Return the loss of a row of any class where all scores are 0."""
    scores = np.zeros((1, loss.n_scores))
    return float(values(loss, scores, np.ones_like(scores))[0])


def log_determinant(loss: Loss, curvature: float) -> float:
    """``sup log det(I + H / curvature)`` over Hessians H of one row of length 1.

    Huber: ``n_scores log(1 + 1/(2 h Lam))``. Softmax: ``diag(p) - p pᵀ`` has C - 1 eigenvalues of
    sum at most ``1 - 1/C``, so ``(C - 1) log(1 + 1/(C Lam))``; for two classes
    ``log(1 + 1/(4 Lam))``.
    """
    if isinstance(loss, HuberLoss):
        return loss.n_scores * math.log1p(1 / (2 * loss.width * curvature))
    share = 4 if loss.n_scores == 1 else loss.n_classes
    return (loss.n_classes - 1) * math.log1p(1 / (share * curvature))


def sensitivity(loss: Loss, relation: str | Relation) -> float:
    """Return the largest change of ``sum_i slopes_i aᵢᵀ``, rows of length 1 at most.

    Replacing: the scores of two rows can take any values whatever their angle, so that the
    two terms can be opposite; adding or removing changes by one term.
    """
    return (2 if Relation(relation) is Relation.REPLACE_ONE else 1) * loss.slope_bound


def dimension(loss: Loss, relation: str | Relation) -> int:
    """Return the dimension of a space that holds that change, for two given neighbours."""
    of_slopes = loss.n_classes - 1 if isinstance(loss, SoftmaxLoss) else loss.n_scores
    return (2 if Relation(relation) is Relation.REPLACE_ONE else 1) * of_slopes
