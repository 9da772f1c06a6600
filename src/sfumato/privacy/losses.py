"""Privacy losses on a grid, composed step by step and never rounded down.

A measure M puts masses ``m_i`` on losses ``x_i`` and one on infinity; its curve is

``H_M(epsilon) = M(infinity) + sum_i m_i max(0, 1 - exp(epsilon - x_i))``.

M bounds a release if its curve is nowhere below the release's delta. Masses may only be added,
moved to larger losses, or spread to two neighbours such that the mass and the mean of
``exp(-loss)`` stay (the curve is convex in ``exp(-loss)``): each of them raises the curve. If M
and N bound two releases, their convolution bounds the two together. What floating point may lose
is added. Proof: docs/guarantees/ledger.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import fft
from scipy.special import log_ndtr
from scipy.stats import chi

from sfumato.exceptions import UnsupportedEventError
from sfumato.privacy.distributions import loss_cdf, loss_range, profile_masses, profile_of
from sfumato.privacy.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    EntryEvent,
    Event,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PureEvent,
    RandomizedResponseEvent,
    SelectionEvent,
    SubsampledGaussianEvent,
)

MAX_CELLS = 2**15  # of one measure: a quarter of a megabyte, a millisecond or two a convolution
MAX_HEAVY_CELLS = 8  # convolved one by one, which is exact but for the last bit
MAX_DIRECT_CELLS = 256  # convolved term by term
UNIT = 2.0**-53
ROUNDING = 2.0**-48  # relative, of a few operations in doubles
CURVE_ROUNDING = 1e-6  # relative, of the Gaussian curve for any mu that is used
MIN_MU = 1e-5
TAIL = 1e-15
MAX_WIDTH = 1e6  # beyond it a release counts as one that tells everything


@dataclass(frozen=True)
class Losses:
    """Masses on the losses ``(first + i) interval`` and on infinity; `interval` is a power of 2."""

    interval: float
    first: int
    masses: np.ndarray
    infinite: float = 0.0

    @classmethod
    def none(cls, interval: float) -> Losses:
        """Return the measure of no release: a loss of 0."""
        return cls(interval, 0, np.ones(1))

    @property
    def total(self) -> float:
        """All mass on finite losses, rounded up."""
        return float(self.masses.sum()) * (1 + len(self.masses) * UNIT)

    def composed(self, other: Losses, tail: float) -> Losses:
        """Return the measure of both together; each end of it may lose `tail` to larger losses."""
        left, right = self._at(other.interval), other._at(self.interval)
        if len(left.masses) < len(right.masses):
            left, right = right, left
        masses, lost = _convolved(left.masses, right.masses)
        infinite = (
            left.infinite * (right.total + right.infinite) + left.total * right.infinite + lost
        ) * (1 + ROUNDING)
        whole = Losses(left.interval, left.first + right.first, masses, infinite)
        return whole.trimmed(tail).narrowed()

    def power(self, count: int, tail: float) -> Losses:
        """Return the measure of `count` equal releases."""
        result, factor = None, self
        while True:
            if count & 1:
                result = factor if result is None else result.composed(factor, tail)
            count >>= 1
            if not count:
                return result or Losses.none(self.interval)
            factor = factor.composed(factor, tail)

    def trimmed(self, tail: float) -> Losses:
        """Move at most `tail` from the top to infinity, and from the bottom to what is kept."""
        upper, lower = np.cumsum(self.masses[::-1]), np.cumsum(self.masses)
        cut = int(np.searchsorted(upper, tail, side="right"))
        rise = int(np.searchsorted(lower, tail, side="right"))
        rise = min(rise, len(self.masses) - 1)
        stop = max(len(self.masses) - cut, rise + 1)
        masses = self.masses[rise:stop].copy()
        masses[0] += self.masses[:rise].sum() * (1 + ROUNDING)
        gone = float(self.masses[stop:].sum()) * (1 + ROUNDING)
        infinite = (self.infinite + gone) * (1 + ROUNDING)
        return Losses(self.interval, self.first + rise, masses, infinite)

    def narrowed(self) -> Losses:
        """Coarsen the grid until there are few enough cells."""
        measure = self
        while len(measure.masses) > MAX_CELLS:
            measure = measure._at(2 * measure.interval)
        return measure

    def _at(self, interval: float) -> Losses:
        """Return the measure on a grid of at least this interval."""
        measure = self
        while measure.interval < interval:
            places = measure.first + np.arange(len(measure.masses))
            masses, interval_ = measure.masses, measure.interval
            measure = _on_grid(places * interval_, masses, 2 * interval_, measure.infinite)
        return measure

    def delta(self, epsilon: float, mu: float) -> float:
        """Return the curve at `epsilon`, with Gaussian releases of total `mu`."""
        places = (self.first + np.arange(len(self.masses))) * self.interval
        curve = _gaussian_curve(epsilon - places, mu)
        return float(self.infinite + self.masses @ curve) * (1 + CURVE_ROUNDING)


@lru_cache(maxsize=64)
def losses_of(event: Event, interval: float) -> Losses:
    """Return a measure that bounds one release, on a grid of `interval` or a coarser one."""
    width = 2 * loss_range(event, TAIL)[1] if isinstance(event, ObjectivePerturbationEvent) else 0.0
    width = max(width, 2 * float(getattr(event, "epsilon", 0.0)))
    if width > MAX_WIDTH:
        return Losses(interval, 0, np.zeros(1), 1.0)
    while width / interval > MAX_CELLS / 2:
        interval *= 2
    match event:
        case RandomizedResponseEvent():
            other, n_labels = math.exp(-event.epsilon), event.n_labels
            masses = np.array([other, (n_labels - 2) * other, 1.0]) / (1 + (n_labels - 1) * other)
            return _on_grid(np.array([-1.0, 0.0, 1.0]) * event.epsilon, masses, interval)
        case PureEvent() | ApproximateEvent():
            e, lost = event.epsilon, getattr(event, "delta", 0.0)
            masses = np.array([math.exp(-e), 1.0]) / (1 + math.exp(-e)) * (1 - lost)
            return _on_grid(np.array([-e, e]), masses, interval, lost)
        case LaplaceEvent() | EntryEvent():
            # Half the mass at epsilon, exp(-epsilon) / 2 at -epsilon, the rest between them.
            e, lost = event.epsilon, getattr(event, "delta", 0.0)  # the atom tells an entry
            places, masses = _between(e, interval)
            places = np.concatenate([[-e, e], places])
            masses = np.concatenate([[math.exp(-e) / 2, 0.5], masses / 2]) * (1 - lost)
            return _on_grid(places, masses, interval, lost)
        case BoundedRangeEvent():
            # All mass between: the curve of `bounded_range_delta`, differentiated.
            places, masses = _between(event.epsilon, interval)
            return _on_grid(places, masses / -math.expm1(-event.epsilon), interval)
        case ObjectivePerturbationEvent():
            low, high = loss_range(event, TAIL)
            first, last = math.floor(low / interval), math.ceil(high / interval)
            cdf = loss_cdf(event, np.arange(first, last + 1) * interval)
            top = chi.sf((last * interval - low) * event.noise_multiplier, event.dimension)
            masses = np.maximum(np.diff(cdf), 0.0) * (1 + ROUNDING)  # rounded up to the next loss
            return Losses(interval, first + 1, masses, float(top) + TAIL)
        case SelectionEvent() | SubsampledGaussianEvent():
            # Both directions by one measure, which is looser than composing each on its own.
            places, masses, infinite = profile_masses(*profile_of(event, interval))
            return _on_grid(places, masses * (1 + ROUNDING), interval, infinite)
        case _:
            raise UnsupportedEventError(f"No privacy losses are known for a {event.kind!r} event.")


def _between(epsilon: float, interval: float) -> tuple[np.ndarray, np.ndarray]:
    """Return masses of the density ``exp((x - epsilon)/2) / 2``, cell by cell, and where they act.

    Spread to the ends of its cell, the mass between s and t acts as if it lay at ``(s + t)/2``.
    """
    last = math.floor(epsilon / interval)
    inside = np.arange(-last, last + 1) * interval
    edges = np.unique(np.concatenate([[-epsilon], inside, [epsilon]]))
    start, width = edges[:-1], np.diff(edges)
    return start + width / 2, np.exp((start - epsilon) / 2) * np.expm1(width / 2)


def _on_grid(
    places: np.ndarray, masses: np.ndarray, interval: float, infinite: float = 0.0
) -> Losses:
    """Spread each mass to its two neighbours on the grid, keeping the mean of ``exp(-loss)``."""
    cells = np.floor(places / interval)
    upper = np.expm1(cells * interval - places) / math.expm1(-interval)
    first = int(cells.min())
    index = (cells - first).astype(np.int64)
    size = int(index.max()) + 2
    spread = np.bincount(index, masses * (1 - upper), size)
    spread += np.bincount(index + 1, masses * upper, size)
    return Losses(interval, first, spread * (1 + ROUNDING), infinite)


def _convolved(large: np.ndarray, small: np.ndarray) -> tuple[np.ndarray, float]:
    """Convolve two arrays of masses; return also what the result may lack, all cells together."""
    result = np.zeros(len(large) + len(small) - 1)
    heavy = np.argsort(small)[-MAX_HEAVY_CELLS:]
    for place in heavy:
        result[place : place + len(large)] += small[place] * large
    rest = small.copy()
    rest[heavy] = 0.0
    filled = np.flatnonzero(rest)
    if not len(filled):
        return result * (1 + ROUNDING), 0.0
    start = int(filled[0])
    rest = rest[start : int(filled[-1]) + 1]
    if len(rest) <= MAX_DIRECT_CELLS:  # sums of products of positive numbers
        part, lost = np.convolve(large, rest) * (1 + 2 * len(rest) * UNIT), 0.0
    else:
        size = len(large) + len(rest) - 1
        length = fft.next_fast_len(size, real=True)
        product = fft.rfft(large, length) * fft.rfft(rest, length)
        part = np.maximum(fft.irfft(product, length)[:size], 0.0)
        # Higham (2002), theorem 24.2: the three transforms err by less than this in the norm.
        norms = large.sum() * np.linalg.norm(rest) + np.linalg.norm(large) * rest.sum()
        lost = math.sqrt(size) * (12 * UNIT * math.log2(length) * float(norms))
    result[start : start + len(part)] += part
    return result * (1 + ROUNDING), lost


def _gaussian_curve(epsilons: np.ndarray, mu: float) -> np.ndarray:
    """Return delta of Gaussian releases of total `mu` at any epsilons, also negative ones."""
    curve: np.ndarray = -np.expm1(np.minimum(epsilons, 0.0))
    if mu == 0:
        return curve
    mu = max(mu, MIN_MU)
    reach = mu * mu / 2 + 39 * mu  # beyond it the curve is 0, or 1 - exp(epsilon), but for 1e-300
    curve += 1e-300
    near = np.abs(epsilons) < reach
    e = epsilons[near]
    first = log_ndtr(mu / 2 - e / mu)
    # Two logarithms that cancel: their gap is known to a few roundings of what is subtracted.
    doubt = 8 * UNIT * (1 + np.abs(e) + (mu + np.abs(e) / mu) ** 2)
    gap = np.minimum(e + log_ndtr(-mu / 2 - e / mu) - first, 0.0) - doubt
    curve[near] = -np.exp(first) * np.expm1(gap) + 1e-300
    return curve
