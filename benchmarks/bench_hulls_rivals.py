"""The classifier beside what one would pick instead, in one run: ``... {digits,mnist}``.

Support vector machine, nearest neighbours and quadratic discriminant, each with the settings
written here and none tuned on the test rows.
"""

from __future__ import annotations

import sys
from typing import Any

from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from benchmarks.recording import mnist, timed, write
from sfumato.models.hulls import AffineHullClassifier

SEED = 0


def rivals() -> dict[str, Any]:
    hulls = {"dtype": "float32", "n_jobs": 2, "random_state": SEED}
    discriminant = QuadraticDiscriminantAnalysis(reg_param=0.1)
    return {
        "AffineHullClassifier()": AffineHullClassifier(**hulls),
        "AffineHullClassifier(n_layers=1)": AffineHullClassifier(n_layers=1, **hulls),
        "SVC(C=10)": SVC(C=10, cache_size=2000),
        "KNeighborsClassifier(3)": KNeighborsClassifier(3, n_jobs=2),
        "PCA(50) + QDA": make_pipeline(PCA(50, random_state=SEED), discriminant),
    }


def compare(name: str, data: Any) -> None:
    X, y, queries, labels = data
    rows = []
    for title, model in rivals().items():
        _, fit = timed(lambda model=model: model.fit(X, y))
        found, predict = timed(lambda model=model: model.predict(queries))
        accuracy = round(float((found == labels).mean()), 4)
        rows.append({"model": title, "accuracy": accuracy, "fit": fit, "predict": predict})
        print(rows[-1], flush=True)
    write(f"hulls_rivals_{name}", rows, seed=SEED, train=len(X), test=len(queries))


def digits() -> Any:
    X, y = load_digits(return_X_y=True)
    split = train_test_split(X / 16, y, test_size=0.5, stratify=y, random_state=SEED)
    return split[0], split[2], split[1], split[3]


if __name__ == "__main__":
    for part in sys.argv[1:] or ("digits", "mnist"):
        compare(part, digits() if part == "digits" else mnist())
