"""Objective perturbation: the minimiser of a convex objective with a random linear term."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sfumato.exceptions import InvalidInputError
from sfumato.ledger.receipt import Chargeable
from sfumato.mechanisms.base import (
    Mechanism,
    add_on_grid,
    check_memory,
    grid_step,
    require_epsilon,
    require_sensitivity,
    to_grid,
)
from sfumato.mechanisms.gamma import FEW, MAX_NORM
from sfumato.mechanisms.minimiser import (
    PerturbableObjective as PerturbableObjective,
    near_minimiser,
    norm_quantile,
)
from sfumato.mechanisms.sampling import GAUSSIAN, require_scale, rounded_noise
from sfumato.mechanisms.spherical import rounded_spherical_noise
from sfumato.privacy.events import Event, NonPrivateEvent, ObjectivePerturbationEvent, PureEvent

Array = NDArray[np.float64]

GAUSSIAN_RESIDUAL = 2.0**-20  # of D: the gradient norm at which a point passes for the minimiser
TEN_DEVIATIONS = 10.0  # a normal variable passes them with probability 8e-24
GAMMA_RESIDUAL = 2.0**-15  # a wider one, for vectors of so large a norm are drawn on a coarser grid
GAMMA_SHARE = 2.0**-7  # of epsilon, for the noise on the output with that residual
MAX_SHARE = 0.5
MIN_BALL = 64  # residuals over Λ in the radius of the ball that points are moved into
ENLARGEMENT = 2.0**-10  # the share of the miss that rounding to a grid costs at most


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

    @property
    def _radius(self) -> float:
        """Radius of the ball that a point is moved into."""
        return math.inf

    def _check_rounding(self, rounding: float) -> None:
        if not (math.isfinite(rounding) and rounding >= 0):
            raise InvalidInputError(f"'rounding' must be finite and >= 0. Got {rounding} instead.")

    def _step(self, size: int) -> float:
        """Grid of the linear term: rounding to it is a quarter of the residual at most."""
        return self.residual / (4 * math.sqrt(size))

    def release(self, value: PerturbableObjective, *, ledger: Chargeable | None) -> Array:
        """Charge the ledger, then release the minimiser of the perturbed objective `value`."""
        size = math.prod(value.shape)
        self._require_scale(size)
        self._charge(ledger, size)
        linear = self._linear_term(value.shape)
        if isinstance(self.event(), NonPrivateEvent):  # nothing is promised, nothing to prove
            return value.minimise(linear, self.strong_convexity, self.residual / 2)
        t = near_minimiser(value, linear, self.strong_convexity, self.residual, self._radius)
        return self._with_output_noise(t)

    @abstractmethod
    def _require_scale(self, size: int) -> None:
        """Refuse noise of which some could not be drawn exactly."""

    @abstractmethod
    def for_size(self, size: int) -> Self:
        """Return this mechanism, or refuse by public numbers what cannot be drawn.

        Parameters
        ----------
        size : int
            Number of coordinates of a point.
        """

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
        self._check_rounding(self.rounding)

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

    def for_size(self, size: int) -> Self:
        """Return this mechanism, or refuse by public numbers what cannot be drawn."""
        self._require_scale(size)
        check_memory(size)
        return self

    def _require_scale(self, size: int) -> None:
        if self.noise_multiplier > 0:
            require_scale(self._linear_cells(size))
            step, scale = self._output_grid(size)
            require_scale(scale / step)

    def _linear_cells(self, size: int) -> float:
        """Deviation of a coordinate of b, in cells of its grid."""
        return math.sqrt(self.variance()) / self._step(size)

    def _linear_term(self, shape: tuple[int, ...]) -> Array:
        if self.noise_multiplier == 0:
            return np.zeros(shape)
        size = math.prod(shape)
        cells = rounded_noise(GAUSSIAN, self._linear_cells(size), size)
        return np.asarray(cells.reshape(shape) * self._step(size))

    def _output_grid(self, size: int) -> tuple[float, float]:
        """Step of the grid of the output, and the scale of its noise."""
        moved = 2 * self.residual / self.strong_convexity
        multiplier = self.noise_multiplier / self._share
        spread = math.sqrt(size)
        step = grid_step(moved * multiplier, sensitivity=moved, spread=spread)
        return step, (moved + step * spread) * multiplier

    def _with_output_noise(self, t: Array) -> Array:
        if self.noise_multiplier == 0:
            return t
        step, scale = self._output_grid(t.size)
        noise = rounded_noise(GAUSSIAN, scale / step, t.size).reshape(t.shape)
        return add_on_grid(to_grid(t, step), noise, step)


@dataclass(frozen=True)
class GammaObjectiveMechanism(ObjectiveMechanism):
    """``argmin_t  sum_i l(t; z_i) + Λ/2 ||t||² + <b, t>``, density of b as ``exp(-g ||b||)``.

    ``g = (epsilon (1 - q) - kappa) / D``, q = 2⁻⁷ where gradients are hardly rounded; the norm of b
    is Gamma(size, 1/g), its direction uniform.

    Parameters
    ----------
    sensitivity, kappa, strong_convexity : float
        See `GaussianObjectiveMechanism`.
    epsilon : float
        The budget, above kappa.
    size : int
        Number of coordinates of a point: the law depends on it.
    rounding : float, default=0.0
        See `GaussianObjectiveMechanism`; 0 promises that it is below ``2⁻¹⁶ D``.
    ball : float, default=inf
        Public radius of a ball that the point is moved into before the output noise; `rounding`
        is then a bound for all linear terms, however long, and epsilon holds without a delta.
        See `with_rounding`.

    Privacy
    -------
    Unit and relation : those of the sensitivity.
    Released : a point within ``τ / Λ`` of the minimiser, ``τ = max(2⁻¹⁵ D, 2 rounding)``, with
        noise of the same kind that hides by how much it misses.
    Sensitivity : D, of the gradient; ``2 τ / Λ``, of the miss.
    Guarantee : pure epsilon: ``g D + kappa`` for the minimiser, ``q epsilon`` for the miss,
        ``q = min(1/2, 2⁻⁷ √(τ / 2⁻¹⁵ D))``.
    Assumptions and numerics : as `GaussianObjectiveMechanism`. Proof: docs/guarantees/objective.md.
    """

    epsilon: float
    size: int
    rounding: float = 0.0
    ball: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_rounding(self.rounding)
        if self.size < 1:
            raise InvalidInputError(f"'size' must be at least 1. Got {self.size} instead.")
        if not self.kappa < require_epsilon(self.epsilon) * (1 - self._share):
            raise InvalidInputError(
                f"'epsilon' must be above kappa = {self.kappa:g}. Got {self.epsilon}; use a larger "
                "'regularization'."
            )
        linear = self.rate * self.residual / (4 * ENLARGEMENT)
        is_rough = self.residual > self.strong_convexity * self.ball / MIN_BALL
        norm = (self.size + FEW) * math.sqrt(self.size)
        if is_rough or norm > MAX_NORM * min(linear, self._share * self.epsilon):
            raise InvalidInputError(
                "'epsilon' leaves too little for noise of that size to be drawn; use a larger "
                "'epsilon' or a larger 'regularization'."
            )

    @property
    def _share(self) -> float:
        """q, the share of epsilon for the noise on the output."""
        wider = self.residual / (GAMMA_RESIDUAL * self.sensitivity)
        return min(MAX_SHARE, GAMMA_SHARE * math.sqrt(wider))

    def with_rounding(
        self, rounding_of: Callable[[float], float], ball_of: Callable[[float], float]
    ) -> GammaObjectiveMechanism:
        """Return the mechanism that pays for the rounding of gradients.

        What is paid for makes the noise larger, and larger noise the rounding: both are raised
        until they fit. The ball holds the minimisers of all linear terms but for a probability of
        9e-27; what lies beyond is moved to its edge.

        Parameters
        ----------
        rounding_of : callable
            Returns `rounding` for linear terms up to a norm.
        ball_of : callable
            Returns the radius of the ball that holds their minimisers.
        """
        found = self
        while True:
            longest = norm_quantile("gamma", self.size, 1 / found.rate)
            rounding = rounding_of(longest)
            if rounding <= found.rounding:
                return replace(found, ball=ball_of(longest))
            found = replace(found, rounding=1.01 * rounding)

    @property
    def _radius(self) -> float:
        return self.ball

    @property
    def rate(self) -> float:
        """g, the rate at which the density of b falls with its norm."""
        return (self.epsilon * (1 - self._share) - self.kappa) / self.sensitivity

    def event(self) -> Event:
        """Describe one release without data."""
        return PureEvent(self.epsilon, "objective perturbation")

    def variance(self) -> float:
        """Variance of one coordinate of b."""
        return (self.size + 1) / self.rate**2

    @property
    def residual(self) -> float:
        """``τ = max(2⁻¹⁵ D, 2 rounding)``."""
        return max(GAMMA_RESIDUAL * self.sensitivity, 2 * self.rounding)

    def for_size(self, size: int) -> Self:
        """Return this mechanism; sizes that cannot be drawn were refused when it was made."""
        self._require_scale(size)
        check_memory(size)
        return self

    def _require_scale(self, size: int) -> None:
        if size != self.size:
            raise InvalidInputError(f"The noise is for {self.size} numbers. Got {size}.")

    def _linear_term(self, shape: tuple[int, ...]) -> Array:
        step = self._step(self.size)
        cells = rounded_spherical_noise(1 / (self.rate * step), self.size)
        return np.asarray(cells.reshape(shape) * step)

    def _with_output_noise(self, t: Array) -> Array:
        moved = 2 * self.residual / self.strong_convexity
        root = math.sqrt(self.size)
        step = 2.0 ** math.floor(math.log2(ENLARGEMENT * moved / root))
        scale = (moved + step * root) / (self._share * self.epsilon)
        noise = rounded_spherical_noise(scale / step, self.size)
        return add_on_grid(to_grid(t, step), noise.reshape(t.shape), step)
