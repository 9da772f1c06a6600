"""Hat functions: a number becomes its weights on the two knots beside it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array as AnyArray
from sfumato.models.additive.columns import PublicColumns
from sfumato.sums.grid import FINE_BITS, truncate_to_grid

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HatRows:
    """``cells -> z``: hats of numbers and indicators of categories, in the unit ball.

    A number between knots k and k' becomes ``(k' - x)/(k' - k)`` and ``(x - k)/(k' - k)`` at their
    places, a category 1 at its place, all divided by the root of the number of columns. So a column
    adds 1 at most to the sum of all, and the row has length 1 at most. A missing cell has no hat:
    since the hats of a column add up to 1 otherwise, that is an indicator of its own.

    columns: What is public of the columns.
    knots (n_numeric, n_knots): Ascending places from 0 to 1, of the columns of numbers.
    """

    columns: PublicColumns
    knots: Array = field(repr=False)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Where the hats of each column stand in a row."""
        sizes = [
            self.knots.shape[1] if each is None else len(each) for each in self.columns.categories
        ]
        ends = np.cumsum([0, *sizes])
        return tuple(slice(int(a), int(b)) for a, b in pairwise(ends))

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return self.columns.width(self.knots.shape[1])

    @property
    def height(self) -> float:
        """Of a hat at its knot."""
        return 1 / math.sqrt(len(self.columns))

    def __call__(self, rows: AnyArray) -> AnyArray:
        """Map cells; each row by itself, and no value raises."""
        return truncate_to_grid(self.raw(rows) * self.height, FINE_BITS)

    def raw(self, rows: AnyArray) -> Array:
        """Return hats of height 1, multiples of ``2**-FINE_BITS``."""
        places = self.columns.places(np.asarray(rows, dtype=np.float64))
        hats = np.zeros((len(places), self.width))
        numeric = iter(self.knots)
        for i, (part, categories) in enumerate(
            zip(self.slices, self.columns.categories, strict=True)
        ):
            known = np.flatnonzero(~np.isnan(places[:, i]))
            column = places[known, i]
            if categories is None:
                self._put(hats, known, part.start, column, next(numeric))
            else:
                hats[known, part.start + column.astype(int)] = 1.0
        return hats

    @staticmethod
    def _put(hats: Array, known: NDArray[np.intp], start: int, column: Array, knots: Array) -> None:
        """Put the two weights of each number."""
        left = np.clip(np.searchsorted(knots, column, side="right") - 1, 0, len(knots) - 2)
        weight = (column - knots[left]) / (knots[left + 1] - knots[left])
        weight = truncate_to_grid(np.clip(weight, 0.0, 1.0), FINE_BITS)
        hats[known, start + left] = 1 - weight
        hats[known, start + left + 1] = weight
