"""The smoothed grid beside the plain private histogram, in one and two dimensions.

Total variation on 1,000 fine cells (ages: one per year; 120 x 120 in the plane), pure epsilon, one
record replaced.
The histogram has ``2 n^(1/3)`` bins (``2 n^(1/4)`` along each axis of the plane, or half as many
where that is better), negative counts cut off. The rules of the grid were chosen on the laws of
`TUNED` with plain NumPy noise; the others were not looked at. Run as
``python -m benchmarks.bench_densities [line] [plane]``, which keeps the other part; Adult and
diamonds are found through SFUMATO_DATA.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta, gamma, multivariate_normal, norm, t

from benchmarks.recording import RESULTS, timed, write
from sfumato import Bounds, PrivateDensity, TableBounds
from sfumato.mechanisms import LaplaceMechanism

SEED, RUNS = 0, 40
BUDGETS = [(1000, 0.1), (300, 1.0), (1000, 1.0), (10_000, 0.1), (3000, 1.0), (30_000, 1.0)]
FINE = np.linspace(0, 1, 1001)
PLANE = 120
BOX = Bounds(lower=0.0, upper=1.0)
ATOM = 0.3001


@dataclass(frozen=True)
class Line:
    """A law on [0, 1]: how to draw from it, and its distribution function."""

    draw: Callable[[int, np.random.Generator], np.ndarray]
    cdf: Callable[[np.ndarray], np.ndarray]
    edges: Any = field(default_factory=lambda: FINE)  # of the cells on which laws are compared
    step: float | None = None  # public distance of neighbouring values

    def masses(self) -> np.ndarray:
        heights = np.asarray(self.cdf(self.edges), dtype=float)
        heights[0], heights[-1] = 0.0, 1.0
        return np.diff(heights)


def mixture(*parts: tuple[float, Any]) -> Line:
    weights = np.array([weight for weight, _ in parts])

    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        chosen = rng.choice(len(parts), n, p=weights / weights.sum())
        return sum(
            np.where(chosen == j, law.rvs(n, random_state=rng), 0.0)
            for j, (_, law) in enumerate(parts)
        )

    return Line(draw, lambda x: sum(w * law.cdf(x) for w, law in parts) / weights.sum())


def steps(*parts: tuple[float, float, float]) -> Line:
    return mixture(*((w, beta(1, 1, low, high - low)) for w, low, high in parts))


def with_atom(share: float) -> Line:
    def draw(n: int, rng: np.random.Generator) -> np.ndarray:
        return np.where(rng.random(n) < share, ATOM, rng.random(n))

    return Line(draw, lambda x: (1 - share) * x + share * (x >= ATOM))


def of_values(values: np.ndarray, lower: float, upper: float, step: float | None = None) -> Line:
    scaled = np.sort(np.clip((values - lower) / (upper - lower), 0, 1))

    def cdf(x: np.ndarray) -> np.ndarray:
        return np.searchsorted(scaled, x, side="left") / len(scaled)

    if step is None:
        return Line(lambda n, rng: rng.choice(scaled, n), cdf)
    size = step / (upper - lower)
    edges = np.arange(round(1 / size) + 2) * size - size / 2
    return Line(lambda n, rng: rng.choice(scaled, n), cdf, edges, size)


claw = [(0.1, norm(0.5 + 0.12 * (k / 2 - 1), 0.012)) for k in range(5)]
TUNED = {
    "two normals": mixture((0.5, norm(0.3, 0.07)), (0.5, norm(0.7, 0.07))),
    "claw": mixture((0.5, norm(0.5, 0.12)), *claw),
    "sharp and broad": mixture((0.5, norm(0.25, 0.01)), (0.5, norm(0.6, 0.15))),
    "one normal": mixture((1.0, norm(0.5, 0.1))),
    "uniform with an atom": with_atom(0.2),
}
NOT_TUNED = {
    "Student, three degrees": mixture((1.0, t(3, 0.4, 0.06))),
    "five normals": mixture(*((0.2, norm(0.1 + 0.2 * k, 0.025)) for k in range(5))),
    "step": mixture((0.8, beta(1, 1, 0, 0.5)), (0.2, beta(1, 1, 0.5, 0.5))),
    "three steps, a gap": steps((0.5, 0, 0.2), (0.1, 0.2, 0.7), (0.4, 0.7, 1)),
    "three steps, a block": steps((0.2, 0, 0.4), (0.6, 0.4, 0.6), (0.2, 0.6, 1)),
    "three steps, upwards": steps((0.1, 0, 0.33), (0.3, 0.33, 0.66), (0.6, 0.66, 1)),
    "exponential": mixture((1.0, gamma(1, 0, 0.12))),
    "three of unlike width": mixture(
        (0.2, norm(0.15, 0.02)), (0.5, norm(0.45, 0.1)), (0.3, norm(0.85, 0.03))
    ),
}


def real_lines() -> Iterator[tuple[str, Line]]:
    folder = Path(os.environ.get("SFUMATO_DATA", "")) / "tabular"
    if not folder.is_dir():
        return
    with gzip.open(folder / "adult.data.gz", "rt") as file:
        ages = pd.read_csv(file, header=None, usecols=[0]).to_numpy(dtype=float).ravel()
    yield "ages of Adult", of_values(ages, 17, 90, 1.0)
    prices = pd.read_csv(folder / "diamonds.csv.gz")["price"].to_numpy(dtype=float)
    yield "prices of diamonds", of_values(prices, 0, 20_000)


def histogram(rows: np.ndarray, bins: int, epsilon: float) -> np.ndarray:
    counts = np.histogramdd(rows, [bins] * rows.shape[1], [(0, 1)] * rows.shape[1])[0]
    mechanism = LaplaceMechanism(sensitivity=2.0, epsilon=epsilon, touched=2)
    cut = np.maximum(mechanism.release(counts, ledger=None), 0)
    return cut / cut.sum() if cut.sum() else np.full(cut.shape, 1 / cut.size)


def fine_steps(masses: np.ndarray, fine: np.ndarray) -> np.ndarray:
    edges = np.linspace(0, 1, len(masses) + 1)
    return np.diff(np.interp(fine, edges, np.concatenate([[0], np.cumsum(masses)])))


def on_a_line() -> Iterator[dict[str, Any]]:
    laws = [("tuned", *each) for each in TUNED.items()]
    laws += [("not tuned", *each) for each in NOT_TUNED.items()]
    laws += [("real", *each) for each in real_lines()]
    for kind, name, law in laws:
        truth = law.masses()
        for n, epsilon in BUDGETS:
            found: list[list[float]] = []
            for run in range(RUNS):
                rows = law.draw(n, np.random.default_rng(run))
                model = PrivateDensity(epsilon=epsilon, delta=1e-6, bounds=BOX)
                given, scale = rows[:, None], 1
                if law.step is not None:  # a column of whole numbers
                    scale = round(1 / law.step)
                    whole = {"x": {"type": "int64", "lower": 0, "upper": scale}}
                    model.bounds = TableBounds.from_dict(whole)
                    given = pd.DataFrame({"x": np.rint(rows * scale).astype(int)})
                _, seconds = timed(lambda m=model, r=given: m.fit(r))
                ours = np.diff(model.cdf(law.edges * scale))
                bins = max(2, int(2 * n ** (1 / 3)))
                theirs = fine_steps(histogram(rows[:, None], bins, epsilon), law.edges)
                found.append(
                    [
                        float(np.abs(ours - truth).sum() / 2),
                        float(np.abs(theirs - truth).sum() / 2),
                        seconds["cpu_s"],
                    ]
                )
            yield row(kind, name, n, epsilon, np.array(found))


def row(kind: str, name: str, n: int, epsilon: float, found: np.ndarray) -> dict[str, Any]:
    mean, std = found.mean(axis=0), found.std(axis=0)
    answer = {
        "law": name,
        "kind": kind,
        "rows": n,
        "epsilon": epsilon,
        "grid": round(mean[0], 4),
        "grid_std": round(std[0], 4),
        "histogram": round(mean[1], 4),
        "histogram_std": round(std[1], 4),
        "ratio": round(mean[0] / mean[1], 3),
        "cpu_s": round(float(np.median(found[:, -1])), 4),
    }
    print(answer, flush=True)
    return answer


I2 = np.eye(2)
PLANES: dict[str, list[tuple[float, Any]]] = {
    "one normal": [(1.0, multivariate_normal([0.5, 0.5], 0.02 * I2))],
    "two normals": [
        (0.5, multivariate_normal([0.3, 0.3], 0.006 * I2)),
        (0.5, multivariate_normal([0.7, 0.6], 0.006 * I2)),
    ],
    "ridge": [(1.0, multivariate_normal([0.5, 0.5], [[0.03, 0.027], [0.027, 0.03]]))],
    "sharp and broad": [
        (0.3, multivariate_normal([0.2, 0.8], 0.0004 * I2)),
        (0.7, multivariate_normal([0.6, 0.4], 0.02 * I2)),
    ],
}


def in_the_plane() -> Iterator[dict[str, Any]]:
    axis = (np.arange(PLANE) + 0.5) / PLANE
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    for name, parts in PLANES.items():
        truth = sum(w * law.pdf(points) for w, law in parts)
        truth = truth / truth.sum()
        for n, epsilon in BUDGETS:
            found = []
            for run in range(RUNS // 2):
                rng = np.random.default_rng(run)
                chosen = rng.choice(len(parts), n, p=[w for w, _ in parts])
                rows = np.empty((n, 2))
                for j, (_, law) in enumerate(parts):
                    rows[chosen == j] = law.rvs(n, random_state=rng)[chosen == j]
                model = PrivateDensity(epsilon=epsilon, delta=1e-6, bounds=BOX)
                _, seconds = timed(lambda m=model, r=rows: m.fit(r))
                ours = model.density(points) / PLANE**2
                errors = []
                for factor in (1, 2):
                    bins = max(2, round(factor * n**0.25))
                    masses = histogram(rows, bins, epsilon)
                    place = np.minimum((points * bins).astype(int), bins - 1)
                    steps = masses[tuple(place.T)]
                    errors.append(float(np.abs(steps / steps.sum() - truth).sum() / 2))
                found.append([np.abs(ours - truth).sum() / 2, *errors, seconds["cpu_s"]])
            array = np.array(found)
            best = 1 + int(np.argmin(array[:, 1:3].mean(axis=0)))
            yield row("plane", name, n, epsilon, array[:, [0, best, 3]])


def main() -> None:
    parts = {"line": on_a_line, "plane": in_the_plane}
    asked = sys.argv[1:] or list(parts)
    path, numbers = RESULTS / "densities.json", []
    if len(asked) < len(parts) and path.exists():
        numbers = json.loads(path.read_text())["numbers"]["rows"]
    numbers = [
        each for each in numbers if ("plane" if each["kind"] == "plane" else "line") not in asked
    ]
    for part in asked:
        numbers += parts[part]()
    write(
        "densities",
        {"worst_ratio": max(each["ratio"] for each in numbers), "rows": numbers},
        seed=SEED,
        runs=RUNS,
    )


if __name__ == "__main__":
    main()
