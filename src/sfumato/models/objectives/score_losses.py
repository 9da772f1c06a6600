"""Admissible losses: convex, Lipschitz and smooth in the score.

The smoothness β (a bound of the second derivative) rules how many steps a solver needs at most. A
loss with kinks has none, so its kinks are rounded by parabolas of a fixed, public width: the
Lipschitz constant stays, and the rounded loss *is* the loss that is minimised and released.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

Array = NDArray[np.float64]


class ScoreLoss(ABC):
    """A loss of one score per row; labels are -1 and 1, targets lie in [-1, 1]."""

    lipschitz: ClassVar[float] = 1.0

    @property
    @abstractmethod
    def smoothness(self) -> float:
        """β, the largest second derivative."""

    @abstractmethod
    def slope(self, scores: Array, y: Array) -> Array:
        """Derivative."""

    @abstractmethod
    def curvature(self, scores: Array, y: Array) -> Array:
        """Second derivative, where there is one."""


@dataclass(frozen=True)
class HuberHingeLoss(ScoreLoss):
    """Zero beyond ``1 + h``, linear below ``1 - h``, a parabola between; h is `band`.

    It exceeds the hinge ``max(0, 1 - y t)`` by at most ``h/4``.
    """

    band: float = 0.5

    @property
    def smoothness(self) -> float:
        """``1/2h``."""
        return 1 / (2 * self.band)

    def slope(self, scores: Array, y: Array) -> Array:
        """``-y clip((1 + h - y t) / 2h, 0, 1)``."""
        return -y * np.clip((1 + self.band - y * scores) / (2 * self.band), 0.0, 1.0)

    def curvature(self, scores: Array, y: Array) -> Array:
        """``1/2h`` inside the band."""
        return _inside((1 + self.band - y * scores) / (2 * self.band), 0.0, 1.0) * self.smoothness


class LogisticLoss(ScoreLoss):
    """``log(1 + exp(-y t))``."""

    @property
    def smoothness(self) -> float:
        """One quarter."""
        return 0.25

    def slope(self, scores: Array, y: Array) -> Array:
        """``-y / (1 + exp(y t))``."""
        return np.asarray(-y * expit(-y * scores))

    def curvature(self, scores: Array, y: Array) -> Array:  # noqa: ARG002
        """Product of the two probabilities."""
        return np.asarray(expit(scores) * expit(-scores))


@dataclass(frozen=True)
class ScoreHuberLoss(ScoreLoss):
    """``r²/2b`` for residuals within b = `band`, ``|r| - b/2`` beyond."""

    band: float = 0.1

    @property
    def smoothness(self) -> float:
        """``1/b``."""
        return 1 / self.band

    def slope(self, scores: Array, y: Array) -> Array:
        """``clip(r / b, -1, 1)``."""
        return np.asarray(np.clip((scores - y) / self.band, -1.0, 1.0))

    def curvature(self, scores: Array, y: Array) -> Array:
        """``1/b`` inside the band."""
        return _inside((scores - y) / self.band, -1.0, 1.0) * self.smoothness


@dataclass(frozen=True)
class InsensitiveLoss(ScoreLoss):
    """``max(0, |t - y| - b)``, b = `insensitive`, with parabolas within h = `band` of its kinks."""

    insensitive: float = 0.1
    band: float = 0.02

    @property
    def smoothness(self) -> float:
        """``1/2h``."""
        return 1 / (2 * self.band)

    def slope(self, scores: Array, y: Array) -> Array:
        """``sign(r) clip((|r| - b + h) / 2h, 0, 1)``."""
        residual = scores - y
        return np.sign(residual) * np.clip(self._place(residual), 0.0, 1.0)

    def curvature(self, scores: Array, y: Array) -> Array:
        """``1/2h`` while the slope moves."""
        return _inside(self._place(scores - y), 0.0, 1.0) * self.smoothness

    def _place(self, residual: Array) -> Array:
        return (np.abs(residual) - self.insensitive + self.band) / (2 * self.band)


# Several scores a row -----------------------------------------------------------------------------


class ScoreSoftmaxLoss:
    """``log sum_c exp(t_c) - t_y``: √2-Lipschitz in the vector of scores."""

    lipschitz = float(np.sqrt(2))
    smoothness = 0.5  # largest eigenvalue of diag(p) - p pᵀ

    def value_and_slope(self, scores: Array, codes: NDArray[np.intp]) -> tuple[Array, Array]:
        """Loss and gradient of each row; gradients are ``softmax(t) - e_y``."""
        own = scores[np.arange(len(codes)), codes]
        top = scores.max(axis=1, keepdims=True)
        values = np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0] - own
        slopes = softmax(scores, axis=1)
        slopes[np.arange(len(codes)), codes] -= 1
        return values, slopes


@dataclass(frozen=True)
class SmoothMaxHingeLoss:
    """Hinge of the best wrong score, smoothed: ``max_p p.z - w |p|²/2 - t_y``, p in the simplex.

    ``z_c = t_c + 1`` for the wrong classes and ``t_y`` for the right one. √2-Lipschitz in the
    vector of scores, because its gradient is ``p - e_y``.
    """

    band: float = 0.5
    lipschitz: ClassVar[float] = float(np.sqrt(2))

    @property
    def smoothness(self) -> float:
        """``1/w``: the projection onto a convex set shortens distances."""
        return 1 / self.band

    def value_and_slope(self, scores: Array, codes: NDArray[np.intp]) -> tuple[Array, Array]:
        """Loss and gradient of each row."""
        rows = np.arange(len(codes))
        raised = scores + 1
        raised[rows, codes] -= 1
        weights = _onto_simplex(raised / self.band)
        values = np.sum(weights * raised, axis=1) - self.band / 2 * np.sum(weights**2, axis=1)
        values = values - scores[rows, codes]
        weights[rows, codes] -= 1
        return values, weights


def _onto_simplex(points: Array) -> Array:
    """Nearest point of the probability simplex to each row."""
    ordered = -np.sort(-points, axis=1)
    count = np.arange(1, points.shape[1] + 1)
    shift = (np.cumsum(ordered, axis=1) - 1) / count
    kept = (ordered > shift).sum(axis=1)
    return np.asarray(np.maximum(points - shift[np.arange(len(points)), kept - 1][:, None], 0.0))


def _inside(values: Array, low: float, high: float) -> Array:
    return ((values > low) & (values < high)).astype(np.float64)
