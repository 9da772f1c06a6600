"""Large-margin ellipsoids on MNIST: accuracy and time, without privacy and with everything charged.

SFUMATO_DATA=... python -m benchmarks.bench_large_margin [plain] [private]
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from benchmarks.recording import mnist, timed, write
from sfumato import Bounds
from sfumato.ellipsoids.classifier import LargeMarginGaussianClassifier
from sfumato.ellipsoids.private import PrivateLargeMarginGaussianClassifier

DELTA = 1e-5
RUNS = 3
BUDGETS = (1.0, 10.0)
RELATIONS = ("replace_one", "add_or_remove_one")
PLAIN = {"scaling": "overall", "max_iter": 100}
CANDIDATES = [
    {"regularizer": regularizer, "positivity": positivity, "regularization": weight}
    for regularizer, positivity in (("trace", "cone"), ("frobenius", "shift"))
    for weight in (1e-3, 1e-4)
]


def plain() -> None:
    """PCA-40; the regulariser is chosen on the last fifth of the first 10,000 training rows."""
    chosen = chosen_on_held_out_rows()
    write_plain([one_plain_fit(10_000, chosen)])


def write_plain(numbers: list[dict[str, Any]]) -> None:
    write("large_margin_plain", numbers, seed=0)


def one_plain_fit(n_rows: int, chosen: dict[str, Any]) -> dict[str, Any]:
    X, y, X_test, y_test = mnist()
    components = PCA(40, random_state=0).fit(X[:n_rows].astype(np.float64))
    rows, rows_test = (components.transform(part.astype(np.float64)) for part in (X, X_test))
    model = LargeMarginGaussianClassifier(**PLAIN, **chosen)
    fitted, time = timed(lambda: model.fit(rows[:n_rows], y[:n_rows]))
    return {
        "rows": n_rows,
        **chosen,
        "accuracy": round(float(fitted.score(rows_test, y_test)), 4),
        "objective": round(fitted.objective_, 5),
        "fit": time,
    }


def chosen_on_held_out_rows() -> dict[str, Any]:
    X, y, _, _ = mnist()
    components = PCA(40, random_state=0)
    rows = components.fit_transform(X[:10_000].astype(np.float64))
    return _best_held_out(rows, y[:10_000])


def _best_held_out(rows: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    cut = len(rows) * 4 // 5
    scores = [
        LargeMarginGaussianClassifier(**PLAIN, **candidate)
        .fit(rows[:cut], y[:cut])
        .score(rows[cut:], y[cut:])
        for candidate in CANDIDATES
    ]
    return CANDIDATES[int(np.argmax(scores))]


def private() -> None:
    """PCA-10, components charged, defaults of the class: record level, both relations."""
    settings = [(relation, epsilon) for relation in RELATIONS for epsilon in BUDGETS]
    write_private({setting: [one_run(*setting) for _ in range(RUNS)] for setting in settings})


def one_run(relation: str, epsilon: float) -> tuple[float, float]:
    """Accuracy on the test rows and CPU seconds of one private fit."""
    X, y, X_test, y_test = mnist()
    X, X_test = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X, X_test))
    model = PrivateLargeMarginGaussianClassifier(
        10,
        normalize_rows=True,
        epsilon=epsilon,
        delta=DELTA,
        relation=relation,
        bounds=Bounds(norm=1.0, labels=range(10)),
    )
    fitted, time = timed(lambda: model.fit(X, y))
    return float(fitted.score(X_test, y_test)), time["cpu_s"]


def write_private(runs: dict[tuple[str, float], list[tuple[float, float]]]) -> None:
    numbers = [
        {
            "relation": relation,
            "epsilon": epsilon,
            "delta": DELTA,
            "runs": len(results),
            "accuracy": round(float(np.mean([accuracy for accuracy, _ in results])), 4),
            "accuracy_std": round(float(np.std([accuracy for accuracy, _ in results])), 4),
            "fit_cpu_s": round(float(np.median([seconds for _, seconds in results])), 2),
        }
        for (relation, epsilon), results in runs.items()
    ]
    write("large_margin_private", numbers, seed=None, unit="record", components=10)


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)  # a hundred iterations, on purpose
    for part in sys.argv[1:] or ("plain", "private"):
        {"plain": plain, "private": private}[part]()


if __name__ == "__main__":
    main()
