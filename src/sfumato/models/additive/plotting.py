"""Pictures of explanations."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.models.additive.explanation import ColumnCurve, Explanation


def plot_explanation(
    explanation: Explanation, *, n_columns: int = 6, score: int = -1, figure: Any = None
) -> Any:
    """Draw the curves of the most important columns with their bands.

    Parameters
    ----------
    explanation : Explanation
        What `explain` gave.
    n_columns : int, default=6
        How many columns to draw.
    score : int, default=-1
        Which score.
    figure : matplotlib Figure, optional
        Where to draw; by default a new one.

    Returns
    -------
    matplotlib Figure
        The picture.
    """
    from matplotlib.figure import Figure  # an extra: imported when a picture is asked for

    shown = explanation.curves[:n_columns]
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    figure = figure or Figure(figsize=(3.4 * across, 2.6 * down), layout="constrained")
    axes = np.atleast_1d(figure.subplots(down, across, squeeze=False)).ravel()
    for axis, curve in zip(axes, shown, strict=False):
        _draw(axis, curve, score)
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    figure.supylabel(f"adds to {explanation.scores[score]}")
    return figure


def _draw(axis: Any, curve: ColumnCurve, score: int) -> None:
    values, band = curve.curve[score], curve.band[score]
    places = np.array(curve.values) if curve.is_number else np.arange(len(values))
    if curve.is_number:
        axis.fill_between(places, values - band, values + band, alpha=0.25, linewidth=0)
        axis.plot(places, values, marker=".")
        if places.dtype.kind == "O":  # dates are long
            axis.tick_params(axis="x", labelsize=7, rotation=30)
    else:
        axis.errorbar(places, values, yerr=band, fmt="o", capsize=2)
        axis.set_xticks(places, [str(each) for each in curve.values], rotation=60, ha="right")
        axis.tick_params(axis="x", labelsize=7)
    axis.axhline(0, linewidth=0.6, color="grey")
    axis.set_title(curve.name, fontsize=9)
