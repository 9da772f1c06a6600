"""How much more likely a released value is under one data set than under another.

An attacker who knows both data sets knows the exact statistics of both, and the law of the noise
is public: the best he can do is to compare ``log p(output | s) - log p(output | s')``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.mechanisms import (
    EntryMechanism,
    ExponentialMechanism,
    GammaMechanism,
    LaplaceMechanism,
    RandomizedResponseMechanism,
)
from sfumato.mechanisms.objective import GammaObjectiveMechanism, ObjectiveMechanism
from sfumato.mechanisms.tape import Released

__all__ = ["log_ratio", "separation"]

CERTAIN = 1e3  # stands for an infinite log-ratio


def log_ratio(here: Sequence[Released], there: Sequence[Released]) -> float:
    """Sum the log-ratios of all releases of a run; exact for the laws of this library.

    Parameters
    ----------
    here : sequence of Released
        The releases of a run on D: exact statistics and outputs.
    there : sequence of Released
        The same outputs played back to a run on D', for the exact statistics there.
    """
    return sum(
        _of_one(mine, mine.output, theirs.statistic)
        for mine, theirs in zip(here, there, strict=True)
    )


def separation(here: Sequence[Released], there: Sequence[Released]) -> float:
    """Give the log-ratio of a run whose noise is zero: how far apart the two data sets lie."""
    return sum(
        _gradient_gap(mine, theirs)
        if isinstance(mine.mechanism, ObjectiveMechanism)
        else abs(_of_one(mine, _noiseless(mine), theirs.statistic))
        for mine, theirs in zip(here, there, strict=True)
    )


def _noiseless(released: Released) -> object:
    if isinstance(released.mechanism, ExponentialMechanism):
        return int(np.argmax(released.statistic))
    return released.statistic


def _of_one(released: Released, output: Any, other: Any) -> float:
    mechanism = released.mechanism
    if isinstance(mechanism, ObjectiveMechanism):
        return _of_minimiser(released, other)
    s, t = np.asarray(released.statistic), np.asarray(other)
    if s.shape != t.shape:
        return CERTAIN
    if isinstance(mechanism, ExponentialMechanism):
        return float(s[int(output)] - t[int(output)]) / mechanism.sensitivity
    o = np.asarray(output)
    if isinstance(mechanism, RandomizedResponseMechanism):
        return float(mechanism.epsilon * ((o == s).sum() - (o == t).sum()))
    if o.shape != s.shape:
        return 0.0
    if isinstance(mechanism, GammaMechanism):
        rate = mechanism.epsilon / mechanism.sensitivity
        return rate * float(np.linalg.norm(o - t) - np.linalg.norm(o - s))
    if isinstance(mechanism, EntryMechanism) and np.any((o == s) & (s != t)):
        return CERTAIN
    variance = float(mechanism.variance())
    if not variance > 0:
        return CERTAIN if np.array_equal(o, s) and not np.array_equal(s, t) else 0.0
    if isinstance(mechanism, LaplaceMechanism | EntryMechanism):
        return float((np.abs(o - t) - np.abs(o - s)).sum()) / math.sqrt(variance / 2)
    # Gaussian; for a law that is not known here, a projection on the difference.
    return float(((o - (s + t) / 2) * (s - t)).sum()) / variance


def _of_minimiser(released: Released, other: Any) -> float:
    """At a minimiser the noise balances all other gradients; its law is known.

    The change of the volume element, at most kappa, is left out.
    """
    mechanism, point = released.mechanism, released.output
    pull = mechanism.strong_convexity * point
    mine, theirs = (
        float(np.linalg.norm(objective.item().gradient(point) + pull))
        for objective in (released.statistic, other)
    )
    if isinstance(mechanism, GammaObjectiveMechanism):
        return float(mechanism.rate * (theirs - mine))
    return (theirs**2 - mine**2) / (2 * float(mechanism.variance()))


def _gradient_gap(here: Released, there: Released) -> float:
    gradients = [each.statistic.item().gradient(here.output) for each in (here, there)]
    return float(np.linalg.norm(gradients[0] - gradients[1]) / here.mechanism.sensitivity)
