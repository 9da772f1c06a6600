"""Transfer from a private source: accuracies, and whether the source did anything.

SFUMATO_DATA=... python -m benchmarks.bench_mappings_transfer [PART ...]

Parts are labels and usps_mnist. A part may be cut further, ``labels:MNIST->USPS:3``; its
numbers then join those of the file.
SFUMATO_SOURCES names a folder in which released sources are kept between parts.

Rules and constants were chosen on other rows (held-out training rows of MNIST and USPS) and other
seeds than those reported here.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.recording import RESULTS, mnist, timed, write
from sfumato import Bounds, PrivateTransferClassifier, save

DELTA = 1e-5
SEEDS = tuple(range(5))
FEW_SEEDS = SEEDS[:3]  # where a run is slow
LABELS = (1, 2, 3, 5, 10)
DIGITS = range(10)
Rows = np.ndarray
FOLDER = Path(os.environ.get("SFUMATO_SOURCES") or tempfile.mkdtemp())


def usps() -> tuple[Rows, Rows, Rows, Rows]:
    """Return USPS as `mnist` does, rows in [0, 1]."""
    stored = np.load(Path(os.environ["SFUMATO_DATA"]) / "usps" / "usps.npz")
    train, test = ((stored[name].astype(np.float64) + 1) / 2 for name in ("x_train", "x_test"))
    return train, stored["y_train"].astype(int), test, stored["y_test"].astype(int)


def unit(rows: Rows) -> Rows:
    """Scale each row to length 1: public, row by row."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)


def enlarged(rows: Rows) -> Rows:
    """Put 16 x 16 images into the middle 20 x 20 pixels of 28 x 28: how MNIST was made."""
    places = (np.arange(20) + 0.5) * 16 / 20 - 0.5
    weights = np.maximum(0, 1 - np.abs(places[:, None].clip(0, 15) - np.arange(16)))
    images = np.zeros((len(rows), 28, 28))
    images[:, 4:24, 4:24] = weights @ rows.reshape(-1, 16, 16) @ weights.T
    return images.reshape(-1, 784)


def few_labels(labels: Rows, per_class: int, seed: int) -> Rows:
    """Keep `per_class` labels per class, drawn at random; -1 for the others."""
    generator = np.random.default_rng(seed)
    kept = np.full(len(labels), -1)
    for digit in np.unique(labels):
        chosen = generator.choice(np.nonzero(labels == digit)[0], per_class, replace=False)
        kept[chosen] = digit
    return kept


def released(rows: Rows, labels: Rows, name: str, **parameters: Any) -> tuple[Path, float]:
    """Release a source once and return its file, with the seconds it took."""
    path, clock = FOLDER / f"{name}.sfumato", FOLDER / f"{name}.seconds"
    if path.exists():
        return path, float(clock.read_text())
    model = PrivateTransferClassifier(delta=DELTA, random_state=0, **parameters)
    fitted, time = timed(lambda: model.fit(rows, labels))
    save(fitted, path)
    clock.write_text(str(time["wall_s"]))
    return path, time["wall_s"]


def tried(
    source: Path, target: Rows, known: Rows, test: Rows, y_test: Rows, seed: int, **parameters: Any
) -> dict[str, Any]:
    """Learn one target and return its accuracy on test rows, with what decided."""
    model = PrivateTransferClassifier(delta=DELTA, random_state=seed, **parameters)
    fitted, time = timed(lambda: model.fit(source, None, target, known))
    return {
        "accuracy": round(float(np.mean(fitted.predict(test) == y_test)), 4),
        "start": fitted.start_,
        "source_weight": round(fitted.source_weight_, 3),
        "fit_cpu_s": round(time["cpu_s"], 1),
    }


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    accuracies = [run["accuracy"] for run in runs]
    return {
        "accuracy": round(float(np.mean(accuracies)), 4),
        "accuracy_std": round(float(np.std(accuracies)), 4),
        "runs": runs,
    }


def joined(name: str, numbers: list[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """Put new numbers among those of the file, in place of older ones with the same keys."""
    path = RESULTS / f"{name}.json"
    old = json.loads(path.read_text())["numbers"] if path.exists() else []
    new = {tuple(row[key] for key in keys) for row in numbers}
    return [row for row in old if tuple(row[key] for key in keys) not in new] + numbers


def labels_curve(asked: str = "", n_asked: str = "") -> None:
    """Record level, epsilon 1: the transfer beside the target alone, 1 to 10 labels per class."""
    X, y, X_test, y_test = mnist()
    U, u, U_test, u_test = usps()
    record = {"bounds": Bounds(norm=1.0, labels=DIGITS), "epsilon": 1.0}
    pairs = {
        "MNIST->MNIST": (X_test[:9000], y_test[:9000], X_test[9000:], y_test[9000:]),
        "MNIST->USPS enlarged": (enlarged(U), u, enlarged(U_test), u_test),
        "MNIST->USPS": (U, u, U_test, u_test),
    }
    for pair in [asked] if asked else pairs:
        T, t, V, v = pairs[pair]
        T, V = unit(np.asarray(T, dtype=np.float64)), unit(np.asarray(V, dtype=np.float64))
        # Of enlarged rows the target alone is the same as of the rows as they are, where the source
        # does not help.
        both = (True, False)
        ways = {"MNIST->USPS enlarged": both[:1], "MNIST->USPS": both[1:]}.get(pair, both)
        for n_labels in [int(n_asked)] if n_asked else LABELS:
            for use_source in ways:
                runs = []
                for seed in SEEDS:
                    number = seed % len(FEW_SEEDS)
                    source = released(unit(X), y, f"record{number}", **record)[0]
                    known = few_labels(t, n_labels, seed)
                    options = record | {"use_source": use_source}
                    runs.append(tried(source, T, known, V, v, seed, **options))
                key = {"pair": pair, "labels_a_class": n_labels, "use_source": use_source}
                numbers = joined("mappings_labels", [key | summary(runs)], *key)
                write("mappings_labels", numbers, seed=0, unit="record", epsilon=1.0, delta=DELTA)


def usps_to_mnist(n_asked: str = "", seed: str = "") -> None:
    """The paper's Table 3: 60,000 target rows, 100 to 500 labels; the source in MNIST's frame."""
    X, y, X_test, y_test = mnist()
    U, u, _, _ = usps()
    record = {"bounds": Bounds(norm=1.0, labels=DIGITS), "epsilon": 1.0}
    T, V = unit(X.astype(np.float64)), unit(X_test.astype(np.float64))
    path = released(unit(enlarged(U)), u, "usps", **record)[0]
    for n_labels in [int(n_asked)] if n_asked else (10, 30, 50):
        for number in [int(seed)] if seed else FEW_SEEDS:
            known = few_labels(y, n_labels, number)
            run = tried(path, T, known, V, y_test, number, **record)
            key = {"labels": 10 * n_labels, "frame": "enlarged", "run": number}
            numbers = joined("mappings_usps_mnist", [key | run], *key)
            write("mappings_usps_mnist", numbers, seed=0, unit="record", epsilon=1.0)


PARTS = {"labels": labels_curve, "usps_mnist": usps_to_mnist}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        name, *cut = part.split(":")
        PARTS[name](*cut)
