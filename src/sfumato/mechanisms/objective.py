"""Objective perturbation: the minimiser of a convex objective with a random linear term."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.accounting.receipt import Chargeable
from sfumato.events import Event, NonPrivateEvent, ObjectivePerturbationEvent, PureEvent
from sfumato.exceptions import InvalidInputError, SfumatoError
from sfumato.mechanisms.base import Mechanism, require_epsilon, require_sensitivity
from sfumato.mechanisms.grid import add_on_grid, grid_step, to_grid
from sfumato.mechanisms.sampling import GAUSSIAN, rounded_noise
from sfumato.mechanisms.spherical import rounded_spherical_noise

__all__ = [
    "GammaObjectiveMechanism",
    "GaussianObjectiveMechanism",
    "ObjectiveMechanism",
    "PerturbableObjective",
]

Array = NDArray[np.float64]

GAUSSIAN_RESIDUAL = 2.0**-20  # of D: the gradient norm at which a point passes for the minimiser
GAUSSIAN_SHARE = 2.0**-10  # of 1/r: mu of the noise on the output
TEN_DEVIATIONS = 10.0  # a normal variable passes them with probability 8e-24
GAMMA_RESIDUAL = 2.0**-15  # a wider one, for vectors of so large a norm are drawn on a coarser grid
GAMMA_SHARE = 2.0**-7  # of epsilon, for the noise on the output
ENLARGEMENT = 2.0**-10  # the share of the miss that rounding to a grid costs at most


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


@dataclass(frozen=True)
class ObjectiveMechanism(Mechanism):
    """What the two laws share: draw b, minimise, certify, cover the rest with a little noise."""

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
        """τ, the gradient norm at which a point passes for the minimiser."""

    def _step(self, size: int) -> float:
        """Grid of the linear term: rounding to it is a quarter of the residual at most."""
        return self.residual / (4 * math.sqrt(size))

    def release(self, value: PerturbableObjective, *, ledger: Chargeable | None) -> Array:
        """Charge the ledger, then release the minimiser of the perturbed objective `value`."""
        self._charge(ledger)
        linear = self._linear_term(value.shape)
        t = value.minimise(linear, self.strong_convexity, self.residual / 2)
        self._certify(value, linear, t)
        return self._with_output_noise(t)

    def _certify(self, objective: PerturbableObjective, linear: Array, t: Array) -> None:
        gradient = objective.gradient(t) + linear + self.strong_convexity * t
        rounding = self.residual / 4 + objective.gradient_error(t)
        reached = float(np.linalg.norm(gradient)) + rounding
        if not reached <= self.residual:
            raise SfumatoError(
                "The minimiser could not be found to the accuracy that the proof needs, so "
                "nothing is released. Use fewer features or a larger 'regularization'."
            )

    @abstractmethod
    def _linear_term(self, shape: tuple[int, ...]) -> Array:
        """Draw b, the rounding of a real vector to `_step`."""

    @abstractmethod
    def _with_output_noise(self, t: Array) -> Array:
        """Hide by how much t misses the exact minimiser, ``residual / strong_convexity``."""


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

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : a point whose gradient norm was checked to be below ``τ = D 2⁻²⁰``, with Gaussian
        noise of deviation ``2⁻⁹ s / Λ`` that hides by how much it misses the minimiser.
    Sensitivity : D, of the gradient; ``2 τ / Λ``, of the miss.
    Guarantee : the loss is at most ``kappa + 1/(2r²) + chi_m / r``, and for the miss
        ``10 mu + mu²/2`` more, ``mu = 2⁻¹⁰ / r``, but for a probability of 8e-24.
    Assumptions and numerics : b is the rounding of an exact real vector, and the rounding counts
        as miss. Proof: docs/guarantees/objective.md.
    """

    noise_multiplier: float
    dimension: int

    def event(self) -> Event:
        """Describe one release without data."""
        if self.noise_multiplier == 0:
            return NonPrivateEvent()
        mu = GAUSSIAN_SHARE / self.noise_multiplier
        kappa = self.kappa + TEN_DEVIATIONS * mu + mu**2 / 2
        return ObjectivePerturbationEvent(self.noise_multiplier, kappa, self.dimension)

    def variance(self) -> float:
        """Variance of one coordinate of b."""
        return (self.sensitivity * self.noise_multiplier) ** 2

    @property
    def residual(self) -> float:
        """``τ = D 2⁻²⁰``."""
        return GAUSSIAN_RESIDUAL * self.sensitivity

    def _linear_term(self, shape: tuple[int, ...]) -> Array:
        if self.noise_multiplier == 0:
            return np.zeros(shape)
        size = math.prod(shape)
        step = self._step(size)
        cells = rounded_noise(GAUSSIAN, math.sqrt(self.variance()) / step, size)
        return np.asarray(cells.reshape(shape) * step)

    def _with_output_noise(self, t: Array) -> Array:
        if self.noise_multiplier == 0:
            return t
        moved = 2 * self.residual / self.strong_convexity
        multiplier = self.noise_multiplier / GAUSSIAN_SHARE
        spread = math.sqrt(t.size)
        step = grid_step(moved * multiplier, sensitivity=moved, spread=spread)
        scale = (moved + step * spread) * multiplier
        noise = rounded_noise(GAUSSIAN, scale / step, t.size).reshape(t.shape)
        return add_on_grid(to_grid(t, step), noise, step)


@dataclass(frozen=True)
class GammaObjectiveMechanism(ObjectiveMechanism):
    """``argmin_t  sum_i l(t; z_i) + Λ/2 ||t||² + <b, t>``, density of b as ``exp(-g ||b||)``.

    ``g = (epsilon (1 - 2⁻⁷) - kappa) / D``; the norm of b is Gamma(size, 1/g), its direction
    uniform.

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
    Released : a point whose gradient norm was checked to be below ``τ = D 2⁻¹⁵``, with noise of
        the same kind that hides by how much it misses the minimiser.
    Sensitivity : D, of the gradient; ``2 τ / Λ``, of the miss.
    Guarantee : pure epsilon: ``g D + kappa`` for the minimiser, ``2⁻⁷ epsilon`` for the miss.
    Assumptions and numerics : as `GaussianObjectiveMechanism`. Proof: docs/guarantees/objective.md.
    """

    epsilon: float
    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.kappa < require_epsilon(self.epsilon) * (1 - GAMMA_SHARE):
            raise InvalidInputError(
                f"'epsilon' must be above kappa = {self.kappa:g}. Got {self.epsilon}; use a larger "
                "'regularization'."
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
        """``τ = D 2⁻¹⁵``."""
        return GAMMA_RESIDUAL * self.sensitivity

    def _linear_term(self, shape: tuple[int, ...]) -> Array:
        if math.prod(shape) != self.size:
            raise InvalidInputError(f"The noise is for {self.size} numbers. Got shape {shape}.")
        step = self._step(self.size)
        cells = rounded_spherical_noise(1 / (self.rate * step), self.size)
        return np.asarray(cells.reshape(shape) * step)

    def _with_output_noise(self, t: Array) -> Array:
        moved = 2 * self.residual / self.strong_convexity
        root = math.sqrt(self.size)
        step = 2.0 ** math.floor(math.log2(ENLARGEMENT * moved / root))
        scale = (moved + step * root) / (GAMMA_SHARE * self.epsilon)
        noise = rounded_spherical_noise(scale / step, self.size)
        return add_on_grid(to_grid(t, step), noise.reshape(t.shape), step)
