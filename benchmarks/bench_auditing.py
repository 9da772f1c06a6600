"""Auditing: ``python -m benchmarks.bench_auditing PART ...``.

density  squared distance of two normal densities from samples, and the time for many samples
power    how often broken mechanisms are caught, and how often right ones are accused
matches  MNIST images found again by their nearest row, from releases of each unit
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import binomtest, norm

from benchmarks.recording import mnist, timed, write
from sfumato import Bounds, GaussianFabricator
from sfumato.audit import density_difference, empirical_epsilon
from sfumato.mechanisms import EntryMechanism
from sfumato.privacy import mu_from_budget

SEEDS = 10
SAMPLES = 5000
PIXELS = Bounds(lower=0.0, upper=1.0, labels=range(10))
DELTA = 1e-5


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    options = parser.parse_args()
    for part in options.parts or PARTS:
        write(f"auditing_{part}", PARTS[part](options), seed=0)


def density(_: argparse.Namespace) -> dict[str, Any]:
    rows = []
    for shift in (0.0, 0.1, 0.5, 1.0):
        true = float((1 - np.exp(-(shift**2) / 4)) / np.sqrt(np.pi))
        found, knowing = zip(*(_estimated(shift, true, seed) for seed in range(SEEDS)), strict=True)
        rows.append(
            {
                "shift": shift,
                "true": round(true, 5),
                "mean": round(float(np.mean(found)), 5),
                "largest_deviation": round(float(np.abs(np.subtract(found, true)).max()), 5),
                "largest_deviation_of_one_who_knows_the_densities": round(
                    float(np.abs(np.subtract(knowing, true)).max()), 5
                ),
                "largest_difference_of_the_two": round(
                    float(np.abs(np.subtract(found, knowing)).max()), 5
                ),
            }
        )
    rng = np.random.default_rng(0)
    a, b = rng.normal(0, 1, 60_000), rng.normal(0.5, 1, 10_000)
    _, seconds = timed(lambda: density_difference(a, b))
    return {"samples": SAMPLES, "seeds": SEEDS, "rows": rows, "60000_against_10000": seconds}


def _estimated(shift: float, true: float, seed: int) -> tuple[float, float]:
    """Estimate from samples, without and with knowledge of the difference of the densities.

    The second is the efficient estimator, ``2 (mean_a g - mean_b g) - integral g²`` with the true
    difference g: what it misses is the luck of the sample.
    """
    rng = np.random.default_rng(seed)
    a, b = rng.normal(0, 1, SAMPLES), rng.normal(shift, 1, SAMPLES)
    gap = partial(lambda x: norm.pdf(x) - norm.pdf(x, shift))
    return density_difference(a, b).value, 2 * float(gap(a).mean() - gap(b).mean()) - true


def power(_: argparse.Namespace) -> list[dict[str, Any]]:
    mu = mu_from_budget(1.0, DELTA)
    return [
        _caught("Laplace, true epsilon 1.25 sold as 1", _laplace(1.25), 20_000, 50, 1.0),
        _caught("Laplace, sold as what it is", _laplace(1.25), 20_000, 200, 1.25),
        _caught("Gaussian, noise too small by √2", _gauss(mu, 2**-0.5), 100_000, 50, 1.0, DELTA),
        _caught("Gaussian, sold as what it is", _gauss(mu, 1.0), 100_000, 200, 1.0, DELTA),
    ]


def _laplace(epsilon: float) -> Any:
    return lambda rng, value, n: value + rng.laplace(scale=1 / epsilon, size=n)


def _gauss(mu: float, share: float) -> Any:
    return lambda rng, value, n: value + rng.normal(scale=share / mu, size=n)


def _caught(
    name: str, draw: Any, n_runs: int, seeds: int, claimed: float, delta: float = 0.0
) -> dict[str, Any]:
    bounds = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        options = {"method": "gaussian", "delta": delta} if delta else {}
        found = empirical_epsilon(
            partial(draw, rng), 1.0, 0.0, n_runs=n_runs, batched=True, confidence=0.999, **options
        )
        bounds.append(found.epsilon)
    return {
        "mechanism": name,
        "runs_a_side": n_runs,
        "confidence": 0.999,
        "claimed": claimed,
        "refuted": f"{int(np.sum(np.array(bounds) > claimed))} of {seeds}",
        "least_bound": round(min(bounds), 3),
        "largest_bound": round(max(bounds), 3),
    }


def matches(_: argparse.Namespace) -> list[dict[str, Any]]:
    """Match 200 of 10,000 images: noise on every pixel, and rows drawn at record level."""
    X, y = mnist()[:2]
    rows, y = X[:10_000].astype(float), y[:10_000]
    found = []
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        noise = EntryMechanism(entry_bound=1.0, epsilon=epsilon)
        made = noise.release(rows[:200], ledger=None)
        found.append({"release": "entry, noise", "epsilon": epsilon, **_matched(rows, made)})
    make = GaussianFabricator(epsilon=1.0, delta=DELTA, bounds=PIXELS, random_state=0)
    made, _labels = make.fit_fabricate(rows, y)
    found.append({"release": "record, drawn", "epsilon": 1.0, **_matched(rows, made[:200])})
    return found


def _matched(rows: np.ndarray, made: np.ndarray) -> dict[str, Any]:
    distances = cdist(made, rows, "cityblock")  # the best one against Laplace noise
    ranks = (distances <= np.diagonal(distances)[:, None]).sum(axis=1)
    hits = int((ranks == 1).sum())
    return {
        "rate": round(hits / len(made), 4),
        "interval": [round(end, 4) for end in binomtest(hits, len(made)).proportion_ci(0.95)],
        "median_rank": float(np.median(ranks)),
        "candidates": len(rows),
    }


PARTS = {"density": density, "power": power, "matches": matches}

if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
