"""Features of CIFAR-10 on held-out training rows: 40,000 to learn, 10,000 to score.

SFUMATO_DATA=... python -m benchmarks.bench_frontier_tries [--runs 1] [--seconds 240]

What is compared: how many numbers of which features are kept and how they are weighted, how many
patches are looked for, where their threshold lies and in which cells they are counted. One run of
a setting says nothing about differences below .004. Needs PyTorch with CUDA.
JSON: results/margins_frontier_cifar_tries.json.
"""

from __future__ import annotations

import argparse
import math
import time
from functools import cache
from typing import Any

import numpy as np
import torch

from benchmarks.bench_frontier import images, set_aside
from benchmarks.recording import write
from sfumato import (
    Bounds,
    PrivateLinearClassifier,
    RandomPatchFeatures,
    RandomProcessFeatures,
    ScatteringFeatures,
)
from sfumato.image_features import patches

EPSILONS, DELTA = (1.0, 3.0, 8.0), 1e-5
Block = tuple[Any, float]  # features of all rows, and their weight


class Tries:
    """Rows of CIFAR-10 and the features of them that were asked for."""

    def __init__(self) -> None:
        train, y, _, _, self.shape = images("cifar10")
        self.rows, self.y, self.aside, self.y_aside = set_aside(train, y)
        both = np.concatenate([self.rows, self.aside])
        self.pixels = torch.as_tensor(both, device="cuda")

    def of(self, maker: Any) -> Any:
        return maker.fit(self.rows[:2]).transform(self.pixels)

    @cache  # noqa: B019 - there is one of it
    def scattering(self, n_kept: int) -> Any:
        return self.of(ScatteringFeatures(self.shape, mirror="average", n_projected=n_kept))

    @cache  # noqa: B019
    def net(self, n_kept: int) -> Any:
        return self.of(RandomProcessFeatures(self.shape, n_projected=n_kept))

    @cache  # noqa: B019
    def patches(
        self, n_kept: int, n_filters: int = 8192, grid: int = 2, threshold: float = 1.0
    ) -> Any:
        usual = patches.GRID, patches.THRESHOLD
        patches.GRID, patches.THRESHOLD = grid, threshold
        try:
            return self.of(RandomPatchFeatures(self.shape, n_filters=n_filters, n_projected=n_kept))
        finally:
            patches.GRID, patches.THRESHOLD = usual

    def judged(self, blocks: list[Block], runs: int) -> dict[str, Any]:
        length = math.sqrt(sum(weight**2 for _, weight in blocks))
        rows = torch.cat([block * (weight / length) for block, weight in blocks], dim=1)
        found: dict[str, Any] = {"n_features": int(rows.shape[1]), "runs": runs}
        for epsilon in EPSILONS:
            model = PrivateLinearClassifier(
                epsilon=epsilon,
                delta=DELTA,
                relation="add_or_remove_one",
                whiten=True,
                fit_intercept=False,
                bounds=Bounds(norm=1.0, labels=range(10)),
            )
            learnt = rows[: len(self.rows)]
            scores = [
                np.mean(model.fit(learnt, self.y).predict(rows[len(self.rows) :]) == self.y_aside)
                for _ in range(runs)
            ]
            found[f"accuracy at {epsilon:g}"] = round(float(np.mean(scores)), 4)
        return found


def tries(of: Tries) -> dict[str, Any]:
    """What is tried, by name; features are made when they are asked for."""
    usual = {"scattering": 2000, "patches": 2500, "net": 3000}

    def three(weights: tuple[float, float, float], **changed: Any) -> Any:
        kept = usual | {name: n for name, n in changed.items() if name in usual}
        other = {name: value for name, value in changed.items() if name not in usual}
        return lambda: [
            (of.scattering(kept["scattering"]), weights[0]),
            (of.patches(kept["patches"], **other), weights[1]),
            (of.net(kept["net"]), weights[2]),
        ]

    return {
        "scattering 2000, patches 2500, net 3000; weights 1, 1.5, 2": three((1, 1.5, 2)),
        "weights 1, 1, 2": three((1, 1, 2)),
        "weights 1, 2, 2": three((1, 2, 2)),
        "weights 1, 1.5, 3": three((1, 1.5, 3)),
        "without patches: scattering 4000, net 3500; weights 1, 2": lambda: [
            (of.scattering(4000), 1),
            (of.net(3500), 2),
        ],
        "without scattering: patches 4000, net 3500; weights 1, 1": lambda: [
            (of.patches(4000), 1),
            (of.net(3500), 1),
        ],
        "2048 patches": three((1, 1.5, 2), n_filters=2048),
        "4096 patches": three((1, 1.5, 2), n_filters=4096),
        "threshold 0.5": three((1, 1.5, 2), threshold=0.5),
        "threshold 1.5": three((1, 1.5, 2), threshold=1.5),
        "4096 patches in 3 x 3 cells, 3500 numbers": three(
            (1, 1.5, 2), n_filters=4096, grid=3, patches=3500
        ),
        "1500, 2000 and 2500 numbers": three((1, 1.5, 2), scattering=1500, patches=2000, net=2500),
        "3000, 4000 and 4000 numbers": three((1, 1.5, 2), scattering=3000, patches=4000, net=4000),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf)
    options = parser.parse_args()
    start, of, numbers = time.perf_counter(), Tries(), []
    for what, blocks in tries(of).items():
        if time.perf_counter() - start > options.seconds:
            break
        numbers.append({"what": what, **of.judged(blocks(), options.runs)})
        print(numbers[-1], flush=True)
        words: Any = {"unit": "record", "relation": "add_or_remove_one", "held_out": True}
        device = torch.cuda.get_device_name()
        write(
            "margins_frontier_cifar_tries", numbers, seed=None, delta=DELTA, device=device, **words
        )


if __name__ == "__main__":
    main()
