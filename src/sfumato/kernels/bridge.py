"""The exponential kernel on a line is Markov: a point depends on its two neighbours only.

With gaps a and b (in units of 1/γ) to the neighbours on the left and right, the best linear
prediction of ``G(x)`` from any set of points that has these as the nearest is

``w_l G(x_l) + w_r G(x_r)``, ``w_l = sinh(b) / sinh(a + b)``, ``w_r = sinh(a) / sinh(a + b)``,

and its error has variance ``E(a) E(b) / E(a + b)`` with ``E(t) = 1 - exp(-2 t)``. The nearer
neighbour weighs more. Written with E nothing overflows, and a missing neighbour is one at infinity.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_banded

from sfumato.exceptions import InvalidInputError

__all__ = ["MarkovLine", "bridge"]

Array = NDArray[np.float64]


def bridge(left_gap: float, right_gap: float) -> tuple[float, float, float]:
    """Give the weights of the two neighbours and the variance that is left.

    left_gap, right_gap: ``γ (x - x_l)`` and ``γ (x_r - x)``, positive; infinite where there is no
        neighbour.

    Examples
    --------
    >>> import math
    >>> bridge(math.inf, math.inf)
    (0.0, 0.0, 1.0)
    >>> left, right, variance = bridge(0.1, 0.3)
    >>> left > right
    True
    """
    left, right = -math.expm1(-2 * left_gap), -math.expm1(-2 * right_gap)
    both = -math.expm1(-2 * (left_gap + right_gap))
    return (
        math.exp(-left_gap) * right / both,
        math.exp(-right_gap) * left / both,
        left * right / both,
    )


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

    def whiten(self, values: Array) -> Array:
        """Give ``L⁻¹ v`` along the first axis."""
        shape = (-1,) + (1,) * (values.ndim - 1)
        innovations = values.copy()
        innovations[1:] -= self._decay.reshape(shape) * values[:-1]
        return np.asarray(innovations / self._spread.reshape(shape))

    def colour(self, coordinates: Array) -> Array:
        """Give ``L c`` along the first axis."""
        shape = (-1,) + (1,) * (coordinates.ndim - 1)
        diagonals = np.ones((2, len(self._spread)))
        diagonals[1, :-1] = -self._decay
        right = coordinates * self._spread.reshape(shape)
        flat = solve_banded((1, 0), diagonals, right.reshape(len(right), -1))
        return np.asarray(flat.reshape(coordinates.shape))
