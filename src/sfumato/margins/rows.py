"""Rows on their way to a linear classifier: projected, and exact whatever their place."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.kernels.arrays import Array, namespace_of
from sfumato.sums.grid import FINE_BITS, ROW_BITS, cut
from sfumato.sums.maps import HAIR, exact_projection

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
        Append a constant: ``a = [z; 1] / √2``.
    projection : ndarray of shape (n_features, k), optional
        Public matrix with columns of length 1 at most and no singular value above 1.
    unit_length : bool
        Scale projected rows to length 1.
    """

    n_features: int
    intercept: bool
    projection: NDArray[np.float64] | None = field(default=None, repr=False)
    unit_length: bool = False

    @property
    def width(self) -> int:
        """Numbers of a row a."""
        kept = self.n_features if self.projection is None else int(self.projection.shape[1])
        return kept + bool(self.intercept)

    def __call__(self, rows: Array) -> Array:
        """Map rows of the unit ball."""
        if self.projection is not None:
            rows = self._projected(rows)
        if self.intercept:
            xp = namespace_of(rows)
            ones = xp.ones_like(rows[:, :1])
            rows = xp.concat([rows, ones], axis=1) * ((1 - HAIR) * math.sqrt(0.5))
        return cut(rows, ROW_BITS)

    def _projected(self, rows: Array) -> Array:
        """Project exactly, and scale into the unit ball or to length 1."""
        assert self.projection is not None  # noqa: S101 - for the type checker
        projected = cut(exact_projection(rows, self.projection), FINE_BITS)
        xp = namespace_of(rows)
        squares = xp.sum(projected * projected, axis=1, keepdims=True)  # exact, 52 bits below 2
        shortest = 2.0 ** (-2 * FINE_BITS) if self.unit_length else 1.0
        limit = shortest * xp.ones_like(squares)
        return projected * ((1 - HAIR) / xp.sqrt(xp.where(squares > limit, squares, limit)))
