"""Fabricated tables: correlations, means, margins, boosting and CPU time, beside MST and AIM.

One record added or removed, delta 1e-5, five runs. Correlations are Pearson's of columns of
numbers (a numeric target among them, flags not): the mean absolute error of the five strongest, of
all pairs, and made over real of the strongest. A mean's factor is made over real or real over
made, of columns whose mean is not near zero. Margins are mean total variations over columns, pairs
and triples in public bins, the target among them; triples where columns are few. Boosting
(HistGradientBoosting) learns from made rows and is scored on real ones that were held out: AUC of
two classes, accuracy of more, R2 of a number. Peers see the public bins, a number is drawn evenly
inside its bin; one run each, at epsilon 1.
Run as ``python -m benchmarks.bench_fabricated_tables [ours | speed | mst | aim][:TABLE] ...``,
which keeps what was measured of the others; SFUMATO_PEERS_PYTHON names Pythons with mbi and dpmm.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import OrdinalEncoder

from benchmarks.peers import tables as adult_tables
from benchmarks.peers.asking import ask
from benchmarks.recording import RESULTS, timed, write
from sfumato import Fabricator, TableBounds
from sfumato.datasets import load

SEED, RUNS, DELTA = 0, 5, 1e-5
EPSILONS = (1.0, 3.0)
BINS, MAX_TRIPLES = 10, 17  # public bins of a column of numbers; columns up to which triples count
PEERS = {"mst": ("mbi", "MST (mbi)"), "aim": ("dpmm", "AIM (dpmm), at most 48 rounds")}
PEER_LIMIT = 480.0  # CPU seconds
PATH = RESULTS / "fabricated_tables.json"
Frame, Facts = pd.DataFrame, dict[str, Any]


def facts_of(table: Frame, target: str) -> Facts:
    """Return ranges rounded outwards, and the categories of the table; few-valued targets too."""
    facts: Facts = {}
    for name in table.columns:
        values = table[name]
        is_label = name == target and values.nunique() <= 10
        if is_label or values.dtype.kind not in "iuf":
            facts[name] = sorted(values.unique().tolist())
            continue
        kind = "int64" if values.dtype.kind in "iu" else "double"
        low, high = np.floor(values.min()), np.ceil(values.max())
        facts[name] = {"type": kind, "lower": float(low), "upper": float(high + (high == low))}
    return facts


def wide(seed: int = SEED, n_rows: int = 10_000) -> Frame:
    """Return 10 numbers, 44 flags and seven classes; every fifth row is held out later."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n_rows, 5))
    numbers = hidden @ rng.normal(size=(5, 10)) + 0.7 * rng.normal(size=(n_rows, 10))
    numbers[:, 7:] = np.exp(numbers[:, 7:] / 2)
    columns: Facts = {f"number{k}": numbers[:, k].round(3) for k in range(10)}
    for prefix, size in (("area", 4), ("soil", 40)):
        scores = 1.5 * hidden @ rng.normal(size=(5, size)) + rng.gumbel(size=(n_rows, size))
        chosen = (scores + rng.normal(size=size)).argmax(axis=1)
        columns |= {f"{prefix}{k}": (chosen == k).astype(int) for k in range(size)}
    scores = 1.2 * hidden @ rng.normal(size=(5, 7)) + 0.3 * hidden[:, :1] * hidden[:, 1:2]
    columns["cover"] = (scores + 0.7 * rng.gumbel(size=scores.shape)).argmax(axis=1)
    return pd.DataFrame(columns)


def table_of(name: str) -> tuple[Frame, Frame, Facts, str]:
    """Return training rows, test rows, public facts and the target of a table."""
    if name == "Adult":
        data = load("adult")
        train, test = (pd.DataFrame(data.table(rows)) for rows in data.parts())
        ranges = {"age": (16, 100), "fnlwgt": (10_000, 1_500_000), "education-num": (1, 16)}
        ranges |= {"capital-gain": (0, 100_000), "capital-loss": (0, 5000)}
        ranges |= {"hours-per-week": (1, 99)}
        facts: Facts = {}
        for column in train:
            low_high = ranges.get(str(column).replace("_", "-"))
            facts[str(column)] = sorted(set(train[column]) | set(test[column]))
            if low_high is not None:
                facts[str(column)] = {"type": "int64", "lower": low_high[0], "upper": low_high[1]}
        return train, test, facts, "income"
    if name == "Adult, 12 columns":
        facts = {
            column: {"type": "int64", "lower": edges[0] + 1, "upper": edges[-1]}
            for column, (_, edges) in adult_tables.EDGES.items()
        }
        facts |= {**adult_tables.VALUES, adult_tables.LABEL: [0, 1]}
        return adult_tables.adult("data"), adult_tables.adult("test"), facts, adult_tables.LABEL
    if name == "wide":
        table, target = wide(), "cover"
    else:
        folder = Path(os.environ["SFUMATO_DATA"]) / "tabular"
        file, target = FILES[name]
        table = pd.read_csv(folder / f"{file}.csv.gz").dropna()
    is_test = np.arange(len(table)) % 5 == 0
    return table[~is_test], table[is_test], facts_of(table, target), target


FILES = {
    "bank": ("bank_marketing", "y"),
    "diamonds": ("diamonds", "price"),
    "doctor contacts": ("doctor_contacts", "mdu"),
}
TABLES = ("Adult", "Adult, 12 columns", *FILES, "wide")


def codes_of(table: Frame, facts: Facts) -> tuple[np.ndarray, list[int]]:
    """Return all columns in public bins, and how many bins each has."""
    if adult_tables.LABEL in facts:
        return adult_tables.codes(table), adult_tables.sizes()
    columns, sizes = [], []
    for name, fact in facts.items():
        if isinstance(fact, list):
            columns.append(pd.Categorical(table[name], fact).codes.astype(int))
            sizes.append(len(fact))
            continue
        width, n_bins = bins_of(fact)
        codes = ((table[name] - fact["lower"]) / width * n_bins).astype(int)
        columns.append(np.clip(codes, 0, n_bins - 1))
        sizes.append(n_bins)
    return np.column_stack(columns), sizes


def bins_of(fact: Facts) -> tuple[float, int]:
    """Return the width of a range and how many bins it has; a whole number is in one bin."""
    width = fact["upper"] - fact["lower"] + (fact["type"] == "int64")
    return width, int(min(BINS, width)) if fact["type"] == "int64" else BINS


def decoded(codes: np.ndarray, facts: Facts) -> Frame:
    """Draw numbers evenly inside their bins."""
    if adult_tables.LABEL in facts:
        return adult_tables.decoded(codes)
    rng, made = np.random.default_rng(SEED), {}
    for (name, fact), code in zip(facts.items(), codes.T, strict=True):
        if isinstance(fact, list):
            made[name] = pd.Series(fact).to_numpy()[code]
            continue
        width, n_bins = bins_of(fact)
        drawn = fact["lower"] + (code + rng.random(len(code))) * width / n_bins
        made[name] = np.floor(drawn) if fact["type"] == "int64" else drawn
    return pd.DataFrame(made)


def margins(made: np.ndarray, real: np.ndarray, sizes: list[int], order: int) -> float:
    """Return the mean total variation of all tables of so many columns."""
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


def boosting(made: Frame, test: Frame, facts: Facts, target: str) -> float:
    """Return the score on test rows of boosting that learned from made rows."""
    features = [name for name in facts if name != target]
    listed = [name for name in features if isinstance(facts[name], list)]
    parts = [rows[features].copy() for rows in (made, test)]
    if listed:
        encoder = OrdinalEncoder(categories=[facts[name] for name in listed])
        for rows in parts:
            rows[listed] = encoder.fit_transform(rows[listed].astype(object))
    about = {"categorical_features": [name in listed for name in features], "random_state": 0}
    if not isinstance(facts[target], list):
        regressor = HistGradientBoostingRegressor(**about).fit(parts[0], made[target])
        return float(regressor.score(parts[1], test[target]))
    if made[target].nunique() < 2:
        return (
            0.5 if len(facts[target]) == 2 else float((test[target] == made[target].iloc[0]).mean())
        )
    model = HistGradientBoostingClassifier(**about).fit(parts[0], made[target])
    if len(facts[target]) > 2:
        return float(model.score(parts[1], test[target]))
    return float(
        roc_auc_score(test[target] == model.classes_[1], model.predict_proba(parts[1])[:, 1])
    )


def figures(made: Frame, train: Frame, test: Frame, facts: Facts, target: str) -> dict[str, Any]:
    """Return all measures of one made table."""
    numbers = [n for n, fact in facts.items() if isinstance(fact, dict) and bins_of(fact)[1] > 2]
    upper = np.triu_indices(len(numbers), 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        real, here = (
            np.nan_to_num(np.corrcoef(rows[numbers].astype(float).to_numpy().T))[upper]
            for rows in (train, made)
        )
    strong = np.argsort(-np.abs(real), kind="stable")[:5]
    factors = {}
    for name in numbers:
        means = [float(rows[name].astype(float).mean()) for rows in (train, made)]
        if abs(means[0]) > 0.05 * float(train[name].astype(float).std()):
            ratio = means[1] / means[0]
            factors[name] = max(ratio, 1 / ratio) if ratio > 1e-3 else 1e3
    real_codes, sizes = codes_of(train, facts)
    made_codes, _ = codes_of(made, facts)
    orders = (1, 2, 3) if len(sizes) <= MAX_TRIPLES else (1, 2)
    return {
        "strongest_kept": float(np.clip(here[strong[0]] / real[strong[0]], -2, 2)),
        "five_strongest": float(np.abs(here - real)[strong].mean()),
        "correlations": float(np.abs(here - real).mean()),
        "worst_mean": max(factors.values()),
        "worst_column": max(factors, key=lambda name: factors[name]),
        "margins": [margins(made_codes, real_codes, sizes, k) for k in orders],
        "boosting": boosting(made, test, facts, target),
    }


def mean_of(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means over runs; the column whose mean is most often the worst."""
    found: dict[str, Any] = {}
    for key in runs[0]:
        values = [run[key] for run in runs]
        if isinstance(values[0], str):
            found[key] = max(set(values), key=values.count)
        else:
            found[key] = np.round(np.mean(values, axis=0), 4).tolist()
    return found


def fabricated(train: Frame, facts: Facts, target: str, epsilon: float, **more: Any) -> Frame:
    """Return fabricated rows, by the public path and its defaults."""
    bounds = TableBounds.from_dict(facts, target=target)
    promise = {"epsilon": epsilon, "delta": DELTA, "relation": "add_or_remove_one", **more}
    return Fabricator(bounds=bounds, **promise).fit(train).fabricate()[list(facts)]


def ours(name: str, epsilon: float) -> dict[str, Any]:
    train, test, facts, target = table_of(name)
    runs = []
    for run in range(RUNS):
        made, seconds = timed(
            lambda run=run: fabricated(train, facts, target, epsilon, random_state=run)
        )
        runs.append(figures(made, train, test, facts, target) | {"cpu_s": seconds["cpu_s"]})
    real = boosting(train, test, facts, target)
    return mean_of(runs) | {"runs": RUNS, "real_boosting": round(real, 4)}


def peer(method: str, name: str, epsilon: float) -> dict[str, Any]:
    train, test, facts, target = table_of(name)
    codes, sizes = codes_of(train, facts)
    often = {"runs": 1, "limit": PEER_LIMIT}
    data = {"table": codes, "sizes": np.array(sizes)}
    answer = ask(PEERS[method][0], method, epsilon=epsilon, delta=DELTA, **often, **data)
    if answer is None or "failed" in answer:
        return {"failed": "not installed" if answer is None else answer["failed"]}
    made = decoded(np.array(answer["releases"][0]), facts)
    run = figures(made, train, test, facts, target) | {"cpu_s": answer["cpu_s"][0]}
    return mean_of([run]) | {"runs": 1, "version": answer["version"]}


def speed() -> list[dict[str, Any]]:
    """Return CPU seconds of fit and rows: 50,000 x 15, 54 columns, and 10,000 rows of many."""
    rng, found = np.random.default_rng(SEED), []
    for n_rows, n_columns in ((50_000, 15), (50_000, 54), (1_000_000, 15)):
        hidden = rng.normal(size=(n_rows, max(2, n_columns // 10)))
        columns: Facts = {}
        facts: Facts = {}
        for k in range(n_columns - 1):
            x = 0.8 * hidden[:, k % hidden.shape[1]] + 0.6 * rng.normal(size=n_rows)
            is_category = k % 3 == 0
            columns[f"c{k}"] = np.digitize(x, [-1, 0, 1]).astype(str) if is_category else x
            facts[f"c{k}"] = list("0123") if is_category else {"lower": -6, "upper": 6}
        columns["y"], facts["y"] = np.where(hidden[:, 0] > 0, "a", "b"), ["a", "b"]
        bounds = TableBounds.from_dict(facts, target="y")
        model = Fabricator(epsilon=1.0, delta=DELTA, bounds=bounds, random_state=0)
        _, fit = timed(lambda m=model, c=columns: m.fit(pd.DataFrame(c)))
        _, sample = timed(lambda m=model: m.sample(10_000))
        _, again = timed(lambda m=model: m.sample(10_000))
        about = {"fit_cpu_s": fit["cpu_s"], "first_sample_cpu_s": sample["cpu_s"]}
        about["sample_cpu_s"] = again["cpu_s"]
        found.append({"rows": n_rows, "columns": n_columns, **about})
        print(found[-1], flush=True)
    return found


def main() -> None:
    kept = json.loads(PATH.read_text()) if PATH.exists() else {}
    numbers = {(n["table"], n["method"], n["epsilon"]): n for n in kept.get("numbers", [])}
    times = kept.get("speed", [])
    for asked in sys.argv[1:] or ["ours", "speed", *PEERS]:
        method, _, only = asked.partition(":")
        if method == "speed":
            times = speed()
        for name in TABLES if method != "speed" else ():
            for epsilon in EPSILONS if method == "ours" else EPSILONS[:1]:
                if only not in ("", name):
                    continue
                found = ours(name, epsilon) if method == "ours" else peer(method, name, epsilon)
                named = "Fabricator" if method == "ours" else PEERS[method][1]
                key = (name, named, epsilon)
                numbers[key] = {"table": name, "method": named, "epsilon": epsilon, **found}
                print(numbers[key], flush=True)
                write(PATH.stem, [numbers[k] for k in sorted(numbers)], seed=SEED, speed=times)
    write(PATH.stem, [numbers[k] for k in sorted(numbers)], seed=SEED, speed=times)


if __name__ == "__main__":
    main()
