"""The data of a reproduction: public sets at full size, embedded ones in a quick run."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from sfumato.datasets import FOLDER_VARIABLE, load
from sfumato.exceptions import InvalidInputError
from sfumato.papers.entry import Setting


@dataclass(frozen=True)
class Split:
    """Rows to learn from and to score on, with their labels and the range of their numbers."""

    X: NDArray[Any]
    y: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]
    lower: float = 0.0
    upper: float = 1.0

    def first(self, n_train: int, n_test: int | None = None) -> Split:
        """Return fewer rows: the first of each part."""
        return Split(self.X[:n_train], self.y[:n_train], self.X_test[:n_test], self.y_test[:n_test])


def images(setting: Setting, name: str = "mnist") -> Split:
    """Return a set of images with its published split; the embedded digits in a quick run."""
    if setting.quick:
        return digits()
    setting.tell(f"reading {name}")
    found = load(name)
    low, high = (-1.0, 1.0) if name == "usps" else (0.0, 255.0)
    X = (found.X.astype(np.float32) - np.float32(low)) / np.float32(high - low)
    y = found.y.astype(int)
    train, test = found.parts()
    return Split(X[train], y[train], X[test], y[test])


def staged(name: str) -> Path:
    """Return a file of the data folder that no public loader fetches."""
    path = Path(os.environ.get(FOLDER_VARIABLE, ".")) / name
    if not path.is_file():
        raise InvalidInputError(
            f"This table needs '{name}' in the folder that {FOLDER_VARIABLE} names. Use '--quick' "
            "for a substitute."
        )
    return path


def groceries(setting: Setting, fold: int) -> Split:
    """Return one official split of the Freiburg groceries, each feature scaled to [-1, 1]."""
    if setting.quick:
        found = digits()
        return Split(2 * found.X - 1, found.y, 2 * found.X_test - 1, found.y_test, -1.0)
    with np.load(staged("freiburg_groceries/efficientnet_lite0_1280.npz")) as stored:
        X, y, folds = stored["x"].astype(np.float64), stored["y"].astype(int), stored["fold"]
    X = 2 * (X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-12) - 1
    test = folds == fold
    return Split(X[~test], y[~test], X[test], y[test], -1.0)


def beats(setting: Setting, length: int = 217) -> Split:
    """Return vectors of successive inter-beat intervals in seconds; half of each person's rows."""
    if setting.quick:
        return digits()
    with gzip.open(staged("stress_predict/ibi.csv.gz"), "rt") as file:
        person, time, gap, label = np.loadtxt(file, delimiter=",", skiprows=1).T
    follows = (np.diff(person) == 0) & (np.abs(np.diff(time) - gap[1:]) < 0.02)
    run = np.cumsum(np.r_[True, ~follows])
    ends = np.arange(length - 1, len(gap))
    ends = ends[(run[ends] == run[ends - length + 1]) & (label[ends] >= 0)]
    X, y = np.stack([gap[i - length + 1 : i + 1] for i in ends]), label[ends].astype(int)
    generator, test = check_random_state(0), np.zeros(len(ends), dtype=bool)
    for who in np.unique(person[ends]):
        own = np.flatnonzero(person[ends] == who)
        test[generator.permutation(own)[: len(own) // 2]] = True
    return Split(X[~test], y[~test], X[test], y[test], 0.0, 2.0)


def digits() -> Split:
    """Return the 8 x 8 digits that come with scikit-learn, 30 % held out."""
    X, y = load_digits(return_X_y=True)
    rows = train_test_split(X / 16.0, y, test_size=0.3, random_state=0, stratify=y)
    return Split(rows[0], rows[2], rows[1], rows[3])


def unit_rows(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Scale each row to length 1; a row of zeros stays."""
    rows = np.asarray(rows, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)
