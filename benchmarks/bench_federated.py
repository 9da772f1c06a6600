"""Federated hulls and linear classifiers: ``python -m benchmarks.bench_federated PART ...``.

hulls     Section 6.3 of the hull paper on MNIST, entry epsilon 16: three kinds of split
record    random split over ten parties at record level, epsilon 3
linear    the aggregators of the federated SVM on MNIST and Fashion-MNIST
engine    seconds that Flower's simulation engine adds to a run, and to a round
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.recording import mnist, timed, write
from sfumato import Bounds, LinearClassifier, PrivateAffineHullClassifier, PrivateLinearClassifier
from sfumato.federated import HullTask, LinearTask, Party, make_parties, simulate
from sfumato.federated.coordination import FederatedResult
from sfumato.papers.data import unit_rows

DELTA = 1e-5
PIXELS = Bounds(lower=0.0, upper=1.0, labels=range(10))
UNIT = Bounds(norm=1.0, labels=range(10))
PARTIES = (2, 5, 10, 20, 50, 100)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--n-layers", type=int, default=5)
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="tasks of the part linear")
    parser.add_argument("--parties", type=int, nargs="*", default=PARTIES)
    options = parser.parse_args()
    for part in options.parts or PARTS:
        settings = {k: v for k, v in vars(options).items() if k != "parts"}
        write(f"federated_{part}", PARTS[part](options), seed=0, **settings)


def hulls(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Accuracy of the merged hulls beside that of one party with all rows."""
    data = mnist()
    estimator = hull_classifier(options, unit="entry", epsilon=16.0, bounds=PIXELS)
    settings: list[tuple[str, int | None]] = [
        ("random", 1),
        ("one-class-each", None),
        ("two-per-class", None),
        *(("random", number) for number in options.parties),
    ]
    return [
        {"scenario": scenario, **merged(data, estimator, scenario, number, options)}
        for scenario, number in settings
    ]


def record(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Ten parties of 6,000 rows each, every one with its own private moments."""
    X, y, X_test, y_test = mnist()
    data = unit_rows(X), y, unit_rows(X_test), y_test
    estimator = hull_classifier(options, epsilon=3.0, bounds=UNIT)
    return [
        {"scenario": "random", **merged(data, estimator, "random", number, options)}
        for number in (1, 10)
    ]


def hull_classifier(options: argparse.Namespace, **promise: Any) -> PrivateAffineHullClassifier:
    return PrivateAffineHullClassifier(
        hull_components=20,
        n_layers=options.n_layers,
        delta=DELTA,
        dtype="float32",
        n_jobs=options.n_jobs,
        random_state=0,
        **promise,
    )


def merged(
    data: Any, estimator: Any, scenario: str, number: int | None, options: argparse.Namespace
) -> dict[str, Any]:
    X, y, X_test, y_test = data
    with tempfile.TemporaryDirectory() as folder:
        parties = make_parties(
            X[: options.rows],
            y[: options.rows],
            folder,
            scenario=scenario,
            n_parties=number,
            random_state=0,
        )
        found, time = timed(lambda: simulate(parties, HullTask("mnist", estimator)))
        sent = sum(path.stat().st_size for path in Path(folder).glob("*/*.release"))
    assert isinstance(found, FederatedResult)
    numbers = {
        "parties": len(parties),
        "accuracy": round(float(np.mean(found.model.predict(X_test) == y_test)), 4),
        "fit": time,
        "megabytes_sent": round(sent / 2**20, 1),
    }
    print(scenario, numbers, flush=True)
    return numbers


def linear(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Aggregators of the subspace, 5 parties of 10,000 rows, k = 20, delta 1e-4, mean of the runs.

    "one party" has 10,000 rows and learns alone; "non-private" is the same party without noise.
    """
    digits, fashion = mnist(), mnist("fashion-mnist")
    even, halves = (lambda y: y % 2), (lambda y: (y > 4).astype(int))
    settings: list[tuple[str, Any, Any, list[int], tuple[float, ...]]] = [
        ("MNIST even/odd", digits, even, [10_000] * 5, (0.1, 1.0, 10.0)),
        ("MNIST ten classes", digits, None, [10_000] * 5, (0.5, 1.0, 2.0)),
        ("MNIST even/odd, uneven", digits, even, [100, 500, 1000, 5000, 10_000], (0.1, 1.0)),
        ("Fashion-MNIST 0-4/5-9", fashion, halves, [10_000] * 5, (0.1, 1.0)),
    ]
    numbers = []
    for name, (X, y, X_test, y_test), relabel, sizes, budgets in settings:
        if options.only and name not in options.only:
            continue
        label = relabel or (lambda y: y)
        data = unit_rows(X), label(y), unit_rows(X_test), label(y_test)
        for epsilon in budgets:
            found = aggregated(data, sizes, epsilon, options.runs)
            numbers.append({"task": name, "epsilon": epsilon, **found})
            print(numbers[-1], flush=True)
    return numbers


def aggregated(data: Any, sizes: list[int], epsilon: float, runs: int) -> dict[str, Any]:
    X, y, X_test, y_test = data
    bounds = Bounds(norm=1.0, labels=np.unique(y).tolist())
    estimator = PrivateLinearClassifier(n_components=20, epsilon=epsilon, delta=1e-4, bounds=bounds)
    scores: dict[str, list[float]] = {}
    for run in range(runs):
        order = np.random.default_rng(run).permutation(len(X))[: sum(sizes)]
        parts = np.split(order, np.cumsum(sizes)[:-1])
        for aggregate in ("moments", "projectors", "bases"):
            with tempfile.TemporaryDirectory() as folder:
                parties = [
                    Party.of_rows(f"party-{i}", X[part], y[part], Path(folder) / str(i))
                    for i, part in enumerate(parts)
                ]
                found = simulate(parties, LinearTask("linear", estimator, aggregate))
            scores.setdefault(aggregate, []).append(found.model.score(X_test, y_test))
        alone = parts[-1]
        private = estimator.fit(X[alone], y[alone]).score(X_test, y_test)
        scores.setdefault("one party", []).append(private)
    without = LinearClassifier().fit(X[alone], y[alone]).score(X_test, y_test)
    scores["non-private"] = [without]  # once: it hardly differs, and takes longest
    return {
        "runs": runs,
        **{name: round(float(np.mean(found)), 4) for name, found in scores.items()},
        "std": {name: round(float(np.std(found)), 4) for name, found in scores.items()},
    }


def engine(options: argparse.Namespace) -> list[dict[str, Any]]:  # noqa: ARG001 - one of the parts
    """The same task in this process and on Flower's engine: what the engine adds."""
    from sfumato.federated import read_party
    from sfumato.federated.flower.simulation import simulate_with_flower

    X, y, *_ = mnist()
    estimator = PrivateLinearClassifier(n_components=20, delta=1e-4, bounds=UNIT)
    numbers = []
    for number in (2, 10):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for i, part in enumerate(np.array_split(np.arange(10_000), number)):
                np.savez(folder / f"rows-{i}.npz", X=unit_rows(X[part]), y=y[part])
                (folder / f"party-{i}.toml").write_text(
                    f'name = "{i}"\ndata = "rows-{i}.npz"\nstore = "store-{i}"\nledger = "none"\n'
                    'bounds = "none"\nmax_epsilon = 1.0\nmax_delta = 1e-4\n'
                )
            parties = [read_party(folder / f"party-{i}.toml") for i in range(number)]
            _, here = timed(lambda p=parties: simulate(p, LinearTask("here", estimator)))
            told, there = timed(
                lambda f=folder: simulate_with_flower(f, LinearTask("flower", estimator), f / "out")
            )
        rounds = {each["phase"]: each["seconds"] for each in told["rounds"]}
        numbers.append({"parties": number, "here": here, "flower": there, "rounds_s": rounds})
        print(numbers[-1], flush=True)
    return numbers


PARTS = {"hulls": hulls, "record": record, "linear": linear, "engine": engine}

if __name__ == "__main__":
    main()
