"""A point near the minimiser of a convex objective, for every data set: no error, a known miss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

UNIT_ROUNDOFF = 2.0**-53
SLIP = 60.0  # -log of the probability, 9e-27, that a norm of noise passes `norm_quantile`
REACH = 3.1  # radii: where the points of a descent lie, from a start in the ball of the minimisers


class PerturbableObjective(Protocol):
    """A convex sum over records; its records are secret, its shape is public."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a point t."""

    def gradient(self, t: Array) -> Array:
        """Gradient of the sum of losses at t."""

    def gradient_error(self, t: Array) -> float:
        """Bound on what rounding may change in the norm of `gradient` at t."""

    def minimise(self, linear: Array, strong_convexity: float, tolerance: float) -> Array:
        """Minimise ``loss(t) + <linear, t> + strong_convexity/2 ||t||²`` to this gradient norm.

        A quick solver that may fail: `near_minimiser` checks what it gives.
        """

    @property
    def smoothness(self) -> float:
        """Lipschitz constant of the gradient."""

    def radius(self, linear: float, strong_convexity: float) -> float:
        """Bound on the norm of the minimiser for linear terms of this norm."""


def farthest_minimiser(
    slopes: float, at_zero: float, linear: float, strong_convexity: float
) -> float:
    """Bound on the norm of ``t* = argmin loss(t) + <b, t> + Λ/2 ||t||²``.

    ``Λ ||t*|| <= slopes + ||b||`` from the gradient at t*, and ``Λ/2 ||t*||² - ||b|| ||t*|| <=
    at_zero`` because t* is no worse than zero and losses are not negative.

    slopes: Largest norm of the gradient of the sum of losses.
    at_zero: Sum of the losses at zero.
    linear: Largest ``||b||``.
    """
    tilt = linear / strong_convexity
    by_value = tilt + math.sqrt(tilt**2 + 2 * at_zero / strong_convexity)
    return min((slopes + linear) / strong_convexity, by_value)


def rounding_met(
    error: Callable[[float], float],
    slopes: float,
    at_zero: float,
    linear: float,
    strong_convexity: float,
) -> float:
    """Bound on the rounding of a gradient at every point that `near_minimiser` descends through.

    error: Bound on the rounding of the gradient of the losses at points of a given norm.
    slopes, at_zero, linear, strong_convexity: See `farthest_minimiser`.
    """
    farthest = farthest_minimiser(slopes, at_zero, linear, strong_convexity)
    # Longer linear terms have minimisers that near only if the slopes balance them.
    balanced = slopes + strong_convexity * farthest
    reach = REACH * farthest
    summed = _rounding_of_sum(slopes, max(linear, balanced), strong_convexity * reach)
    return error(reach) + summed


def _rounding_of_sum(*norms: float) -> float:
    return 4 * UNIT_ROUNDOFF * sum(norms)


def norm_quantile(law: str, size: int, scale: float) -> float:
    """Norm that noise of `size` coordinates passes with a probability of 9e-27 at most.

    law ({"gaussian", "gamma"}): Independent normal coordinates, or a Gamma-distributed norm.
    scale: Deviation of a coordinate, or scale of the Gamma law.
    """
    if law == "gaussian":
        return scale * (math.sqrt(size) + math.sqrt(2 * SLIP))
    return scale * (size + math.sqrt(2 * size * SLIP) + SLIP)


def near_minimiser(
    objective: PerturbableObjective,
    linear: Array,
    strong_convexity: float,
    tolerance: float,
    radius: float = math.inf,
) -> Array:
    """Return a point within ``tolerance / Λ`` of the minimiser, whatever the records are.

    With a finite `radius`, both are moved into the ball of that radius, and the bound holds for
    linear terms of any length: rounding grows in proportion to the norm of a point, and moving
    that point into the ball shrinks it again by as much.

    A quarter of the tolerance is left for the rounding of `linear`. What the quick solver gives is
    taken if its gradient, rounding included, is small enough. If not, gradient descent with steps
    ``1 / (smoothness + Λ)`` comes nearer by a factor ``1 - Λ/(smoothness + Λ)`` each time, up to
    the rounding e of a gradient over Λ: after a known number of steps it is within
    ``tolerance/8 + e`` over Λ, and e must be at most half the tolerance.

    tolerance: At least twice the rounding of gradients in the ball of the descent, see
        `rounding_met`.
    radius: Public; `farthest_minimiser` of the linear terms for which `rounding_met` was asked.
    """

    def gradient_and_bound(t: Array) -> tuple[Array, float]:
        losses = objective.gradient(t)
        gradient = losses + linear + strong_convexity * t
        norms = [float(np.linalg.norm(x)) for x in (losses, linear, strong_convexity * t)]
        doubt = objective.gradient_error(t) + _rounding_of_sum(*norms)
        return gradient, float(np.linalg.norm(gradient)) + doubt

    def is_near(t: Array, bound: float) -> bool:
        norm = float(np.linalg.norm(t))
        if norm <= radius:
            return bound <= 0.75 * tolerance
        # A tenth is left for the rounding of the move into the ball.
        return bound <= 0.65 * tolerance * max(1.0, (norm - bound / strong_convexity) / radius)

    with np.errstate(all="ignore"):  # a warning about the numbers would be one about the records
        # Rounding may take half of the tolerance, the check three quarters: an eighth is enough.
        t = objective.minimise(linear, strong_convexity, tolerance / 8)
        if is_near(t, gradient_and_bound(t)[1]):
            return projected(t, radius)
        steepest = (objective.smoothness + strong_convexity) * (1 + 2.0**-20)
        holds = objective.radius(float(np.linalg.norm(linear)), strong_convexity)
        t = _into_ball(t, holds)
        far = max(math.e, 16 * holds * strong_convexity / tolerance)
        for _ in range(math.ceil(steepest / strong_convexity * math.log(far))):
            gradient, bound = gradient_and_bound(t)
            if is_near(t, bound):
                break
            t = t - gradient / steepest
    return projected(t, radius)


def projected(t: Array, radius: float) -> Array:
    """Return the point of the ball of this radius that is nearest to t, to 4 units of rounding."""
    largest = float(np.abs(t).max(initial=0.0))
    if largest == 0:
        return t
    norm = largest * math.sqrt(math.fsum(((t / largest) ** 2).ravel().tolist()))
    return t if norm <= radius else np.asarray(t * (radius / norm))


def _into_ball(t: Array, radius: float) -> Array:
    if not np.isfinite(t).all():
        return np.zeros_like(t)
    return np.asarray(t * min(1.0, radius / max(float(np.linalg.norm(t)), radius * 2.0**-30)))
