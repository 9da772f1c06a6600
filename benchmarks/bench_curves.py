"""Learning curves of public sets, from which pilots and plans forecast.

SFUMATO_TABLES=... SFUMATO_DATA=... python -m benchmarks.bench_curves [--models linear ...]

Each model with its defaults on each set, at six levels of noise. What matters to a noisy sum over n
rows is n mu, so levels are those of n mu, 1 : 3.6 apart: a pilot has 7 % of mu² and the model
proper 90 %, whose mu are 1 : 3.6 apart too. A point holds the score on the rows of the fit (what a
pilot learns, before its noise) and on other rows. Means of two runs; replace_one, delta 1e-5. None
of the six sets of `bench_planning` is among these. Writes src/sfumato/planning/curves.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import sfumato
from benchmarks.public_tables import TASKS, public_table
from sfumato import Bounds
from sfumato.accounting.gaussian import epsilon_from_mu
from sfumato.planning.models import CLASSIFIERS, REGRESSORS
from sfumato.search.scores import row_scores, scorer_for

RUNS, MOST_ROWS, DELTA = 2, 8000, 1e-5
LEVELS = tuple(30.0 * 3.586**power for power in range(6))
CURVES = Path(sfumato.__file__).parent / "planning" / "curves.json"
QUICK = ("linear", "gaussian", "additive")
FEW = ("insured wives", "light chains", "Australian doctors", "union wages", "Chilean votes")
FEW += ("baseball leagues", "turnout", "premium computers", "yogurt", "aids", "films", "digits")
FEW += ("food shares", "prices of computers", "wages", "Canadian wages", "nitrogen oxides")
ARRAYS = ("digits", "USPS")


def array(name: str) -> tuple[Any, Any, Any]:
    """Pixels in [0, 1] of two sets of digits, rows of length 1."""
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    else:
        file = np.load(Path(os.environ["SFUMATO_DATA"]) / "usps" / "usps.npz")
        X = np.concatenate([file["x_train"], file["x_test"]]) + 1
        y = np.concatenate([file["y_train"], file["y_test"]])
    order = np.random.default_rng(0).permutation(len(X))
    rows = X[order] / np.linalg.norm(X[order], axis=1, keepdims=True)
    return rows, y[order].astype(int), Bounds(norm=1.0, labels=range(10))


def curve(name: str, model: str) -> dict[str, Any]:
    """Measure one model on one set at all levels."""
    X, y, bounds = array(name) if name in ARRAYS else public_table(name)
    is_number = name in TASKS and TASKS[name].rule is None
    if name in ARRAYS and model == "additive":  # pixels of rows of length 1
        bounds = Bounds(lower=0.0, upper=1.0, labels=range(10))
    n_train = min(round(0.7 * len(y)), MOST_ROWS if model in QUICK else 2000)
    rows = [part[a:b] for a, b in ((0, n_train), (n_train, n_train + 8000)) for part in (X, y)]
    options = {"target_bounds": _ends(bounds)} if is_number else {}
    kind = (REGRESSORS if is_number else CLASSIFIERS)[model]
    points = []
    for level in LEVELS:
        epsilon = epsilon_from_mu(level / n_train, DELTA)
        scores = []
        for _ in range(RUNS):
            fitted = kind(epsilon=epsilon, delta=DELTA, bounds=bounds, **options)
            fitted.fit(rows[0], rows[1])
            scorer = scorer_for(fitted, None)
            scores.append(
                [row_scores(scorer, fitted, rows[at], rows[at + 1]).mean() for at in (0, 2)]
            )
        own, other = np.mean(scores, axis=0)
        points.append([round(level, 1), round(float(own), 4), round(float(other), 4)])
    return {
        "set": name,
        "task": "number" if is_number else "label",
        "model": model,
        "rows": n_train,
        "columns": _width(bounds, X),
        "classes": 0 if is_number else len(set(y)),
        "constant": round(_constant(y, bounds, is_number), 4),
        "points": points,
    }


def _ends(bounds: Any) -> tuple[float, float]:
    record = bounds.target.to_record()
    return float(record["lower"]), float(record["upper"])


def _width(bounds: Any, X: Any) -> int:
    from sfumato.tables.encoder import TableEncoder

    return X.shape[1] if isinstance(bounds, Bounds) else TableEncoder(bounds).width


def _constant(y: Any, bounds: Any, is_number: bool) -> float:
    """Score of the best constant: the largest class, or the mean."""
    if is_number:
        lower, upper = _ends(bounds)
        return float(1 - np.var(y) / (upper - lower) ** 2)
    return float(np.unique(y, return_counts=True)[1].max() / len(y))


def main() -> None:
    """Measure the curves that the file does not hold yet."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", default=list(CLASSIFIERS))
    options = parser.parse_args()
    kept = json.loads(CURVES.read_text())["curves"] if CURVES.exists() else []
    for model in options.models:
        for name in (*TASKS, *ARRAYS):
            is_number = name in TASKS and TASKS[name].rule is None
            if model not in (REGRESSORS if is_number else CLASSIFIERS):
                continue
            if (name, model) == ("USPS", "additive"):  # no use of 256 columns of curves
                continue
            if model not in QUICK and name not in FEW:
                continue
            if any((each["set"], each["model"]) == (name, model) for each in kept):
                continue
            start = time.process_time()
            kept.append(curve(name, model))
            print(model, name, round(time.process_time() - start, 1), kept[-1]["points"])
            _keep(kept)


def _keep(curves: list[dict[str, Any]]) -> None:
    head = json.dumps({"made_by": "benchmarks/bench_curves.py", "delta": DELTA, "runs": RUNS})
    lines = ",\n".join(json.dumps(each) for each in curves)
    CURVES.write_text(f'{head[:-1]}, "curves": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
