"""One private and one plain fit on rows of a file, by whatever version is on the path; JSON.

python benchmarks/one_fit.py rows.npz

Used by `bench_speed changes` for two versions in turn, so it asks little of them.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from sfumato import Bounds, PrivateLinearClassifier

DEEPEST = 12  # functions of a profile that are kept


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    held = np.load(sys.argv[1])
    rows, y = held["rows"], held["y"]
    bounds = Bounds(norm=1.0, labels=np.unique(y).tolist())
    watch = cProfile.Profile(time.process_time)

    def private() -> Any:
        return PrivateLinearClassifier(epsilon=1.0, delta=1e-5, bounds=bounds).fit(rows, y)

    model, ours = timed(private)
    _, theirs = timed(lambda: LogisticRegression().fit(rows, y))
    watch.runcall(private)
    found = {
        "accuracy": round(float(np.mean(model.predict(held["queries"]) == held["y_test"])), 4),
        "cpu_s": round(ours, 3),
        "cpu_s_plain": round(theirs, 3),
        "profile": shares(watch),
    }
    print(json.dumps(found))


def timed(task: Any) -> tuple[Any, float]:
    start = time.process_time()
    return task(), time.process_time() - start


def shares(watch: cProfile.Profile) -> list[dict[str, Any]]:
    """Give the functions that took most of a run themselves."""
    stats = pstats.Stats(watch)
    ordered = sorted(stats.stats.items(), key=lambda item: -item[1][2])[:DEEPEST]  # type: ignore[attr-defined]
    whole = stats.total_tt  # type: ignore[attr-defined]
    return [
        {"where": f"{Path(file).name}:{name}", "calls": calls, "share": round(own / whole, 3)}
        for (file, _, name), (_, calls, own, _, _) in ordered
    ]


if __name__ == "__main__":
    main()
