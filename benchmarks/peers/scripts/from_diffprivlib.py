"""Statistics and classifiers by diffprivlib, pure epsilon; all else is its default."""

from __future__ import annotations

from typing import Any

import numpy as np
from answering import answer
from diffprivlib import mechanisms, models, tools


def pca(*, epsilon: float, X: Any, n_components: Any, **_: Any) -> Any:
    """Components of rows in the unit ball about a public centre, which is zero."""
    k = int(n_components)

    def release() -> Any:
        model = models.PCA(k, epsilon=epsilon, centered=True, data_norm=1.0)
        return model.fit(X).components_

    return release


def mean(*, epsilon: float, X: Any, lower: Any, upper: Any, **_: Any) -> Any:
    """Mean of each column."""
    box = float(lower), float(upper)
    return lambda: tools.mean(X, epsilon=epsilon, bounds=box, axis=0)


def histogram(*, epsilon: float, x: Any, edges: Any, **_: Any) -> Any:
    """Counts; diffprivlib counts a row added or removed, so that replacing one costs it twice."""
    box = float(edges[0]), float(edges[-1])
    return lambda: tools.histogram(x, epsilon=epsilon / 2, bins=len(edges) - 1, range=box)[0]


def gaussian(*, epsilon: float, delta: float, draws: Any, **_: Any) -> Any:
    mechanism = mechanisms.GaussianAnalytic(epsilon=epsilon, delta=delta, sensitivity=1.0)
    return _drawn(mechanism, int(draws))


def laplace(*, epsilon: float, draws: Any, **_: Any) -> Any:
    return _drawn(mechanisms.Laplace(epsilon=epsilon, sensitivity=1.0), int(draws))


def _drawn(mechanism: Any, draws: int) -> Any:
    def release() -> float:
        for _ in range(draws):
            mechanism.randomise(0.0)
        return 0.0

    return release


def classifier(name: str) -> Any:
    """Return the task of a classifier of rows between a number and 1, no longer than 1."""

    def task(*, X: Any, y: Any, X_test: Any, epsilon: float, lower: Any, **_: Any) -> Any:
        public: dict[str, Any] = {
            "bounds": (np.full(X.shape[1], float(lower)), np.ones(X.shape[1]))
        }
        if name == "LogisticRegression":
            public = {"data_norm": 1.0}
        elif name == "RandomForestClassifier":
            public["classes"] = np.unique(y).tolist()

        def release() -> Any:
            model = getattr(models, name)(epsilon=epsilon, **public).fit(X, y)
            return lambda: model.predict(X_test)

        return release

    return task


if __name__ == "__main__":
    tasks = {"pca": pca, "mean": mean, "histogram": histogram}
    tasks |= {"gaussian": gaussian, "laplace": laplace}
    kinds = ("LogisticRegression", "GaussianNB", "RandomForestClassifier")
    tasks |= {name: classifier(name) for name in kinds}
    answer("diffprivlib", tasks)
