"""The public grid on which released numbers lie."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import InvalidInputError

__all__ = ["add_on_grid", "as_statistic", "grid_step", "to_grid"]

CELLS = 27  # a noise scale spans 2**27 to 2**28 cells


def grid_step(scale: float, *, cells: int = CELLS) -> float:
    """Give the power of two of which `scale` holds at least ``2**cells``."""
    if not 2.0**-900 < scale < 2.0**900:
        raise InvalidInputError(
            f"The noise scale {scale:g} is out of the range that can be drawn; rescale the data."
        )
    return math.ldexp(1.0, math.frexp(scale)[1] - 1 - cells)


def as_statistic(value: ArrayLike) -> NDArray[np.float64]:
    """Give the statistic as a new array of doubles."""
    statistic = np.array(value, dtype=np.float64)
    if not np.isfinite(statistic).all():
        raise InvalidInputError("A statistic to release must be finite; clip the rows first.")
    return statistic


def to_grid(statistic: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Round each number to the nearest multiple of `step`, exactly; each moves by step/2 at most.

    Numbers of 2**53 steps and more are multiples of the power of two `step` already.
    """
    small = np.abs(statistic) < 2.0**53 * step
    return np.where(small, np.rint(np.where(small, statistic, 0.0) / step) * step, statistic)


def add_on_grid(
    statistic: NDArray[np.float64], noise: NDArray[np.float64], step: float
) -> NDArray[np.float64]:
    """Add `noise` cells to a statistic on the grid.

    Both summands are exact doubles and IEEE addition rounds their exact sum, so the result is a
    function of that sum alone: post-processing.
    """
    return statistic + noise * step
