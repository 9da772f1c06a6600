"""What membership looks like from outside: Figures 12 and 13 of the hull paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sfumato.papers.entry import Comparison, Entry, Outcome, Setting
from sfumato.papers.kahm.private import (
    BROKEN,
    DEFINITIONS,
    IMAGES,
    MODES,
    OPEN,
    SAMPLE,
    TABLE_5,
    TOLERANCE,
    Cell,
    Scored,
    means_of_table,
    measured,
    table_claims,
    within,
)
from sfumato.papers.pictures import draw_lines

# Figure 13: score and accuracy of the hulls of training rows, then of fabricated rows.
FIGURE_13 = ((0.35919, 0.9858), (0.05377, 0.9849))
FIGURE_13_EPSILON = 16.0


def figure_12(setting: Setting) -> Outcome:
    """Draw accuracy and score of the experiments of Table 5, one after another."""
    means = means_of_table(setting)
    experiments = list(dict.fromkeys(key[:2] for key in means))
    names = [f"{epsilon:g}, {n}" for epsilon, n in experiments]
    series: dict[str, Any] = {"experiments": names}
    for which, unit in enumerate(("accuracy", "mis")):
        curves: dict[str, list[float]] = {}
        for place, d in enumerate(DEFINITIONS):
            curves[f"printed, Definition {d}"] = [
                TABLE_5[row][2 * which + place] for row in experiments
            ]
            for mode in MODES:
                values = [means[(*row, d, mode)][which] for row in experiments]
                curves[f"{mode}, Definition {d}"] = values
        series[unit] = curves
    whole = not setting.quick
    twice = "Means are over 13 different rows; the paper's own count (32, 20) twice."
    remarks = (OPEN, TOLERANCE, SAMPLE, twice)
    rows = [
        _mean_row(f"mean {unit}, Definition {d}", unit, d, series, printed=whole)
        for unit in ("accuracy", "mis")
        for d in DEFINITIONS
    ]
    return Outcome(tuple(rows), table_claims(means), series, _draw_experiments, remarks)


def _mean_row(
    what: str, unit: str, definition: int, series: Mapping[str, Any], *, printed: bool
) -> Comparison:
    means = {
        source: float(np.mean(series[unit][f"{source}, Definition {definition}"]))
        for source in ("printed", *MODES)
    }
    known, near = means["printed"] if printed else None, within(unit, means["printed"])
    return Comparison(what, known, means["paper"], means["strict"], near, unit=unit)


def _draw_experiments(figure: Any, series: Mapping[str, Any]) -> None:
    figure.set_size_inches(11, 4.5)
    places = range(len(series["experiments"]))
    for axes, unit in zip(figure.subplots(1, 2), ("accuracy", "mis"), strict=True):
        draw_lines(axes, places, series[unit], xlabel="epsilon, n", ylabel=unit)
        axes.set_xticks(places, series["experiments"], rotation=60, fontsize=8)


# Figure 13 ----------------------------------------------------------------------------------------


def figure_13(setting: Setting) -> Outcome:
    """Compare distances of training and test rows: hulls of raw rows, hulls of fabricated rows."""
    plain = Cell(None, 20, 7, "none", 0)
    made = [Cell(FIGURE_13_EPSILON, 20, 15, mode, 0) for mode in MODES]
    found = measured(setting, [plain, *made])
    ours = [(value.score, value.accuracy) for value in found.values()]
    rows = []
    for which, unit in enumerate(("mis", "accuracy")):
        printed = [figures[which] for figures in FIGURE_13]
        raw, paper, strict = (figures[which] for figures in ours)
        near = [within(unit, figure) for figure in printed]
        rows += [
            Comparison("hulls of training rows", printed[0], raw, None, near[0], unit=unit),
            Comparison("hulls of fabricated rows", printed[1], paper, strict, near[1], unit=unit),
        ]
    names = ("hulls of training rows", "hulls of fabricated rows, paper", "the same, strict")
    series = {name: _histograms(v) for name, v in zip(names, found.values(), strict=True)}
    claims = {"fabricated rows hide membership better": ours[1][0] < ours[0][0]}
    open_epsilon = f"The paper does not say at which epsilon; {FIGURE_13_EPSILON:g} here."
    return Outcome(
        tuple(rows), claims, series, _draw_histograms, (OPEN, open_epsilon, TOLERANCE, SAMPLE)
    )


def _histograms(found: Scored) -> dict[str, Any]:
    both = np.concatenate([found.inside, found.outside])
    edges = np.linspace(0.0, float(np.quantile(both, 0.999)), 41)
    training, test = (
        np.histogram(values, edges, density=True)[0] for values in (found.inside, found.outside)
    )
    return {"edges": edges.tolist(), "training": training.tolist(), "test": test.tolist()}


def _draw_histograms(figure: Any, series: Mapping[str, Any]) -> None:
    figure.set_size_inches(12, 4)
    for axes, (name, parts) in zip(figure.subplots(1, len(series)), series.items(), strict=True):
        for part in ("training", "test"):
            axes.stairs(parts[part], parts["edges"], fill=True, alpha=0.5, label=part)
        axes.set(title=name, xlabel="distance to the nearest hull")
        axes.legend(fontsize=8)


ENTRIES = (
    Entry(
        "kahm",
        "figure-12",
        "What fabricated rows change: accuracy and membership score of Table 5",
        figure_12,
        BROKEN,
        IMAGES,
        "as Table 5",
    ),
    Entry(
        "kahm",
        "figure-13",
        "Distances of training and test rows, without and with fabricated rows",
        figure_13,
        BROKEN,
        IMAGES,
        "about 6 on one core, estimated",
    ),
)
