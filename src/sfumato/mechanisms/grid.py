"""The public grid on which released numbers lie."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sfumato.exceptions import InvalidInputError

__all__ = ["add_on_grid", "as_statistic", "enlarged", "grid_step", "require_range", "to_grid"]

FEWEST_CELLS = 2.0**27  # a noise scale spans at least so many cells ...
MOST_CELLS = 2.0**40  # ... and no more than so many, or draws get slow
LARGEST_ENLARGEMENT = 2.0**-7  # the share of the sensitivity that rounding should cost at most
ROUNDED_UP = 1 + 2.0**-50  # more than the arithmetic of a scale takes away


def grid_step(scale: float, *, sensitivity: float, spread: float) -> float:
    """Choose the step of the grid, a power of two, from public numbers alone.

    scale: Scale of the noise.
    sensitivity: Sensitivity of the statistic.
    spread: Steps by which the rounding of a statistic can move two neighbours apart, in the norm of
        the sensitivity.
    """
    require_range(scale)
    wanted = min(scale / FEWEST_CELLS, LARGEST_ENLARGEMENT * sensitivity / max(spread, 1.0))
    return 2.0 ** math.floor(math.log2(max(wanted, scale / MOST_CELLS)))


def require_range(scale: float) -> None:
    """Refuse a noise scale whose grid doubles cannot hold."""
    if not 2.0**-900 < scale < 2.0**900:
        raise InvalidInputError(
            f"The noise scale {scale:g} is out of the range that can be drawn; rescale the data."
        )


def enlarged(sensitivity: float, *, step: float, spread: float) -> float:
    """Give the sensitivity of a statistic that was rounded to the grid, rounded up."""
    return (sensitivity + step * spread) * ROUNDED_UP


def as_statistic(value: ArrayLike) -> NDArray[np.float64]:
    """Give the statistic as a new array of doubles, in one order of memory: what is released is so.

    The order of a table of rows can be changed by the type that one odd cell gives it.
    """
    statistic = np.array(value, dtype=np.float64, order="C")
    if not np.isfinite(statistic).all():
        raise InvalidInputError("A statistic to release must be finite; clip the rows first.")
    return statistic


def to_grid(statistic: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    """Round each number to the nearest multiple of `step`, exactly; each moves by step/2 at most.

    Numbers of 2**53 steps and more are multiples of the power of two `step` already.
    """
    limit = 2.0**53 * step
    if -limit < statistic.min(initial=0.0) and statistic.max(initial=0.0) < limit:
        return np.asarray(np.rint(statistic / step) * step)
    small = np.abs(statistic) < limit
    return np.where(small, np.rint(np.where(small, statistic, 0.0) / step) * step, statistic)


def add_on_grid(
    statistic: NDArray[np.float64], noise: NDArray[np.float64], step: float
) -> NDArray[np.float64]:
    """Add `noise` cells to a statistic on the grid.

    Both summands are exact doubles and IEEE addition rounds their exact sum, so the result is a
    function of that sum alone: post-processing. Adding zero last gives an exact sum of zero one
    sign; otherwise -0.0 would tell that both summands were negative zeros.
    """
    total = noise * step
    total += statistic
    total += 0.0
    return total
