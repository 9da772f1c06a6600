"""Figures 1 and 2 of the paper on functions: a density, released with smooth and rough noise.

The paper prints no numbers beside these figures. What it does print, the standard deviation of the
noise as a formula of its settings, is compared with the scatter of releases that were really made.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from sfumato.models.density import PrivateDensity
from sfumato.papers.entry import Comparison, Entry, Outcome, Setting
from sfumato.papers.functions.printed import PrintedDensity
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]

# The caption of Figure 1: 100 points, h = 0.1, alpha = 1, beta = 0.1, 1000 points of a grid.
N_ROWS, BANDWIDTH, ALPHA, BETA, N_GRID = 100, 0.1, 1.0, 0.1, 1000
CENTRES, SPREAD = (0.3, 0.7), 0.1  # the spread is not printed
SHOWN_BANDWIDTHS = (0.05, 0.1, 0.2)
MODES = ("paper", "strict")
UNIT = Bounds(lower=0.0, upper=1.0)


def c_of(beta: float) -> float:
    """``c(beta) = √(2 ln(2/beta))`` of Proposition 3."""
    return math.sqrt(2 * math.log(2 / beta))


def printed_noise(space: str, h: float = BANDWIDTH) -> float:
    """Deviation of the released density's noise at a point, as printed in 4.1 and 4.2."""
    sensitivity: float = {
        "gaussian": math.sqrt(2) / (N_ROWS * math.sqrt(2 * math.pi) * h),
        "sobolev": 2 / ((2 * math.pi) ** 0.25 * N_ROWS * h),
    }[space]
    return c_of(BETA) * sensitivity / ALPHA


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


def densities(setting: Setting, space: str, h: float) -> dict[str, Array]:
    """Return the estimate and, for each mode, many releases of it, on the grid."""
    rows, grid = two_normals(), np.linspace(0, 1, N_GRID)[:, None]
    settings: dict[str, Any] = {"space": space, "delta": BETA, "bounds": UNIT}
    n_releases = 40 if setting.quick else 100 * setting.runs
    with _beta_above_one_row():
        plain = PrivateDensity(h, epsilon=math.inf, **settings).fit(rows)
        models = {
            mode: kind(h, epsilon=ALPHA, **settings)
            for mode, kind in zip(MODES, (PrintedDensity, PrivateDensity), strict=True)
        }
        released = {
            mode: np.array([model.fit(rows).raw_density(grid) for _ in range(n_releases)])
            for mode, model in models.items()
        }
    return {"grid": grid[:, 0], "estimate": plain.raw_density(grid), **released}


@contextmanager
def _beta_above_one_row() -> Iterator[None]:
    """Beta is 0.1 for a hundred rows, as printed; the remark of the entry says what that means."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="delta=")
        yield


def _figure(setting: Setting, space: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return figures of the caption's bandwidth, and curves at several for the picture."""
    curves = {}
    for h in SHOWN_BANDWIDTHS:
        setting.tell(f"densities of bandwidth {h}")
        found = densities(setting, space, h)
        curves[f"{h:g}"] = _thinned(found)
        if h == BANDWIDTH:
            figures = _density_figures(found)
    return figures, curves


def _density_figures(found: Mapping[str, Array]) -> dict[str, Any]:
    grid, estimate = found["grid"], found["estimate"]
    return {
        "noise": {mode: float((found[mode] - estimate).std()) for mode in MODES},
        "peaks": {mode: float(two_peaks(grid, found[mode]).mean()) for mode in MODES},
        "variation": {
            mode: float(variation(found[mode]).mean() / variation(estimate)) for mode in MODES
        },
    }


def _thinned(found: Mapping[str, Array], step: int = 10) -> dict[str, list[float]]:
    """Keep every tenth point, one release, and the band that nine of ten releases stay in."""
    curves = {name: found[name] for name in ("grid", "estimate")}
    for mode in MODES:
        curves[mode] = found[mode][0]
        curves[f"{mode} low"], curves[f"{mode} high"] = np.quantile(found[mode], [0.05, 0.95], 0)
    return {name: np.round(values[::step], 4).tolist() for name, values in curves.items()}


def draw_densities(figure: Any, series: Mapping[str, Any]) -> None:
    """One panel a bandwidth: the estimate solid, a release dashed, the bands of releases."""
    panels = figure.subplots(1, len(series), sharey=True)
    for axes, (h, curves) in zip(panels, series.items(), strict=True):
        for mode, colour in (("paper", "tab:orange"), ("strict", "tab:blue")):
            band = curves[f"{mode} low"], curves[f"{mode} high"]
            axes.fill_between(curves["grid"], *band, color=colour, alpha=0.2, linewidth=0)
            axes.plot(curves["grid"], curves[mode], "--", color=colour, label=f"released, {mode}")
        axes.plot(curves["grid"], curves["estimate"], "k-", label="estimate")
        axes.set_title(f"h = {h}", fontsize=10)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("density")
    panels[0].legend(fontsize=8)


def figure_1(setting: Setting) -> Outcome:
    """Smooth noise: the two peaks stay."""
    found, curves = _figure(setting, "gaussian")
    return Outcome(
        (_noise("gaussian", found), _row("releases that show both peaks", found["peaks"], "share")),
        claims={
            "the two peaks remain in most releases": found["peaks"]["paper"] > 0.5,
            "the released curve is as smooth as the estimate": found["variation"]["paper"] < 2,
        },
        series=curves,
        draw=draw_densities,
        remarks=(SPREAD_OPEN, BETA_LARGE),
    )


def figure_2(setting: Setting) -> Outcome:
    """Noise of the Sobolev space: valid, and rough."""
    found, curves = _figure(setting, "sobolev")
    rough = _row("variation of a release by that of the estimate", found["variation"], "ratio")
    return Outcome(
        (_noise("sobolev", found), rough),
        claims={"the released curve has lost its smoothness": found["variation"]["paper"] > 4},
        series=curves,
        draw=draw_densities,
        remarks=(
            SPREAD_OPEN,
            BETA_LARGE,
            "Strict noise is a quarter of the printed: the sensitivity is computed, not bounded by "
            "hand, and the noise is calibrated exactly.",
        ),
    )


SPREAD_OPEN = "The paper does not say how wide its two normals are; 0.1 is taken."
BETA_LARGE = (
    "Beta 0.1 with 100 rows is the paper's; it would allow ten of the rows to be published."
)


def _noise(space: str, found: Mapping[str, Any]) -> Comparison:
    printed = printed_noise(space)
    return Comparison(
        "deviation of the noise at a point",
        printed,
        found["noise"]["paper"],
        found["noise"]["strict"],
        within=0.1 * printed,
        unit="density",
    )


def _row(what: str, found: Mapping[str, float], unit: str) -> Comparison:
    return Comparison(what, None, found["paper"], found["strict"], unit=unit)


ENTRIES = (
    Entry("functions", "figure-1", "A private density, smooth noise", figure_1),
    Entry("functions", "figure-2", "A private density, noise of a Sobolev space", figure_2),
)
