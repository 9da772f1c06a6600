"""A linear fit, CIFAR-10 through `PrivateImageClassifier.fit`, and bits by place, on a GPU.

SFUMATO_DATA=... python -m benchmarks.bench_accelerator [PART ...] [--runs 5]

`linear`: `PrivateLinearClassifier` with its defaults on scattering features of all of MNIST, which
are on the GPU, everything loaded. `hulls`: all of MNIST by `AffineHullClassifier`, from its first
layer to exact predictions. `images`: all of CIFAR-10 from pixels to predictions by `fit` and
`predict`, the first time with the libraries of the GPU still to be loaded. `places`: of how many
images the place in a block, or another image of it, changes the bits of the features. Needs PyTorch
with CUDA. JSON: results/accelerator.json, part by part.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from joblib import cpu_count

from benchmarks.bench_frontier import FEATURES, images as read_images
from benchmarks.recording import RESULTS, write
from sfumato import AffineHullClassifier, Bounds, PrivateImageClassifier, PrivateLinearClassifier
from sfumato.core.arrays import to_numpy
from sfumato.models import image_features
from sfumato.models.images import best_features

DELTA = 1e-5
RELATION = "add_or_remove_one"
BLOCKS = (16, 100, 256, 500, 1000, 1024, 2048, 4096)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    path = RESULTS / "accelerator.json"
    numbers = json.loads(path.read_text())["numbers"] if path.exists() else []
    numbers = [each for each in numbers if each["part"] in PARTS]
    for part in options.parts:
        numbers = [each for each in numbers if each["part"] != part]
        for found in PARTS[part](options.runs):
            numbers.append({"part": part, **found})
            print(numbers[-1], flush=True)
            words = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
            write("accelerator", numbers, seed=None, delta=DELTA, cores_used=cpu_count(), **words)


def linear(runs: int) -> Iterator[dict[str, Any]]:
    train, y, test, y_test, shape = read_images("mnist")
    maker = FEATURES["scattering"](shape)
    rows, queries = maker(train), maker(test)
    bounds = Bounds(norm=1.0, labels=range(10))
    walls, accuracies = [], []
    for _ in range(runs + 1):  # the first loads the libraries
        model = PrivateLinearClassifier(
            fit_intercept=False, epsilon=1.0, delta=DELTA, relation=RELATION, bounds=bounds
        )
        torch.cuda.synchronize()
        start = time.perf_counter()
        model.fit(rows, y)
        torch.cuda.synchronize()
        walls.append(round(time.perf_counter() - start, 3))
        accuracies.append(float(np.mean(model.predict(queries) == y_test)))
    yield {
        "what": "MNIST, scattering features on the GPU, epsilon 1",
        "fit_wall_s": round(float(np.mean(walls[1:])), 3),
        "each": walls[1:],
        "accuracy": round(float(np.mean(accuracies[1:])), 4),
    }


def hulls(runs: int) -> Iterator[dict[str, Any]]:
    train, y, test, y_test, _ = read_images("mnist")
    rows, queries = (torch.as_tensor(part, device="cuda") for part in (train, test))
    fits, predictions, accuracies = [], [], []
    for _ in range(runs + 1):  # the first loads the libraries
        torch.cuda.synchronize()
        start = time.perf_counter()
        model = AffineHullClassifier(n_layers=5, random_state=0).fit(rows, y)
        torch.cuda.synchronize()
        fitted = time.perf_counter()
        accuracies.append(float(np.mean(to_numpy(model.predict(queries)) == y_test)))
        fits.append(round(fitted - start, 3))
        predictions.append(round(time.perf_counter() - fitted, 3))
    yield {
        "what": "MNIST, hulls of 5 layers",
        "fit_s": fits[1:],
        "predict_s": predictions[1:],
        "end_to_end_s": round(float(np.mean(np.add(fits[1:], predictions[1:]))), 3),
        "accuracy": round(float(np.mean(accuracies)), 4),
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 1),
    }


def images(runs: int) -> Iterator[dict[str, Any]]:
    train, y, test, y_test, shape = read_images("cifar10")
    train, test = (torch.as_tensor(rows, device="cuda") for rows in (train, test))
    for epsilon in (1.0, 3.0, 8.0):
        fits, predictions, accuracies = [], [], []
        for _ in range(runs):
            model = PrivateImageClassifier(
                image_shape=shape,
                epsilon=epsilon,
                delta=DELTA,
                relation=RELATION,
                bounds=Bounds(lower=0, upper=1, labels=range(10)),
            )
            start = time.perf_counter()
            model.fit(train, y)
            torch.cuda.synchronize()
            fitted = time.perf_counter()
            accuracies.append(float(np.mean(model.predict(test) == y_test)))
            fits.append(round(fitted - start, 2))
            predictions.append(round(time.perf_counter() - fitted, 2))
        yield {
            "what": "CIFAR-10 by PrivateImageClassifier",
            "epsilon": epsilon,
            "fit_s": fits,
            "predict_s": predictions,
            "end_to_end_s": round(float(np.mean(np.add(fits, predictions))), 2),
            "accuracy": round(float(np.mean(accuracies)), 4),
            "accuracy_std": round(float(np.std(accuracies)), 4),
        }


def places(_: int) -> Iterator[dict[str, Any]]:
    train, *_, shape = read_images("cifar10")
    images = torch.as_tensor(train[:5000], device="cuda")
    for kind, _ in [(image_features.HOGFeatures(shape), 1.0), *best_features(shape)]:
        kind.fit(train[:2])
        for size in BLOCKS:
            image_features.ACCELERATED_BLOCKS = (size,)
            rows = images[: 2 * size + size // 3]
            found = kind.transform(rows)
            order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0)).cuda()
            replaced = rows.clone()
            replaced[5] = 1 - replaced[5]
            yield {
                "what": type(kind).__name__,
                "block": size,
                "images": len(rows),
                "changed_by_place": int((kind.transform(rows[order]) != found[order]).any(1).sum()),
                "changed_by_company": int((kind.transform(replaced) != found).any(1).sum()) - 1,
            }


PARTS = {"linear": linear, "hulls": hulls, "images": images, "places": places}


if __name__ == "__main__":
    main()
