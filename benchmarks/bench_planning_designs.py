"""Designs of a pilot's forecast, from the same pilots: how far off, and what their intervals hold.

A design turns a pilot (its score, n mu, columns) into a forecast. Each is judged on the sets that
made the curves, left out in turn, and on the pilots of `bench_planning`, whose sets made none.
Nothing is fitted anew: pilots and what became of them are read from results/planning.json. The
design in use is "gains of neighbours"; it was chosen on the curves, and so were its intervals.
``SFUMATO_DATA=... python -m benchmarks.bench_planning_designs``. JSON: planning_designs.json.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import bench_planning
from benchmarks.recording import KEPT, write
from sfumato import Bounds, TableEncoder
from sfumato.accounting.gaussian import mu_from_budget
from sfumato.planning import curves

Places = np.ndarray  # a row per pilot: score, log(n mu), log(columns), in widths
Design = Callable[[Places, np.ndarray, np.ndarray], float]  # known, gains, place: gain


def neighbours(places: Places, gains: np.ndarray, place: np.ndarray) -> float:
    """Mean gain of pilots nearby."""
    distances = ((places - place) ** 2).sum(axis=1)
    weights = np.exp(-(distances - distances.min()) / 2)
    return float(weights @ gains / weights.sum())


def nearest(places: Places, gains: np.ndarray, place: np.ndarray) -> float:
    """Gain of the nearest pilot."""
    return float(gains[np.argmin(((places - place) ** 2).sum(axis=1))])


def shares(places: Places, gains: np.ndarray, place: np.ndarray) -> float:
    """Share of what is left to gain, of pilots nearby."""
    left = 1 - places[:, 0] * curves.WIDTHS[0]
    share = neighbours(places, gains / np.maximum(left, 0.02), place)
    return share * float(1 - place[0] * curves.WIDTHS[0])


def squares(places: Places, gains: np.ndarray, place: np.ndarray) -> float:
    """A quadratic surface through all gains, with a little shrinkage."""

    def terms(rows: np.ndarray) -> np.ndarray:
        scaled = rows * curves.WIDTHS / np.array([1.0, 8.0, 6.0])
        a, b, c = scaled.T
        return np.column_stack([np.ones(len(a)), a, b, c, a * a, b * b, c * c, a * b, a * c, b * c])

    known = terms(places)
    gram = known.T @ known + 1e-3 * np.eye(known.shape[1])
    return float((terms(place[None]) @ np.linalg.solve(gram, known.T @ gains))[0])


DESIGNS: dict[str, Design] = {
    "gains of neighbours": neighbours,
    "gain of the nearest": nearest,
    "shares of what is left": shares,
    "quadratic surface": squares,
}


def on_the_curves(design: Design) -> np.ndarray:
    """Errors on sets that are left out of the curves in turn, of linear and Gaussian models."""
    found = []
    for model in ("linear", "gaussian"):
        pairs = curves._pairs("label", model)
        for place, name, gain in zip(pairs.places, pairs.sets, pairs.gains, strict=True):
            others = pairs.sets != name
            found.append(abs(design(pairs.places[others], pairs.gains[others], place) - gain))
    return np.array(found)


def pilots() -> list[dict[str, Any]]:
    """The pilots of the six sets, with their columns."""
    rows = json.loads((KEPT / "planning.json").read_text())["numbers"]
    widths = {}
    for name, load in bench_planning.SIX.items():
        X, _, _, _, bounds = load()
        widths[name] = X.shape[1] if isinstance(bounds, Bounds) else TableEncoder(bounds).width
    return [{**row, "columns": widths[row["set"]]} for row in rows if row["group"] == "six sets"]


def on_other_sets(design: Design, rows: list[dict[str, Any]]) -> np.ndarray:
    """Errors on the six sets."""
    found = []
    for row in rows:
        pairs = curves._pairs("label", row["model"])
        gain = design(pairs.places, pairs.gains, _place(row))
        found.append(abs(np.clip(row["pilot_score"] + gain, 0, 1) - row["measured"]))
    return np.array(found)


def _place(row: dict[str, Any]) -> np.ndarray:
    return curves._place(row["pilot_score"], _level(row), row["columns"])


def _level(row: dict[str, Any]) -> float:
    mu = mu_from_budget(row["epsilon"], bench_planning.DELTA)
    return float(row["rows"] * mu * math.sqrt(curves.SHARES["fit"]))


def held(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """How many intervals of the design in use hold what was measured, and their half width."""
    inside, widths = [], []
    for row in rows:
        mu = mu_from_budget(row["epsilon"], bench_planning.DELTA)
        deviation = 1 / (mu * math.sqrt(curves.SHARES["score"])) / row["rows"]
        about = {"level": _level(row), "n_features": row["columns"], "deviation": deviation}
        low, high = curves.forecast(
            "label", row["model"], score=row["pilot_score"], **about
        ).interval
        inside.append(low <= row["measured"] <= high)
        widths.append((high - low) / 2)
    return {
        "intervals_held": int(np.sum(inside)),
        "of": len(inside),
        "half_width_median": round(float(np.median(widths)), 4),
    }


def main() -> None:
    rows, numbers = pilots(), []
    for name, design in DESIGNS.items():
        left_out, others = on_the_curves(design), on_other_sets(design, rows)
        numbers.append(
            {
                "design": name,
                "left_out_median_error": round(float(np.median(left_out)), 4),
                "left_out_within_0.02": round(float(np.mean(left_out <= 0.02)), 3),
                "six_sets_median_error": round(float(np.median(others)), 4),
                "six_sets_within_0.02": f"{int(np.sum(others <= 0.02))} of {len(others)}",
            }
        )
        print(numbers[-1], flush=True)
    write("planning_designs", numbers, seed=None, asked_within=0.02, in_use=held(rows))


if __name__ == "__main__":
    main()
