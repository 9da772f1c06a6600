"""Private functions: speed, beside Gaussian process samplers.

python -m benchmarks.bench_functions [speed] [rivals]

GPyTorch is compared where SFUMATO_GPYTORCH names a Python that has it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern

from benchmarks.recording import best_of, write
from sfumato import Bounds
from sfumato.functions import release_function
from sfumato.kernels import ExponentialKernel, GaussianKernel, KernelExpansion, MaternKernel
from sfumato.mechanisms import GaussianProcessMechanism

UNIT = Bounds(lower=0.0, upper=1.0)
MECHANISM = GaussianProcessMechanism.calibrate(sensitivity=1e-3, epsilon=1.0, delta=1e-5)
GAUSSIAN, EXPONENTIAL, MATERN = GaussianKernel(0.1), ExponentialKernel(10.0), MaternKernel(1.5, 0.1)
SEED = 0


def wave(X: np.ndarray) -> np.ndarray:
    return np.sin(6 * X[:, 0])


def density(n_features: int) -> KernelExpansion:
    rows = np.random.default_rng(SEED).uniform(size=(1000, n_features))
    return KernelExpansion(GAUSSIAN, rows, np.full(1000, 1e-3))


def release(function: Any, kernel: Any, form: str, **options: Any) -> Any:
    return release_function(function, kernel=kernel, mechanism=MECHANISM, form=form, **options)


# Speed -----------------------------------------------------------------------------------------


def batch_numbers() -> list[dict[str, Any]]:
    line, square = np.linspace(0, 1, 10_000), (np.linspace(0, 1, 300),) * 2
    cases: dict[str, Callable[[], Any]] = {
        "gaussian, 10,000 points": lambda: release(density(1), GAUSSIAN, "batch", points=line),
        "gaussian, 300 x 300": lambda: release(density(2), GAUSSIAN, "batch", points=square),
        "exponential, 10,000 points": lambda: release(wave, EXPONENTIAL, "batch", points=line),
        "exponential, 300 x 300": lambda: release(wave, EXPONENTIAL, "batch", points=square),
        "gaussian features, one axis": lambda: release(
            density(1), GAUSSIAN, "features", domain=UNIT
        ),
        "gaussian features, two axes": lambda: release(
            density(2), GAUSSIAN, "features", domain=UNIT
        ),
    }
    return [{"release": name, **best_of(5, task)} for name, task in cases.items()]


def speed() -> None:
    write(
        "functions_speed",
        {"batch": batch_numbers()},
        seed=SEED,
        rows=1000,
    )


# Rivals ----------------------------------------------------------------------------------------

GPYTORCH = """
import json, sys, time
import gpytorch, torch
torch.set_num_threads(1)
from gpytorch.kernels import MaternKernel, RBFKernel
kernels = {"gaussian": RBFKernel(), "matern 1/2": MaternKernel(nu=0.5)}
found = {}
for name, kernel in kernels.items():
    kernel.lengthscale = 0.1
    for count in json.loads(sys.argv[1]):
        x = torch.linspace(0, 1, count, dtype=torch.float64)[:, None]
        best = float("inf")
        for _ in range(3 if count < 2000 else 1):
            start = time.process_time()
            with torch.no_grad():
                law = gpytorch.distributions.MultivariateNormal(
                    torch.zeros(count, dtype=torch.float64), kernel.double()(x))
                try:
                    law.rsample()
                except Exception as error:
                    found[f"{name} {count}"] = type(error).__name__
                    break
            best = min(best, time.process_time() - start)
        else:
            found[f"{name} {count}"] = best
print(json.dumps({"version": gpytorch.__version__, "torch": torch.__version__, "cpu_s": found}))
"""


def rivals() -> None:
    """One draw at n equally spaced points of a line: here with f, charge and exact noise."""
    counts = (500, 1000, 2000)
    theirs = _gpytorch(counts)
    numbers = []
    for name, kernel, other, function in (
        ("gaussian", GAUSSIAN, RBF(0.1), density(1)),
        ("matern 1/2", EXPONENTIAL, Matern(0.1, nu=0.5), wave),
    ):
        for count in counts:
            x, repeats = np.linspace(0, 1, count), 3 if count < 2000 else 1
            prior = GaussianProcessRegressor(other, optimizer=None)
            numbers.append(
                {
                    "kernel": name,
                    "points": count,
                    "sfumato_cpu_s": best_of(
                        repeats, lambda k=kernel, f=function, x=x: release(f, k, "batch", points=x)
                    )["cpu_s"],
                    "scikit_learn_cpu_s": best_of(
                        repeats, lambda p=prior, x=x: p.sample_y(x[:, None], random_state=0)
                    )["cpu_s"],
                    "gpytorch_cpu_s": _rounded(theirs.get("cpu_s", {}).get(f"{name} {count}")),
                }
            )
    versions = {"gpytorch": theirs.get("version"), "torch": theirs.get("torch")}
    write("functions_rivals", numbers, seed=SEED, gpytorch=versions)


def _gpytorch(counts: tuple[int, ...]) -> dict[str, Any]:
    interpreter = os.environ.get("SFUMATO_GPYTORCH")
    if interpreter is None:
        return {}
    command = [interpreter, "-c", GPYTORCH, json.dumps(counts)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def _rounded(seconds: Any) -> Any:
    return round(seconds, 4) if isinstance(seconds, float) else seconds


TASKS = {"speed": speed, "rivals": rivals}


def main() -> None:
    for name in sys.argv[1:] or TASKS:
        TASKS[name]()


if __name__ == "__main__":
    main()
