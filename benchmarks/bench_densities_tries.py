"""What was tried for the smoothed grid, all of it by this script: one rule differs each time.

Ratios are total variations by those of the private histogram, bands those of 95 %, on the laws and
budgets of `bench_densities`. Rules are judged by the laws of `TUNED`; the figures of the others are
for the reader. Run as ``python -m benchmarks.bench_densities_tries [NUMBER ...]``;
``keep FILE ...`` takes over what other machines have measured.
"""

from __future__ import annotations

from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks import bench_densities as densities
from benchmarks.recording import keep_tries
from sfumato.functions import grid_density

NAME, RUNS, BAND_RUNS = "densities_tries", 40, 120


@dataclass(frozen=True)
class Try:
    """One rule: constants, filters along the axes alone, or bands as narrow as one filter's."""

    part: str  # "line" or "plane"
    tried: str
    constants: dict[str, Any] = field(default_factory=dict)
    along_axes: bool = False
    stepped: bool = False  # masses not joined linearly


TRIES = (
    Try("plane", "as taken"),
    Try("plane", "filters along the axes alone (before)", along_axes=True),
    Try("plane", "a quarter of a deviation of caution", {"CAUTION": 0.25}),
    Try("plane", "no caution", {"CAUTION": 0.0}),
    Try("plane", "1.4 for 1.6 cells along an axis", {"CELLS_IN_THE_PLANE": (1.4, 0.3)}),
    Try("plane", "1.8 for 1.6 cells along an axis", {"CELLS_IN_THE_PLANE": (1.8, 0.3)}),
    Try("plane", "steps, as a histogram has them", stepped=True),
    Try("line", "as taken"),
    Try("line", "bands of the filter that was chosen, as if it were given", {"CHOSEN": 0.0}),
    Try("line", "bands wider by half a choice", {"CHOSEN": 0.5}),
    Try("line", "no caution", {"CAUTION": 0.0}),
    Try("line", "one deviation of caution", {"CAUTION": 1.0}),
    Try("line", "2.6 for 3 cells", {"CELLS_ON_A_LINE": (2.6, 0.4)}),
    Try("line", "3.4 for 3 cells", {"CELLS_ON_A_LINE": (3.4, 0.4)}),
    Try("line", "cells apart from five deviations on", {"STANDS_OUT": 5.0}),
    Try("line", "blocks at half the price", {"PRICE_OF_A_BLOCK": 1.0}),
    Try("line", "blocks at one and a half times the price", {"PRICE_OF_A_BLOCK": 3.0}),
)


def set_up(each: Try) -> ExitStack:
    """Put the rule of a try in place until the stack is closed."""
    stack = ExitStack()
    for name, value in each.constants.items():
        stack.enter_context(patch.object(grid_density, name, value))
    if each.along_axes:
        stack.enter_context(patch.object(grid_density, "_diagonals", lambda *_: []))
    if each.stepped:
        stack.enter_context(patch.object(grid_density.GridDensity, "joint", _steps))
    stack.enter_context(patch.object(densities, "RUNS", RUNS * (2 if each.part == "plane" else 1)))
    stack.enter_context(patch.object(densities, "BAND_RUNS", BAND_RUNS))
    return stack


def _steps(self: grid_density.GridDensity, rows: np.ndarray) -> np.ndarray:
    return self._at(rows, self.masses / self.volume)


def measured(each: Try) -> dict[str, Any]:
    with set_up(each), redirect_stdout(StringIO()):
        made = densities.on_a_line() if each.part == "line" else densities.in_the_plane()
        rows = list(made)
    tuned = [row["ratio"] for row in rows if row["kind"] in ("tuned", "plane")]
    answer = {
        "part": each.part,
        "tried": each.tried,
        "mean_ratio_of_tuned_laws": round(float(np.mean(tuned)), 4),
        "mean_ratio": round(float(np.mean([row["ratio"] for row in rows])), 4),
        "above_the_histogram": [
            [row["law"], row["rows"], row["epsilon"], float(row["ratio"])]
            for row in rows
            if row["ratio"] > 1
        ],
    }
    covers = [float(row["band_cover"]) for row in rows if "band_cover" in row]
    if covers:
        answer["band_cover_from_to"] = [min(covers), max(covers)]
        answer["mean_band_cover"] = round(float(np.mean(covers)), 4)
    print(answer, flush=True)
    return answer


if __name__ == "__main__":
    keep_tries(NAME, TRIES, measured, ("part", "tried"), seed=densities.SEED, runs=RUNS)
