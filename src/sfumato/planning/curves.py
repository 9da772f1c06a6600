"""Forecasts from learning curves that were measured on public sets.

`curves.json` holds, for each model and public set, scores at six levels of noise
(benchmarks/bench_curves.py made it). What matters to a noisy sum over n rows is ``n mu``; levels
lie 1 : 3.6 apart, as far as the fit of a pilot (7 % of mu²) and the model that is fitted with the
rest (90 %). So neighbouring points of a curve are a pilot and what became of it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SHARES", "Forecast", "forecast", "has_curves", "scores", "skills"]

FILE = Path(__file__).parent / "curves.json"
SHARES = {"pilot": 0.1, "fit": 0.07, "score": 0.03}  # of mu²
WIDTHS = np.array([0.1, 0.7, 0.7])  # of score, log(n mu), log(columns): how far curves speak
FEWEST_CURVES = 5
LEAST_SPREAD = 0.01  # what two runs differ by anyway
COVERED = 0.9  # of sets that made no curve
PRIOR_WEIGHT = 1.0  # of how all gains differ, beside curves nearby: one pair's at the same place

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Forecast:
    """A score and the interval that holds nine in ten."""

    score: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class _Pairs:
    """Pilots and what became of them: a row per set and level."""

    sets: NDArray[Any]
    places: Array  # score of the pilot, log(n mu), log(columns), in widths
    gains: Array  # score of the model proper, on other rows, minus that of the pilot

    def expected(self, place: Array, among: NDArray[np.bool_]) -> tuple[float, float]:
        """Give the mean gain near a place, and how much gains differ there."""
        gains = self.gains[among]
        distances = ((self.places[among] - place) ** 2).sum(axis=1)
        weights = np.exp(-(distances - distances.min()) / 2)
        mean = float(weights @ gains / weights.sum())
        # Where no curve is near, gains are taken to differ as all of them do.
        near = np.exp(-distances / 2)
        squares = near @ (gains - mean) ** 2 + PRIOR_WEIGHT * gains.var()
        return mean, float(np.sqrt(squares / (near.sum() + PRIOR_WEIGHT))) + LEAST_SPREAD


def forecast(
    task: str, model: str, *, level: float, n_features: int, score: float, deviation: float
) -> Forecast:
    """Say what the rest of a budget gives, after a pilot.

    task ({"label", "number"}): What is foretold.
    model: Name of the model.
    level: ``n mu`` of the pilot's fit.
    n_features: Numbers of an encoded row.
    score: The pilot's score.
    deviation: Standard deviation of its noise.
    Returns: Score of the model proper on other rows.
    """
    pairs = _pairs(task, model)
    place = _place(score, level, n_features)
    gain, spread = pairs.expected(place, np.ones(len(pairs.gains), dtype=bool))
    half = _factor(task, model) * float(np.hypot(spread, deviation))
    centre = float(np.clip(score + gain, 0.0, 1.0))
    return Forecast(centre, (max(0.0, centre - half), min(1.0, centre + half)))


def skills(task: str, model: str, level: float) -> Array:
    """Give the public sets' shares of what can be gained over a constant, at a level of noise.

    task ({"label", "number"}): What is foretold.
    model: Name of the model.
    level: ``n mu``.
    Returns: ``(score - constant) / (1 - constant)``, one number per set.
    """
    constants = np.array([curve["constant"] for curve in _curves(task, model)])
    return np.asarray((scores(task, model, level) - constants) / (1 - constants))


def scores(task: str, model: str, level: float) -> Array:
    """Give the public sets' scores at a level of noise, one number per set.

    task ({"label", "number"}): What is foretold.
    model: Name of the model.
    level: ``n mu``.
    """
    found = []
    for curve in _curves(task, model):
        levels, _, other = np.array(curve["points"]).T
        found.append(np.interp(np.log(level), np.log(levels), other))
    return np.array(found)


def _place(score: float, level: float, n_features: int) -> Array:
    found: Array = np.array([score, np.log(level), np.log(n_features)]) / WIDTHS
    return found


@cache
def _pairs(task: str, model: str) -> _Pairs:
    sets, places, gains = [], [], []
    for curve in _curves(task, model):
        points = curve["points"]
        for (level, own, _), (_, _, other) in pairwise(points):
            sets.append(curve["set"])
            places.append(_place(own, level, curve["columns"]))
            gains.append(other - own)
    return _Pairs(np.array(sets), np.array(places), np.array(gains))


@cache
def _factor(task: str, model: str) -> float:
    """How many spreads hold nine in ten gains of a set that is left out of the curves.

    Pairs of one set are alike, so the sets are counted: of S that are left out in turn, the share
    ``ceil(.9 (S + 1)) / S`` must be held for nine in ten of the next one (split conformal).
    """
    pairs = _pairs(task, model)
    ratios = []
    for place, name, gain in zip(pairs.places, pairs.sets, pairs.gains, strict=True):
        mean, spread = pairs.expected(place, pairs.sets != name)
        ratios.append(abs(gain - mean) / spread)
    n_sets = len(set(pairs.sets.tolist()))
    return float(np.quantile(ratios, min(1.0, math.ceil(COVERED * (n_sets + 1)) / n_sets)))


def has_curves(task: str, model: str) -> bool:
    """Tell whether learning curves of a model were measured, on enough sets to foretell others."""
    return len(_curves(task, model)) >= FEWEST_CURVES


def _curves(task: str, model: str) -> list[dict[str, Any]]:
    return [each for each in _read() if (each["task"], each["model"]) == (task, model)]


@cache
def _read() -> list[dict[str, Any]]:
    curves: list[dict[str, Any]] = json.loads(FILE.read_text())["curves"]
    return curves
