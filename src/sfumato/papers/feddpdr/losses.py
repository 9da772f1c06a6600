"""Huber's rounded hinge for perturbed objectives: values, slopes, curvatures, log-determinant.

Targets are +1 for the class of a row and -1 for the others, one per score.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.sums.gradients import HuberLoss

Array = NDArray[np.float64]


def targets_of(loss: HuberLoss, codes: Any) -> Array:
    """Return the targets of rows by their classes, shape (n, n_scores)."""
    classes = np.arange(0 if loss.n_scores > 1 else 1, loss.n_classes)
    return np.asarray((np.asarray(codes)[:, None] == classes) * 2.0 - 1.0)


def values(loss: HuberLoss, scores: Array, targets: Array) -> Array:
    """Return the loss of each row."""
    margin, h = targets * scores, loss.width
    each = np.where(margin < 1 - h, 1 - margin, (1 + h - margin) ** 2 / (4 * h))
    return np.asarray(np.sum(np.where(margin > 1 + h, 0.0, each), axis=1))


def slopes(loss: HuberLoss, scores: Array, targets: Array) -> Array:
    """Return the derivatives of each row's loss by its scores."""
    codes = targets.argmax(axis=1) if loss.n_scores > 1 else (targets[:, 0] > 0).astype(int)
    return np.asarray(loss.slopes_of(scores, codes))


def curvatures(loss: HuberLoss, scores: Array, targets: Array) -> Array:
    """Return the second derivatives of each row's loss by its scores."""
    return np.asarray((np.abs(targets * scores - 1) < loss.width) / (2 * loss.width))


def log_determinant(loss: HuberLoss, curvature: float) -> float:
    """``sup log det(I + H / Λ)`` over Hessians H of a row of length 1: ``k log(1 + 1/(2 h Λ))``."""
    return loss.n_scores * math.log1p(1 / (2 * loss.width * curvature))
