"""How long fits take beside scikit-learn's on the same rows; scattering.

SFUMATO_DATA=... python -m benchmarks.bench_speed [fits] [scattering] [--rows 20000] [--name speed]

`fits`: `PrivateLinearClassifier` and `LogisticRegression`, both with their defaults, in turn on the
same rows in the same precision; CPU seconds are the least of the runs. `scattering`: images
of 28 x 28 pixels. Results are kept part by part; `--name` keeps those of another version.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from benchmarks.model_tables import table
from benchmarks.recording import RESULTS, mnist, timed, write
from sfumato import Bounds, HOGFeatures, PrivateLinearClassifier, ScatteringFeatures
from sfumato.tables.encoder import TableEncoder

DELTA = 1e-5
EPSILON = 1.0
N_IMAGES = 20_000
RUNS = 5
DEEPEST = 12  # functions of a profile that are kept


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["fits"])
    parser.add_argument("--rows", type=int, default=N_IMAGES)
    parser.add_argument("--name", default="speed")
    options = parser.parse_args()
    numbers = _kept(options.name)
    for part in options.parts:
        numbers = [each for each in numbers if each["part"] != part]
        for found in PARTS[part](options):
            numbers.append({"part": part, **found})
            print(numbers[-1], flush=True)
        write(options.name, numbers, seed=None, unit="record", delta=DELTA)


def fits(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for what, rows, y, queries, y_test, norm in _same_rows(options.rows):
        labels = np.unique(y)

        def private(labels: Any = labels, norm: float = norm) -> Any:
            bounds = Bounds(norm=norm, labels=labels)
            return PrivateLinearClassifier(epsilon=EPSILON, delta=DELTA, bounds=bounds)

        ours, theirs = [], []
        for _ in range(RUNS):  # in turn, so that both see the same machine
            model, ours_s = timed(lambda rows=rows, y=y: private().fit(rows, y))
            plain, theirs_s = timed(lambda rows=rows, y=y: _plain(rows, y))
            ours.append(ours_s["cpu_s"])
            theirs.append(theirs_s["cpu_s"])
        yield {
            "what": what,
            "n_rows": len(rows),
            "n_features": rows.shape[1],
            "epsilon": EPSILON,
            "accuracy": round(float(np.mean(model.predict(queries) == y_test)), 4),
            "accuracy_plain": round(float(np.mean(plain.predict(queries) == y_test)), 4),
            "iterations_plain": int(plain.n_iter_.max()),
            "cpu_s": min(ours),
            "cpu_s_plain": min(theirs),
            "ratio": round(min(ours) / min(theirs), 2),
            "profile": profile(lambda rows=rows, y=y: private().fit(rows, y)),
        }


def _plain(rows: Any, y: Any) -> LogisticRegression:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression().fit(rows, y)


def _same_rows(n_images: int) -> Iterator[tuple[str, Any, Any, Any, Any, float]]:
    train, y, test, y_test = mnist()
    train, y = train[:n_images], y[:n_images]
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (train, test)]
    yield "MNIST, pixels", unit[0], y, unit[1], y_test, 1.0
    hog = HOGFeatures((28, 28)).fit(train[:1])
    yield "MNIST, HOG", hog.transform(train), y, hog.transform(test), y_test, 1.0
    for name in ("adult", "bank"):
        data = table(name)
        encoder = TableEncoder(data.bounds).fit(data.train)
        rows, queries = (encoder.transform(part) for part in (data.train, data.test))
        norm = encoder.row_bounds().norm
        assert norm is not None
        yield name, rows, data.y_train, queries, data.y_test, float(norm)


def scattering(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    train = mnist()[0][: options.rows]
    features = ScatteringFeatures((28, 28)).fit(train[:1])
    features.transform(train[:64])
    _, seconds = timed(
        lambda: [features.transform(train[i : i + 4000]) for i in range(0, len(train), 4000)]
    )
    yield {
        "what": "ScatteringFeatures, MNIST",
        "n_rows": len(train),
        "n_features": features.n_features_out_,
        **seconds,
        "profile": profile(lambda: features.transform(train[:2000])),
    }


def profile(task: Any) -> list[dict[str, Any]]:
    """Return the functions of a run that took most of it themselves."""
    watch = cProfile.Profile()
    watch.runcall(task)
    stats = pstats.Stats(watch)
    stats.calc_callees()
    ordered = sorted(stats.stats.items(), key=lambda item: -item[1][2])[:DEEPEST]  # type: ignore[attr-defined]
    whole = stats.total_tt  # type: ignore[attr-defined]
    return [
        {"where": f"{Path(file).name}:{name}", "calls": calls, "share": round(own / whole, 3)}
        for (file, _, name), (_, calls, own, _, _) in ordered
    ]


def _kept(name: str) -> list[dict[str, Any]]:
    path = RESULTS / f"{name}.json"
    return list(json.loads(path.read_text())["numbers"]) if path.exists() else []


PARTS = {"fits": fits, "scattering": scattering}


if __name__ == "__main__":
    main()
