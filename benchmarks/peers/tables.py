"""Synthetic tables: UCI Adult, a row added or removed.

All get eleven columns and the label. `Fabricator` sees numbers as numbers, within public ranges;
the others see them in public bins, and a number is drawn inside its bin. Forests and logistic
regressions learn from the synthetic rows and are scored on real test rows. Errors of marginals are
total variations between synthetic and training rows, all columns in bins.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from benchmarks.bench_functions_utility import CATEGORIES
from benchmarks.peers.asking import ask
from benchmarks.peers.rows import HIGHER, LOWER, row, summary
from benchmarks.recording import timed
from sfumato import Fabricator, TableBounds

DELTA = 1e-5
EPSILONS = (1.0, 10.0)
RUNS = 3
# Columns of whole numbers with public bins, each open on the left.
EDGES = {
    "age": (0, [16, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 80, 90]),
    "education": (4, list(range(17))),
    "gain": (10, [-1, 0, 2000, 4000, 6000, 8000, 12000, 20000, 99999]),
    "loss": (11, [-1, 0, 1000, 1500, 1700, 1900, 2100, 2500, 4999]),
    "hours": (12, [0, 15, 25, 34, 39, 40, 45, 50, 60, 99]),
}
NAMES = {1: "work", 5: "marital", 6: "occupation", 7: "relationship", 8: "race", 9: "sex"}
VALUES = {NAMES[c]: words.split() for c, words in CATEGORIES.items()}
VALUES = {n: [*v, "?"] if n in ("work", "occupation") else v for n, v in VALUES.items()}
LABEL = "label"
PEERS = {"smartnoise-synth": ("mst", "SmartNoise MST"), "opendp": ("aim", "OpenDP AIM (mbi)")}


def rows(chosen: tuple[float, ...] = EPSILONS) -> Iterator[dict[str, Any]]:
    """Yield one row for each peer, budget and measure."""
    train, test = adult("data"), adult("test")
    for epsilon in chosen:
        made = [fabricated(train, epsilon, seed) for seed in range(RUNS)]
        our = [scores(table, train, test) for table, _ in made]
        for package, (task, name) in PEERS.items():
            answer = ask(
                *(package, task),
                epsilon=epsilon,
                delta=DELTA,
                runs=RUNS,
                seconds=240.0,
                limit=300.0,
                table=codes(train),
                sizes=np.array(sizes()),
            )
            if answer is None:
                continue
            yield from _beside(epsilon, our, [s for _, s in made], answer, name, (train, test))


def _beside(
    epsilon: float, our: Any, seconds: Any, answer: dict[str, Any], name: str, real: Any
) -> Iterator[dict[str, Any]]:
    named = f"{name} ({answer['version']})"
    found = [scores(decoded(np.array(t)), *real) for t in answer.get("releases", [])]
    for measure, better in MEASURES.items():
        peer = {"name": named, "failed": answer.get("failed")}
        if found:
            peer = summary(named, [score[measure] for score in found], answer["cpu_s"])
        mine = summary("Fabricator", [score[measure] for score in our], seconds)
        promise = {"epsilon": epsilon, "delta": DELTA, "relation": "add_or_remove_one"}
        yield row("synthetic table", "Adult", measure, better, mine, peer, **promise)


MEASURES = {
    "accuracy of a forest": HIGHER,
    "accuracy of logistic regression": HIGHER,
    "error of one-way marginals": LOWER,
    "error of two-way marginals": LOWER,
}


def scores(made: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    """Score synthetic rows: two learners on test rows, and marginals of one and two columns."""
    found = {}
    forest = RandomForestClassifier(n_jobs=1, random_state=0)
    for measure, learner in zip(MEASURES, (forest, LogisticRegression(max_iter=500)), strict=False):
        model = make_pipeline(_encoder(), learner)
        found[measure] = accuracy(model, made, test)
    one, two = marginal_errors(codes(made), codes(train))
    return found | dict(zip(list(MEASURES)[2:], (one, two), strict=True))


def accuracy(model: Any, made: pd.DataFrame, test: pd.DataFrame) -> float:
    if made[LABEL].nunique() < 2:
        return float(np.mean(test[LABEL] == made[LABEL].iloc[0]))
    model.fit(made.drop(columns=LABEL), made[LABEL])
    return float(model.score(test.drop(columns=LABEL), test[LABEL]))


def marginal_errors(made: np.ndarray, real: np.ndarray) -> tuple[float, float]:
    """Return mean total variations over all columns and over all pairs of columns."""
    n = sizes()
    one = [_variation(made[:, i], real[:, i], n[i]) for i in range(len(n))]
    two = [
        _variation(*(t[:, i] * n[j] + t[:, j] for t in (made, real)), n[i] * n[j])
        for i, j in combinations(range(len(n)), 2)
    ]
    return float(np.mean(one)), float(np.mean(two))


def _variation(made: np.ndarray, real: np.ndarray, size: int) -> float:
    shares = [np.bincount(each, minlength=size) / len(each) for each in (made, real)]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def fabricated(train: pd.DataFrame, epsilon: float, seed: int) -> tuple[pd.DataFrame, float]:
    ranges = {name: (edges[0] + 1.0, float(edges[-1])) for name, (_, edges) in EDGES.items()}
    fabricator = Fabricator(
        epsilon=epsilon,
        delta=DELTA,
        relation="add_or_remove_one",
        bounds=TableBounds.from_dict({**ranges, **VALUES, LABEL: [0, 1]}, target=LABEL),
        random_state=seed,
    )
    table, time = timed(
        lambda: fabricator.fit_fabricate(train.drop(columns=LABEL), train[LABEL].to_numpy())
    )
    return table, time["cpu_s"]


def adult(part: str) -> pd.DataFrame:
    """Read numbers, categories and the label."""
    path = Path(os.environ["SFUMATO_DATA"]) / "tabular" / f"adult.{part}.gz"
    with gzip.open(path, "rt") as file:
        lines = [line for line in csv.reader(file, skipinitialspace=True) if len(line) == 15]
    table: dict[str, list[Any]] = {
        name: [int(line[c]) for line in lines] for name, (c, _) in EDGES.items()
    }
    table |= {name: [line[c] for line in lines] for c, name in NAMES.items()}
    table[LABEL] = [int(line[14].startswith(">50K")) for line in lines]
    return pd.DataFrame(table)


def sizes() -> list[int]:
    """Return the number of bins or categories of each column, the label last."""
    return [*(len(e) - 1 for _, e in EDGES.values()), *map(len, VALUES.values()), 2]


def codes(table: pd.DataFrame) -> np.ndarray:
    """Return each column as a whole number: of its bin, of its category."""
    columns = [
        np.clip(np.searchsorted(edges, table[name], side="left") - 1, 0, len(edges) - 2)
        for name, (_, edges) in EDGES.items()
    ]
    columns += [pd.Categorical(table[name], values).codes for name, values in VALUES.items()]
    return np.column_stack([*columns, table[LABEL]]).astype(np.int64)


def decoded(table: np.ndarray) -> pd.DataFrame:
    """Draw numbers inside their bins."""
    rng = np.random.default_rng(0)
    made = {}
    for column, (name, (_, edges)) in enumerate(EDGES.items()):
        code = np.clip(table[:, column], 0, len(edges) - 2)
        made[name] = rng.integers(np.take(edges, code) + 1, np.take(edges, code + 1) + 1)
    for column, (name, values) in enumerate(VALUES.items(), start=len(EDGES)):
        made[name] = np.take(values, np.clip(table[:, column], 0, len(values) - 1))
    return pd.DataFrame(made).assign(**{LABEL: table[:, -1]})


def _encoder() -> Any:
    return make_column_transformer(
        (OneHotEncoder(categories=list(VALUES.values())), list(VALUES)),
        (MinMaxScaler(), list(EDGES)),
    )
