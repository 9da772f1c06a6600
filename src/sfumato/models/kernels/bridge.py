"""The exponential kernel on a line is Markov: a point depends on its nearest neighbours only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_banded

from sfumato.exceptions import InvalidInputError

Array = NDArray[np.float64]


class MarkovLine:
    """``L`` with ``L Lᵀ = exp(-γ |x_i - x_j|)`` for increasing x; ``L⁻¹`` has two diagonals.

    points (n,): Strictly increasing.
    """

    def __init__(self, points: Array, rate: float) -> None:
        gaps = rate * np.diff(points)
        if gaps.size and not gaps.min() > 0:
            raise InvalidInputError("The points of a line must increase strictly.")
        self._decay = np.exp(-gaps)
        self._spread = np.concatenate([[1.0], np.sqrt(-np.expm1(-2 * gaps))])

    @property
    def min_spread(self) -> float:
        """Least deviation of a point given the one before; whitening divides by it."""
        return float(self._spread.min())

    def whiten(self, values: Array) -> Array:
        """Return ``L⁻¹ v`` along the first axis."""
        shape = (-1,) + (1,) * (values.ndim - 1)
        innovations = values.copy()
        innovations[1:] -= self._decay.reshape(shape) * values[:-1]
        return np.asarray(innovations / self._spread.reshape(shape))

    def colour(self, coordinates: Array) -> Array:
        """Return ``L c`` along the first axis."""
        shape = (-1,) + (1,) * (coordinates.ndim - 1)
        diagonals = np.ones((2, len(self._spread)))
        diagonals[1, :-1] = -self._decay
        right = coordinates * self._spread.reshape(shape)
        flat = solve_banded((1, 0), diagonals, right.reshape(len(right), -1))
        return np.asarray(flat.reshape(coordinates.shape))
