"""From a budget to a knob: noise, number of rounds, anything that moves the cost one way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

from sfumato.exceptions import InvalidInputError
from sfumato.privacy.bounded_range import concentration
from sfumato.privacy.composition import keeps_budget
from sfumato.privacy.events import Event, GaussianEvent, flatten
from sfumato.privacy.gaussian import mu_from_budget
from sfumato.privacy.guarantee import Relation

MAX_MULTIPLIER = 2.0**40
CLOSE = 1.2  # times the concentration of releases: about what they cost beside Gaussian ones


def calibrate(
    events_of: Callable[[float], Iterable[Event]],
    *,
    epsilon: float,
    delta: float,
    bracket: tuple[float, float],
    relation: Relation = Relation.REPLACE_ONE,
    tolerance: float = 1e-6,
) -> float:
    """Find the knob at which the cost of ``events_of(knob)`` is epsilon, from the safe side.

    Parameters
    ----------
    events_of : callable
        Returns the events of a run with that knob; their cost must be monotone in it.
    epsilon, delta : float
        The budget.
    bracket : (float, float)
        Two positive knobs: at the first the budget is kept, at the second it is passed. Either
        may be the larger.
    relation : Relation, default="replace_one"
        Which data sets count as neighbours.
    tolerance : float, default=1e-6
        Relative width at which the bisection stops.

    Returns
    -------
    float
        A knob that keeps the budget, within `tolerance` of one that passes it.
    """

    def keeps(knob: float) -> bool:
        return keeps_budget(events_of(knob), epsilon=epsilon, delta=delta, relation=relation)

    kept, passed = bracket
    if min(bracket) <= 0:
        raise InvalidInputError("The bracket must be two positive numbers.")
    if not keeps(kept):
        raise InvalidInputError(f"Even at {kept:g} the budget of epsilon {epsilon:g} is exceeded.")
    if keeps(passed):
        return passed
    while abs(passed - kept) > max(tolerance, 1e-12) * min(kept, passed):
        middle = (kept * passed) ** 0.5
        if keeps(middle):
            kept = middle
        else:
            passed = middle
    return kept


def min_noise_multiplier(
    events_of: Callable[[float], Iterable[Event]],
    *,
    epsilon: float,
    delta: float,
    relation: Relation,
    tolerance: float,
    advice: str = "",
) -> float:
    """Find the least noise multiplier at which ``events_of(multiplier)`` keeps the budget."""

    def keeps(multiplier: float) -> bool:
        return keeps_budget(events_of(multiplier), epsilon=epsilon, delta=delta, relation=relation)

    kept = 1.0
    while not keeps(kept):
        kept *= 2
        if kept > MAX_MULTIPLIER:
            raise InvalidInputError(
                f"No amount of noise achieves epsilon {epsilon:g} at delta "
                f"{delta:g}. {advice}".rstrip()
            )
    passed = kept / 2
    while passed > 1 / MAX_MULTIPLIER and keeps(passed):
        kept, passed = passed, passed / 2
    return calibrate(
        events_of,
        epsilon=epsilon,
        delta=delta,
        bracket=(kept, passed),
        relation=relation,
        tolerance=tolerance,
    )


@lru_cache(maxsize=64)
def gaussian_mu_beside(
    events: tuple[Event, ...],
    *,
    epsilon: float,
    delta: float,
    relation: Relation,
    tolerance: float = 2e-4,
) -> float:
    """Find the mu of all Gaussian releases that keep the budget beside `events`."""
    whole = mu_from_budget(epsilon, delta)
    if not events:
        return whole
    counts = flatten(events)
    rho = sum(count * concentration(event) for event, count in counts.items())
    summed = sum(count * getattr(event, "epsilon", math.inf) for event, count in counts.items())
    if summed < epsilon:  # at large budgets the plain sum is as good as any other bound
        plain = mu_from_budget(epsilon * (1 - 1e-9) - summed, delta)
        if plain**2 >= whole**2 - 2 * CLOSE * rho:
            return plain

    def events_of(mu: float) -> list[Event]:
        return [*events, GaussianEvent(1 / mu)]

    kept = whole
    for factor in (CLOSE, 1.6, 2.5, 5.0):  # a hair dearer than their concentration alone says
        left = whole**2 - 2 * factor * rho
        if left <= 0:
            break
        kept = left**0.5
        if keeps_budget(events_of(kept), epsilon=epsilon, delta=delta, relation=relation):
            found = calibrate(
                events_of,
                epsilon=epsilon,
                delta=delta,
                bracket=(kept, whole),
                relation=relation,
                tolerance=tolerance,
            )
            return found * (1 - 1e-9)  # squares of shares are rounded as they are added up
    raise InvalidInputError(
        f"A budget of epsilon {epsilon:g} at delta {delta:g} leaves no room for "
        "anything besides these releases."
    )
