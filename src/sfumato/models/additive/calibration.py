"""The last look of a regressor: scores beside targets, in one small release."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.core.arrays import Array as AnyArray
from sfumato.ledger.receipt import Receipt
from sfumato.models.additive.fit import AdditiveScores
from sfumato.models.additive.knots import release_knots
from sfumato.models.additive.plan import SCORE_LEVELS, AdditivePlan
from sfumato.sums.grid import FINE_BITS, truncate_to_grid
from sfumato.sums.maps import ROUNDING_MARGIN
from sfumato.sums.records import Records
from sfumato.sums.statistics import SecondMoment

Array = NDArray[np.float64]

STEEPEST = 2.0  # slopes over what a robust fit of a target without skew would have
CAUTION = 2.0  # times the variance of the noise, taken from squares of slopes
REACH = 3.0  # half distances of the outer octiles within which scores are not clipped
MIN_HALF = 2.0**-8
# Targets farther from the released median than this are clipped where the noise of their mean,
# which grows with the range, would be more than a share of their spread.
MIN_SPREADS, LEVEL_NOISE = 8.0, 0.05
MIN_SPREAD = 1e-6
FARTHEST_SCORE = 16.0  # spreads of the target


@dataclass(frozen=True)
class Calibration:
    """``place = intercept + slope * score`` of the target, and how far it is off.

    intercept, slope: From scores to places in the public range of the target.
    spread: Standard deviation of the residuals, as a share of the range.
    least, most: Places at the ends of the reach in which scores were looked at.
    doubt: Relative deviation of the slope by the noise of its release.
    """

    intercept: float
    slope: float
    spread: float
    least: float
    most: float
    doubt: float


def release_calibration(
    records: Records, scores: AdditiveScores, plan: AdditivePlan, receipt: Receipt
) -> Calibration:
    """Release second moments of scores and targets, and return the line through them.

    Robust scores follow the middle of a skewed target; the line brings back its mean. Its slope is
    shrunk by what noise alone would make of it, so that it is 0 where nothing was found.
    """
    assert plan.scores is not None  # noqa: S101 - for the type checker
    assert plan.calibration is not None  # noqa: S101 - for the type checker
    places = records.mapped(ScorePlaces(scores))
    octiles = release_knots(  # [A6] spread of the scores
        places, (0,), plan.scores, SCORE_LEVELS, receipt
    )[0]
    middle, half = _middle_and_half(octiles)
    noise = 3 * math.sqrt(records.variance_of(plan.calibration))
    low, high = _looked_at(scores, noise / max(float(scores.counts.sum()), 1.0))
    pairs = records.mapped(ScoreAndTarget(scores, middle, REACH * half, low, high))
    moments = pairs.release(SecondMoment(3), plan.calibration, receipt)  # [A7] with targets
    centre, unit = (low + high) / 2, (high - low) / 2
    steepest = STEEPEST * REACH * half * scores.scale / unit
    level, slope, spread, doubt = _line(3 * moments, noise, steepest)
    per_score = slope / (REACH * half)
    return Calibration(
        centre + unit * (level - per_score * middle),
        unit * per_score,
        unit * spread,
        max(centre + unit * (level - slope), 0.0),
        min(centre + unit * (level + slope), 1.0),
        doubt,
    )


def _looked_at(scores: AdditiveScores, noise: float) -> tuple[float, float]:
    """Return the range of the target, as places, in which its mean is searched for."""
    reach = max(MIN_SPREADS, LEVEL_NOISE / noise if noise else math.inf) * scores.scale
    return max(scores.centre - reach, 0.0), min(scores.centre + reach, 1.0)


def _middle_and_half(octiles: Array) -> tuple[float, float]:
    """Median of the scores, and half the distance of their outer octiles."""
    values = (octiles - 0.5) * 2 * FARTHEST_SCORE
    half = max(float(values[-2] - values[1]) / 2, MIN_HALF)
    return float(values[len(values) // 2]), half


def _line(moments: Array, noise: float, steepest: float) -> tuple[float, float, float, float]:
    """Level and slope of the target over g, the deviation of what is left, doubt of the slope."""
    n_rows = max(float(moments[0, 0]), 1.0)
    noise = noise / n_rows
    score, target = (float(np.clip(x / n_rows, -1.0, 1.0)) for x in moments[0, 1:])
    own = min(max(float(moments[1, 1]) / n_rows - score**2, 2 * noise, MIN_SPREAD), 1.0)
    joint = float(moments[1, 2]) / n_rows - score * target
    # Positive part: what is left once the noise of it, of variance noise²/2, is taken away.
    shrunk = max(0.0, 1 - CAUTION * noise**2 / max(joint**2, 1e-300))
    slope = min(max(joint / own * shrunk, 0.0), steepest)
    left = float(moments[2, 2]) / n_rows - target**2 - slope * (2 * joint - slope * own)
    spread = math.sqrt(max(left, noise / 2, MIN_SPREAD**2))
    doubt = noise * (math.sqrt(0.5) / max(abs(joint), noise) + 1 / own) if noise else 0.0
    return target - slope * score, slope, spread, min(doubt, 1.0)


@dataclass(frozen=True, eq=False)
class ScorePlaces:
    """``cells and t -> place of the score``, 1/2 where it is 0 and from 0 to 1 within ±16.

    scores: What was released so far.
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

    scores: What was released so far.
    middle, reach: ``g = (score - middle) / reach``.
    low, high: Places of the target that become -1 and 1; those outside are clipped.
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
        return truncate_to_grid(together * ((1 - ROUNDING_MARGIN) / math.sqrt(3)), FINE_BITS)
