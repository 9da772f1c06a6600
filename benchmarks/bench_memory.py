"""Memory that a fit takes beyond its rows, in a fresh process for each estimator.

python -m benchmarks.bench_memory

Traced by tracemalloc, which sees every array of NumPy. `beyond` is the peak during the fit over the
memory of the rows; `beyond_working_set` the same without the public working set of 256 MiB.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import tracemalloc
import warnings
from typing import Any

import numpy as np

import sfumato
from benchmarks.recording import write
from sfumato import Bounds
from sfumato.core.memory import WORKING_SET

# Estimator, its parameters, rows, columns, type of the rows.
FITS: list[tuple[str, dict[str, Any], int, int, str]] = [
    ("PrivateLinearClassifier", {"n_steps": 2}, 100_000, 50, "float64"),
    ("PrivateLinearClassifier", {"n_steps": 2}, 100_000, 50, "float32"),
    ("PrivateMeanCurve", {}, 100_000, 50, "float64"),
    ("PrivateLargeMarginGaussianClassifier", {"n_components": 5}, 100_000, 50, "float64"),
    ("PrivateLargeMarginGaussianClassifier", {}, 30_000, 20, "float64"),
    ("PrivateDensity", {}, 1_000_000, 2, "float64"),
    ("PrivateGaussianClassifier", {"n_components": 10}, 100_000, 50, "float32"),
    ("PrivatePCA", {"n_components": 10}, 100_000, 50, "float64"),
    ("PrivateKernelClassifier", {}, 10_000, 10, "float64"),
]


def measured(name: str, options: dict[str, Any], n: int, d: int, dtype: str) -> dict[str, Any]:
    """Fit once on few rows, then on all of them, traced."""
    warnings.simplefilter("ignore")
    rows = np.random.default_rng(0).uniform(size=(n, d)).astype(dtype)
    kind = getattr(sfumato, name)
    has_labels = name.endswith("Classifier")
    labels = np.arange(n) % 3 if has_labels else None
    bounds = Bounds(lower=0.0, upper=1.0, labels=[0, 1, 2] if has_labels else None)
    model = kind(epsilon=1.0, delta=1e-6, bounds=bounds, **options)
    given = (rows[:300],) if labels is None else (rows[:300], labels[:300])
    model.fit(*given)  # what is imported or cached once is not counted
    begun = time.process_time()
    tracemalloc.start()
    model.fit(rows) if labels is None else model.fit(rows, labels)
    peak = tracemalloc.get_traced_memory()[1]
    return {
        "estimator": name,
        "options": options,
        "rows": n,
        "columns": d,
        "dtype": dtype,
        "input_mib": round(rows.nbytes / 2**20, 1),
        "peak_mib": round(peak / 2**20, 1),
        "beyond": round(peak / rows.nbytes, 2),
        "beyond_working_set": round(max(0, peak - WORKING_SET) / rows.nbytes, 2),
        "cpu_s": round(time.process_time() - begun, 1),
    }


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(measured(*json.loads(sys.argv[1]))))
        return
    numbers = []
    for fit in FITS:
        command = [sys.executable, "-m", "benchmarks.bench_memory", json.dumps(fit)]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        numbers.append(json.loads(run.stdout.splitlines()[-1]))
        print(numbers[-1], flush=True)
    write("memory", numbers, seed=0, working_set=WORKING_SET)


if __name__ == "__main__":
    main()
