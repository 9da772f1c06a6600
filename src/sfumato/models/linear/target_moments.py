"""Second moments of rows and targets together, and the lines that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array as AnyArray
from sfumato.models.linear.rows import whitened_rows
from sfumato.sums.grid import FINE_BITS, truncate_to_grid
from sfumato.sums.maps import ROUNDING_MARGIN, IntoUnitBall, LinearRows

Array = NDArray[np.float64]

MIN_SPREAD = 1e-6
RIDGES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # times the radius of the noise
STEEPEST = 8.0  # slope of the target over robust scores
CAUTION = 9.0  # times the variance of the noise of a correction


@dataclass(frozen=True)
class WithTarget:
    """``x and t -> [z; 1; t] / √3``, in the unit ball, and 0 where the target is missing.

    into_ball: ``x -> z``.
    """

    into_ball: IntoUnitBall

    @property
    def width(self) -> int:
        """Numbers of a mapped row."""
        return self.into_ball.width + 2

    def __call__(self, rows: AnyArray) -> AnyArray:
        """Map rows with a target from -1 to 1 beside them; each by itself."""
        target = np.clip(rows[:, -1:], -1.0, 1.0)
        together = np.hstack([self.into_ball(rows[:, :-1]), np.ones_like(target), target])
        together[np.isnan(target[:, 0])] = 0.0
        return truncate_to_grid(together * ((1 - ROUNDING_MARGIN) / math.sqrt(3)), FINE_BITS)


@dataclass(frozen=True, eq=False)
class TargetMoments:
    """What noisy moments of ``[z; 1; t]`` say; everything in it is public.

    n_rows: Number of records, 1 at least.
    second, covariance (d, d): Sum of ``z zᵀ``, and the covariance of z.
    mean, joint (d,): Mean of z, and its covariance with t.
    target, variance: Mean and variance of t; the variance is not below what its noise hides.
    noise: Deviation of the noise on the diagonal of the sums, per record.
    """

    n_rows: float
    second: Array = field(repr=False)
    covariance: Array = field(repr=False)
    mean: Array = field(repr=False)
    joint: Array = field(repr=False)
    target: float
    variance: float
    noise: float

    @classmethod
    def of(cls, moments: Array, noise: float) -> Self:
        """Read them off released sums."""
        order = len(moments) - 2
        n_rows = max(float(moments[order, order]), 1.0)
        mean = np.clip(moments[order, :order] / n_rows, -1.0, 1.0)
        target = float(np.clip(moments[order, -1] / n_rows, -1.0, 1.0))
        second = moments[:order, :order]
        return cls(
            n_rows,
            second,
            second / n_rows - np.outer(mean, mean),
            mean,
            moments[:order, -1] / n_rows - mean * target,
            target,
            float(moments[-1, -1]) / n_rows - target**2,
            noise / n_rows,
        )

    @property
    def spread(self) -> float:
        """Standard deviation of t."""
        return self._deviation(self.variance)

    def ridge(self) -> Array:
        """Return weights by least squares with a ridge.

        Eigenvalues of the covariance are cut at zero. The ridge is a multiple of the radius that
        noise alone has, the one with the least risk by an estimate that knows the noise.
        """
        values, vectors = np.linalg.eigh((self.covariance + self.covariance.T) / 2)
        return np.asarray(
            vectors @ ridge_weights(np.maximum(values, 0.0), vectors.T @ self.joint, self.noise)
        )

    def whitened(self) -> tuple[LinearRows, float]:
        """Return the map of z to whitened rows; see `whitened_rows`.

        Their typical length comes from the trace. Too small a length makes steep lines of noise, so
        two deviations of the noise of the trace are the least that is believed.
        """
        least = 2 * self.noise * math.sqrt(len(self.mean))
        square = min(max(float(np.trace(self.second)) / self.n_rows, least), 1.0)
        return whitened_rows(self.second, self.noise * self.n_rows, self.n_rows, square)

    def corrected(self, coef: Array, level: float) -> tuple[Array, float]:
        """Turn and lift a line by what the moments clearly show of its slope and mean.

        A robust line follows the middle of a skewed target. What noise alone would make of a
        correction is taken away from it.
        """
        length = float(coef @ coef)
        own = max(float(coef @ self.covariance @ coef), self.noise * length, 1e-12)
        turn = float(coef @ self.joint) - own
        turn = _clear(turn, self.noise * math.sqrt(length / 2 + length**2)) / own
        coef = coef * min(max(1 + turn, 0.0), STEEPEST)
        lift = self.line(coef)[0] - level
        return coef, level + _clear(lift, self.noise * math.sqrt((1 + float(coef @ coef)) / 2))

    def line(self, coef: Array) -> tuple[float, float]:
        """Return the level beside weights, and the spread of what they leave."""
        left = self.variance - float(coef @ (2 * self.joint - self.covariance @ coef))
        return self.target - float(coef @ self.mean), self._deviation(left)

    def _deviation(self, variance: float) -> float:
        return math.sqrt(min(max(variance, self.noise / 2, MIN_SPREAD**2), 1.0))


def _clear(found: float, noise: float) -> float:
    """Positive part: what is left of a number once noise of this deviation is taken away."""
    return found * max(0.0, 1 - CAUTION * noise**2 / max(found**2, 1e-300))


def ridge_weights(values: Array, joint: Array, noise: float) -> Array:
    """Weights along the axes of the covariance, for the ridge of least estimated risk.

    The risk of weights w is ``w.Ew - 2 w.c`` up to a constant. That of noisy E and c is too small
    by what w owes to the noise of c, ``noise² sum 1/(E + ridge)``, and by up to ``radius |w|²`` for
    the noise of E, half of which is charged.
    """
    radius = noise * math.sqrt(2 * len(values))
    found: list[tuple[float, Array]] = []
    for times in RIDGES:
        shrinkage = 1 / (values + times * radius + 1e-12)
        weights = shrinkage * joint
        risk = float(weights @ (values * weights - 2 * joint))
        owed = noise**2 * float(shrinkage.sum()) + radius / 2 * float(weights @ weights)
        found.append((risk + owed, weights))
    return min(found, key=lambda each: each[0])[1]
