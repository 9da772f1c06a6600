"""How long fits take: every estimator and how its time grows, commands, tables in files.

OMP_NUM_THREADS=1 python -m benchmarks.bench_speed [table] [commands] [files] [large] [workers]

`table`: invented rows and a rival on the same ones, in one run; the least CPU seconds of five runs,
of three where one takes more than two seconds, and one run of more than ten. `commands`: CPU
seconds of whole processes, imports included, beside the import of scikit-learn. `files` and
`large`: additive models of tables in files, each in a process of its own, with its largest memory.
`workers`: two of Dask beside one process. `scattering`: images of 28 x 28 pixels.
Results are kept part by part.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression

from benchmarks.recording import RESULTS, best_of, mnist, timed, write
from sfumato import (
    AffineHullClassifier,
    Bounds,
    LargeMarginGaussianClassifier,
    Ledger,
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
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

DELTA = 1e-5
EPSILON = 1.0
N_IMAGES = 20_000
RUNS = 5
LONG, LONGER = 2.0, 10.0  # seconds of a run that is made three times, and once
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
FIT_FILE = """
import json, resource, sys, time
from sfumato import PrivateAdditiveClassifier, TableBounds
bounds, path, n_steps = sys.argv[1:]
model = PrivateAdditiveClassifier(
    bounds=TableBounds.read(bounds, sealed=False), delta=1e-8, n_steps=json.loads(n_steps)
)
begun = time.process_time()
model.fit(path)
spent, peak = time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"cpu_s": round(spent, 2), "peak_gib": round(peak / 2**20, 2)}))
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["table"])
    parser.add_argument("--rows", type=int, default=N_IMAGES)
    parser.add_argument("--name", default="speed")
    parser.add_argument("--only", default="", help="of a part, what begins with this")
    options = parser.parse_args()
    numbers = _kept(options.name)
    for part in options.parts:
        numbers = [
            each
            for each in numbers
            if each["part"] != part or not each["what"].startswith(options.only)
        ]
        for found in PARTS[part](options):
            numbers.append({"part": part, **found})
            print(numbers[-1], flush=True)
        write(options.name, numbers, seed=None, unit="record", delta=DELTA)


def _plain(rows: Any, y: Any) -> LogisticRegression:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression().fit(rows, y)


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
    }


def table(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for what, sizes, task in _work():
        found: list[dict[str, Any]] = []
        for n_rows in sizes if what.startswith(options.only) else ():
            run, plain = task(n_rows)
            first = timed(run)[1]["cpu_s"]
            n_runs = RUNS if first < LONG else 3 if first < LONGER else 1
            cpu_s = min(first, best_of(n_runs - 1, run)["cpu_s"]) if n_runs > 1 else first
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
    many = 10_000, 100_000, 1_000_000
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

    def additive_regression(n_rows: int) -> Any:
        X, _ = classes(n_rows, 15)
        y = np.clip(X[:, 0] + X[:, 1] / 2, -5, 5)
        bounds = Bounds(lower=-3.0, upper=3.0)
        model = PrivateAdditiveRegressor(target_bounds=(-5, 5), bounds=bounds, **settings)
        return lambda: model.fit(X, y), None

    def of(estimator: Any, width: int, **more: Any) -> Callable[[int], Any]:
        def runs(n_rows: int) -> Any:
            X, y = classes(n_rows, width)
            labels, y = ([0, 1], y) if estimator.has_labels else (None, None)
            bounds = Bounds(lower=-3.0, upper=3.0, labels=labels)
            return lambda: estimator(bounds=bounds, **settings, **more).fit(X, y), None

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
    yield "additive, 15 columns", (10_000, 50_000, 1_000_000), of(PrivateAdditiveClassifier, 15)
    yield "additive regression, 15 columns", many, additive_regression
    yield "mean curve, 50 points", many, of(PrivateMeanCurve, 50)
    yield "kernel classifier, 10 columns", many, of(PrivateKernelClassifier, 10)
    same_strength = of(PrivateKernelClassifier, 10, regularization=1e-3)
    yield "kernel classifier, 10 columns, λ = 0.001", many, same_strength
    yield "hulls, 10,000 predictions", (10_000, 100_000), hulls
    yield "large margin, 10 columns", many, large_margin
    yield "Gaussian classifier, 20 columns", many, of(PrivateGaussianClassifier, 20)
    yield "moments, 20 columns", many, of(PrivateMoments, 20)
    yield "PCA, 20 columns", many, of(PrivatePCA, 20)
    yield "density, 2 columns", many, of(PrivateDensity, 2)
    yield "history, lines", (10_000,), history


def commands(options: argparse.Namespace) -> Iterator[dict[str, Any]]:  # noqa: ARG001
    def cpu(*words: str, module: tuple[str, ...] = ("-m", "sfumato")) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *module, *words], check=True, capture_output=True)
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
            plain = min(cpu(module=("-c", "import sklearn.linear_model")) for _ in range(RUNS))
            number = {"what": words[0], "n_rows": 1000, "cpu_s": round(least, 3), "n_runs": RUNS}
            yield {**number, "cpu_s_plain": round(plain, 3), "ratio": round(least / plain, 2)}


def files(options: argparse.Namespace, n_files: int = 1) -> Iterator[dict[str, Any]]:  # noqa: ARG001
    """Write a million rows of 20 numbers as Parquet, and as a CSV of 102 MB; fit.

    Of several files all are Parquet.
    """
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"x{i}": rng.standard_normal(10**6).round(2) for i in range(20)}
    columns["y"] = (columns["x0"] + columns["x1"] * columns["x2"] > 0).astype(np.int64)
    table = pa.table(columns)
    bounds = TableBounds.from_dict(
        {**dict.fromkeys(list(columns)[:-1], (-4.0, 4.0)), "y": [0, 1]}, target="y"
    )
    with tempfile.TemporaryDirectory() as folder:
        for number in range(n_files):
            pq.write_table(
                table, f"{folder}/{number}.parquet", compression="none", row_group_size=2**17
            )
        pa.csv.write_csv(table, f"{folder}/rows.csv")
        bounds.write(f"{folder}/bounds.toml")
        csv = [("additive, CSV of 102 MB", "rows.csv", 10**6, None)] if n_files == 1 else []
        parquet = ("additive, Parquet", "*.parquet", n_files * 10**6, 40)
        for what, path, n_rows, n_steps in (parquet, *csv):
            asked = [f"{folder}/bounds.toml", f"{folder}/{path}", json.dumps(n_steps)]
            words = [sys.executable, "-c", FIT_FILE, *asked]
            runs, n_runs = [], 1 if n_files > 1 else RUNS
            for _ in range(n_runs):
                done = subprocess.run(words, check=True, capture_output=True)
                runs.append(json.loads(done.stdout))
            found = min(runs, key=lambda each: each["cpu_s"])
            yield {"what": what, "n_rows": n_rows, "n_steps": n_steps, "n_runs": n_runs, **found}


def workers(options: argparse.Namespace) -> Iterator[dict[str, Any]]:  # noqa: ARG001
    """Fit four million rows of 20 columns in files, in this process and on two workers of Dask.

    The files as `read_parquet` gives them, or as frames that Dask has computed, of NumPy or Arrow.
    Its processes also take time while they wait: on a busy machine that is much of the whole.
    """
    import dask.dataframe as dd
    import psutil
    from distributed import Client, LocalCluster

    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {f"x{i}": rng.standard_normal(10**6) for i in range(20)}
    columns["y"] = (columns["x0"] + columns["x1"] > 0).astype(np.int64)
    listed = {**dict.fromkeys(list(columns)[:-1], (-4.0, 4.0)), "y": [0, 1]}
    bounds = TableBounds.from_dict(listed, target="y")
    models: dict[str, Any] = {
        "moments": PrivateMoments(bounds=Bounds(norm=6.0), delta=1e-8),
        "linear, 40 steps": PrivateLinearClassifier(bounds=bounds, delta=1e-8, n_steps=40),
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        Client(cluster) as client,
    ):
        for number in range(4):
            pq.write_table(pa.table(columns), f"{folder}/{number}.parquet", row_group_size=2**17)
        found = [psutil.Process(pid) for pid in client.run(os.getpid).values()]

        def spent(task: Callable[[], Any]) -> dict[str, float]:
            """Return the seconds of a task, those of the workers included."""
            before = sum(sum(each.cpu_times()[:2]) for each in found)
            seconds = timed(task)[1]
            after = sum(sum(each.cpu_times()[:2]) for each in found)
            return {**seconds, "cpu_s": seconds["cpu_s"] + after - before}

        for what, model in models.items():
            path, n_runs = f"{folder}/*.parquet", RUNS if what == "moments" else 3
            frames = {"NumPy": dd.read_parquet(path)}
            frames["Arrow"] = dd.read_parquet(path, dtype_backend="pyarrow")
            computed = {name: frame.map_partitions(lambda x: x) for name, frame in frames.items()}
            for kind, rows in {"read_parquet": frames["NumPy"], **computed}.items():
                model.fit(rows)  # libraries are loaded, here and there
                waiting, fits = spent(partial(time.sleep, 5)), []
                alone = best_of(n_runs, partial(model.fit, path))["cpu_s"]
                for _ in range(n_runs):
                    fits.append(spent(partial(model.fit, rows)))
                used = min(fits, key=lambda each: each["cpu_s"])
                idle = waiting["cpu_s"] * used["wall_s"] / waiting["wall_s"]
                number = {"what": f"{what}, {kind}", "n_rows": 4 * 10**6, "n_runs": n_runs}
                seconds = {"cpu_s": used["cpu_s"], "cpu_s_waiting": idle, "cpu_s_plain": alone}
                seconds["ratio"] = used["cpu_s"] / alone
                yield {**number, **{name: round(value, 2) for name, value in seconds.items()}}


def _kept(name: str) -> list[dict[str, Any]]:
    path = RESULTS / f"{name}.json"
    return list(json.loads(path.read_text())["numbers"]) if path.exists() else []


PARTS = {
    "table": table,
    "commands": commands,
    "files": files,
    "large": partial(files, n_files=10),
    "workers": workers,
    "scattering": scattering,
}


if __name__ == "__main__":
    main()
