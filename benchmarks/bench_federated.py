"""Federated hulls: ``python -m benchmarks.bench_federated PART ...``.

hulls     Section 6.3 of the hull paper on MNIST, entry epsilon 16: three kinds of split
record    random split over ten parties at record level, epsilon 3
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.recording import mnist, timed, write
from sfumato import Bounds, EntryHullClassifier, PrivateAffineHullClassifier
from sfumato.federated import make_parties, simulate
from sfumato.models.saving import save
from sfumato.papers.data import unit_rows

DELTA = 1e-5
PIXELS = Bounds(lower=0.0, upper=1.0, labels=range(10))
UNIT = Bounds(norm=1.0, labels=range(10))
PARTIES = (2, 5, 10, 20, 50, 100)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--n-layers", type=int, default=5)
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--parties", type=int, nargs="*", default=PARTIES)
    options = parser.parse_args()
    for part in options.parts or PARTS:
        settings = {k: v for k, v in vars(options).items() if k != "parts"}
        write(f"federated_{part}", PARTS[part](options), seed=0, **settings)


def hulls(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Accuracy of the merged hulls beside that of one party with all rows."""
    data = mnist()
    estimator = hull_classifier(options, EntryHullClassifier, epsilon=16.0, bounds=PIXELS)
    settings: list[tuple[str, int | None]] = [
        ("random", 1),
        ("one-class-each", None),
        ("two-per-class", None),
        *(("random", number) for number in options.parties),
    ]
    return [
        {"scenario": scenario, **merged(data, estimator, scenario, number, options)}
        for scenario, number in settings
    ]


def record(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Ten parties of 6,000 rows each, every one with its own private moments."""
    X, y, X_test, y_test = mnist()
    data = unit_rows(X), y, unit_rows(X_test), y_test
    estimator = hull_classifier(options, PrivateAffineHullClassifier, epsilon=3.0, bounds=UNIT)
    return [
        {"scenario": "random", **merged(data, estimator, "random", number, options)}
        for number in (1, 10)
    ]


def hull_classifier(options: argparse.Namespace, kind: Any, **promise: Any) -> Any:
    return kind(
        hull_components=20,
        n_layers=options.n_layers,
        delta=DELTA,
        dtype="float32",
        n_jobs=options.n_jobs,
        random_state=0,
        **promise,
    )


def merged(
    data: Any, estimator: Any, scenario: str, number: int | None, options: argparse.Namespace
) -> dict[str, Any]:
    X, y, X_test, y_test = data
    with tempfile.TemporaryDirectory() as folder:
        parties = make_parties(
            X[: options.rows],
            y[: options.rows],
            folder,
            scenario=scenario,
            n_parties=number,
            random_state=0,
        )
        found, time = timed(lambda: simulate(parties, estimator))
        save(found.model, file := Path(folder) / "model.sfumato")
        sent = file.stat().st_size  # of all parties together
    numbers = {
        "parties": len(parties),
        "accuracy": round(float(np.mean(found.model.predict(X_test) == y_test)), 4),
        "fit": time,
        "megabytes_sent": round(sent / 2**20, 1),
    }
    print(scenario, numbers, flush=True)
    return numbers


PARTS = {"hulls": hulls, "record": record}

if __name__ == "__main__":
    main()
