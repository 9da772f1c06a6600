"""The record-level frontier: linear classifiers on fixed image features, everything charged.

SFUMATO_DATA=... python -m benchmarks.bench_frontier [--data mnist ...] [--features hog ...]
[--runs 5] [--epsilons 0.1 1 3 10] [--name margins_frontier]

Training rows are all that the files hold, accuracy is on the test rows. Nothing is tuned here: the
settings are the public rule of `PrivateLinearClassifier`, fixed on held-out training rows of MNIST
and Fashion-MNIST. With PyTorch and a GPU the same code runs on it.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.recording import mnist, timed, write
from sfumato.bounds import Bounds
from sfumato.margins.features_hog import HOGFeatures
from sfumato.margins.private_linear import PrivateLinearClassifier
from sfumato.margins.scattering import ScatteringFeatures

DELTA = 1e-5
RELATIONS = ("add_or_remove_one", "replace_one")
FEATURES = {"hog": HOGFeatures, "scattering": ScatteringFeatures}


def main() -> None:
    options = _options()
    numbers: list[dict[str, Any]] = []
    for data in options.data:
        train, y, test, y_test, shape = images(data)
        for features in options.features:
            maker = FEATURES[features](shape).fit(train[:2])
            rows, seconds = timed(lambda m=maker, x=train: _settled(m.transform(on_device(x))))
            queries = maker.transform(on_device(test))
            for relation in RELATIONS:
                for epsilon in options.epsilons:
                    numbers.append(
                        {
                            "data": data,
                            "features": features,
                            "n_features": int(rows.shape[1]),
                            "features_s": seconds["wall_s"],
                            **_accuracy(rows, y, queries, y_test, relation, epsilon, options),
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
                )


def _accuracy(
    rows: Any, y: Any, queries: Any, y_test: Any, relation: str, epsilon: float, options: Any
) -> dict[str, Any]:
    accuracies, seconds = [], []
    for _ in range(options.runs):
        model = PrivateLinearClassifier(
            solver="noisy-gd",
            whiten=True,
            n_components=options.components,
            fit_intercept=False,
            epsilon=epsilon,
            delta=DELTA,
            relation=relation,
            bounds=Bounds(norm=1.0, labels=range(10)),
        )
        fitted, time = timed(lambda m=model: m.fit(rows, y))
        accuracies.append(float(np.mean(fitted.predict(queries) == y_test)))
        seconds.append(time["wall_s"])
    return {
        "relation": relation,
        "epsilon": epsilon,
        "components": options.components,
        "runs": options.runs,
        "accuracy": round(float(np.mean(accuracies)), 4),
        "accuracy_std": round(float(np.std(accuracies)), 4),
        "fit_wall_s": round(float(np.mean(seconds)), 2),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=["mnist", "fashion-mnist"])
    parser.add_argument("--features", nargs="+", default=["hog", "scattering"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0, 3.0, 10.0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--components", type=int, default=None)
    parser.add_argument("--name", default="margins_frontier")
    return parser.parse_args()


def images(name: str) -> tuple[Any, Any, Any, Any, tuple[int, ...]]:
    """Give train rows in [0, 1], labels, test rows, labels, and the shape of an image."""
    if name == "cifar10":
        return _cifar(Path(os.environ["SFUMATO_DATA"]) / name)
    train, y, test, y_test = mnist(name)
    return train, y.astype(int), test, y_test.astype(int), (28, 28)


def _cifar(folder: Path) -> tuple[Any, Any, Any, Any, tuple[int, ...]]:
    parts: list[Any] = []
    for pattern in ("train_*.npz", "test_*.npz"):
        files = [np.load(path) for path in sorted(folder.glob(pattern))]
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
    """Give the rows on the GPU if there is one."""
    torch = _torch()
    return rows if torch is None else torch.as_tensor(rows, device="cuda")


def _settled(rows: Any) -> Any:
    torch = _torch()
    if torch is not None:
        torch.cuda.synchronize()
    return rows


def device_name() -> str:
    """Name the GPU, or the processor."""
    from benchmarks.recording import _processor

    torch = _torch()
    return _processor() if torch is None else torch.cuda.get_device_name()


if __name__ == "__main__":
    main()
