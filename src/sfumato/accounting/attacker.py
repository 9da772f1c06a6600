"""What the best attacker can do: figures for those who do not think in epsilons.

The attacker knows the algorithm, everything in the data but the one change that is protected, and
both candidates for it. Every test of his has a rate of false alarms a and a rate of hits b with

``b <= exp(e) a + delta(e)`` and ``1 - a <= exp(e) (1 - b) + delta(e)``, for each e >= 0,

where delta(e) is the privacy curve of the releases. So any upper bound on the curve gives upper
bounds on him; where the releases are not known, the curve is that of the worst mechanism that is
(epsilon, delta)-private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache

from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr, ndtr, ndtri

from sfumato.accounting.composition import explained_by_events
from sfumato.accounting.distributions import pld_curve, unnamed
from sfumato.events import (
    BoundedRangeEvent,
    EntryEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    RandomizedResponseEvent,
    flatten,
)
from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Guarantee

__all__ = ["FALSE_ALARMS", "Attacker", "best_attacker", "percent"]

FALSE_ALARMS = 0.01
SAFE = 1 + 1e-11  # more than rounding takes away from a figure, in the special functions too
Curve = Callable[[float], float]
_BOUNDED = (BoundedRangeEvent, EntryEvent, LaplaceEvent, PureEvent, RandomizedResponseEvent)


@dataclass(frozen=True)
class Attacker:
    """Upper bounds on what the best attacker learns about the one change that is protected.

    Parameters
    ----------
    guesses_right : float
        Probability of a right guess, starting from even odds: ``(1 + delta(0)) / 2``.
    finds : float
        Share of changes (of members, where the change is a record) that he finds at
        `false_alarms`.
    loss_exceeds : float
        Probability that the privacy loss, the log-ratio of the probabilities of what came out, is
        above the epsilon of the guarantee. It is not delta, and often many times delta.
    false_alarms : float, default=0.01
        The rate of false alarms of `finds`.
    """

    guesses_right: float
    finds: float
    loss_exceeds: float
    false_alarms: float = FALSE_ALARMS

    def to_dict(self) -> dict[str, float]:
        """Give the figures as plain JSON values.

        Returns
        -------
        dict
            Plain values.
        """
        return asdict(self)


def best_attacker(guarantee: Guarantee, false_alarms: float = FALSE_ALARMS) -> Attacker:
    """Bound what the best attacker can do against a guarantee.

    Parameters
    ----------
    guarantee : Guarantee
        Its events, where they account for all of its epsilon, give figures that are true of the
        noise drawn. Without them the figures are those of the worst mechanism that keeps
        (epsilon, delta).
    false_alarms : float, default=0.01
        The rate of false alarms at which hits are counted.

    Returns
    -------
    Attacker
        Figures that are never too small. All are 1 where nothing is promised.

    Examples
    --------
    >>> from sfumato import Guarantee
    >>> from sfumato.accounting import best_attacker
    >>> round(best_attacker(Guarantee(epsilon=1.0)).guesses_right, 4)  # of the worst noise
    0.7311
    """
    if not 0 < false_alarms < 1:
        raise InvalidInputError(f"'false_alarms' must lie in (0, 1). Got {false_alarms} instead.")
    if guarantee.epsilon is None or not guarantee.is_private:
        return Attacker(1.0, 1.0, 1.0, false_alarms)
    known = flatten(guarantee.events) if explained_by_events(guarantee) else {}
    counts = tuple(unnamed(known).items())
    return _bounded(guarantee.epsilon, guarantee.delta, counts, false_alarms)


@lru_cache(maxsize=256)  # a guarantee is printed more than once
def _bounded(
    epsilon: float, delta: float, known: tuple[tuple[Event, int], ...], false_alarms: float
) -> Attacker:
    bounds = [_worst(epsilon, delta, false_alarms)]
    if known:
        bounds.append(_of_events(dict(known), epsilon, false_alarms))
    right, finds, exceeds = (min(1.0, min(each) * SAFE) for each in zip(*bounds, strict=True))
    return Attacker(right, finds, exceeds, false_alarms)


def percent(share: float) -> str:
    """Write a share in percent, rounded up to three digits.

    share: Between 0 and 1.
    Returns: Such as "55.4 %".
    """
    if share <= 0:
        return "0 %"
    digit = 10.0 ** (math.floor(math.log10(100 * share)) - 2)
    # A round figure that was only enlarged by SAFE stays that figure.
    return f"{math.ceil(100 * share / digit * (1 - 2e-11)) * digit:.3g} %"


Figures = tuple[float, float, float]


def _worst(epsilon: float, delta: float, false_alarms: float) -> Figures:
    """Give the figures of the worst (epsilon, delta)-private mechanism for each of them."""
    shrink = math.exp(-epsilon)
    hits = 1 - shrink * (1 - delta - false_alarms)
    if epsilon < -math.log(false_alarms):
        hits = min(hits, math.exp(epsilon) * false_alarms + delta)
    # The set where the loss exceeds epsilon has P > e^eps Q, and 1 - Q <= e^eps (1 - P) + delta.
    exceeds = 1.0 if delta else 0.0
    if delta and epsilon:
        exceeds = (-math.expm1(-epsilon) + shrink * delta) / -math.expm1(-2 * epsilon)
    return (1 + shrink * delta) / (1 + shrink), hits, exceeds


def _of_events(counts: Mapping[Event, int], epsilon: float, false_alarms: float) -> Figures:
    if all(isinstance(event, GaussianEvent) for event in counts):
        return _of_gaussian(counts, epsilon, false_alarms)
    curve = pld_curve(counts)
    exceeds = min(_exceeds(curve, epsilon), _atoms(counts, epsilon))
    return (1 + curve(0.0)) / 2, _hits(curve, epsilon, false_alarms), exceeds


def _of_gaussian(counts: Mapping[Event, int], epsilon: float, false_alarms: float) -> Figures:
    """Give the figures of telling N(0, 1) from N(mu, 1), in closed form."""
    mu = SAFE * math.sqrt(
        math.fsum(n / e.noise_multiplier**2 for e, n in counts.items())  # type: ignore[attr-defined]
    )
    above = float(ndtr(mu / 2 - epsilon / mu))
    if sum(counts.values()) > 1:
        # A later release may be made so that a loss once above epsilon stays there. The losses are
        # a Brownian motion with drift, stopped before mu²; this is its chance to pass epsilon.
        above += math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu)))
    return float(ndtr(mu / 2)), float(ndtr(ndtri(false_alarms) + mu)), above


def _hits(curve: Curve, epsilon: float, false_alarms: float) -> float:
    few = _least(lambda e: math.exp(e) * false_alarms + curve(e), -math.log(false_alarms))
    if few < 0.5:  # the other bound is the smaller one only where most are found
        return few
    many = _least(lambda e: 1 - math.exp(-e) * (1 - curve(e) - false_alarms), max(epsilon, 1.0))
    return min(few, many)


def _exceeds(curve: Curve, epsilon: float) -> float:
    """Bound ``P(loss > epsilon)``: it has ``P <= e^e Q + delta(e)`` and ``Q < e^-epsilon P``."""
    if epsilon < 1e-6:
        return 1.0
    return _least(lambda e: min(1.0, curve(e) / -math.expm1(e - epsilon)), epsilon)


def _atoms(counts: Mapping[Event, int], epsilon: float) -> float:
    """Bound ``P(loss > epsilon)`` where losses but for atoms have bounds that fit into epsilon."""
    if not all(isinstance(event, _BOUNDED) for event in counts):
        return 1.0
    most = math.fsum(n * event.epsilon for event, n in counts.items())  # type: ignore[attr-defined]
    if most > epsilon * SAFE:
        return 1.0
    return math.fsum(n * getattr(event, "delta", 0.0) for event, n in counts.items())


def _least(bound: Curve, end: float) -> float:
    """Give the least value found in [0, end): each value is a bound, so none can be too small."""
    found = minimize_scalar(
        bound, bounds=(0.0, end), method="bounded", options={"xatol": 1e-3 * end}
    )
    return min(1.0, bound(0.0), float(found.fun))
