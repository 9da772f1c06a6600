"""Promises of additive models: missing cells are information, and bands are honest.

python -m benchmarks.bench_table_promises

Missing cells: two made-up tables of 5,000 records, in one of which cells are missing at random
given another column, in the other by what they would say. Area under the ROC curve on all later
records, for a model of all records and for one of the complete records alone, at three budgets.
Bands: the share of columns whose whole curve without noise on its gradients lies in its band.
JSON: results/table_missing.json and results/explanation_bands.json.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.recording import write
from sfumato import Bounds, PrivateAdditiveClassifier
from sfumato.mechanisms.base import taped
from tests.models.test_additive import noiseless_coef, synthetic

EPSILONS, DELTA, RUNS = (0.3, 1.0, 3.0), 1e-5, 5
BOX = Bounds(lower=-4.0, upper=4.0, labels=[0, 1])


def table(*, at_random: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """10,000 records of four numbers, the first of which is often missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(10_000, 4))
    score = 1.5 * X[:, 0] + np.abs(X[:, 1]) - 0.8 + 0.5 * X[:, 2]
    y = (rng.random(10_000) < 1 / (1 + np.exp(-1.5 * score))).astype(int)
    tells = X[:, 2] if at_random else X[:, 0]
    X[rng.random(10_000) < 1 / (1 + np.exp(-2 * tells)), 0] = np.nan
    return X, y


def model(epsilon: float, **options: Any) -> PrivateAdditiveClassifier:
    usual = {"delta": DELTA, "relation": "add_or_remove_one", "bounds": BOX}
    return PrivateAdditiveClassifier(epsilon=epsilon, **{**usual, **options})


def missing() -> list[dict[str, Any]]:
    found = []
    for at_random in (True, False):
        for epsilon in EPSILONS:
            areas = []
            for seed in range(RUNS):
                X, y = table(at_random=at_random, seed=seed)
                train, test = slice(5000), slice(5000, None)
                complete = ~np.isnan(X[train]).any(axis=1)
                fitted = (
                    model(epsilon).fit(X[train], y[train]),
                    model(epsilon).fit(X[train][complete], y[train][complete]),
                )
                areas.append(
                    [roc_auc_score(y[test], each.decision_function(X[test])) for each in fitted]
                )
            means = np.mean(areas, axis=0).round(4).tolist()
            kind = "at random" if at_random else "not at random"
            row = {"missing": kind, "epsilon": epsilon, "runs": RUNS}
            found.append({**row, "all_records": means[0], "complete_records": means[1]})
    return found


def bands() -> list[dict[str, Any]]:
    found = []
    for epsilon in EPSILONS:
        covered: list[bool] = []
        for seed in range(12):
            X, truth, uniform = synthetic(seed, 3000)
            y = (uniform < 1 / (1 + np.exp(-2 * truth))).astype(int)
            box = Bounds(lower=-1.0, upper=1.0, labels=[0, 1])
            fitted = model(epsilon, bounds=box, n_knots=5, n_steps=60, interactions=False)
            with taped() as tape:
                fitted.fit(X, y)
            exact, explanation = noiseless_coef(fitted, X, y, tape), fitted.explain()
            for i, part in enumerate(fitted._pair_rows.hats.slices):
                curve = explanation[f"x{i}"]
                off = curve.curve[0] - (exact[part] - exact[part] @ fitted.hat_means_[part])
                covered.append(bool((np.abs(off) <= curve.band[0] + 1e-9).all()))
        share = round(float(np.mean(covered)), 4)
        found.append({"epsilon": epsilon, "columns": len(covered), "covered": share, "asked": 0.95})
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    common = {"seed": None, "delta": DELTA, "relation": "add_or_remove_one"}
    write("table_missing", missing(), **common)
    write("explanation_bands", bands(), **common)


if __name__ == "__main__":
    main()
