"""Digits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:1200], order[1200:]
    return X[train], y[train], X[test], y[test]
