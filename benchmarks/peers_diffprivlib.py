"""Accuracy of diffprivlib's private classifiers: rows in an .npz file, JSON out.

diffprivlib needs an older scikit-learn than Sfumato's tests use, so that this file runs under a
Python of its own, one of those that the environment variable SFUMATO_PEERS_PYTHON names, and
imports nothing of Sfumato::

    PYTHON benchmarks/peers_diffprivlib.py data.npz \
        --classifier GaussianNB LogisticRegression --epsilon 1 4 --runs 3 [--seconds 120]

The file holds X, y, X_test, y_test, the public box `lower` and `upper` (numbers or one per column)
and, for LogisticRegression, the public `norm` that no row exceeds (longer ones are scaled back by
diffprivlib). Every parameter but the budget and the bounds is diffprivlib's default. Other
benchmarks call `accuracies`, which does all that.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

CLASSIFIERS = ("GaussianNB", "LogisticRegression", "RandomForestClassifier")
PACKAGES = ("diffprivlib", "scikit-learn", "numpy", "scipy")


def accuracies(
    data: Sequence[np.ndarray],
    *,
    lower: Any,
    upper: Any,
    norm: float,
    epsilons: Sequence[float],
    classifiers: Sequence[str] = CLASSIFIERS,
    runs: int = 3,
    seconds: float = 120.0,
) -> dict[str, Any] | None:
    """Fit the peers on (X, y, X_test, y_test); None where no Python that is named has them.

    Returns ``{"versions": {...}, "numbers": [{"classifier", "epsilon", "runs", "accuracy",
    "accuracy_std", "balanced_accuracy", "fit_wall_s", "fit_cpu_s"}, ...]}``.
    A classifier gets `seconds` for all its runs at one epsilon, and is run as often as fits, once
    at least.
    """
    from benchmarks.peers.asking import python_with  # not there for the other Python

    python = python_with("diffprivlib")
    if python is None:
        return None
    names = ("X", "y", "X_test", "y_test")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, **dict(zip(names, data, strict=True)), lower=lower, upper=upper, norm=norm)
        command = [python, __file__, str(path), "--classifier", *classifiers]
        command += ["--epsilon", *map(str, epsilons), "--runs", str(runs)]
        command += ["--seconds", str(seconds)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--classifier", nargs="+", choices=CLASSIFIERS, default=CLASSIFIERS)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120.0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # deprecations inside diffprivlib
    with np.load(options.data, allow_pickle=False) as file:
        data = {name: file[name] for name in file.files}
    numbers = [
        {"classifier": name, "epsilon": epsilon, **_scored(name, epsilon, data, options)}
        for name in options.classifier
        for epsilon in options.epsilon
    ]
    versions = {package: version(package) for package in PACKAGES}
    json.dump({"versions": versions, "numbers": numbers}, sys.stdout, indent=2)


def _scored(
    name: str, epsilon: float, data: dict[str, np.ndarray], options: argparse.Namespace
) -> dict[str, Any]:
    X, X_test = (data[part].astype(np.float64) for part in ("X", "X_test"))
    found, balanced, taken, worked = [], [], [], []
    truth = data["y_test"]
    start = time.perf_counter()
    while not found or (
        len(found) < options.runs and time.perf_counter() - start < options.seconds
    ):
        model = _classifier(name, epsilon, data)
        begin, begun = time.perf_counter(), time.process_time()
        model.fit(X, data["y"])
        taken.append(time.perf_counter() - begin)
        worked.append(time.process_time() - begun)
        right = model.predict(X_test) == truth
        found.append(float(np.mean(right)))
        balanced.append(
            float(np.mean([right[truth == label].mean() for label in np.unique(truth)]))
        )
    return {
        "runs": len(found),
        "accuracy": round(float(np.mean(found)), 4),
        "accuracy_std": round(float(np.std(found)), 4),
        "balanced_accuracy": round(float(np.mean(balanced)), 4),
        "fit_wall_s": round(float(np.mean(taken)), 2),
        "fit_cpu_s": round(float(np.mean(worked)), 4),
    }


def _classifier(name: str, epsilon: float, data: dict[str, np.ndarray]) -> Any:
    """Make an unfitted classifier; its noise is not seeded."""
    from diffprivlib import models

    n_features = data["X"].shape[1]
    box = tuple(
        np.broadcast_to(data[side], n_features).astype(float) for side in ("lower", "upper")
    )
    if name == "LogisticRegression":
        return models.LogisticRegression(epsilon=epsilon, data_norm=float(data["norm"]))
    if name == "GaussianNB":
        return models.GaussianNB(epsilon=epsilon, bounds=box)
    return models.RandomForestClassifier(
        epsilon=epsilon, bounds=box, classes=np.unique(data["y"]).tolist()
    )


if __name__ == "__main__":
    main()
