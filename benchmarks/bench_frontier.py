"""The record-level frontier: linear classifiers on fixed image features, everything charged.

SFUMATO_DATA=... python -m benchmarks.bench_frontier [--data mnist ...] [--features hog ...]
[--runs 5] [--epsilons 0.1 1 3 10] [--steps 240 ...] [--name margins_frontier] [--held-out]
[--beside WORDS]

Training rows are all that the files hold, accuracy is on the test rows. Nothing is tuned here: the
settings are the public rule of `PrivateLinearClassifier`, fixed on held-out training rows of MNIST
and Fashion-MNIST, and the features "best" of `PrivateImageClassifier`, fixed on those of CIFAR-10.
With PyTorch and a GPU the same code runs on it. From pixels to predictions takes the sum of the
four times of a line; the first features of a process wait for the libraries of the GPU. `--beside`
notes what else ran there.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import cpu_count

from benchmarks.recording import mnist, timed, write
from sfumato.core.arrays import namespace_of
from sfumato.models.generated_features import RandomPatchFeatures, RandomProcessFeatures
from sfumato.models.image_features import HOGFeatures, ScatteringFeatures
from sfumato.models.images import best_features
from sfumato.models.linear import PrivateLinearClassifier
from sfumato.tables.bounds import Bounds

DELTA = 1e-5
RELATIONS = ("add_or_remove_one", "replace_one")


class Features:
    """Public features beside each other, weighted, of length 1; on the GPU if there is one."""

    def __init__(self, *parts: tuple[Any, float]) -> None:
        self.parts = parts

    def __call__(self, rows: np.ndarray) -> Any:
        """Return the features of images."""
        images = on_device(rows)
        norm = math.sqrt(sum(weight**2 for _, weight in self.parts))
        found = [
            maker.fit(rows[:2]).transform(images) * (weight / norm) for maker, weight in self.parts
        ]
        return found[0] if len(found) == 1 else namespace_of(found[0]).concat(found, axis=1)


FEATURES: dict[str, Callable[[tuple[int, ...]], Features]] = {
    "hog": lambda shape: Features((HOGFeatures(shape), 1.0)),
    "scattering": lambda shape: Features((ScatteringFeatures(shape), 1.0)),
    "mirrored": lambda shape: Features(
        (ScatteringFeatures(shape, mirror="average", n_projected=4000), 1.0)
    ),
    "patches": lambda shape: Features((RandomPatchFeatures(shape, n_projected=4000), 1.0)),
    "random-process": lambda shape: Features((RandomProcessFeatures(shape), 1.0)),
    "best": lambda shape: Features(*best_features(shape)),
}


def set_aside(rows: Any, labels: Any) -> tuple[Any, Any, Any, Any]:
    """Return training rows without a fifth of them, and that fifth to score on."""
    order = np.random.default_rng(0).permutation(len(rows))
    aside, kept = order[: len(rows) // 5], order[len(rows) // 5 :]
    return rows[kept], labels[kept], rows[aside], labels[aside]


def main() -> None:
    options = _options()
    numbers: list[dict[str, Any]] = []
    for data in options.data:
        train, y, test, y_test, shape = images(data)
        if options.held_out:
            train, y, test, y_test = set_aside(train, y)
        for features in options.features:
            maker = FEATURES[features](shape)
            rows, seconds = timed(lambda m=maker, x=train: _settled(m(x)))
            queries, test_seconds = timed(lambda m=maker, x=test: _settled(m(x)))
            for relation in options.relations:
                for epsilon, steps in itertools.product(options.epsilons, options.steps):
                    numbers.append(
                        {
                            "data": data,
                            "features": features,
                            "n_features": int(rows.shape[1]),
                            "features_s": seconds["wall_s"],
                            "features_test_s": test_seconds["wall_s"],
                            **_accuracy(
                                (rows, y, queries, y_test), relation, epsilon, steps, options
                            ),
                        }
                    )
                    print(numbers[-1], flush=True)
                    write(
                        options.name,
                        numbers,
                        seed=None,
                        unit="record",
                        delta=DELTA,
                        device=device_name(),
                        cores_used=cpu_count(),
                        held_out=options.held_out,
                        beside=options.beside,
                    )


def _accuracy(
    data: tuple[Any, Any, Any, Any], relation: str, epsilon: float, steps: int, options: Any
) -> dict[str, Any]:
    rows, y, queries, y_test = data
    accuracies, fits, predictions = [], [], []
    for _ in range(options.runs):
        model = PrivateLinearClassifier(
            whiten=True,
            n_steps=steps,
            n_components=options.components,
            fit_intercept=False,
            epsilon=epsilon,
            delta=DELTA,
            relation=relation,
            bounds=Bounds(norm=1.0, labels=range(10)),
        )
        fitted, time = timed(lambda m=model: m.fit(rows, y))
        fits.append(time["wall_s"])
        found, time = timed(lambda m=fitted: m.predict(queries))
        predictions.append(time["wall_s"])
        accuracies.append(float(np.mean(found == y_test)))
    return {
        "relation": relation,
        "epsilon": epsilon,
        "components": options.components,
        "n_steps": steps,
        "runs": options.runs,
        "accuracy": round(float(np.mean(accuracies)), 4),
        "accuracy_std": round(float(np.std(accuracies)), 4),
        "fit_wall_s": round(float(np.mean(fits)), 2),
        "predict_wall_s": round(float(np.mean(predictions)), 2),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=["mnist", "fashion-mnist"])
    parser.add_argument("--features", nargs="+", default=["hog", "scattering"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0, 3.0, 10.0])
    parser.add_argument("--steps", nargs="+", type=int, default=[240])
    parser.add_argument("--beside", default="nothing else on the GPU")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--components", type=int, default=None)
    parser.add_argument("--relations", nargs="+", default=list(RELATIONS))
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--name", default="margins_frontier")
    return parser.parse_args()


def images(name: str) -> tuple[Any, Any, Any, Any, tuple[int, ...]]:
    """Return train rows in [0, 1], labels, test rows, labels, and the shape of an image."""
    if name == "cifar10":
        return _cifar(Path(os.environ["SFUMATO_DATA"]) / name)
    train, y, test, y_test = mnist(name)
    return train, y.astype(int), test, y_test.astype(int), (28, 28)


def _cifar(folder: Path) -> tuple[Any, Any, Any, Any, tuple[int, ...]]:
    parts: list[Any] = []
    for pattern in ("train_*.npz", "test_*.npz"):
        files = [np.load(path) for path in sorted(folder.glob(pattern))]
        if not files:
            raise FileNotFoundError(f"There is no {pattern} in {folder}.")
        pixels = np.concatenate([file["x"] for file in files]).transpose(0, 2, 3, 1)
        parts += [pixels.reshape(len(pixels), -1) / np.float32(255)]
        parts += [np.concatenate([file["y"] for file in files]).astype(int)]
    return (*parts, (32, 32, 3))  # type: ignore[return-value]


def _torch() -> Any:
    if importlib.util.find_spec("torch") is None:
        return None
    import torch

    return torch if torch.cuda.is_available() else None


def on_device(rows: np.ndarray) -> Any:
    """Return the rows on the GPU if there is one."""
    torch = _torch()
    return rows if torch is None else torch.as_tensor(rows, device="cuda")


def _settled(rows: Any) -> Any:
    torch = _torch()
    if torch is not None:
        torch.cuda.synchronize()
    return rows


def device_name() -> str:
    """Name the GPU, or the processor."""
    from sfumato.papers.running import processor

    torch = _torch()
    return processor() if torch is None else torch.cuda.get_device_name()


if __name__ == "__main__":
    main()
