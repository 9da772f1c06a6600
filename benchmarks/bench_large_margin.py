"""Mixtures of the private large-margin classifier: what they gain and what their noise costs.

SFUMATO_DATA=... python -m benchmarks.bench_large_margin

Six sectors of the disc, classes alternating, are more than one ellipsoid of a class can tell apart;
parity of USPS digits is a task of images. All settings are the estimator's own.
"""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.utils import check_random_state

from benchmarks.recording import timed, write
from sfumato import Bounds, PrivateLargeMarginGaussianClassifier
from sfumato.papers.data import Split, images
from sfumato.papers.entry import Setting

warnings.filterwarnings("ignore", message="delta=")
DELTA, RUNS, LABELS = 1e-5, 10, [0, 1]
DISC = {"bounds": Bounds(norm=1.0, labels=LABELS)}
PIXELS = {
    "n_components": 10,
    "normalize_rows": True,
    "bounds": Bounds(lower=0.0, upper=1.0, labels=LABELS),
}


def sectors(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of the unit disc, whose class changes every sixth of a turn."""
    generator = check_random_state(seed)
    angle = generator.uniform(0, 2 * np.pi, n_rows)
    length = np.sqrt(generator.uniform(0, 1, n_rows))
    rows = length[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return rows, (np.cos(3 * angle) > 0).astype(int)


def main() -> None:
    """Fit mixtures of one to eight ellipsoids a class, ten times each."""
    usps = images(Setting(), "usps")
    tasks = {
        "six sectors, 5,000 rows": (Split(*sectors(5000, 0), *sectors(2000, 1)), DISC),
        "parity of USPS": (Split(usps.X, usps.y % 2, usps.X_test, usps.y_test % 2), PIXELS),
    }
    numbers = []
    for name, (split, words) in tasks.items():
        for epsilon in (0.3, 1.0, 4.0):
            for n in (1, 2, 4, 8):
                model = PrivateLargeMarginGaussianClassifier(
                    epsilon=epsilon, delta=DELTA, n_ellipsoids=n, **words
                )
                runs, seconds = [], 0.0
                for _ in range(RUNS):
                    fitted, took = timed(lambda m=model, s=split: m.fit(s.X, s.y))
                    runs.append(round(fitted.score(split.X_test, split.y_test), 4))
                    seconds += took["cpu_s"]
                numbers.append(
                    {
                        "data": name,
                        "epsilon": epsilon,
                        "ellipsoids": n,
                        "accuracy": round(float(np.mean(runs)), 4),
                        "deviation": round(float(np.std(runs, ddof=1)), 4),
                        "cpu_s": round(seconds / RUNS, 3),
                    }
                )
    write("large_margin_mixtures", numbers, seed=None, runs=RUNS, delta=DELTA)


if __name__ == "__main__":
    main()
