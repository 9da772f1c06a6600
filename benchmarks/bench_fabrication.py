"""Private hulls and fabricated rows on MNIST: ``python -m benchmarks.bench_fabrication PART ...``.

record    the record engine: hulls on rows drawn from private Gaussians, pixels and gradients
learners  scikit-learn's forest (20,000 rows) and support vectors (6,000 rows) on what
          `GaussianFabricator` makes of all rows
speed     60,000 x 784 fabricated: seconds and memory

``--device cuda`` fits and evaluates hulls with PyTorch there; ``--runs``, ``--epsilon`` and
``--rows`` make a run smaller.
"""

from __future__ import annotations

import argparse
import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC

from benchmarks.recording import mnist, peak_gib, timed, write
from sfumato import Bounds, GaussianFabricator, PrivateAffineHullClassifier
from sfumato.exceptions import RefutedGuaranteeWarning
from sfumato.papers.data import unit_rows
from sfumato.papers.kahm import EntryFabricator

DELTA = 1e-5
UNIT = Bounds(norm=1.0, labels=range(10))
PIXELS = Bounds(lower=0.0, upper=1.0, labels=range(10))
EPSILONS = (1, 2, 4, 8, 16)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--device", default=None)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--epsilon", type=float, nargs="*")
    parser.add_argument("--n-layers", type=int, default=5)
    parser.add_argument("--n-jobs", type=int, default=2)
    options = parser.parse_args()
    warnings.simplefilter("ignore", RefutedGuaranteeWarning)
    data = split(options)
    for part in options.parts or PARTS:
        write(
            f"fabrication_{part}",
            PARTS[part](data, options),
            seed=None,
            **{k: v for k, v in vars(options).items() if k != "parts"},
            delta=DELTA,
        )


def split(options: argparse.Namespace) -> tuple[np.ndarray, ...]:
    """Return rows and labels to fit, and rows and labels to score."""
    X, y, X_test, y_test = mnist()
    return X[: options.rows], y[: options.rows], X_test, y_test


def record(data: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    numbers = []
    for features, function in (("pixels", unit_rows), ("gradients", gradient_histograms)):
        mapped = function(data[0]), data[1], function(data[2]), data[3]
        for epsilon in options.epsilon or (1, 3, 4, 10):
            make = partial(PrivateAffineHullClassifier, epsilon=epsilon, delta=DELTA, bounds=UNIT)
            numbers.append(
                {"epsilon": epsilon, "features": features, **scored(make, mapped, options)}
            )
    return numbers


def learners(data: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    X, y, X_test, y_test = data
    X, X_test = unit_rows(X), unit_rows(X_test)
    numbers = []
    for epsilon in options.epsilon or (1, 4, 10):
        found: dict[str, list[float]] = {"forest": [], "support_vectors": []}
        for run in range(options.runs):
            about = {"epsilon": epsilon, "delta": DELTA, "bounds": UNIT, "random_state": run}
            fabricator = GaussianFabricator(**about)
            rows, labels = fabricator.fit_fabricate(X, y)
            forest = RandomForestClassifier(100, n_jobs=options.n_jobs, random_state=run)
            forest.fit(rows[:20_000], labels[:20_000])
            found["forest"].append(forest.score(X_test, y_test))
            machine = SVC(C=10, gamma=2.0, cache_size=1000).fit(rows[:6000], labels[:6000])
            found["support_vectors"].append(machine.score(X_test, y_test))
        for learner, accuracies in found.items():
            numbers.append({"epsilon": epsilon, "learner": learner, **summary(accuracies)})
    return numbers


def speed(data: Any, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Each setting in a process of its own, so that the peak of memory is its own too."""
    settings = (("record", 1.0), ("entry", 4.0), ("entry", 1.0))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as fresh:
        return [
            fresh.submit(fabricate_once, *data[:2], *each, options).result() for each in settings
        ]


def fabricate_once(
    X: np.ndarray, y: np.ndarray, unit: str, epsilon: float, options: argparse.Namespace
) -> dict[str, Any]:
    fabricator: Any = GaussianFabricator(epsilon=epsilon, delta=DELTA, bounds=PIXELS)
    if unit == "entry":
        fabricator = EntryFabricator(
            epsilon=epsilon, bounds=PIXELS, device=options.device, n_jobs=options.n_jobs
        )
    _, seconds = timed(lambda: fabricator.fit(X, y).fabricate())
    return {"unit": unit, "epsilon": epsilon, **seconds, "peak_gib": peak_gib()}


def scored(make: Any, data: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Fit and score several times, each with noise of its own."""
    X, y, X_test, y_test = data
    accuracies, seconds = [], []
    for run in range(options.runs):
        model = make(
            n_layers=options.n_layers,
            dtype="float32",
            device=options.device,
            n_jobs=options.n_jobs,
            random_state=run,
        )
        _, time = timed(lambda m=model: m.fit(X, y))
        accuracies.append(model.score(X_test, y_test))
        seconds.append(time["wall_s"])
        print(make.args, make.keywords, run, round(accuracies[-1], 4), time, flush=True)
    return {
        **summary(accuracies),
        "fit_wall_s": round(float(np.mean(seconds)), 2),
    }


def summary(accuracies: list[float]) -> dict[str, Any]:
    return {
        "runs": len(accuracies),
        "accuracy": round(float(np.mean(accuracies)), 4),
        "accuracy_std": round(float(np.std(accuracies)), 4),
    }


def gradient_histograms(X: np.ndarray, *, cell: int = 4, bins: int = 8) -> np.ndarray:
    """Square roots of gradient histograms, 8 directions in cells of 4 x 4 pixels, length 1.

    A public map of each image by itself: no statistic of other images enters.
    """
    parts = [_histograms(X[i : i + 5000], cell, bins) for i in range(0, len(X), 5000)]
    return unit_rows(np.sqrt(np.concatenate(parts)))


def _histograms(X: np.ndarray, cell: int, bins: int) -> np.ndarray:
    images = X.reshape(-1, 28, 28).astype(np.float32)
    across, down = np.zeros_like(images), np.zeros_like(images)
    across[:, :, 1:-1] = images[:, :, 2:] - images[:, :, :-2]
    down[:, 1:-1, :] = images[:, 2:, :] - images[:, :-2, :]
    turn = np.arctan2(down, across) / (2 * np.pi) % 1.0 * bins
    lower = np.floor(turn).astype(int) % bins
    share = turn - np.floor(turn)
    length = np.hypot(across, down)
    cells = 28 // cell
    found = np.zeros((len(images), cells, cells, bins), np.float32)
    for direction in range(bins):
        weight = (lower == direction) * (1 - share) + ((lower + 1) % bins == direction) * share
        blocks = (length * weight).reshape(-1, cells, cell, cells, cell)
        found[..., direction] = blocks.sum(axis=(2, 4))
    return found.reshape(len(images), -1)


PARTS = {"record": record, "learners": learners, "speed": speed}

if __name__ == "__main__":
    main()
