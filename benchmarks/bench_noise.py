"""Draws a second: exact noise beside plain numpy.random, one core.

python -m benchmarks.bench_noise
"""

from __future__ import annotations

import numpy as np

from benchmarks.recording import best_of, write
from sfumato.mechanisms import EntryMechanism, GaussianMechanism, LaplaceMechanism

DRAWS = 10_000_000
MNIST = (60_000, 784)


def main() -> None:
    zeros = np.zeros(DRAWS)
    rng = np.random.default_rng()
    exact = {
        "laplace": LaplaceMechanism(sensitivity=1.0, epsilon=1.0),
        "gaussian": GaussianMechanism.calibrate(sensitivity=1.0, epsilon=1.0, delta=1e-5),
    }
    plain = {"laplace": rng.laplace, "gaussian": rng.normal}
    rows = []
    for law, mechanism in exact.items():
        ours = best_of(3, lambda m=mechanism: m.release(zeros, ledger=None))
        theirs = best_of(3, lambda d=plain[law]: zeros + d(size=DRAWS))
        rows.append(
            {
                "law": law,
                "draws": DRAWS,
                "million_draws_per_s": round(DRAWS / ours["cpu_s"] / 1e6, 1),
                "numpy_million_per_s": round(DRAWS / theirs["cpu_s"] / 1e6, 1),
                "times_slower_than_numpy": round(ours["cpu_s"] / theirs["cpu_s"], 1),
            }
        )
    table = np.zeros(MNIST)
    entry = EntryMechanism(entry_bound=1.0, epsilon=1.0)
    seconds = best_of(1, lambda: entry.release(table, ledger=None))
    rows.append({"law": "entry", "draws": table.size, **seconds})
    write("noise", rows, seed=None)


if __name__ == "__main__":
    main()
