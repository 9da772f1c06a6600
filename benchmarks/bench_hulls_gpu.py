"""All of MNIST on one GPU: fit and exact prediction, branches in one padded stack.

Needs PyTorch with CUDA. The median of nine runs is reported, fit and predict of the last; one
before them loads the CUDA libraries.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import torch

from benchmarks.recording import mnist, timed, write
from sfumato.models.hulls import AffineHullClassifier

SEED, RUNS = 0, 9


def synchronised(task: Any) -> Any:
    def run() -> Any:
        answer = task()
        torch.cuda.synchronize()
        return answer

    return run


def main() -> None:
    X, y, queries, labels = mnist()
    rows, asked = (torch.as_tensor(x, device="cuda") for x in (X, queries))
    both = []
    for _ in range(RUNS + 1):  # the first loads the CUDA libraries
        torch.cuda.reset_peak_memory_stats()
        model = AffineHullClassifier(dtype="float32", random_state=SEED)
        _, fit = timed(synchronised(lambda model=model: model.fit(rows, y)))
        found, predict = timed(synchronised(lambda model=model: model.predict(asked)))
        both.append(round(fit["wall_s"] + predict["wall_s"], 3))
    numbers = {
        "fit": fit,
        "predict_exact": predict,
        "fit_and_predict_wall_s": statistics.median(both[1:]),
        "each": both[1:],
        "accuracy": float(np.mean(found.cpu().numpy() == labels)),
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2),
    }
    device = torch.cuda.get_device_name()
    write("hulls_gpu", numbers, seed=SEED, device=device, torch=torch.__version__, n_layers=5)


if __name__ == "__main__":
    main()
