"""Telling two sets of outputs apart: a number for each output, and an event on that number.

Everything here is chosen on runs of its own. What is certified later on other runs is valid
whatever was chosen; a good choice only makes it large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from sfumato.audit.intervals import lower_limit, upper_limit

Array = NDArray[np.float64]

MAX_THRESHOLDS = 200
MAX_BINS = 40
CLEARLY = 0.3  # by so much must a set of bins win: it is chosen from very many


@dataclass(frozen=True)
class Counts:
    """How often an event was met, under the data that make it likely and under the others.

    hits, trials: Under the data that make the event likely.
    hits_other, trials_other: Under the others.
    """

    hits: NDArray[np.int_] | int
    trials: int
    hits_other: NDArray[np.int_] | int
    trials_other: int


Bound = Callable[[Counts], Array]


@dataclass(frozen=True)
class LikelierEvent:
    """The event ``f(score) >= threshold``, or its complement, and under which data it is likely.

    threshold: Where the event begins.
    complement: Whether the event is ``f(score) < threshold``.
    swapped: Whether D' makes it more likely than D.
    edges, ratios: f looks up the log-ratio of the bin in which a score falls; the identity without
        them.
    """

    threshold: float
    complement: bool = False
    swapped: bool = False
    edges: Array | None = None
    ratios: Array | None = None

    def happens(self, scores: Array) -> NDArray[np.bool_]:
        """Return for which scores the event has happened."""
        if self.edges is not None and self.ratios is not None:
            scores = self.ratios[np.searchsorted(self.edges, scores, side="right")]
        return np.asarray((scores >= self.threshold) ^ self.complement)

    def count(self, scores: Array, scores_prime: Array) -> Counts:
        """Count the event under both, the likely one first."""
        met = [(int(self.happens(s).sum()), len(s)) for s in (scores, scores_prime)]
        (hits, trials), (hits_other, trials_other) = met[::-1] if self.swapped else met
        return Counts(hits, trials, hits_other, trials_other)


def epsilon_bound(risk: float, delta: float) -> Bound:
    """Return the rule ``log((p - delta) / q)``, p from below, q from above, each at half the risk.

    It holds for every (epsilon, delta)-private mechanism: ``p <= exp(epsilon) q + delta``.
    """

    def bound(counts: Counts) -> Array:
        p, q = _limits(counts, risk)
        return np.asarray(np.log(np.maximum((p - delta) / q, 1.0)))

    return bound


def mu_bound(risk: float) -> Bound:
    """Return the rule ``Phi⁻¹(p) - Phi⁻¹(q)``; it holds for every mu-GDP mechanism."""

    def bound(counts: Counts) -> Array:
        p, q = _limits(counts, risk)
        tiny = np.finfo(float).tiny  # keeps both ends finite
        gap = ndtri(np.maximum(p, tiny)) - ndtri(np.maximum(q, tiny))
        return np.asarray(np.maximum(gap, 0.0))

    return bound


def _limits(counts: Counts, risk: float) -> tuple[Array, Array]:
    p = lower_limit(counts.hits, counts.trials, risk / 2)
    q = upper_limit(counts.hits_other, counts.trials_other, risk / 2)
    return p, q


def direction(outputs: Array, outputs_prime: Array) -> Array:
    """Return weights of the coordinates: difference of means over the common variance.

    A coordinate without any spread in which the two differ settles the matter alone.
    """
    gap = outputs.mean(axis=0) - outputs_prime.mean(axis=0)
    spread = (outputs.var(axis=0) + outputs_prime.var(axis=0)) / 2
    size = np.maximum(np.abs(outputs).max(axis=0), np.abs(outputs_prime).max(axis=0))
    return np.asarray(gap / np.maximum(spread, 1e-24 * np.maximum(size, 1e-100) ** 2))


def choose_event(scores: Array, scores_prime: Array, bound: Bound) -> LikelierEvent:
    """Return the event with the largest bound on these runs: a half-line, or a set of bins."""
    least, half_line = _best_half_line(scores, scores_prime, bound)
    edges, ratios = _bins(scores, scores_prime)
    looked_up = [ratios[np.searchsorted(edges, s, side="right")] for s in (scores, scores_prime)]
    value, in_bins = _best_half_line(looked_up[0], looked_up[1], bound)
    if value <= least + CLEARLY:
        return half_line
    return LikelierEvent(in_bins.threshold, in_bins.complement, in_bins.swapped, edges, ratios)


def _best_half_line(
    scores: Array, scores_prime: Array, bound: Bound
) -> tuple[float, LikelierEvent]:
    thresholds = _thresholds(scores, scores_prime)
    above, above_prime = (
        len(s) - np.searchsorted(np.sort(s), thresholds, side="left")
        for s in (scores, scores_prime)
    )
    n, n_prime = len(scores), len(scores_prime)
    ways = {
        (False, False): Counts(above, n, above_prime, n_prime),
        (True, False): Counts(n - above, n, n_prime - above_prime, n_prime),
        (False, True): Counts(above_prime, n_prime, above, n),
        (True, True): Counts(n_prime - above_prime, n_prime, n - above, n),
    }
    best = (-1.0, LikelierEvent(0.0))
    for (complement, swapped), counts in ways.items():
        values = bound(counts)
        at = int(np.argmax(values))
        if values[at] > best[0]:
            best = float(values[at]), LikelierEvent(float(thresholds[at]), complement, swapped)
    return best


def _thresholds(scores: Array, scores_prime: Array) -> Array:
    pooled = np.unique(np.concatenate([scores, scores_prime]))
    if len(pooled) > MAX_THRESHOLDS:
        places = np.linspace(0, len(pooled) - 1, MAX_THRESHOLDS).astype(int)
        pooled = pooled[places]
    return pooled


def _bins(scores: Array, scores_prime: Array) -> tuple[Array, Array]:
    """Return edges of bins and the log-ratio of both frequencies in each."""
    pooled = np.concatenate([scores, scores_prime])
    cuts = np.quantile(pooled, np.linspace(0, 1, MAX_BINS + 1)[1:-1])
    values, counts = np.unique(pooled, return_counts=True)
    atoms = values[counts > max(2, len(pooled) // 200)][:MAX_BINS]
    edges = np.unique(np.concatenate([cuts, atoms, np.nextafter(atoms, np.inf)]))
    here, there = (
        np.bincount(np.searchsorted(edges, s, side="right"), minlength=len(edges) + 1) + 1.0
        for s in (scores, scores_prime)
    )
    return edges, np.log(here / len(scores)) - np.log(there / len(scores_prime))
