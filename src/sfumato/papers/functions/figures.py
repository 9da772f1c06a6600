"""Figures 1 to 3 of the paper on functions: densities and a kernel machine, before and after.

The paper prints no numbers with these figures. What it does print, the standard deviation of the
noise as a formula of its settings, is compared with the scatter of releases that were really made.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_moons
from sklearn.utils import check_random_state

from sfumato.models.kernel import PrivateKernelClassifier
from sfumato.papers.entry import Comparison, Entry, Outcome, Setting, claims_of, compare_runs
from sfumato.papers.functions.printed import (
    PrintedDensity,
    PrintedKernelClassifier,
    ProcessDensity,
    printed_multiplier,
)
from sfumato.papers.functions.release import (
    density_sensitivity,
    machine_sensitivity,
    sobolev_density_sensitivity,
)
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

MODES = ("paper", "strict")
UNIT = Bounds(lower=0.0, upper=1.0)


# Densities, figures 1 and 2 -----------------------------------------------------------------------

# The caption of Figure 1: 100 points, h = 0.1, alpha = 1, beta = 0.1, 1000 points of a grid.
N_ROWS, BANDWIDTH, ALPHA, BETA, N_GRID = 100, 0.1, 1.0, 0.1, 1000
CENTRES, SPREAD = (0.3, 0.7), 0.1  # the spread is not printed
SPREAD_OPEN = "The paper does not say how wide its two normals are; 0.1 is taken."
BETA_LARGE = (
    "Beta 0.1 with 100 rows is the paper's; it would allow ten of the rows to be published."
)


def printed_noise(space: str) -> float:
    """Deviation of the released density's noise at a point, as printed in 4.1 and 4.2."""
    bound = density_sensitivity if space == "gaussian" else sobolev_density_sensitivity
    return printed_multiplier(ALPHA, BETA) * bound(N_ROWS, BANDWIDTH)


def two_normals(seed: int = 0) -> Array:
    """Points of the mixture of two normals, inside the unit interval."""
    centres = np.repeat(CENTRES, N_ROWS // 2)
    points = check_random_state(seed).normal(centres, SPREAD)
    return np.asarray(np.clip(points, 0, 1)[:, None])


def two_peaks(grid: Array, curves: Array) -> Array:
    """Return for each curve whether it rises on both sides 0.1 above the valley between."""
    valley = curves[:, (grid >= 0.42) & (grid <= 0.58)].min(axis=1)
    left, right = (curves[:, side].max(axis=1) for side in (grid < 0.42, grid > 0.58))
    return np.asarray(np.minimum(left, right) >= valley + 0.1)


def variation(curves: Array) -> Array:
    """Total variation of each curve."""
    return np.asarray(np.abs(np.diff(curves, axis=-1)).sum(axis=-1))


def densities(setting: Setting, space: str) -> dict[str, Array]:
    """Return the estimate and, for each mode, many releases of it, on the grid."""
    rows, grid = two_normals(), np.linspace(0, 1, N_GRID)[:, None]
    settings: dict[str, Any] = {"space": space, "delta": BETA, "bounds": UNIT}
    n_releases = 40 if setting.quick else 100 * setting.runs
    found = {"grid": grid[:, 0]}
    with warnings.catch_warnings():  # beta is 0.1 for a hundred rows, as printed
        warnings.filterwarnings("ignore", message="delta=")
        plain = ProcessDensity(BANDWIDTH, epsilon=math.inf, **settings).fit(rows)
        found["estimate"] = plain.raw_density(grid)
        for mode, kind in zip(MODES, (PrintedDensity, ProcessDensity), strict=True):
            model = kind(BANDWIDTH, epsilon=ALPHA, **settings)
            setting.tell(f"{n_releases} releases of {kind.__name__}")
            drawn = [model.fit(rows).raw_density(grid) for _ in range(n_releases)]
            found[mode] = np.array(drawn)
    return found


def figure_of_densities(setting: Setting, space: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return figures of the releases, and curves for the picture.

    Of curves every tenth point, one release, and the band that nine of ten releases stay in.
    """
    found = densities(setting, space)
    grid, estimate = found["grid"], found["estimate"]
    curves, rough = {"estimate": estimate}, variation(estimate)
    for mode in MODES:
        low, high = np.quantile(found[mode], [0.05, 0.95], 0)
        curves |= {mode: found[mode][0], f"{mode} low": low, f"{mode} high": high}
    printed = printed_noise(space)
    paper, strict = (float((found[mode] - estimate).std()) for mode in MODES)
    what, within = "deviation of the noise at a point", 0.1 * printed
    figures = {
        "compared": Comparison(what, printed, paper, strict, within=within, unit="density"),
        "peaks": [two_peaks(grid, found[mode]) for mode in MODES],
        "variation": [variation(found[mode]) / rough for mode in MODES],
    }
    shown = {name: np.column_stack([grid, y])[::10].round(4).tolist() for name, y in curves.items()}
    return figures, {f"h = {BANDWIDTH:g}": shown}


def figure_1(setting: Setting) -> Outcome:
    """Smooth noise: the two peaks stay."""
    found, curves = figure_of_densities(setting, "gaussian")
    (peaks, mended), (rough, _) = found["peaks"], found["variation"]
    shown = compare_runs("releases that show both peaks", None, peaks, mended, unit="share")
    return Outcome(
        (found["compared"], shown),
        claims=claims_of(
            {
                "the two peaks remain in most releases": peaks - 0.5,
                "the released curve is as smooth as the estimate": 2 - rough,
            }
        ),
        series=curves,
        remarks=(SPREAD_OPEN, BETA_LARGE),
    )


def figure_2(setting: Setting) -> Outcome:
    """Noise of the Sobolev space: valid, and rough."""
    found, curves = figure_of_densities(setting, "sobolev")
    what, (rough, mended) = "variation of a release by that of the estimate", found["variation"]
    shown = compare_runs(what, None, rough, mended, unit="ratio")
    return Outcome(
        (found["compared"], shown),
        claims=claims_of({"the released curve has lost its smoothness": rough - 4}),
        series=curves,
        remarks=(
            SPREAD_OPEN,
            BETA_LARGE,
            "Mended noise is a quarter of the printed: the sensitivity is computed, not bounded by "
            "hand, and the noise is calibrated exactly.",
        ),
    )


# A kernel machine in the plane, figure 3 ---------------------------------------------------------

# The paper gives neither rows nor settings.
MACHINE = {"bandwidth": 0.2, "regularization": 0.01, "delta": 1e-5}
N_MACHINE = 1000
CORNER, SIDES = np.array([-1.5, -1.25]), np.array([4.0, 3.0])  # a box around the crescents


def printed_machine_noise() -> float:
    """``c(beta) / (alpha lambda n)``, section 4.3, for the hinge and a kernel with k(x, x) = 1."""
    bound = machine_sensitivity(N_MACHINE, MACHINE["regularization"])
    return printed_multiplier(ALPHA, MACHINE["delta"]) * bound


def moons(n_rows: int, seed: int) -> tuple[Array, Labels]:
    """Two crescents inside the unit square, one row in thirty with the other label."""
    X, y = make_moons(n_rows, noise=0.15, random_state=seed)
    flipped = check_random_state(seed).uniform(size=n_rows) < 1 / 30
    inside = (X - CORNER) / SIDES
    return np.clip(inside, 0, 1), np.where(flipped, 1 - y, y)


def machines(seed: int) -> dict[str, Any]:
    """Return the machine without noise and both releases of it."""
    X, y = moons(N_MACHINE, seed)
    shared: dict[str, Any] = {**MACHINE, "bounds": Bounds(lower=0.0, upper=1.0, labels=[0, 1])}
    kinds = {
        "not private": (PrivateKernelClassifier, math.inf),
        "paper": (PrintedKernelClassifier, ALPHA),
        "strict": (PrivateKernelClassifier, ALPHA),
    }
    return {
        name: kind("hinge", epsilon=epsilon, **shared).fit(X, y)
        for name, (kind, epsilon) in kinds.items()
    }


def figure_3(setting: Setting) -> Outcome:
    """A kernel machine in the plane, before and after its release."""
    place = np.linspace(0, 1, 25)
    square = np.stack(np.meshgrid(place, place), axis=-1).reshape(-1, 2)
    runs: list[dict[str, float]] = []
    for seed in range(setting.runs if setting.quick else 10 * setting.runs):
        setting.tell(f"machine {seed + 1}")
        fitted = machines(seed)
        X, y = moons(2000, 1000 + seed)
        figures = {name: model.score(X, y) for name, model in fitted.items()}
        plain, before = fitted["not private"], fitted["not private"].predict(X)
        for mode in MODES:
            added = fitted[mode].decision_function(square) - plain.decision_function(square)
            figures[f"{mode} noise"] = float(np.mean(added**2))
            figures[f"{mode} kept"] = float(np.mean(fitted[mode].predict(X) == before))
        runs.append(figures)
        if seed == 0:
            X, y = moons(N_MACHINE, 0)
            shown = {f"rows {c}": X[y == c][:100] for c in (0, 1)}
            series = {
                name: {
                    part: np.round(points, 3).tolist()
                    for part, points in {
                        "predicted 1": square[model.decision_function(square) > 0],
                        **shown,
                    }.items()
                }
                for name, model in fitted.items()
            }
    by = {name: [run[name] for run in runs] for name in runs[0]}
    printed = printed_machine_noise()
    noise, mended = ([math.sqrt(run[f"{mode} noise"]) for run in runs] for mode in MODES)
    kept = by["paper kept"], by["strict kept"]
    return Outcome(
        (
            compare_runs("deviation of the noise", printed, noise, mended, 0.1 * printed, "score"),
            compare_runs("accuracy before the release", None, by["not private"]),
            compare_runs("accuracy of the release", None, by["paper"], by["strict"]),
            compare_runs("decisions that stay", None, *kept, unit="share"),
        ),
        claims=claims_of(
            {"the released machine decides nearly as the machine does": np.array(kept[0]) - 0.85}
        ),
        series=series,
        remarks=(
            "Rows, bandwidth, regulariser and beta of Figure 3 are not printed; ours: 1000 points "
            "of two crescents, h = 0.2, lambda = 0.01, alpha = 1, beta = 1e-5.",
        ),
    )


ENTRIES = (
    Entry("functions", "figure-1", "A private density, smooth noise", figure_1),
    Entry("functions", "figure-2", "A private density, noise of a Sobolev space", figure_2),
    Entry("functions", "figure-3", "A kernel machine before and after its release", figure_3),
)
