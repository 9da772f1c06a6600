"""Exact limits of a probability from counts (Clopper and Pearson 1934)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from sfumato.exceptions import InvalidInputError


def lower_limit(successes: ArrayLike, trials: ArrayLike, risk: float) -> NDArray[np.float64]:
    """Return p such that a smaller probability is true with chance at most `risk`."""
    k, n = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, risk), 0.0)


def upper_limit(successes: ArrayLike, trials: ArrayLike, risk: float) -> NDArray[np.float64]:
    """Return p such that a larger probability is true with chance at most `risk`."""
    k, n = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    return np.asarray(1 - lower_limit(n - k, n, risk))


def interval(successes: float, trials: float, confidence: float) -> tuple[float, float]:
    """Return both limits, each passed with half the risk."""
    risk = (1 - confidence) / 2
    return (
        float(lower_limit(successes, trials, risk)),
        float(upper_limit(successes, trials, risk)),
    )


def check_confidence(confidence: Any) -> float:
    """Check a confidence: strictly between 0 and 1."""
    if not 0 < confidence < 1:
        raise InvalidInputError(f"'confidence' must lie in (0, 1). Got {confidence} instead.")
    return float(confidence)
