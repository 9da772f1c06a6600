"""What to expect of a budget: our own algorithms on simulated rows, and curves of public sets."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sfumato.accounting.gaussian import epsilon_from_mu, mu_from_budget
from sfumato.exceptions import InvalidInputError
from sfumato.planning.curves import has_curves, scores, skills
from sfumato.planning.models import CLASSIFIERS, REGRESSORS
from sfumato.planning.simulation import SCENARIOS, Shape, simulated, simulated_numbers
from sfumato.tables.bounds import Bounds

__all__ = ["Plan", "PlannedModel", "plan", "simulated_scores"]

RUNS = 2
NUMBER_CONSTANT = 1 - 1 / 36  # score of the mean where the deviation is a sixth of the range
N_TEST = 2000
MOST_ROWS = 2000  # simulated; more rows are planned by the budget that means the same noise
MADE = (
    "Made by running the models on simulated rows of the declared shape, and from learning "
    "curves measured on {sets} public data sets. Accuracy depends on how separable the "
    "classes are, which the shape does not show: the plan assumes the scenario "
    "'{scenario}' (separability {separability:g} of 1) for its figure; its interval "
    "reaches from 'hard' to 'easy', and covers nine in ten public sets with as much "
    "noise."
)


@dataclass(frozen=True)
class PlannedModel:
    """What one model is expected to reach.

    Parameters
    ----------
    model : str
        Its name.
    accuracy : float
        Expected accuracy in the scenario; for a number ``1 - (error / range)²``, the error the
        root of its mean square.
    interval : tuple of float
        From the hard to the easy scenario, and over nine in ten public sets at as much noise.
    """

    model: str
    accuracy: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Plan:
    """What a budget is expected to give, from public numbers alone.

    Parameters
    ----------
    shape : Shape
        The declared shape.
    epsilon, delta : float
        The budget.
    scenario : str
        What is assumed about the classes.
    majority : float
        Accuracy of naming the largest class always, or the score of the mean.
    without_privacy : float
        Score of the linear model without noise, in the scenario.
    models : tuple of PlannedModel
        What each model is expected to reach.
    column_noise : mapping of str to float
        Standard deviation of the noise on the mean of each column, in its own units, if the means
        of all columns are released with this budget.
    made : str
        How the figures were made.
    """

    shape: Shape
    epsilon: float
    delta: float
    scenario: str
    majority: float
    without_privacy: float
    models: tuple[PlannedModel, ...]
    column_noise: Mapping[str, float]
    made: str

    def to_dict(self) -> dict[str, Any]:
        """Give the plan as plain JSON values.

        Returns
        -------
        dict
            Plain values.
        """
        return asdict(self)


def plan(
    n_rows: int,
    n_features: int,
    *,
    epsilon: float,
    delta: float = 1e-6,
    n_classes: int = 2,
    majority: float | None = None,
    relation: str = "replace_one",
    scenario: str = "typical",
    ranges: Mapping[str, tuple[float, float]] | None = None,
    models: Sequence[str] | None = None,
    seed: int = 0,
) -> Plan:
    """Say what a budget will give, before anything is spent; no record is looked at.

    Parameters
    ----------
    n_rows : int
        Records, or a public guess at their number.
    n_features : int
        Numbers of an encoded record.
    epsilon, delta : float
        The budget.
    n_classes : int, default=2
        Labels; 0 where a number is foretold.
    majority : float, optional
        Share of the largest class, if that is public; by default classes are equal.
    relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Which data sets count as neighbours.
    scenario : {"hard", "typical", "easy"}, default="typical"
        How separable the classes are taken to be.
    ranges : mapping of str to (float, float), optional
        Ranges of columns, for the noise in their own units.
    models : sequence of str, optional
        Which models to plan, of "linear", "gaussian", "additive", "kernel" and "hull" for labels,
        "linear", "additive" and "kernel" for numbers; by default all.
    seed : int, default=0
        Of the simulated rows and noise, which are no secrets.

    Returns
    -------
    Plan
        Figures, each with what it assumes.

    Notes
    -----
    How often the measured accuracy lay inside the interval, on six sets that made none of the
    curves, is in benchmarks/results/planning.json.

    Examples
    --------
    >>> from sfumato.planning import plan
    >>> found = plan(500, 5, epsilon=1.0, delta=1e-5, models=["linear"])
    >>> 0.4 < found.models[0].accuracy <= 1.0
    True
    """
    shape = _shape(n_rows, n_features, n_classes, majority)
    if scenario not in SCENARIOS:
        raise InvalidInputError(f"'scenario' must be one of {', '.join(SCENARIOS)}.")
    known = REGRESSORS if shape.n_classes == 0 else CLASSIFIERS
    chosen = tuple(known) if models is None else tuple(models)
    unknown = sorted(set(chosen) - set(known))
    if unknown:
        raise InvalidInputError(f"'models' must be some of {', '.join(known)}. Got {unknown[0]!r}.")
    planned = tuple(
        _planned(name, shape, epsilon, delta, relation, scenario, seed) for name in chosen
    )
    plain = simulated_scores("linear", _cut(shape), math.inf, delta, SCENARIOS[scenario], seed)
    task = "number" if shape.n_classes == 0 else "label"
    n_sets = len(skills(task, "linear", 1.0))
    bare = [name for name in chosen if not has_curves(task, name)]
    told = MADE.format(sets=n_sets, scenario=scenario, separability=SCENARIOS[scenario])
    told += (
        f" For {', '.join(bare)} there are no measured curves: simulated rows only." if bare else ""
    )
    return Plan(
        shape=shape,
        epsilon=float(epsilon),
        delta=float(delta),
        scenario=scenario,
        majority=shape.majority,
        without_privacy=float(np.mean(plain)),
        models=planned,
        column_noise=_column_noise(ranges or {}, n_rows, epsilon, delta),
        made=told,
    )


def _shape(n_rows: int, n_features: int, n_classes: int, majority: float | None) -> Shape:
    if n_rows < 2 or n_features < 1 or n_classes < 0 or n_classes == 1:
        raise InvalidInputError("A plan needs at least two rows, one feature and two classes.")
    if n_classes == 0:
        return Shape(int(n_rows), int(n_features), 0, NUMBER_CONSTANT)
    share = 1 / n_classes if majority is None else float(majority)
    if not 1 / n_classes - 1e-9 <= share < 1:
        raise InvalidInputError("'majority' must lie between 1 / n_classes and 1.")
    return Shape(int(n_rows), int(n_features), int(n_classes), share)


def _cut(shape: Shape) -> Shape:
    """Keep as many rows as are simulated."""
    return replace(shape, n_rows=min(shape.n_rows, MOST_ROWS))


def _planned(
    name: str,
    shape: Shape,
    epsilon: float,
    delta: float,
    relation: str,
    scenario: str,
    seed: int,
) -> PlannedModel:
    # Noise against a sum over n rows: fewer rows with as much more mu see the same noise.
    smaller = _cut(shape)
    level = math.inf
    if math.isfinite(epsilon):
        mu = mu_from_budget(float(epsilon), float(delta))
        level = shape.n_rows * mu
        epsilon = epsilon_from_mu(level / smaller.n_rows, float(delta))
    found = {
        each: simulated_scores(name, smaller, epsilon, delta, SCENARIOS[each], seed, relation)
        for each in {*SCENARIOS, scenario}
    }
    every = np.concatenate(list(found.values()))
    ends = [float(every.min()), float(every.max())]
    is_number = shape.n_classes == 0
    task = "number" if is_number else "label"
    if math.isfinite(level) and has_curves(task, name):
        gained = skills(task, name, level)
        ends += (shape.majority + np.quantile(gained, [0.05, 0.95]) * (1 - shape.majority)).tolist()
        if is_number:  # nor does a shape tell how much of its range a number takes
            ends += scores("number", name, level).tolist()
    low, high = max(0.0, min(ends)), min(1.0, max(ends))
    return PlannedModel(name, float(np.mean(found[scenario])), (low, high))


def simulated_scores(
    name: str,
    shape: Shape,
    epsilon: float,
    delta: float,
    separability: float,
    seed: int,
    relation: str = "replace_one",
) -> np.ndarray:
    """Give scores of a model on fresh simulated rows, one per run."""
    is_number = shape.n_classes == 0
    drawn: Any = simulated_numbers if is_number else simulated
    model = _made(name, shape, epsilon=epsilon, delta=delta, relation=relation)
    found_scores = []
    for run in range(RUNS):
        X, y = drawn(shape, separability, seed + run)
        X_test, y_test = drawn(shape, separability, seed + 1000 + run, N_TEST)
        found = model.fit(X, y).predict(X_test)
        right = 1 - (np.clip(found, 0, 1) - y_test) ** 2 if is_number else found == y_test
        found_scores.append(float(np.mean(right)))
    return np.array(found_scores)


def _made(name: str, shape: Shape, **promise: Any) -> Any:
    """Make a model for simulated rows, whose length is 1 and whose columns lie in [-1, 1]."""
    options: dict[str, Any] = {"norm": 1.0}
    if name == "additive":
        options = {"lower": -1.0, "upper": 1.0}
    if shape.n_classes == 0:
        return REGRESSORS[name](target_bounds=(0.0, 1.0), bounds=Bounds(**options), **promise)
    if name == "hull":
        promise["n_layers"] = 1  # nearly as accurate as five, and five times as fast
    return CLASSIFIERS[name](bounds=Bounds(**options, labels=range(shape.n_classes)), **promise)


def _column_noise(
    ranges: Mapping[str, tuple[float, float]], n_rows: int, epsilon: float, delta: float
) -> dict[str, float]:
    """``range √d / (n mu)``: a record moves the means of d columns by √d range / n at most."""
    if not ranges or math.isinf(epsilon):
        return dict.fromkeys(ranges, 0.0)
    mu = mu_from_budget(float(epsilon), float(delta))
    root = math.sqrt(len(ranges))
    return {name: (upper - lower) * root / (n_rows * mu) for name, (lower, upper) in ranges.items()}
