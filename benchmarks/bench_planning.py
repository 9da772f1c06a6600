"""Planned and measured accuracy: six public sets, three budgets, two models.

The plan knows rows, columns, classes and the share of the largest class, and nothing of the rows;
the pilot spends a tenth of the budget. Sets of more than 500 rows are cut to 500 for training;
delta 1e-5, replace_one, two runs. None of these sets made a curve of the plan: it has none.
SFUMATO_DATA=... python -m benchmarks.bench_planning. JSON: results/planning.json.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split

from benchmarks.model_tables import table
from benchmarks.recording import write
from sfumato import Bounds
from sfumato.planning import pilot, plan
from sfumato.planning.plan import MODELS
from sfumato.tables.encoder import TableEncoder

RUNS, MOST = 2, 500
EPSILONS = (0.3, 1.0, 3.0)


def encoded(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = table(name)
    rows = TableEncoder(data.bounds).transform(data.train.iloc[: 2 * MOST])
    return rows, np.unique(data.y_train[: 2 * MOST], return_inverse=True)[1]


def scaled(loader: Any) -> tuple[np.ndarray, np.ndarray]:
    """Scale columns to round public ranges, and rows to about the unit ball."""
    X, y = loader(return_X_y=True)
    high = 10.0 ** np.ceil(np.log10(np.abs(X).max(axis=0) + 1e-9))
    return (2 * X / high - 1) / np.sqrt(X.shape[1]), y


SETS: dict[str, Any] = {
    "breast cancer": lambda: scaled(load_breast_cancer),
    "wine": lambda: scaled(load_wine),
    "iris": lambda: scaled(load_iris),
    "digits": lambda: scaled(load_digits),
    "adult": lambda: encoded("adult"),
    "bank": lambda: encoded("bank"),
}


def measured(name: str, model: str, epsilon: float) -> dict[str, Any]:
    X, y = SETS[name]()
    labels = np.unique(y).tolist()
    bounds = Bounds(norm=1.0, labels=labels)
    options = {"epsilon": epsilon, "delta": 1e-5}
    scores, forecasts, intervals = [], [], []
    for seed in range(RUNS):
        train, test, y_train, y_test = train_test_split(X, y, random_state=seed, test_size=0.3)
        train, y_train = train[:MOST], y_train[:MOST]
        fitted = MODELS[model](bounds=bounds, **options).fit(train, y_train)
        scores.append(float(np.mean(fitted.predict(test) == y_test)))
        if seed == 0:
            codes = np.searchsorted(labels, y_train)
            majority = float(np.bincount(codes).max() / len(codes))
            planned = plan(
                len(train),
                X.shape[1],
                n_classes=len(labels),
                majority=majority,
                models=[model],
                **options,
            ).models[0]
            looked = pilot(train, y_train, bounds=bounds, model=model, **options)
            forecasts.append(looked.accuracy)
            intervals.append(looked.interval)
    mean = float(np.mean(scores))
    return {
        "set": name,
        "model": model,
        "epsilon": epsilon,
        "measured": mean,
        "planned": planned.accuracy,
        "planned_interval": planned.interval,
        "within_plan": planned.interval[0] <= mean <= planned.interval[1],
        "pilot": forecasts[0],
        "pilot_interval": intervals[0],
        "within_pilot": intervals[0][0] <= mean <= intervals[0][1],
        "pilot_error": abs(forecasts[0] - mean),
    }


def main() -> None:
    """Run all sets, budgets and models."""
    warnings.simplefilter("ignore")
    rows = [
        measured(name, model, epsilon) for name in SETS for model in MODELS for epsilon in EPSILONS
    ]
    totals = {
        "within_plan": float(np.mean([row["within_plan"] for row in rows])),
        "within_pilot": float(np.mean([row["within_pilot"] for row in rows])),
        "pilot_error_median": float(np.median([row["pilot_error"] for row in rows])),
        "pilot_within_0.02": float(np.mean([row["pilot_error"] <= 0.02 for row in rows])),
    }
    write("planning", rows, seed=0, delta=1e-5, relation="replace_one", runs=RUNS, totals=totals)


if __name__ == "__main__":
    main()
