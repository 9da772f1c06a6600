"""A pilot: a small, charged look at how separable the classes are, and what the rest will give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.accounting.gaussian import epsilon_from_mu, mu_from_budget
from sfumato.accounting.receipt import prepay
from sfumato.bounds import Bounds
from sfumato.exceptions import InvalidInputError
from sfumato.mechanisms.gaussian import GaussianMechanism
from sfumato.planning.plan import MODELS, simulated_scores
from sfumato.planning.simulation import Shape
from sfumato.search.candidates import planned_events
from sfumato.search.scores import ScoreSum, row_scores, scorer_for
from sfumato.sums.records import ArrayRecords

__all__ = ["Pilot", "matched", "pilot"]

SHARE = 0.1  # of mu², for the pilot
SCORE_SHARE = 0.3  # of the pilot's, for its score
GRID = (0.1, 0.35, 0.6, 0.8, 0.95)
RUNS = 2


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
        Expected accuracy of the model proper.
    interval : tuple of float
        What the noise of the score, and the spread of simulated runs, leave open.
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
    bounds: Bounds,
    epsilon: float,
    delta: float = 1e-6,
    model: str = "linear",
    ledger: Any = None,
    seed: int = 0,
) -> Pilot:
    """Spend a tenth of a budget to learn what the rest will give.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows; their number is taken for public (relation replace_one).
    y : array-like of shape (n_samples,)
        Labels.
    bounds : Bounds
        Public bounds with labels.
    epsilon, delta : float
        The whole budget, of which the pilot takes a tenth of ``mu²``.
    model : {"linear", "gaussian"}, default="linear"
        What will be fitted.
    ledger : DatasetBudget, optional
        Who pays for the pilot: one fit and one score, charged before they are drawn.
    seed : int, default=0
        Of the simulated rows.

    Returns
    -------
    Pilot
        Its score and the forecast.

    Notes
    -----
    A rough forecast: on six public sets of up to 500 rows, three budgets and two models, the
    measured accuracy lay inside its interval in 29 of 36 cases, and the median error was 0.08
    (benchmarks/results/planning.json).
    """
    if model not in MODELS or bounds.labels is None:
        raise InvalidInputError(f"'model' must be of {', '.join(MODELS)}, 'bounds' have labels.")
    mu = mu_from_budget(float(epsilon), float(delta))
    fit_mu, score_mu = (mu * math.sqrt(SHARE * part) for part in (1 - SCORE_SHARE, SCORE_SHARE))
    words = {"unit": "record", "relation": "replace_one"}
    records = ArrayRecords(np.zeros((len(np.asarray(y)), 1)), relation="replace_one")
    mechanism = GaussianMechanism(records.sensitivity(ScoreSum()), 1 / score_mu)
    own = epsilon_from_mu(fit_mu, delta)
    made = MODELS[model](epsilon=own, delta=delta, bounds=bounds)
    events = planned_events(made, X, y)
    receipt = prepay(ledger, *events, mechanism.event(), **words)  # [V9] both, then drawn
    fitted = made.set_params(ledger=receipt).fit(X, y)
    column = row_scores(scorer_for(fitted, None), fitted, X, y)
    scored = ArrayRecords(column, relation="replace_one")
    total = scored.release(ScoreSum(), mechanism, receipt)[0]
    n_rows = len(column)
    score, deviation = float(total) / n_rows, math.sqrt(mechanism.variance()) / n_rows
    left = epsilon_from_mu(mu * math.sqrt(1 - SHARE), delta)
    shape = Shape(n_rows, np.asarray(X).shape[1], len(fitted.classes_), 1 / len(fitted.classes_))
    accuracy, interval = matched(model, shape, (own, left), delta, score, deviation, seed)
    return Pilot(score, deviation, left, accuracy, interval)


def matched(
    model: str,
    shape: Shape,
    epsilons: tuple[float, float],
    delta: float,
    score: float,
    deviation: float,
    seed: int,
) -> tuple[float, tuple[float, float]]:
    """Find the separability at which the pilot would score so, and forecast with it.

    Parameters
    ----------
    model : str
        Which model.
    shape : Shape
        The table.
    epsilons : (float, float)
        Of the pilot's fit, and of the model proper.
    delta : float
        Of both.
    score, deviation : float
        The pilot's score and the deviation of its noise.
    seed : int
        Of the simulated rows.

    Returns
    -------
    tuple
        The forecast and its interval.
    """
    bounds = Bounds(norm=1.0, labels=list(range(shape.n_classes)))
    curves = []
    for epsilon in epsilons:
        made = MODELS[model](epsilon=epsilon, delta=delta, bounds=bounds)
        scores = [simulated_scores(made, shape, each, seed, RUNS) for each in GRID]
        means = np.maximum.accumulate([each.mean() for each in scores])
        curves.append(means + 1e-9 * np.arange(len(GRID)))
        spread = max(float(np.ptp(each)) for each in scores)
    places = [
        np.interp(each, curves[0], np.arange(len(GRID)))
        for each in (score, score - 2 * deviation, score + 2 * deviation)
    ]
    found, low, high = (float(np.interp(p, np.arange(len(GRID)), curves[1])) for p in places)
    return found, (max(0.0, low - spread), min(1.0, high + spread))
