"""How long fits take beside scikit-learn's on the same rows; scattering; all estimators.

SFUMATO_DATA=... python -m benchmarks.bench_speed [fits] [scattering] [--rows 20000] [--name speed]
OMP_NUM_THREADS=1 python -m benchmarks.bench_speed [table] [commands] --name speed_table

`fits`: `PrivateLinearClassifier` and `LogisticRegression`, both with their defaults, in turn on the
same rows in the same precision; CPU seconds are the least of the runs. `scattering`: images
of 28 x 28 pixels. `table`: invented rows, the least CPU seconds of five runs, of one where a
run is long. `commands`: CPU seconds of whole processes, imports included. Results are kept part by
part; `--name` keeps those of another version.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression

from benchmarks import model_tables
from benchmarks.recording import RESULTS, best_of, mnist, timed, write
from sfumato import (
    AffineHullClassifier,
    Bounds,
    HOGFeatures,
    LargeMarginGaussianClassifier,
    Ledger,
    PrivateAdditiveClassifier,
    PrivateDensity,
    PrivateGaussianClassifier,
    PrivateKernelClassifier,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateMeanCurve,
    PrivateMoments,
    PrivatePCA,
    ScatteringFeatures,
    TableBounds,
)
from sfumato.privacy.events import PureEvent
from sfumato.tables.encoder import TableEncoder

DELTA = 1e-5
EPSILON = 1.0
N_IMAGES = 20_000
RUNS = 5
LONG = 4.0  # seconds of a run that is made once
FILES = ("rows.csv", "bounds.toml", "model.sfumato", "made.csv")  # of the commands
HOSPITAL = {
    "age": (0, 110),
    "ward": ["cardiology", "medicine", "orthopaedics", "surgery"],
    "emergency": bool,
    "diabetes": bool,
    "earlier_stays": (0, 20),
    "days": (0, 60),
    "readmitted": ["no", "yes"],
}
DEEPEST = 12  # functions of a profile that are kept


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["fits"])
    parser.add_argument("--rows", type=int, default=N_IMAGES)
    parser.add_argument("--name", default="speed")
    options = parser.parse_args()
    numbers = _kept(options.name)
    for part in options.parts:
        numbers = [each for each in numbers if each["part"] != part]
        for found in PARTS[part](options):
            numbers.append({"part": part, **found})
            print(numbers[-1], flush=True)
        write(options.name, numbers, seed=None, unit="record", delta=DELTA)


def fits(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for what, rows, y, queries, y_test, norm in _same_rows(options.rows):
        labels = np.unique(y)

        def private(labels: Any = labels, norm: float = norm) -> Any:
            bounds = Bounds(norm=norm, labels=labels)
            return PrivateLinearClassifier(epsilon=EPSILON, delta=DELTA, bounds=bounds)

        ours, theirs = [], []
        for _ in range(RUNS):  # in turn, so that both see the same machine
            model, ours_s = timed(lambda rows=rows, y=y: private().fit(rows, y))
            plain, theirs_s = timed(lambda rows=rows, y=y: _plain(rows, y))
            ours.append(ours_s["cpu_s"])
            theirs.append(theirs_s["cpu_s"])
        yield {
            "what": what,
            "n_rows": len(rows),
            "n_features": rows.shape[1],
            "epsilon": EPSILON,
            "accuracy": round(float(np.mean(model.predict(queries) == y_test)), 4),
            "accuracy_plain": round(float(np.mean(plain.predict(queries) == y_test)), 4),
            "iterations_plain": int(plain.n_iter_.max()),
            "cpu_s": min(ours),
            "cpu_s_plain": min(theirs),
            "ratio": round(min(ours) / min(theirs), 2),
            "profile": profile(lambda rows=rows, y=y: private().fit(rows, y)),
        }


def _plain(rows: Any, y: Any) -> LogisticRegression:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression().fit(rows, y)


def _same_rows(n_images: int) -> Iterator[tuple[str, Any, Any, Any, Any, float]]:
    train, y, test, y_test = mnist()
    train, y = train[:n_images], y[:n_images]
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (train, test)]
    yield "MNIST, pixels", unit[0], y, unit[1], y_test, 1.0
    hog = HOGFeatures((28, 28)).fit(train[:1])
    yield "MNIST, HOG", hog.transform(train), y, hog.transform(test), y_test, 1.0
    for name in ("adult", "bank"):
        data = model_tables.table(name)
        encoder = TableEncoder(data.bounds).fit(data.train)
        rows, queries = (encoder.transform(part) for part in (data.train, data.test))
        norm = encoder.row_bounds().norm
        assert norm is not None
        yield name, rows, data.y_train, queries, data.y_test, float(norm)


def scattering(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    train = mnist()[0][: options.rows]
    features = ScatteringFeatures((28, 28)).fit(train[:1])
    features.transform(train[:64])
    _, seconds = timed(
        lambda: [features.transform(train[i : i + 4000]) for i in range(0, len(train), 4000)]
    )
    yield {
        "what": "ScatteringFeatures, MNIST",
        "n_rows": len(train),
        "n_features": features.n_features_out_,
        **seconds,
        "profile": profile(lambda: features.transform(train[:2000])),
    }


def table(options: argparse.Namespace) -> Iterator[dict[str, Any]]:  # noqa: ARG001 - a part's options
    for what, sizes, task in _work():
        found: list[dict[str, Any]] = []
        for n_rows in sizes:
            run, plain = task(n_rows)
            first = timed(run)[1]["cpu_s"]
            n_runs = RUNS if first < LONG else 1
            cpu_s = min(first, best_of(n_runs, run)["cpu_s"]) if n_runs > 1 else first
            number = {"what": what, "n_rows": n_rows, "cpu_s": cpu_s, "n_runs": n_runs}
            if plain is not None:
                number["cpu_s_plain"] = best_of(RUNS, plain)["cpu_s"]
                number["ratio"] = round(cpu_s / number["cpu_s_plain"], 2)
            if found:
                growth = np.log(cpu_s / found[-1]["cpu_s"]) / np.log(n_rows / found[-1]["n_rows"])
                number["exponent"] = round(float(growth), 2)
            found.append(number)
            yield number


def _work() -> Iterator[tuple[str, tuple[int, ...], Callable[[int], Any]]]:
    """Yield what is measured, at how many rows, and what makes a run and its rival."""
    many, some = (10_000, 100_000, 1_000_000), (10_000, 100_000)
    settings: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA}

    def classes(n_rows: int, width: int, n_classes: int = 2) -> tuple[Any, Any]:
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(n_rows, width)).clip(-3, 3)
        noise = rng.normal(size=(n_rows, n_classes))
        return rows, np.argmax(rows[:, :n_classes] * 1.5 + noise, axis=1)

    def linear(width: int, n_classes: int = 2) -> Callable[[int], Any]:
        def runs(n_rows: int) -> Any:
            X, y = classes(n_rows, width, n_classes)
            bounds = Bounds(lower=-3.0, upper=3.0, labels=range(n_classes))
            model = PrivateLinearClassifier(bounds=bounds, **settings)
            return lambda: model.fit(X, y), lambda: _plain(X, y)

        return runs

    def regression(n_rows: int) -> Any:
        X, _ = classes(n_rows, 20)
        y = np.clip(X[:, 0] + X[:, 1] / 2, -5, 5)
        bounds = Bounds(lower=-3.0, upper=3.0)
        model = PrivateLinearRegressor(target_bounds=(-5, 5), bounds=bounds, **settings)
        return lambda: model.fit(X, y), lambda: LinearRegression().fit(X, y)

    def of(estimator: Any, width: int) -> Callable[[int], Any]:
        def runs(n_rows: int) -> Any:
            X, y = classes(n_rows, width)
            labels, y = ([0, 1], y) if estimator.has_labels else (None, None)
            bounds = Bounds(lower=-3.0, upper=3.0, labels=labels)
            return lambda: estimator(bounds=bounds, **settings).fit(X, y), None

        return runs

    def hulls(n_rows: int) -> Any:
        X, y = classes(n_rows, 20)
        queries = classes(20_000, 20)[0][-10_000:]
        model = AffineHullClassifier().fit(X, y)
        return lambda: model.predict(queries), None

    def large_margin(n_rows: int) -> Any:
        X, y = classes(n_rows, 10)
        return lambda: LargeMarginGaussianClassifier().fit(X, y), None

    def history(n_lines: int) -> Any:
        budget = Ledger().create("rows", epsilon=1e6)
        for _ in range(n_lines):
            budget.charge(PureEvent(0.5))
        return budget.history, None

    yield "linear, 20 columns", many, linear(20)
    yield "linear, 50 columns", (100_000,), linear(50)
    yield "linear, 20 columns, 3 classes", (100_000,), linear(20, 3)
    yield "linear regression, 20 columns", many, regression
    yield "additive, 15 columns", (10_000, 50_000), of(PrivateAdditiveClassifier, 15)
    yield "mean curve, 50 points", some, of(PrivateMeanCurve, 50)
    yield "kernel classifier, 10 columns", some, of(PrivateKernelClassifier, 10)
    yield "hulls, 10,000 predictions", some, hulls
    yield "large margin, 10 columns", some, large_margin
    yield "Gaussian classifier, 20 columns", some, of(PrivateGaussianClassifier, 20)
    yield "moments, 20 columns", many, of(PrivateMoments, 20)
    yield "PCA, 20 columns", many, of(PrivatePCA, 20)
    yield "density, 2 columns", some, of(PrivateDensity, 2)
    yield "history, lines", (10_000,), history


def commands(options: argparse.Namespace) -> Iterator[dict[str, Any]]:  # noqa: ARG001
    def cpu(*words: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "sfumato", *words], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    with tempfile.TemporaryDirectory() as folder:
        rows, bounds, model, made = (f"{folder}/{name}" for name in FILES)
        cpu("datasets", "fetch", "hospital", "-o", rows)
        lines = Path(rows).read_text().splitlines(keepends=True)
        Path(rows).write_text("".join(lines[:1001]))
        TableBounds.from_dict(HOSPITAL, target="readmitted").write(bounds)
        spent = ("--epsilon", "1", "--bounds", bounds, "--force")
        for words in (
            ("--help",),
            ("fit", rows, *spent, "-o", model),
            ("predict", model, rows, "-o", f"{folder}/out.csv", "--force"),
            ("fabricate", rows, *spent, "-o", made),
            ("report", model, "-o", f"{folder}/report.html", "--force"),
        ):
            least = min(cpu(*words) for _ in range(RUNS))
            yield {"what": words[0], "n_rows": 1000, "cpu_s": round(least, 3), "n_runs": RUNS}


def profile(task: Any) -> list[dict[str, Any]]:
    """Return the functions of a run that took most of it themselves."""
    watch = cProfile.Profile()
    watch.runcall(task)
    stats = pstats.Stats(watch)
    stats.calc_callees()
    ordered = sorted(stats.stats.items(), key=lambda item: -item[1][2])[:DEEPEST]  # type: ignore[attr-defined]
    whole = stats.total_tt  # type: ignore[attr-defined]
    return [
        {"where": f"{Path(file).name}:{name}", "calls": calls, "share": round(own / whole, 3)}
        for (file, _, name), (_, calls, own, _, _) in ordered
    ]


def _kept(name: str) -> list[dict[str, Any]]:
    path = RESULTS / f"{name}.json"
    return list(json.loads(path.read_text())["numbers"]) if path.exists() else []


PARTS = {"fits": fits, "scattering": scattering, "table": table, "commands": commands}


if __name__ == "__main__":
    main()
