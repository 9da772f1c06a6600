"""Membership mappings: time, and the fast algebra against the printed algorithms.

SFUMATO_DATA=... python -m benchmarks.bench_mappings [oracle] [mnist]
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.recording import best_of, mnist, peak_gib, timed, write
from sfumato import MembershipClassifier
from sfumato.models.mappings import fit_branch, layer_outputs
from tests.models import literal_mappings as literal

N_LAYERS = 5


def oracle() -> None:
    """One branch of 1000 digits: the same M in every layer, outputs, and CPU seconds."""
    X, y, _, _ = mnist()
    clean = X[y == 8][:1000].astype(np.float64)
    noisy = clean + np.random.default_rng(0).laplace(scale=10.0, size=clean.shape)
    numbers = []
    for name, rows in (("clean", clean), ("entry epsilon 0.1", noisy)):
        for n in (20, 5):
            options = {"n_components": n, "n_layers": N_LAYERS, "inducing_ratio": 0.5}
            options |= {"kappa": 0.1, "center": False, "seed": 0}
            fast_time = best_of(2, lambda r=rows, o=options: fit_branch(r, **o))
            fast = fit_branch(rows, **options)
            slow, slow_time = timed(lambda r=rows, m=n: literal.algorithm_2(r, m, 500, N_LAYERS))
            points = [int(layer["inducing"].shape[0]) for layer in fast["layers"]]
            pairs = zip(layer_outputs(fast, rows), literal.outputs(slow, rows), strict=True)
            apart = max(float(np.abs(a - b).max()) for a, b in pairs)
            numbers.append(
                {
                    "rows": name,
                    "n_components": n,
                    "inducing_points": points,
                    "same_as_printed": points == [m["M"] for _, m in slow],
                    "largest_difference_by_range": apart / float(np.ptp(rows)),
                    "fast_cpu_s": fast_time["cpu_s"],
                    "printed_cpu_s": slow_time["cpu_s"],
                    "times_faster": round(slow_time["cpu_s"] / fast_time["cpu_s"], 1),
                }
            )
    write("mappings_oracle", numbers, seed=0)


def whole_mnist() -> None:
    """60,000 x 784 source, 10,000 points through it, on two cores."""
    X, y, X_test, y_test = mnist()
    model = MembershipClassifier(dtype="float32", n_jobs=2, random_state=0)
    _, fit_time = timed(lambda: model.fit(X, y))
    found, predict_time = timed(lambda: model.predict(X_test))
    numbers = {
        "branches": len(model.branches_),
        "fit": fit_time,
        "predict": predict_time,
        "accuracy": round(float(np.mean(found == y_test)), 4),
        "peak_gib": peak_gib(),
    }
    write("mappings_mnist", numbers, seed=0)


PARTS = {"oracle": oracle, "mnist": whole_mnist}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
