"""How long a hull takes to fit: Table 11 and Figure 17 of the hull paper."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from sfumato.models.hulls import KernelAffineHull
from sfumato.papers.entry import Comparison, Entry, Outcome, Setting

# (N, p): seconds in MATLAB on a laptop of 2.2 GHz.
TABLE_11 = {
    (100, 100): 0.0193,
    (100, 1000): 0.1077,
    (173, 1734): 0.3232,
    (316, 3162): 1.9783,
    (500, 5000): 10.0412,
    (600, 6000): 18.1033,
    (700, 7000): 27.2175,
    (750, 7500): 37.9418,
    (800, 8000): 67.8467,
    (850, 8500): 80.1050,
    (900, 9000): 101.2839,
    (950, 9500): 126.7630,
    (1000, 10_000): 133.0497,
}
MAX_PRINTED = (1000, 20_000), 1600.0  # named in the text
QUICK_LARGEST = 1_000_000  # numbers in a quick run
FEATURES = (10, 100, 500, 1000, 2500, 5000, 7500, 10_000, 12_500, 15_000, 17_500, 20_000)
COMPONENTS = (5, 10, 20, 50, 75, 100, 200, 300, 400, 500)
ROWS = tuple(range(100, 1001, 100))
SHAPES = (
    "The paper prints N x p only; N = p / 10 is assumed, which its largest sizes suggest. "
    "Ours is processor time of all threads, which other work on the machine does not stretch; "
    "two machines and two programs are compared, so that faster counts as reproduced."
)
TOTAL = "N times p"


def seconds_to_fit(n_rows: int, n_features: int, n_components: int = 20, runs: int = 1) -> float:
    """Return the least processor time, of all threads, to fit a hull of Gaussian rows."""
    rows = check_random_state(0).normal(size=(n_rows, n_features))
    hull = KernelAffineHull(n_components=n_components)
    taken = []
    for _ in range(runs):
        begun = time.process_time()
        hull.fit(rows)
        taken.append(time.process_time() - begun)
    return min(taken)


def _timed(setting: Setting, n_rows: int, n_features: int, n_components: int = 20) -> float:
    setting.tell(f"{n_rows} rows of {n_features} numbers, n {n_components}")
    return seconds_to_fit(n_rows, n_features, n_components, setting.runs)


def table_11(setting: Setting) -> Outcome:
    """Time hulls of growing size."""
    _timed(setting, 100, 100)  # the first fit also loads libraries
    sizes = [(n, p) for n, p in TABLE_11 if not setting.quick or n * p <= QUICK_LARGEST]
    rows = [
        Comparison(
            f"{n} x {p}", TABLE_11[n, p], _timed(setting, n, p), None, 0.0, "lower", "seconds"
        )
        for n, p in sizes
    ]
    series = {
        TOTAL: [n * p for n, p in sizes],
        "printed": [row.printed for row in rows],
        "ours": [row.paper for row in rows],
    }
    return Outcome(tuple(rows), series=series, draw=_draw_sizes, remarks=(SHAPES,))


def _draw_sizes(figure: Any, series: Mapping[str, Any]) -> None:
    axes = figure.add_subplot()
    for name in ("printed", "ours"):
        axes.loglog(series[TOTAL], series[name], "o-", markersize=4, label=name)
    axes.set(xlabel=TOTAL, ylabel="seconds")
    axes.grid(alpha=0.3)
    axes.legend()


def figure_17(setting: Setting) -> Outcome:
    """Time hulls against the number of features, of components, of rows and of all numbers."""
    _timed(setting, 100, 100)
    n, p = (300, 500) if setting.quick else (1000, 5000)
    features = FEATURES[:4] if setting.quick else FEATURES
    components = COMPONENTS[:4] if setting.quick else COMPONENTS
    rows = ROWS[:3] if setting.quick else ROWS
    sizes = [(r, 10 * r) for r in rows]
    sweeps = {
        "p": (features, [_timed(setting, n, q, min(20, q)) for q in features]),
        "n": (components, [_timed(setting, n, p, c) for c in components]),
        "N": (rows, [_timed(setting, r, p) for r in rows]),
        TOTAL: ([a * b for a, b in sizes], [_timed(setting, a, b) for a, b in sizes]),
    }
    series: dict[str, Any] = {name: {"x": list(x), "seconds": y} for name, (x, y) in sweeps.items()}
    remarks = (SHAPES, f"Where the paper leaves a size open: N = {n}, p = {p}, n = 20.")
    if setting.quick:
        return Outcome((), _growth_claims(series), series, _draw_sweeps, remarks)
    (n, p), printed = MAX_PRINTED
    ours = series["p"]["seconds"][-1]
    largest = Comparison(f"{n} x {p}", printed, ours, None, 0.0, "lower", "seconds")
    return Outcome((largest,), _growth_claims(series), series, _draw_sweeps, remarks)


def _growth_claims(series: Mapping[str, Any]) -> dict[str, bool]:
    """Return whether no sweep grows faster than the cube of what is swept, by a factor 10."""
    slow = {}
    for name in ("p", "N", TOTAL):
        x, seconds = series[name]["x"], series[name]["seconds"]
        slow[name] = seconds[-1] / seconds[0] < 10 * (x[-1] / x[0]) ** 3
    return {"time grows no faster than the cube of N, p and N times p": all(slow.values())}


def _draw_sweeps(figure: Any, series: Mapping[str, Any]) -> None:
    figure.set_size_inches(12, 3.6)
    for axes, (name, sweep) in zip(figure.subplots(1, len(series)), series.items(), strict=True):
        axes.plot(sweep["x"], np.asarray(sweep["seconds"]), "o-", markersize=3)
        axes.set(xlabel=name, ylabel="seconds")
        axes.grid(alpha=0.3)


ENTRIES = (
    Entry("kahm", "table-11", "Seconds to fit a hull, by size", table_11),
    Entry("kahm", "figure-17", "Seconds against p, n, N and N times p", figure_17),
)
