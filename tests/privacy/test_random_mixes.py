"""Random mixes of releases, composed here by hand: the stated epsilon is never below.

Losses are rounded down to a grid and convolved, so that what is found here is a lower bound. It
shares no code with the accountant, and none with dp-accounting.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import chi, norm

from sfumato.privacy import epsilon_spent
from sfumato.privacy.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    ObjectivePerturbationEvent,
    PureEvent,
    RandomizedResponseEvent,
    RepeatedEvent,
    SubsampledGaussianEvent,
)
from sfumato.privacy.guarantee import Relation

STEP = 2.0**-10
CELLS = 2**16  # losses from -32 to 32
EDGES = (np.arange(CELLS + 1) - CELLS // 2) * STEP
Masses = np.ndarray


def smooth(below: Callable[[np.ndarray], np.ndarray]) -> Masses:
    """Masses of the cells by the distribution function; what lies beyond the last is left out."""
    return np.diff(below(EDGES))


def atoms(masses: dict[float, float]) -> Masses:
    found = np.zeros(CELLS)
    for loss, mass in masses.items():
        found[math.floor(loss / STEP - 1e-9) + CELLS // 2] += mass
    return found


def losses(event: Event, *, is_removed: bool) -> Masses:
    """The law of the loss of the worst pair, or of some pair, of one release."""
    match event:
        case GaussianEvent(noise_multiplier=r):
            return smooth(lambda x: norm.cdf(x * r - 0.5 / r))
        case LaplaceEvent(epsilon=e):
            return smooth(
                lambda x: np.where(x < -e, 0, np.where(x < e, np.exp((x - e) / 2) / 2, 1))
            )
        case RandomizedResponseEvent(epsilon=e, n_labels=k):
            whole = math.exp(e) + k - 1
            return atoms({e: math.exp(e) / whole, -e: 1 / whole, 0.0: (k - 2) / whole})
        case BoundedRangeEvent(epsilon=e):
            p, q = 0.5, 1 / (1 + math.exp(e))  # of many pairs, one
            return atoms({math.log(p / q): p, math.log((1 - p) / (1 - q)): 1 - p})
        case PureEvent(epsilon=e):
            return atoms({e: 1 / (1 + math.exp(-e)), -e: 1 / (1 + math.exp(e))})
        case ApproximateEvent(epsilon=e, delta=d):
            return (1 - d) * losses(PureEvent(e), is_removed=is_removed)
        case ObjectivePerturbationEvent(noise_multiplier=r, kappa=kappa, dimension=m):
            return smooth(lambda x: chi.cdf((x - kappa - 0.5 / r**2) * r, m))
        case SubsampledGaussianEvent(noise_multiplier=r, sampling_probability=q):
            if is_removed:
                return smooth(lambda x: norm.sf(place_of(-x, r, q) / r))
            return smooth(
                lambda x: (
                    (1 - q) * norm.cdf(place_of(x, r, q) / r)
                    + q * norm.cdf((place_of(x, r, q) - 1) / r)
                )
            )
    raise AssertionError(event)


def place_of(loss: np.ndarray, r: float, q: float) -> np.ndarray:
    """Where ``log(1 - q + q exp((2x - 1) / 2r²))`` is this loss."""
    rest = np.exp(loss) - (1 - q)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rest > 0, r**2 * np.log(rest / q) + 0.5, -np.inf)


def lower_bound(mix: list[tuple[Event, int]], delta: float) -> float:
    return max(one_side(mix, delta, is_removed=each) for each in (False, True))


def one_side(mix: list[tuple[Event, int]], delta: float, *, is_removed: bool) -> float:
    transformed = np.ones(CELLS // 2 + 1, dtype=complex)
    certain = 1.0
    for event, count in mix:
        masses = losses(event, is_removed=is_removed)
        certain *= (1 - getattr(event, "delta", 0.0)) ** count
        transformed *= np.fft.rfft(np.roll(masses, -CELLS // 2)) ** count
    masses = np.maximum(np.roll(np.fft.irfft(transformed, CELLS), CELLS // 2), 0)

    def excess(epsilon: float) -> float:
        above = EDGES[:-1] > epsilon
        kept = masses[above] @ -np.expm1(epsilon - EDGES[:-1][above])
        return float(kept) + 1 - certain - delta - 1e-12  # more than rounding adds

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, 31.0, xtol=1e-7))


def drawn(rng: np.random.Generator) -> Event:
    e, r = math.exp(rng.uniform(-3.5, 0.0)), math.exp(rng.uniform(0.3, 3.0))
    events = (
        GaussianEvent(r),
        LaplaceEvent(e),
        RandomizedResponseEvent(e, int(rng.integers(2, 9))),
        BoundedRangeEvent(e),
        PureEvent(e),
        ApproximateEvent(e, 10.0 ** rng.uniform(-9, -7)),
        ObjectivePerturbationEvent(2 * r, float(rng.uniform(0, 0.3)), int(rng.integers(1, 9))),
        SubsampledGaussianEvent(r, float(rng.uniform(0.01, 0.5))),
    )
    return events[rng.integers(len(events))]


@pytest.mark.parametrize("place", range(8))
def test_the_stated_epsilon_is_never_below(place: int) -> None:
    rng = np.random.default_rng(place)
    mix = [(drawn(rng), int(rng.integers(1, 6))) for _ in range(rng.integers(2, 5))]
    delta = 10.0 ** rng.uniform(-7, -3)
    events = [RepeatedEvent(event, count) for event, count in mix]
    stated = epsilon_spent(events, delta, Relation.ADD_OR_REMOVE_ONE)
    found = lower_bound(mix, delta)
    assert found > 0
    assert stated >= found - 1e-6
    more = lower_bound([*mix, (GaussianEvent(1.0), 1), *mix], delta)
    assert stated < more  # what was left out would be seen


def test_of_gaussian_releases_the_bound_is_tight() -> None:
    mix: list[tuple[Event, int]] = [(GaussianEvent(3.0), 2), (GaussianEvent(5.0), 1)]
    stated = epsilon_spent([RepeatedEvent(*each) for each in mix], 1e-5, Relation.ADD_OR_REMOVE_ONE)
    assert stated - 3 * STEP < lower_bound(mix, 1e-5) <= stated
