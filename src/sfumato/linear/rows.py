"""Rows on their way to a linear classifier: projected, and exact whatever their place."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.arrays import Array, namespace_of
from sfumato.sums.grid import FINE_BITS, ROW_BITS, cut
from sfumato.sums.maps import ROUNDING_MARGIN, exact_projection

__all__ = ["MOST_MINIMISED", "LinearRows"]

# Where the number of rows is secret, minimisers are offered for so many: the bound on rounding that
# is paid for grows with this number, and at 2**22 it costs about 1 % more noise.
MOST_MINIMISED = 2**22


@dataclass(frozen=True, eq=False)
class LinearRows:
    """``z -> a``: rows of the unit ball projected, scaled to length 1, a constant appended.

    Every step looks at one row at a time and every result is a multiple of a public power of two,
    so that a row gives the same numbers alone, among others, and on any machine.

    Parameters
    ----------
    n_features : int
        Numbers of a row z.
    intercept : bool
        Append a constant: ``a = [z; c] / √(1 + c²)``.
    projection : ndarray of shape (n_features, k), optional
        Public matrix with columns of length 1 at most and no singular value above 1.
    unit_length : bool
        Scale projected rows to length 1.
    constant : float
        c, the weight of the constant.
    radius : float, optional
        Divide projected rows by this length instead, and scale back those that are longer.
    """

    n_features: int
    intercept: bool
    projection: NDArray[np.float64] | None = field(default=None, repr=False)
    unit_length: bool = False
    constant: float = 1.0
    radius: float | None = None

    @property
    def width(self) -> int:
        """Numbers of a row a."""
        kept = self.n_features if self.projection is None else int(self.projection.shape[1])
        return kept + bool(self.intercept)

    @property
    def height(self) -> float:
        """Of the constant in a row a."""
        return self.constant / math.sqrt(1 + self.constant**2)

    @property
    def weights_before(self) -> NDArray[np.float64]:
        """``B`` with ``w.a = (B w).z`` and the constant, where z is not scaled back."""
        assert self.projection is not None  # noqa: S101 - for the type checker
        assert self.radius is not None  # noqa: S101 - for the type checker
        return self.projection / (self.radius * math.sqrt(1 + self.constant**2))

    def __call__(self, rows: Array) -> Array:
        """Map rows of the unit ball."""
        if self.projection is not None:
            rows = self._projected(rows)
        if self.intercept:
            xp = namespace_of(rows)
            ones = self.constant * xp.ones_like(rows[:, :1])
            length = math.sqrt(1 + self.constant**2)
            rows = xp.concat([rows, ones], axis=1) * ((1 - ROUNDING_MARGIN) / length)
        return cut(rows, ROW_BITS)

    def _projected(self, rows: Array) -> Array:
        """Project exactly, and scale into the unit ball or to length 1."""
        assert self.projection is not None  # noqa: S101 - for the type checker
        projected = cut(exact_projection(rows, self.projection), FINE_BITS)
        xp = namespace_of(rows)
        squares = xp.sum(projected * projected, axis=1, keepdims=True)  # exact, 52 bits below 2
        shortest = 2.0 ** (-2 * FINE_BITS) if self.unit_length else 1.0
        if self.radius is not None:
            shortest = max(self.radius**2, 2.0 ** (-2 * FINE_BITS))
        limit = shortest * xp.ones_like(squares)
        return projected * (
            (1 - ROUNDING_MARGIN) / xp.sqrt(xp.where(squares > limit, squares, limit))
        )
