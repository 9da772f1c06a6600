"""A pilot: a small, charged look at how separable the classes are, and what the rest will give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.accounting.gaussian import epsilon_from_mu, mu_from_budget
from sfumato.accounting.receipt import prepay
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.planning.curves import SHARES, forecast, has_curves
from sfumato.planning.models import CLASSIFIERS, REGRESSORS
from sfumato.search.candidates import planned_events
from sfumato.search.scores import ScoreSum, row_scores, scorer_for
from sfumato.sums.records import ArrayRecords
from sfumato.tables.bounds import Bounds
from sfumato.tables.encoder import TableEncoder
from sfumato.tables.schema import TableBounds

__all__ = ["Pilot", "pilot"]


@dataclass(frozen=True)
class Pilot:
    """What a pilot found and what it foretells.

    Parameters
    ----------
    score : float
        Private accuracy of the pilot's model on the rows.
    score_deviation : float
        Standard deviation of its noise.
    epsilon_left : float
        What is left for the model proper, at the same delta.
    accuracy : float
        Expected accuracy of the model proper; for a number ``1 - (error / range)²``.
    interval : tuple of float
        Where it lies nine times in ten.
    """

    score: float
    score_deviation: float
    epsilon_left: float
    accuracy: float
    interval: tuple[float, float]


def pilot(
    X: ArrayLike,
    y: ArrayLike,
    *,
    bounds: Bounds | TableBounds,
    epsilon: float,
    delta: float = 1e-6,
    model: str = "linear",
    target_bounds: tuple[float, float] | None = None,
    ledger: Any = None,
) -> Pilot:
    """Spend a tenth of a budget to learn what the rest will give.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features), or table
        Rows; their number is assumed to be public (relation replace_one).
    y : array-like of shape (n_samples,)
        Labels, or numbers where `target_bounds` are given.
    bounds : Bounds or TableBounds
        Public bounds, with labels where labels are foretold.
    epsilon, delta : float
        The whole budget, of which the pilot takes a tenth of ``mu²``.
    model : {"linear", "gaussian", "additive", "kernel"}, default="linear"
        What will be fitted; for a number "linear", "additive" or "kernel".
    target_bounds : (float, float), optional
        Public range of the number that is foretold.
    ledger : DatasetBudget, optional
        Who pays for the pilot: one fit and one score, charged before they are drawn.

    Returns
    -------
    Pilot
        Its score and the forecast.

    Notes
    -----
    The forecast is the pilot's score and what pilots with such a score gained on public sets at as
    much noise and as many columns (`curves.json`). Its interval is calibrated to hold nine in ten
    sets that are left out of the curves, and is wider where no curve is near. On six sets that made
    none of the curves, three budgets and two models, 70 of 72 intervals held; the forecast itself
    was within .02 for half of them only, and no design that was tried does much better
    (benchmarks/results/planning.json and planning_designs.json).
    """
    task = "label" if target_bounds is None else "number"
    every = CLASSIFIERS if target_bounds is None else REGRESSORS
    known = {name: kind for name, kind in every.items() if has_curves(task, name)}
    if model not in known:
        raise InvalidInputError(f"'model' must be one of {', '.join(known)}. Got {model!r}.")
    if target_bounds is None and isinstance(bounds, Bounds) and bounds.labels is None:
        raise InvalidInputError("'bounds' have no labels: give Bounds(..., labels=[...]).")
    options = {} if target_bounds is None else {"target_bounds": target_bounds}
    mu = mu_from_budget(float(epsilon), float(delta))
    fit_mu, score_mu = (mu * math.sqrt(SHARES[part]) for part in ("fit", "score"))
    made = known[model](
        epsilon=epsilon_from_mu(fit_mu, delta), delta=delta, bounds=bounds, **options
    )
    n_rows = len(np.asarray(y))
    records = ArrayRecords(np.zeros((n_rows, 1)), relation="replace_one")
    mechanism = GaussianMechanism(records.sensitivity(ScoreSum()), 1 / score_mu)
    events = planned_events(made, X, y)
    words = {"unit": "record", "relation": "replace_one"}
    receipt = prepay(ledger, *events, mechanism.event(), **words)  # [V9] both, then drawn
    fitted = made.set_params(ledger=receipt).fit(X, y)
    scored = ArrayRecords(
        row_scores(scorer_for(fitted, None), fitted, X, y), relation="replace_one"
    )
    total = scored.release(ScoreSum(), mechanism, receipt)[0]
    score, deviation = float(total) / n_rows, math.sqrt(mechanism.variance()) / n_rows
    left = epsilon_from_mu(mu * math.sqrt(1 - SHARES["pilot"]), delta)
    found = forecast(
        task,
        model,
        level=n_rows * fit_mu,
        n_features=_width(X, bounds),
        score=score,
        deviation=deviation,
    )
    return Pilot(score, deviation, left, found.score, found.interval)


def _width(X: Any, bounds: Bounds | TableBounds) -> int:
    """Numbers of an encoded row."""
    is_table = isinstance(bounds, TableBounds)
    return TableEncoder(bounds).width if is_table else int(np.asarray(X).shape[1])
