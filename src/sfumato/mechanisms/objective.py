"""Objective perturbation: the minimiser of a convex objective with a random linear term."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms.base import (
    Mechanism,
    add_on_grid,
    grid_step,
    require_epsilon,
    require_sensitivity,
    to_grid,
)
from sfumato.mechanisms.sampling import (
    GAUSSIAN,
    require_scale,
    rounded_noise,
    rounded_spherical_noise,
)
from sfumato.privacy.events import Event, NonPrivateEvent, ObjectivePerturbationEvent, PureEvent

Array = NDArray[np.float64]

GAUSSIAN_RESIDUAL = 2.0**-20  # of D: the gradient norm at which a point passes for the minimiser
TEN_DEVIATIONS = 10.0  # a normal variable passes them with probability 8e-24
GAMMA_RESIDUAL = 2.0**-15  # a wider one, for vectors of so large a norm are drawn on a coarser grid
GAMMA_SHARE = 2.0**-7  # of epsilon, for the noise on the output with that residual
ENLARGEMENT = 2.0**-10  # the share of the miss that rounding to a grid costs at most
UNIT_ROUNDOFF = 2.0**-53
SLIP = 60.0  # -log of the probability, 9e-27, that a norm of noise passes `norm_quantile`
# A noise norm of 2**48 cells, some 2**5 below what doubles hold exactly; the norm of few numbers
# varies most, so they are counted as FEW more.
MAX_NORM = 2.0**36
FEW = 32
REACH = 3.1  # radii: where the points of a descent lie, from a start in the ball of the minimisers


# A point near the minimiser, for every data set: no error, a known miss ---------------------------


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
        """Minimise ``loss(t) + <linear, t> + strong_convexity/2 ||t||²`` to this gradient norm."""

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
    """Bound on the rounding of a gradient at every point that `near_minimiser` descends through."""
    farthest = farthest_minimiser(slopes, at_zero, linear, strong_convexity)
    # Longer linear terms have minimisers that near only if the slopes balance them.
    balanced = slopes + strong_convexity * farthest
    reach = REACH * farthest
    norms = slopes, max(linear, balanced), strong_convexity * reach
    return error(reach) + 4 * UNIT_ROUNDOFF * sum(norms)


def norm_quantile(size: int, scale: float) -> float:
    """Norm that `size` normal coordinates of this deviation pass with probability 9e-27 at most."""
    return scale * (math.sqrt(size) + math.sqrt(2 * SLIP))


def near_minimiser(
    objective: PerturbableObjective, linear: Array, strong_convexity: float, tolerance: float
) -> Array:
    """Return a point within ``tolerance / Λ`` of the minimiser, whatever the records are.

    A quarter of the tolerance is left for the rounding of `linear`. What the quick solver gives is
    taken if its gradient, rounding included, is small enough. If not, gradient descent with steps
    ``1 / (smoothness + Λ)`` comes nearer by a factor ``1 - Λ/(smoothness + Λ)`` each time, up to
    the rounding e of a gradient over Λ: after a known number of steps it is within
    ``tolerance/8 + e`` over Λ, and e must be at most half the tolerance.
    """

    def gradient_and_bound(t: Array) -> tuple[Array, float]:
        losses = objective.gradient(t)
        gradient = losses + linear + strong_convexity * t
        norms = [float(np.linalg.norm(x)) for x in (losses, linear, strong_convexity * t)]
        doubt = objective.gradient_error(t) + 4 * UNIT_ROUNDOFF * sum(norms)
        return gradient, float(np.linalg.norm(gradient)) + doubt

    with np.errstate(all="ignore"):  # a warning about the numbers would be one about the records
        # Rounding may take half of the tolerance, the check three quarters: an eighth is enough.
        t = objective.minimise(linear, strong_convexity, tolerance / 8)
        if gradient_and_bound(t)[1] <= 0.75 * tolerance:
            return t
        steepest = (objective.smoothness + strong_convexity) * (1 + 2.0**-20)
        holds = objective.radius(float(np.linalg.norm(linear)), strong_convexity)
        if not np.isfinite(t).all():
            t = np.zeros_like(t)
        t = t * min(1.0, holds / max(float(np.linalg.norm(t)), holds * 2.0**-30))
        far = max(math.e, 16 * holds * strong_convexity / tolerance)
        for _ in range(math.ceil(steepest / strong_convexity * math.log(far))):
            gradient, bound = gradient_and_bound(t)
            if bound <= 0.75 * tolerance:
                break
            t = t - gradient / steepest
    return t


# Mechanisms ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ObjectiveMechanism(Mechanism):
    """What the two laws share: draw b, minimise, cover the miss with a little noise."""

    sensitivity: float
    kappa: float
    strong_convexity: float

    def __post_init__(self) -> None:
        require_sensitivity(self.sensitivity)
        if not (math.isfinite(self.kappa) and self.kappa >= 0):
            raise InvalidInputError(f"'kappa' must be finite and >= 0. Got {self.kappa} instead.")
        if not (math.isfinite(self.strong_convexity) and self.strong_convexity > 0):
            raise InvalidInputError(
                f"'strong_convexity' must be finite and positive. Got {self.strong_convexity}."
            )

    @property
    @abstractmethod
    def residual(self) -> float:
        """τ: the point that is found lies within ``τ / Λ`` of the minimiser."""

    @abstractmethod
    def _draw(self, cells: float, size: int) -> Array:
        """Draw noise of the law, in cells of a grid."""

    @abstractmethod
    def _linear_cells(self, size: int) -> float:
        """Scale of b, in cells of its grid."""

    def _step(self, size: int) -> float:
        """Grid of b: rounding to it is a quarter of the residual at most."""
        return self.residual / (4 * math.sqrt(size))

    @abstractmethod
    def _output_grid(self, size: int) -> tuple[float, float]:
        """Step and scale of the noise that hides how far the point misses the minimiser."""

    def release(self, value: PerturbableObjective, *, ledger: Chargeable | None) -> Array:
        """Charge the ledger, then release the minimiser of the perturbed objective `value`."""
        size = math.prod(value.shape)
        self.grid(size)
        self._charge(ledger, size)
        if isinstance(self.event(), NonPrivateEvent):  # nothing is promised, nothing to prove
            zero = np.zeros(value.shape)
            return value.minimise(zero, self.strong_convexity, self.residual / 2)
        linear = self._linear_term(value.shape)
        t = near_minimiser(value, linear, self.strong_convexity, self.residual)
        return self._with_output_noise(t)

    def _linear_term(self, shape: tuple[int, ...]) -> Array:
        """Draw b, the rounding of a real vector to `_step`."""
        size = math.prod(shape)
        cells = self._draw(self._linear_cells(size), size)
        return np.asarray(cells.reshape(shape) * self._step(size))

    def _with_output_noise(self, t: Array) -> Array:
        """Hide by how much t misses the exact minimiser, ``residual / strong_convexity``."""
        step, scale = self._output_grid(t.size)
        noise = self._draw(scale / step, t.size).reshape(t.shape)
        return add_on_grid(to_grid(t, step), noise, step)


@dataclass(frozen=True)
class GaussianObjectiveMechanism(ObjectiveMechanism):
    """``argmin_t  sum_i l(t; z_i) + Λ/2 ||t||² + <b, t>`` with ``b ~ N(0, s² I)``.

    Parameters
    ----------
    sensitivity : float
        D, the largest change of ``sum grad l(t; z_i)`` between neighbours, at any t.
    kappa : float
        Largest ``log det(I + Hess l(t; z) / Λ)`` of one record.
    strong_convexity : float
        Λ.
    noise_multiplier : float
        ``r = s / D``; 0 means no noise (and an event that says so).
    dimension : int
        m, the dimension of a space that holds the change of the gradient, whatever t is.
    rounding : float, default=0.0
        Public bound on the rounding of gradients, `rounding_met`; 0 promises that it is below
        ``2⁻²¹ D``.

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : a point within ``τ / Λ`` of the minimiser, ``τ = max(2⁻²⁰ D, 2 rounding)``, with
        Gaussian noise of deviation ``2 √(τ/D) s / Λ`` that hides by how much it misses.
    Sensitivity : D, of the gradient; ``2 τ / Λ``, of the miss.
    Guarantee : the loss is at most ``kappa + 1/(2r²) + chi_m / r``, and for the miss
        ``10 mu + mu²/2`` more, ``mu = √(τ/D) / r``, but for a probability of 8e-24.
    Assumptions and numerics : b is the rounding of an exact real vector, and the rounding counts
        as miss. Proof: docs/guarantees/objective.md.
    """

    noise_multiplier: float
    dimension: int
    rounding: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (math.isfinite(self.rounding) and self.rounding >= 0):
            raise InvalidInputError(
                f"'rounding' must be finite and >= 0. Got {self.rounding} instead."
            )

    def event(self) -> Event:
        """Describe one release without data."""
        if self.noise_multiplier == 0:
            return NonPrivateEvent()
        mu = self._share / self.noise_multiplier
        kappa = self.kappa + TEN_DEVIATIONS * mu + mu**2 / 2
        return ObjectivePerturbationEvent(self.noise_multiplier, kappa, self.dimension)

    def variance(self) -> float:
        """Variance of one coordinate of b."""
        return (self.sensitivity * self.noise_multiplier) ** 2

    @property
    def residual(self) -> float:
        """``τ = max(2⁻²⁰ D, 2 rounding)``."""
        return max(GAUSSIAN_RESIDUAL * self.sensitivity, 2 * self.rounding)

    @property
    def _share(self) -> float:
        """Share of ``1/r`` that is mu of the noise on the output: 2⁻¹⁰ for the least τ."""
        return math.sqrt(self.residual / self.sensitivity)

    def grid(self, size: int) -> None:
        """Refuse noise of which some could not be drawn exactly."""
        if self.noise_multiplier > 0:
            require_scale(self._linear_cells(size))
            step, scale = self._output_grid(size)
            require_scale(scale / step)

    def _draw(self, cells: float, size: int) -> Array:
        return rounded_noise(GAUSSIAN, cells, size)

    def _linear_cells(self, size: int) -> float:
        return math.sqrt(self.variance()) / self._step(size)

    def _output_grid(self, size: int) -> tuple[float, float]:
        moved = 2 * self.residual / self.strong_convexity
        multiplier = self.noise_multiplier / self._share
        spread = math.sqrt(size)
        step = grid_step(moved * multiplier, sensitivity=moved, spread=spread)
        return step, (moved + step * spread) * multiplier


@dataclass(frozen=True)
class GammaObjectiveMechanism(ObjectiveMechanism):
    """``argmin_t  sum_i l(t; z_i) + Λ/2 ||t||² + <b, t>``, density of b as ``exp(-g ||b||)``.

    ``g = (epsilon (1 - 2⁻⁷) - kappa) / D``; the norm of b is Gamma(size, 1/g), its direction
    uniform. It is the noise that papers print; the rounding of gradients is assumed to be small.

    Parameters
    ----------
    sensitivity, kappa, strong_convexity : float
        See `GaussianObjectiveMechanism`.
    epsilon : float
        The budget, above kappa.
    size : int
        Number of coordinates of a point: the law depends on it.

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : a point within ``τ / Λ`` of the minimiser, ``τ = 2⁻¹⁵ D``, with noise of the same
        kind that hides by how much it misses.
    Sensitivity : D, of the gradient; ``2 τ / Λ``, of the miss.
    Guarantee : pure epsilon: ``g D + kappa`` for the minimiser, ``2⁻⁷ epsilon`` for the miss.
    Assumptions and numerics : gradients are rounded by less than ``2⁻¹⁶ D``; else as
        `GaussianObjectiveMechanism`. Proof: docs/guarantees/objective.md.
    """

    epsilon: float
    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size < 1:
            raise InvalidInputError(f"'size' must be at least 1. Got {self.size} instead.")
        if not self.kappa < require_epsilon(self.epsilon) * (1 - GAMMA_SHARE):
            raise InvalidInputError(
                f"'epsilon' must be above kappa = {self.kappa:g}. Got {self.epsilon}; use a larger "
                "'regularization'."
            )
        linear = self.rate * self.residual / (4 * ENLARGEMENT)
        norm = (self.size + FEW) * math.sqrt(self.size)
        if norm > MAX_NORM * min(linear, GAMMA_SHARE * self.epsilon):
            raise InvalidInputError(
                "'epsilon' leaves too little for noise of that size to be drawn; use a larger "
                "'epsilon' or a larger 'regularization'."
            )

    @property
    def rate(self) -> float:
        """g, the rate at which the density of b falls with its norm."""
        return (self.epsilon * (1 - GAMMA_SHARE) - self.kappa) / self.sensitivity

    def event(self) -> Event:
        """Describe one release without data."""
        return PureEvent(self.epsilon, "objective perturbation")

    def variance(self) -> float:
        """Variance of one coordinate of b."""
        return (self.size + 1) / self.rate**2

    @property
    def residual(self) -> float:
        """``τ = 2⁻¹⁵ D``."""
        return GAMMA_RESIDUAL * self.sensitivity

    def grid(self, size: int) -> None:
        """Refuse other sizes; those that cannot be drawn were refused when it was made."""
        if size != self.size:
            raise InvalidInputError(f"The noise is for {self.size} numbers. Got {size}.")

    def _draw(self, cells: float, size: int) -> Array:
        return rounded_spherical_noise(cells, size)

    def _linear_cells(self, size: int) -> float:
        return 1 / (self.rate * self._step(size))

    def _output_grid(self, size: int) -> tuple[float, float]:
        moved = 2 * self.residual / self.strong_convexity
        root = math.sqrt(size)
        step = 2.0 ** math.floor(math.log2(ENLARGEMENT * moved / root))
        return step, (moved + step * root) / (GAMMA_SHARE * self.epsilon)


def gamma_linear_term(scale: float, size: int) -> Array:
    """Draw b of size numbers, its density as ``exp(-||b|| / scale)``, for a refuted algorithm."""
    step = 2.0 ** math.floor(math.log2(scale / math.sqrt(size))) / 1024
    return rounded_spherical_noise(scale / step, size) * step
