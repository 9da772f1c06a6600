"""What a request will cost, from public numbers alone: nothing here reads a row."""

from __future__ import annotations

import math
from dataclasses import replace

from sfumato.privacy.events import Event, GaussianEvent, PureEvent, SelectionEvent
from sfumato.privacy.filters import PrivacyFilter
from sfumato.privacy.gaussian import epsilon_from_mu, mu_from_budget
from sfumato.privacy.renyi import selection_mu, with_max_runs

SEARCHED_RUNS = 5.0  # on average; all that are allowed are made, so that nobody sees how many count
SCORE_SHARE = 0.1  # of a run, for its score
MIN_DELTA = 1e-11


def default_delta(kind: str, total: PrivacyFilter) -> float:
    """Return the delta of a request that states none."""
    if kind != "search" or not total.delta:
        return total.delta
    return max(MIN_DELTA, total.delta * min(0.01, math.exp(-total.epsilon)))


def planned_event(kind: str, epsilon: float, delta: float) -> Event:
    """Return what a request will release, as far as it is known before its model is."""
    if kind == "search":
        law = SelectionEvent(((GaussianEvent(1.0),),), "poisson", SEARCHED_RUNS)
        law = with_max_runs(law, delta or MIN_DELTA, epsilon)
        mu = selection_mu(law, epsilon, delta or MIN_DELTA)
        return replace(law, options=((GaussianEvent(1 / mu),),))
    return GaussianEvent(1 / mu_from_budget(epsilon, delta)) if delta else PureEvent(epsilon)


def epsilon_of_a_run(search: Event, delta: float) -> float:
    """Return the epsilon that one run of a search has for its model, at the same delta."""
    assert isinstance(search, SelectionEvent)  # noqa: S101 - see above
    (run,) = search.options[0]
    assert isinstance(run, GaussianEvent)  # noqa: S101 - see above
    return epsilon_from_mu(math.sqrt(1 - SCORE_SHARE) / run.noise_multiplier, delta or MIN_DELTA)
