"""Rows of scores beside targets, for the last look at a regression."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.additive.fit import AdditiveScores
from sfumato.kernels.arrays import Array as AnyArray
from sfumato.sums.grid import FINE_BITS, cut
from sfumato.sums.maps import ROUNDING_MARGIN

__all__ = ["FARTHEST_SCORE", "ScoreAndTarget", "ScorePlaces"]

FARTHEST_SCORE = 16.0  # spreads of the target

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScorePlaces:
    """``cells and t -> place of the score``, 1/2 where it is 0 and from 0 to 1 within ±16.

    Parameters
    ----------
    scores : AdditiveScores
        What was released so far.
    """

    scores: AdditiveScores

    @property
    def width(self) -> int:
        """One number."""
        return 1

    def __call__(self, rows: AnyArray) -> AnyArray:
        """Map cells with a target beside them."""
        return np.clip(self.scores(rows[:, :-1]) / (2 * FARTHEST_SCORE) + 0.5, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class ScoreAndTarget:
    """``cells and t -> [1, g, s] / √3``, g the standardised score and s the target, within ±1.

    A row has length 1 at most, and 0 where the target is missing.

    Parameters
    ----------
    scores : AdditiveScores
        What was released so far.
    middle, reach : float
        ``g = (score - middle) / reach``.
    low, high : float
        Places of the target that become -1 and 1; those outside are clipped.
    """

    scores: AdditiveScores
    middle: float
    reach: float
    low: float = 0.0
    high: float = 1.0

    @property
    def width(self) -> int:
        """Three numbers."""
        return 3

    def __call__(self, rows: AnyArray) -> AnyArray:
        """Map cells with the place t of the target, from 0 to 1, beside them."""
        score = np.clip((self.scores(rows[:, :-1])[:, 0] - self.middle) / self.reach, -1.0, 1.0)
        target = 2 * (rows[:, -1] - self.low) / (self.high - self.low) - 1
        target = np.clip(target, -1.0, 1.0)
        together = np.column_stack([np.ones(len(rows)), score, target])
        together[np.isnan(target)] = 0.0
        return cut(together * ((1 - ROUNDING_MARGIN) / math.sqrt(3)), FINE_BITS)
