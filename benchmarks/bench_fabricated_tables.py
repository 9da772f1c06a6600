"""Fabricated tables: margins, distances of columns, learners and CPU time, tree beside Gaussians.

One record added or removed, delta 1e-5. Errors of margins are mean total variations over all
columns, pairs and triples in public bins, the label among them; Wasserstein distances are in parts
of the public range. Adult has the public bins of `benchmarks.peers.tables` ("bins") or edges that
are released ("knots"), other tables edges that are released, or the public bins that peers see
("bins"). Of other tables every fifth row is held out, and learners see at most 10,000
fabricated rows. Run as ``python -m benchmarks.bench_fabricated_tables [adult] [others]
[growth]``, which keeps what was measured of the other parts.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import wasserstein_distance
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from benchmarks.peers import tables as adult_tables
from benchmarks.recording import RESULTS, timed, write
from sfumato import Fabricator, TableBounds

SEED, RUNS = 0, 5
MAX_TRAINING_ROWS = 10_000  # rows
PARTS = 10  # public bins of other tables, equal in width


def adult_facts() -> dict[str, Any]:
    facts: dict[str, Any] = {
        name: {"type": "int64", "lower": edges[0] + 1, "upper": edges[-1]}
        for name, (_, edges) in adult_tables.EDGES.items()
    }
    return {**facts, **adult_tables.VALUES, adult_tables.LABEL: [0, 1]}


def other_tables() -> Iterator[tuple[str, pd.DataFrame, dict[str, Any], str]]:
    """Yield tables with ranges that are rounded outwards; categories are those of the table."""
    folder = Path(os.environ["SFUMATO_DATA"]) / "tabular"
    for name, file, target in (
        ("bank marketing", "bank_marketing.csv.gz", "y"),
        ("breast cancer", "breast_cancer_wdbc.csv.gz", None),
        ("diamonds", "diamonds.csv.gz", "cut"),
        ("doctor contacts", "doctor_contacts.csv.gz", None),
    ):
        table = pd.read_csv(folder / file).dropna()
        label = target if target in table.columns else _label_of(table)
        facts: dict[str, Any] = {}
        for column in table.columns:
            values = table[column]
            if column == label or values.dtype.kind not in "iuf":
                facts[column] = sorted(values.unique().tolist())
                continue
            kind = "int64" if values.dtype.kind in "iu" else "double"
            low, high = float(values.min()), float(values.max())
            facts[column] = {
                "type": kind,
                "lower": float(np.floor(low)),
                "upper": float(np.ceil(high + 1e-9)) + (high == low),
            }
        yield name, table, facts, label


def public_bins(facts: dict[str, Any]) -> dict[str, list[float]]:
    """Return the edges of `codes`, moved so that a value on an edge lies below it there too."""
    found = {}
    for name, fact in facts.items():
        if not isinstance(fact, list):
            edges = np.linspace(fact["lower"], fact["upper"], PARTS + 1)
            moved = 0.25 if fact["type"] == "int64" else 1e-9 * (edges[-1] - edges[0])
            found[name] = (edges + moved).tolist()
    return found


def parted(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows to fabricate from, and every fifth row to test learners on."""
    is_test = np.arange(len(table)) % 5 == 0
    return table[~is_test], table[is_test]


def learned_scores(
    made: pd.DataFrame, test: pd.DataFrame, facts: dict[str, Any], label: str
) -> list[float]:
    """Accuracy on test rows of a forest and of a logistic regression on fabricated rows."""
    categories = [n for n, fact in facts.items() if isinstance(fact, list) and n != label]
    rows = made.iloc[:MAX_TRAINING_ROWS]
    found = []
    for learner in (
        RandomForestClassifier(n_jobs=1, random_state=0),
        LogisticRegression(max_iter=500),
    ):
        encoder = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), categories), remainder=StandardScaler()
        )
        model = make_pipeline(encoder, learner)
        if rows[label].nunique() < 2:
            found.append(float(np.mean(test[label] == rows[label].iloc[0])))
            continue
        model.fit(rows.drop(columns=label), rows[label])
        found.append(float(model.score(test.drop(columns=label), test[label])))
    return found


def _label_of(table: pd.DataFrame) -> str:
    few = [c for c in table.columns if table[c].nunique() == 2]
    return few[0] if few else str(table.columns[-1])


def codes(table: pd.DataFrame, facts: dict[str, Any]) -> tuple[np.ndarray, list[int]]:
    columns, sizes = [], []
    for name, fact in facts.items():
        if isinstance(fact, list):
            columns.append(pd.Categorical(table[name], fact).codes.astype(int))
            sizes.append(len(fact))
        else:
            inner = np.linspace(fact["lower"], fact["upper"], PARTS + 1)[1:-1]
            columns.append(np.searchsorted(inner, table[name]))
            sizes.append(PARTS)
    return np.column_stack(columns), sizes


def margins(made: np.ndarray, real: np.ndarray, sizes: list[int], order: int) -> float:
    found = []
    for columns in combinations(range(len(sizes)), order):
        shape = [sizes[c] for c in columns]
        shares = [
            np.bincount(np.ravel_multi_index(t[:, columns].T, shape), minlength=np.prod(shape))
            / len(t)
            for t in (made, real)
        ]
        found.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(found))


def distances(made: pd.DataFrame, real: pd.DataFrame, facts: dict[str, Any]) -> dict[str, float]:
    return {
        name: round(
            wasserstein_distance(made[name], real[name]) / (fact["upper"] - fact["lower"]), 5
        )
        for name, fact in facts.items()
        if not isinstance(fact, list)
    }


def fabricated(
    table: pd.DataFrame, facts: dict[str, Any], label: str, epsilon: float, **options: Any
) -> tuple[pd.DataFrame, float]:
    usual = {"relation": "add_or_remove_one", "delta": 1e-5, "epsilon": epsilon}
    bounds = TableBounds.from_dict(facts, target=label)
    model = Fabricator(bounds=bounds, **{**usual, **options})
    made, seconds = timed(lambda: model.fit_fabricate(table))
    return made[list(facts)], seconds["cpu_s"]


def measured(
    name: str,
    train: pd.DataFrame,
    facts: dict[str, Any],
    label: str,
    epsilon: float,
    learned_runs: int = 0,
    **options: Any,
) -> dict[str, Any]:
    is_adult = name.startswith("Adult")
    if is_adult:
        real, sizes = adult_tables.codes(train), adult_tables.sizes()
        test = adult_tables.adult("test")
    else:
        train, test = parted(train)
        real, sizes = codes(train, facts)
    rows, seconds, far, learned = [], [], [], []
    for run in range(RUNS):
        made, cpu = fabricated(train, facts, label, epsilon, random_state=run, **options)
        coded = adult_tables.codes(made) if is_adult else codes(made, facts)[0]
        order = 3 if len(sizes) <= 12 else 2
        rows.append([margins(coded, real, sizes, k) for k in range(1, order + 1)])
        seconds.append(cpu)
        far.append(distances(made, train, facts))
        if run >= learned_runs:
            continue
        if is_adult:
            found = adult_tables.scores(made[[*train.columns]], train, test)
            learned.append(list(found.values())[:2])
        else:
            learned.append(learned_scores(made, test, facts, label))
    answer = {
        "table": name,
        "rows": len(train),
        "columns": len(facts),
        "epsilon": epsilon,
        "method": options.get("method", "tree"),
        "margins": np.round(np.mean(rows, axis=0), 4).tolist(),
        "wasserstein": {k: round(float(np.mean([f[k] for f in far])), 5) for k in far[0]},
        "cpu_s": round(float(np.median(seconds)), 3),
    }
    if learned:
        forest, logistic = np.round(np.mean(learned, axis=0), 4).tolist()
        answer |= {"forest": forest, "logistic": logistic, "learned_runs": len(learned)}
    print(answer, flush=True)
    return answer


def growth(n_rows: int = 50_000) -> list[dict[str, Any]]:
    """CPU seconds by the number of columns: two thirds numbers, one third four categories."""
    rng, found = np.random.default_rng(SEED), []
    for n_columns in (15, 50, 100, 200):
        hidden = rng.normal(size=(n_rows, max(2, n_columns // 10)))
        columns: dict[str, Any] = {}
        facts: dict[str, Any] = {}
        for k in range(n_columns - 1):
            x = 0.8 * hidden[:, k % hidden.shape[1]] + 0.6 * rng.normal(size=n_rows)
            is_category = k % 3 == 0
            columns[f"c{k}"] = np.digitize(x, [-1, 0, 1]).astype(str) if is_category else x
            facts[f"c{k}"] = list("0123") if is_category else {"lower": -6, "upper": 6}
        columns["y"], facts["y"] = np.where(hidden[:, 0] > 0, "a", "b"), ["a", "b"]
        _, seconds = fabricated(pd.DataFrame(columns), facts, "y", 1.0, random_state=0)
        found.append({"columns": n_columns, "cpu_s": round(seconds, 2)})
        print(found[-1], flush=True)
    return found


def adult() -> Iterator[dict[str, Any]]:
    train, facts = adult_tables.adult("data"), adult_facts()
    bins = {n: [edge + 0.5 for edge in e] for n, (_, e) in adult_tables.EDGES.items()}
    for epsilon in (1.0, 0.1):
        for name, options in (
            ("Adult, bins", {"bins": bins}),
            ("Adult, knots", {}),
            ("Adult, Gaussians", {"method": "moments"}),
        ):
            yield measured(name, train, facts, adult_tables.LABEL, epsilon, RUNS, **options)


def others() -> Iterator[dict[str, Any]]:
    for name, table, own, label in other_tables():
        train, test = parted(table)
        real_rows = np.round(learned_scores(train, test, own, label), 4).tolist()
        for named, options in (
            (name, {"method": "tree"}),
            (f"{name}, bins", {"method": "tree", "bins": public_bins(own)}),
            (name, {"method": "moments"}),
        ):
            found = measured(named, table, own, label, 1.0, RUNS, **options)
            yield found | dict(zip(("real_forest", "real_logistic"), real_rows, strict=True))


def main() -> None:
    path, parts = RESULTS / "fabricated_tables.json", {"adult": adult, "others": others}
    kept = json.loads(path.read_text()) if path.exists() else {}
    asked = sys.argv[1:] or [*parts, "growth"]
    numbers = {n["table"] + n["method"] + str(n["epsilon"]): n for n in kept.get("numbers", [])}
    for part in asked:
        for found in parts[part]() if part in parts else ():
            numbers[found["table"] + found["method"] + str(found["epsilon"])] = found
    rates = growth() if "growth" in asked else kept.get("growth_at_50000_rows", [])
    listed = sorted(numbers.values(), key=lambda n: (-n["epsilon"], n["table"], n["method"]))
    write(path.stem, listed, seed=SEED, runs=RUNS, growth_at_50000_rows=rates)


if __name__ == "__main__":
    main()
