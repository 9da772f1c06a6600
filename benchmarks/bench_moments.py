"""The record-level Gaussian classifier on MNIST: accuracy at several budgets, time to fit.

SFUMATO_DATA=... python -m benchmarks.bench_moments
"""

from __future__ import annotations

import numpy as np

from benchmarks.recording import mnist, timed, write
from sfumato import Bounds, PrivateGaussianClassifier

BUDGETS = (0.3, 1.0, 3.0, 8.0, np.inf)
RUNS = 5
DELTA = 1e-5


def main() -> None:
    X, y, X_test, y_test = mnist()
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
                "fit_wall_s": round(float(np.mean(seconds)), 2),
            }
        )
    write("moments_mnist", numbers, seed=None, unit="record", relation="replace_one")


if __name__ == "__main__":
    main()
