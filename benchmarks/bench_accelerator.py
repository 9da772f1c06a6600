"""Where the time of a linear fit and of hulls goes on a GPU, and what else was tried.

SFUMATO_DATA=... python -m benchmarks.bench_accelerator [linear] [whole] [eigenvectors] [noise]
[steps] [hulls] [--runs 5]

`linear`: `PrivateLinearClassifier` with its defaults on scattering features of all of MNIST, the
features on the GPU, everything loaded; seconds of each fit and of its parts. `whole`: all of
CIFAR-10 from pixels to predictions, the first time with the libraries of the GPU still to be
loaded. The others are tries:
ways to the eigenvectors of the noisy moment, to the exact noise, to a step of the descent, and to
what hulls are made of. Needs PyTorch with CUDA. JSON: results/accelerator.json, part by part.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from joblib import cpu_count

from benchmarks.bench_frontier import FEATURES, images
from benchmarks.recording import RESULTS, write
from sfumato import Bounds, PrivateLinearClassifier
from sfumato.core import arrays
from sfumato.mechanisms import gaussian, sampling
from sfumato.mechanisms.entropy import random_words
from sfumato.models import linear as linear_models
from sfumato.sums.records import Records

EPSILON, DELTA = 1.0, 1e-5
WIDTH, N_ROWS, N_CLASSES = 3969, 60_000, 10
SCALE = 2.0**28.3  # of the noise on the moment, in cells of its grid


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    path = RESULTS / "accelerator.json"
    numbers = json.loads(path.read_text())["numbers"] if path.exists() else []
    for part in options.parts:
        numbers = [each for each in numbers if each["part"] != part]
        for found in PARTS[part](options.runs):
            numbers.append({"part": part, **found})
            print(numbers[-1], flush=True)
        words = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
        write("accelerator", numbers, seed=None, delta=DELTA, cores_used=cpu_count(), **words)


def seconds(task: Callable[[], Any], repeats: int = 3) -> float:
    """Mean wall seconds of a task on the GPU, after one to warm up."""
    task()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        task()
    torch.cuda.synchronize()
    return round((time.perf_counter() - start) / repeats, 5)


# A whole fit ----------------------------------------------------------------------------------


def linear(runs: int) -> Iterator[dict[str, Any]]:
    train, y, test, y_test, shape = images("mnist")
    maker = FEATURES["scattering"](shape)
    rows, queries = maker(train), maker(test)

    def fitted() -> Any:
        words: Any = {"epsilon": EPSILON, "delta": DELTA, "relation": "add_or_remove_one"}
        bounds = Bounds(norm=1.0, labels=range(N_CLASSES))
        return PrivateLinearClassifier(fit_intercept=False, bounds=bounds, **words).fit(rows, y)

    fitted()  # loads the libraries
    walls, accuracies = [], []
    for _ in range(runs):
        torch.cuda.synchronize()
        start = time.perf_counter()
        model = fitted()
        torch.cuda.synchronize()
        walls.append(round(time.perf_counter() - start, 3))
        accuracies.append(float(np.mean(model.predict(queries) == y_test)))
    yield {
        "what": "as it is",
        "fit_wall_s": round(float(np.mean(walls)), 3),
        "each": walls,
        "accuracy": round(float(np.mean(accuracies)), 4),
    }
    yield {"what": "seconds of its parts, one inside the other", **parts_of(fitted)}


def whole(runs: int) -> Iterator[dict[str, Any]]:
    train, y, test, y_test, shape = images("cifar10")
    bounds = Bounds(norm=1.0, labels=range(N_CLASSES))
    words: Any = {"epsilon": 3.0, "delta": DELTA, "relation": "add_or_remove_one"}
    for run in range(min(runs, 3)):
        model = PrivateLinearClassifier(fit_intercept=False, whiten=True, bounds=bounds, **words)
        marks = [time.perf_counter()]
        maker = FEATURES["best"](shape)
        rows = _noted(marks, maker, train)
        queries = _noted(marks, maker, test)
        _noted(marks, model.fit, rows, y)
        found = _noted(marks, model.predict, queries)
        spent = [round(end - start, 2) for start, end in itertools.pairwise(marks)]
        names = ("features_s", "features_test_s", "fit_s", "predict_s")
        yield {
            "what": f"CIFAR-10 from pixels to predictions, epsilon 3, time {run + 1}",
            **dict(zip(names, spent, strict=True)),
            "wall_s": round(marks[-1] - marks[0], 2),
            "accuracy": round(float(np.mean(found == y_test)), 4),
        }


def _noted(marks: list[float], task: Callable[..., Any], *given: Any) -> Any:
    """Return the answer of a task, and note the time when the GPU is done with it."""
    answer = task(*given)
    torch.cuda.synchronize()
    marks.append(time.perf_counter())
    return answer


def parts_of(task: Callable[[], Any]) -> dict[str, float]:
    """Wall seconds of the functions of a fit, the GPU waited for before and after each."""
    found: dict[str, float] = {}
    places: list[tuple[Any, str]] = [
        (Records, "_sum_of_blocks"),
        (gaussian, "_add_symmetric_noise_there"),
        (linear_models, "whitening_projection"),
        (Records, "cache_float32"),
        (linear_models.Descent, "follow"),
        (linear_models, "to_host"),
    ]
    plain = [getattr(place, name) for place, name in places]

    def watched(name: str, function: Any) -> Any:
        def run(*given: Any, **words: Any) -> Any:
            torch.cuda.synchronize()
            start = time.perf_counter()
            answer = function(*given, **words)
            torch.cuda.synchronize()
            found[name] = round(found.get(name, 0.0) + time.perf_counter() - start, 4)
            return answer

        return run

    for (place, name), function in zip(places, plain, strict=True):
        setattr(place, name, watched(name, function))
    try:
        watched("whole", task)()
    finally:
        for (place, name), function in zip(places, plain, strict=True):
            setattr(place, name, function)
    return found


# What else was tried --------------------------------------------------------------------------


def eigenvectors(_: int) -> Iterator[dict[str, Any]]:
    moment = torch.randn(WIDTH, WIDTH, dtype=torch.float64, device="cuda")
    moment = moment @ moment.T / WIDTH
    single, unit = moment.float(), torch.eye(WIDTH, dtype=torch.float64, device="cuda")
    tries: dict[str, tuple[Callable[[], Any], int]] = {
        "all, doubles (as it is)": (lambda: torch.linalg.eigh(moment), 3),
        "all, single precision": (lambda: torch.linalg.eigh(single), 3),
        "values alone": (lambda: torch.linalg.eigvalsh(moment), 3),
        "256 leading by LOBPCG, 20 steps": (lambda: torch.lobpcg(moment, k=256, niter=20), 1),
        "inverse root by 18 Newton steps": (lambda: newton(moment, unit), 1),
        "a Cholesky factor, which whitens to another rotation": (
            lambda: torch.linalg.cholesky(moment + unit),
            3,
        ),
    }
    for what, (task, repeats) in tries.items():
        yield {"what": what, "width": WIDTH, "wall_s": seconds(task, repeats)}


def newton(moment: Any, unit: Any) -> Any:
    scaled = (moment / torch.linalg.matrix_norm(moment, 2) + 0.01 * unit) / 1.01
    root = unit
    for _ in range(18):
        step = (3 * unit - root @ scaled) / 2
        scaled, root = scaled @ step, step @ root
    return root


def noise(_: int) -> Iterator[dict[str, Any]]:
    size = WIDTH * (WIDTH - 1) // 2
    words = torch.as_tensor(random_words(size).view(np.int64).copy(), device="cuda")
    host = random_words(size).view(np.int64).copy()
    n_chunks = size // sampling.CHUNK

    def drawn(threads: int) -> None:
        sampling.cpu_count = lambda: threads
        sampling.rounded_noise(sampling.GAUSSIAN, SCALE, size)

    def words_drawn(threads: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(random_words, [sampling.CHUNK] * n_chunks))

    for threads in (1, 2, 4, 8):
        if threads <= cpu_count():
            yield {
                "what": "noise of the moment, exact, on the processor",
                "threads": threads,
                "wall_s": seconds(lambda threads=threads: drawn(threads), 2),
                "words_alone_s": seconds(lambda threads=threads: words_drawn(threads), 2),
            }
    yield {
        "what": "quantiles on the GPU from words of the system: not used, its library's quantiles "
        "carry no bound of their error",
        "wall_s": seconds(lambda: on_the_gpu(words)),
        "words_there_s": seconds(lambda: torch.as_tensor(host, device="cuda")),
    }


def on_the_gpu(words: Any) -> Any:
    uniform = (((words >> 1) & (2**63 - 1)).double() + 0.5) * 2.0**-63
    real = -torch.special.ndtri(uniform / 2) * SCALE
    cell = torch.round(real)
    doubtful = ((real - cell).abs() > 0.5 - sampling.DOUBT * SCALE) | (uniform < sampling.RARE)
    return torch.where((words & 1) == 1, cell, -cell), torch.nonzero(doubtful)


def steps(_: int) -> Iterator[dict[str, Any]]:
    kind: Any = {"dtype": torch.float64, "device": "cuda"}
    rows = torch.randn(N_ROWS, WIDTH, **kind)
    weights, slopes = torch.randn(WIDTH, N_CLASSES, **kind), torch.randn(N_ROWS, N_CLASSES, **kind)
    for what, held in (("row after row", rows), ("column after column", arrays.by_columns(rows))):
        yield {
            "what": f"products of a step, {what} in memory",
            "scores_s": seconds(lambda held=held: held @ weights, 20),
            "gathered_s": seconds(lambda held=held: slopes.T @ held, 20),
        }
    single, few, flat = rows.float(), weights.float(), slopes.float()
    yield {
        "what": "products of a step, single precision",
        "scores_s": seconds(lambda: single @ few, 20),
        "gathered_s": seconds(lambda: flat.T @ single, 20),
    }


def hulls(_: int) -> Iterator[dict[str, Any]]:
    """The pieces of which a fit of 63 branches is made, tried in other ways."""
    single: Any = {"device": "cuda"}
    kernel = torch.rand(63, 1000, 1000, **single) * 0.1
    kernel = kernel @ kernel.mT / 1000 + torch.eye(1000, **single)
    shift, columns = torch.ones(63, **single), torch.randn(63, 1000, 785, **single)
    usual = arrays.ACCELERATED_BLOCK
    for block in (96, 128, 192, 256, 512):
        arrays.ACCELERATED_BLOCK = block
        solve = arrays.regularized_solver(kernel, shift)
        yield {
            "what": f"63 factorings of 1000 rows in blocks of {block}",
            "factor_s": seconds(lambda: arrays.regularized_solver(kernel, shift)),
            "solve_s": seconds(lambda solve=solve: solve(columns)),
        }
    arrays.ACCELERATED_BLOCK = usual
    lower = torch.linalg.cholesky(kernel)
    yield {
        "what": "the same by the library",
        "factor_s": seconds(lambda: torch.linalg.cholesky(kernel)),
        "solve_s": seconds(lambda: torch.cholesky_solve(columns, lower)),
    }
    small = torch.randn(63, 784, 64, dtype=torch.float64, **single)
    small = small.mT @ small
    yield {
        "what": "63 sets of eigenvectors of 64 x 64",
        "gpu_s": seconds(lambda: torch.linalg.eigh(small)),
        "processor_s": seconds(lambda: np.linalg.eigh(small.cpu().numpy())),
    }
    values, weights = torch.rand(63, 2000, 1000, **single), torch.rand(63, 1000, 787, **single)
    yield {
        "what": "images of 2000 points, branches of 1000 x 787, one product after the other",
        "wall_s": seconds(lambda: [a @ b for a, b in zip(values, weights, strict=True)]),
    }
    for n_rows, width in ((997, 787), (1000, 792)):
        values, weights = (
            torch.rand(63, 2000, n_rows, **single),
            torch.rand(63, n_rows, width, **single),
        )
        yield {
            "what": f"images of 2000 points, branches of {n_rows} x {width}",
            "wall_s": seconds(lambda v=values, w=weights: v @ w),
        }


PARTS = {
    "linear": linear,
    "whole": whole,
    "eigenvectors": eigenvectors,
    "noise": noise,
    "steps": steps,
    "hulls": hulls,
}


if __name__ == "__main__":
    main()
