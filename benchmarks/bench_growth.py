"""Which part of the linear classifier earned what, and how cost and accuracy grow.

SFUMATO_DATA=... python -m benchmarks.bench_growth [ablation] [rows] [features]

MNIST on one core, epsilon 1, delta 1e-5, add or remove one, accuracy on 10,000 test rows.
`ablation`: the rule with one part changed at a time, 6,000 rows of HOG features. `rows` and
`features`: features are a public random projection of pixels. Five runs each; CPU seconds are the
least of them. JSON: results/linear_growth.json, kept part by part.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.recording import RESULTS, mnist, timed, write
from sfumato import Bounds, HOGFeatures, PrivateLinearClassifier

EPSILON, DELTA, N_ABLATION, RUNS = 1.0, 1e-5, 6000, 5
CHANGES: dict[str, dict[str, Any]] = {
    "the rule": {},
    "not whitened": {"whiten": False},
    "slopes clipped at 1": {"max_gradient_norm": 1.0},
    "60 steps": {"n_steps": 60},
    "no momentum": {"momentum": 0.0},
    "300 components": {"n_components": 300},
}


def fitted(rows: Any, y: Any, **changes: Any) -> Any:
    words: dict[str, Any] = {"whiten": True, "fit_intercept": False, **changes}
    return PrivateLinearClassifier(
        epsilon=EPSILON,
        delta=DELTA,
        relation="add_or_remove_one",
        bounds=Bounds(norm=1.0, labels=range(10)),
        **words,
    ).fit(rows, y)


def measured(rows: Any, y: Any, queries: Any, y_test: Any, runs: int, **changes: Any) -> Any:
    scores, seconds = [], []
    for _ in range(runs):
        model, time = timed(lambda: fitted(rows, y, **changes))
        scores.append(float(np.mean(model.predict(queries) == y_test)))
        seconds.append(time["cpu_s"])
    return {
        "n_rows": len(rows),
        "n_features": rows.shape[1],
        "accuracy": round(float(np.mean(scores)), 4),
        "accuracy_std": round(float(np.std(scores)), 4),
        "cpu_s": round(min(seconds), 3),
        "runs": runs,
    }


def unit(rows: np.ndarray) -> np.ndarray:
    """Scale rows to length 1."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def ablation() -> Iterator[dict[str, Any]]:
    train, y, test, y_test = mnist()
    train, y = train[:N_ABLATION], y[:N_ABLATION]
    yield {
        "what": "pixels instead of HOG",
        **measured(unit(train), y, unit(test), y_test, RUNS),
    }
    hog = HOGFeatures((28, 28)).fit(train[:1])
    rows, queries = hog.transform(train), hog.transform(test)
    for what, changes in CHANGES.items():
        yield {"what": what, **measured(rows, y, queries, y_test, RUNS, **changes)}


def by_rows() -> Iterator[dict[str, Any]]:
    train, y, test, y_test = mnist()
    for n_rows in (1875, 3750, 7500, 15_000, 30_000, 60_000):
        yield {
            "what": "rows",
            **measured(unit(train[:n_rows]), y[:n_rows], unit(test), y_test, RUNS, n_steps=60),
        }


def by_features() -> Iterator[dict[str, Any]]:
    train, y, test, y_test = mnist()
    turned = np.linalg.qr(np.random.default_rng(0).standard_normal((784, 784)))[0]
    rows, queries = unit(train[:7500]) @ turned, unit(test) @ turned
    for width in (49, 98, 196, 392, 784):
        yield {
            "what": "features",
            **measured(rows[:, :width], y[:7500], queries[:, :width], y_test, RUNS, n_steps=60),
        }


PARTS = {"ablation": ablation, "rows": by_rows, "features": by_features}


def main() -> None:
    path = RESULTS / "linear_growth.json"
    numbers = json.loads(path.read_text())["numbers"] if path.exists() else []
    for part in sys.argv[1:] or list(PARTS):
        numbers = [each for each in numbers if each["part"] != part]
        for found in PARTS[part]():
            numbers.append({"part": part, **found})
            print(numbers[-1], file=sys.stderr, flush=True)
        words = {"epsilon": EPSILON, "delta": DELTA, "relation": "add_or_remove_one"}
        write("linear_growth", numbers, seed=None, unit="record", **words)


if __name__ == "__main__":
    main()
