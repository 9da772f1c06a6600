"""Auditing: ``python -m benchmarks.bench_auditing PART ...``.

density  squared distance of two normal densities from samples, and the time for many samples
power    how often broken mechanisms are caught, and how often right ones are accused
matches  MNIST images found again by their nearest row, from releases of each unit
scores   membership scores of hulls on all of MNIST: clean, and Definitions 12 and 15 (Table 5)

``--device cuda`` fits and evaluates hulls with PyTorch there; ``--processes`` fits several at once.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import norm

from benchmarks.recording import mnist, timed, write
from sfumato import Bounds, Fabricator
from sfumato.audit import density_difference, empirical_epsilon, reidentification
from sfumato.audit.attacks import attack_from_values
from sfumato.exceptions import RefutedGuaranteeWarning
from sfumato.mechanisms import EntryMechanism
from sfumato.papers.kahm.private import DEFINITIONS, TABLE_5, classifier, min_distances
from sfumato.privacy import mu_from_budget

SEEDS = 10
SAMPLES = 5000
PIXELS = Bounds(lower=0.0, upper=1.0, labels=range(10))
DELTA = 1e-5
NO_PRIVACY = 0.359  # the score that the paper prints for hulls of raw rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--device", default=None)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[32, 16, 4])
    parser.add_argument("--n-layers", type=int, default=5)
    options = parser.parse_args()
    for part in options.parts or PARTS:
        context = (
            {} if part != "scores" else {k: v for k, v in vars(options).items() if k != "parts"}
        )
        write(f"auditing_{part}", PARTS[part](options), seed=0, **context)


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
    make = Fabricator(epsilon=1.0, delta=DELTA, bounds=PIXELS, random_state=0)
    made, _labels = make.fit_fabricate(rows, y)
    found.append({"release": "record, drawn", "epsilon": 1.0, **_matched(rows, made[:200])})
    return found


def _matched(rows: np.ndarray, made: np.ndarray) -> dict[str, Any]:
    result = reidentification(rows, made, sources=np.arange(len(made)))
    return {
        "rate": round(result.rate.value, 4),
        "interval": [round(result.rate.lower, 4), round(result.rate.upper, 4)],
        "median_rank": result.median_rank,
        "candidates": len(rows),
    }


def scores(options: argparse.Namespace) -> list[dict[str, Any]]:
    jobs: list[tuple[float | None, int, str]] = [(None, 7, "no privacy")]
    for epsilon in options.epsilon:
        jobs += [(epsilon, definition, "paper") for definition in (15, 12)]
    for epsilon in options.epsilon:
        jobs += [(epsilon, definition, "strict") for definition in (15, 12)]
    work = partial(_scored, options)
    if options.processes == 1:
        return [work(job) for job in jobs]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, mp_context=context) as pool:
        return list(pool.map(work, jobs))


def _scored(options: argparse.Namespace, job: tuple[float | None, int, str]) -> dict[str, Any]:
    """Fit one classifier; compare the distances of all training rows and all test rows."""
    warnings.simplefilter("ignore", RefutedGuaranteeWarning)
    epsilon, definition, mode = job
    X, y, X_test, y_test = mnist()
    X, y = X[: options.rows], y[: options.rows]
    shared = {"n_layers": options.n_layers, "n_jobs": 2, "random_state": 0}
    model = classifier(epsilon, definition, mode, device=options.device, **shared)
    _, fit = timed(lambda: model.fit(_placed(X, options, epsilon), y))
    inside, outside = (
        min_distances(model, _placed(rows, options, epsilon)) for rows in (X, X_test)
    )
    found, seconds = timed(lambda: density_difference(inside[0], outside[0]))
    attack = attack_from_values(inside[0], outside[0], observation="distance")
    record = {
        "epsilon": epsilon,
        "definition": definition,
        "mode": mode,
        "score": round(found.value, 5),
        "standard_error": round(found.standard_error, 5),
        "paper": _printed(epsilon, definition) if mode != "strict" else None,
        "auc": round(attack.auc.value, 4),
        "tpr_at_fpr_0.001": round(attack.true_positive_rates[0.001].value, 5),
        "accuracy": round(float(np.mean(model.classes_[outside[1]] == y_test)), 4),
        "fit_wall_s": fit["wall_s"],
        "score_wall_s": seconds["wall_s"],
    }
    print(record, flush=True)
    return record


def _printed(epsilon: float | None, definition: int) -> float:
    if epsilon is None:
        return NO_PRIVACY
    return TABLE_5[epsilon, 20][2 + DEFINITIONS.index(definition)]


def _placed(rows: np.ndarray, options: argparse.Namespace, epsilon: float | None) -> Any:
    if epsilon is not None or options.device is None:
        return rows
    import torch

    return torch.as_tensor(rows, device=options.device)


PARTS = {
    "density": density,
    "power": power,
    "matches": matches,
    "scores": scores,
}

if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    main()
