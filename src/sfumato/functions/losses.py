"""Admissible losses: convex and Lipschitz in the score, with what a certificate needs.

Every loss is the maximum over slopes, ``loss(t, y) = max_s s t - conjugate(s)``. Its smoothing of
width w subtracts ``w s²/2`` inside the maximum; `slope` and `curvature` are those of the smoothed
loss, and `slack` is the Fenchel-Young gap ``loss(t) + conjugate(s) - s t >= 0`` of the loss itself,
written as a sum of non-negative terms so that nothing cancels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

__all__ = [
    "AbsoluteLoss",
    "HingeLoss",
    "HuberHingeLoss",
    "HuberLoss",
    "InsensitiveLoss",
    "LogisticLoss",
    "Loss",
    "SmoothMaxHingeLoss",
    "SoftmaxLoss",
]

Array = NDArray[np.float64]


class Loss(ABC):
    """A loss of one score a row; labels are -1 and 1, targets lie in [-1, 1]."""

    lipschitz: ClassVar[float] = 1.0
    smooth: ClassVar[bool] = True  # smooth losses need no further smoothing

    @abstractmethod
    def slope(self, scores: Array, y: Array, width: float) -> Array:
        """Derivative of the smoothed loss."""

    @abstractmethod
    def curvature(self, scores: Array, y: Array, width: float) -> Array:
        """Second derivative of the smoothed loss, where there is one."""

    def slack(self, scores: Array, y: Array, slopes: Array) -> Array:  # noqa: ARG002
        """Fenchel-Young gap at slopes given by `slope`; zero for a smooth loss."""
        return np.zeros(len(scores))

    def admitted(self, scores: Array, y: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """Slopes that a loss with kinks admits near these scores, the lowest and the highest."""
        return np.full(len(scores), -1.0), np.ones(len(scores))


class HingeLoss(Loss):
    """``max(0, 1 - y t)``."""

    smooth = False

    def slope(self, scores: Array, y: Array, width: float) -> Array:
        """``-y clip((1 - y t) / w, 0, 1)``."""
        return -y * np.clip((1 - y * scores) / width, 0.0, 1.0)

    def curvature(self, scores: Array, y: Array, width: float) -> Array:
        """``1/w`` while the slope moves."""
        return _inside((1 - y * scores) / width, 0.0, 1.0) / width

    def slack(self, scores: Array, y: Array, slopes: Array) -> Array:
        """``(1 - y t)_+ - |s| (1 - y t)``."""
        short, weight = 1 - y * scores, np.abs(slopes)
        return np.asarray(np.where(short > 0, (1 - weight) * short, -weight * short))

    def admitted(self, scores: Array, y: Array) -> tuple[Array, Array]:  # noqa: ARG002
        """Between 0 and -y."""
        return np.minimum(-y, 0.0), np.maximum(-y, 0.0)


@dataclass(frozen=True)
class HuberHingeLoss(Loss):
    """Zero beyond ``1 + h``, linear below ``1 - h``, a parabola between; h is `band`."""

    band: float = 0.5

    def slope(self, scores: Array, y: Array, width: float) -> Array:  # noqa: ARG002
        """``-y clip((1 + h - y t) / 2h, 0, 1)``."""
        return -y * np.clip((1 + self.band - y * scores) / (2 * self.band), 0.0, 1.0)

    def curvature(self, scores: Array, y: Array, width: float) -> Array:  # noqa: ARG002
        """``1/2h`` inside the band."""
        return _inside((1 + self.band - y * scores) / (2 * self.band), 0.0, 1.0) / (2 * self.band)


class LogisticLoss(Loss):
    """``log(1 + exp(-y t))``."""

    def slope(self, scores: Array, y: Array, width: float) -> Array:  # noqa: ARG002
        """``-y / (1 + exp(y t))``."""
        return np.asarray(-y * expit(-y * scores))

    def curvature(self, scores: Array, y: Array, width: float) -> Array:  # noqa: ARG002
        """Product of the two probabilities."""
        return np.asarray(expit(scores) * expit(-scores))


class AbsoluteLoss(Loss):
    """``|t - y|``."""

    smooth = False

    def slope(self, scores: Array, y: Array, width: float) -> Array:
        """``clip((t - y) / w, -1, 1)``."""
        return np.asarray(np.clip((scores - y) / width, -1.0, 1.0))

    def curvature(self, scores: Array, y: Array, width: float) -> Array:
        """``1/w`` while the slope moves."""
        return _inside((scores - y) / width, -1.0, 1.0) / width

    def slack(self, scores: Array, y: Array, slopes: Array) -> Array:
        """``|t - y| - s (t - y)``."""
        residual = scores - y
        return np.asarray(np.abs(residual) * (1 - slopes * np.sign(residual)))


@dataclass(frozen=True)
class HuberLoss(Loss):
    """``r²/2b`` for residuals within b = `band`, ``|r| - b/2`` beyond."""

    band: float = 0.1

    def slope(self, scores: Array, y: Array, width: float) -> Array:  # noqa: ARG002
        """``clip(r / b, -1, 1)``."""
        return np.asarray(np.clip((scores - y) / self.band, -1.0, 1.0))

    def curvature(self, scores: Array, y: Array, width: float) -> Array:  # noqa: ARG002
        """``1/b`` inside the band."""
        return _inside((scores - y) / self.band, -1.0, 1.0) / self.band


@dataclass(frozen=True)
class InsensitiveLoss(Loss):
    """``max(0, |t - y| - b)``, b = `band`."""

    band: float = 0.1
    smooth = False

    def slope(self, scores: Array, y: Array, width: float) -> Array:
        """``sign(r) clip((|r| - b) / w, 0, 1)``."""
        residual = scores - y
        return np.sign(residual) * np.clip((np.abs(residual) - self.band) / width, 0.0, 1.0)

    def curvature(self, scores: Array, y: Array, width: float) -> Array:
        """``1/w`` while the slope moves."""
        return _inside((np.abs(scores - y) - self.band) / width, 0.0, 1.0) / width

    def slack(self, scores: Array, y: Array, slopes: Array) -> Array:
        """``(|r| - b)_+ - |s| (|r| - b)``; the slope has the sign of the residual or is zero."""
        excess, weight = np.abs(scores - y) - self.band, np.abs(slopes)
        return np.asarray(np.where(excess > 0, (1 - weight) * excess, -weight * excess))

    def admitted(self, scores: Array, y: Array) -> tuple[Array, Array]:
        """Between 0 and the sign of the residual."""
        sign = np.sign(scores - y)
        return np.minimum(sign, 0.0), np.maximum(sign, 0.0)


# Several scores a row -----------------------------------------------------------------------------


class SoftmaxLoss:
    """``log sum_c exp(t_c) - t_y``: √2-Lipschitz in the vector of scores."""

    lipschitz = float(np.sqrt(2))

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
