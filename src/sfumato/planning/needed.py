"""How much it takes: the epsilon, or the records, that a wanted accuracy needs in a scenario."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.exceptions import InvalidInputError
from sfumato.planning.models import CLASSIFIERS
from sfumato.planning.plan import simulated_scores
from sfumato.planning.simulation import SCENARIOS, Shape

__all__ = ["epsilon_needed", "rows_needed"]

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
ROWS = (100, 300, 1000, 3000, 10_000)


def epsilon_needed(
    accuracy: float,
    n_rows: int,
    n_features: int,
    *,
    delta: float = 1e-6,
    n_classes: int = 2,
    scenario: str = "typical",
    model: str = "linear",
    seed: int = 0,
) -> float:
    """Give the epsilon at which a model is expected to reach an accuracy.

    Parameters
    ----------
    accuracy : float
        What is wanted.
    n_rows, n_features : int
        The declared shape.
    delta : float, default=1e-6
        Of the budget.
    n_classes : int, default=2
        Labels.
    scenario : {"hard", "typical", "easy"}, default="typical"
        How separable the classes are taken to be.
    model : {"linear", "gaussian", "additive", "kernel", "hull"}, default="linear"
        Which model.
    seed : int, default=0
        Of the simulated rows.

    Returns
    -------
    float
        Epsilon between 0.1 and 10; infinite where even 10 is not enough.
    """
    _check(scenario, model)
    shape = Shape(n_rows, n_features, n_classes, 1 / n_classes)
    found = [_score(model, shape, epsilon, delta, scenario, seed) for epsilon in EPSILONS]
    return _reached(accuracy, EPSILONS, found)


def rows_needed(
    accuracy: float,
    n_features: int,
    *,
    epsilon: float,
    delta: float = 1e-6,
    n_classes: int = 2,
    scenario: str = "typical",
    model: str = "linear",
    seed: int = 0,
) -> float:
    """Give the number of records at which a model is expected to reach an accuracy.

    Parameters
    ----------
    accuracy : float
        What is wanted.
    n_features : int
        The declared shape.
    epsilon, delta : float
        The budget.
    n_classes : int, default=2
        Labels.
    scenario : {"hard", "typical", "easy"}, default="typical"
        How separable the classes are taken to be.
    model : {"linear", "gaussian", "additive", "kernel", "hull"}, default="linear"
        Which model.
    seed : int, default=0
        Of the simulated rows.

    Returns
    -------
    float
        Records between 100 and 10,000; infinite where these are not enough.
    """
    _check(scenario, model)
    found = [
        _score(
            model, Shape(n, n_features, n_classes, 1 / n_classes), epsilon, delta, scenario, seed
        )
        for n in ROWS
    ]
    return _reached(accuracy, ROWS, found)


def _check(scenario: str, model: str) -> None:
    if scenario not in SCENARIOS or model not in CLASSIFIERS:
        raise InvalidInputError(
            f"'scenario' must be one of {', '.join(SCENARIOS)} and 'model' one of "
            f"{', '.join(CLASSIFIERS)}."
        )


def _score(
    model: str, shape: Shape, epsilon: float, delta: float, scenario: str, seed: int
) -> float:
    return float(simulated_scores(model, shape, epsilon, delta, SCENARIOS[scenario], seed).mean())


def _reached(wanted: float, places: Sequence[float], found: Sequence[float]) -> float:
    """Interpolate on a logarithmic scale; accuracy is taken not to fall."""
    rising = np.maximum.accumulate(found)
    if wanted > rising[-1]:
        return math.inf
    steps = rising + 1e-9 * np.arange(len(rising))
    return float(np.exp(np.interp(wanted, steps, np.log(places))))
