"""What the best attacker can do: figures for those who do not think in epsilons.

The attacker knows the algorithm, everything in the data but the one change that is protected, and
both candidates for it. Every test of theirs has a rate of false alarms a and a rate of hits b with

``b <= exp(e) a + delta(e)`` and ``1 - a <= exp(e) (1 - b) + delta(e)``, for each e >= 0,

where delta(e) is the privacy curve of the releases. So any upper bound on the curve gives upper
bounds on them; where the releases are not known, the curve is that of the worst mechanism that is
(epsilon, delta)-private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, ndtr, ndtri

from sfumato.exceptions import InvalidInputError
from sfumato.privacy.composition import explained_by_events
from sfumato.privacy.distributions import pld_curve, unnamed
from sfumato.privacy.events import Event, GaussianEvent, flatten
from sfumato.privacy.guarantee import Guarantee

FALSE_ALARMS = 0.01
SAFE = 1 + 1e-11  # more than rounding takes away from a figure, in the special functions too
Curve = Callable[[float], float]


@dataclass(frozen=True)
class Attacker:
    """Upper bounds on what the best attacker learns about the one change that is protected.

    Parameters
    ----------
    guesses_right : float
        Probability of a right guess, starting from even odds: ``(1 + delta(0)) / 2``.
    finds : float
        Share of changes (of members, where the change is a record) that are found at
        `false_alarms`.
    loss_exceeds : float or None
        Probability that the privacy loss, the log-ratio of the probabilities of what came out, is
        above the epsilon of the guarantee, whatever is computed from the releases and in whatever
        order they were chosen. It is not delta, and often many times delta. It is stated for
        Gaussian noise alone and else None: losses of Laplace noise, say, gather at epsilon, so
        that the last digit of epsilon decides.
    false_alarms : float, default=0.01
        The rate of false alarms of `finds`.
    """

    guesses_right: float
    finds: float
    loss_exceeds: float | None
    false_alarms: float = FALSE_ALARMS

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain JSON values.

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
    >>> from sfumato.privacy import best_attacker
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
    shrink, exceeds = math.exp(-epsilon), None  # the worst (epsilon, delta)-private mechanism
    right = (1 + shrink * delta) / (1 + shrink)
    finds = 1 - shrink * (1 - delta - false_alarms)
    if epsilon < -math.log(false_alarms):
        finds = min(finds, math.exp(epsilon) * false_alarms + delta)
    if known:
        own_right, own_finds, exceeds = _of_events(dict(known), epsilon, false_alarms)
        right, finds = min(right, own_right), min(finds, own_finds)
    return Attacker(min(1.0, right * SAFE), min(1.0, finds * SAFE), exceeds, false_alarms)


def percent(share: float) -> str:
    """Write a share in percent, rounded up to three digits."""
    if share <= 0:
        return "0 %"
    digit = 10.0 ** (math.floor(math.log10(100 * share)) - 2)
    # A round figure that was only enlarged by SAFE stays that figure.
    return f"{math.ceil(100 * share / digit * (1 - 2e-11)) * digit:.3g} %"


def in_thousand(share: float) -> str:
    """Write a share as a whole number in 1,000, rounded up."""
    return f"{math.ceil(1000 * share * (1 - 2e-11))} in 1,000"


def _of_events(
    counts: Mapping[Event, int], epsilon: float, false_alarms: float
) -> tuple[float, float, float | None]:
    if not all(isinstance(event, GaussianEvent) for event in counts):
        curve = pld_curve(counts)
        hits = _least(lambda e: math.exp(e) * false_alarms + curve(e), -math.log(false_alarms))
        if hits >= 0.5:  # the other bound is the smaller one only where most are found
            many = lambda e: 1 - math.exp(-e) * (1 - curve(e) - false_alarms)  # noqa: E731
            hits = min(hits, _least(many, max(epsilon, 1.0)))
        return (1 + curve(0.0)) / 2, hits, None
    mu = SAFE * math.sqrt(
        math.fsum(n / e.noise_multiplier**2 for e, n in counts.items())  # type: ignore[attr-defined]
    )
    hits = float(ndtr(ndtri(false_alarms) + mu))
    return float(ndtr(mu / 2)), hits, _loss_exceeds(mu, epsilon)


def _loss_exceeds(mu: float, epsilon: float) -> float:
    """Return the largest P(O) with ``P(O) >= exp(epsilon) Q(O)``, for P = N(mu, 1), Q = N(0, 1).

    Among sets of the same Q(O), half-lines have the largest P(O), and the ratio of a half-line
    ``z > t`` grows with t. Losses above epsilon are such a set, after any post-processing.
    """
    end = mu / 2 + epsilon / mu  # there the loss itself is epsilon

    def excess(t: float) -> float:
        return float(log_ndtr(mu - t) - log_ndtr(-t)) - epsilon + 1e-13 * (1 + t * t)

    start = -40.0  # below, both sides are 1 in doubles
    return 1.0 if excess(start) >= 0 else min(1.0, SAFE * ndtr(mu - brentq(excess, start, end)))


def _least(bound: Curve, end: float) -> float:
    """Return the least value found in [0, end): each value is a bound, so none can be too small."""
    found = minimize_scalar(
        bound, bounds=(0.0, end), method="bounded", options={"xatol": 1e-3 * end}
    )
    return min(1.0, bound(0.0), float(found.fun))
