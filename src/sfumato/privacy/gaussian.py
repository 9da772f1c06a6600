"""The privacy curve of the Gaussian mechanism, in closed form and for any epsilon.

A release is mu-GDP when it is as hard to attack as telling N(0, 1) from N(mu, 1). Adding
N(0, s² I) to a statistic of L2 sensitivity D is mu-GDP with ``mu = D / s``, exactly; independent
releases compose as ``mu² = sum mu_i²``; and (Balle & Wang 2018)

``delta(epsilon) = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)``.

Roots are found in doubles. Every figure handed out is then checked against this curve in 40 digits
and more, and moved until it is on the safe side.
"""

from __future__ import annotations

import math

import mpmath
from scipy.optimize import brentq
from scipy.special import log_ndtr

from sfumato.exceptions import InvalidInputError

# First (relative) steps to the safe side, doubled until the exact curve agrees; mu by more than
# epsilon, so that noise calibrated to a budget fits that budget.
SAFE_EPSILON = 1e-10
SAFE_MU = 1e-8
MIN_MU = 1e-5  # below it, the two terms of delta cancel too far for roots in doubles
MIN_DOUBLE = math.ulp(0.0)


def delta_from_mu(mu: float, epsilon: float) -> float:
    """Smallest delta for which mu-GDP gives ``(epsilon, delta)``, rounded up.

    Parameters
    ----------
    mu : float
        The distance of two unit normals that are as hard to tell apart.
    epsilon : float
        The epsilon at which delta is asked for.

    Returns
    -------
    float
        Delta, the exact one or a double above it.
    """
    if mu == 0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(mu):
        return 1.0
    if mu / 2 - epsilon / mu < -50:  # delta <= Phi(-50) < 1e-500
        return MIN_DOUBLE
    exact = _exact_delta(mu, epsilon)
    near = float(exact)
    return min(1.0, near if near >= exact else math.nextafter(near, math.inf))


def epsilon_from_mu(mu: float, delta: float) -> float:
    """Smallest epsilon for which mu-GDP gives ``(epsilon, delta)``; infinite for delta 0.

    Parameters
    ----------
    mu : float
        The distance of two unit normals that are as hard to tell apart.
    delta : float
        The delta at which epsilon is asked for.

    Returns
    -------
    float
        Epsilon, never below the exact one.
    """
    if mu == 0 or delta_from_mu(mu, 0.0) <= delta:
        return 0.0
    if delta <= 0 or math.isinf(mu):
        return math.inf
    root, high, target = 0.0, 1.0, math.log(delta)
    if _log_delta(mu, 0.0) > target:
        while _log_delta(mu, high) > target:
            high *= 2
        root = brentq(lambda e: _log_delta(mu, e) - target, 0.0, high, xtol=1e-14)
    step = SAFE_EPSILON * max(root, mu)
    while delta_from_mu(mu, root + step) > delta:
        step *= 2
    return float(root + step)


def mu_from_budget(epsilon: float, delta: float) -> float:
    """Largest mu for which mu-GDP gives ``(epsilon, delta)``.

    Parameters
    ----------
    epsilon : float
        The epsilon of the budget.
    delta : float
        The delta of the budget.

    Returns
    -------
    float
        The distance mu, a hair below the exact one.

    Examples
    --------
    >>> round(1 / mu_from_budget(1.0, 1e-5), 4)  # noise of the Gaussian mechanism, D = 1
    3.7306
    """
    if not epsilon > 0:
        raise InvalidInputError(f"'epsilon' must be positive. Got {epsilon} instead.")
    if not 0 < delta < 1:
        raise InvalidInputError(
            f"Gaussian noise needs a 'delta' strictly between 0 and 1. Got {delta} instead."
        )
    if math.isinf(epsilon):
        return math.inf
    high, target = 1.0, math.log(delta)
    while _log_delta(high, epsilon) <= target:
        high *= 2
    low = high
    while _log_delta(low, epsilon) > target:
        low /= 2
    root = brentq(lambda mu: _log_delta(mu, epsilon) - target, low, high, rtol=1e-14)
    if root < MIN_MU:
        raise InvalidInputError(
            f"The budget epsilon={epsilon:g}, delta={delta:g} is too small to be computed with "
            "certainty in doubles; raise one of the two."
        )
    step = SAFE_MU * root
    while delta_from_mu(root - step, epsilon) > delta:
        step *= 2
    return float(root - step)


def _exact_delta(mu: float, epsilon: float) -> mpmath.mpf:
    """Return delta with a relative error below 1e-25, on the upper side of the exact one."""
    # What is lost: x² relative units in Phi(x), and 1/mu times (1 + x²) as the terms cancel.
    lost = 5 * math.log10(2 + mu + epsilon / mu) + 2 * math.log10(1 + 1 / mu)
    with mpmath.workdps(40 + math.ceil(lost)):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        first = mpmath.ncdf(m / 2 - e / m)
        second = mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        return (first - second) * (1 + mpmath.mpf(10) ** -26)


def _log_delta(mu: float, epsilon: float) -> float:
    """Return the logarithm of delta in doubles, quick enough to search with; -800 for 0."""
    log_first = float(log_ndtr(mu / 2 - epsilon / mu))
    log_second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    delta = -math.exp(log_first) * math.expm1(min(0.0, log_second - log_first))
    return math.log(delta) if delta > 0 else -800.0
