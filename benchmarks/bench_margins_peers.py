"""Private classifiers side by side: ours, diffprivlib's, and plain noisy gradient descent.

SFUMATO_DATA=... [SFUMATO_PEERS_PYTHON=...] python -m benchmarks.bench_margins_peers [adult] [mnist]

All get the same rows: pixels in [0, 1], or the columns of UCI Adult with public categories and
ranges. Ours and the plain descent keep (epsilon, 1e-5) under replace_one; diffprivlib keeps pure
epsilon with its defaults. Rows of MNIST are the first 10,000.
"""

from __future__ import annotations

import gzip
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers_diffprivlib import accuracies
from benchmarks.recording import mnist, timed, write
from sfumato import Bounds, HOGFeatures, PrivateGaussianClassifier, PrivateLinearClassifier
from sfumato.accounting.gaussian import mu_from_budget

DELTA = 1e-5
EPSILONS = (0.1, 1.0, 10.0)
RUNS = 3
RANGES = {0: (17, 90), 4: (1, 16), 10: (0, 99999), 11: (0, 4356), 12: (1, 99)}  # of Adult
CATEGORICAL = (1, 3, 5, 6, 7, 8, 9, 13)


def main() -> None:
    for name in sys.argv[1:] or ["adult", "mnist"]:
        data, norm, shape = adult() if name == "adult" else digits()
        numbers = compared(data, norm, shape)
        write(f"margins_peers_{name}", numbers, seed=None, delta=DELTA, relation="replace_one")


def compared(data: Any, norm: float, shape: tuple[int, int] | None) -> list[dict[str, Any]]:
    """Run everybody at every budget."""
    numbers = []
    for epsilon in EPSILONS:
        numbers += [_ours(label, model, data, norm, epsilon) for label, model in ours(shape)]
        numbers.append(_scored("plain noisy descent", epsilon, partial(plain, data, norm, epsilon)))
    peers = accuracies(
        data, lower=0.0, upper=1.0, norm=norm, epsilons=EPSILONS, runs=RUNS, seconds=60.0
    )
    found = [] if peers is None else peers["numbers"]
    return numbers + [{**row, "classifier": f"diffprivlib {row['classifier']}"} for row in found]


def ours(shape: tuple[int, int] | None) -> list[tuple[str, Any]]:
    """Name our classifiers; images also with features."""
    linear = PrivateLinearClassifier()
    found: list[tuple[str, Any]] = [
        ("PrivateLinearClassifier", (None, linear)),
        ("PrivateGaussianClassifier", (None, PrivateGaussianClassifier())),
    ]
    if shape is not None:
        found.append(("PrivateLinearClassifier on HOG", (HOGFeatures(shape), linear)))
    return found


def _ours(label: str, parts: Any, data: Any, norm: float, epsilon: float) -> dict[str, Any]:
    features, model = parts
    X, y, X_test, y_test = data
    if features is not None:
        X, X_test, norm = features.fit_transform(X), features.transform(X_test), 1.0
    bounds = Bounds(norm=norm, labels=np.unique(y).tolist())

    def fitted() -> Any:
        return model.set_params(epsilon=epsilon, delta=DELTA, bounds=bounds).fit(X, y)

    return _scored(label, epsilon, lambda: fitted().predict(X_test) == y_test)


def _scored(label: str, epsilon: float, right: Any) -> dict[str, Any]:
    found, seconds = [], []
    for _ in range(RUNS):
        answers, time = timed(right)
        found.append(float(np.mean(answers)))
        seconds.append(time["wall_s"])
    row = {
        "classifier": label,
        "epsilon": epsilon,
        "runs": RUNS,
        "accuracy": round(float(np.mean(found)), 4),
        "accuracy_std": round(float(np.std(found)), 4),
        "fit_wall_s": round(float(np.mean(seconds)), 2),
    }
    print(row, flush=True)
    return row


def plain(data: Any, norm: float, epsilon: float, steps: int = 60, rate: float = 4.0) -> Any:
    """Noisy gradient descent in 25 lines, as one writes it without a library."""
    X, y, X_test, y_test = data
    A, A_test = (
        np.column_stack([rows / norm, np.ones(len(rows))]) / np.sqrt(2) for rows in (X, X_test)
    )
    labels = np.unique(y)
    Y = (y[:, None] == labels).astype(float)
    # Replacing a row moves the sum of gradients by 2 √2 at most.
    noise = 2 * np.sqrt(2) * np.sqrt(steps) / mu_from_budget(epsilon, DELTA)
    rng = np.random.default_rng()
    W = np.zeros((A.shape[1], len(labels)))
    for _ in range(steps):
        scores = A @ W
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        gradient = A.T @ (shares - Y) + rng.normal(0, noise, W.shape)
        W -= rate * gradient / len(A)
    return labels[(A_test @ W).argmax(axis=1)] == y_test


def digits() -> tuple[Any, float, tuple[int, int]]:
    X, y, X_test, y_test = mnist()
    data = (
        X[:10_000].astype(float),
        y[:10_000].astype(int),
        X_test.astype(float),
        y_test.astype(int),
    )
    return data, 12.0, (28, 28)


def adult() -> tuple[Any, float, None]:
    """Columns scaled by public ranges, categories of the published description."""
    folder = Path(os.environ["SFUMATO_DATA"]) / "tabular"

    def read(name: str) -> list[list[str]]:
        text = gzip.decompress((folder / name).read_bytes()).decode()
        rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
        return [row for row in rows if len(row) == 15]

    train, test = read("adult.data.gz"), read("adult.test.gz")
    categories = {c: sorted({row[c] for row in train + test}) for c in CATEGORICAL}

    def table(rows: list[list[str]]) -> tuple[np.ndarray, np.ndarray]:
        columns = [
            np.clip((np.array([float(r[c]) for r in rows]) - low) / (high - low), 0, 1)
            for c, (low, high) in RANGES.items()
        ]
        columns[2:4] = [np.sqrt(columns[2]), np.sqrt(columns[3])]
        for c, names in categories.items():
            columns += [np.array([float(r[c] == name) for r in rows]) for name in names]
        return np.column_stack(columns), np.array([int(r[14].startswith(">")) for r in rows])

    return (*table(train), *table(test)), float(np.sqrt(13.0)), None


if __name__ == "__main__":
    main()
