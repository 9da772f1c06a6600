"""Private hulls beside others on four public sets: ``python -m benchmarks.bench_fabrication_data``.

fashion    Fashion-MNIST, the first 20,000 training and 2,000 test images; entry level and the
           models without privacy see the first 5,000. Pixels divided by 255; at record level each
           image is scaled to length 1.
groceries  Freiburg groceries, its five folds, features of a public network. They are divided by the
           99th percentile of the same network's features on other public images (Office+Caltech10)
           and clipped to [0, 1]; at record level each row is scaled to length 1.
adult      UCI Adult, its own split; the first 4,000 test rows are scored. Numbers are scaled by the
           ranges below, capital gain and loss after log(1 + x); categories are one number for each
           value that adult.names lists. At entry level the five numbers alone. Entry level and
           the models without privacy see the first 10,000 rows.
stress     windows of heart-rate variability, five folds of participants, scaled by the
           physiological ranges below. A record is a window here, not a person.

No bound is taken from the rows themselves. Where a set has five folds, each is one run. The peers
of diffprivlib are run where SFUMATO_PEERS_PYTHON names a Python that has it
(`peers_diffprivlib.py`); their promise is pure epsilon for one record. Arguments choose sets;
others keep their numbers. Hulls have one layer, forests on fabricated rows are for the two tables.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import balanced_accuracy_score

from benchmarks.bench_fabrication import unit_rows
from benchmarks.peers_diffprivlib import accuracies
from benchmarks.recording import RESULTS, write
from sfumato import (
    AffineHullClassifier,
    Bounds,
    Fabricator,
    PrivateAffineHullClassifier,
    PrivateGaussianClassifier,
)

NAME = "fabrication_data"
DELTA = 1e-5
RUNS = 3
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Problem:
    """Rows in the unit cube, cut into training and test rows."""

    splits: list[Split]
    norm: float  # no row is longer, after `to_record`
    epsilons: tuple[float, ...] = (1.0, 4.0)
    to_record: Callable[[np.ndarray], np.ndarray] = field(default=lambda X: X)
    entry_columns: slice = field(default_factory=lambda: slice(None))
    samples: int = 2000  # rows drawn from a Gaussian
    is_table: bool = False
    few_rows: int | None = None  # for what is slow: entry level, and models without privacy

    @property
    def unit(self) -> Bounds:
        return self.bounds(norm=self.norm)

    def bounds(self, **features: Any) -> Bounds:
        return Bounds(labels=np.unique(self.splits[0][1]).tolist(), **features)

    def split(self, number: int, level: str) -> Split:
        X, y, X_test, y_test = self.splits[number]
        if level != "record":
            X, y = X[: self.few_rows], y[: self.few_rows]
        if level == "entry":
            return X[:, self.entry_columns], y, X_test[:, self.entry_columns], y_test
        return self.to_record(X), y, self.to_record(X_test), y_test


def main() -> None:
    warnings.simplefilter("ignore", UserWarning)  # delta above 1/n in folds of a thousand rows
    chosen = sys.argv[1:] or list(PROBLEMS)
    path = RESULTS / f"{NAME}.json"
    numbers = json.loads(path.read_text())["numbers"] if path.is_file() else []
    versions: dict[str, str] = {}
    for name in chosen:
        problem = PROBLEMS[name]()
        numbers = [row for row in numbers if row["data"] != name]
        for row in measured(problem, versions):
            numbers.append({"data": name, **row})
            print(numbers[-1], flush=True)
        numbers.sort(key=lambda row: list(PROBLEMS).index(row["data"]))
        write(NAME, numbers, seed=None, delta=DELTA, peers=versions)


def measured(problem: Problem, versions: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Score the models without privacy, then ours, then the peers."""
    for name, model in PLAIN.items():
        yield {"level": "none", "model": name, **scored(problem, "none", None, model)}
    for epsilon in problem.epsilons:
        for (level, name), make in PRIVATE.items():
            if make is FabricatedForest and not problem.is_table:
                continue
            score = scored(problem, level, epsilon, partial(make, problem))
            yield {"level": level, "model": name, **score}
    yield from peers(problem, versions)


def entry_hulls(problem: Problem, **parameters: Any) -> Any:
    cube = problem.bounds(lower=0.0, upper=1.0)
    return PrivateAffineHullClassifier(unit="entry", bounds=cube, **HULLS, **parameters)


def record_hulls(problem: Problem, **parameters: Any) -> Any:
    return PrivateAffineHullClassifier(
        samples_per_gaussian=problem.samples, bounds=problem.unit, **HULLS, **parameters
    )


def gaussians(problem: Problem, *, epsilon: float, **_: Any) -> Any:
    return PrivateGaussianClassifier(epsilon=epsilon, delta=DELTA, bounds=problem.unit)


class FabricatedForest:
    """scikit-learn's forest on at most 20,000 rows of a Fabricator."""

    def __init__(self, problem: Problem, *, epsilon: float, random_state: int) -> None:
        self.fabricator = Fabricator(
            epsilon=epsilon, delta=DELTA, bounds=problem.unit, random_state=random_state
        )
        self.forest = RandomForestClassifier(random_state=random_state)

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        rows, labels = self.fabricator.fit_fabricate(X, y)
        self.forest.fit(rows[:20_000], labels[:20_000])

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.forest.predict(X)


HULLS = {"delta": DELTA, "dtype": "float32", "n_layers": 1}
PLAIN: dict[str, Callable[..., Any]] = {
    "hulls": lambda **_: AffineHullClassifier(n_layers=1),
    "forest": lambda *, random_state, **_: RandomForestClassifier(random_state=random_state),
}
PRIVATE: dict[tuple[str, str], Callable[..., Any]] = {
    ("entry", "hulls"): entry_hulls,
    ("record", "hulls"): record_hulls,
    ("record", "Gaussians"): gaussians,
    ("record", "forest on fabricated rows"): FabricatedForest,
}


def scored(
    problem: Problem, level: str, epsilon: float | None, make: Callable[..., Any]
) -> dict[str, Any]:
    n_splits = len(problem.splits)
    runs = n_splits if n_splits > 1 else (1 if epsilon is None else RUNS)
    answers, seconds = [], []
    for run in range(runs):
        X, y, X_test, y_test = problem.split(run % n_splits, level)
        fitted = make(epsilon=epsilon, random_state=run)
        start = time.process_time()
        fitted.fit(X, y)
        seconds.append(time.process_time() - start)
        answers.append((y_test, fitted.predict(X_test)))
    plain = [float(np.mean(truth == answer)) for truth, answer in answers]
    balanced = [float(balanced_accuracy_score(truth, answer)) for truth, answer in answers]
    return {
        "epsilon": epsilon,
        "runs": runs,
        "accuracy": round(float(np.mean(plain)), 4),
        "accuracy_std": round(float(np.std(plain)), 4),
        "balanced_accuracy": round(float(np.mean(balanced)), 4),
        "fit_cpu_s": round(float(np.mean(seconds)), 2),
    }


def peers(problem: Problem, versions: dict[str, str]) -> Iterator[dict[str, Any]]:
    found: dict[tuple[str, float], list[dict[str, Any]]] = {}
    n_splits = len(problem.splits)
    for number in range(n_splits):
        answer = accuracies(
            problem.split(number, "record"),
            lower=0.0,
            upper=1.0,
            norm=problem.norm,
            epsilons=problem.epsilons,
            runs=1 if n_splits > 1 else RUNS,
            seconds=20.0,
        )
        if answer is None:
            return
        versions.update(answer["versions"])
        for row in answer["numbers"]:
            found.setdefault((row["classifier"], row["epsilon"]), []).append(row)
    for (classifier, epsilon), rows in found.items():
        means = [row["accuracy"] for row in rows]
        yield {
            "level": "record",
            "model": f"diffprivlib {classifier}",
            "epsilon": epsilon,
            "runs": sum(row["runs"] for row in rows),
            "accuracy": round(float(np.mean(means)), 4),
            "accuracy_std": rows[0]["accuracy_std"] if n_splits == 1 else round(np.std(means), 4),
            "balanced_accuracy": round(float(np.mean([r["balanced_accuracy"] for r in rows])), 4),
            "fit_wall_s": round(float(np.mean([row["fit_wall_s"] for row in rows])), 2),
        }


# The sets ----------------------------------------------------------------------------------------


def _folder() -> Path:
    if "SFUMATO_DATA" not in os.environ:
        raise SystemExit("Set SFUMATO_DATA to the folder of the data sets.")
    return Path(os.environ["SFUMATO_DATA"])


def fashion() -> Problem:
    def read(name: str, offset: int) -> np.ndarray:
        path = _folder() / "fashion-mnist" / name
        return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8, offset=offset)

    parts: list[np.ndarray] = []
    for part in ("train", "t10k"):
        parts.append(read(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784) / 255.0)
        parts.append(read(f"{part}-labels-idx1-ubyte.gz", 8))
    X, y, X_test, y_test = parts
    split = X[:20_000], y[:20_000], X_test[:2000], y_test[:2000]
    return Problem([split], norm=1.0, to_record=unit_rows, few_rows=5000)


def groceries() -> Problem:
    file = "efficientnet_lite0_1280.npz"
    with np.load(_folder() / "office_caltech10" / file) as others:
        elsewhere = [others[name].ravel() for name in others.files if name.endswith("_x")]
    scale = float(np.percentile(np.concatenate(elsewhere).astype(np.float64), 99))
    with np.load(_folder() / "freiburg_groceries" / file) as data:
        X, y, fold = np.clip(data["x"].astype(np.float64) / scale, 0, 1), data["y"], data["fold"]
    splits = [(X[fold != i], y[fold != i], X[fold == i], y[fold == i]) for i in range(5)]
    # A class has fewer than 400 rows: as many are drawn from a Gaussian.
    return Problem(splits, norm=1.0, to_record=unit_rows, epsilons=(4.0, 8.0), samples=400)


# Public ranges: of ages and hours, of the codes of education, and of the logarithms of dollars.
ADULT_NUMBERS = {0: (17, 90), 4: (1, 16), 10: (0, np.log1p(99_999)), 11: (0, np.log1p(4_999))}
ADULT_NUMBERS[12] = (1, 99)
ADULT_CATEGORIES = (1, 5, 6, 7, 8, 9)


def adult() -> Problem:
    lists = _adult_categories()
    X, y = _adult_rows("adult.data.gz", lists)
    X_test, y_test = _adult_rows("adult.test.gz", lists)
    # Five numbers of at most 1, and six categories of which one number each is 1.
    return Problem(
        [(X, y, X_test[:4000], y_test[:4000])],
        norm=float(np.sqrt(len(ADULT_NUMBERS) + len(ADULT_CATEGORIES))),
        entry_columns=slice(0, len(ADULT_NUMBERS)),
        is_table=True,
        few_rows=10_000,
    )


def _adult_categories() -> dict[int, list[str]]:
    """Give the values that adult.names lists for each column of categories."""
    text = gzip.decompress((_folder() / "tabular" / "adult.names.gz").read_bytes()).decode()
    lines = [line for line in text.splitlines() if ":" in line and not line.startswith("|")]
    values = [line.split(":", 1)[1].strip(" .").split(", ") for line in lines[-14:]]
    return {column: values[column] for column in ADULT_CATEGORIES}


def _adult_rows(name: str, lists: dict[int, list[str]]) -> tuple[np.ndarray, np.ndarray]:
    with gzip.open(_folder() / "tabular" / name, "rt") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == 15]
    columns = []
    for column, (low, high) in ADULT_NUMBERS.items():
        numbers = np.array([float(row[column]) for row in rows])
        numbers = np.log1p(numbers) if column in (10, 11) else numbers
        columns.append(np.clip((numbers - low) / (high - low), 0, 1))
    for column, values in lists.items():
        columns += [np.array([row[column] == value for row in rows], float) for value in values]
    return np.column_stack(columns), np.array([row[14].startswith(">50K") for row in rows], int)


# Physiological ranges: milliseconds, shares, beats and breaths a minute.
STRESS_RANGES = {
    "mean_rr_ms": (300, 1700),
    "median_rr_ms": (300, 1700),
    "sdnn_ms": (0, 300),
    "rmssd_ms": (0, 400),
    "sdsd_ms": (0, 400),
    "pnn50": (0, 1),
    "pnn20": (0, 1),
    "min_rr_ms": (300, 1700),
    "max_rr_ms": (300, 1700),
    "cv_rr": (0, 0.4),
    "sd1_ms": (0, 300),
    "hr_mean_bpm": (40, 180),
    "hr_std_bpm": (0, 30),
    "resp_rate": (0, 40),
}


def stress() -> Problem:
    with gzip.open(_folder() / "stress_predict" / "hrv_windows_60s.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    X = np.column_stack(
        [
            np.clip((np.array([float(row[name]) for row in rows]) - low) / (high - low), 0, 1)
            for name, (low, high) in STRESS_RANGES.items()
        ]
    )
    y = np.array([int(row["label"]) for row in rows])
    fold = np.array([int(row["participant"]) for row in rows]) % 5
    splits = [(X[fold != i], y[fold != i], X[fold == i], y[fold == i]) for i in range(5)]
    return Problem(splits, norm=float(np.sqrt(X.shape[1])), is_table=True)


PROBLEMS = {"fashion": fashion, "groceries": groceries, "adult": adult, "stress": stress}

if __name__ == "__main__":
    main()
