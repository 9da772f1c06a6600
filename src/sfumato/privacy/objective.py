"""The privacy curve of objective perturbation with Gaussian noise.

With ``r = noise_multiplier`` the privacy loss is at most ``W = kappa + 1/(2r²) + chi_m / r``
(chi with m degrees of freedom), hence ``delta(epsilon) <= E max(0, 1 - exp(epsilon - W))``.
The gradient difference depends on the noise, so the loss is not Gaussian: chi_m, with m the
dimension of the space it lies in, is what remains provable.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import chi

from sfumato.privacy.events import ObjectivePerturbationEvent


def objective_delta(event: ObjectivePerturbationEvent, epsilon: float) -> float:
    """Smallest delta that the loss bound W proves at `epsilon`.

    Parameters
    ----------
    event : ObjectivePerturbationEvent
        The release.
    epsilon : float
        The epsilon at which delta is asked for.

    Returns
    -------
    float
        Delta.
    """
    a, offset, m = 1 / event.noise_multiplier, _offset(event), event.dimension
    start = max(0.0, (epsilon - offset) / a)
    # The integrand lives near sqrt(m) with unit width, or just above `start` in the tail.
    stop = max(start, math.sqrt(m)) + 40.0

    def integrand(t: float) -> float:
        return -math.expm1(epsilon - offset - a * t) * math.exp(chi.logpdf(t, m))

    points = [p for p in (math.sqrt(m) - 3, math.sqrt(m), math.sqrt(m) + 3) if start < p < stop]
    value, error = quad(integrand, start, stop, limit=500, points=points or None)
    return float(min(1.0, max(0.0, value + error)))


def loss_cdf(event: ObjectivePerturbationEvent, losses: np.ndarray) -> np.ndarray:
    """``P(W <= loss)`` for each of `losses`."""
    return np.asarray(chi.cdf((losses - _offset(event)) * event.noise_multiplier, event.dimension))


def loss_range(event: ObjectivePerturbationEvent, tail: float) -> tuple[float, float]:
    """Smallest loss, and the loss passed with probability `tail`."""
    quantile = float(chi.isf(tail, event.dimension))
    return _offset(event), _offset(event) + quantile / event.noise_multiplier


def mean_chi(dimension: int) -> float:
    """``E chi_m = sqrt(2) Gamma((m+1)/2) / Gamma(m/2)``."""
    return float(math.sqrt(2) * np.exp(gammaln((dimension + 1) / 2) - gammaln(dimension / 2)))


def _offset(event: ObjectivePerturbationEvent) -> float:
    return event.kappa + 0.5 / event.noise_multiplier**2
