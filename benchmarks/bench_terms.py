"""What it costs to leave out terms that are too long, as a share of the sums of whole fits.

python -m benchmarks.bench_terms

Rows that were clipped into the ball by the last map are not looked at again, cached rows once for
all passes; others are. `fits` has the CPU seconds of all sums of a fit, maps of rows included, and
how many of them went into looking. `given` has sums over rows that no map has touched, which no fit
of the library adds up, and other ways of looking: a product with ones, and one pass of BLAS over
all numbers, which tells nothing of a row and is as quick as a pass can be.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.recording import write
from sfumato import (
    Bounds,
    Fabricator,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateMeanCurve,
    TableBounds,
)
from sfumato.sums import ArrayRecords, Records, SecondMoment, grid, records as module
from sfumato.sums.gradients import GradientSum, SoftmaxLoss
from sfumato.sums.grid import are_inside, truncate_to_grid

N_ROWS, WIDTH, REPEATS = 10**5, 20, 3
BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6}


def clocked(seconds: list[float], name: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that adds what it takes to the last of `seconds`."""

    def timed(*given: Any, **options: Any) -> Any:
        start = time.process_time()
        try:
            return name(*given, **options)
        finally:
            seconds[-1] += time.process_time() - start

    return timed


def of_a_fit(fit: Callable[[], Any]) -> dict[str, float]:
    """Return CPU seconds of all sums of a fit, and of looking at rows there: the least shares."""
    sums: list[float] = []
    looks: list[float] = []
    with (
        patch.object(Records, "_sum", clocked(sums, Records._sum)),
        patch.object(module, "are_inside", clocked(looks, are_inside)),
        patch.object(grid, "are_inside", clocked(looks, are_inside)),
    ):
        for _ in range(REPEATS):
            sums.append(0.0)
            looks.append(0.0)
            fit()
    share = float(np.median(np.array(looks) / np.array(sums)))
    return {
        "sums_s": round(min(sums), 4),
        "looks_s": round(min(looks), 5),
        "share": round(share, 5),
    }


def fits() -> dict[str, Callable[[], Any]]:
    """Return fits on invented rows, whose content does not matter."""
    generator = np.random.default_rng(0)
    rows, target = generator.uniform(size=(N_ROWS, WIDTH)), generator.uniform(size=N_ROWS)
    labels = np.where(target > 0.5, "b", "a")
    box = Bounds(lower=0.0, upper=1.0)
    classes = Bounds(lower=0.0, upper=1.0, labels=["a", "b"])
    table = pa.table({f"c{i}": rows[:, i] for i in range(WIDTH)})
    public = TableBounds.from_dict(dict.fromkeys(table.column_names, (0, 1)))
    curve = PrivateMeanCurve(**BUDGET, bounds=box)
    target_box = {**BUDGET, "bounds": box, "target_bounds": (0.0, 1.0)}
    return {
        "additive classifier": lambda: PrivateAdditiveClassifier(**BUDGET, bounds=classes).fit(
            rows, labels
        ),
        "additive regressor": lambda: PrivateAdditiveRegressor(**target_box).fit(rows, target),
        "linear classifier": lambda: PrivateLinearClassifier(**BUDGET, bounds=classes).fit(
            rows, labels
        ),
        "linear regressor": lambda: PrivateLinearRegressor(**target_box).fit(rows, target),
        "mean curve": lambda: curve.fit(rows),
        "fabricated rows": lambda: Fabricator(**BUDGET, bounds=public).fit(table),
    }


def given() -> dict[str, float]:
    """Return CPU seconds of sums over rows as they are, and of ways of looking at them."""
    generator, width = np.random.default_rng(0), WIDTH
    rows = generator.normal(size=(N_ROWS, width))
    rows /= 1.01 * np.linalg.norm(rows, axis=1, keepdims=True)
    records = ArrayRecords(rows, generator.integers(0, 2, N_ROWS), relation="replace_one")
    blocks = [block for block, _, _ in records._blocks()]
    kept, ones = np.empty_like(blocks[0]), np.ones(width)
    gradient = GradientSum(SoftmaxLoss(2), 1.0, np.zeros((1, width)))

    def each(look: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: [look(block) for block in blocks]

    ways = {
        "second moment": lambda: records._sum(SecondMoment(width)),
        "gradient": lambda: records._sum(gradient),
        "looking, by einsum": each(lambda b: are_inside(b, width).all()),
        "looking, on a coarser copy": each(lambda b: are_inside(truncate_to_grid(b, 18), width)),
        "looking, products with ones": each(
            lambda b: np.multiply(b, b, out=kept[: len(b)]) @ ones <= 1
        ),
        "one pass of BLAS": each(lambda b: np.dot(b.ravel(), b.ravel())),
    }
    seconds = dict.fromkeys(ways, np.inf)
    for _ in range(4 * REPEATS):
        for name, way in ways.items():
            start = time.process_time()
            way()
            seconds[name] = min(seconds[name], time.process_time() - start)
    return {name: round(float(value), 5) for name, value in seconds.items()}


def main() -> None:
    found = {name: of_a_fit(fit) for name, fit in fits().items()}
    write("terms", {"n_rows": N_ROWS, "width": WIDTH, "fits": found, "given": given()}, seed=0)


if __name__ == "__main__":
    main()
