"""Which model for a table: every model of the command line on small tables, with its defaults.

Breast cancer (scikit-learn), and two made-up tables of 5,000 records with long tails, categories
and missing cells: in one a missing cell says nothing, in the other it says much. Add/remove, delta
1e-5, everything charged, five splits; bounds are round numbers. JSON: results/table_models.json.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score

from benchmarks.recording import timed, write
from sfumato import (
    PrivateAdditiveClassifier,
    PrivateGaussianClassifier,
    PrivateLinearClassifier,
    TableBounds,
)
from sfumato.tables.proposal import rounded_outwards

EPSILONS = (0.3, 1.0, 3.0)
RUNS = 5
MODELS = {
    "additive": PrivateAdditiveClassifier,
    "linear": PrivateLinearClassifier,
    "gaussian": PrivateGaussianClassifier,
}
LABEL = "label"


def cancer() -> tuple[pd.DataFrame, TableBounds]:
    frame = load_breast_cancer(as_frame=True).frame.rename(columns={"target": LABEL})
    ranges: dict[str, Any] = {
        name: rounded_outwards(frame[name].min(), frame[name].max())
        for name in frame
        if name != LABEL
    }
    return frame, TableBounds.from_dict({**ranges, LABEL: [0, 1]}, target=LABEL)


def made_up(*, says_much: bool, marked: bool = True) -> tuple[pd.DataFrame, TableBounds]:
    rng, n = np.random.default_rng(7), 5000
    income, age = rng.lognormal(8, 1.3, n), rng.integers(18, 90, n)
    town = rng.choice(["a", "b", "c", "d"], n, p=[0.5, 0.3, 0.15, 0.05])
    score = np.log(income) - 8 + np.abs(age - 50) / 15 - 1.5 + 1.2 * (town == "b")
    label = rng.random(n) < 1 / (1 + np.exp(-1.5 * score))
    chance = np.where(label, 0.45, 0.1) if says_much else np.full(n, 0.25)
    income = np.where(rng.random(n) < chance, np.nan, income)
    frame = pd.DataFrame({"income": income, "age": age, "town": town, LABEL: label.astype(int)})
    columns = {
        "income": {"lower": 0, "upper": 1e6, "log": True, "missing": marked},
        "age": (0, 100),
        "town": ["a", "b", "c", "d"],
        LABEL: [0, 1],
    }
    return frame, TableBounds.from_dict(columns, target=LABEL)


TABLES = {
    "breast cancer": cancer,
    "missing says nothing": lambda: made_up(says_much=False),
    "missing says nothing, not marked": lambda: made_up(says_much=False, marked=False),
    "missing says much": lambda: made_up(says_much=True),
    "missing says much, not marked": lambda: made_up(says_much=True, marked=False),
}


def measured(kind: Any, frame: pd.DataFrame, bounds: TableBounds, epsilon: float) -> dict[str, Any]:
    found = []
    for run in range(RUNS):
        order = np.random.default_rng(run).permutation(len(frame))
        train, test = np.split(order, [int(0.7 * len(frame))])
        settings = {"random_state": run} if "random_state" in kind().get_params() else {}
        model = kind(
            epsilon=epsilon,
            delta=1e-5,
            relation="add_or_remove_one",
            bounds=bounds,
            **settings,
        )
        fitted, time = timed(lambda model=model, rows=train: model.fit(frame.iloc[rows]))
        truth = frame[LABEL].to_numpy()[test]
        right = float(np.mean(fitted.predict(frame.iloc[test]) == truth))
        area = float(roc_auc_score(truth, fitted.decision_function(frame.iloc[test])))
        found.append((right, area, time["cpu_s"]))
    right, area, cpu = np.mean(found, axis=0).round(4).tolist()
    return {"accuracy": right, "auc": area, "cpu_s": cpu}


def main() -> None:
    """Run all models on all tables."""
    warnings.simplefilter("ignore")
    rows = [
        {"table": name, "model": model, "epsilon": epsilon}
        | measured(MODELS[model], *table(), epsilon)
        for name, table in TABLES.items()
        for model in MODELS
        for epsilon in EPSILONS
        if model in ("additive", "linear") or "not marked" not in name
    ]
    write("table_models", rows, seed=0, delta=1e-5, relation="add_or_remove_one", runs=RUNS)


if __name__ == "__main__":
    main()
