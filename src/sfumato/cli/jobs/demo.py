"""The main job in miniature: a private classifier at several budgets, on data that come along."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sfumato.models.moments import PrivateGaussianClassifier
from sfumato.report import Report, Result
from sfumato.tables.bounds import Bounds

BUDGETS = (1.0, 3.0, 10.0)
DELTA = 1e-5
RUNS = 5
# Known without the data: 64 pixels of 0 to 16, scaled to [0, 1], and ten digits. The norm is a
# round number below the largest possible 8; brighter images are clipped to it.
DIGITS = Bounds(norm=4.0, labels=range(10))

Task = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]


def demonstrate(budgets: Sequence[float] = BUDGETS) -> Iterator[Report]:
    """Train at each budget; gives a report after every model, the last one complete."""
    X, y = load_digits(return_X_y=True)
    task: Task = tuple(train_test_split(X / 16.0, y, test_size=0.3, random_state=0, stratify=y))
    ceiling = {"accuracy": _accuracies(task, math.inf, [])[1][-1]}
    done: list[Result] = []
    yield _report(done, ceiling)
    for epsilon in budgets:
        found: list[float] = []
        for _ in range(RUNS):
            model, found = _accuracies(task, epsilon, found)
            row = Result(
                "Gaussian classifier",
                model.guarantee_,
                {"accuracy": float(np.mean(found))},
                (f"mean of {len(found)} models, each with this guarantee by itself",),
            )
            yield _report([*done, row], ceiling)
        done.append(row)


def _accuracies(
    task: Task, epsilon: float, found: list[float]
) -> tuple[PrivateGaussianClassifier, list[float]]:
    X_train, X_test, y_train, y_test = task
    model = PrivateGaussianClassifier(epsilon=epsilon, delta=DELTA, bounds=DIGITS)
    model.fit(X_train, y_train)
    return model, [*found, float(np.mean(model.predict(X_test) == y_test))]


def _report(results: list[Result], ceiling: dict[str, float]) -> Report:
    return Report(
        "Handwritten digits, learned privately",
        tuple(results),
        ceiling=ceiling,
        settings={
            "data": "scikit-learn digits, 1797 images of 8 x 8 pixels, 70 % to learn from",
            "bounds": f"pixels in [0, 1], norm {DIGITS.norm:g}, labels 0 to 9",
            "model": "one Gaussian per class in private principal components",
        },
    )
