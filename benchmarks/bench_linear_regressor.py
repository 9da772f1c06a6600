"""Both algorithms of `PrivateLinearRegressor`, beside linear regression without privacy.

SFUMATO_DATA=... python -m benchmarks.bench_linear_regressor

Diamonds and doctor contacts as in bench_tables_models, defaults only, everything charged,
add_or_remove_one, delta 1e-5, five runs. Clip, steps and shares were chosen on held-out *training*
rows of the same two tables. JSON: results/linear_regressor.json.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.bench_tables_models import DELTA, EPSILONS, RUNS, plain, score, summary
from benchmarks.model_tables import Table, table
from benchmarks.recording import write
from sfumato import PrivateLinearRegressor
from sfumato.models.linear import ALGORITHMS

NAMES = ("doctor", "diamonds")


def main() -> None:
    numbers: list[dict[str, Any]] = []
    for name in NAMES:
        data = table(name)
        rows = [ours(data, algorithm, epsilon) for algorithm in ALGORITHMS for epsilon in EPSILONS]
        rows += [row for row in plain(data, "R2") if row["model"].startswith("linear")]
        numbers += [{"table": name, "metric": "R2", "rows": len(data.train), **row} for row in rows]
    write("linear_regressor", numbers, seed=None, delta=DELTA, relation="add_or_remove_one")


def ours(data: Table, algorithm: str, epsilon: float) -> dict[str, Any]:
    """Fit five times."""
    scores, cpu = [], time.process_time()
    for _ in range(RUNS):
        model = PrivateLinearRegressor(
            algorithm=algorithm,
            epsilon=epsilon,
            delta=DELTA,
            relation="add_or_remove_one",
            bounds=data.bounds,
        ).fit(data.train, data.y_train)
        scores.append(score(model, data, "R2"))
    seconds = (time.process_time() - cpu) / RUNS
    name = f"PrivateLinearRegressor, {algorithm}"
    return {"model": name, "epsilon": epsilon, **summary(scores, seconds)}


if __name__ == "__main__":
    main()
