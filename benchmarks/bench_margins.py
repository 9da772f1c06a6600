"""Linear classifiers: how fast minimisers are found, and the paper's mechanisms as printed.

SFUMATO_DATA=... python -m benchmarks.bench_margins [speed] [printed]

`speed`: 10,000 rows of MNIST scaled to length 1, gradient norm of the mean objective below 1e-9.
`printed`: DPML and DPDR-DPML (Wang et al. 2024) on even against odd digits, as printed, with rows
inside the unit ball and with raw pixels, for which nothing is promised.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from benchmarks.recording import best_of, mnist, timed, write
from sfumato import Bounds, LinearClassifier, PrivatePCA
from sfumato.exceptions import RefutedGuaranteeWarning
from sfumato.linear.objective import LinearObjective
from sfumato.objectives.losses import loss_named
from sfumato.papers.feddpdr import PrintedDPML

N = 10_000
LAMBDA = 0.01
DELTA = 1e-4
RUNS = 3
PRINTED_SECONDS = {"DPML": 7873.23, "DPDR-DPML": 111.70}  # Table 3 of the paper, MNIST


def main() -> None:
    X, y, X_test, y_test = mnist()
    X, y = X[:N].astype(float), y[:N].astype(int)
    X_test, y_test = X_test.astype(float), y_test.astype(int)
    asked = sys.argv[1:] or ["speed", "printed"]
    if "speed" in asked:
        write("margins_speed", speed(_unit(X), y), seed=0)
    if "printed" in asked:
        write("margins_printed", printed(X, y, X_test, y_test), seed=None, delta=DELTA)


def speed(X: np.ndarray, y: np.ndarray) -> list[dict[str, Any]]:
    basis = np.linalg.eigh(X.T @ X)[1][:, -20:]
    numbers = []
    for width, rows in ((20, np.ascontiguousarray(X @ basis)), (784, X)):
        for name, n_classes, codes in (
            ("huber", 2, y % 2),
            ("softmax", 2, y % 2),
            ("huber", 10, y),
            ("softmax", 10, y),
        ):
            loss = loss_named(name, n_classes)
            objective = LinearObjective(loss, rows, loss.targets(codes, rows))
            noise = np.random.default_rng(0).normal(0, 30, objective.shape)
            weights = objective.minimise(noise, LAMBDA * N, 1e-9 * N)
            gradient = objective.gradient(weights) + noise + LAMBDA * N * weights
            numbers.append(
                {
                    "what": f"minimiser, {name}, {n_classes} classes, {width} features",
                    "gradient_norm": float(np.linalg.norm(gradient)) / N,
                    **best_of(3, lambda o=objective, b=noise: o.minimise(b, LAMBDA * N, 1e-9 * N)),
                }
            )
    ball, binary = Bounds(norm=1.0), Bounds(norm=1.0, labels=[0, 1])
    paper = {"delta": DELTA, "epsilon": 1.0, "bounds": binary}
    for what, task in (
        ("PrivatePCA, 784 features, 50 components", lambda: PrivatePCA(50, bounds=ball).fit(X)),
        ("DPML", lambda: PrintedDPML(**paper).fit(X, y % 2)),
        (
            "DPDR-DPML",
            lambda: PrintedDPML(20, **paper).fit(X, y % 2),
        ),
    ):
        printed_s = PRINTED_SECONDS.get(what)
        numbers.append({"what": what, "paper_s": printed_s, **best_of(3, task)})
    return numbers


def printed(X: Any, y: Any, X_test: Any, y_test: Any) -> list[dict[str, Any]]:
    numbers = []
    ceiling = _on_components(_unit(X), y % 2, _unit(X_test), y_test % 2)
    numbers.append({"what": "not private, 20 components", "rows": "unit", "accuracy": ceiling})
    for rows, scale, bounds in (
        ("unit", _unit, Bounds(norm=1.0, labels=[0, 1])),
        ("raw pixels", lambda x: x, Bounds(lower=0.0, upper=1.0, labels=[0, 1])),
    ):
        for epsilon in (0.1, 1.0, 10.0):
            for what, components in (("DPML", None), ("DPDR-DPML", 20)):
                numbers.append(
                    {
                        "what": what,
                        "rows": rows,
                        "claimed_epsilon": epsilon,
                        **_printed_runs(
                            scale(X), y % 2, scale(X_test), y_test % 2, epsilon, components, bounds
                        ),
                    }
                )
                print(numbers[-1], flush=True)
    return numbers


def _printed_runs(
    X: Any, y: Any, X_test: Any, y_test: Any, epsilon: float, components: int | None, bounds: Bounds
) -> dict[str, Any]:
    found, seconds = [], []
    for _ in range(RUNS):
        model = PrintedDPML(components, epsilon=epsilon, delta=DELTA, bounds=bounds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RefutedGuaranteeWarning)
            model, time = timed(lambda m=model: m.fit(X, y))
        found.append(model.score(X_test, y_test))
        seconds.append(time["wall_s"])
    promised = model.guarantee_
    return {
        "status": str(promised.status),
        "epsilon": None if promised.epsilon is None else round(promised.epsilon, 4),
        "accuracy": round(float(np.mean(found)), 4),
        "accuracy_std": round(float(np.std(found)), 4),
        "runs": RUNS,
        "fit_wall_s": round(float(np.mean(seconds)), 2),
    }


def _on_components(X: Any, y: Any, X_test: Any, y_test: Any) -> float:
    basis = np.linalg.eigh(X.T @ X)[1][:, -20:]
    model = LinearClassifier(loss="huber", regularization=LAMBDA * N, fit_intercept=False)
    return round(model.fit(X @ basis, y).score(X_test @ basis, y_test), 4)


def _unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


if __name__ == "__main__":
    main()
