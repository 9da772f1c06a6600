"""Private functions: batch and online speed, growth of a query's cost, rivals, sudden deaths.

python -m benchmarks.bench_functions [speed] [growth] [rivals] [kills]

GPyTorch is compared where SFUMATO_GPYTORCH names a Python that has it.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern

from benchmarks.recording import best_of, timed, write
from sfumato import Bounds
from sfumato.functions import OnlineFunction, release_function
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


def online(function: Any, kernel: Any, **options: Any) -> OnlineFunction:
    return release(function, kernel, "online", domain=UNIT, **options)


def ask(f: OnlineFunction, points: np.ndarray, block: int) -> None:
    for start in range(0, len(points), block):
        f(points[start : start + block])


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


def online_numbers() -> list[dict[str, Any]]:
    rng = np.random.default_rng(SEED)
    line, plane = rng.uniform(size=100_000), rng.uniform(size=(10_000, 2))
    cases = [
        ("exponential, in memory, one by one", wave, EXPONENTIAL, line, 1, False),
        ("exponential, in memory, one block", wave, EXPONENTIAL, line, 100_000, False),
        ("exponential, SQLite, one by one", wave, EXPONENTIAL, line[:4000], 1, True),
        ("exponential, SQLite, blocks of 100", wave, EXPONENTIAL, line[:40_000], 100, True),
        ("gaussian, one axis, one by one", density(1), GAUSSIAN, line[:10_000], 1, False),
        ("gaussian, two axes, one by one", density(2), GAUSSIAN, plane, 1, False),
        ("matern 3/2, one by one", wave, MATERN, line[:1000], 1, False),
    ]
    numbers = []
    for name, function, kernel, points, block, durable in cases:
        with tempfile.TemporaryDirectory(dir=os.environ.get("SFUMATO_SCRATCH")) as folder:
            options = {"store": Path(folder) / "answers.db", "name": "f"} if durable else {}
            f = online(function, kernel, **options)
            seconds = timed(lambda f=f, p=points, b=block: ask(f, p, b))[1]
            numbers.append(
                {
                    "release": name,
                    "queries": len(points),
                    **seconds,
                    "queries_per_s": round(len(points) / seconds["wall_s"]),
                }
            )
    return numbers


def syncs_per_second() -> int:
    """How many small synced writes the disk takes: no durable answer can be faster alone."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("SFUMATO_SCRATCH")) as folder:
        handle = os.open(Path(folder) / "probe", os.O_CREAT | os.O_WRONLY)
        start = time.perf_counter()
        for _ in range(200):
            os.write(handle, bytes(512))
            os.fsync(handle)
        os.close(handle)
        return round(200 / (time.perf_counter() - start))


def speed() -> None:
    write(
        "functions_speed",
        {"batch": batch_numbers(), "online": online_numbers(), "syncs_per_s": syncs_per_second()},
        seed=SEED,
        rows=1000,
    )


# Growth ----------------------------------------------------------------------------------------


def growth() -> None:
    """Cost of a question after i different points were answered."""
    cases = [
        ("exponential", wave, EXPONENTIAL, (1000, 10_000, 100_000, 400_000), 1000),
        ("gaussian, one axis", density(1), GAUSSIAN, (1000, 10_000, 100_000), 1000),
        ("matern 3/2", wave, MATERN, (250, 500, 1000, 2000), 50),
    ]
    numbers = []
    for name, function, kernel, counts, probes in cases:
        points = np.random.default_rng(SEED).permutation(2**20)[: counts[-1] + 10_000] / 2**20
        f = online(function, kernel)
        for count in counts:
            f(points[len(f) : count])
            fresh = points[len(f) : len(f) + probes]
            seconds = timed(lambda f=f, x=fresh: ask(f, x, 1))[1]
            microseconds = round(1e6 * seconds["cpu_s"] / probes, 1)
            numbers.append({"kernel": name, "answered": count, "cpu_us_per_query": microseconds})
    write("functions_growth", numbers, seed=SEED)


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


# Sudden deaths ---------------------------------------------------------------------------------

RELEASES, SESSIONS = 50, 20


def _ask_and_tell(store: Path, name: str, seed: int, told: Any) -> None:
    f = OnlineFunction.resume(wave, store=store, name=name)
    generator = random.Random(seed)
    while True:
        block = [generator.random() for _ in range(generator.randrange(1, 6))]
        for x, answer in zip(block, f(block), strict=True):
            told.send((x, float(answer)))


def kills() -> None:
    """Kill -9 in the midst of 1000 sessions; compare every answer told with the one kept."""
    fork, generator = multiprocessing.get_context("fork"), random.Random(SEED)
    answers = contradicted = 0
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=os.environ.get("SFUMATO_SCRATCH")) as folder:
        store = Path(folder) / "answers.db"
        for number in range(RELEASES):
            name, told = f"release {number}", {}
            online(wave, EXPONENTIAL, store=store, name=name)
            for session in range(SESSIONS):
                here, there = fork.Pipe(duplex=False)
                seed = SESSIONS * number + session
                child = fork.Process(target=_ask_and_tell, args=(store, name, seed, there))
                child.start()
                there.close()
                told.update([here.recv()])
                time.sleep(generator.uniform(0, 0.02))
                os.kill(child.pid, signal.SIGKILL)
                child.join()
                with contextlib.suppress(EOFError):
                    while True:
                        x, answer = here.recv()
                        contradicted += told.setdefault(x, answer) != answer
                here.close()
            kept = OnlineFunction.resume(wave, store=store, name=name)(list(told))
            contradicted += int(np.sum(kept != list(told.values())))
            answers += len(told)
    numbers = {
        "sessions_killed": RELEASES * SESSIONS,
        "answers_told": answers,
        "contradicted": contradicted,
        "wall_s": round(time.perf_counter() - start, 1),
    }
    write("functions_kills", numbers, seed=SEED)


TASKS = {"speed": speed, "growth": growth, "rivals": rivals, "kills": kills}


def main() -> None:
    for name in sys.argv[1:] or TASKS:
        TASKS[name]()


if __name__ == "__main__":
    main()
