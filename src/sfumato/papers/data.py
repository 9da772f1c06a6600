"""The data of a reproduction: public sets at full size, embedded ones in a quick run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sfumato.datasets import load
from sfumato.papers.entry import Setting

# Least and largest value of a pixel as the files have them.
PIXELS = {
    "mnist": (0.0, 255.0),
    "fashion-mnist": (0.0, 255.0),
    "cifar10": (0.0, 255.0),
    "usps": (-1.0, 1.0),
}


@dataclass(frozen=True)
class Split:
    """Rows in [0, 1] to learn from and to score on, with their labels."""

    X: NDArray[Any]
    y: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]

    def first(self, n_train: int, n_test: int | None = None) -> Split:
        """Return fewer rows: the first of each part."""
        return Split(self.X[:n_train], self.y[:n_train], self.X_test[:n_test], self.y_test[:n_test])


def images(setting: Setting, name: str = "mnist") -> Split:
    """Return a set of images with its published split; the embedded digits in a quick run."""
    if setting.quick:
        return digits()
    setting.tell(f"reading {name}")
    found = load(name)
    low, high = PIXELS[name]
    X = (found.X.astype(np.float32) - np.float32(low)) / np.float32(high - low)
    y = found.y.astype(int)
    train, test = found.parts()
    return Split(X[train], y[train], X[test], y[test])


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
