"""Privacy filters: what may still be released when each release is chosen after the last was seen.

A filter fixes one measure of cost when a budget is created and stops before its sum passes a limit.
The sum bounds the whole transcript however analysts chose kinds and budgets of their releases,
which composition by loss distributions does not. Proof: docs/guarantees/filters.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import ndtri_exp

from sfumato.exceptions import InvalidInputError, UnsupportedEventError
from sfumato.privacy.composition import exact_fraction
from sfumato.privacy.events import (
    ApproximateEvent,
    BoundedRangeEvent,
    EntryEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    RandomizedResponseEvent,
    SelectionEvent,
    flatten,
)
from sfumato.privacy.gaussian import delta_from_mu, epsilon_from_mu, mu_from_budget
from sfumato.privacy.renyi import ORDERS, cut_probability, renyi_divergence, selection_divergence

KINDS = ("pure", "gaussian", "renyi")
FAILURES = 0.1  # share of delta that a Rényi filter keeps for releases that may fail
UNIT_BITS = 200  # mu² and divergences are rounded up to multiples of 2^-200
PURE = (EntryEvent, LaplaceEvent, PureEvent, RandomizedResponseEvent)


@dataclass(frozen=True)
class Cost:
    """A sum of costs: the `amount` in the measure of a filter, and probabilities of `failure`."""

    amount: Fraction = Fraction(0)
    failure: Fraction = Fraction(0)

    def plus(self, other: Cost) -> Cost:
        """Add another cost, exactly."""
        return Cost(self.amount + other.amount, self.failure + other.failure)


@dataclass(frozen=True)
class PrivacyFilter:
    """A budget that holds under full adaptivity.

    Parameters
    ----------
    kind : {"pure", "gaussian", "renyi"}
        What is added up: epsilons; ``mu²``, for Gaussian and pure releases; Rényi divergences of
        one order, for mixtures.
    epsilon, delta : float
        What everything together keeps.
    order : float, optional
        The order of a Rényi filter, fixed for good; by default the best one for Gaussian releases.

    Examples
    --------
    >>> from sfumato.privacy.filters import PrivacyFilter
    >>> from sfumato.privacy.events import GaussianEvent
    >>> budget = PrivacyFilter("gaussian", 1.0, 1e-5)
    >>> once = budget.cost([GaussianEvent(8.0)])
    >>> budget.admits(once), budget.admits(once.plus(once).plus(once).plus(once).plus(once))
    (True, False)
    """

    kind: str
    epsilon: float
    delta: float = 0.0
    order: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidInputError(f"'kind' must be one of {', '.join(KINDS)}. Got {self.kind!r}.")
        if not 0 < self.epsilon < math.inf or not 0 <= self.delta < 1:
            raise InvalidInputError("'epsilon' must be positive and finite, 'delta' in [0, 1).")
        if (self.delta == 0) != (self.kind == "pure"):
            raise InvalidInputError(
                "A filter of kind 'pure' has delta 0; the others need a delta above 0."
            )
        if self.kind == "renyi" and self.order is None:
            # The order at which Gaussian releases may have the largest mu².
            slacks = np.array([_slack(a, self.delta * (1 - FAILURES)) for a in ORDERS])
            best = int(np.argmax((self.epsilon - slacks) / ORDERS))
            if self.epsilon <= slacks[best]:
                raise InvalidInputError(
                    f"No order leaves anything of epsilon {self.epsilon:g} at delta "
                    f"{self.delta:g}; a Rényi filter needs a larger epsilon."
                )
            object.__setattr__(self, "order", float(ORDERS[best]))
        if self.kind == "renyi" and self.order not in ORDERS:
            raise InvalidInputError(f"'order' {self.order!r} is not one of the known orders.")

    @classmethod
    def default(cls, epsilon: float, delta: float) -> PrivacyFilter:
        """Return the default filter of a budget: "pure" where delta is 0, else "gaussian"."""
        return cls("gaussian" if delta else "pure", epsilon, delta)

    def cost(self, events: Iterable[Event]) -> Cost:
        """Return what some releases cost, never too little."""
        total = Cost()
        for event, count in flatten(events).items():
            amount, failure = self._price(event)
            total = total.plus(Cost(count * amount, count * failure))
        return total

    def admits(self, total: Cost) -> bool:
        """Whether everything together stays within the budget."""
        # [F1] the sum after the next release, before it is made
        if self.kind == "pure":
            return total.failure == 0 and total.amount <= exact_fraction(self.epsilon)
        if self.kind == "gaussian":
            return total.failure == 0 and delta_from_mu(_mu(total), self.epsilon) <= self.delta
        return (
            total.failure <= exact_fraction(self.delta) * Fraction(FAILURES)
            and total.amount <= self._limit()
        )

    def spent(self, total: Cost) -> float:
        """Return the epsilon, at the budget's delta, that a sum of costs stands for."""
        if not total.amount:
            return 0.0
        if self.kind == "pure":
            return float(total.amount)
        if self.kind == "gaussian":
            return epsilon_from_mu(_mu(total), self.delta)
        return max(0.0, float(total.amount) + self.epsilon - float(self._limit()))

    def share(self, total: Cost) -> float:
        """Return the share of the limit that a sum of costs uses, from 0 to 1."""
        return min(1.0, float(total.amount / self._limit()))

    def left(self, total: Cost) -> float:
        """Return the epsilon, at the budget's delta, of the largest single release that still fits.

        For filters with a delta that release is Gaussian.
        """
        rest = self._limit() - total.amount
        if rest <= 0:
            return 0.0
        if self.kind == "pure":
            return float(rest)
        mu_squared = rest if self.kind == "gaussian" else 2 * rest / Fraction(self.order or 1.0)
        return epsilon_from_mu(math.sqrt(mu_squared), self.delta)

    def _limit(self) -> Fraction:
        if self.kind == "pure":
            return exact_fraction(self.epsilon)
        if self.kind == "gaussian":
            return _mu_squared(self.epsilon, self.delta)
        assert self.order is not None  # noqa: S101 - set when the filter was made
        # [F3] Canonne, Kamath and Steinke 2020, at one order that was fixed before any release
        rest = self.epsilon - _slack(self.order, self.delta * (1 - FAILURES))
        return Fraction(rest * (1 - 1e-12))

    def _price(self, event: Event) -> tuple[Fraction, Fraction]:
        """Return amount and failure of one release, or refuse what the filter does not bound."""
        fails, none = bool(getattr(event, "delta", 0.0)), Fraction(0)
        if self.kind == "pure":
            if isinstance(event, (*PURE, BoundedRangeEvent)) and not fails:
                return exact_fraction(event.epsilon), none
            raise _unbounded(event, "pure", "a budget with a delta")
        if self.kind == "gaussian":  # [F2] as hard to attack as a Gaussian release of this mu
            if isinstance(event, GaussianEvent):
                return _up(1 / Fraction(event.noise_multiplier) ** 2), none
            if isinstance(event, BoundedRangeEvent):
                return _up(Fraction(_binary_mu(event.epsilon / 2)) ** 2), none
            if isinstance(event, LaplaceEvent | EntryEvent) and not fails:
                return _up(Fraction(_laplace_mu(event.epsilon)) ** 2), none
            if isinstance(event, PURE) and not fails:
                return _up(Fraction(_binary_mu(event.epsilon)) ** 2), none
            raise _unbounded(event, "gaussian", "a budget of kind 'renyi'")
        failure = none
        if isinstance(event, SelectionEvent):
            divergence = selection_divergence(event)
            # [F4] the law of K is cut on both sides of the inequality
            factor = 1 + math.exp(min(self.epsilon, 700.0))
            failure = Fraction(factor * (1 + 1e-12)) * Fraction(cut_probability(event))
        elif isinstance(event, EntryEvent | ApproximateEvent) and event.delta:
            failure = exact_fraction(event.delta)
            divergence = renyi_divergence([PureEvent(max(event.epsilon, 1e-300))])
        else:
            divergence = renyi_divergence([event])
        amount = float(divergence[int(np.flatnonzero(self.order == ORDERS)[0])])
        if not math.isfinite(amount):
            raise _unbounded(event, "renyi", "a private one")
        return _up(Fraction(amount)), failure


@lru_cache(maxsize=1024)  # of every holder, at every look
def _mu_squared(epsilon: float, delta: float) -> Fraction:
    return Fraction(mu_from_budget(epsilon, delta)) ** 2


def _binary_mu(epsilon: float) -> float:
    """Return mu of the two normals that hide as little as one answer of log-odds ±epsilon.

    ``2 Phi⁻¹(1 / (1 + exp(-epsilon)))``, rounded up.
    """
    mu = -2 * float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon))))
    return mu * (1 + 1e-12) + 1e-15


def _laplace_mu(epsilon: float) -> float:
    """Return mu of the two normals that hide as little as Laplace noise at log-ratios ±epsilon.

    ``-2 Phi⁻¹(exp(-epsilon/2) / 2)``, rounded up: both have this rate of errors at equal ones.
    """
    mu = -2 * float(ndtri_exp(-epsilon / 2 - math.log(2)))
    return mu * (1 + 1e-12) + 1e-15


def _mu(total: Cost) -> float:
    root = math.sqrt(total.amount)
    return math.nextafter(root * (1 + 2.0**-52), math.inf) if root else 0.0


def _slack(order: float, delta: float) -> float:
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def _up(value: Fraction) -> Fraction:
    return Fraction(math.ceil(value * 2**UNIT_BITS), 2**UNIT_BITS)


def _unbounded(event: Event, kind: str, instead: str) -> UnsupportedEventError:
    return UnsupportedEventError(
        f"A filter of kind {kind!r} does not bound a {event.kind!r} release; it needs {instead}. "
        "Nothing was charged."
    )
