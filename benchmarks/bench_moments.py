"""The record-level Gaussian classifier on MNIST: accuracy at several budgets, time to fit.

SFUMATO_DATA=... python -m benchmarks.bench_moments [--held-out]

``--held-out`` scores on 5,000 training rows that were set aside instead of the test rows, as when
the parameters were chosen.
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.recording import mnist, timed, write
from sfumato import Bounds, PrivateGaussianClassifier

BUDGETS = (0.3, 1.0, 3.0, 8.0, np.inf)
RUNS = 3
DELTA = 1e-5
# Five runs before the record engine: moments about the origin, one Gaussian per class.
ABOUT_THE_ORIGIN = {0.3: 0.8033, 1.0: 0.9239, 3.0: 0.95, 8.0: 0.958, np.inf: 0.9645}


def main() -> None:
    held_out = "--held-out" in sys.argv
    X, y, X_test, y_test = mnist()
    if held_out:
        order = np.random.default_rng(0).permutation(len(X))
        aside, kept = order[:5000], order[5000:]
        X, y, X_test, y_test = X[kept], y[kept], X[aside], y[aside]
    X, X_test = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, X_test))
    bounds = Bounds(norm=1.0, labels=range(10))
    numbers = []
    for epsilon in BUDGETS:
        accuracies, seconds = [], []
        for _ in range(1 if np.isinf(epsilon) else RUNS):
            model = PrivateGaussianClassifier(epsilon=epsilon, delta=DELTA, bounds=bounds)
            fitted, time = timed(lambda m=model: m.fit(X, y))
            accuracies.append(fitted.score(X_test, y_test))
            seconds.append(time["wall_s"])
        numbers.append(
            {
                "epsilon": "inf" if np.isinf(epsilon) else epsilon,
                "delta": DELTA,
                "runs": len(accuracies),
                "accuracy": round(float(np.mean(accuracies)), 4),
                "accuracy_std": round(float(np.std(accuracies)), 4),
                "accuracy_about_the_origin": None if held_out else ABOUT_THE_ORIGIN[epsilon],
                "fit_wall_s": round(float(np.mean(seconds)), 2),
            }
        )
    name = "moments_mnist" + "_held_out" * held_out
    write(name, numbers, seed=None, unit="record", relation="replace_one")


if __name__ == "__main__":
    main()
