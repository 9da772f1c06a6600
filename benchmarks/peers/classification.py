"""Record-level classifiers beside diffprivlib's, Opacus's and JAX Privacy's: rows of length 1.

Adult and breast cancer are scaled by round figures from their descriptions, digits by their 16
levels; then every row is scaled to length 1, a public bound that suits all of them. Noisy gradients
of Opacus and JAX Privacy train a linear model like ours, for a record added or removed like ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.bench_functions_utility import adult, breast_cancer
from benchmarks.peers.asking import ask
from benchmarks.peers.rows import HIGHER, diffprivlib, ours, row, theirs
from sfumato import (
    Bounds,
    PrivateGaussianClassifier,
    PrivateKernelClassifier,
    PrivateLinearClassifier,
)

DELTA = 1e-5
EPSILONS = (0.1, 1.0, 10.0)
RUNS = 5
LIMIT = 600.0  # seconds for the steps of others, tried and run
GRADIENTS = {"opacus": "Opacus", "jax-privacy": "JAX Privacy"}
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
# Ours, by name, beside theirs.
PAIRS: dict[str, tuple[Any, float, str]] = {
    "PrivateLinearClassifier": (PrivateLinearClassifier(), DELTA, "LogisticRegression"),
    "PrivateGaussianClassifier": (PrivateGaussianClassifier(), DELTA, "GaussianNB"),
    "PrivateKernelClassifier": (PrivateKernelClassifier(), DELTA, "RandomForestClassifier"),
}


def rows() -> Iterator[dict[str, Any]]:
    """Yield one row for each set, budget and pair."""
    for name, (split, lower) in problems().items():
        yield from beside_diffprivlib(name, split, lower)
        yield from beside_gradients(name, split)


def beside_gradients(name: str, split: Split) -> Iterator[dict[str, Any]]:
    """Yield our linear classifier beside those trained by noisy gradients of others."""
    X, y, X_test, y_test = split
    relation = "add_or_remove_one"
    for epsilon in EPSILONS:
        label, model = "PrivateLinearClassifier", PrivateLinearClassifier(relation=relation)
        our = None
        for package, title in GRADIENTS.items():
            answer = ask(
                *(package, "classification"),
                epsilon=epsilon,
                delta=DELTA,
                runs=RUNS,
                seconds=LIMIT,
                limit=2 * LIMIT,
                X=X,
                y=y,
                X_test=X_test,
            )
            if answer is not None:
                our = our or _scored(label, model, split, epsilon, DELTA)
                peer = theirs(title, answer, lambda found: float(np.mean(found == y_test)))
                promise = {"epsilon": epsilon, "delta": DELTA, "relation": relation}
                yield row("classification", name, "accuracy", HIGHER, our, peer, **promise)


def beside_diffprivlib(name: str, split: Split, lower: float) -> Iterator[dict[str, Any]]:
    """Yield three of ours beside three of diffprivlib's, which keep pure epsilon."""
    for epsilon in EPSILONS:
        for label, (model, delta, other) in PAIRS.items():
            peer = diffprivlib(other, split, epsilon, RUNS, lower=lower)
            if peer is not None:
                our = _scored(label, model, split, epsilon, delta)
                promise = {"epsilon": epsilon, "delta": delta, "relation": "replace_one"}
                promise["their_delta"] = 0.0
                yield row("classification", name, "accuracy", HIGHER, our, peer, **promise)


def _scored(label: str, model: Any, split: Split, epsilon: float, delta: float) -> dict[str, Any]:
    X, y, X_test, y_test = split
    bounds = Bounds(norm=1.0, labels=np.unique(y).tolist())
    model.set_params(epsilon=epsilon, delta=delta, bounds=bounds)
    return ours(label, RUNS, lambda: model.fit(X, y), lambda m: m.score(X_test, y_test))


def problems() -> dict[str, tuple[Split, float]]:
    """Return the splits, and the least number of a row."""
    return {
        "digits": (digits(), 0.0),
        "breast cancer": (breast_cancer(), -1.0),
        "Adult": ((*adult("data"), *adult("test")), 0.0),
    }


def digits() -> Split:
    X, y = load_digits(return_X_y=True)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:1347], order[1347:]
    return X[train], y[train], X[test], y[test]
