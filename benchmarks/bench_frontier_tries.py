"""Ideas for CIFAR-10, judged on held-out training rows: 40,000 to learn, 10,000 to score, one run.

SFUMATO_DATA=... PYTHONPATH=tools/random_process_net python -m benchmarks.bench_frontier_tries

What is compared: the maps of the random-process net in coarse and in finer grids, averages over
shifts of an image, roots of averages, and a third block, responses to patches of generated images.
Needs PyTorch with CUDA. JSON: results/margins_frontier_cifar_tries.json.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import train as generated  # type: ignore[import-not-found]
from torch.nn import functional

from benchmarks.bench_frontier import images, set_aside
from benchmarks.recording import write
from sfumato import Bounds, PrivateLinearClassifier
from sfumato.image_features import random_process
from sfumato.image_features.images import as_colours, unit_length
from sfumato.image_features.scattering import ScatteringFeatures, shortened

EPSILONS, DELTA = (1.0, 3.0, 8.0), 1e-5
COARSE, FINER = random_process.PARTS[:3], random_process.PARTS
SHIFTS = {
    1: [(0, 0)],
    5: [(0, 0), (2, 0), (-2, 0), (0, 2), (0, -2)],
    9: [(a, b) for a in (-2, 0, 2) for b in (-2, 0, 2)],
}
Maker = Callable[[Any], Any]
Blocks = list[tuple[Any, float]]


def averaged(pixels: Any, maker: Maker, shifts: int = 1, block: int = 1024) -> Any:
    """Mean features over shifts of an image and their mirror images, of length 1."""
    parts = []
    for start in range(0, len(pixels), block):
        channels = pixels[start : start + block].permute(0, 3, 1, 2)
        wide = functional.pad(channels, (4,) * 4, mode="reflect").permute(0, 2, 3, 1)
        seen = [wide[:, 4 + a : 36 + a, 4 + b : 36 + b, :] for a, b in SHIFTS[shifts]]
        parts.append(unit_length(sum(maker(x) + maker(x.flip(2)) for x in seen)).float())
    return torch.cat(parts)


def kept(features: Any, n_kept: int, block: int = 2048) -> Any:
    n_kept = min(n_kept, features.shape[1])
    found = [shortened(features[i : i + block], n_kept, 0) for i in range(0, len(features), block)]
    return torch.cat(found).float()


def net(parts: Any, *, roots: bool = False) -> Maker:
    def features(pixels: Any) -> Any:
        maps = random_process._maps(as_colours(pixels.float()))
        cells = [random_process._cells(maps[name], grid, what) for name, grid, what in parts]
        cells = [cell.clamp(min=0).sqrt() for cell in cells] if roots else cells
        return torch.cat([unit_length(cell) for cell in cells], dim=1)

    return features


def patches(n_filters: int, side: int = 6, grid: int = 2, threshold: float = 0.5) -> Maker:
    """Filters are whitened patches of generated images; what passes a threshold is averaged."""
    draws = torch.Generator(device="cuda").manual_seed(0)
    leaves = torch.cat([generated.dead_leaves(512, draws) for _ in range(8)])

    def cut(channels: Any) -> Any:
        found = functional.unfold(channels, side)
        found = found - found.mean(1, keepdim=True)
        return found / (found.var(1, keepdim=True) + 1e-3).sqrt()

    found = cut(leaves).transpose(1, 2).reshape(-1, 3 * side**2)
    found = found[torch.randperm(len(found), generator=draws, device="cuda")[:200_000]]
    values, vectors = torch.linalg.eigh((found.T @ found / len(found)).double())
    whitening = (vectors / (values.clamp(min=0) + 0.1).sqrt()) @ vectors.T
    chosen = found[:n_filters].double() @ whitening
    filters = (chosen / chosen.norm(dim=1, keepdim=True).clamp(min=1e-6) @ whitening).float()

    def features(pixels: Any) -> Any:
        answers = filters @ cut(pixels.float().permute(0, 3, 1, 2))
        across = math.isqrt(answers.shape[2])
        maps = answers.reshape(len(pixels), n_filters, across, across)
        passed = [(sign * maps - threshold).clamp(min=0) for sign in (1, -1)]
        cells = [functional.adaptive_avg_pool2d(each, grid).flatten(1) for each in passed]
        return unit_length(torch.cat(cells, dim=1).sqrt())

    return features


def judged(blocks: Blocks, n_rows: int, y: Any, y_aside: Any) -> dict[str, Any]:
    length = math.sqrt(sum(weight**2 for _, weight in blocks))
    rows = torch.cat([block * (weight / length) for block, weight in blocks], dim=1)
    found: dict[str, Any] = {"n_features": int(rows.shape[1]), "runs": 1}
    for epsilon in EPSILONS:
        model = PrivateLinearClassifier(
            epsilon=epsilon,
            delta=DELTA,
            relation="add_or_remove_one",
            whiten=True,
            fit_intercept=False,
            bounds=Bounds(norm=1.0, labels=range(10)),
        ).fit(rows[:n_rows], y)
        accuracy = float(np.mean(model.predict(rows[n_rows:]) == y_aside))
        found[f"accuracy at {epsilon:g}"] = round(accuracy, 4)
    return found


def main() -> None:
    train, y, _, _, shape = images("cifar10")
    rows, y, aside, y_aside = set_aside(train, y)
    pixels = torch.as_tensor(np.concatenate([rows, aside]), device="cuda").reshape(-1, *shape)
    scatter = ScatteringFeatures(shape).fit(rows[:2])
    scattering = averaged(pixels, lambda x: scatter._all_features(x.float()))
    coarse, finer = averaged(pixels, net(COARSE)), averaged(pixels, net(FINER))

    def third(n_filters: int) -> Any:
        return averaged(pixels, patches(n_filters), block=128)

    tries: dict[str, Callable[[], Blocks]] = {
        "scattering 4000 and net, coarse grids": lambda: [(kept(scattering, 4000), 1), (coarse, 2)],
        "net with finer grids and deviations": lambda: [
            (kept(scattering, 4000), 1),
            (kept(finer, 3500), 2),
        ],
        "net over 5 shifts": lambda: [
            (kept(scattering, 4000), 1),
            (averaged(pixels, net(COARSE), 5), 2),
        ],
        "net over 9 shifts": lambda: [
            (kept(scattering, 4000), 1),
            (averaged(pixels, net(COARSE), 9), 2),
        ],
        "roots of the net's averages": lambda: [
            (kept(scattering, 4000), 1),
            (averaged(pixels, net(COARSE, roots=True)), 2),
        ],
        "patches 8192 to 3000, scattering 2500, net": lambda: [
            (kept(scattering, 2500), 1),
            (kept(third(8192), 3000), 1),
            (coarse, 2),
        ],
        "all: scattering 2000, patches 2500, finer net 3000": lambda: [
            (kept(scattering, 2000), 1),
            (kept(third(8192), 2500), 1),
            (kept(finer, 3000), 2),
        ],
    }
    numbers = []
    for what, blocks in tries.items():
        numbers.append({"what": what, **judged(blocks(), len(rows), y, y_aside)})
        print(numbers[-1], flush=True)
        words: Any = {"unit": "record", "relation": "add_or_remove_one", "held_out": True}
        device = torch.cuda.get_device_name()
        write("margins_frontier_cifar_tries", numbers, seed=0, delta=DELTA, device=device, **words)


if __name__ == "__main__":
    main()
