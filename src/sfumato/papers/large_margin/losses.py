"""Losses of ellipsoid scores: by how much the own class must be nearer than each other one.

A score is ``s_k = aᵀ Φ_k a``, the squared distance of ``a = [x; 1]`` to ellipsoid k; the smallest
wins. Each loss takes all scores of some rows at once and gives its value and its slopes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


class ScoreLoss(Protocol):
    """A convex loss of the scores of rows with known ellipsoids."""

    def value_and_slopes(self, scores: Array, own: Codes) -> tuple[float, Array]:
        """Return the loss summed over rows, and its derivative by each score."""


@dataclass(frozen=True)
class MarginLoss:
    """``sum_{c != y} l(margin - (s_c - s_y))``, l the hinge rounded over ``[-width, width]``.

    ``l(z) = 0`` for z < -width, ``(z + width)² / (4 width)`` inside, z above: the hinge for width
    0, Huber's for more. Its slope is at most 1, its curvature at most ``1 / (2 width)``.
    """

    width: float
    margin: float = 1.0

    @property
    def max_curvature(self) -> float:
        """``1 / (2 width)``."""
        return 0.5 / self.width

    @property
    def value_at_zero(self) -> float:
        """Loss against one other class where all scores are equal."""
        return float(_rounded_hinge(np.array([self.margin]), self.width)[0][0])

    def value_and_slopes(self, scores: Array, own: Codes) -> tuple[float, Array]:
        """See `ScoreLoss`."""
        lacking, rows = self._lacking(scores, own)
        values, slopes = _rounded_hinge(lacking, self.width)
        slopes[rows, own] = 0.0
        value = float(values.sum() - values[rows, own].sum())
        return value, _spread(slopes, rows, own)

    def curved(self, scores: Array, own: Codes, change: Array) -> Array:
        """Return the change of the slopes along a `change` of the scores."""
        lacking, rows = self._lacking(scores, own)
        bent = np.where(np.abs(lacking) < self.width, 0.5 / self.width, 0.0)
        bent *= change[rows, own][:, None] - change
        return _spread(bent, rows, own)

    def _lacking(self, scores: Array, own: Codes) -> tuple[Array, Codes]:
        """How much of the margin is lacking against each class, and the numbers of the rows."""
        rows = np.arange(len(scores))
        return self.margin + scores[rows, own][:, None] - scores, rows


@dataclass(frozen=True)
class MixtureLoss:
    """Several ellipsoids a class: ``sum_{c != y} l(1 - (softmin_{k in c} s_k - s_own))``.

    width: Rounding of the hinge.
    starts (n_classes,): First ellipsoid of each class; those of a class stand together.
    """

    width: float
    starts: Codes

    def value_and_slopes(self, scores: Array, own: Codes) -> tuple[float, Array]:
        """See `ScoreLoss`; `own` names the ellipsoid that a row belongs to."""
        rows = np.arange(len(scores))
        near = softmin(scores, self.starts)
        classes = np.searchsorted(self.starts, own, side="right") - 1
        values, slopes = _rounded_hinge(1.0 + scores[rows, own][:, None] - near, self.width)
        slopes[rows, classes] = 0.0
        value = float(values.sum() - values[rows, classes].sum())
        sizes = np.diff(np.append(self.starts, scores.shape[1]))
        shares = np.exp(np.repeat(near, sizes, axis=1) - scores)
        by_score = -np.repeat(slopes, sizes, axis=1) * shares
        by_score[rows, own] += slopes.sum(axis=1)
        return value, by_score


def softmin(scores: Array, starts: Codes) -> Array:
    """``-log sum_{k in c} exp(-s_k)`` for each class c; the score itself for one ellipsoid."""
    return np.asarray(-np.logaddexp.reduceat(-scores, starts, axis=1))


def _rounded_hinge(lacking: Array, width: float) -> tuple[Array, Array]:
    """Value and slope of ``l``."""
    if width == 0:
        return np.maximum(lacking, 0.0), (lacking > 0).astype(np.float64)
    slopes = np.clip((lacking + width) / (2 * width), 0.0, 1.0)
    # Inside, slope² width = (z + width)² / (4 width); above, slope = 1 and the rest is z - width.
    return slopes * slopes * width + np.maximum(lacking - width, 0.0), slopes


def _spread(slopes: Array, rows: Codes, own: Codes) -> Array:
    """From slopes by pairs (zero at the own class) to slopes by scores."""
    by_score = -slopes
    by_score[rows, own] = slopes.sum(axis=1) - slopes[rows, own]
    return by_score
