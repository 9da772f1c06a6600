"""From a budget to a knob: noise, number of rounds, anything that moves the cost one way."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sfumato.accounting.composition import epsilon_spent
from sfumato.events import Event
from sfumato.exceptions import InvalidInputError
from sfumato.guarantee import Relation

__all__ = ["calibrate", "least_noise_multiplier"]

LARGEST_MULTIPLIER = 2.0**40


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
        Gives the events of a run with that knob; their cost must be monotone in it.
    epsilon, delta : float
        The budget.
    bracket : (float, float)
        Two positive knobs: at the first the budget is kept, at the second it is passed. Either
        may be the larger.
    relation : Relation, default="replace_one"
        The neighbours.
    tolerance : float, default=1e-6
        Relative width at which the bisection stops.

    Returns
    -------
    float
        A knob that keeps the budget, within `tolerance` of one that passes it.
    """

    def keeps(knob: float) -> bool:
        return epsilon_spent(events_of(knob), delta, relation, enough=epsilon) <= epsilon

    kept, passed = bracket
    if min(bracket) <= 0:
        raise InvalidInputError("The bracket must hold two positive numbers.")
    if not keeps(kept):
        raise InvalidInputError(f"Even at {kept:g} the budget of epsilon {epsilon:g} is passed.")
    if keeps(passed):
        return passed
    while abs(passed - kept) > max(tolerance, 1e-12) * min(kept, passed):
        middle = (kept * passed) ** 0.5
        if keeps(middle):
            kept = middle
        else:
            passed = middle
    return kept


def least_noise_multiplier(
    events_of: Callable[[float], Iterable[Event]],
    *,
    epsilon: float,
    delta: float,
    relation: Relation,
    tolerance: float,
    advice: str = "",
) -> float:
    """Find the least noise multiplier at which ``events_of(multiplier)`` keeps the budget.

    Parameters
    ----------
    events_of : callable
        Gives the events of a run with that multiplier; their cost must fall with it.
    epsilon, delta : float
        The budget.
    relation : Relation
        The neighbours.
    tolerance : float
        Relative width at which the search stops.
    advice : str
        What to do where no noise is enough; ends the message of the error.
    """

    def keeps(multiplier: float) -> bool:
        return epsilon_spent(events_of(multiplier), delta, relation, enough=epsilon) <= epsilon

    kept = 1.0
    while not keeps(kept):
        kept *= 2
        if kept > LARGEST_MULTIPLIER:
            raise InvalidInputError(
                f"No noise keeps epsilon {epsilon:g} at delta {delta:g}. {advice}".rstrip()
            )
    passed = kept / 2
    while passed > 1 / LARGEST_MULTIPLIER and keeps(passed):
        kept, passed = passed, passed / 2
    return calibrate(
        events_of,
        epsilon=epsilon,
        delta=delta,
        bracket=(kept, passed),
        relation=relation,
        tolerance=tolerance,
    )
