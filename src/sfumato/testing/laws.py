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
)
from sfumato.mechanisms.tape import Released

__all__ = ["moved_share", "uniform_scores"]


def moved_share(here: Released, there: Released) -> float:
    """Distance of two statistics in the mechanism's norm, as a share of its sensitivity."""
    difference = np.abs(np.ravel(here.statistic) - np.ravel(there.statistic))
    mechanism = here.mechanism
    if isinstance(mechanism, GaussianMechanism | GammaMechanism):
        return float(np.linalg.norm(difference)) / mechanism.sensitivity
    if isinstance(mechanism, LaplaceMechanism):
        return float(difference.sum()) / mechanism.sensitivity
    if isinstance(mechanism, ExponentialMechanism):
        return float(difference.max()) / mechanism.sensitivity
    if isinstance(mechanism, EntryMechanism):
        return float(difference.max()) / mechanism.entry_bound
    return 0.0  # randomised response needs no sensitivity


def uniform_scores(released: Released, factor: float = 1.0) -> np.ndarray:
    """Give numbers that are uniform on (0, 1) if the noise has `factor` times the stated scale."""
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
