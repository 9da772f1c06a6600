"""Persons with several rows: what the unit "person" loses, beside "divide epsilon by k".

SFUMATO_DATA=... python -m benchmarks.bench_persons [mnist] [doctor] [speed] [odd]

mnist: 60,000 digits, 14 by 14 pixels, of 6,000 invented writers with 10 rows each, in the order of
the file. doctor: doctor contacts, 5 rows a person (the years of a panel), in the order of the file.
"eps / k" is the record unit at a k-th of epsilon; it is not even private enough at the same delta,
so "group" is the record unit at the epsilon whose group curve is right. The loss is that to the
record unit at the whole epsilon, which protects rows only.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from benchmarks.recording import mnist, write
from sfumato import Bounds, PrivateAdditiveRegressor, PrivateLinearClassifier, PrivatePCA
from sfumato.privacy import epsilon_from_mu, mu_from_budget
from sfumato.sums.persons import PersonUnit
from sfumato.sums.records import ArrayRecords
from sfumato.sums.statistics import SecondMoment

EPSILON, DELTA, RUNS = 1.0, 1e-6, 5


def pooled(images: np.ndarray) -> np.ndarray:
    """Means of 2 by 2 pixels, centred, of length 1 at most: a public map of each row."""
    small = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(len(images), -1)
    return small / np.maximum(np.linalg.norm(small, axis=1, keepdims=True), 1e-9)


def compared(
    k: int, score: Callable[[dict[str, Any], Any], float], bounds: Bounds, runs: int = RUNS
) -> Any:
    """Scores of the record unit at three epsilons and of both ways to add persons up."""
    group = epsilon_from_mu(mu_from_budget(EPSILON, DELTA) / k, DELTA)
    record = {"delta": DELTA, "bounds": bounds}
    tried: dict[str, dict[str, Any]] = {
        "record": {"epsilon": EPSILON, **record},
        "eps / k": {"epsilon": EPSILON / k, **record},
        "group": {"epsilon": group, **record},
    }
    for way in ("average", "sum"):
        known = replace(bounds, person_rows=k, per_person=way)
        tried[way] = {"epsilon": EPSILON, "delta": DELTA, "unit": "person", "bounds": known}
    found = {}
    for name, words in tried.items():
        found_scores = [score(words, name in ("average", "sum")) for _ in range(runs)]
        found[name] = {
            "epsilon": round(words["epsilon"], 4),
            "mean": round(float(np.mean(found_scores)), 4),
            "std": round(float(np.std(found_scores)), 4),
        }
        print(name, found[name], flush=True)
    best = found["record"]["mean"]
    losses = {name: round(best - each["mean"], 4) for name, each in found.items()}
    better = min(losses["average"], losses["sum"])
    of_group = round(better / max(losses["group"], 1e-12), 3)
    return {
        "rows_per_person": k,
        "runs": runs,
        "scores": found,
        "losses": losses,
        "better_by_eps_over_k": round(better / max(losses["eps / k"], 1e-12), 3),
        "better_by_group": of_group,
    }


def run_mnist() -> None:
    X, y, X_test, y_test = mnist()
    X, X_test = pooled(X), pooled(X_test)
    ids = np.arange(len(X)) // 10

    def score(words: dict[str, Any], persons: bool) -> float:
        model = PrivateLinearClassifier(n_steps=120, **words)
        model.fit(X, y, groups=ids if persons else None)
        return float(model.score(X_test, y_test))

    numbers = compared(10, score, Bounds(norm=1.0, labels=range(10)))
    write("persons_mnist", numbers, seed=None, runs=RUNS, delta=DELTA, model="linear, 120 steps")


def run_doctor() -> None:
    path = Path(os.environ["SFUMATO_DATA"]) / "tabular" / "doctor_contacts.csv.gz"
    table = pd.read_csv(path)
    y = table.pop("mdu").to_numpy(dtype=float)
    X = np.column_stack(
        [c if pd.api.types.is_numeric_dtype(c) else pd.factorize(c)[0] for _, c in table.items()]
    ).astype(float)
    ids = np.arange(len(X)) // 5
    is_test = ids % 5 == 0
    # Taken from the table for this comparison only: the same for all that are compared.
    low, high = np.floor(X.min(axis=0)), np.ceil(X.max(axis=0)) + 1
    bounds = Bounds(lower=low, upper=high, labels=[0, 1])
    often = (y >= 3).astype(int)

    def score_of_labels(words: dict[str, Any], persons: bool) -> float:
        model = PrivateLinearClassifier(n_steps=60, **words)
        model.fit(X[~is_test], often[~is_test], groups=ids[~is_test] if persons else None)
        return float(roc_auc_score(often[is_test], model.decision_function(X[is_test])))

    def score(words: dict[str, Any], persons: bool) -> float:
        model = PrivateAdditiveRegressor(target_bounds=(0.0, 40.0), knots="public", **words)
        model.fit(X[~is_test], y[~is_test], groups=ids[~is_test] if persons else None)
        left = np.clip(y[is_test], 0, 40) - model.predict(X[is_test])
        return float(1 - np.mean(left**2) / np.var(np.clip(y[is_test], 0, 40)))

    numbers = {
        "linear classifier, three visits or more, area under the curve": compared(
            5, score_of_labels, bounds
        ),
        "additive regressor, share of variance explained": compared(
            5, score, replace(bounds, labels=None), runs=15
        ),
    }
    write("persons_doctor", numbers, seed=None, runs=RUNS, delta=DELTA)


def cpu(task: Callable[[], Any]) -> float:
    start = time.process_time()
    task()
    return round(time.process_time() - start, 2)


def run_speed() -> None:
    """Ten million rows, CPU seconds of the record unit and of persons, the least of three."""
    n_rows, width = 10_000_000, 10
    rng = np.random.default_rng(0)
    X = rng.random((n_rows, width)) - 0.5
    y = (X[:, 0] > 0).astype(int)
    ids = rng.integers(0, n_rows // 5, n_rows)
    box = Bounds(lower=-0.5, upper=0.5, labels=[0, 1])
    numbers: dict[str, Any] = {"rows": n_rows, "features": width, "rows_per_person": 8}
    for way in ("record", "average", "sum"):
        known = box if way == "record" else replace(box, person_rows=8, per_person=way)
        model = PrivatePCA(3, delta=1e-8, bounds=known)
        groups = None
        if way != "record":
            model.set_params(unit="person")
            groups = ids
        numbers[f"pca_{way}_cpu_s"] = min(
            cpu(lambda m=model, g=groups: m.fit(X, y, groups=g)) for _ in range(3)
        )
        print(way, numbers, flush=True)
    for way in ("average", "sum"):
        ratio = numbers[f"pca_{way}_cpu_s"] / numbers["pca_record_cpu_s"]
        numbers[f"pca_{way}_by_record"] = round(ratio, 2)
    write("persons_speed", numbers, seed=0)


def run_odd() -> None:
    """Odd columns of IDs: what is kept, and that nothing raises."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1_000_000, 3)) / 10
    unit, statistic = PersonUnit(8), SecondMoment(3)
    columns = {
        "one person with all rows": np.zeros(len(rows)),
        "no IDs": np.full(len(rows), np.nan),
        "one ID missing": np.where(np.arange(len(rows)) == 5, np.nan, np.arange(len(rows)) // 4),
    }
    found = {}
    for name, ids in columns.items():
        records = ArrayRecords.of_persons(
            rows, None, groups=ids, unit=unit, relation="add_or_remove_one"
        )
        seconds = cpu(lambda r=records: r._sum(statistic))
        found[name] = {"rows_kept": records._persons.n_kept, "sum_cpu_s": seconds}
    write("persons_odd", found, seed=0)


def main() -> None:
    warnings.simplefilter("ignore")
    parts = {"mnist": run_mnist, "doctor": run_doctor, "speed": run_speed, "odd": run_odd}
    for name in sys.argv[1:] or parts:
        parts[name]()


if __name__ == "__main__":
    main()
