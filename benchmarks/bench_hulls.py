"""Kernel affine hulls on the CPU: ``python -m benchmarks.bench_hulls [PART ...]``.

sizes   one hull on Gaussian rows of the sizes of the paper's Table 11; set OMP_NUM_THREADS=1
oracle  against the formulas as printed (tests/models/literal_hulls.py), one branch of digits
mnist   all 60,000 + 10,000 digits: fit, prediction, accuracy, memory
growth  time of fit against the number of rows at a fixed branch size
bounds  how many branches three proved bounds of the distance leave to be evaluated
"""

from __future__ import annotations

import sys
from functools import partial
from math import factorial
from typing import Any

import numpy as np

from benchmarks.recording import best_of, mnist, peak_gib, timed, write
from sfumato.models.hull_search import layers_of
from sfumato.models.hulls import (
    AffineHullClassifier,
    DeepAffineHull,
    KernelAffineHull,
    WideAffineHull,
)
from sfumato.papers.kahm.experiments import TABLE_11

SEED = 0
SEARCHED = 20  # steps towards an image near a query
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


def bounds() -> None:
    """Count branches of other classes whose bound is not above the distance to the nearest one.

    An image is F(x) / s(x), F in the space of the kernel, so |P F(x)| <= |P F| for every projection
    P. "ball" bounds the whole of F, "leading" all but 64 principal coordinates of the image,
    "polynomial" what degree 2 or 3 in x leaves of it. What is not bounded, s(x) and the images
    that a layer is given, is taken as known, as no search could do better. "any set": how near
    some image of the branch lies. No ball, box or tree around its images can prove more.
    """
    rng, found = np.random.default_rng(SEED), []
    X = rng.normal(size=(110_000, 20)).clip(-3, 3)
    y = np.argmax(X[:, :2] * 1.5 + rng.normal(size=(110_000, 2)), axis=1)
    digits, labels, queries, _ = mnist()
    for data, rows, codes, asked in (
        ("MNIST", digits, labels, queries[:200].astype(float)),
        ("20 normal columns", X[:100_000], y[:100_000], X[-200:]),
    ):
        hulls = AffineHullClassifier(random_state=SEED).fit(rows, codes).hulls_
        branches = [branch for hull in hulls for branch in hull.branches_]
        owners = np.repeat(np.arange(len(hulls)), [len(hull.branches_) for hull in hulls])
        answers = [_bounds_of(branch, asked) for branch in branches]
        exact = np.stack([each.pop("exact") for each in answers])
        winner = owners[exact.argmin(axis=0)]
        for way in answers[0]:
            below = np.stack([each[way] for each in answers]) <= exact.min(axis=0)
            left = (below & (owners[:, None] != winner)).sum(axis=0).mean()
            others = (owners[:, None] != winner).sum(axis=0).mean()
            row = {"data": data, "way": way, "left": float(left), "of": float(others)}
            found.append(
                {key: round(v, 1) if key in ("left", "of") else v for key, v in row.items()}
            )
            print(found[-1], flush=True)
    write("hulls_bounds", found, seed=SEED, queries=200, n_components=20, n_layers=5)


def _bounds_of(branch: Any, rows: Any) -> dict[str, Any]:
    """Return the distances to a branch, and three lower bounds of each, over all its layers."""
    centred = rows - branch["mean"]
    along = centred
    for factor in branch["basis"]:
        along = along @ factor
    outside = np.clip(np.square(centred).sum(axis=1) - np.square(along).sum(axis=1), 0, None)
    answers: dict[str, list[Any]] = {}
    point = along
    for layer, (image, distance) in enumerate(layers_of(branch, rows)):
        n = branch["n_components"] - layer
        width = branch["deviations"][:n] * np.sqrt(n)
        x, u = point[:, :n] / width, branch["inducing"][:, :n] / np.sqrt(n)
        folded, sums = branch["coefficients"][layer, :, :-2], branch["coefficients"][layer, :, -2]
        inner, half = u @ u.T, np.square(u).sum(axis=1) / 2
        kernel = np.exp(inner - half[:, None] - half)
        at, of_x = x @ u.T, np.square(x).sum(axis=1)
        s = np.exp(at - of_x[:, None] / 2 - half) @ sums

        def norm(kernel: Any, folded: Any = folded) -> float:
            return float(np.sqrt(max(np.linalg.eigvalsh(folded.T @ kernel @ folded)[-1], 0.0)))

        away = np.linalg.norm(along, axis=1) - norm(kernel) / s
        ways = {"exact": distance, "ball": np.sqrt(np.clip(away, 0, None) ** 2 + outside)}
        if along.shape[1] > 64:
            head = np.square((along - image)[:, :64]).sum(axis=1)
            tail = np.sqrt(np.square(along[:, 64:]).sum(axis=1) + outside)
            tail = np.clip(tail - norm(kernel, folded[:, 64:]) / s, 0, None)
            ways["leading"] = np.sqrt(head + tail**2)
        for degree in (2, 3):
            terms = range(degree + 1)
            low, near = (sum(part**d / factorial(d) for d in terms) for part in (inner, at))
            share = sum((of_x**d / factorial(d) for d in terms), np.zeros(len(x)))
            missed = np.sqrt(np.clip(1 - np.exp(-of_x) * share, 0, None))
            left = norm(kernel - np.exp(-half[:, None] - half) * low) * missed / s
            rough = np.exp(-of_x[:, None] / 2 - half) * near @ folded / s[:, None]
            away = np.sqrt(np.square(along - rough).sum(axis=1) + outside)
            ways[f"polynomial {degree}"] = np.clip(away - left, 0, None)
        for way, value in ways.items():
            answers.setdefault(way, []).append(value)
        point = image
    found = {way: np.min(values, axis=0) for way, values in answers.items()}
    nearest, moved = found["exact"], rows
    for _ in range(SEARCHED):
        images = [image for image, _ in layers_of(branch, moved)]
        for image in images:
            away = np.sqrt(np.square(along - image).sum(axis=1) + outside)
            nearest = np.fmin(nearest, away)
        back = np.nan_to_num(along - images[0])
        for factor in reversed(branch["basis"]):
            back = back @ factor.T
        moved = moved + back
    found["any set"] = nearest
    assert all(np.all(value <= found["exact"] * (1 + 1e-9)) for value in found.values())
    return found


PARTS = {"sizes": sizes, "oracle": oracle, "mnist": mnist_table, "growth": growth, "bounds": bounds}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
