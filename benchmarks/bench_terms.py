"""What it costs to leave out terms that are too long, as a share of a sum over rows.

python -m benchmarks.bench_terms

Rows that were clipped into the ball by a map of the library are not looked at again; rows that are
given as they are, are. Both ways in one run, CPU seconds, the least of fifteen.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.recording import write
from sfumato import Bounds
from sfumato.sums import ArrayRecords, Records, SecondMoment
from sfumato.sums.gradients import GradientSum, SoftmaxLoss
from sfumato.sums.maps import IntoUnitBall

N_ROWS = 10**5


def cost(statistic: Any, records: Records) -> dict[str, float]:
    """Compare a sum with one that is told that all rows lie in the ball, or that none does."""
    known, seconds = records._in_ball, {"not_looked_at": np.inf, "looked_at": np.inf, "now": np.inf}
    for _ in range(15):
        for name, in_ball in zip(seconds, (records.width, 0, known), strict=True):
            records._in_ball = in_ball
            start = time.process_time()
            records._sum(statistic)
            seconds[name] = min(seconds[name], time.process_time() - start)
    least = seconds["not_looked_at"]
    shares = {f"share_{name}": seconds[name] / least - 1 for name in ("looked_at", "now")}
    return {name: round(float(value), 5) for name, value in (seconds | shares).items()}


def main() -> None:
    generator, found = np.random.default_rng(0), []
    for width in (20, 50):
        rows = generator.normal(size=(N_ROWS, width))
        rows /= 1.01 * np.linalg.norm(rows, axis=1, keepdims=True)
        given = ArrayRecords(rows, generator.integers(0, 2, N_ROWS), relation="replace_one")
        mapped = given.mapped(IntoUnitBall(Bounds(norm=1.0), width))
        gradient = GradientSum(SoftmaxLoss(2), 1.0, np.zeros((1, width)))
        for name, statistic in (("second moment", SecondMoment(width)), ("gradient", gradient)):
            for way, records in (("mapped into the ball", mapped), ("as given", given)):
                what = {"statistic": name, "width": width, "rows": way}
                found.append(what | cost(statistic, records))
                print(found[-1])
    write("terms", {"n_rows": N_ROWS, "sums": found}, seed=0)


if __name__ == "__main__":
    main()
