"""Kernel affine hulls on the CPU: ``python -m benchmarks.bench_hulls [PART ...]``.

sizes   one hull on Gaussian rows of the sizes of the paper's Table 11; set OMP_NUM_THREADS=1
oracle  against the formulas as printed (tests/models/literal_hulls.py), one branch of digits
mnist   all 60,000 + 10,000 digits: fit, prediction, accuracy, memory
growth  time of fit against the number of rows at a fixed branch size
"""

from __future__ import annotations

import sys
from functools import partial

import numpy as np

from benchmarks.recording import best_of, mnist, peak_gib, timed, write
from sfumato.models.hulls import (
    AffineHullClassifier,
    DeepAffineHull,
    KernelAffineHull,
    WideAffineHull,
)
from sfumato.papers.kahm.experiments import TABLE_11

SEED = 0
# Sizes at which the paper prints its seconds (MATLAB, 2.2 GHz laptop), and one that it names.
SIZES = {size: TABLE_11[size] for size in ((500, 5000), (700, 7000), (1000, 10_000))}
SIZES[1000, 20_000] = 1600.0


def sizes() -> None:
    rows = []
    for (n, p), paper in SIZES.items():
        Y = np.random.default_rng(SEED).normal(size=(n, p))
        seconds = best_of(5, partial(KernelAffineHull(n_components=20).fit, Y))
        rows.append(
            {"N": n, "p": p, **seconds, "paper_s": paper, "ratio": round(paper / seconds["cpu_s"])}
        )
    write("hulls_sizes", rows, seed=SEED)


def oracle() -> None:
    from tests.models.literal_hulls import LiteralDeepHull

    X, y, queries, _ = mnist()
    rows, queries = X[y == 8][:1000].astype(float), queries[:1000].astype(float)
    literal, literal_fit = timed(lambda: LiteralDeepHull(rows, 20, 5))
    expected, literal_distance = timed(lambda: literal.distance(queries))
    hull = DeepAffineHull(20, n_layers=5)
    ours = {
        "fit": best_of(3, partial(hull.fit, rows)),
        "distance": best_of(3, partial(hull.distance, queries)),
    }
    found = hull.distance(queries)
    theirs = {"fit": literal_fit, "distance": literal_distance}
    numbers = {
        "literal": theirs,
        "sfumato": ours,
        "times_faster": {k: round(theirs[k]["cpu_s"] / ours[k]["cpu_s"], 1) for k in ours},
        "largest_relative_difference": float(np.max(np.abs(found / expected - 1))),
    }
    write("hulls_oracle", numbers, seed=SEED, rows=1000, queries=1000, n_components=20, n_layers=5)


def mnist_table() -> None:
    X, y, queries, labels = mnist()
    model = AffineHullClassifier(dtype="float32", n_jobs=2, random_state=SEED)
    _, fit = timed(lambda: model.fit(X, y))
    found, predict = timed(lambda: model.predict(queries))
    numbers = {
        "fit": fit,
        "predict": predict,
        "accuracy": float(np.mean(found == labels)),
        "branches": len(model._branches()),
        "peak_gib": peak_gib(),
    }
    write("hulls_mnist", numbers, seed=SEED, n_components=20, n_layers=5, dtype="float32", n_jobs=2)


def growth() -> None:
    X = np.random.default_rng(SEED).permutation(mnist()[0])
    rows = []
    for n in (10_000, 30_000, 60_000):
        hull = WideAffineHull(n_layers=1, dtype="float32", n_jobs=2, random_state=SEED)
        _, seconds = timed(partial(hull.fit, X[:n]))
        per_row = round(seconds["cpu_s"] / n * 1e3, 4)
        rows.append({"N": n, "branches": len(hull.branches_), **seconds, "cpu_ms_per_row": per_row})
    write("hulls_growth", rows, seed=SEED, n_components=20, n_layers=1, branch_size=1000)


PARTS = {"sizes": sizes, "oracle": oracle, "mnist": mnist_table, "growth": growth}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
