"""Does a private search pay? Total epsilon 1 with it, and the same epsilon for the defaults.

Adult and breast cancer, additive and linear models, add/remove, delta 1e-5, five runs each.
Settings around the defaults; K is random, so that runs are not padded to a constant duration. Of
Adult the first 8,000 training rows are used.
SFUMATO_DATA=... python -m benchmarks.bench_search. JSON: results/search.json.

``python -m benchmarks.bench_search audit`` attacks the winner of whole searches on two neighbours
and claims, as a negative control, the epsilon of the winner's own run instead of that of the
search. JSON: results/search_audit.json.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from benchmarks.model_tables import table
from benchmarks.recording import timed, write
from sfumato import (
    Bounds,
    PrivateAdditiveClassifier,
    PrivateLinearClassifier,
    PrivateMoments,
    PrivateSearchCV,
)
from sfumato.audit.empirical import epsilon_from_outputs
from sfumato.privacy.composition import epsilon_spent

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


ATTACKED = {"epsilon": 5.0, "delta": 0.01, "mean_runs": 30.0}
N_SEARCHES, CONFIDENCE = 3000, 1 - 1e-6


def own_number(_: Any, X: Any, __: Any) -> np.ndarray:
    """The score of a row is its number, so that one record moves it as far as one can."""
    return np.asarray(X)[:, 0]


def attacked() -> PrivateSearchCV:
    """A search that spends nearly all on its scores."""
    return PrivateSearchCV(
        PrivateMoments(bounds=Bounds(lower=0.0, upper=1.0)),
        {},
        scoring=own_number,
        score_share=0.9,
        constant_time=False,
        **ATTACKED,
    )


def winners(first: float, count: int) -> list[float]:
    """Scores of the winners of independent searches."""
    rows = np.array([[first], [0.0]])
    return [attacked().fit(rows).best_score_ for _ in range(count)]


def audited(n_jobs: int = 4, part: int = 50) -> dict[str, Any]:
    """Lower bound on epsilon from winners alone, beside what is claimed."""
    jobs = [
        delayed(winners)(first, part) for first in (0.0, 1.0) for _ in range(N_SEARCHES // part)
    ]
    found = Parallel(n_jobs=n_jobs)(jobs)
    half = len(found) // 2
    outputs = [np.concatenate(side).tolist() for side in (found[:half], found[half:])]
    event = attacked().cost(np.zeros((2, 1))).event
    own = epsilon_spent(event.options[0], ATTACKED["delta"])
    bound = epsilon_from_outputs(
        *outputs, delta=ATTACKED["delta"], confidence=CONFIDENCE, claimed=own
    )
    return {
        "searches_on_each_neighbour": N_SEARCHES,
        "confidence": CONFIDENCE,
        "promised": ATTACKED["epsilon"],
        "of_the_winner_alone": round(own, 4),
        "audited": round(float(bound.epsilon), 4),
        "winner_alone_is_caught": bool(bound.epsilon > own),
        "promise_is_refuted": bool(bound.epsilon > ATTACKED["epsilon"]),
    }


def main() -> None:
    """Run both models on both tables, or the audit."""
    warnings.simplefilter("ignore")
    if sys.argv[1:] == ["audit"]:
        write("search_audit", [audited()], seed=None, **ATTACKED)
        return
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
