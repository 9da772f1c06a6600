"""How long a step of a peer's gradients is: the best of three on training rows kept aside.

That choice costs the peer nothing here, although it reads private rows: a gift to the peer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

LENGTHS = (0.5, 2.0, 8.0)
EPOCHS = 20
SHARE = 1 / 16  # of the rows in a batch, on average
CLIP = 1.0

Train = Callable[[np.ndarray, np.ndarray, float], Callable[[np.ndarray], np.ndarray]]


def chosen(train: Train, X: np.ndarray, y: np.ndarray) -> float:
    """Return the length whose model is right most often on every fifth row."""
    aside = np.arange(len(X)) % 5 == 0
    right = {
        length: np.mean(train(X[~aside], y[~aside], length)(X[aside]) == y[aside])
        for length in LENGTHS
    }
    return max(right, key=lambda length: right[length])
