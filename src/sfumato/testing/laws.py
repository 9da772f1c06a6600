"""What a mechanism says of its noise, in a form that a test can check."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import gamma, laplace, norm

from sfumato.mechanisms import (
    EntryMechanism,
    ExponentialMechanism,
    GammaMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponseMechanism,
)
from sfumato.mechanisms.objective import GammaObjectiveMechanism, ObjectiveMechanism
from sfumato.mechanisms.tape import Released

__all__ = ["moved_share", "uniform_scores"]


def moved_share(here: Released, there: Released) -> float:
    """Distance of two statistics in the mechanism's norm, as a share of its sensitivity."""
    if isinstance(here.mechanism, ObjectiveMechanism):
        return _moved_gradient(here, there)
    difference = np.abs(np.ravel(here.statistic) - np.ravel(there.statistic))
    mechanism = here.mechanism
    if isinstance(mechanism, GaussianMechanism | GammaMechanism):
        return float(np.linalg.norm(difference)) / mechanism.sensitivity
    if isinstance(mechanism, LaplaceMechanism):
        return float(difference.sum()) / mechanism.sensitivity
    if isinstance(mechanism, ExponentialMechanism):
        return float(difference.max()) / mechanism.sensitivity
    if isinstance(mechanism, EntryMechanism):
        # One entry may move and no other: each would cost epsilon, and an atom of its own.
        is_one = np.count_nonzero(difference) <= 1
        return float(difference.max()) / mechanism.entry_bound if is_one else math.inf
    if isinstance(mechanism, RandomizedResponseMechanism):
        return float(np.count_nonzero(difference))  # one record may change one answer
    return 0.0


def uniform_scores(released: Released, factor: float = 1.0) -> np.ndarray:
    """Give numbers that are uniform on (0, 1) if the noise has `factor` times the stated scale."""
    if isinstance(released.mechanism, ObjectiveMechanism):
        return _linear_term_scores(released, factor)
    noise = np.asarray(released.output, dtype=float) - released.statistic
    mechanism: Any = released.mechanism
    if isinstance(mechanism, GaussianMechanism):
        scale = factor * math.sqrt(mechanism.variance())
        return np.asarray(norm.cdf(_independent(noise, released.method) / scale))
    if isinstance(mechanism, GammaMechanism):
        length = np.linalg.norm(noise) * mechanism.epsilon / mechanism.sensitivity
        return np.asarray([gamma.cdf(length / factor, mechanism.size)])
    if isinstance(mechanism, LaplaceMechanism):
        scale = factor * mechanism.sensitivity / mechanism.epsilon
        return np.asarray(laplace.cdf(np.ravel(noise), scale=scale))
    if isinstance(mechanism, EntryMechanism):
        scale = factor * mechanism.entry_bound / mechanism.epsilon
        return np.asarray(laplace.cdf(noise[noise != 0], scale=scale))
    return np.empty(0)


def _independent(noise: np.ndarray, method: str) -> np.ndarray:
    """Independent coordinates of equal variance: ``(m_ii, √2 m_ij)`` of a symmetric release."""
    if method != "release_symmetric":
        return np.ravel(noise)
    order = noise.shape[-1]
    stack = noise.reshape(-1, order, order)
    rows, columns = np.triu_indices(order, k=1)
    diagonal = np.arange(order)
    above = math.sqrt(2) * stack[:, rows, columns]
    return np.concatenate([stack[:, diagonal, diagonal].ravel(), above.ravel()])


def _moved_gradient(here: Released, there: Released) -> float:
    """The statistic is an objective: its gradient counts, at any point; here at two of them."""
    objectives = here.statistic.item(), there.statistic.item()
    moved = []
    for point in (here.output, np.zeros_like(here.output)):
        gradients = [objective.gradient(point) for objective in objectives]
        moved.append(float(np.linalg.norm(gradients[0] - gradients[1])))
    return max(moved) / float(here.mechanism.sensitivity)


def _linear_term_scores(released: Released, factor: float) -> np.ndarray:
    """Find the noise from the minimiser: there it balances all other gradients."""
    mechanism, point = released.mechanism, released.output
    linear = -(released.statistic.item().gradient(point) + mechanism.strong_convexity * point)
    if isinstance(mechanism, GammaObjectiveMechanism):
        length = float(np.linalg.norm(linear)) * mechanism.rate
        return np.asarray([gamma.cdf(length / factor, mechanism.size)])
    return np.asarray(norm.cdf(linear.ravel() / (factor * math.sqrt(mechanism.variance()))))
