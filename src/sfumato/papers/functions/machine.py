"""Figure 3 of the paper on functions: a kernel machine in the plane, before and after release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_moons
from sklearn.utils import check_random_state

from sfumato.models.kernel import PrivateKernelClassifier
from sfumato.papers.entry import Comparison, Entry, Outcome, Setting
from sfumato.papers.functions.printed import PrintedKernelClassifier
from sfumato.tables.bounds import Bounds

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

# The paper gives neither rows nor settings.
N_ROWS, BANDWIDTH, LAMBDA, ALPHA, BETA = 1000, 0.2, 0.01, 1.0, 1e-5
OURS = "1000 points of two crescents, h = 0.2, lambda = 0.01, alpha = 1, beta = 1e-5."
MODES = ("paper", "strict")
CORNER, SIDES = np.array([-1.5, -1.25]), np.array([4.0, 3.0])  # a box around the crescents


def printed_noise() -> float:
    """``c(beta) / (alpha lambda n)``, section 4.3, for the hinge and a kernel with k(x, x) = 1."""
    return math.sqrt(2 * math.log(2 / BETA)) / (ALPHA * LAMBDA * N_ROWS)


def moons(n_rows: int, seed: int) -> tuple[Array, Labels]:
    """Two crescents inside the unit square, one row in thirty with the other label."""
    X, y = make_moons(n_rows, noise=0.15, random_state=seed)
    flipped = check_random_state(seed).uniform(size=n_rows) < 1 / 30
    inside = (X - CORNER) / SIDES
    return np.clip(inside, 0, 1), np.where(flipped, 1 - y, y)


def machines(seed: int) -> dict[str, Any]:
    """Return the machine without noise and both releases of it."""
    X, y = moons(N_ROWS, seed)
    shared: dict[str, Any] = {
        "bandwidth": BANDWIDTH,
        "regularization": LAMBDA,
        "delta": BETA,
        "bounds": Bounds(lower=0.0, upper=1.0, labels=[0, 1]),
    }
    changes: dict[str, dict[str, Any]] = {
        "not private": {"epsilon": math.inf},
        "paper": {"epsilon": ALPHA},
        "strict": {"epsilon": ALPHA},
    }
    return {
        name: (PrintedKernelClassifier if name == "paper" else PrivateKernelClassifier)(
            "hinge", **shared, **change
        ).fit(X, y)
        for name, change in changes.items()
    }


def figure_3(setting: Setting) -> Outcome:
    """A kernel machine in the plane, before and after its release."""
    place = np.linspace(0, 1, 25)
    square = np.stack(np.meshgrid(place, place), axis=-1).reshape(-1, 2)
    runs = []
    for seed in range(setting.runs if setting.quick else 10 * setting.runs):
        setting.tell(f"machine {seed + 1}")
        fitted = machines(seed)
        runs.append(_machine_figures(fitted, square, *moons(2000, 1000 + seed)))
        if seed == 0:
            series = _planes(fitted, place, square, *moons(N_ROWS, 0))
    mean = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
    printed = printed_noise()
    return Outcome(
        (
            Comparison(
                "deviation of the noise of a score",
                printed,
                math.sqrt(mean["paper noise"]),
                math.sqrt(mean["strict noise"]),
                within=0.1 * printed,
                unit="score",
            ),
            Comparison("accuracy before the release", None, mean["not private"], None),
            Comparison("accuracy of the release", None, mean["paper"], mean["strict"]),
            Comparison(
                "decisions that stay", None, mean["paper kept"], mean["strict kept"], unit="share"
            ),
        ),
        claims={
            "the released machine decides nearly as the machine does": mean["paper kept"] > 0.85
        },
        series=series,
        draw=draw_planes,
        remarks=(
            "Rows, bandwidth, regulariser and beta of Figure 3 are not printed; ours: " + OURS,
        ),
    )


def _machine_figures(
    fitted: Mapping[str, Any], square: Array, X: Array, y: Labels
) -> dict[str, float]:
    figures = {name: model.score(X, y) for name, model in fitted.items()}
    plain, decided = fitted["not private"].decision_function(square), {}
    before = fitted["not private"].predict(X)
    for mode in MODES:
        added = fitted[mode].decision_function(square) - plain
        decided[f"{mode} noise"] = float(np.mean(added**2))
        decided[f"{mode} kept"] = float(np.mean(fitted[mode].predict(X) == before))
    return figures | decided


def _planes(
    fitted: Mapping[str, Any],
    place: Array,
    square: Array,
    X: Array,
    y: Labels,
) -> dict[str, Any]:
    scores = {
        name: np.round(model.decision_function(square), 3).reshape(len(place), -1).tolist()
        for name, model in fitted.items()
    }
    points = {str(label): np.round(X[y == label][:100], 3).tolist() for label in (0, 1)}
    return {"place": np.round(place, 4).tolist(), "scores": scores, "points": points}


def draw_planes(figure: Any, series: Mapping[str, Any]) -> None:
    """One panel a machine: the predicted class as colour, the boundary, rows as points."""
    figure.set_size_inches(9, 3.6)
    panels = figure.subplots(1, len(series["scores"]), sharey=True)
    for axes, (name, scores) in zip(panels, series["scores"].items(), strict=True):
        place = series["place"]
        axes.contourf(place, place, scores, [-1e9, 0, 1e9], colors=["#ffd9b3", "#cfe2f3"])
        axes.contour(place, place, scores, [0], colors="black", linewidths=1)
        for label, mark, colour in (("0", ".", "tab:orange"), ("1", "x", "tab:blue")):
            x, y = zip(*series["points"][label], strict=True)
            axes.plot(x, y, mark, color=colour, markersize=4)
        axes.set_title(name if name == "not private" else f"released, {name}", fontsize=10)
        axes.set_aspect("equal")


ENTRIES = (
    Entry("functions", "figure-3", "A kernel machine before and after its release", figure_3),
)
