"""Does a private search pay? Total epsilon 1 with it, and the same epsilon for the defaults.

Adult and breast cancer, additive and linear models, add/remove, delta 1e-5, five runs each.
Settings around the defaults; K is random, so that runs are not padded to a constant duration. Of
Adult the first 8,000 training rows are used.
SFUMATO_DATA=... python -m benchmarks.bench_search. JSON: results/search.json.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.model_tables import table
from benchmarks.recording import timed, write
from sfumato import (
    PrivateAdditiveClassifier,
    PrivateLinearClassifier,
    PrivateSearchCV,
)

RUNS, MAX_ROWS = 5, 8000
PROMISE = {"epsilon": 1.0, "delta": 1e-5}
GRIDS: dict[str, tuple[Any, dict[str, list[Any]]]] = {
    "additive": (
        PrivateAdditiveClassifier,
        {"n_knots": [3, 5, 9], "n_steps": [60, 240], "max_gradient_norm": [0.1, 0.5]},
    ),
    "linear": (
        PrivateLinearClassifier,
        {"whiten": [True, False], "n_steps": [60, 240], "max_gradient_norm": [0.1, 0.5]},
    ),
}


def measured(name: str, model: str, mean_runs: float) -> dict[str, Any]:
    data, (kind, grid) = table(name), GRIDS[model]
    train, y_train = data.train.iloc[:MAX_ROWS], data.y_train[:MAX_ROWS]
    base = kind(bounds=data.bounds, relation="add_or_remove_one")
    plain, found, seconds, chosen = [], [], [], []
    for _ in range(RUNS):
        fitted = base.set_params(**PROMISE).fit(train, y_train)
        plain.append(fitted.score(data.test, data.y_test))
        search = PrivateSearchCV(base, grid, mean_runs=mean_runs, constant_time=False, **PROMISE)
        _, clock = timed(lambda search=search: search.fit(train, y_train))
        found.append(search.score(data.test, data.y_test))
        seconds.append(clock["cpu_s"])
        chosen.append(dict(search.best_params_))
    return {
        "table": name,
        "model": model,
        "mean_runs": mean_runs,
        "epsilon_each": search.cost_.epsilon_each,
        "defaults": plain,
        "search": found,
        "gain": float(np.mean(found) - np.mean(plain)),
        "gain_deviation": float(np.sqrt((np.var(found, ddof=1) + np.var(plain, ddof=1)) / RUNS)),
        "search_cpu_s": seconds,
        "chosen": chosen,
    }


def main() -> None:
    """Run both models on both tables."""
    warnings.simplefilter("ignore")
    rows = [
        measured(name, model, mean_runs)
        for name in ("cancer", "adult")
        for model in GRIDS
        for mean_runs in (3.0,)
    ]
    grids = {model: grid for model, (_, grid) in GRIDS.items()}
    write(
        "search", rows, seed=None, relation="add_or_remove_one", runs=RUNS, grids=grids, **PROMISE
    )


if __name__ == "__main__":
    main()
