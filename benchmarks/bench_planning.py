"""Planned and measured scores, on sets that made no curve of the plan.

The plan knows rows, columns, classes and the share of the largest class, and nothing of the rows;
the pilot spends a tenth of the budget. Six sets, three budgets and two models are the table that
counts; further models, numbers and three small tables stand beside it. Delta 1e-5, replace_one;
measured are the means of two fits with the budget that a pilot leaves, and two pilots.
SFUMATO_DATA=... python -m benchmarks.bench_planning [group ...]. JSON: results/planning.json. With
"again" the forecasts of kept pilots are made anew from their scores, as after a change of curves.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.model_selection import train_test_split

from benchmarks.model_tables import table
from benchmarks.recording import RESULTS, mnist, write
from sfumato import Bounds, TableBounds, TableEncoder
from sfumato.accounting.gaussian import mu_from_budget
from sfumato.planning import pilot, plan
from sfumato.planning.curves import SHARES, forecast
from sfumato.planning.models import CLASSIFIERS, REGRESSORS
from sfumato.search.scores import row_scores, scorer_for

RUNS, MOST_IMAGES, DELTA = 2, 10_000, 1e-5
EPSILONS = (0.3, 1.0, 3.0)
Data = tuple[Any, Any, Any, Any, Any]  # rows, targets, other rows, targets, bounds


def labelled(name: str) -> Data:
    """Adult and bank as they are; of diamonds the cut, of doctors whether one was seen."""
    data = table(name)
    if name in ("adult", "bank"):
        return data.train, data.y_train, data.test, data.y_test, data.bounds
    known = {each.name: each for each in data.bounds.columns}
    facts: dict[str, Any] = {}
    for column in data.train.columns:
        record = known[column].to_record()
        facts[column] = record.get("categories") or (record["lower"], record["upper"])
    train, test = data.train, data.test
    if name == "diamonds":
        y_train, y_test = train["cut"].to_numpy(), test["cut"].to_numpy()
        labels = facts.pop("cut")
        train, test = train.drop(columns="cut"), test.drop(columns="cut")
    else:
        y_train, y_test = (np.where(y > 0, "yes", "no") for y in (data.y_train, data.y_test))
        labels = ["no", "yes"]
    bounds = TableBounds.from_dict({**facts, "foretold": labels}, target="foretold")
    return train, y_train, test, y_test, bounds


def images(name: str) -> Data:
    """Pixels of the first images, rows of length 1."""
    train, y, test, y_test = mnist(name)
    unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (train, test)]
    first, bounds = slice(MOST_IMAGES), Bounds(norm=1.0, labels=range(10))
    return unit[0][first], y[first].astype(int), unit[1], y_test.astype(int), bounds


def small(loader: Any) -> Data:
    """Columns scaled to round public ranges, and rows to about the unit ball."""
    X, y = loader(return_X_y=True)
    high = 10.0 ** np.ceil(np.log10(np.abs(X).max(axis=0) + 1e-9))
    rows = (2 * X / high - 1) / np.sqrt(X.shape[1])
    parts = train_test_split(rows, y, random_state=0, test_size=0.3)
    bounds = Bounds(norm=1.0, labels=np.unique(y).tolist())
    return parts[0], parts[2], parts[1], parts[3], bounds


def numbered(name: str) -> Data:
    """The price of diamonds, and the number of visits to doctors."""
    data = table(name)
    return data.train, data.y_train, data.test, data.y_test, data.bounds


TABLES: dict[str, Any] = {
    name: lambda name=name: labelled(name) for name in ("adult", "bank", "diamonds", "doctor")
}
SIX = TABLES | {name: lambda name=name: images(name) for name in ("mnist", "fashion-mnist")}
SMALL = {
    "breast cancer": lambda: small(load_breast_cancer),
    "wine": lambda: small(load_wine),
    "iris": lambda: small(load_iris),
}
NUMBERS = {f"{name} (number)": lambda name=name: numbered(name) for name in ("diamonds", "doctor")}
GROUPS: dict[str, tuple[dict[str, Any], tuple[str, ...], tuple[float, ...]]] = {
    "six sets": (SIX, ("linear", "gaussian"), EPSILONS),
    "further models": (TABLES, ("additive",), EPSILONS),
    "slow models": (TABLES, ("kernel",), (1.0,)),
    "numbers": (NUMBERS, ("linear", "additive"), EPSILONS),
    "small tables": (SMALL, ("linear", "gaussian"), EPSILONS),
}


def measured(name: str, data: Data, model: str, epsilon: float) -> Iterator[dict[str, Any]]:
    """Compare a plan and pilots with what the rest of the budget gave."""
    X, y, X_test, y_test, bounds = data
    is_number = "number" in name
    if model == "kernel":
        X, y = X[:5000], y[:5000]
    options: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    extra = {"target_bounds": _ends(bounds)} if is_number else {}
    pilots = [pilot(X, y, bounds=bounds, model=model, **extra, **options) for _ in range(RUNS)]
    scores = []
    for _ in range(RUNS):
        kind = (REGRESSORS if is_number else CLASSIFIERS)[model]
        fitted = kind(epsilon=pilots[0].epsilon_left, delta=DELTA, bounds=bounds, **extra)
        fitted.fit(X, y)
        scores.append(row_scores(scorer_for(fitted, None), fitted, X_test, y_test).mean())
    mean = float(np.mean(scores))
    width = X.shape[1] if isinstance(bounds, Bounds) else TableEncoder(bounds).width
    counts = np.unique(y, return_counts=True)[1]
    shape = {"n_classes": 0} if is_number else {"n_classes": len(counts)}
    shape |= {} if is_number else {"majority": float(counts.max() / len(y))}
    planned = plan(len(y), width, models=[model], **shape, **options).models[0]
    for looked in pilots:
        yield {
            "set": name,
            "model": model,
            "epsilon": epsilon,
            "rows": len(y),
            "measured": mean,
            "planned": planned.accuracy,
            "planned_interval": planned.interval,
            "within_plan": planned.interval[0] <= mean <= planned.interval[1],
            "pilot": looked.accuracy,
            "pilot_score": looked.score,
            "pilot_interval": looked.interval,
            "within_pilot": looked.interval[0] <= mean <= looked.interval[1],
            "pilot_error": abs(looked.accuracy - mean),
        }


def _ends(bounds: Any) -> tuple[float, float]:
    record = bounds.target.to_record()
    return float(record["lower"]), float(record["upper"])


def totals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Count, group by group."""
    found = {}
    for group in dict.fromkeys(row["group"] for row in rows):
        of = [row for row in rows if row["group"] == group]
        found[group] = {
            "n": len(of),
            "within_plan": float(np.mean([row["within_plan"] for row in of])),
            "within_pilot": float(np.mean([row["within_pilot"] for row in of])),
            "pilot_error_median": float(np.median([row["pilot_error"] for row in of])),
            "pilot_within_0.02": float(np.mean([row["pilot_error"] <= 0.02 for row in of])),
        }
    return found


def forecast_again(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make the forecasts of kept pilots anew; their scores and what was measured stay."""
    widths: dict[str, int] = {}
    for name, load in (SIX | SMALL | NUMBERS).items():
        X, _, _, _, bounds = load()
        widths[name] = X.shape[1] if isinstance(bounds, Bounds) else TableEncoder(bounds).width
    found = []
    for row in rows:
        mu = mu_from_budget(row["epsilon"], DELTA)
        fit_mu, score_mu = (mu * SHARES[part] ** 0.5 for part in ("fit", "score"))
        foretold = forecast(
            "number" if "number" in row["set"] else "label",
            row["model"],
            level=row["rows"] * fit_mu,
            n_features=widths[row["set"]],
            score=row["pilot_score"],
            deviation=1 / score_mu / row["rows"],
        )
        low, high = foretold.interval
        found.append(
            row
            | {
                "pilot": foretold.score,
                "pilot_interval": foretold.interval,
                "within_pilot": low <= row["measured"] <= high,
                "pilot_error": abs(foretold.score - row["measured"]),
            }
        )
    return found


def main() -> None:
    """Run the groups that are named, or all; keep the others."""
    warnings.simplefilter("ignore")
    asked = sys.argv[1:] or list(GROUPS)
    path = RESULTS / "planning.json"
    kept = json.loads(path.read_text())["numbers"] if path.exists() else []
    words = {"delta": DELTA, "relation": "replace_one", "runs": RUNS}
    if asked == ["again"]:
        rows = forecast_again(kept)
        write("planning", rows, seed=None, totals=totals(rows), **words)
        return
    rows = [row for row in kept if row.get("group") in set(GROUPS) - set(asked)]
    for group in asked:
        sets, models, epsilons = GROUPS[group]
        for name, load in sets.items():
            data = load()
            for model in models:
                for epsilon in epsilons:
                    found = list(measured(name, data, model, epsilon))
                    rows += [{"group": group, **each} for each in found]
                    print(
                        group,
                        name,
                        model,
                        epsilon,
                        [round(rows[-1][key], 3) for key in ("measured", "planned", "pilot")],
                        rows[-1]["pilot_interval"],
                        file=sys.stderr,
                        flush=True,
                    )
        rows.sort(key=lambda row: list(GROUPS).index(row["group"]))
        write("planning", rows, seed=None, totals=totals(rows), **words)


if __name__ == "__main__":
    main()
